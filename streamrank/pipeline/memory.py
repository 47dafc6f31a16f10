"""A flow's state by key: all of it, what changed, and back.

config            the settings it was learnt under      join/…      open rankings, clicks, waiting clicks
source            which log it was learnt from          judge/…     clicks by rank on shuffled rankings
counts            events of each kind                   features/…  names, items, click rates
clock             event time                            model/NAME/…    what the learner learnt
seen/…            ids seen lately                       quality/NAME    how well it did over time
                                                        contest/A/B     credits of two that share lists
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from ..errors import ConfigError, SourceError
from ..events.types import Record
from ..learners.base import Ranker
from ..learners.latent import RoBiRankMF
from ..metrics.history import History
from ..state import blocks
from ..state.values import StateValue, decode, encode
from .flow import Flow
from .model import Model
from .recommender import Recommender


def all_entries(flow: Flow) -> dict[str, bytes]:
    """Every entry of the flow, encoded."""
    entries = _small(flow)
    for prefix, part in _parts(flow).items():
        entries |= {prefix + key: value for key, value in part.to_state().items()}
    return {key: encode(value) for key, value in entries.items() if value is not None} | model_entries(
        _learners(flow)
    )


def changes(flow: Flow) -> dict[str, bytes | None]:
    """The entries that changed since the last call, encoded; None for what is gone."""
    entries = _small(flow)
    for prefix, part in _parts(flow).items():
        entries |= {prefix + key: value for key, value in part.dirty().items()}
    encoded = {key: None if value is None else encode(value) for key, value in entries.items()}
    for model in _learners(flow):
        encoded |= learner_changes(model.name, model.learner)
    return encoded


def learner_changes(model: str, learner: Ranker | RoBiRankMF) -> dict[str, bytes | None]:
    """The entries of one model's learner that changed since the last call, encoded; None for what is gone."""
    changed = learner.dirty()
    state = learner.entries(changed)
    entries: dict[str, StateValue] = {}
    for key, dirty in changed.items():
        entries |= _learnt(f"model/{model}/", key, state.get(key), dirty)
    return {key: None if value is None else encode(value) for key, value in entries.items()}


def model_entries(models: Iterable[Model | Recommender]) -> dict[str, bytes]:
    """Every entry of what the learners of some models learnt, encoded."""
    entries: dict[str, bytes] = {}
    for model in models:
        entries |= learner_entries(f"model/{model.name}/", model.learner)
    return entries


def learner_entries(prefix: str, learner: Ranker | RoBiRankMF) -> dict[str, bytes]:
    """Every entry of what a learner learnt, encoded."""
    entries: dict[str, StateValue] = {}
    for key, value in learner.to_state().items():
        entries |= _learnt(prefix, key, value, None)
    return {key: encode(value) for key, value in entries.items() if value is not None}


def restore(flow: Flow, entries: Mapping[str, bytes], offset: int) -> None:
    """Bring a new flow to a stored state. An empty one is a fresh start."""
    state = {key: decode(value) for key, value in entries.items()}
    flow.offset = offset
    if not state:
        return
    flow.counts.clear()
    flow.counts.update(cast(dict[str, int], state["counts"]))
    flow.clock.from_state(cast(dict[str, int], state["clock"]))
    flow.source, flow.last = str(state.get("source", "")), str(state.get("last", ""))
    for prefix, part in _parts(flow).items():
        part.from_state(
            {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        )
    for model in _learners(flow):
        restore_learner(model.name, model.learner, state)
        if f"quality/{model.name}" in state:
            quality = cast(dict[str, Any], state[f"quality/{model.name}"])
            model.history = History.from_state(model.history.names, quality)


def restore_learner(
    model: str, learner: Ranker | RoBiRankMF, state: Mapping[str, Any], *, under: str = "model"
) -> None:
    """Bring a new learner to the state of a model, if there is one among these decoded entries."""
    prefix = f"{under}/{model}/"
    learnt = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    arrays = {key: value for key, value in learnt.items() if isinstance(value, np.ndarray)}
    if learnt:
        learner.from_state({**learnt, **blocks.join(arrays)})


def check_config(flow: Flow, entries: Mapping[str, bytes]) -> None:
    """Refuse to go on under settings other than those the state was learnt with."""
    if "config" not in entries:
        return
    stored, mine = cast(dict[str, Any], decode(entries["config"])), flow.settings.learning()
    stored = {"recommenders": [], **stored}  # of a store that was made before there were any
    different = [
        f"{'.'.join(filter(None, (section, name)))}: "
        f"{_get(stored, section, name)!r} -> {_get(mine, section, name)!r}"
        for section in mine
        for name in (mine[section] if isinstance(mine[section], dict) else [""])
        if _get(stored, section, name) != _get(mine, section, name)
    ]
    if different:
        raise ConfigError(
            "the store was learnt under other settings (" + "; ".join(different) + "). Use those, or a new "
            "--store, or pass --adopt-config to go on under the new ones from here."
        )


def check_source(fingerprint: str, entries: Mapping[str, bytes]) -> None:
    """Refuse a log that is not the one the state was learnt from."""
    stored = decode(entries["source"]) if "source" in entries else ""
    if stored and fingerprint and stored != fingerprint:
        raise SourceError(
            "this store was learnt from a log that begins otherwise, so its offset means nothing here. "
            "Give the same files in the same order (more may follow), or use a new --store."
        )


def check_last(flow: Flow, record: Record | None) -> None:
    """Refuse a log whose last record taken is not the one the state was learnt from."""
    if record is None:
        raise SourceError(
            f"the log ends before record {flow.offset}, where the store stands. Give the whole log it was "
            "learnt from (more may follow), or use a new --store."
        )
    if flow.last and hash_of(record.value) != flow.last:
        raise SourceError(
            f"{record.place} is not the record the store took last: this is another log. Give the same files "
            "in the same order (more may follow), or use a new --store."
        )


def hash_of(value: bytes) -> str:
    """What is remembered of a record."""
    return hashlib.sha256(value).hexdigest()


def _get(config: Any, section: str, name: str) -> Any:
    value = config.get(section)
    return value.get(name) if name and isinstance(value, dict) else value


def _small(flow: Flow) -> dict[str, StateValue]:
    return {
        "config": flow.settings.learning(),
        "source": flow.source,
        "last": flow.last if flow.last_value is None else hash_of(flow.last_value),
        "counts": dict(flow.counts),
        "clock": dict(flow.clock.to_state()),
        **{f"quality/{model.name}": dict(model.history.to_state()) for model in _learners(flow)},
    }


def _learners(flow: Flow) -> list[Model | Recommender]:
    return [*flow.models, *flow.recommenders]


def _parts(flow: Flow) -> dict[str, Any]:
    return {
        "seen/": flow.seen,
        "join/": flow.join,
        "judge/": flow.judge,
        "contest/": flow.contests,
        "features/": flow.features,
    }


def _learnt(prefix: str, key: str, value: Any, dirty: list[int] | None) -> dict[str, StateValue]:
    if isinstance(value, np.ndarray):
        return {prefix + name: block for name, block in blocks.split(key, value, dirty).items()}
    return {prefix + key: value}
