"""What the flow does with each kind of event."""

import msgspec
import numpy as np
import pytest

from streamrank.config import JoinSettings, ModelSettings, Settings
from streamrank.errors import ConfigError, SourceError
from streamrank.events.codec import encode_json, encode_msgpack, pack
from streamrank.events.types import (
    Example,
    Field,
    Interaction,
    Item,
    ItemMetadata,
    PackedLists,
    Preference,
    Ranking,
    Record,
    UserMetadata,
)
from streamrank.features.batch import BatchBuilder
from streamrank.metrics.functions import ndcg
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.state import open_store

SETTINGS = Settings(
    models=[ModelSettings(name="default", learner="ranknet")]
)  # its steps count what was learnt


def ranking(number, xs, labels=None, **more):
    items = [
        Item(id=f"i{k}", fields=[Field("a", float(x))], label=None if labels is None else labels[k])
        for k, x in enumerate(xs)
    ]
    return Ranking(id=f"r{number}", timestamp=1000 * number, items=items, **more)


def click(number, item, of, kind="click", time=None):
    return Interaction(
        id=f"c{number}",
        timestamp=1000 * number if time is None else time,
        item=item,
        type=kind,
        ranking=f"r{of}",
    )


def fed(events, settings=None):
    flow = Flow(settings or SETTINGS)
    for offset, event in enumerate(events):
        flow.step(Record(offset, encode_json(event)))
    flow.learn()
    return flow


def test_a_click_is_learnt_when_it_comes():
    flow = fed([ranking(1, [0.0, 1.0, 0.0]), click(2, "i1", 1)])
    assert flow.models[0].learner.to_state()["step"] == 1


def test_with_settle_ms_the_clicks_of_a_ranking_are_learnt_together():
    settings = msgspec.structs.replace(SETTINGS, join=JoinSettings(settle_ms=5000))
    events = [ranking(1, [0.0, 1.0, 2.0]), click(2, "i1", 1), click(3, "i2", 1)]
    assert fed(events, settings).models[0].learner.to_state()["step"] == 0
    assert fed([*events, ranking(60, [0.0, 1.0])], settings).models[0].learner.to_state()["step"] == 1


def test_a_list_is_scored_before_any_of_its_clicks_is_learnt_and_counts_once_with_all_of_them():
    rng = np.random.default_rng(2)
    events, expected = [], []
    for number in range(1, 60):
        events += [
            ranking(10 * number, rng.normal(size=5)),
            click(10 * number + 1, f"i{rng.integers(5)}", 10 * number),
            click(10 * number + 2, f"i{rng.integers(5)}", 10 * number),
            click(10 * number + 3, "i0", 10 * number, kind="purchase"),
        ]
    flow = Flow(SETTINGS)
    for offset, event in enumerate(events):
        if isinstance(event, Interaction) and events[offset - 1].kind == "ranking":  # its first click
            flow.learn()
            shown = flow.join._open[event.ranking]
            learner = flow.models[0].learner
            before = learner.served_weights()
            clicks = [e for e in events if e.kind == "interaction" and e.ranking == event.ranking]
            labels = np.zeros(5)
            for e in clicks:
                place = int(e.item[1:])
                labels[place] = max(labels[place], 3.0 if e.type == "purchase" else 1.0)
            builder = BatchBuilder()
            builder.add(shown.rows, [0.0] * 5, [0.0] * 5)
            batch, scores = builder.build(), np.zeros(5)
            for r in range(5):
                row = slice(batch.indptr[r], batch.indptr[r + 1])
                scores[r] = before[batch.indices[row]] @ batch.values[row]
            expected.append(ndcg(labels, np.round(scores, 12), 10))
        flow.step(Record(offset, encode_json(event)))
    flow.learn()
    assert flow.models[0].history.totals()["ndcg@10"] == pytest.approx(np.mean(expected), abs=1e-9)
    assert flow.models[0].history.count("ndcg@10") == 59


