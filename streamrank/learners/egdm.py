"""EGDM: RankRLS on a stream, by statistics, gradient descent with momentum and online power iteration."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg

from ..errors import ConfigError
from ..features.batch import Batch, Floats, Ints
from ..kernels.statistics import (
    KAPPA_1,
    KAPPA_N,
    MOMENTUM,
    ROWS,
    STEP,
    Statistics,
    learn_lists,
    score,
)
from .base import Ranker, StateEntries
from .microbatches import MicroBatches, Settings
from .queries import OpenQueries

MODES = ("auto", "statistics", "adagrad", "power")

log = logging.getLogger(__name__)


class Spectrum(NamedTuple):
    """What the moves rest on: bounds of the eigenvalues a row, and the step and momentum that follow."""

    kappa_1: float
    kappa_n: float
    condition: float
    eta: float
    mu: float


class EGDM(Ranker):
    """Regularised least squares on preferences, exact on a stream.

    With L_q the centring of query q, F(w) = 1/2 sum_q (X_q w - y_q)' L_q (X_q w - y_q) + (lam/2)|w|^2. Its
    statistics are additive, so one pass loses nothing:

        H <- rho H + X'LX,   b <- rho b + X'Ly                             (1)  rho = 0.5^(1/half_life)
        w <- w - (1 - mu) eta (H w + lam w - b) + mu (w - w_prev)           (2)  `moves` times a list

    with eta and mu from the eigenvalue bounds kappa_1, kappa_n, [1] (11), refreshed by one warm power step a
    list (`streamrank.kernels.statistics.move`). `solve()` is the exact optimum of what was seen.

    A list whose items all have one weight is scored as above; a preference d = x_better - x_worse adds d d'
    to H and d to b, [2] (9); a scored example is centred by the running mean of its query. As in any least
    squares an outlier counts with its square: where values can be wrong by orders of magnitude, cut them
    before they come here, or set a half-life.

    Parameters
    ----------
    lam
        Ridge, > 0, as a share of each column's own spread: 0.1 did best on the validation parts of MQ2007 and
        MQ2008 and on real clicks (ranklens), of 3e-4 to 0.3. With `scale` off: per row seen, in the values'
        own units; 3e-3 suits values between 0 and 1, 3e-4 sparse rows of length 1.
    half_life
        Lists after which what was seen counts half; None forgets nothing. 300 is free where taste rests, 100
        follows one that moves.
    moves
        Heavy-ball steps a list, >= 1; with n columns, every n/64 lists.
    scale
        Precondition by the diagonal of H, so that prices in thousands and rates below one learn alike. Sparse
        rows that are of about one length already (tf-idf) do better without.
    columns
        H holds the square of this many columns at most. What a later one brings on is up to `mode`.
    queries
        Open queries of single examples; the least recently used is forgotten, and begins anew if it returns.
    mode
        "statistics": as above; columns beyond `columns` count nothing. "adagrad": without H, for any number
        of columns, w moves once for `batch` rows by AdaGrad; "power": by a plain step instead, its length by
        online power iteration (`streamrank.kernels.microstep` for both). "auto": statistics until the first
        list that holds a column beyond, then AdaGrad from the weights learnt; the log says so, once.
    rate
        Of the steps without H, > 0; None is 0.1 for AdaGrad and 0.5 for the plain step.
    batch
        Rows a step without H, >= 1. A list is never cut: the step falls behind the one that reaches the
        count. Single examples are centred with those of their query in the same batch.

    Shards without H are averaged by `merge`, each column by how often it was seen. One that has gone over
    takes those it is merged with along.

    Examples
    --------
    >>> ranker = EGDM()
    >>> for _ in range(50):
    ...     ranker.learn_list([{"price": 3.0}, {"price": 9.0}, {"price": 5.0}], [2.0, 0.0, 1.0])
    >>> ranker.rank([{"price": 8.0}, {"price": 4.0}])
    [1, 0]
    >>> ranker.spectrum().kappa_1 >= ranker.spectrum().kappa_n > 0
    True

    References
    ----------
    [1] Efficient gradient descent with momentum by online power iteration: (2), (7), (11), Algorithms 1, 2.
    [2] Regularised least squares for learning to rank by conjugate gradient: (3), (8), (9).
    """

    def __init__(
        self,
        lam: float = 0.1,
        half_life: float | None = None,
        moves: int = 2,
        scale: bool = True,
        columns: int = 1024,
        queries: int = 100,
        mode: str = "auto",
        rate: float | None = None,
        batch: int = 200,
    ) -> None:
        super().__init__()
        if not lam > 0:
            raise ConfigError(f"lam is {lam}: the ridge must be above 0 (0.1 is the default)")
        if half_life is not None and not half_life > 0:
            raise ConfigError(
                f"half_life is {half_life}: a number of lists above 0, or null to forget nothing"
            )
        if moves < 1:
            raise ConfigError(f"moves is {moves}: at least one step a list")
        if not 1 <= columns <= 20_000:
            raise ConfigError(
                f"columns is {columns}: H holds its square, so 1 to 20000 (1024 is the default)"
            )
        if mode not in MODES:
            raise ConfigError(f"mode is {mode!r}: choose one of {', '.join(MODES)}")
        if rate is not None and not 0 < rate < np.inf:
            raise ConfigError(f"rate is {rate}: a step size above 0, or null for 0.1 (power: 0.5)")
        if batch < 1:
            raise ConfigError(f"batch is {batch}: at least one row a step (200 is the default)")
        self.lam, self.half_life, self.moves = lam, half_life, moves
        self.mode, self.rate, self.batch = mode, rate, batch
        self.scale, self.columns, self.queries = scale, columns, queries
        self._rho = 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        self._statistics = _nothing(8)
        self._open = OpenQueries(queries)
        self._without_h = None if mode in ("auto", "statistics") else self._micro_batches()
        self._gone: list[str] = []  # entries of H's time, for the next commit to delete
        self._refused = 0
        self._changed = True

    def learn_batch(self, batch: Batch) -> Floats:
        """Learn each list in order; returns the score each row had just before its list was learnt."""
        if self._without_h is not None:
            scores = np.empty(len(batch.y))
            self._refused += self._without_h.learn(batch, scores)
            return scores
        n_columns = batch.n_columns
        if n_columns > self.columns and self.mode == "auto":
            return self._learn_beyond(batch)
        self._grow(min(n_columns, self.columns))
        slots, fresh = self._open.slots(batch, len(self._statistics.b))
        out = np.empty(len(batch.y))
        self._refused += learn_lists(
            *batch.arrays,
            slots,
            fresh,
            self._open.counts,
            self._open.label_means,
            self._open.means,
            self._statistics,
            self.lam,
            self._rho,
            self.moves,
            self.scale,
            out,
        )
        self._changed = self._changed or batch.n_lists > 0
        return out

    def _learn_beyond(self, batch: Batch) -> Floats:
        """Learn the lists before the first that holds a column beyond, go over, learn the rest."""
        value = int(np.argmax(batch.indices >= self.columns))
        wide = int(np.searchsorted(batch.indptr[batch.lists], value, side="right")) - 1
        before = self.learn_batch(batch.part(0, wide))
        log.warning(
            "egdm met column %d, and `columns` gives H room for %d: it goes on by AdaGrad from the weights "
            "learnt so far. To keep exact statistics raise `columns` (H takes 8 bytes times its square); to "
            "have it quiet set mode='adagrad', or mode='statistics' to ignore what is beyond.",
            batch.indices[value],
            self.columns,
        )
        self._go_over()
        return np.concatenate([before, self.learn_batch(batch.part(wide, batch.n_lists))])

    def _micro_batches(self) -> MicroBatches:
        plain = self.mode == "power"
        rate = self.rate or (0.5 if plain else 0.1)
        return MicroBatches(Settings(self.lam, self._rho, self.scale, rate, self.batch, plain))

    def _converted(self) -> MicroBatches:
        """What was learnt, for steps without H."""
        if self._without_h is not None:
            return self._without_h
        converted, seen = self._micro_batches(), self._statistics
        converted.start_from(seen.w, np.diag(seen.H), float(seen.numbers[ROWS]))
        return converted

    def _go_over(self) -> None:
        converted = self._converted()
        self._gone = [name for name in {**self._statistics._asdict(), **self._open.to_state()} if name != "w"]
        if (size := len(self._statistics.b)) > 4096:  # they were stored in blocks
            self._gone += [f"{name}#{k}" for name in self._gone[:6] for k in range(-(-size // 4096))]
        self._gone += self._open.dirty()
        self._statistics, self._open = _nothing(8), OpenQueries(self.queries)
        self._without_h = converted

    def scores(self, batch: Batch) -> Floats:
        """The score of each row as served now; changes nothing."""
        if self._without_h is not None:
            return self._without_h.scores(batch.indptr, batch.indices, batch.values)
        out = np.empty(len(batch.y))
        score(batch.indptr, batch.indices, batch.values, self._statistics.w, out)
        return out

    def explain_columns(self, batch: Batch) -> Floats:
        """The share of each stored value in its row's score."""
        shares = np.empty(len(batch.values))  # every value as a row of its own
        if self._without_h is not None:
            return self._without_h.scores(np.arange(len(shares) + 1), batch.indices, batch.values)
        score(np.arange(len(shares) + 1), batch.indices, batch.values, self._statistics.w, shares)
        return shares

    @property
    def exact(self) -> bool:
        """Whether it holds the statistics of all it saw; not where it goes without H."""
        return self._without_h is None

    def solve(self) -> Floats:
        """The exact optimum of all that was seen, for each column; changes nothing."""
        if self._without_h is not None:
            raise ValueError(
                "this learner goes without H, so it does not know the optimum of what it saw: solve the data "
                "in batch by RankRLS, or give H room by a larger `columns` and mode='statistics'"
            )
        H, b, numbers = self._statistics.H, self._statistics.b, self._statistics.numbers
        used = np.flatnonzero(np.diag(H) > 0)
        w = np.zeros(len(b))
        if len(used) and numbers[ROWS] > 0:
            diagonal = np.diag(H)[used]
            ridge = self.lam * (diagonal if self.scale else np.full(len(used), numbers[ROWS]))
            A = H[np.ix_(used, used)] + np.diag(ridge)
            root = 1.0 / np.sqrt(np.diag(A))  # of like size before it is factorised
            solved = scipy.linalg.solve(A * np.outer(root, root), b[used] * root, assume_a="pos")
            w[used] = solved * root
        return w

    def spectrum(self) -> Spectrum:
        """The eigenvalue bounds of the last move, a row, and its step and momentum.

        Without H, the plain step knows kappa_1 and takes the ridge for kappa_n; AdaGrad, which has a step for
        each column, knows neither: NaN.
        """
        if self._without_h is not None:
            kappa_1, step = self._without_h.kappa_1, self._without_h.step
            return Spectrum(kappa_1, self.lam, kappa_1 / self.lam, step, 0.0)
        numbers = self._statistics.numbers
        rows = max(float(numbers[ROWS]), 1e-300)
        k1, kn, a, mu = (float(numbers[k]) for k in (KAPPA_1, KAPPA_N, STEP, MOMENTUM))
        return Spectrum(
            k1 / rows, kn / rows, k1 / kn if kn else 1.0, a * rows / (1 - mu) if mu < 1 else 0.0, mu
        )

    def served_weights(self) -> Floats:
        """The weight of each column, as served now."""
        if self._without_h is not None:
            return self._without_h.served_weights()
        return self._statistics.w.copy()

    def take_weights(self, w: Floats) -> None:
        """Serve these and move on from rest: w = w_prev; the statistics stay, or G where there is no H."""
        if self._without_h is not None:
            self._without_h.take_weights(w)
            return
        given = w[: self.columns]
        self._grow(len(given))
        for mine in (self._statistics.w, self._statistics.w_prev):
            mine[:] = 0.0
            mine[: len(given)] = given
        self._changed = True

    def _grow(self, n_columns: int) -> None:
        # the size follows from the largest column alone, so it is the same however batches fell
        size = -(-n_columns // 8) * 8
        old = self._statistics
        if size > len(old.b):
            self._statistics = _nothing(size)
            n = len(old.b)
            self._statistics.H[:n, :n] = old.H
            for mine, theirs in zip(self._statistics[1:-1], old[1:-1], strict=True):
                mine[:n] = theirs
            self._statistics.numbers[:] = old.numbers

    # -- state ---------------------------------------------------------------------------------------------

    def to_state(self) -> StateEntries:
        """Statistics, weights and power vectors by name; open queries; names. Or what goes without H."""
        learnt = {**self._statistics._asdict(), **self._open.to_state()}
        if self._without_h is not None:
            learnt = self._without_h.to_state()
        return {**learnt, "refused": self._refused, **self._columns.to_state()}

    def from_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `to_state` gave."""
        self._refused = int(state["refused"])
        self._take_names(state)
        self._changed, self._gone, self._without_h = False, [], None
        if "sums" in state:
            self._statistics, self._without_h = _nothing(8), self._micro_batches()
            self._without_h.from_state(state)
            return
        self._statistics = Statistics(*(np.array(state[name]) for name in Statistics._fields))
        self._open.from_state(state, len(self._statistics.b))

    def dirty(self) -> dict[str, list[int] | None]:
        """The arrays whole if a list was learnt (they are small), open queries and names as they changed."""
        names: dict[str, list[int] | None] = dict.fromkeys(Statistics._fields) if self._changed else {}
        if self._without_h is not None:
            names = {**dict.fromkeys(self._gone), **self._without_h.dirty()}
        self._changed, self._gone = False, []
        return names | dict.fromkeys(["refused", *self._columns.dirty(), *self._open.dirty()])

    def merge(self, other: Self, columns: Ints | None = None) -> None:
        """Add the statistics of another shard: exact. w is averaged by rows until the next moves.

        If either goes without H, or the other's columns do not fit, the result does too.
        """
        if self.mode != other.mode:
            raise ConfigError(f"a shard of mode {other.mode!r} cannot be merged into one of {self.mode!r}")
        if columns is None:
            theirs = [name for block in other._columns.to_state().values() for name in block]
            columns = np.array([self._columns.add(name) for name in theirs], dtype=np.int64)
            if not theirs:
                columns = np.arange(len(other.served_weights()), dtype=np.int64)
        beyond = columns[: len(other._statistics.b)].max(initial=0) >= self.columns
        if self._without_h is None and (other._without_h is not None or (beyond and self.mode == "auto")):
            self._go_over()
        if self._without_h is not None:
            self._without_h.merge(other._converted(), columns)
            self._refused += other._refused
            return
        n = min(len(columns), len(other._statistics.b))
        keep = np.flatnonzero((columns[:n] >= 0) & (columns[:n] < self.columns))
        to = columns[keep]
        self._grow(int(to.max()) + 1 if len(to) else 0)
        mine, theirs_seen = self._statistics, other._statistics
        rows, more = mine.numbers[ROWS], theirs_seen.numbers[ROWS]
        if more > 0:
            mine.H[np.ix_(to, to)] += theirs_seen.H[np.ix_(keep, keep)]
            mine.b[to] += theirs_seen.b[keep]
            for one, two in ((mine.w, theirs_seen.w), (mine.w_prev, theirs_seen.w_prev)):
                one *= rows / (rows + more)
                one[to] += two[keep] * (more / (rows + more))
            mine.numbers[ROWS] = rows + more
            if rows == 0:
                mine.numbers[:] = theirs_seen.numbers
                mine.v[to], mine.omega[to] = theirs_seen.v[keep], theirs_seen.omega[keep]
        self._open.merge(other._open, mine.H, mine.b, keep, to)
        self._refused += other._refused
        self._changed = True


def _nothing(size: int) -> Statistics:
    b, w, w_prev, v, omega = np.zeros((5, size))
    return Statistics(np.zeros((size, size)), b, w, w_prev, v, omega, np.zeros(7))
