import hashlib
import itertools
import os
import subprocess
import sys
from collections import Counter

import msgspec
import numpy as np
import pytest

from streamrank.errors import ConfigError
from streamrank.events.types import Interaction, ItemMetadata, Ranking
from streamrank.simulation import Settings, Simulator, World
from streamrank.simulation.malformed import BROKEN_RULES, MALFORMED, malformed

Known = Ranking | Interaction | ItemMetadata
MINUTE_MS = 60_000
FAULTY = Settings(events=20_000, malformed=0.02, duplicates=0.03, late=0.02)


def digest(settings):
    return hashlib.sha256(b"\n".join(Simulator(settings).records())).hexdigest()


def decode(record):
    """The oracle: the types of the events, and the three rules that types cannot say."""
    event = msgspec.json.decode(record, type=Known)
    if not event.id:
        raise ValueError("empty id")
    if int(event.timestamp) < 10**11:
        raise ValueError("seconds")
    if isinstance(event, Ranking) and not event.items:
        raise ValueError("empty list")
    return event


def is_malformed(record):
    try:
        decode(record)
    except (ValueError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False


@pytest.fixture(scope="module")
def faulty():
    simulator = Simulator(FAULTY)
    return simulator, list(simulator.records())


@pytest.fixture(scope="module")
def arrivals(faulty):
    """(event, its bytes, newest event time before it) of each sound record, in order of arrival."""
    newest, found = 0, []
    for record in faulty[1]:
        if not is_malformed(record):
            event = decode(record)
            found.append((event, record, newest))
            newest = max(newest, int(event.timestamp))
    return found


def test_same_settings_give_the_same_bytes_in_every_process():
    settings = "Settings(events=1500, malformed=.05, duplicates=.05, drift_at=.5)"
    code = (
        "import hashlib; from streamrank.simulation import *;"
        f"print(hashlib.sha256(b'\\n'.join(Simulator({settings}).records())).hexdigest())"
    )
    here = digest(Settings(events=1500, malformed=0.05, duplicates=0.05, drift_at=0.5))
    for salt in ("1", "2"):  # sets and dicts of str would walk in another order
        environ = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": os.pathsep.join(sys.path)}
        out = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
        )
        assert out.stdout.strip() == here


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({"events": 1500, "malformed": 0.05, "duplicates": 0.05, "drift_at": 0.5}, "3a689fe8bfd2eefa"),
        ({"events": 900, "click_model": "cascade"}, "a74b1af7ced23a9d"),
        ({"events": 900, "click_model": "perfect", "numeric_features": 5}, "c0cb3160db24954f"),
    ],
)
def test_without_noise_the_bytes_are_those_of_the_time_before_noise(settings, start):
    assert digest(Settings(**settings)).startswith(start)
    assert digest(Settings(**settings, noise=0.0)).startswith(start)
    assert not digest(Settings(**settings, noise=0.5)).startswith(start)


def test_another_seed_gives_other_bytes():
    assert digest(Settings(events=800, seed=1)) != digest(Settings(events=800, seed=2))


def test_a_second_reading_starts_anew():
    simulator = Simulator(Settings(events=1200, duplicates=0.1, malformed=0.1, drift_at=0.5))
    first, counts, truth = list(simulator.records()), dict(simulator.counts), simulator.truth_records()
    assert list(simulator.records()) == first
    assert (simulator.counts, simulator.truth_records()) == (counts, truth)


def test_readings_begun_together_are_each_whole_when_read_in_turn():
    simulator = Simulator(Settings(events=700, malformed=0.1, drift_at=0.5))
    first, second = simulator.records(), simulator.records()
    read = list(first)
    truth = simulator.truth_records()
    assert len(read) == 700
    assert list(second) == read
    assert simulator.truth_records() == truth


def test_a_reading_raises_once_another_is_being_read():
    simulator = Simulator(Settings(events=700))
    first, second = simulator.records(), simulator.records()
    next(first)
    assert next(second).startswith(b'{"event":"item"')
    with pytest.raises(RuntimeError, match="another reading"):
        next(first)
    assert len(list(second)) == 699


def test_the_highest_rates_allowed_are_reached():
    settings = Settings(events=20_000, malformed=0.25, duplicates=0.25, late=0.1, mean_gap_ms=4_000)
    simulator = Simulator(settings)
    assert len(list(simulator.records())) == 20_000
    for name in ("malformed", "duplicates", "late"):
        assert simulator.counts[name] == pytest.approx(getattr(settings, name) * 20_000, rel=0.08), name


@pytest.mark.parametrize("events", [0, 1, 499, 501, 3000])
def test_exactly_the_number_asked_for_is_sent(events):
    simulator = Simulator(Settings(events=events, malformed=0.1, duplicates=0.2))
    assert len(list(simulator.records())) == events
    assert sum(simulator.counts.values()) - simulator.counts["late"] == events


