"""A small shop with a hidden taste: the truth that a learner has to find from clicks alone."""

from typing import NamedTuple

import msgspec
import numpy as np

from streamrank.errors import ConfigError
from streamrank.events.types import Field, Item, Ranking
from streamrank.simulation.catalogue import BRANDS, CATEGORIES, MATCH, Catalogue, Queries
from streamrank.simulation.draws import Floats, Ints, generator, settled

N_GRADES = 5
POOL = 100  # how many items a query retrieves; the candidates of one ranking are drawn from these
MAX_PAIRS = 4_000_000  # all pairs (query, item) are held in memory: 73 bytes each, 105 while building
GRADE_SHARES = (0.1, 0.25, 0.5, 0.75)  # below these quantiles of utility lie grades 0, 1, 2, 3
HELDOUT_MS = 1_700_000_000_000
# The weight of each standardised feature, before and after the drift. Not named: worth nothing.
TASTES: tuple[dict[str, float], dict[str, float]] = (
    {"bm25": 0.4, "semantic": 0.9, "price": -0.7, "rating": 0.45, "popularity": 0.25, "age_days": -0.3},
    {"bm25": 0.4, "semantic": -0.8, "price": 0.7, "rating": 0.45, "popularity": 0.25, "age_days": 0.3},
)
LOGGING: dict[str, float] = {"bm25": 1.0, "popularity": 0.6, "noise1": 0.5}


class Shown(NamedTuple):
    """One list as shown: ids, the same as encoded items of a ranking, and the truth."""

    ids: list[str]
    items: list[msgspec.Raw]
    relevance: Ints


class Case(NamedTuple):
    """A ranking with every field inline, in the order the shop would show it, and the grade of each item."""

    ranking: Ranking
    relevance: Ints


