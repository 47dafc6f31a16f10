"""The commands as users type them."""

import json
import sys

import pytest

from streamrank.cli import main
from streamrank.config import Settings
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.state import open_store


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


def test_simulate_validate_replay_snapshot_restore_digest(run, tmp_path):
    run("simulate --events 2000 --seed 7 --out log.jsonl")
    assert len((tmp_path / "log.jsonl").read_bytes().splitlines()) == 2000
    assert run("validate log.jsonl")[0] == 0
    result = answer(run("replay log.jsonl --store sqlite:///s.db --commit-every 7 --json"))
    assert result["events"] == result["accepted"] == 2000
    names = "rankings interactions judged rejected duplicates late events_per_second digest"
    assert set(names.split()) <= set(result)
    assert {"ndcg@10", "mrr", "pairwise_error"} <= set(result["models"]["default"])
    answer(run("snapshot --store sqlite:///s.db --out s.safetensors --json"))
    answer(run("restore s.safetensors --store sqlite:///t.db --json"))
    assert run("digest --store sqlite:///t.db")[1].strip() == result["digest"]


def test_a_log_that_goes_on_otherwise_is_refused_and_one_that_grew_is_not(run, tmp_path):
    run("simulate --events 900 --out log.jsonl")
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "day.jsonl").write_bytes(b"".join(lines[:600]))
    answer(run("replay day.jsonl --store sqlite:///s.db --json"))
    (tmp_path / "other.jsonl").write_bytes(b"".join(lines[:500] + lines[650:]))
    code, _, err = run("replay other.jsonl --store sqlite:///s.db --json")
    assert (code, "another log" in err) == (3, True)
    (tmp_path / "short.jsonl").write_bytes(b"".join(lines[:100]))
    code, _, err = run("replay short.jsonl --store sqlite:///s.db --json")
    assert (code, "ends before" in err) == (3, True)
    grown = answer(run("replay log.jsonl --store sqlite:///s.db --json"))
    assert grown["digest"] == answer(run("replay log.jsonl --store sqlite:///straight.db --json"))["digest"]


def test_a_refused_replay_does_not_take_the_store_from_the_one_that_runs(run, tmp_path):
    run("simulate --events 400 --out log.jsonl")
    run("simulate --events 400 --seed 8 --out other.jsonl")
    answer(run("replay log.jsonl --store sqlite:///s.db --until 100 --json"))
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        running = Checkpoint(store, Flow(Settings()))
        (tmp_path / "c.toml").write_text("[join]\nwindow_ms = 5\n")
        assert run("replay log.jsonl --config c.toml --store sqlite:///s.db")[0] == 2
        assert run("replay other.jsonl --store sqlite:///s.db")[0] == 3
        running.flow.step(Record(100, (tmp_path / "log.jsonl").read_bytes().splitlines()[100]))
        running.commit()


def test_a_replay_that_learns_nothing_says_so(run, tmp_path):
    (tmp_path / "u.data").write_text("1\t2\t5\t881250949\n1\t3\t4\t881250950\n")
    code, _, err = run("replay u.data --store sqlite:///s.db --json")
    assert code == 0
    assert "nothing was learnt" in err
    (tmp_path / "bad.jsonl").write_text("no\n")
    assert "dlq list" in run("replay bad.jsonl --store sqlite:///t.db --json")[2]


def test_a_mended_letter_may_hold_several_events_and_all_are_taken_or_none(run, tmp_path):
    (tmp_path / "log.jsonl").write_text("{}\n")
    answer(run("replay log.jsonl --store sqlite:///s.db --json"))
    example = {"event": "example", "x": {"a": 1.0}, "y": 1.0}
    (tmp_path / "mended.json").write_text(json.dumps([example, {"event": "example", "y": 2.0}]))
    assert run("dlq replay 0.0 --with mended.json --store sqlite:///s.db")[0] == 1
    (tmp_path / "mended.json").write_text(json.dumps([example, {**example, "y": 2.0}]))
    assert answer(run("dlq replay 0.0 --with mended.json --store sqlite:///s.db --json"))["learnt"] == ["0.0"]
    result = answer(run("replay log.jsonl --store sqlite:///s.db --json"))
    assert (result["events"], result["examples"], result["rejected"]) == (2, 2, 0)


