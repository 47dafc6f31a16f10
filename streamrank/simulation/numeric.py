"""A world of nothing but numbers, to measure throughput: every item carries f1..fN and has no history."""

import msgspec
import numpy as np

from streamrank.events.types import Field, Item, Ranking
from streamrank.simulation.draws import Floats, Ints, generator
from streamrank.simulation.world import HELDOUT_MS, Case, Shown

# the quantiles .1, .25, .5, .75 of a standard normal, as World grades
EDGES = np.array([-1.2816, -0.6745, 0.0, 0.6745])

LIMIT = 6000  # in thousandths
# every value as text: looked up in a quarter of the time it takes to format it (60 against 240 us for 1360)
TEXTS = [repr(k / 1000.0) for k in range(-LIMIT, LIMIT + 1)]


class NumericWorld:
    """Lists of fresh standard normal rows x; the grade follows from w.x / |w|, and `drift` exchanges w.

    Features are whole thousandths and weights whole numbers, so w.x is exact in any order of summation. The
    shop of today sorts by the first feature, which always has a positive weight.
    """

    def __init__(self, seed: int, n_features: int, n_queries: int = 200, n_users: int = 1000) -> None:
        self.seed, self.n_features, self.n_queries, self.n_users = seed, n_features, n_queries, n_users
        self.n_items = 0  # none has metadata to announce
        self.taste = 0
        self._w = np.rint(100.0 * generator(seed, 0).standard_normal((2, n_features)))
        self._w[:, 0] = np.rint(
            60.0 * np.sqrt(n_features)
        )  # a mediocre guide, however many features there are
        self._norm = np.sqrt((self._w**2).sum(axis=1))
        fields = ",".join(f'{{"name":"f{k}","value":%s}}' for k in range(1, n_features + 1))
        self._template = f'{{"id":"%s","fields":[{fields}]}}'

    def drift(self) -> None:
        """Exchange the taste for the other one; a second call brings the first back."""
        self.taste = 1 - self.taste

    def query_fields(self, _query: int) -> list[Field]:
        """Return nothing: these queries have no text."""
        return []

    def _draw(self, rng: np.random.Generator, candidates: int, shown: int) -> tuple[list[str], Floats]:
        numbers = rng.permutation(1000)[:shown].tolist()
        normal = rng.standard_normal((candidates, self.n_features))
        thousandths = np.clip(np.rint(1000.0 * normal), -LIMIT, LIMIT) + 0.0
        order = np.argsort(-thousandths[:, 0], kind="stable")[:shown]
        return [f"item-{i:04d}" for i in numbers], thousandths[order]

    def _relevance(self, thousandths: Floats) -> Ints:
        utility: Floats = thousandths @ self._w[self.taste] / (1000.0 * self._norm[self.taste])
        return np.searchsorted(EDGES, utility, side="right")

    def show(
        self, _query: int, rng: np.random.Generator, *, candidates: int, shown: int, shuffled: bool
    ) -> Shown:
        """One list, sorted by the first feature or in random order."""
        ids, rows = self._draw(rng, candidates, shown)
        if shuffled:
            rows = rows[rng.permutation(len(rows))]
        values = (rows.astype(np.int64) + LIMIT).tolist()
        encoded = [
            msgspec.Raw((self._template % (name, *map(TEXTS.__getitem__, row))).encode())
            for name, row in zip(ids, values, strict=True)
        ]
        return Shown(ids, encoded, self._relevance(rows))

    def heldout(self, n: int, seed: int, candidates: int = 30) -> list[Case]:
        """Lists for judging any scorer, under the current taste."""
        rng, cases = generator(self.seed, 1, seed), []
        names = [f"f{k}" for k in range(1, self.n_features + 1)]
        for number in range(n):
            query = int(rng.integers(self.n_queries))
            ids, rows = self._draw(rng, candidates, candidates)
            items = [
                Item(name, [Field(f, v) for f, v in zip(names, row, strict=True)])
                for name, row in zip(ids, (rows / 1000.0).tolist(), strict=True)
            ]
            case = Ranking(
                id=f"h-{number:06d}", timestamp=HELDOUT_MS + number, query=f"q-{query:04d}", items=items
            )
            cases.append(Case(case, self._relevance(rows)))
        return cases
