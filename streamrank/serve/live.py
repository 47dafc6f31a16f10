"""Ranking with what was learnt so far, in process; nothing learns here."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import numpy as np

from ..config import Settings, load_settings
from ..errors import ConfigError, StreamrankError
from ..events.types import Item, Ranking
from ..features.batch import Batch, BatchBuilder
from ..learners.base import Ranker
from ..state import Store, open_store
from .answers import Answer, Part, Ranked, RecommendRequest
from .comparison import challenger_of
from .interleave import draw_of, team_draft
from .shards import Served, load

POLL_S = 0.02  # between looks at where the shards stand
SHARE = 0.2  # of the time goes into reading, at most: a large state is read less often

log = logging.getLogger(__name__)


class Live:
    """The models of a store, kept up to date by a thread; asking never waits for it.

    >>> from streamrank.events.types import Item
    >>> with Live("memory://") as live:
    ...     answer = live.rank("default", Ranking(id="r", timestamp=0, items=[Item("a"), Item("b")]))
    >>> [ranked.item for ranked in answer.items], answer.degraded
    (['a', 'b'], True)
    """

    def __init__(
        self,
        store: str | None = None,
        settings: Settings | None = None,
        *,
        opened: Callable[[str, Settings], Store] = open_store,
    ) -> None:
        settings = settings or load_settings()
        # whoever asks is answered from memory meanwhile, so a store that is away is to show soon
        redis = msgspec.structs.replace(
            settings.redis, timeout_ms=min(settings.redis.timeout_ms, 1000), retry_ms=0
        )
        self.settings = msgspec.structs.replace(settings, store=store or settings.store, redis=redis)
        self._opened = opened
        self._store: Store | None = None
        self._served: Served | None = None
        self.failure = "not read yet"  # why the store cannot be read; empty when it can
        self.loaded_at = time.time()
        self._wake, self._stop = threading.Event(), threading.Event()
        self.refresh()
        self._thread = threading.Thread(target=self._watch, name="live", daemon=True)
        self._thread.start()

    # -- asking --------------------------------------------------------------------------------------------

    @property
    def served(self) -> Served | None:
        """What answers now; None while the store was never read."""
        return self._served

    @property
    def models(self) -> list[str]:
        """The names that can be asked for."""
        served = self._served
        return [model.name for model in (served.settings if served else self.settings).models]

    def rank(self, model: str, ranking: Ranking, *, explain: bool = False) -> Answer:
        """The items of a ranking, best first; ties keep their order. `ConfigError`: no such model.

        A learner that explores samples the order instead (unless `serve.explore` is off). The first model
        of the config is asked for as the champion: it shares its lists with `serve.challenger`, if that is
        set. What is random about it is drawn by the id of the ranking.
        """
        began = time.perf_counter()
        served = self._served
        if model not in self.models:
            raise ConfigError(f"there is no model {model!r}; there are: {', '.join(self.models)}")
        if served is None or not served.learnt:
            ranked = [Ranked(item.id, 0.0) for item in ranking.items]
        else:
            names = [model]
            if model == served.settings.models[0].name:
                model = served.champion
                names = [model, challenger_of(served, self.settings.serve.challenger)]
            ranked = self._ranked(served, [name for name in names if name], ranking, explain)
        took = round(1000 * (time.perf_counter() - began))
        version = served.version if served else "none"
        return Answer(ranked, took, model, version, bool(self.failure) or served is None or not served.learnt)

    def _ranked(self, served: Served, names: list[str], ranking: Ranking, explain: bool) -> list[Ranked]:
        """By one model, or drafted by two in turn."""
        batch, draw = _batch(served, ranking), draw_of(ranking.id)
        views = [_view(served, name, batch, draw, self.settings.serve.explore, explain) for name in names]
        orders = [view.order for view in views]
        placed = team_draft(orders[0], orders[1], draw) if len(names) == 2 else [(k, 0) for k in orders[0]]
        teams = names if len(names) == 2 else [None]
        known = served.judge.by_rank(len(placed))
        theta: Sequence[float | None] = known or [None] * len(placed)
        return [
            Ranked(ranking.items[k].id, views[t].scores[k], views[t].parts[k], teams[t], theta[place])
            for place, (k, t) in enumerate(placed)
        ]

    def recommend(self, name: str, request: RecommendRequest) -> Answer:
        """The best of all items for a user; who is new gets what is popular. `ConfigError`: no such name.

        Degraded: no click was learnt yet (nothing to offer), or the store is away.
        """
        began = time.perf_counter()
        served = self._served
        names = [one.name for one in (served.settings if served else self.settings).recommenders]
        if name not in names:
            raise ConfigError(f"there is no recommender {name!r}; there are: {', '.join(names) or 'none'}")
        ranked: list[Ranked] = []
        if served is not None:
            learner = served.recommenders[name]
            items = [str(item) for item in learner.recommend(request.user, request.count, request.exclude)]
            scores = learner.scores(request.user, items).tolist()
            ranked = [Ranked(item, score) for item, score in zip(items, scores, strict=True)]
        took = round(1000 * (time.perf_counter() - began))
        degraded = bool(self.failure) or served is None or not served.counts["clicks"]
        return Answer(ranked, took, name, served.version if served else "none", degraded)

    # -- keeping up ----------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Read what changed, if anything did; whether something else is served now."""
        try:
            if self._store is None:
                self._store = self._opened(self.settings.store, self.settings)
            before = self._served
            standings = {name: self._store.standing(name) for name in self._store.shards()}
            if before is None or standings != {name: s.standing for name, s in before.shards.items()}:
                served = load(self._store, self.settings, before.shards if before else {})
                if before is None:
                    _warm_up(served)
                self._served = served
                self.loaded_at = time.time()
            self.failure = ""
            return before is not self._served
        except StreamrankError as error:
            if not self.failure:
                log.warning("the store cannot be read; ranking goes on with the last model: %s", error)
            self.failure = str(error)
            return False

    def wake(self) -> None:
        """Look now: something was committed."""
        self._wake.set()

    def _watch(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                changed = self.refresh()
            except Exception:  # such as entries of a version to come: what is served stays
                log.exception("what the store holds cannot be served")
                self.failure, changed = "what the store holds cannot be served: see the log", False
            spent = time.monotonic() - began
            self._stop.wait(spent * (1 / SHARE - 1) if changed else 0.0)
            self._wake.wait(1.0 if self.failure else POLL_S)
            self._wake.clear()

    def close(self) -> None:
        """Stop keeping up, and let go of the store."""
        self._stop.set()
        self._wake.set()
        self._thread.join()
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _View(NamedTuple):
    """How one model sees the rows of a ranking."""

    scores: list[float]
    order: list[int]
    parts: Sequence[list[Part] | None]


def _view(served: Served, name: str, batch: Batch, draw: int, explore: bool, explain: bool) -> _View:
    learner = served.learners[name]
    scores = learner.scores(batch)
    if explore and learner.explores:
        order = learner.shown_order(scores, draw)
    else:
        order = np.argsort(-scores, kind="stable")
    parts = _explained(served, learner, batch) if explain else [None] * len(scores)
    return _View(scores.tolist(), order.tolist(), parts)


def _warm_up(served: Served) -> None:
    """Compile, or load, the kernels before the first request comes: that takes up to some seconds."""
    batch = _batch(served, Ranking(id="-", timestamp=0, items=[Item("-")]))
    for learner in served.learners.values():
        learner.scores(batch)


def _batch(served: Served, ranking: Ranking) -> Batch:
    now = max([ranking.time_ms, *(shard.flow.clock.now or 0 for shard in served.shards.values())])
    rows = served.features.rows(ranking, learn=False, now=now)
    builder = BatchBuilder()
    builder.add(rows, [0.0] * rows.n, [0.0] * rows.n, query=ranking.query or "")
    return builder.build()


def _explained(served: Served, learner: Ranker, batch: Batch) -> list[list[Part] | None]:
    """Of each row its features, the one with the largest share first."""
    name, shares = served.features.columns.name, learner.explain_columns(batch).tolist()
    columns, values = batch.indices.tolist(), batch.values.tolist()
    parts: list[list[Part] | None] = []
    for start, end in zip(batch.indptr[:-1].tolist(), batch.indptr[1:].tolist(), strict=True):
        row = [Part(name(columns[k]), values[k], shares[k]) for k in range(start, end)]
        parts.append(sorted(row, key=lambda part: (-abs(part.share), part.name)))
    return parts
