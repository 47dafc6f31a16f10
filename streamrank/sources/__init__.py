"""Where records come from: logs of events, judged lists and ratings, each read in order and seekable."""

from streamrank.sources.base import Source
from streamrank.sources.open import open_source

__all__ = ["Source", "open_source"]
