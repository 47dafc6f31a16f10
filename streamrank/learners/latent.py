"""RoBiRank for users and items: factors learnt from one click at a time."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import river.reco.base

from ..errors import ConfigError
from ..features.batch import Floats, Ints
from ..kernels.latent import BLOCK_BITS, BPR, ROBIRANK, Bytes, Factors, learn_clicks, rank_of
from .rows import Rows

Ids = Sequence[Hashable] | npt.NDArray[Any]

LOSSES = {"robirank": ROBIRANK, "bpr": BPR}
NOISE = 0.1  # spread of new factors


class RoBiRankMF(river.reco.base.Ranker):
    """Latent collaborative retrieval: f_xy = <U_x, V_y> + b_y, one step a click against sampled items.

    Per click (x, y) with B uniform negatives z, sigma(t) = log2(1 + 2^-t),
        S = ((|Y|-1)/B) sum sigma(f_y - f_z),  w_z = (|Y|-1)/(B ln2 (1 + S)) /(1 + 2^(f_y - f_z))      (1)
        V_z -= eta_z w_z U_x,  V_y += eta_y (sum w_z) U_x,  U_x += eta_x sum w_z (V_y - V_z)           (2)
    eta_r = rate/sqrt(G_r), one G a row from 1. (1) linearises log2(1 + S) at xi = 1/(1 + S) [1]; the same
    negatives give xi and the step, so none is stored. Clicks of y <= 0 teach nothing; y weighs the others.
    A new item starts as the typical one (the mean of B drawn) plus noise that its id decides; a new user near
    zero, so it is served by the biases, which are popularity. Predicting changes nothing.

    Parameters
    ----------
    d
        Factors a row, >= 1, beside the bias.
    negatives
        B, >= 1. 128 is a little better than 32 and costs three times as much.
    rate
        Step size, > 0: 1 for a single pass, 0.3 for many replays.
    loss
        ``robirank``, or ``bpr``, which wins on baskets that move fast.
    half_life
        Steps after which a squared gradient counts half in G, so that steps do not vanish and taste may
        drift; 0: never forgotten.
    ridge
        Shrinks each row that is moved, >= 0.
    average
        1: xi from the sample alone. Below: S is a moving average a user with this share for the newest.
    max_users, max_items
        Rows at most; when full, the sixteenth not clicked for longest is evicted and would start anew.
    seed
        Of negatives and of new rows.

    Examples
    --------
    >>> ranker = RoBiRankMF(d=4, seed=1)
    >>> for _ in range(40):
    ...     for user, item in [("ann", "jazz"), ("bob", "rock"), ("ann", "blues"), ("bob", "punk")]:
    ...         ranker.learn_one(user, item, y=True)
    >>> ranker.recommend("ann", 2), ranker.rank("bob", {"jazz", "punk"})
    (['blues', 'jazz'], ['punk', 'jazz'])

    References
    ----------
    [1] Ranking via robust binary classification, Yun, Raman, Vishwanathan: latent collaborative retrieval.
    """

    def __init__(
        self,
        d: int = 16,
        negatives: int = 32,
        rate: float = 1.0,
        loss: str = "robirank",
        half_life: int = 0,
        ridge: float = 0.0,
        average: float = 1.0,
        max_users: int = 1_000_000,
        max_items: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(seed)
        for name, value in {"d": d, "negatives": negatives, "max_users": max_users}.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is {value!r}: a whole number from 1 up")
        if isinstance(max_items, bool) or not isinstance(max_items, int) or max_items < 4:
            raise ConfigError(f"max_items is {max_items!r}: a whole number from 4 up")
        if loss not in LOSSES:
            raise ConfigError(f"there is no loss {loss!r}; choose one of: {', '.join(LOSSES)}")
        if not 0 < rate < math.inf or not 0 <= ridge < math.inf or not 0 < average <= 1 or half_life < 0:
            raise ConfigError(
                f"rate = {rate}, ridge = {ridge}, average = {average}, half_life = {half_life}: rate is "
                "above 0, ridge and half_life from 0 up, average above 0 and at most 1"
            )
        self.d, self.negatives, self.rate, self.loss = d, negatives, rate, loss
        self.half_life, self.ridge, self.average = half_life, ridge, average
        self.max_users, self.max_items = max_users, max_items
        self._users, self._items = Rows(max_users), Rows(max_items)
        self._factors = self._empty(16, 16)
        self._standing = np.zeros(2, np.int64)  # items in use, rows of items
        self._clicks = 0
        self._generator = np.array([seed], np.uint64)
        self._dirty_users: Bytes = np.ones(1, np.uint8)
        self._dirty_items: Bytes = np.ones(1, np.uint8)
        self._mark_all()

    # -- river's interface ---------------------------------------------------------------------------------

    def learn_one(self, user: Hashable, item: Hashable, y: Any = 1.0, x: Any = None) -> None:  # noqa: ARG002
        """Learn one click; `x` is not used."""
        self.learn_batch([user], [item], [float(y)])

    def predict_one(self, user: Hashable, item: Hashable, x: Any = None) -> Any:  # noqa: ARG002
        """The score of an item for a user. Who is new gets the biases, what is new the typical score."""
        return float(self.scores(user, [item])[0])

    def rank(self, user: Hashable, items: Iterable[Hashable], x: Any = None) -> list[Hashable]:  # noqa: ARG002
        """The items, best first; ties by the order in which items first came, then as given."""
        given = list(items)
        rows = np.array([self._items.find(item) for item in given], np.int64)
        order = np.lexsort((np.where(rows < 0, len(self._items.ids), rows), -self.scores(user, given)))
        return [given[k] for k in order]

    def recommend(self, user: Hashable, k: int = 10, exclude: Iterable[Hashable] = ()) -> list[Hashable]:
        """The k best of all items in use, best first, without those of `exclude`."""
        n = len(self._items.ids)
        scores = self._factors.V[:n] @ self._taste(user)
        scores[self._factors.item_last[:n] < 0] = -np.inf
        scores[[row for row in map(self._items.find, exclude) if row >= 0]] = -np.inf
        best = np.argpartition(-scores, k)[:k] if k < n else np.arange(n)
        best = best[np.lexsort((best, -scores[best]))]
        return [self._items.ids[row] for row in best.tolist() if scores[row] > -np.inf]

    def scores(self, user: Hashable, items: Sequence[Hashable]) -> Floats:
        """The score of each item for a user; changes nothing."""
        rows = np.array([self._items.find(item) for item in items], np.int64)
        taste, V = self._taste(user), self._factors.V
        # row by row: a matrix product rounds by the number of rows
        values: Floats = np.array([(V[row] * taste).sum() for row in rows])
        if (rows < 0).any():
            used = self._factors.item_last >= 0
            values[rows < 0] = (V[used].mean(axis=0) * taste).sum() if used.any() else 0.0
        return values

    def factors_of(self, users: Iterable[Hashable], items: Iterable[Hashable]) -> tuple[Floats, Floats]:
        """Factors with the bias first, a row each: scores are U V'. Zero for an item that is not known."""
        rows = np.array([self._items.find(item) for item in items], np.int64)
        V = self._factors.V[rows]
        V[rows < 0] = 0.0
        return np.array([self._taste(user) for user in users]), V

    def _taste(self, user: Hashable) -> Floats:
        row = self._users.find(user)
        if row >= 0:
            taste: Floats = self._factors.U[row]
            return taste
        return self._nobody()

    def _nobody(self) -> Floats:
        biases: Floats = np.eye(1, self.d + 1)[0]
        return biases

    # -- the array interface -------------------------------------------------------------------------------

    def learn_batch(self, users: Ids, items: Ids, y: Sequence[float] | None = None) -> None:
        """Learn many clicks in order, to the same bits as one at a time."""
        self._learn(users, items, y, None)

    def prequential(self, users: Ids, items: Ids, y: Sequence[float] | None = None) -> Ints:
        """Rank each click's item among all in use, from 0, then learn it; -1 where the item was new.

        Items that the same user clicked earlier in this call are left out. Who is new is served the biases.
        """
        out = np.full(len(users), -1, np.int64)
        self._had: dict[int, list[int]] = {}
        self._learn(users, items, y, out)
        return out

    def _learn(
        self,
        users: Ids,
        items: Ids,
        y: Sequence[float] | None,
        ranked: Ints | None,
    ) -> None:
        if len(users) != len(items) or (y is not None and len(y) != len(users)):
            raise ValueError(f"{len(users)} users came with {len(items)} items: give as many of each")
        weights = np.ones(len(users)) if y is None else np.asarray(y, np.float64)
        pending: list[tuple[int, int, int]] = []
        find_user, find_item = self._users.find, self._items.find
        held = (np.isfinite(weights) & (weights > 0.0)).tolist()
        for t, (user, item) in enumerate(zip(_plain(users), _plain(items), strict=True)):
            if not held[t]:
                continue
            row, column = find_user(user), find_item(item)
            if (row < 0 and self._users.is_full) or (column < 0 and self._items.is_full):
                self._run(pending, weights, ranked)  # before rows they point at are given away
                pending = []
                self._make_room(row < 0, column < 0)
                row, column = find_user(user), find_item(item)
            if row < 0:
                row = self._new_user(user)
            if column < 0:
                column = self._new_item(item)
            pending.append((t, row, column))
        self._run(pending, weights, ranked)

    def _run(self, pending: list[tuple[int, int, int]], weights: Floats, ranked: Ints | None) -> None:
        if not pending:
            return
        places, rows, columns = np.array(pending, np.int64).T.copy()
        numbers = self._clicks + np.arange(len(places))
        self._clicks += len(places)
        if ranked is None:
            self._step(rows, columns, weights[places], numbers, self._generator, 0, 1)
            return
        for k, place in enumerate(places):
            one, had = slice(k, k + 1), self._had.setdefault(int(rows[k]), [])
            f = self._factors
            if f.item_last[columns[k]] >= 0:
                taste = f.U[rows[k]] if f.user_last[rows[k]] >= 0 else self._nobody()
                seen, n_rows = np.array(had, np.int64), int(self._standing[1])
                ranked[place] = rank_of(f.V, f.item_last, taste, columns[k], seen, n_rows)
            had.append(int(columns[k]))
            self._step(
                rows[one], columns[one], weights[place : place + 1], numbers[one], self._generator, 0, 1
            )

    def _step(
        self, rows: Ints, columns: Ints, w: Floats, numbers: Ints, generator: Any, block: int, stride: int
    ) -> None:
        keep = 0.5 ** (1.0 / self.half_life) if self.half_life else 1.0
        learn_clicks(
            self._factors, rows, columns, w, numbers, generator, self._standing, block, stride,
            self.negatives, LOSSES[self.loss], float(self.rate), keep, float(self.ridge), float(self.average),
            1, self._dirty_users, self._dirty_items,
        )  # fmt: skip

    # -- many passes, in strata ----------------------------------------------------------------------------

    def fit(
        self,
        users: Ids,
        items: Ids,
        passes: int = 1,
        workers: int = 1,
        threads: bool = True,
    ) -> None:
        """Learn clicks at hand, shuffled anew each pass, `workers` blocks of users at a time.

        Rows of users fall into blocks by their number modulo W, rows of items too. In sub-pass s worker w
        learns the clicks of user block w on item block (w + s) mod W, with negatives of that block and a
        generator of its own: no two touch the same row, so threads and the serial run of the same schedule
        (``threads=False``) reach the same bits.
        """
        distinct = dict.fromkeys(zip(_plain(users), _plain(items), strict=True))
        for name, ids, table in (
            ("users", {user for user, _ in distinct}, self._users),
            ("items", {item for _, item in distinct}, self._items),
        ):
            if len(table) + sum(table.find(key) < 0 for key in ids) > table.limit:
                raise ValueError(f"more {name} than max_{name} = {table.limit}: raise it, or use learn_batch")
        for user, item in distinct:
            if self._users.find(user) < 0:
                self._new_user(user)
            if self._items.find(item) < 0:
                self._new_item(item)
        rows = np.array([self._users.find(user) for user in _plain(users)], np.int64)
        columns = np.array([self._items.find(item) for item in _plain(items)], np.int64)
        # all are in use from the start: which rows may be drawn must not depend on who is first
        fresh = np.unique(columns[self._factors.item_last[columns] < 0])
        self._factors.item_last[fresh] = self._clicks
        self._standing[:] = len(self._items), len(self._items.ids)
        self._mark_all()
        rng = np.random.default_rng([int(self._generator[0]), self._clicks])
        generators = [np.array([word], np.uint64) for word in rng.integers(0, 2**63, workers)]
        with ThreadPoolExecutor(workers if threads else 1) as pool:
            for _ in range(passes):
                order = rng.permutation(len(rows))
                numbers = self._clicks + np.arange(len(order))
                strata = (rows[order] % workers) * workers + (columns[order] - rows[order]) % workers
                for s in range(workers):
                    jobs = []
                    for w in range(workers):
                        mine = np.flatnonzero(strata == w * workers + s)
                        part = order[mine]
                        jobs.append(
                            (rows[part], columns[part], np.ones(len(part)), numbers[mine], generators[w],
                             (w + s) % workers, workers)
                        )  # fmt: skip
                    list(pool.map(lambda job: self._step(*job), jobs))
                self._clicks += len(rows)
        self._generator[0] = rng.integers(0, 2**63)

    # -- rows ----------------------------------------------------------------------------------------------

    def _new_user(self, user: Hashable) -> int:
        row = self._users.take(user)
        self._grow(len(self._users.ids), 0)
        f = self._factors
        f.U[row], f.user_g[row], f.mean_s[row], f.user_clicks[row] = self._noise(user), 1.0, 0.0, 0
        f.U[row, 0] = 1.0
        return row

    def _new_item(self, item: Hashable) -> int:
        row = self._items.take(item)
        self._grow(0, len(self._items.ids))
        f = self._factors
        f.V[row], f.item_g[row], f.item_clicks[row] = self._noise(item), 1.0, 0
        f.V[row, 0] = 0.0
        return row

    def _noise(self, key: Hashable) -> Floats:
        # by the id: every shard starts an item alike, whenever it comes
        words = np.arange(1, self.d + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        words += np.uint64((crc32(repr(key).encode()) << 32) + (self.seed or 0))
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        uniform = (words >> np.uint64(40)).astype(np.float64) / (1 << 24)
        noise: Floats = NOISE * math.sqrt(12.0) * (uniform - 0.5)
        return noise

    def _make_room(self, users: bool, items: bool) -> None:
        f = self._factors
        for full, table, last in (
            (users and self._users.is_full, self._users, f.user_last),
            (items and self._items.is_full, self._items, f.item_last),
        ):
            if full:
                gone = table.evict(last)
                last[gone] = -1
                if table is self._items:
                    self._standing[0] -= len(gone)
                    self._dirty_items[gone >> BLOCK_BITS] = 1
                else:
                    self._dirty_users[gone >> BLOCK_BITS] = 1

    def _empty(self, n_users: int, n_items: int) -> Factors:
        return Factors(
            np.zeros((n_users, self.d + 1)), np.zeros((n_items, self.d + 1)),
            np.ones(n_users), np.ones(n_items),
            np.full(n_users, -1, np.int64), np.full(n_items, -1, np.int64),
            np.zeros(n_users), np.zeros(n_users, np.int64), np.zeros(n_items, np.int64),
        )  # fmt: skip

    def _grow(self, n_users: int, n_items: int) -> None:
        # the size follows from the rows taken alone, so it is the same however clicks were batched
        sizes = len(self._factors.U), len(self._factors.V)
        if n_users <= sizes[0] and n_items <= sizes[1]:
            return
        grown = self._empty(*(max(size, 1 << (n - 1).bit_length() if n else 0)
                              for size, n in zip(sizes, (n_users, n_items), strict=True)))  # fmt: skip
        for old, new in zip(self._factors, grown, strict=True):
            new[: len(old)] = old
        self._factors = grown
        marks = self._dirty_users, self._dirty_items
        self._mark_all()
        if n_users <= sizes[0]:
            self._dirty_users = marks[0]
        if n_items <= sizes[1]:
            self._dirty_items = marks[1]

    def _mark_all(self) -> None:
        self._dirty_users = np.ones((len(self._factors.U) - 1 >> BLOCK_BITS) + 1, np.uint8)
        self._dirty_items = np.ones((len(self._factors.V) - 1 >> BLOCK_BITS) + 1, np.uint8)

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def refused(self) -> int:
        """Nothing is: a click is an id and a weight."""
        return 0

    def to_state(self) -> dict[str, Any]:
        """Factors by name, ids by row, the clicks counted, the generator. Arrays are the learner's own."""
        return {
            **self._factors._asdict(),
            "clicks": self._clicks,
            "generator": str(self._generator[0]),
            **self._users.to_state("users"),
            **self._items.to_state("items"),
        }

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave; the parameters are this learner's own."""
        self._factors = Factors(*(np.array(state[name]) for name in Factors._fields))
        self._clicks = int(state["clicks"])
        self._generator = np.array([int(state["generator"])], np.uint64)
        self._users.from_state("users", state)
        self._items.from_state("items", state)
        self._standing[:] = len(self._items), len(self._items.ids)
        self._mark_all()
        self._dirty_users[:] = self._dirty_items[:] = 0

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of rows that changed since the last call, and every small entry that did."""
        changed: dict[str, list[int] | None] = dict.fromkeys(
            ["clicks", "generator", *self._users.dirty("users"), *self._items.dirty("items")]
        )
        for marks, names in (
            (self._dirty_users, ("U", "user_g", "user_last", "mean_s", "user_clicks")),
            (self._dirty_items, ("V", "item_g", "item_last", "item_clicks")),
        ):
            blocks = np.flatnonzero(marks).tolist()
            marks[:] = 0
            if blocks:
                changed |= dict.fromkeys(names, blocks)
        return changed

    def merge(self, other: Self, columns: Any = None) -> None:  # noqa: ARG002
        """Take in another shard: users are one shard's or the other's, items are averaged by their clicks.

        A user of both (a stream not keyed by user) is taken from where they clicked last by count. An item
        that only one side has clicked stays as it is there. Shards start an item alike, since its id decides
        the noise; the longer they learn apart, the less the mean says: few, long shards, or one.
        """
        mine, theirs = self._factors, other._factors
        for item in [key for key in other._items.ids if key is not None]:
            row = other._items.find(item)
            if self._items.find(item) < 0 and not self._items.is_full:
                self._new_item(item)
                mine = self._factors
            here = self._items.find(item)
            if here < 0:
                continue
            a, b = int(mine.item_clicks[here]), int(theirs.item_clicks[row])
            share = b / (a + b) if a + b else 0.5
            mine.V[here] += share * (theirs.V[row] - mine.V[here])
            mine.item_g[here] = max(mine.item_g[here], theirs.item_g[row])
            mine.item_last[here] = max(mine.item_last[here], theirs.item_last[row])
            mine.item_clicks[here] = a + b
        for user in [key for key in other._users.ids if key is not None]:
            row = other._users.find(user)
            if self._users.find(user) < 0 and not self._users.is_full:
                self._new_user(user)
                mine = self._factors
            here = self._users.find(user)
            if here >= 0 and theirs.user_clicks[row] > mine.user_clicks[here]:
                for name in ("U", "user_g", "user_last", "mean_s", "user_clicks"):
                    getattr(mine, name)[here] = getattr(theirs, name)[row]
        self._clicks += other._clicks
        self._standing[:] = len(self._items), len(self._items.ids)
        self._mark_all()

    def _unit_test_skips(self) -> set[str]:
        return {"check_emerging_features", "check_disappearing_features"}


def _plain(ids: Ids) -> Sequence[Hashable]:
    """Python's own values: a numpy integer would be another id once it was stored."""
    return ids.tolist() if isinstance(ids, np.ndarray) else ids
