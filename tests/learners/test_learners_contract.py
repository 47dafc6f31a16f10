"""Every learner, in several settings, against the contract."""

from collections.abc import Callable

import pytest

from streamrank.learners.base import Ranker
from streamrank.learners.checks import yield_checks
from streamrank.learners.lambdarank import LambdaRank
from streamrank.learners.listnet import ListNet
from streamrank.learners.ranknet import RankNet
from streamrank.learners.registry import LEARNERS
from streamrank.learners.robirank import RoBiRank
from streamrank.learners.song import KSONG, SONG

MAKES: dict[str, Callable[[], Ranker]] = {
    **{
        name: LEARNERS[name]
        for name in ("approxndcg", "lambdarank", "listmle", "listnet", "neuralndcg", "pdgd", "robirank")
    },
    "robirank-2": lambda: RoBiRank(type=2),
    "robirank-sampled": lambda: RoBiRank(sample=2, seed=5),
    "song": lambda: SONG(max_queries=20),
    "ksong": lambda: KSONG(k=2, max_queries=20),
    "song-momentum": lambda: SONG(rate=0.003, optimiser="momentum", max_queries=20, max_items=4),
    "listnet-hidden": lambda: ListNet(hidden=4),
    "lambdarank-hidden": lambda: LambdaRank(hidden=3),
    "song-hidden": lambda: SONG(hidden=4, rate=0.1, max_queries=20),
    "ksong-hidden": lambda: KSONG(k=2, hidden=4, rate=0.1, max_queries=20, practical=True),
    "ranknet": RankNet,
    "ranknet-raw": lambda: RankNet(scale=False),
    "ranknet-last-iterate": lambda: RankNet(horizon=1),
    "ranknet-fast": lambda: RankNet(rate=0.3, horizon=20, scale=False),
}
# where scores lie far apart, smooth places have no slope left: what extreme lists taught is unlearnt slowly
SKIP = {
    "approxndcg": ["check_extreme_input_does_no_lasting_harm"],
    # what all items share still moves the thresholds of hidden units
    **{name: ["check_constant_features_get_no_weight"] for name in MAKES if name.endswith("-hidden")},
}
CASES = [
    pytest.param(check, id=f"{learner}-{name}")
    for learner, make in MAKES.items()
    for name, check in yield_checks(make, SKIP.get(learner, ()))
]


@pytest.mark.parametrize("check", CASES)
def test_the_contract_holds(check):
    check()