def test_replay_stops_where_told_and_goes_on_from_there(run):
    run("simulate --events 1500 --out log.jsonl")
    straight = answer(run("replay log.jsonl --store sqlite:///a.db --json"))
    assert answer(run("replay log.jsonl --store sqlite:///b.db --until 700 --json"))["events"] == 700
    resumed = answer(run("replay log.jsonl --store sqlite:///b.db --json"))
    assert (resumed["events"], resumed["digest"]) == (1500, straight["digest"])
    again = answer(run("replay log.jsonl --store sqlite:///b.db --json"))
    assert (again["digest"], again["events_per_second"]) == (straight["digest"], 0.0)


def test_every_malformed_event_is_reported_by_kind_and_line(run):
    run("simulate --events 2000 --malformed 0.05 --out log.jsonl")
    code, out, _ = run("validate log.jsonl --json")
    report = json.loads(out.splitlines()[-1])
    assert (code, report["events"]) == (1, 2000)
    assert report["invalid"] == sum(fault["count"] for fault in report["faults"].values()) > 50
    for fault in report["faults"].values():
        assert fault["examples"][0]["place"].startswith("log.jsonl:")
    code, out, _ = run("validate log.jsonl")
    assert code == 1
    assert "bad-timestamp" in out


def test_the_dead_letters_can_be_listed_shown_mended_and_replayed(run, tmp_path):
    good = {"event": "ranking", "id": "r", "timestamp": 1, "items": [{"id": "a"}, {"id": "b"}]}
    bad = {"event": "interaction", "id": "c", "timestamp": 2, "item": "a", "ranking": "r"}
    (tmp_path / "log.jsonl").write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    assert answer(run("replay log.jsonl --store sqlite:///s.db --json"))["rejected"] == 1
    (letter,) = answer(run("dlq list --store sqlite:///s.db --json"))["letters"]
    assert (letter["id"], letter["kind"], letter["place"]) == ("1.0", "missing-field", "log.jsonl:2")
    assert '"item": "a"' in run("dlq show 1.0 --store sqlite:///s.db")[1]
    code, out, _ = run("dlq replay --store sqlite:///s.db --json")
    again = json.loads(out)
    assert (code, again["learnt"], list(again["refused"])) == (1, [], ["1.0"])
    assert "'type' is missing" in again["refused"]["1.0"]
    (tmp_path / "mended.json").write_text(json.dumps({**bad, "type": "click"}))
    assert answer(run("dlq replay 1.0 --with mended.json --store sqlite:///s.db --json"))["learnt"] == ["1.0"]
    assert answer(run("dlq list --store sqlite:///s.db --json"))["letters"] == []
    after = answer(run("replay log.jsonl --store sqlite:///s.db --json"))
    assert (after["rejected"], after["accepted"], after["interactions"], after["judged"]) == (0, 2, 1, 1)


def test_several_models_from_a_config_and_the_store_remembers_it(run, tmp_path):
    (tmp_path / "streamrank.toml").write_text(
        '[[models]]\nname = "champion"\n'
        '[[models]]\nname = "slow"\nlearner = "ranknet"\nparams = { rate = 0.01 }\n'
        "[join]\nwindow_ms = 600000\n"
    )
    run("simulate --events 800 --out log.jsonl")
    result = answer(
        run("replay log.jsonl --config streamrank.toml --store sqlite:///s.db --until 300 --json")
    )
    assert set(result["models"]) == {"champion", "slow"}
    result = answer(run("replay log.jsonl --store sqlite:///s.db --json"))  # as the store was learnt
    assert (set(result["models"]), result["events"]) == ({"champion", "slow"}, 800)


