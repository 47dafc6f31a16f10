"""Random streams of every kind of event under random small limits: however they are cut, one state."""

import random

import msgspec
import numpy as np
import pytest

from streamrank.config import (
    FeatureSettings,
    JoinSettings,
    JudgeSettings,
    ModelSettings,
    Settings,
    load_settings,
)
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.memory import all_entries
from streamrank.state import open_store
from streamrank.state.digest import digest
from streamrank.state.snapshot import restore_snapshot, write_snapshot

ODD = ["a", "b/c", "d#0", "é", "names#0", "open/1", "x" * 300, "", "0"]
NAMES = ["price", "year", "colour", "title", "relevancy", "click_rate", "emb", "emb[0]", "colour=red"]


def a_value(rng):
    return rng.choice(
        [
            rng.gauss(0, 3), 2000 + rng.gauss(0, 8), rng.randrange(-5, 5), True, 2**70, 1e300, 1e25, -0.0,
            "red", "a b red", "", ["red", "blue"], [1.5, -2.0], [], ["a", 1], None, {"deep": []},
        ]
    )  # fmt: skip


def some_fields(rng, plain):
    if plain:
        return [{"name": name, "value": round(rng.gauss(0, 2), 3)} for name in ("price", "year")]
    return [{"name": rng.choice(NAMES), "value": a_value(rng)} for _ in range(rng.randrange(5))]


class Stream:
    """Events in an order that life could bring, and some that it should not."""

    def __init__(self, rng):
        self.rng, self.now, self.rankings, self.sent = rng, 1_700_000_000_000, ["r0"], []
        self.gap = rng.choice([10, 5_000, 200_000])
        self.plain = rng.random() < 0.5

    def time(self):
        self.now += self.rng.randrange(self.gap)
        shift = self.rng.random()
        if shift < 0.05:
            return self.now + 10**11  # dated years ahead
        return self.now - self.rng.randrange(3_000_000) if shift < 0.2 else self.now

    def record(self):
        rng = self.rng
        if self.sent and rng.random() < 0.1:
            return rng.choice(self.sent)  # again
        if rng.random() < 0.05:
            return rng.choice([b"", b"{", b"[]", b"\xff\xfe", b'{"event":"scroll"}', b"[1,2]", b"null"])
        events = [self.event() for _ in range(rng.choice([1, 1, 1, 1, 3]))]
        encode = msgspec.json.encode if rng.random() < 0.7 else msgspec.msgpack.encode
        try:
            value = encode(events[0] if len(events) == 1 else events)
        except (OverflowError, msgspec.MsgspecError, ValueError):  # msgpack has no such integers
            value = msgspec.json.encode(events)
        self.sent.append(value)
        return value

    def event(self):
        rng, number = self.rng, len(self.sent)
        kind = rng.choice(
            ["ranking"] * 4 + ["interaction"] * 6 + ["item", "user", "preference", "example", "packed"]
        )
        event = {"event": kind, "id": f"{kind}{number}-{rng.randrange(3)}", "timestamp": self.time()}
        who = {"user": rng.choice(["u1", "u2", None]), "session": rng.choice(["s1", None, ""])}
        if kind == "ranking":
            ids = rng.sample(["a", "b", "c", "d/e", "f#1", "g"], rng.randrange(1, 6))
            items = [{"id": i, "fields": some_fields(rng, self.plain)} for i in ids]
            if rng.random() < 0.2:
                for item in items:
                    item |= {"label": float(rng.randrange(3))}
            event |= {
                "items": items,
                "shuffled": rng.random() < 0.3,
                "fair_pairs": rng.choice([None, 0, 1]),
                **who,
            }
            event["id"] = rng.choice([event["id"], f"r{number}", rng.choice(ODD)])
            self.rankings.append(event["id"])
        elif kind == "interaction":
            event |= {
                "item": rng.choice(["a", "b", "c", "d/e", "f#1", "absent"]),
                "type": rng.choice(["click", "purchase", "like"]),
                "ranking": rng.choice([*self.rankings[-4:], f"r{number + 2}", None]),
                **who,
            }
        elif kind in ("item", "user"):
            event |= {kind: rng.choice(["a", "b", "d/e"]), "fields": some_fields(rng, self.plain)}
        elif kind == "preference":
            event |= {
                "better": {"price": 1.0, "emb[0]": 2.0},
                "worse": {"colour": "red"},
                "query": rng.choice(ODD),
            }
        elif kind == "example":
            event |= {"x": {"price": rng.gauss(0, 1)}, "y": float(rng.randrange(3)), "query": rng.choice(ODD)}
        else:
            values = np.array([[rng.gauss(0, 1), np.nan if rng.random() < 0.2 else 1.0] for _ in range(3)])
            event |= {"items": ["a", "b", "c"], "columns": ["price", "new"], "values": values.tobytes()}
        return event


