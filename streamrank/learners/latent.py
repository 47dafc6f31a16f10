"""RoBiRank for users and items: factors learnt from one click at a time."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import river.reco.base

from ..errors import ConfigError
from ..features.batch import Floats, Ints
from ..kernels.factors import LAST, Factors, rank_of, scores_of, shelf_scores, taste_of
from ..kernels.latent import BPR, ROBIRANK, Stratum, learn_clicks, learn_single
from ..kernels.traits import Step
from .checking import positive, whole
from .factors import FactorTables
from .pooling import Taught, pool, taught
from .strata import Job, shift_for, sub_passes
from .traits import EACH, traits_told

Ids = Sequence[Hashable] | npt.NDArray[Any]

LOSSES = {"robirank": ROBIRANK, "bpr": BPR}
EVERYWHERE = Stratum(0, 1, 0)
DECAY = 0.8  # of a click by each later one of its user
LARGEST = 1e100  # weight of a click; its square is still a float64
NONE: Ints = np.empty(0, np.int64)


class RoBiRankMF(river.reco.base.Ranker):
    """Latent collaborative retrieval: f_xy = <T_x, V_y> + b_y, one step a click against sampled items.

    T_x = U_x + sum_(l < recent) 0.8^l W_(clicked l clicks before the last): what the user likes, and what the
    user is at just now. Per click (x, y) with B uniform negatives z, sigma(t) = log2(1 + 2^-t),
        S = ((|Y|-1)/B) sum sigma(f_y - f_z),  w_z = (|Y|-1)/(B ln2 (1 + S)) /(1 + 2^(f_y - f_z))      (1)
        V_z -= eta_z w_z T_x,  V_y += eta_y (sum w_z) T_x,  U_x += eta_x sum w_z (V_y - V_z)           (2)
    and each W of T_x as U_x, by 0.8^l. eta_r = rate/sqrt(G_r), one G a row from 1. (1) linearises log2(1 + S)
    at xi = 1/(1 + S) [1]; the same negatives give xi and the step, so none is stored. Clicks of y <= 0 or
    beyond 1e100 teach nothing; y weighs the others. A new item starts as a seldom clicked one (the mean of B
    drawn, weighed by 1/clicks) plus noise that its id decides; a new user near zero, so it is served by the
    biases until its first click: what is popular of late (with the last user, where users come one after the
    other). Ids are what a store gives back alike: text, bytes, numbers. Predicting changes nothing.

    Parameters
    ----------
    d
        Factors a row, >= 1, beside the bias.
    negatives
        B, >= 1. 128 is a little better than 32 and costs three times as much.
    rate
        Step size, > 0: 1, or 0.3 for many passes with BPR.
    loss
        ``robirank``, or ``bpr``, which wins on baskets that move fast.
    half_life
        Steps after which a squared gradient counts half in G, so that steps do not vanish and taste may
        drift; 0: never forgotten.
    ridge
        Shrinks each row that is moved, from 0 to 1/rate.
    average
        1: xi from the sample alone. Below: S is a moving average a user with this share for the newest.
    fields
        Names of fields of users and items, such as ``["genre"]``, that `describe_item` and `describe_user`
        tell: each value is a trait with factors of its own, which speaks for all who have it.
    recent
        How many of a user's last clicks say what the user is at, >= 0. On MovieLens-100K click by click
        NDCG@10 rises from .055 (0) to .093 (10). `fit` leaves them alone: shuffled clicks have no last one.
    max_users, max_items, max_traits
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
        recent: int = 10,
        max_users: int = 1_000_000,
        max_items: int = 1_000_000,
        seed: int = 0,
        fields: Sequence[str] | None = None,
        max_traits: int = 100_000,
    ) -> None:
        super().__init__(seed)
        for name, value, least in (
            ("d", d, 1),
            ("negatives", negatives, 1),
            ("half_life", half_life, 0),
            ("recent", recent, 0),
            ("max_users", max_users, 1),
            ("max_items", max_items, 4),
            ("max_traits", max_traits, EACH),
            ("seed", seed, 0),
        ):
            whole(name, value, least)
        if seed >> 63:
            raise ConfigError(f"seed is {seed}: below 2^63")
        if loss not in LOSSES:
            raise ConfigError(f"there is no loss {loss!r}; choose one of: {', '.join(LOSSES)}")
        if positive("average", average) > 1:
            raise ConfigError(f"average is {average}: above 0 and at most 1")
        if isinstance(fields, str) or not all(
            isinstance(name, str) and "\t" not in name for name in fields or []
        ):
            raise ConfigError(f"fields is {fields!r}: a list of names without tabs, such as ['genre']")
        positive("rate", rate)
        if ridge != 0 and positive("ridge", ridge) * rate > 1:
            raise ConfigError(f"ridge is {ridge}: at most 1/rate, or rows grow instead of shrinking")
        self.d, self.negatives, self.rate, self.loss = d, negatives, rate, loss
        self.half_life, self.ridge, self.average, self.recent = half_life, ridge, average, recent
        self.max_users, self.max_items = max_users, max_items
        self.fields, self.max_traits = fields, max_traits
        keep = 0.5 ** (1.0 / half_life) if half_life else 1.0
        self._how = Step(negatives, LOSSES[loss], float(rate), keep, float(ridge), float(average), DECAY)
        self._steps = np.array(self._how, np.float64)
        each = EACH if fields else 0
        self._tables = FactorTables(d, recent, each, max_users, max_items, max_traits, seed)
        self._clicks = 0
        self._generator = np.array([seed], np.uint64)

    # -- river's interface ---------------------------------------------------------------------------------

    def learn_one(self, user: Hashable, item: Hashable, y: Any = 1.0, x: Any = None) -> None:  # noqa: ARG002
        """Learn one click; `x` is not used."""
        weight, tables = float(y), self._tables
        if not 0.0 < weight <= LARGEST:
            return
        if self.fields:
            self.learn_batch([user], [item], [weight])
            return
        row, column = tables.users.find(user), tables.items.find(item)
        if row < 0 or column < 0:
            tables.users.refuse(user)
            tables.items.refuse(item)
            tables.make_room(row < 0, column < 0)
            row, column = tables.user(user), tables.item(item)
        learn_single(
            *tables.arrays[:4], row, column, weight, self._clicks, self._generator, tables.standing,
            self._steps, tables.dirty_users, tables.dirty_items,
        )  # fmt: skip
        self._clicks += 1

    def predict_one(self, user: Hashable, item: Hashable, x: Any = None) -> Any:  # noqa: ARG002
        """The score of an item for a user. Who is new gets the biases, what is new the typical score."""
        return float(self.scores(user, [item])[0])

    def rank(self, user: Hashable, items: Iterable[Hashable], x: Any = None) -> list[Hashable]:  # noqa: ARG002
        """The items, best first; ties by the order in which items first came, then as given."""
        given, table = list(items), self._tables.items
        rows = np.array([table.find(item) for item in given], np.int64)
        order = np.lexsort((np.where(rows < 0, len(table.ids), rows), -self.scores(user, given)))
        return [given[k] for k in order]

    def recommend(self, user: Hashable, k: int = 10, exclude: Iterable[Hashable] = ()) -> list[Hashable]:
        """The k best of all items clicked or described, best first, without those of `exclude`."""
        whole("k", k, 0)
        items, shelf, arrays = self._tables.items, self._tables.shelf, self._tables.arrays
        # not a product of matrices: its threads wait for each other, which on busy cores took thrice as long
        taste, n = self._taste(user), len(items.ids)
        scores = scores_of(arrays, taste, n)
        if len(shelf):
            alone = float(self._typical() @ np.append(taste, 1.0))
            scores = np.append(scores, shelf_scores(arrays, taste, len(shelf.ids), alone))
        for key in exclude:
            if (row := items.find(key)) >= 0:
                scores[row] = -np.inf
            elif (row := shelf.find(key)) >= 0:
                scores[n + row] = -np.inf
        best = np.argpartition(-scores, k)[:k] if k < len(scores) else np.arange(len(scores))
        best = best[np.lexsort((best, -scores[best]))]
        found = (row for row in best.tolist() if scores[row] > -np.inf)
        return [items.ids[row] if row < n else shelf.ids[row - n] for row in found]

    def scores(self, user: Hashable, items: Sequence[Hashable]) -> Floats:
        """The score of each item for a user; changes nothing."""
        V = self._factors_of(items)
        # summed along the rows: a matrix product rounds by the number of rows
        scores: Floats = (V[:, : self.d] * self._taste(user)).sum(axis=1) + V[:, self.d]
        return scores

    def _factors_of(self, items: Sequence[Hashable]) -> Floats:
        """V and b of each item, with what its traits add to them; what nobody has clicked is typical."""
        tables, arrays = self._tables, self._tables.arrays
        rows = np.array([tables.items.find(item) for item in items], np.int64)
        V: Floats = arrays.items[rows, : self.d + 1]
        if (rows < 0).any():
            V[rows < 0] = self._typical()
        if self.fields:
            places = np.array([tables.shelf.find(item) for item in items], np.int64)
            of = np.where(rows[:, None] >= 0, arrays.item_traits[rows], arrays.shelf_traits[places])
            of[(rows < 0) & (places < 0)] = -1
            share = 1.0 / np.sqrt(np.maximum((of >= 0).sum(axis=1), 1))[:, None]
            V += share * np.where(of[:, :, None] >= 0, arrays.traits[of, : self.d + 1], 0.0).sum(axis=1)
        return V

    def _typical(self) -> Floats:
        """Factors and bias of what nobody has clicked yet: the mean of what is clicked, or of 1000 of it."""
        arrays = self._tables.arrays
        rows = np.flatnonzero(arrays.item_marks[:, LAST] >= 0)
        used = arrays.items[rows[:: 1 + len(rows) // 1000], : self.d + 1]
        return used.mean(axis=0) if len(used) else np.zeros(self.d + 1)

    def factors_of(self, users: Iterable[Hashable], items: Sequence[Hashable]) -> tuple[Floats, Floats]:
        """(T, 1) and (V, b), a row each: scores are their products."""
        return np.array([[*self._taste(user), 1.0] for user in users]), self._factors_of(items)

    def _taste(self, user: Hashable) -> Floats:
        taste: Floats = np.zeros(self.d)
        row = self._tables.users.find(user)
        if row >= 0:
            taste_of(self._tables.arrays, row, DECAY, taste)
        return taste

    # -- traits --------------------------------------------------------------------------------------------

    def describe_item(self, item: Hashable, fields: Mapping[str, Any]) -> None:
        """Say what is known of an item; later fields replace those of the same name, others stay.

        Each value of one of `fields` (a list has several) is a trait; what else is told has no effect. Of
        more than 16 traits the first count. An item may be described before its first click: it is then
        served as a typical one with these traits.

        >>> ranker = RoBiRankMF(d=4, fields=["genre"], seed=1)
        >>> for item, genre in [("a", "jazz"), ("b", "rock"), ("c", "jazz"), ("d", "rock")]:
        ...     ranker.describe_item(item, {"genre": genre})
        >>> for _ in range(40):
        ...     ranker.learn_one("ann", "a")
        ...     ranker.learn_one("bob", "b")
        >>> ranker.rank("ann", ["d", "c"]), ranker.rank("bob", ["d", "c"])
        (['c', 'd'], ['d', 'c'])
        """
        self.describe("items", item, fields)

    def describe_user(self, user: Hashable, fields: Mapping[str, Any]) -> None:
        """As `describe_item`, of a user: who has not clicked yet is served by the traits."""
        self.describe("users", user, fields)

    def is_news(self, table: str, key: Hashable, fields: Mapping[str, Any]) -> bool:
        """Whether these fields of one of the `users` or `items` say what was not known."""
        known = self._tables.traits_of(table, key) if self.fields else []
        return traits_told(self.fields or [], table, known, fields) != known

    def describe(self, table: str, key: Hashable, fields: Mapping[str, Any]) -> None:
        """`describe_item` or `describe_user`, by the name of the table."""
        if self.is_news(table, key, fields):
            known = self._tables.traits_of(table, key)
            names = traits_told(self.fields or [], table, known, fields)
            self._tables.describe(table, key, names, self._clicks)

    def describe_as(self, other: Self) -> None:
        """Let users and items have the traits that they have there."""
        mine, theirs = self._tables, other._tables
        for table, keys in (("users", theirs.users.ids), ("items", theirs.items.ids + theirs.shelf.ids)):
            for key in keys:
                if key is not None and (names := theirs.traits_of(table, key)) != mine.traits_of(table, key):
                    mine.describe(table, key, names, self._clicks)

    # -- the array interface -------------------------------------------------------------------------------

    def learn_batch(
        self, users: Ids, items: Ids, y: Sequence[float] | Floats | None = None, *, among: int = 0
    ) -> Ints:
        """Learn many clicks in order, to the same bits as one at a time.

        With `among` > 0: returns the rank, from 0, that each item had just before it was learnt, among all
        items but those its user clicked last, or among so many draws of them; -1 where the item was new.
        """
        if len(users) != len(items) or (y is not None and len(y) != len(users)):
            raise ValueError(f"{len(users)} users came with {len(items)} items: give as many of each")
        weights = np.ones(len(users)) if y is None else np.asarray(y, np.float64)
        ranked = np.full(len(users) if among else 0, -1, np.int64)
        held = np.flatnonzero((weights > 0.0) & (weights <= LARGEST))
        who, what = _plain(users), _plain(items)
        if len(held) < len(weights):
            who, what = [who[t] for t in held.tolist()], [what[t] for t in held.tolist()]
        start, tables = 0, self._tables
        if not (tables.users.has_room_for(who) and tables.items.has_room_for(what)):
            for t, (user, item) in enumerate(zip(who, what, strict=True)):
                full = tables.users.lacks_room_for(user), tables.items.lacks_room_for(item)
                tables.users.refuse(user)
                tables.items.refuse(item)
                if any(full):  # what came before is learnt before rows it points at are given away
                    self._run(who[start:t], what[start:t], held[start:t], weights, among, ranked)
                    tables.make_room(*full)
                    start = t
                tables.rows_of([user], [item])
        self._run(who[start:], what[start:], held[start:], weights, among, ranked)
        return ranked

    def _run(
        self,
        users: Sequence[Hashable],
        items: Sequence[Hashable],
        places: Ints,
        weights: Floats,
        among: int,
        ranked: Ints,
    ) -> None:
        rows, columns = self._tables.rows_of(users, items)
        numbers = self._clicks + np.arange(len(places))
        self._clicks += len(places)
        ranks = np.full(len(places) if among else 0, -1, np.int64)
        self._step(
            rows, columns, weights[places], numbers, self._generator, EVERYWHERE, self._tables.arrays,
            among, ranks,
        )  # fmt: skip
        if among:
            ranked[places] = ranks

    def _step(
        self,
        rows: Ints,
        columns: Ints,
        weights: Floats,
        numbers: Ints,
        generator: Any,
        stratum: Stratum,
        arrays: Factors,
        among: int = 0,
        ranked: Ints = NONE,
        *,
        streams: bool = True,
    ) -> None:
        tables = self._tables
        learn_clicks(
            arrays, rows, columns, weights, numbers, generator, tables.standing, stratum, self._how,
            streams, among, ranked, tables.dirty_users, tables.dirty_items, tables.dirty_traits,
        )  # fmt: skip

    def prequential(self, users: Ids, items: Ids) -> Ints:
        """Rank each click's item among all in use, from 0, then learn it; -1 where the item was new.

        Items that the same user clicked earlier in this call are left out. Who is new is served the biases.
        """
        ranked = np.full(len(users), -1, np.int64)
        had: dict[Hashable, list[Hashable]] = {}
        for t, (user, item) in enumerate(zip(_plain(users), _plain(items), strict=True)):
            mine = had.setdefault(user, [])
            ranked[t] = self.place_of(user, item, mine)
            mine.append(item)
            self.learn_one(user, item)
        return ranked

    def place_of(self, user: Hashable, item: Hashable, without: Iterable[Hashable] = ()) -> int:
        """The rank of an item for a user, from 0, among all in use but some; -1 for one that is not."""
        tables = self._tables
        column = tables.items.find(item)
        if column < 0:
            return -1
        rows = np.array([tables.items.find(key) for key in without], np.int64)
        place = rank_of(tables.arrays, self._taste(user), column, rows[rows >= 0], int(tables.standing[1]))
        return int(place)

    # -- many passes, in strata ----------------------------------------------------------------------------

    def fit(
        self,
        users: Ids,
        items: Ids,
        passes: int = 1,
        workers: int = 1,
        *,
        threads: bool = True,
        y: Sequence[float] | Floats | None = None,
    ) -> None:
        """Learn clicks at hand, shuffled anew each pass, in strata by `workers` threads (`strata.py`).

        `y` are their weights; as elsewhere, one that is not above 0, or beyond 1e100, teaches nothing.

        Each worker has a generator of its own and no two touch the same row, so threads and the serial run of
        the same schedule (``threads=False``) reach the same bits; traits, which all share, are learnt apart
        in each sub-pass, then averaged. Another number of workers is another schedule. What users clicked
        last stays as it is, and so do the factors of that.
        """
        whole("passes", passes, 0), whole("workers", workers)
        weights = np.ones(len(users)) if y is None else np.asarray(y, np.float64)
        if len(weights) != len(users):
            raise ValueError(f"{len(users)} users came with {len(weights)} weights: give as many of each")
        held = np.flatnonzero((weights > 0.0) & (weights <= LARGEST))
        rows, columns = (part[held] for part in self._rows_of(users, items))
        weights, tables = weights[held], self._tables
        # all are in use from the start: which rows may be drawn must not depend on who is first
        last = tables.arrays.item_marks[:, LAST]
        last[np.unique(columns[last[columns] < 0])] = self._clicks
        tables.in_use()
        tables.mark_all()
        rng = np.random.default_rng([int(self._generator[0]), self._clicks])
        generators = [np.array([word], np.uint64) for word in rng.integers(0, 2**63, workers)]
        shift = shift_for(len(tables.items.ids), workers)
        with ThreadPoolExecutor(workers if threads else 1) as pool:
            for _ in range(passes):
                order = rng.permutation(len(rows))
                shuffled = rows[order], columns[order], weights[order]
                numbers = self._clicks + np.arange(len(order))

                def learn(
                    job: Job, shuffled: tuple[Ints, Ints, Floats] = shuffled, numbers: Ints = numbers
                ) -> Floats:
                    part, arrays = job.clicks, tables.arrays._replace(traits=tables.arrays.traits.copy())
                    self._step(
                        shuffled[0][part], shuffled[1][part], shuffled[2][part], numbers[part],
                        generators[job.worker], job.stratum, arrays, streams=False,
                    )  # fmt: skip
                    return arrays.traits

                for jobs in sub_passes(*shuffled[:2], workers, shift):
                    learnt = list(pool.map(learn, jobs))
                    tables.arrays.traits[:] = sum(learnt[1:], learnt[0]) / workers
                self._clicks += len(rows)
        self._generator[0] = rng.integers(0, 2**63)

    def _rows_of(self, users: Ids, items: Ids) -> tuple[Ints, Ints]:
        if len(users) != len(items):
            raise ValueError(f"{len(users)} users came with {len(items)} items: give as many of each")
        tables = self._tables
        found = []
        for name, ids, table, take in (
            ("users", users, tables.users, tables.user_rows),
            ("items", items, tables.items, tables.item_rows),
        ):
            plain = _plain(ids)
            if not table.has_room_for(plain):
                raise ValueError(f"more {name} than max_{name} = {table.limit}: raise it, or use learn_batch")
            found.append(take(plain))
        return found[0], found[1]

    def holds(self, users: Ids, items: Ids) -> npt.NDArray[np.bool_]:
        """Whether user and item of each click have a row."""
        find_user, find_item = self._tables.users.find, self._tables.items.find
        found = (find_user(u) >= 0 <= find_item(i) for u, i in zip(_plain(users), _plain(items), strict=True))
        return np.fromiter(found, np.bool_, len(users))

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def refused(self) -> int:
        """Nothing is: a click is an id and a weight."""
        return 0

    def to_state(self) -> dict[str, Any]:
        """Factors by name, ids by row, the clicks counted, the generator. Arrays are the learner's own."""
        return {**self._tables.to_state(), "clicks": self._clicks, "generator": str(self._generator[0])}

    def entries(self, names: Iterable[str]) -> dict[str, Any]:
        """The named entries of `to_state`."""
        state = self.to_state()
        return {name: state[name] for name in names}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave; the parameters are this learner's own."""
        self._tables.from_state(state)
        self._clicks = int(state["clicks"])
        self._generator = np.array([int(state["generator"])], np.uint64)

    def dirty(self) -> dict[str, list[int] | None]:
        """The blocks of rows that changed since the last call, and every small entry that did."""
        return {"clicks": None, "generator": None, **self._tables.dirty()}

    def merge(self, other: Self, columns: Any = None) -> None:  # noqa: ARG002
        """Take in another shard: users are one shard's or the other's, items are averaged by their clicks.

        A user of both (a stream not keyed by user) is taken from where they clicked more. An item that only
        one side has clicked stays as it is there. Shards start an item alike, since its id decides the noise;
        the longer they learn apart, the less the mean says: few, long shards, or such as `pool`, whose steps
        add up here too.
        """
        self._tables.merge(other._tables)
        self._clicks += other._clicks

    def taught(self) -> dict[str, Taught]:
        """What `pool` of another shard takes: a copy, which stays as it is when this one learns on."""
        return taught(self._tables)

    def pool(self, others: Sequence[Mapping[str, Taught]], n_bytes: float = math.inf) -> bool:
        """Let items, and traits, be where the steps of this shard and of others together lead (`pooling.py`).

        Users are not touched, and clicks stay each shard's own, so that a merge counts them once. False, and
        nothing is changed, where the state would grow by more than `n_bytes`.

        >>> one, two = (RoBiRankMF(d=4, seed=1) for _ in range(2))
        >>> one.learn_one("ann", "jazz"), two.learn_one("bob", "rock")
        (None, None)
        >>> one.pool([two.taught()]), one.rank("ann", ["rock", "jazz"])
        (True, ['jazz', 'rock'])
        """
        return pool(self._tables, others, n_bytes)

    def _unit_test_skips(self) -> set[str]:
        return {"check_emerging_features", "check_disappearing_features"}


def _plain(ids: Ids) -> Sequence[Hashable]:
    """Python's own values: a numpy integer would be another id once it was stored."""
    return ids.tolist() if isinstance(ids, np.ndarray) else ids
