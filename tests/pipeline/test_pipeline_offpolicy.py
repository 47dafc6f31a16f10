"""Candidates weighed on a log: against the truth of simulated users, and refused where nothing is known."""

import json

import numpy as np
import pytest

from streamrank.cli import main
from streamrank.events.codec import Decoder
from streamrank.serve.live import Live
from streamrank.simulation import Settings, Simulator
from streamrank.simulation.clicks import ATTRACTION

THETA = (1.0 / np.arange(1, 11)).tolist()


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """An earlier and a later part of a log of numbers, with the grades behind it; and with propensities."""
    folder = tmp_path_factory.mktemp("offpolicy")
    simulator = Simulator(Settings(events=7000, seed=5, numeric_features=5, purchases=False, shuffled=0.3))
    records = list(simulator.records())
    early, late, told = (folder / name for name in ("early.jsonl", "late.jsonl", "told.jsonl"))
    # a click belongs to the part of its ranking
    rankings = [json.loads(r)["id"] for r in records if b'"ranking","id"' in r]
    later = set(rankings[len(rankings) // 2 :])
    parts = [[], []]
    for record in records:
        event = json.loads(record)
        parts[event.get("ranking", event["id"]) in later].append(record)
    early.write_bytes(b"\n".join(parts[0]) + b"\n")
    late.write_bytes(b"\n".join(parts[1]) + b"\n")
    told.write_bytes(b"\n".join(map(with_propensities, parts[1])) + b"\n")
    truth = {t["ranking"]: t["relevance"] for t in map(json.loads, simulator.truth_records())}
    return early, late, told, truth


def with_propensities(record):
    event = json.loads(record)
    for item, theta in zip(event.get("items", ()), THETA, strict=False):
        item["propensity"] = theta
    return json.dumps(event).encode()


def evaluated(capsys, *options):
    assert main(["evaluate", "--off-policy", *map(str, options), "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def expected_clicks(log, truth, rank):
    """By the grades, which no estimator sees: the mean of sum theta_rank attraction."""
    decoder = Decoder()
    rankings = [
        e for line in log.read_bytes().splitlines() for e in decoder.decode(line) if e.kind == "ranking"
    ]
    values = [np.array(THETA)[rank(one)] @ ATTRACTION[truth[one.id]] for one in rankings]
    return len(values), float(np.mean(values))


def by_field(name, sign):
    def rank(ranking):
        values = [next(f.value for f in item.fields if f.name == name) for item in ranking.items]
        return np.argsort(np.argsort(sign * np.array(values), kind="stable"))

    return rank


def test_fields_and_a_stored_model_get_what_the_grades_say_they_would(logs, tmp_path, monkeypatch, capsys):
    early, late, told, truth = logs
    store = f"sqlite:///{tmp_path}/s.db"
    assert main(["replay", str(early), "--store", store, "--json"]) == 0
    name = json.loads(told.read_bytes().splitlines()[0])["items"][0]["fields"][0]["name"]
    result = evaluated(capsys, told, "--store", store, "--by", name, "--by", f"{name}:asc")
    assert result["theta_from"] == "events"
    assert not result["learnt_from_this_log"]
    with Live(store) as live:

        def by_model(ranking):
            places = {item.id: place for place, item in enumerate(ranking.items)}
            ranks = np.empty(len(places), int)
            for rank, ranked in enumerate(live.rank("default", ranking).items):
                ranks[places[ranked.item]] = rank
            return ranks

        truths = {
            "default": expected_clicks(told, truth, by_model),
            name: expected_clicks(told, truth, by_field(name, -1.0)),
            f"{name}:asc": expected_clicks(told, truth, by_field(name, 1.0)),
            "shown": expected_clicks(told, truth, lambda ranking: np.arange(len(ranking.items))),
        }
    assert set(result["candidates"]) == {"shown", "random", *truths}
    for candidate, (n, expected) in truths.items():
        ips = result["candidates"][candidate]["ips"]
        assert result["lists"] == n
        assert abs(ips["value"] - expected) < 3 * ips["error"], candidate
    # what learnt is better than chance and than the shop, beyond doubt
    assert result["candidates"]["default"]["lift"]["low"] > 0
    assert result["candidates"]["default"]["ips"]["low"] > result["candidates"]["random"]["ips"]["high"]
    # theta by the settings is the same theta
    monkeypatch.setenv("STREAMRANK_JUDGE_THETA", json.dumps(THETA))
    again = evaluated(capsys, late, "--store", store, "--by", name, "--by", f"{name}:asc")
    assert again["theta_from"] == "settings"
    assert again["candidates"] == result["candidates"]


def test_theta_is_measured_where_enough_rankings_were_shuffled(logs, monkeypatch, capsys):
    _, late, told, _ = logs
    monkeypatch.setenv("STREAMRANK_JUDGE_MIN_SHUFFLED", "300")
    measured, known = (evaluated(capsys, log, "--learner", "ranknet") for log in (late, told))
    assert measured["theta_from"] == "shuffled rankings"
    assert measured["theta"][1] == pytest.approx(0.5, abs=0.1)
    one, other = (found["candidates"]["ranknet"]["ips"] for found in (measured, known))
    assert one["value"] == pytest.approx(other["value"], rel=0.1)
    assert measured["lists"] == known["lists"]


def test_rankings_without_propensities_are_left_out_and_counted(logs, tmp_path, capsys):
    _, late, told, _ = logs
    mixed = tmp_path / "mixed.jsonl"
    lines, marked = late.read_bytes().splitlines(), told.read_bytes().splitlines()
    half = len(lines) // 2
    mixed.write_bytes(b"\n".join(lines[:half] + marked[half:]) + b"\n")
    found, all_of_it = evaluated(capsys, mixed), evaluated(capsys, told)
    assert found["left_out"] > 0
    assert found["lists"] + found["left_out"] == all_of_it["lists"]
    assert found["with_propensities"] == found["lists"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "not known how likely each rank was looked at"),
        (("--learner", "ranknet", "--store", "sqlite:///x.db"), "give either"),
        (("--by", "nowhere"), "no clicked ranking has an item with that field"),
        (("--by", "shown"), "names of their own"),
        (("--clip", "0.5"), "from 1 up"),
    ],
)
def test_what_cannot_be_weighed_is_refused_with_what_to_do(logs, capsys, options, said):
    assert main(["evaluate", "--off-policy", str(logs[1]), *options]) in (2, 3)
    assert said in capsys.readouterr().err


def test_a_store_that_has_learnt_from_the_log_is_pointed_out(logs, tmp_path, capsys):
    early = logs[0]
    told = tmp_path / "told.jsonl"
    told.write_bytes(b"\n".join(map(with_propensities, early.read_bytes().splitlines())) + b"\n")
    store = f"sqlite:///{tmp_path}/s.db"
    assert main(["replay", str(told), "--store", store]) == 0
    assert main(["evaluate", "--off-policy", str(told), "--store", store]) == 0
    out, err = capsys.readouterr()
    assert "lift over shown" in out
    assert "has learnt from this very log" in err
