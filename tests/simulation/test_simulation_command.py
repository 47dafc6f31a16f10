"""`streamrank simulate` as it is typed, and how every command's numbers are read."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
import zstandard

from streamrank.cli import main
from streamrank.cli.options import simulate as options
from streamrank.cli.parser import build_parser
from streamrank.simulation import Simulator
from streamrank.simulation.clicks import CLICK_MODELS
from streamrank.simulation.settings import MAX_LATE, MAX_RATE


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(line, capsys):
    with pytest.raises(SystemExit) as error:
        main(line)
    assert error.value.code == 2
    return capsys.readouterr().err


def test_the_parser_knows_the_models_and_limits_of_the_simulation():
    assert tuple(CLICK_MODELS) == options.CLICK_MODELS
    assert (MAX_RATE, MAX_LATE) == (options.MAX_RATE, options.MAX_LATE)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("simulate --out x --events x", "--events: 'x' is not a whole number from 1 up"),
        ("simulate --out x --events 0", "--events: '0' is not a whole number from 1 up"),
        ("simulate --out x --events 1.5", "--events: '1.5' is not a whole number from 1 up"),
        ("simulate --out x --seed -1", "--seed: '-1' is not a whole number from 0 up"),
        ("simulate --out x --numeric-features many", "'many' is not a whole number from 0 up"),
        ("simulate --out x --malformed 0.3", "--malformed: '0.3' is not a share from 0 to 0.25"),
        ("simulate --out x --duplicates much", "--duplicates: 'much' is not a share from 0 to 0.25"),
        ("simulate --out x --late 0.11", "--late: '0.11' is not a share from 0 to 0.1"),
        ("simulate --out x --late nan", "--late: 'nan' is not a share from 0 to 0.1"),
        ("simulate --out x --shuffled 2", "--shuffled: '2' is not a share from 0 to 1"),
        ("simulate --out x --drift-at half", "--drift-at: 'half' is not a share from 0 to 1"),
        ("simulate --out x --noise 1.5", "--noise: '1.5' is not a share from 0 to 1"),
        ("validate x --show few", "--show: 'few' is not a whole number from 0 up"),
        ("replay x --commit-every 0", "--commit-every: '0' is not a whole number from 1 up"),
        ("demo --seconds soon", "--seconds: 'soon' is not a number above 0"),
        ("demo --seconds 0", "--seconds: '0' is not a number above 0"),
    ],
)
def test_a_wrong_number_is_named_in_a_sentence(line, says, capsys):
    assert says in refused(line.split(), capsys)


def test_the_limits_themselves_are_allowed():
    line = "simulate --out x --malformed 0.25 --duplicates 0.25 --late 0.1 --shuffled 1 --drift-at 0"
    arguments = build_parser().parse_args(line.split())
    assert (arguments.malformed, arguments.duplicates, arguments.late) == (0.25, 0.25, 0.1)
    assert (arguments.shuffled, arguments.drift_at, arguments.noise) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "line", [["digest", "--store", ""], ["replay", "x", "--store", ""], ["simulate", "--out", ""]]
)
def test_an_empty_store_or_file_name_is_refused(line, capsys):
    assert "is empty" in refused(line, capsys)


def test_help_names_the_limits_and_where_json_goes(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("up to 0.25", "up to 0.1", "--noise SHARE", "goes with a file, not with --out -"):
        assert words in text


def test_json_and_a_log_on_standard_output_exclude_each_other(capsys):
    assert main(["simulate", "--events", "10", "--out", "-", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--json goes with a file" in err
    assert main(["simulate", "--events", "10", "--out", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 10
    assert main(["simulate", "--events", "10", "--out", "a.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["item"] == 10


def test_noise_changes_the_log_and_all_noise_is_refused(folder, capsys):
    for name, noise in (("a", []), ("b", ["--noise", "0"]), ("c", ["--noise", "0.5"])):
        assert main(["simulate", "--events", "700", "--out", name, *noise]) == 0
    a, b, c = ((folder / name).read_bytes() for name in "abc")
    assert a == b != c
    assert main(["simulate", "--out", "d", "--noise", "1"]) == 2
    assert "noise = 1.0: must be below 1" in capsys.readouterr().err
    assert not (folder / "d").exists()


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.jsonl.zst"])
@pytest.mark.parametrize("there", [True, False])
def test_who_interrupts_leaves_the_folder_as_it_was(folder, monkeypatch, name, there):
    if there:
        (folder / name).write_bytes(b"before")

    def interrupted(self):
        yield b"{}"
        yield b"{}"
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "records", interrupted)
    assert main(["simulate", "--out", name]) == 130
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [(name, b"before")] * there


def test_an_interrupted_truth_leaves_no_half_truth(folder, monkeypatch):
    def interrupted(self):
        yield b"{}"
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "truth_records", interrupted)
    assert main(["simulate", "--events", "10", "--out", "log.jsonl"]) == 130
    assert [path.name for path in folder.iterdir()] == ["log.jsonl"]


def test_every_packing_holds_the_same_log_and_the_same_seed_the_same_bytes(folder):
    names = ["log.jsonl", "log.jsonl.gz", "log.jsonl.zst"]
    for name in names:
        assert main(["simulate", "--events", "600", "--out", name]) == 0
    plain, gz, zst = ((folder / name).read_bytes() for name in names)
    assert len(plain.splitlines()) == 600
    assert gzip.decompress(gz) == plain
    assert zstandard.ZstdDecompressor().decompressobj().decompress(zst) == plain
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*names, *(f"{name}.truth" for name in names)]
    )
    assert main(["simulate", "--events", "600", "--out", "again.gz"]) == 0
    assert (folder / "again.gz").read_bytes() == gz


def test_a_link_stays_a_link_and_its_target_is_written(folder):
    (folder / "link.jsonl").symlink_to(folder / "log.jsonl")
    assert main(["simulate", "--events", "10", "--out", "link.jsonl", "--truth", "none"]) == 0
    assert (folder / "link.jsonl").is_symlink()
    assert len((folder / "log.jsonl").read_bytes().splitlines()) == 10


@pytest.mark.skipif(sys.platform == "win32", reason="has no /dev/null")
def test_what_is_no_file_is_written_to_and_not_replaced():
    assert main(f"simulate --events 10 --out {os.devnull} --truth none".split()) == 0
    assert not Path(os.devnull).is_file()
    assert not Path(f"{os.devnull}.part").exists()


def test_a_folder_that_is_not_there_is_one_line(capsys):
    assert main(["simulate", "--events", "10", "--out", "nowhere/log.jsonl"]) == 3
    assert (
        capsys.readouterr().err.strip().endswith("cannot write nowhere/log.jsonl: No such file or directory")
    )