def test_a_report_is_one_page_that_needs_no_network(run, tmp_path):
    run("simulate --events 1500 --out log.jsonl")
    answer(run("replay log.jsonl --store sqlite:///s.db --report out.html --json"))
    page = (tmp_path / "out.html").read_text()
    assert "NDCG@10" in page
    assert "Plotly.newPlot" in page
    assert 'src="http' not in page


def test_packed_logs_replay_as_json_ones_do(run):
    run("simulate --events 1200 --numeric-features 8 --out log.jsonl")
    run("simulate --events 1200 --numeric-features 8 --format msgpack --out log.msgpack")
    run("simulate --events 1200 --numeric-features 8 --format msgpack --out log.mpk.zst")
    by_name = answer(run("replay log.jsonl --store sqlite:///a.db --json"))
    packed = answer(run("replay log.msgpack --store sqlite:///b.db --json"))
    assert packed["digest"] == answer(run("replay log.mpk.zst --store sqlite:///c.db --json"))["digest"]
    for name in ("events", "rankings", "interactions", "judged"):
        assert packed[name] == by_name[name]


def test_the_same_seed_writes_the_same_bytes(run, tmp_path):
    run("simulate --events 500 --seed 3 --out a.jsonl")
    run("simulate --events 500 --seed 3 --out b.jsonl")
    run("simulate --events 500 --seed 4 --out c.jsonl")
    a, b, c = ((tmp_path / f"{name}.jsonl").read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("replay", 2, "LOG files, or --kafka"),
        ("replay log.jsonl --kafka localhost:1", 2, "LOG files, or --kafka"),
        ("replay nowhere.jsonl --store sqlite:///s.db", 3, "nowhere.jsonl"),
        ("digest --store sqlite:///none.db", 4, "no store at sqlite:///none.db"),
        ("digest --store oracle://x", 2, "sqlite:///"),
        ("restore log.jsonl --store sqlite:///s.db", 4, "log.jsonl"),
        ("replay log.jsonl --config none.toml --store sqlite:///s.db", 2, "none.toml"),
        ("dlq show 9.9 --store sqlite:///full.db", 2, "dlq list"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_code(run, line, code, says):
    run("simulate --events 300 --out log.jsonl")
    run("replay log.jsonl --store sqlite:///full.db --json")
    got, _, err = run(line)
    assert got == code
    assert says in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("line", ["", "rank", "simulate --events 0 --out x", "replay a --until x"])
def test_wrong_usage_says_how_it_is_used(run, line):
    with pytest.raises(SystemExit) as error:
        run(line)
    assert error.value.code == 2


def test_help_names_every_command_and_shows_examples(run, capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for command in ("demo", "simulate", "validate", "replay", "snapshot", "restore", "digest", "dlq"):
        assert command in text
    with pytest.raises(SystemExit):
        main(["replay", "--help"])
    assert "Examples:" in capsys.readouterr().out


def test_a_setting_from_the_environment_is_obeyed_and_an_unknown_one_refused(run, monkeypatch):
    run("simulate --events 300 --out log.jsonl")
    monkeypatch.setenv("STREAMRANK_STORE", "sqlite:///env.db")
    digest = answer(run("replay log.jsonl --json"))["digest"]
    monkeypatch.delenv("STREAMRANK_STORE")
    assert run("digest --store sqlite:///env.db")[1].strip() == digest
    monkeypatch.setenv("STREAMRANK_WINDOW", "5")
    code, _, err = run("replay log.jsonl --json")
    assert (code, "STREAMRANK_WINDOW" in err) == (2, True)


def test_a_missing_extra_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for module in ("streamrank.cli.serve", "streamrank.serve.server"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    code, _, err = run("serve --store sqlite:///s.db")
    assert (code, "pip install 'streamrank[serve]'" in err) == (2, True)
