import os
from pathlib import Path

import pytest
from hypothesis import settings

from streamrank.features.offsets import Offsets

# the first call of a kernel compiles it, which no deadline allows for
settings.register_profile("streamrank", deadline=None)
settings.load_profile("streamrank")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch):
    for name in list(os.environ):
        if name.startswith("STREAMRANK_") and name not in ("STREAMRANK_DATA", "STREAMRANK_REQUIRE_SERVERS"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def public_data():
    """The folder of public data sets, for tests that use them where they are."""
    folder = Path(os.environ.get("STREAMRANK_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no public data sets here: set STREAMRANK_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="module")
def uncentred():
    """Rows with their numbers as they were sent, not counted from what is typical of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Offsets, "centred", lambda _, rows, **__: rows)
        yield