def test_labels_that_come_with_a_ranking_are_learnt_at_once():
    flow = fed([ranking(1, [0.0, 1.0], labels=[0.0, 2.0])])
    assert (flow.models[0].learner.to_state()["step"], len(flow.join)) == (1, 0)


def test_preferences_and_examples_are_learnt_and_do_not_count_as_rankings_measured():
    flow = fed(
        [
            Preference(better={"a": 1.0}, worse={"a": 0.0}),
            Example(x={"a": 0.0}, y=0.0),
            Example(x={"a": 1.0}, y=1.0),
        ]
    )
    model = flow.models[0]
    assert model.learner.to_state()["step"] == 2  # the first example has none to be set against
    assert (model.history.count("ndcg@10"), model.history.count("pairwise_error")) == (0, 1)


def test_metadata_fills_what_the_ranking_does_not_say():
    described = [
        ItemMetadata(id=f"m{k}", timestamp=1, item=f"i{k}", fields=[Field("good", float(k == 1))])
        for k in range(3)
    ]
    shows = []
    for number in range(2, 30):
        shows += [ranking(10 * number, [0.0, 0.0, 0.0]), click(10 * number + 1, "i1", 10 * number)]
    flow = fed([UserMetadata(id="u", timestamp=1, user="u1"), *described, *shows])
    column = flow.features.columns.find("good")
    assert flow.models[0].learner.served_weights()[column] > 0


def test_packed_lists_packed_rankings_and_labelled_json_teach_the_same():
    rng = np.random.default_rng(0)
    lists = [(rng.normal(size=4), rng.integers(0, 3, size=4).astype(float)) for _ in range(20)]
    settings = SETTINGS
    by_name = fed([ranking(k, x, labels=y.tolist()) for k, (x, y) in enumerate(lists, 1)], settings)
    flow = Flow(settings)
    for k, (x, y) in enumerate(lists, 1):
        flow.step(Record(k, encode_msgpack(pack(ranking(k, x, labels=y.tolist())))))
    flow.learn()
    block = PackedLists(
        id="b",
        timestamp=1,
        columns=msgspec.Raw(msgspec.msgpack.encode(["a"])),
        values=np.concatenate([x for x, _ in lists]).tobytes(),
        sizes=np.full(20, 4, dtype="<i4").tobytes(),
        labels=np.concatenate([y for _, y in lists]).tobytes(),
    )
    at_once = Flow(settings)
    at_once.step(Record(0, encode_msgpack(block)))
    at_once.learn()
    weight = [f.models[0].learner.served_weights()[f.features.columns.find("a")] for f in (flow, at_once)]
    assert weight[0] == pytest.approx(weight[1], rel=0.1) != 0.0  # counted from other offsets at first
    assert flow.models[0].history.totals() == pytest.approx(at_once.models[0].history.totals(), nan_ok=True)
    assert by_name.counts["judged"] == flow.counts["judged"] == at_once.counts["judged"] == 20


def test_a_future_dated_event_does_not_close_the_others():
    far = ranking(1, [0.0, 1.0])
    far.id, far.timestamp = "far", 4_000_000_000_000
    flow = fed([ranking(1, [0.0, 1.0]), ranking(2, [0.0, 1.0]), far, click(3, "i1", 1), click(4, "i1", 2)])
    assert (flow.counts["late"], flow.models[0].learner.to_state()["step"]) == (0, 2)


def test_a_late_click_is_counted_and_teaches_nothing():
    events = [ranking(1, [0.0, 1.0]), ranking(2000, [0.0, 1.0]), click(2001, "i1", 1)]
    flow = fed(events)  # 2000 s after a ranking that was open for 1800 s
    assert (flow.counts["late"], flow.models[0].learner.to_state()["step"]) == (1, 0)


