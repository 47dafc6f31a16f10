"""One entry a backend: where its next store is found. Two stores opened there share their data."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from streamrank.state import Store, open_store

BACKENDS: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "memory": lambda _: f"memory://{uuid.uuid4().hex}",
    "sqlite": lambda request: f"sqlite:///{request.getfixturevalue('tmp_path') / 'state.db'}",
    "redis": lambda request: f"{request.getfixturevalue('redis_url')}?prefix={uuid.uuid4().hex}",
    "cluster": lambda request: f"{request.getfixturevalue('redis_cluster').url}?prefix={uuid.uuid4().hex}",
}


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest) -> str:
    return BACKENDS[request.param](request)


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """open_store, closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(open_store(url))


@pytest.fixture
def store(url: str, opened: Callable[[str], Store]) -> Store:
    return opened(url)
