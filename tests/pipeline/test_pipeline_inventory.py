import logging

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamrank.config import Settings
from streamrank.errors import StoreFull
from streamrank.events.types import Record
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.inventory import BOUNDS, MB, Budget, inventory
from streamrank.pipeline.memory import all_entries
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.state import open_store

VALUES = list(Simulator(SimulationSettings(events=3000, seed=5)).records())


def learn(checkpoint, values):
    for offset, value in enumerate(values, checkpoint.flow.offset):
        checkpoint.flow.step(Record(offset, value))
        checkpoint.maybe_commit()


def test_every_entry_of_a_flow_has_a_kind_and_none_is_left_out():
    flow = Flow(Settings())
    for offset, value in enumerate(VALUES[:1500]):
        flow.step(Record(offset, value))
    flow.learn()
    entries = all_entries(flow)
    shares = inventory(entries)
    assert list(shares) == list(BOUNDS)
    assert sum(share.entries for share in shares.values()) == len(entries)
    assert sum(share.bytes for share in shares.values()) == sum(map(len, [*entries, *entries.values()]))
    assert shares["settings"].entries == 5
    for kind in ("weights", "joins", "ids", "features", "quality"):
        assert shares[kind].entries


WRITES = st.dictionaries(
    st.sampled_from(["model/m/w", "model/m/q/a", "join/1", "join/2", "seen/é"]),
    st.none() | st.binary(max_size=9),
)


@given(st.lists(WRITES, max_size=6))
def test_a_budget_counts_as_a_whole_inventory_would(commits):
    store, budget = {}, Budget("s", 1, {})
    for writes in commits:
        budget.check(writes)
        for key, value in writes.items():
            store.pop(key, None)
            if value is not None:
                store[key] = value
        expected = {kind: share.bytes for kind, share in inventory(store).items() if share.bytes}
        assert {kind: size for kind, size in budget._bytes.items() if size} == expected


def test_a_commit_over_the_budget_is_refused_with_what_to_lower_and_a_smaller_one_is_not():
    budget = Budget("clicks[0]", 1, {"join/1": bytes(MB // 2), "seen/1": bytes(MB // 4)})
    with pytest.raises(
        StoreFull, match=r"'clicks\[0\]' would hold 1\.\d MB; max_state_mb is 1\. Nothing"
    ) as why:
        budget.check({"join/2": bytes(MB // 2)})
    assert "joins 1.0 MB (lower join.max_open or join.window_ms), ids 0.3 MB (lower join.max_ids" in str(
        why.value
    )
    budget.check({"join/2": bytes(MB // 2), "join/1": None})  # what was refused was not counted


def test_a_shard_over_a_budget_that_was_lowered_may_shrink_but_not_grow():
    budget = Budget("s", 1, {"join/1": bytes(3 * MB), "join/2": bytes(MB)})
    with pytest.raises(StoreFull):
        budget.check({"join/3": b"x"})
    budget.check({"join/3": b"x", "join/2": None})


def test_an_alarm_is_given_once_at_four_fifths(caplog):
    budget = Budget("s", 1, {})
    with caplog.at_level(logging.WARNING):
        for n in range(9):
            budget.check({f"join/{n}": bytes(MB // 10)})
    (alarm,) = caplog.messages
    assert "holds 0.8 MB, of 1 that max_state_mb allows" in alarm


def test_a_checkpoint_over_its_budget_leaves_the_store_as_it_was():
    settings = msgspec.structs.replace(Settings(), max_state_mb=1, commit_every=200)
    with open_store("memory://") as store:
        with pytest.raises(StoreFull, match="max_state_mb is 1"):
            learn(Checkpoint(store, Flow(settings)), VALUES)
        entries, offset = store.read("0")
        assert 0 < sum(share.bytes for share in inventory(entries).values()) <= MB
        assert Checkpoint(store, Flow(settings)).flow.offset == offset