class World:
    """Items, queries, users and one of two tastes.

    With z a feature standardised over all items (or all pairs of query and item),
        utility(q, i) = sum_f w_f z_f(q, i) + category_i + brand_i + noise_i       (1)
    and the grade 0..4 is the number of fixed quantiles of (1) that it reaches. `drift` exchanges the taste
    (w, category and brand effects) for the other one.

    Parameters
    ----------
    seed
        Same seed, same world.
    n_items, n_queries, n_users
        Sizes; a query retrieves at most 100 of the items.

    Examples
    --------
    >>> world = World(seed=1)
    >>> case, = world.heldout(1, seed=5)
    >>> [field.name for field in case.ranking.items[0].fields][:5]
    ['bm25', 'semantic', 'noise1', 'noise2', 'price']
    >>> case.relevance[:5]
    array([2, 2, 4, 2, 3])
    """

    def __init__(self, seed: int, n_items: int = 500, n_queries: int = 200, n_users: int = 1000) -> None:
        for name, value in (("n_items", n_items), ("n_queries", n_queries), ("n_users", n_users)):
            if value < 1:
                raise ConfigError(f"{name} = {value}: a world needs at least one")
        if n_items * n_queries > MAX_PAIRS:
            raise ConfigError(
                f"n_items * n_queries = {n_items * n_queries}: at most {MAX_PAIRS} are held in memory"
            )
        self.seed, self.n_items, self.n_queries, self.n_users = seed, n_items, n_queries, n_users
        rng = generator(seed, 0)
        self.catalogue = Catalogue(rng, n_items)
        self.queries = Queries(rng, n_queries, self.catalogue)
        self.item_ids = [f"item-{i:04d}" for i in range(n_items)]
        self.taste = 0
        tables = {**self.queries.match, **self.catalogue.numeric}
        self._scale = {
            f: (float(settled(t.mean())), float(settled(t.std())) or 1.0) for f, t in tables.items()
        }
        category, brand = rng.standard_normal(len(CATEGORIES)), rng.standard_normal(len(BRANDS))
        noise = 0.25 * rng.standard_normal(n_items)
        # after the drift the best category is the worst, and so on down the list
        swap = np.empty(len(CATEGORIES), dtype=np.int64)
        swap[np.argsort(category)] = np.argsort(-category)
        effects = ((category, brand), (category[swap], brand[::-1]))
        self._effect = [
            settled(0.5 * c[self.catalogue.category] + 0.2 * b[self.catalogue.brand] + noise)
            for c, b in effects
        ]
        everything = np.arange(n_items)
        self._utility = [self._value(taste, everything) for taste in (0, 1)]
        self._edges = [settled(np.quantile(u, GRADE_SHARES)) for u in self._utility]
        # a query retrieves what fits it, with luck: the largest of fit + noise
        luck = self.queries.fit + rng.standard_normal((n_queries, n_items))
        self._pools = np.argsort(-settled(luck), axis=1, kind="stable")[:, :POOL]
        self._logged = self._weigh(LOGGING, everything)
        self._encoded: dict[int, msgspec.Raw] = {}  # at most one a pair that was ever shown

    def _weigh(self, weights: dict[str, float], items: Ints) -> Floats:
        """Add up the weighted standardised features of `items`, for every query."""
        total = np.zeros((self.n_queries, len(items)))
        for name, w in weights.items():  # one by one: the order of a matrix product is the machine's choice
            mean, deviation = self._scale[name]
            table = self.queries.match.get(name)
            raw = self.catalogue.numeric[name][items] if table is None else table[:, items]
            total += w * ((raw - mean) / deviation)
        return settled(total)

    def _value(self, taste: int, items: Ints) -> Floats:
        return settled(self._weigh(TASTES[taste], items) + self._effect[taste][items])  # (1)

    def drift(self) -> None:
        """Exchange the taste for the other one; a second call brings the first back."""
        self.taste = 1 - self.taste

    def reprice(self, item: int, factor: float) -> list[Field]:
        """Change a price, and with it the truth; returns the field to announce."""
        price = float(settled(np.clip(self.catalogue.numeric["price"][item] * factor, 1.0, 900.0), 2))
        self.catalogue.numeric["price"][item] = price
        for taste in (0, 1):
            self._utility[taste][:, item] = self._value(taste, np.array([item]))[:, 0]
        return [Field("price", price)]

    def utility(self, query: int, items: Ints, taste: int | None = None) -> Floats:
        """Return (1), under the current taste unless another is named."""
        values: Floats = self._utility[self.taste if taste is None else taste][query, items]
        return values

    def relevance(self, query: int, items: Ints) -> Ints:
        """Grades 0..4 under the current taste."""
        return np.searchsorted(self._edges[self.taste], self.utility(query, items), side="right")

    def logging_order(self, query: int, items: Ints) -> Ints:
        """Sort items as the shop does today: by text match and popularity, and a good deal of accident."""
        ordered: Ints = items[np.argsort(-self._logged[query, items], kind="stable")]
        return ordered

    def candidates(self, query: int, n: int, rng: np.random.Generator) -> Ints:
        """Draw what one ranking may show, in the order of the shop."""
        pool = self._pools[query]
        return self.logging_order(query, pool[rng.permutation(len(pool))[:n]])

    def show(
        self, query: int, rng: np.random.Generator, *, candidates: int, shown: int, shuffled: bool
    ) -> Shown:
        """One list: the first `shown` of the candidates, in the order of the shop or in random order."""
        items = self.candidates(query, candidates, rng)[:shown]
        if shuffled:
            items = items[rng.permutation(len(items))]
        numbers = items.tolist()
        encoded = [self.item(query, item) for item in numbers]
        return Shown([self.item_ids[i] for i in numbers], encoded, self.relevance(query, items))

    def item(self, query: int, item: int) -> msgspec.Raw:
        """An item of a ranking, encoded: its id, and how it matches the query."""
        key = query * self.n_items + item
        found = self._encoded.get(key)
        if found is None:
            plain = {"id": self.item_ids[item], "fields": self._match(query, item)}
            found = self._encoded[key] = msgspec.Raw(msgspec.json.encode(plain))
        return found

    def _match(self, query: int, item: int) -> list[Field]:
        return [Field(name, float(self.queries.match[name][query, item])) for name in MATCH]

    def query_fields(self, query: int) -> list[Field]:
        """Return the fields of a ranking: the text that was typed."""
        return [Field("query", self.queries.texts[query])]

    def heldout(self, n: int, seed: int, candidates: int = 30) -> list[Case]:
        """Lists for judging any scorer, under the current taste; queries are drawn evenly."""
        rng, cases = generator(self.seed, 1, seed), []
        for number in range(n):
            query = int(rng.integers(self.n_queries))
            items = self.candidates(query, candidates, rng)
            ranking = Ranking(
                id=f"h-{number:06d}",
                timestamp=HELDOUT_MS + number,
                query=f"q-{query:04d}",
                fields=self.query_fields(query),
                items=[
                    Item(self.item_ids[i], [*self._match(query, i), *self.catalogue.metadata(i)])
                    for i in items.tolist()
                ],
            )
            cases.append(Case(ranking, self.relevance(query, items)))
        return cases