def test_the_good_events_of_an_array_are_taken_and_the_bad_one_is_named():
    flow = Flow(SETTINGS)
    good = encode_json(ranking(1, [0.0, 1.0]))
    flow.step(
        Record(7, b"[" + good + b',{"event":"scroll"},' + encode_json(click(2, "i1", 1)) + b"]", "log:8")
    )
    assert (flow.accepted, flow.counts["rejected"]) == (2, 1)
    (letter,) = flow.letters
    assert (letter.offset, letter.part, letter.place, letter.kind) == (7, 1, "log:8", "unknown-event")
    assert flow.offset == 8


def test_a_dead_letter_that_is_mended_is_learnt_and_counted_over():
    flow = Flow(SETTINGS)
    flow.step(Record(0, encode_json(ranking(1, [0.0, 1.0]))))
    flow.step(Record(1, b'{"event":"interaction","id":"c","item":"i1"}'))
    (letter,) = flow.letters
    assert "missing" in flow.redeliver(letter)
    mended = msgspec.structs.replace(letter, value=encode_json(click(2, "i1", 1)))
    assert [flow.redeliver(mended) for _ in range(1)] == ["learnt"]
    flow.learn()
    assert (flow.counts["rejected"], flow.accepted, flow.counts["events"]) == (0, 2, 2)
    assert (flow.offset, flow.models[0].learner.to_state()["step"]) == (2, 1)


def test_a_challenger_does_not_disturb_the_champion():
    alone = [ModelSettings(name="a", learner="ranknet")]
    events = []
    for number in range(1, 40):
        events += [ranking(10 * number, [0.0, 1.0, 0.5]), click(10 * number + 1, "i1", 10 * number)]
    one = fed(events, msgspec.structs.replace(SETTINGS, models=alone))
    two = fed(
        events,
        msgspec.structs.replace(
            SETTINGS, models=[*alone, ModelSettings(name="b", learner="ranknet", params={"rate": 0.5})]
        ),
    )
    assert (one.models[0].learner.served_weights() == two.models[0].learner.served_weights()).all()
    assert (two.models[0].learner.served_weights() != two.models[1].learner.served_weights()).any()


def test_other_settings_than_the_stores_are_refused_unless_adopted():
    store = open_store("memory://")
    checkpoint = Checkpoint(store, Flow(SETTINGS))
    checkpoint.flow.step(Record(0, encode_json(ranking(1, [0.0, 1.0]))))
    checkpoint.commit()
    other = msgspec.structs.replace(SETTINGS, join=JoinSettings(window_ms=5))
    with pytest.raises(ConfigError, match=r"join\.window_ms: 1800000 -> 5"):
        Checkpoint(store, Flow(other))
    assert Checkpoint(store, Flow(other), adopt_config=True).flow.offset == 1


def test_another_log_than_the_stores_is_refused():
    store = open_store("memory://")
    checkpoint = Checkpoint(store, Flow(SETTINGS), source="first")
    checkpoint.flow.step(Record(0, encode_json(ranking(1, [0.0, 1.0]))))
    checkpoint.commit()
    with pytest.raises(SourceError, match="begins otherwise"):
        Checkpoint(store, Flow(SETTINGS), source="second")
    checkpoint.flow.step(Record(1, encode_json(ranking(2, [0.0, 1.0]))))
    checkpoint.commit()  # the refused one took nothing over


def test_a_commit_comes_after_enough_events_or_enough_time():
    now = [0.0]
    settings = msgspec.structs.replace(SETTINGS, commit_every=3, commit_ms=1000)
    checkpoint = Checkpoint(open_store("memory://"), Flow(settings), now=lambda: now[0])
    done = []
    for offset in range(7):
        checkpoint.flow.step(Record(offset, encode_json(ranking(offset + 1, [0.0, 1.0]))))
        now[0] += 0.6 if offset > 3 else 0.0
        done.append(checkpoint.maybe_commit())
    assert done == [False, False, True, False, False, True, False]
