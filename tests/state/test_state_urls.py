import subprocess
import sys
from pathlib import Path

import pytest

from streamrank.errors import ConfigError, StoreError
from streamrank.state import open_store
from streamrank.state.memory import MemoryStore
from streamrank.state.sqlite import SqliteStore


@pytest.mark.parametrize("url", ["", "sqlite", "sqlite:/s.db", "mysql://x", "SQLITE:///s.db", "/tmp/s.db"])
def test_an_unknown_scheme_is_refused_with_all_that_is_accepted(url: str) -> None:
    with pytest.raises(ConfigError, match=r"memory://name.*sqlite:///relative.*sqlite:////absolute"):
        open_store(url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://s.db", "sqlite://host/s.db"])
def test_a_missing_path_is_refused_with_the_form_it_takes(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sqlite:///relative/file\.db"):
        open_store(url)


def test_three_slashes_are_relative_and_four_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    with open_store("sqlite:///in/s.db") as store:
        assert isinstance(store, SqliteStore)
        store.acquire("a")
    assert (tmp_path / "in" / "s.db").exists()
    with open_store(f"sqlite:///{tmp_path}/in/s.db") as store:
        assert store.shards() == ["a"]


def test_a_missing_folder_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        open_store(f"sqlite:///{tmp_path}/none/s.db")


def test_memory_of_one_name_is_shared_and_without_a_name_is_private() -> None:
    with open_store("memory://shared-here") as one, open_store("memory://shared-here") as two:
        assert isinstance(one, MemoryStore)
        one.acquire("a")
        assert two.shards() == ["a"]
    with open_store("memory://") as one, open_store("memory://") as two:
        one.acquire("a")
        assert two.shards() == []


def test_a_backend_is_loaded_only_when_it_is_asked_for() -> None:
    script = (
        "import sys; from streamrank.state import open_store; open_store('memory://')\n"
        "assert 'streamrank.state.memory' in sys.modules and 'streamrank.state.sqlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