def test_faults_come_at_the_rates_asked_for(faulty):
    counts = faulty[0].counts
    for name in ("malformed", "duplicates", "late"):
        rate = getattr(FAULTY, name)
        deviation = (FAULTY.events * rate * (1 - rate)) ** 0.5
        assert abs(counts[name] - rate * FAULTY.events) < 4 * deviation, name


def test_the_counts_are_those_of_the_records(faulty, arrivals):
    seen, found = set(), Counter()
    for event, record, _ in arrivals:
        found["duplicates" if record in seen else event.kind] += 1
        seen.add(record)
    found["malformed"] = len(faulty[1]) - len(arrivals)
    counts = faulty[0].counts
    assert found == {name: n for name, n in counts.items() if name != "late"}


@pytest.mark.parametrize("name", MALFORMED)
def test_each_malformed_kind_is_refused(name):
    record = MALFORMED[name]("x-1", 1_700_000_000_000)
    assert is_malformed(record)
    if name in BROKEN_RULES:  # the rule is all that is wrong with it
        msgspec.json.decode(record, type=Known)
    else:
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            msgspec.json.decode(record, type=Known)


def test_every_malformed_kind_takes_its_turn():
    assert len({malformed(k, 1_700_000_000_000) for k in range(len(MALFORMED))}) == len(MALFORMED)


def test_only_copies_share_an_id_and_they_are_the_same_bytes_soon_after(arrivals):
    first, copies = {}, 0
    for event, record, newest in arrivals:
        if event.id in first:
            copies += 1
            assert first[event.id] == record
            assert newest - int(event.timestamp) <= 10 * MINUTE_MS
        first.setdefault(event.id, record)
    assert copies > 0


def test_late_interactions_are_40_to_90_minutes_late_and_all_else_is_in_order(faulty, arrivals):
    seen, late = set(), 0
    for event, record, newest in arrivals:
        behind = newest - int(event.timestamp)
        if record not in seen and behind > 0:
            late += 1
            assert isinstance(event, Interaction)
            assert 40 * MINUTE_MS <= behind <= 90 * MINUTE_MS
        seen.add(record)
    assert late == faulty[0].counts["late"] > 0


def test_what_a_lull_in_the_traffic_overtakes_is_lost_rather_than_later_than_promised():
    newest, late = 0, []
    for record in Simulator(Settings(events=3_000, late=0.1, mean_gap_ms=15 * MINUTE_MS)).records():
        stamp = int(decode(record).timestamp)
        if stamp < newest:
            late.append(newest - stamp)
        newest = max(newest, stamp)
    assert len(late) > 100
    assert 40 * MINUTE_MS <= min(late) <= max(late) <= 90 * MINUTE_MS


def test_an_interaction_follows_its_ranking_and_names_one_of_its_items_and_its_people(arrivals):
    rankings, delays = {}, []
    for event, _, _ in arrivals:
        if isinstance(event, Ranking):
            rankings[event.id] = event
        elif isinstance(event, Interaction):
            ranking = rankings[event.ranking]  # KeyError: it came before
            assert event.item in [item.id for item in ranking.items]
            assert (event.user, event.session) == (ranking.user, ranking.session)
            delays.append(int(event.timestamp) - int(ranking.timestamp))
    assert min(delays) >= 1_000
    assert np.median(delays) < MINUTE_MS


def test_a_purchase_follows_a_click_on_the_same_item():
    clicked, bought = set(), 0
    for record in Simulator(Settings(events=5_000)).records():
        event = decode(record)
        if isinstance(event, Interaction):
            key = (event.ranking, event.item)
            if event.type == "click":
                clicked.add(key)
            else:
                bought += 1
                assert event.type == "purchase"
                assert key in clicked
    assert bought > 50
    kinds = {
        decode(r).type for r in Simulator(Settings(events=2_000, purchases=False)).records() if b'"type"' in r
    }
    assert kinds == {"click"}


def test_faults_do_not_change_what_people_do():
    def sound(settings):
        records = (r for r in Simulator(settings).records() if not is_malformed(r))
        return list(dict.fromkeys(records))

    clean, dirty = sound(Settings(events=3000)), sound(Settings(events=3000, malformed=0.1, duplicates=0.1))
    assert 2000 < len(dirty) < 3000
    assert clean[: len(dirty)] == dirty


def test_the_truth_names_the_grades_of_each_list_shown():
    simulator = Simulator(Settings(events=3_000, drift_at=0.5))
    rankings = [e for e in map(decode, simulator.records()) if isinstance(e, Ranking)]
    truth = [msgspec.json.decode(line) for line in simulator.truth_records()]
    assert [t["ranking"] for t in truth] == [r.id for r in rankings]
    assert [t["query"] for t in truth] == [r.query for r in rankings]
    assert all(len(t["relevance"]) == len(r.items) == 10 for t, r in zip(truth, rankings, strict=True))
    tastes = [t["taste"] for t in truth]
    assert tastes == sorted(tastes)
    assert {0, 1} == set(tastes)


