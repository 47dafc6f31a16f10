"""`streamrank state`, `digest --by-shard`, and stores of several kinds."""

import json
import uuid

import pytest

from streamrank.cli import main
from streamrank.config import Settings
from streamrank.state import Standing, open_store

LEARNER = Settings().models[0].learner


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def command(line):
        code = main(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def answer(result):
    code, out, _ = result
    assert code == 0, result
    return json.loads(out.strip().splitlines()[-1])


@pytest.fixture(params=["sqlite", "redis", "cluster"])
def url(request):
    """Where a store of each kind may be made."""
    if request.param == "sqlite":
        return "sqlite:///s.db"
    if request.param == "redis":
        return f"{request.getfixturevalue('redis_url')}?prefix={uuid.uuid4().hex}"
    return f"{request.getfixturevalue('redis_cluster').url}?prefix={uuid.uuid4().hex}"


@pytest.fixture
def learnt(run, url):
    """A store that has learnt something; the summary of the replay."""
    run("simulate --events 600 --malformed 0.02 --seed 3 --out log.jsonl")
    return answer(run(f"replay log.jsonl --store {url} --commit-every 50 --json"))


def test_every_kind_of_store_learns_the_same_and_a_snapshot_goes_from_one_to_another(run, url, learnt):
    assert learnt["digest"] == answer(run("replay log.jsonl --store sqlite:///other.db --json"))["digest"]
    answer(run(f"snapshot --store {url} --out s.safetensors --json"))
    answer(run("restore s.safetensors --store sqlite:///t.db --json"))
    answer(run("snapshot --store sqlite:///t.db --out t.safetensors --json"))
    back = f"{url}back" if "?prefix=" in url else "sqlite:///back.db"
    assert answer(run(f"restore t.safetensors --store {back} --json"))["digest"] == learnt["digest"]
    letters = [answer(run(f"dlq list --store {where} --json"))["letters"] for where in (url, back)]
    assert letters[0] == letters[1] != []
    assert answer(run(f"replay log.jsonl --store {back} --json"))["digest"] == learnt["digest"]


def test_digests_by_shard_tell_which_shard_differs(run, url, learnt):
    with open_store(url if "?" in url else "sqlite:///s.db") as store:
        store.commit("x", store.acquire("x"), {"w": b"1"}, start=0, end=4)
        store.acquire("held, but empty")
    before = answer(run(f"digest --by-shard --store {url} --json"))
    assert before["digest"] == answer(run(f"digest --store {url} --json"))["digest"]
    assert list(before["shards"]) == ["0", "x"]
    assert before["shards"]["0"] == {"digest": learnt["digest"], "offset": 600}
    with open_store(url) as store:
        store.commit("x", 1, {"w": b"2"}, start=4, end=4)
    after = answer(run(f"digest --by-shard --store {url} --json"))
    assert after["shards"]["0"] == before["shards"]["0"]
    assert after["shards"]["x"] != before["shards"]["x"]
    assert after["shards"]["x"]["digest"] in run(f"digest --by-shard --store {url}")[1]


def test_what_a_store_holds_is_shown(run, url, learnt):
    (shard,) = answer(run(f"state show --store {url} --json"))["shards"].items()
    name, found = shard
    assert name == "0"
    assert (found["epoch"], found["generation"], found["owner"], found["offset"]) == (1, 0, "", 600)
    assert found["events"] == 600
    assert found["letters"] == learnt["rejected"] > 0
    quality = found["models"]["default"]
    assert quality["learner"] == LEARNER
    assert quality["ndcg@10"] == pytest.approx(learnt["models"]["default"]["ndcg@10"])
    assert found["settings"]["join"]["window_ms"] == 1_800_000
    code, out, _ = run(f"state show --store {url}")
    assert code == 0
    assert LEARNER in out
    assert "window_ms" in out


def test_the_memory_is_reported_by_kind_with_what_to_lower(run, url, learnt):
    report = answer(run(f"state memory --store {url} --json"))
    kinds = report["kinds"]
    assert report["bytes"] == sum(share["bytes"] for share in kinds.values())
    assert report["shards"] == {"0": kinds}
    assert all(kinds[kind]["bytes"] > 0 for kind in ("weights", "joins", "ids", "features", "letters"))
    assert kinds["letters"]["entries"] == learnt["rejected"]
    assert answer(run(f"state show --store {url} --json"))["shards"]["0"]["bytes"] == report["bytes"]
    assert sum(report["stored"].values()) > report["bytes"] * 0.9
    out = run(f"state memory --store {url}")[1]
    assert "join.max_open or join.window_ms" in out


def test_a_reset_is_meant_or_not_made(run, url, learnt, monkeypatch):
    for wrong in ("state reset", "state reset --all --shard 0"):
        with pytest.raises(SystemExit):
            run(f"{wrong} --store {url}")
    code, _, err = run(f"state reset --shard 7 --store {url} --yes")
    assert (code, "no shard 7; it has 0" in err) == (2, True)
    code, _, err = run(f"state reset --all --store {url}")
    assert (code, "at offset 600" in err, "--yes" in err) == (2, True, True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "no")
    assert run(f"state reset --all --store {url}")[0] == 2
    assert answer(run(f"digest --store {url} --json"))["digest"] == learnt["digest"]
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    assert run(f"state reset --all --store {url}")[:2] == (0, "shard 0: empty, now at epoch 2\n")
    with open_store(url) as store:
        assert (store.standing("0"), store.load("0")) == (Standing(epoch=2), {})
    again = answer(run(f"replay log.jsonl --store {url} --json"))
    assert again["digest"] == learnt["digest"]


def test_a_reset_can_keep_what_was_learnt_and_forget_the_generation(run, url, learnt):
    with open_store(url) as store:
        store.acquire("0", generation=9, owner="host:1")
    answer(run(f"state reset --shard 0 --keep-state --yes --store {url} --json"))
    with open_store(url) as store:
        assert store.standing("0") == Standing(epoch=3, offset=600)
    assert answer(run(f"digest --store {url} --json"))["digest"] == learnt["digest"]


def test_a_password_is_not_printed_by_the_commands(run, redis_url):
    address = redis_url.partition("://")[2]
    url = f"redis://default:secret@{address}?prefix={uuid.uuid4().hex}"
    code, out, err = run(f"digest --store {url}")
    assert code == 4
    assert "secret" not in out + err


def test_an_unreachable_redis_is_one_line_and_exit_code_4(run, monkeypatch, start_redis):
    server = start_redis()
    server.kill()
    monkeypatch.setenv("STREAMRANK_REDIS_RETRY_MS", "0")
    code, out, err = run(f"state show --store {server.url}")
    assert (code, out) == (4, "")
    assert f"127.0.0.1:{server.port}" in err
    assert len(err.splitlines()) == 1
