"""What is served is what was learnt, by any number of shards, and asking changes nothing."""

import numpy as np
import pytest

from streamrank.config import FeatureSettings, ModelSettings, Settings
from streamrank.errors import ConfigError, StoreDown
from streamrank.events.codec import Decoder
from streamrank.events.types import Field, Item, Ranking, Record
from streamrank.features.batch import BatchBuilder
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.serve.live import Live
from streamrank.simulation import Settings as World
from streamrank.simulation import Simulator
from streamrank.state import open_store
from streamrank.state.memory import MemoryStore

SETTINGS = Settings(models=[ModelSettings(name="default")])


def learn(store, records, shard="0", settings=SETTINGS):
    checkpoint = Checkpoint(store, Flow(settings), shard=shard)
    for offset, value in enumerate(records, checkpoint.flow.offset):
        checkpoint.flow.step(Record(offset, value))
    checkpoint.commit()
    return checkpoint.flow


@pytest.fixture(scope="module")
def world():
    simulator = Simulator(World(events=3000, seed=3))
    return list(simulator.records()), simulator.world.heldout(5, seed=1)


def scores_of(flow, ranking):
    rows = flow.features.rows(ranking, learn=False, now=flow.clock.now)
    builder = BatchBuilder()
    builder.add(rows, [0.0] * rows.n, [0.0] * rows.n)
    return dict(
        zip([i.id for i in ranking.items], flow.models[0].learner.scores(builder.build()), strict=True)
    )


def test_a_server_scores_to_the_bit_as_the_flow_that_learnt(world):
    records, cases = world
    store = open_store("memory://live-bits")
    flow = learn(store, records)
    with Live("memory://live-bits", SETTINGS) as live:
        before = all_entries(flow)
        for case in cases:
            answer = live.rank("default", case.ranking, explain=True)
            assert {r.item: r.score for r in answer.items} == scores_of(flow, case.ranking)
            assert [r.score for r in answer.items] == sorted((r.score for r in answer.items), reverse=True)
            assert not answer.degraded
            for ranked in answer.items:
                assert sum(part.share for part in ranked.features) == pytest.approx(ranked.score)
        assert all_entries(live.served.shards["0"].flow).keys() <= before.keys()
        assert live.served.learners["default"].to_state()["numbers"].tolist() == before_numbers(flow)


def before_numbers(flow):
    return flow.models[0].learner.to_state()["numbers"].tolist()


def test_the_quick_way_to_rows_is_the_long_way(world):
    records, _ = world
    flow = learn(open_store("memory://live-plain"), records)
    names = flow.features.columns.to_state()["names#0"]
    known = [n for n in names if "=" not in n and ":" not in n and n != "price"][:3]
    items = [Item(f"x{k}", [Field(n, float(k + j)) for j, n in enumerate(known)]) for k in range(5)]
    ranking = Ranking(id="r", timestamp=0, items=items)
    flow.features._template = None
    long = flow.features._any_rows(ranking, None, False)
    quick = flow.features._plain_rows(ranking, None, False)
    assert quick is not None
    np.testing.assert_array_equal(np.tile(quick.columns, 5), long.columns)
    np.testing.assert_array_equal(quick.values, long.values)


def test_shards_with_vocabularies_of_their_own_serve_as_one(world):
    """Statistics add up: half the examples in each of two shards, names met in another order."""
    rng = np.random.default_rng(0)
    # every number on both sides: then it does not matter from what each shard counts them
    shape = b'{"event":"preference","better":{"a":%f,"b":%f,"c":%f},"worse":{"a":%f,"b":%f,"c":%f}}'
    examples = [shape % (rng.random() + 0.5, *rng.random(5)) for _ in range(400)]
    turned = [b'{"event":"example","x":{"c":1,"z":2},"y":1,"query":"alone"}', *examples[200:]]
    settings = Settings(features=FeatureSettings(), models=[ModelSettings(name="default")])
    one, two = open_store("memory://live-one"), open_store("memory://live-two")
    learn(one, turned + examples[:200], settings=settings)
    learn(two, examples[:200], "a", settings)
    learn(two, turned, "b", settings)
    with Live("memory://live-one", settings) as whole, Live("memory://live-two", settings) as halves:
        names = ("a", "b", "c", "z")

        def optimum(live):
            served = live.served
            w = served.learners["default"].solve()
            return [w[served.features.columns.find(name)] for name in names]

        np.testing.assert_allclose(optimum(halves), optimum(whole), rtol=1e-9, atol=1e-12)
        assert halves.served.counts["preference"] == 400
        items = [Item("low", [Field("a", 0.0)]), Item("high", [Field("a", 1.0)])]
        answers = [
            live.rank("default", Ranking(id="r", timestamp=0, items=items)) for live in (whole, halves)
        ]
        assert [[r.item for r in answer.items] for answer in answers] == [["high", "low"]] * 2


