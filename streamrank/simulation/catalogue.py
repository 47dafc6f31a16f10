"""What the shop sells and what is asked of it: items and queries, without any taste."""

import numpy as np

from streamrank.events.types import Field
from streamrank.simulation.draws import Floats, Ints, settled

CATEGORIES = {
    "shoes": ("running", "trail", "leather", "canvas", "sneaker", "boot"),
    "jackets": ("rain", "down", "fleece", "hooded", "parka", "windbreaker"),
    "phones": ("dual", "camera", "android", "compact", "smartphone", "unlocked"),
    "laptops": ("gaming", "ultrabook", "notebook", "workstation", "touchscreen", "refurbished"),
    "books": ("novel", "thriller", "history", "paperback", "illustrated", "classic"),
    "toys": ("wooden", "puzzle", "robot", "plush", "railway", "building"),
    "kitchen": ("steel", "pan", "knife", "kettle", "ceramic", "blender"),
    "garden": ("hose", "seed", "shovel", "planter", "lantern", "mower"),
}
BRANDS = (
    *("acorn", "borealis", "cobalt", "dune", "ember", "fjord", "granite", "harbor", "indigo", "juniper"),
    *("kestrel", "lumen", "meadow", "nimbus", "orchard", "pebble", "quarry", "ridge", "summit", "tundra"),
)
TAGS = ("new", "sale", "eco", "gift", "limited", "bestseller", "outlet", "handmade")
NUMERIC = ("price", "rating", "popularity", "age_days")
MATCH = ("bm25", "semantic", "noise1", "noise2")


class Catalogue:
    """The items, on the raw scales a shop would send: prices up to hundreds, heavy-tailed counts, days."""

    def __init__(self, rng: np.random.Generator, n_items: int) -> None:
        self.category: Ints = rng.integers(len(CATEGORIES), size=n_items)
        self.brand: Ints = rng.integers(len(BRANDS), size=n_items)
        self.numeric: dict[str, Floats] = {
            "price": settled(np.clip(40.0 * np.exp(0.7 * rng.standard_normal(n_items)), 1.0, 900.0), 2),
            "rating": settled(np.clip(3.8 + 0.6 * rng.standard_normal(n_items), 1.0, 5.0), 1),
            "popularity": settled(200.0 * np.exp(1.2 * rng.standard_normal(n_items)), 0),
            "age_days": rng.integers(1, 1500, size=n_items).astype(np.float64),
        }
        words = list(CATEGORIES.values())
        self.tags = [
            [tag for tag, p in zip(TAGS, row, strict=True) if p < 0.25] for row in rng.random((n_items, 8))
        ]
        self.titles = [
            " ".join((BRANDS[b], *(words[c][k] for k in rng.permutation(6)[:2]), list(CATEGORIES)[c]))
            for c, b in zip(self.category.tolist(), self.brand.tolist(), strict=True)
        ]

    def metadata(self, item: int) -> list[Field]:
        """Return all that the shop knows of an item."""
        numbers = [Field(name, float(self.numeric[name][item])) for name in NUMERIC]
        return [
            *numbers,
            Field("category", list(CATEGORIES)[self.category[item]]),
            Field("brand", BRANDS[self.brand[item]]),
            Field("tags", list(self.tags[item])),
            Field("title", self.titles[item]),
        ]


class Queries:
    """What is asked: a text, a mix of categories, and how each item of a catalogue matches it."""

    def __init__(self, rng: np.random.Generator, n_queries: int, catalogue: Catalogue) -> None:
        n_items, words = len(catalogue.category), list(CATEGORIES.values())
        main = rng.integers(len(CATEGORIES), size=n_queries)
        mix = rng.random((n_queries, len(CATEGORIES)))
        mix[np.arange(n_queries), main] += 2.0
        self.mix: Floats = settled(mix / mix.sum(axis=1, keepdims=True))
        self.texts = [
            " ".join(words[c][k] for k in rng.permutation(6)[:2]) + " " + list(CATEGORIES)[c] for c in main
        ]
        # both scores see the category; each also holds something of its own that the other does not know
        fit = 4.0 * self.mix[:, catalogue.category]
        size = (n_queries, n_items)
        self.match: dict[str, Floats] = {
            "bm25": settled(np.maximum(9.0 + 2.0 * fit + 4.0 * rng.standard_normal(size), 0.0), 3),
            "semantic": settled(np.clip(0.2 + 0.1 * fit + 0.18 * rng.standard_normal(size), -1.0, 1.0), 4),
            "noise1": settled(rng.standard_normal(size), 3),
            "noise2": settled(100.0 * rng.random(size), 2),
        }
        self.fit: Floats = settled(fit)
