"""A swap that does harm is taken back: the quality after it is watched, list by list."""

import logging

from ..config import Settings
from ..features.batch import Floats
from ..state.base import Store
from .driftlog import note_drift
from .flow import Flow
from .model import Model
from .recommender import Recommender
from .refit import Refit, standing_refit, take_back
from .swap import Swap, roll_back, standing_swap

LEAST = 100  # lists before a swap, to know how good the model was
ENOUGH = 30  # lists after it, to know how good it is now
WATCHED = 10_000  # lists after a swap: what happens later it is not blamed for

log = logging.getLogger(__name__)


class Watch:
    """The prequential NDCG of one model in one shard, and whether it fell after the last swap.

    ADWIN [1] says whether the stream of values has changed; by how much, the means before and after say: that
    of ADWIN's window when the swap was seen, and that of all lists since.

    >>> import numpy as np
    >>> watch = Watch(0.1)
    >>> watch.add(np.tile([0.6, 0.8], 200))
    >>> watch.swapped("default@900")
    >>> watch.add(np.tile([0.4, 0.6], 200))
    >>> watch.fallen, round(watch.before, 2), round(watch.after, 2)
    (True, 0.7, 0.5)

    References
    ----------
    [1] Learning from time-changing data with adaptive windowing (Bifet, Gavalda), SDM 2007.
    """

    def __init__(self, amount: float) -> None:
        from river.drift import ADWIN  # loads scikit-learn where it is: a second of every worker's start

        self.amount = amount
        self.swap = ""  # the one that is watched
        self.before = self.after = float("nan")
        self._adwin = ADWIN()
        self._n, self._changed = 0, False

    def swapped(self, swap: str) -> None:
        """From here on a swap is at work; known already, or none: nothing happens."""
        if swap == self.swap:
            return
        enough = self._adwin.width >= LEAST
        self.swap, self.before = swap, self._adwin.estimation if enough else float("nan")
        self.after, self._n, self._changed = 0.0, 0, False

    def add(self, values: Floats) -> None:
        """NDCG of the lists that came next, in order."""
        for value in values.tolist():
            self._adwin.update(value)
            self._changed = self._changed or self._adwin.drift_detected
            self._n += 1
            self.after += (value - self.after) / self._n

    @property
    def fallen(self) -> bool:
        """Whether the swap is to be taken back."""
        seen = bool(self.swap) and ENOUGH <= self._n <= WATCHED and self._changed
        return seen and self.after < self.before - self.amount


class Guard:
    """Watches all models of the shards that a worker has open, over every reopening."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._watches: dict[tuple[str, str], Watch] = {}

    def opened(self, shard: str, flow: Flow) -> None:
        """A shard was opened, maybe because its weights were swapped."""
        if not self._settings.reconcile.rollback:
            return
        watched: list[Model | Recommender] = [*flow.models, *flow.recommenders]
        for model in watched:
            key = shard, model.name
            if key not in self._watches:
                self._watches[key] = Watch(self._settings.reconcile.rollback)
            swap = self._standing(shard, model.name)
            self._watches[key].swapped(swap.id if swap else "")
            model.watch = self._watches[key].add

    def _standing(self, shard: str, model: str) -> Swap | Refit | None:
        if self._refits(model):
            return standing_refit(self._store.read(shard, (f"refit/{model}",))[0], model)
        return standing_swap(self._store, shard, model)

    def _refits(self, model: str) -> bool:
        return model in [one.name for one in self._settings.recommenders]

    def act(self) -> list[Swap | Refit]:
        """Take back what did harm, in every shard that has it; returns what was taken back."""
        undone: list[Swap | Refit] = []
        for (shard, model), watch in self._watches.items():
            if not watch.fallen:
                continue
            for other in self._store.shards():
                found = self._standing(other, model)
                if found is None or found.id != watch.swap:
                    continue
                if self._refits(model):
                    undone.append(take_back(self._store, other, model) or found)
                else:
                    undone.append(roll_back(self._store, other, self._settings, model) or found)
            log.error(
                "%s: NDCG fell from %.3f to %.3f after the swap %s of model %s: it was taken back",
                shard, watch.before, watch.after, watch.swap, model,
            )  # fmt: skip
            said = {"rolled_back": watch.swap, "ndcg_before": watch.before, "ndcg_after": watch.after}
            note_drift(self._settings, model=model, **said)
            watch.swapped("")
        return undone