class Away:
    """A memory store that can be switched off."""

    def __init__(self, name):
        self.store, self.down = MemoryStore.from_url(name, Settings()), False

    def __getattr__(self, name):
        if self.down and name != "close":
            raise StoreDown("it is away")
        return getattr(self.store, name)


def test_a_store_that_goes_away_degrades_and_comes_back_without_a_restart(world):
    records, cases = world
    away = Away("memory://live-away")
    learn(away.store, records[:1500])
    with Live("memory://live-away", SETTINGS, opened=lambda *_: away) as live:
        good = live.rank("default", cases[0].ranking)
        away.down = True
        live.refresh()
        last = live.rank("default", cases[0].ranking)
        assert last.degraded
        assert [r.item for r in last.items] == [r.item for r in good.items]
        away.down = False
        learn(away.store, records[1500:])
        live.refresh()
        again = live.rank("default", cases[0].ranking)
        assert not again.degraded
        assert again.model_version != good.model_version


def test_before_anything_was_learnt_the_order_is_that_of_the_request():
    away = Away("memory://live-never")
    away.down = True
    with Live("memory://live-never", SETTINGS, opened=lambda *_: away) as live:
        answer = live.rank("default", Ranking(id="r", timestamp=0, items=[Item("b"), Item("a")]))
        assert ([r.item for r in answer.items], answer.degraded) == (["b", "a"], True)
        with pytest.raises(ConfigError, match="there are: default"):
            live.rank("other", Ranking(id="r", timestamp=0, items=[Item("b")]))


@pytest.mark.parametrize("url", ["memory://live-read", "sqlite:///live.db"])
def test_a_store_reads_what_begins_so(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store(url) as store:
        epoch = store.acquire("s")
        keys = ("model/a/w", "modelx", "counts", "quality/ü", "quality/\U0001f600")
        store.commit("s", epoch, dict.fromkeys(keys, b"1"), start=0, end=4)
        assert set(store.read("s")[0]) == set(keys)
        entries, offset = store.read("s", ("model/", "quality/", "none/"))
        assert (set(entries), offset) == ({"model/a/w", "quality/ü", "quality/\U0001f600"}, 4)


def test_a_request_needs_neither_id_nor_time():
    event = Decoder().ranking(b'{"items":[{"id":"a"}]}')
    assert (event.items[0].id, event.time_ms) == ("a", 0)
    assert "empty" in str(Decoder().ranking(b'{"items":[]}'))
    assert "items" in str(Decoder().ranking(b"{}"))
    assert "too-long" in str(Decoder(max_bytes=9).ranking(b'{"items":[{"id":"a"}]}'))


def test_a_hidden_layer_is_explained_by_what_the_score_would_lose(world):
    models = [ModelSettings(name="hidden", learner="ranknet", params={"hidden": 4})]
    settings = Settings(models=models)
    shape = b'{"event":"preference","better":{"a":%f,"b":%f},"worse":{"a":%f,"b":%f}}'
    rng = np.random.default_rng(0)
    learn(
        open_store("memory://live-hidden"),
        [shape % (rng.random() + 0.5, rng.random(), *rng.random(2)) for _ in range(300)],
        settings=settings,
    )
    with Live("memory://live-hidden", settings) as live:

        def score(*fields):
            ranking = Ranking(id="r", timestamp=0, items=[Item("i", [Field(*field) for field in fields])])
            return live.rank("hidden", ranking, explain=True).items[0]

        whole = score(("a", 1.5), ("b", 0.2))
        assert {part.name for part in whole.features} == {"a", "b"}
        for part in whole.features:
            kept = {"a": ("a", 1.5), "b": ("b", 0.2)}
            del kept[part.name]
            assert part.share == pytest.approx(whole.score - score(*kept.values()).score)
            assert part.share != 0