def test_the_truth_is_that_of_the_world_with_the_prices_announced():
    simulator = Simulator(Settings(events=4_000, seed=3))
    events = [decode(record) for record in simulator.records()]
    truth = {t["ranking"]: t["relevance"] for t in map(msgspec.json.decode, simulator.truth_records())}
    world, announced, updates = World(3), set(), 0
    for event in events:
        if isinstance(event, ItemMetadata):
            item = int(event.item.removeprefix("item-"))
            if item in announced:
                updates += 1
                (field,) = event.fields
                world.reprice(item, field.value / float(world.catalogue.numeric["price"][item]))
            announced.add(item)
        elif isinstance(event, Ranking):
            items = np.array([int(item.id.removeprefix("item-")) for item in event.items])
            query = int(event.query.removeprefix("q-"))
            assert world.relevance(query, items).tolist() == truth[event.id]
    assert updates > 3


def test_the_marked_share_is_shuffled_and_the_rest_in_the_order_of_the_shop():
    simulator = Simulator(Settings(events=6_000, shuffled=0.3))
    rankings = [e for e in map(decode, simulator.records()) if isinstance(e, Ranking)]
    share = np.mean([r.shuffled for r in rankings])
    assert abs(share - 0.3) < 4 * (0.3 * 0.7 / len(rankings)) ** 0.5
    for ranking in rankings:
        items = np.array([int(item.id.removeprefix("item-")) for item in ranking.items])
        ordered = simulator.world.logging_order(int(ranking.query.removeprefix("q-")), items)
        assert ranking.shuffled or ordered.tolist() == items.tolist()


def test_a_live_stream_has_no_end_keeps_no_truth_and_drifts_when_told():
    simulator = Simulator(Settings(events=10, drift_at=0.5))
    stream = simulator.live()
    before = list(itertools.islice(stream, 1_500))
    assert before == list(Simulator(Settings(events=1_500)).records())
    assert simulator.world.taste == 0
    simulator.drift()
    after = list(itertools.islice(stream, 1_500))
    assert simulator.truth_records() == []
    assert simulator.world.taste == 1
    assert after != list(Simulator(Settings(events=3_000)).records())[1_500:]


def test_the_drift_changes_which_items_are_clicked():
    """Prices of what is clicked first, in shuffled lists: low before the drift, high after."""
    simulator = Simulator(Settings(events=12_000, drift_at=0.5, shuffled=1.0, click_model="perfect"))
    price, clicked, half = {}, ([], []), 0
    for number, record in enumerate(simulator.records()):
        event, half = decode(record), int(number >= 6_000)
        if isinstance(event, ItemMetadata):
            price[event.item] = event.fields[0].value
        elif isinstance(event, Interaction) and abs(number - 6_000) > 500:
            clicked[half].append(price[event.item])
    assert np.mean(clicked[0]) < 0.85 * np.mean(clicked[1])


def test_numeric_features_come_inline_and_nothing_else_does():
    simulator = Simulator(Settings(events=1_000, numeric_features=7))
    events = [decode(record) for record in simulator.records()]
    assert {e.kind for e in events} == {"ranking", "interaction"}
    for event in events:
        if isinstance(event, Ranking):
            assert event.fields == []
            for item in event.items:
                assert [f.name for f in item.fields] == [f"f{k}" for k in range(1, 8)]
                assert all(isinstance(f.value, float) for f in item.fields)


def test_too_short_a_stream_cannot_hold_late_events_and_says_so():
    with pytest.raises(ConfigError, match=r"late = 0\.1.*mean_gap_ms"):
        Simulator(Settings(events=2_000, late=0.1)).records()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("events", -1),
        ("events", 10.5),
        ("late", "often"),
        ("seed", -1),
        ("shown", 0),
        ("candidates", 9),
        ("candidates", 101),
        ("click_model", "guess"),
        ("malformed", 0.9),
        ("malformed", float("nan")),
        ("duplicates", -0.1),
        ("late", 0.5),
        ("drift_at", 1.5),
        ("shuffled", 2),
        ("start_ms", 1_700_000_000),
        ("mean_gap_ms", 0),
        ("numeric_features", -1),
        ("noise", -0.1),
        ("noise", 1.0),
        ("noise", 1.5),
        ("noise", float("nan")),
    ],
)
def test_a_bad_setting_is_named(name, value):
    with pytest.raises(ConfigError, match=f"^{name} = "):
        Settings(**{name: value})
