import msgspec
import pytest

from streamrank.config import ModelSettings, RecommenderSettings, Settings
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator


@pytest.fixture(scope="session")
def log():
    """A stream with everything in it that goes wrong in life."""
    settings = SimulationSettings(
        events=3000, seed=11, malformed=0.02, duplicates=0.03, late=0.02, drift_at=0.5, mean_gap_ms=20_000
    )
    return list(Simulator(settings).records())


@pytest.fixture
def settings():
    models = [
        ModelSettings(name="champion"),
        ModelSettings(name="challenger", learner="ranknet", params={"rate": 0.02}),
        ModelSettings(
            name="remembering", learner="ksong", params={"k": 3, "max_queries": 12, "max_items": 9}
        ),
    ]
    recommenders = [
        RecommenderSettings(name="latent", params={"d": 4, "negatives": 4, "fields": ["brand", "tags"]}),
        RecommenderSettings(name="small", learner="bpr", params={"d": 2, "max_users": 16, "max_items": 24}),
    ]
    return msgspec.structs.replace(Settings(), models=models, recommenders=recommenders, commit_ms=10**9)