def some_settings(rng):
    theta = rng.choice([None, [1.0, 0.5, 0.2]])
    judge = JudgeSettings(
        rule=rng.choice(
            ["auto", "auto", "unclicked", "ips", "scored", "skip-above", "last-click", "fair-pairs"]
        ),
        theta=theta,
        min_shuffled=rng.choice([1, 5, 2000]),
    )
    join = JoinSettings(
        window_ms=rng.choice([10_000, 1_800_000]),
        settle_ms=rng.choice([0, 0, 20_000]),
        max_open=rng.choice([2, 7, 1000]),
        max_ids=rng.choice([10, 1000]),
        dedup_ms=rng.choice([0, 100_000, 10**8]),
    )
    features = FeatureSettings(
        mode=rng.choice(["vocabulary", "hashed"]),
        columns=rng.choice([4, 9, 100]),
        bits=rng.choice([2, 10]),
        click_rate_half_life_ms=rng.choice([0, 60_000]),
        max_items=rng.choice([2, 100]),
    )
    models = [
        ModelSettings(name="one"),
        ModelSettings(name="é two", learner="egdm", params={"half_life": 20.0}),
    ]
    settings = Settings(judge=judge, join=join, features=features, models=models, commit_ms=10**9)
    return load_settings(None, {}, base=msgspec.to_builtins(settings))


def run(log, settings, store, rng, commit, restart):
    checkpoint = Checkpoint(store, Flow(settings))
    while checkpoint.flow.offset < len(log):
        offset = checkpoint.flow.offset
        checkpoint.flow.step(Record(offset, log[offset]))
        if rng.random() < commit:
            checkpoint.commit()
        if rng.random() < restart:
            checkpoint = Checkpoint(store, Flow(settings))
    checkpoint.commit()
    assert store.load("0") == all_entries(checkpoint.flow)
    counts = checkpoint.flow.counts
    fates = counts["rejected"] + counts["duplicates"] + counts["late"]
    assert checkpoint.flow.accepted + fates == counts["events"]
    return digest(store)


@pytest.mark.parametrize("seed", range(24))
def test_however_a_random_stream_is_cut_its_state_is_one(seed, tmp_path):
    rng = random.Random(seed)
    settings, stream = some_settings(rng), Stream(rng)
    log = [stream.record() for _ in range(150)]
    straight = run(log, settings, open_store("memory://"), rng, 0.0, 0.0)
    for commit, restart in ((1.0, 0.0), (0.1, 0.0), (0.3, 0.1), (1.0, 0.5)):
        assert run(log, settings, open_store("memory://"), rng, commit, restart) == straight
    store, other = open_store("memory://"), open_store(f"sqlite:///{tmp_path}/s.db")
    run(log[: rng.randrange(1, 149)], settings, store, rng, 0.2, 0.0)
    write_snapshot(tmp_path / "s.safetensors", store)
    restore_snapshot(tmp_path / "s.safetensors", other)
    assert run(log, settings, other, rng, 0.2, 0.1) == straight
