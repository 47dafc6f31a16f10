"""One entry a backend: where its next store is found. Two stores opened there share their data."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streamrank.state import Store, open_store

BACKENDS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: f"memory://{uuid.uuid4().hex}",
    "sqlite": lambda folder: f"sqlite:///{folder / 'state.db'}",
}


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """open_store, closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(open_store(url))


@pytest.fixture
def store(url: str, opened: Callable[[str], Store]) -> Store:
    return opened(url)
