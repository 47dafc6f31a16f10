"""4 IS STORED: bytes by key, a shard at a time, with the offset up to which they were learnt.

>>> with open_store("memory://") as store:
...     epoch = store.acquire("clicks[0]")
...     store.commit("clicks[0]", epoch, {"w": b"..."}, start=0, end=100)
...     store.read("clicks[0]")
({'w': b'...'}, 100)
"""

from streamrank.state.base import DeadLetter, Standing, Store
from streamrank.state.urls import open_store

__all__ = ["DeadLetter", "Standing", "Store", "open_store"]
