"""A flow's state by key: all of it, what changed, and back.

config            the settings it was learnt under      join/…      open rankings, clicks, waiting clicks
source            which log it was learnt from          judge/…     clicks by rank on shuffled rankings
counts            events of each kind                   features/…  names, items, click rates
clock             event time                            model/NAME/…    what the learner learnt
seen/…            ids seen lately                       quality/NAME    how well it did over time
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..metrics.history import History
from ..state import blocks
from ..state.values import StateValue, decode, encode
from .flow import Flow
from .model import METRICS


def all_entries(flow: Flow) -> dict[str, bytes]:
    """Every entry of the flow, encoded."""
    entries = _small(flow)
    for prefix, part in _parts(flow).items():
        entries |= {prefix + key: value for key, value in part.to_state().items()}
    for model in flow.models:
        for key, value in model.learner.to_state().items():
            entries |= _learnt(f"model/{model.name}/", key, value, None)
    return {key: encode(value) for key, value in entries.items() if value is not None}


def changes(flow: Flow) -> dict[str, bytes | None]:
    """The entries that changed since the last call, encoded; None for what is gone."""
    entries = _small(flow)
    for prefix, part in _parts(flow).items():
        entries |= {prefix + key: value for key, value in part.dirty().items()}
    for model in flow.models:
        state = model.learner.to_state()
        for key, dirty in model.learner.dirty().items():
            entries |= _learnt(f"model/{model.name}/", key, state.get(key), dirty)
    return {key: None if value is None else encode(value) for key, value in entries.items()}


def restore(flow: Flow, entries: Mapping[str, bytes], offset: int) -> None:
    """Bring a new flow to a stored state. An empty one is a fresh start."""
    state = {key: decode(value) for key, value in entries.items()}
    flow.offset = offset
    if not state:
        return
    flow.counts.clear()
    flow.counts.update(_under(state, "counts"))
    flow.clock.from_state(_under(state, "clock"))
    flow.source = str(state.get("source", ""))
    for prefix, part in _parts(flow).items():
        part.from_state(
            {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        )
    for model in flow.models:
        prefix = f"model/{model.name}/"
        learnt = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        arrays = {key: value for key, value in learnt.items() if isinstance(value, np.ndarray)}
        if learnt:
            model.learner.from_state({**learnt, **blocks.join(arrays)})
        if f"quality/{model.name}" in state:
            model.history = History.from_state(METRICS, _under(state, f"quality/{model.name}"))


def check_config(flow: Flow, entries: Mapping[str, bytes]) -> None:
    """Refuse to go on under settings other than those the state was learnt with."""
    if "config" not in entries:
        return
    stored, mine = decode(entries["config"]), flow.settings.learning()
    different = [
        f"{section}.{name}: {_get(stored, section, name)!r} -> {_get(mine, section, name)!r}"
        for section in mine
        for name in (mine[section] if isinstance(mine[section], dict) else [""])
        if _get(stored, section, name) != _get(mine, section, name)
    ]
    if different:
        raise ConfigError(
            "the store was learnt under other settings ("
            + "; ".join(different)
            + "). Use those, or a new --store, "
            "or pass --adopt-config to go on under the new ones from here."
        )


def _get(config: Any, section: str, name: str) -> Any:
    value = config.get(section)
    return value.get(name) if name and isinstance(value, dict) else value


def _small(flow: Flow) -> dict[str, StateValue]:
    return {
        "config": flow.settings.learning(),
        "source": flow.source,
        "counts": dict(flow.counts),
        "clock": dict(flow.clock.to_state()),
        **{f"quality/{model.name}": dict(model.history.to_state()) for model in flow.models},
    }


def _parts(flow: Flow) -> dict[str, Any]:
    return {
        "seen/": flow.seen,
        "join/": flow.join,
        "judge/": flow.judge,
        "features/": flow.features,
    }


def _learnt(prefix: str, key: str, value: Any, dirty: list[int] | None) -> dict[str, StateValue]:
    if isinstance(value, np.ndarray):
        return {prefix + name: block for name, block in blocks.split(key, value, dirty).items()}
    return {prefix + key: value}


def _under(state: Mapping[str, Any], key: str) -> Any:
    return state[key]
