"""The schedule by which several workers learn one factor model without touching the same row.

Rows of users fall into W blocks, rows of items too. In sub-pass s worker w learns the clicks of user block w
on item block (w + s) mod W, with negatives of that block: users stay, items are exchanged. Blocks take turns
in chunks of 64 rows (of one, where there are few), so that workers do not write to the same cache lines and
popular items, which come first, are spread.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..features.batch import Ints
from ..kernels.latent import Stratum

CHUNK_BITS = 6


class Job(NamedTuple):
    """Clicks (by number in the pass) that a worker learns, and where it draws from."""

    worker: int
    clicks: Ints
    stratum: Stratum


def shift_for(n_items: int, workers: int) -> int:
    """How many bits of a row's number are its place in a chunk; 0 where a block would have few chunks.

    >>> shift_for(10_000, 2), shift_for(100, 2), shift_for(10_000, 1)
    (6, 0, 0)
    """
    return CHUNK_BITS if workers > 1 and n_items >= 16 * workers << CHUNK_BITS else 0


def sub_passes(rows: Ints, columns: Ints, workers: int, shift: int) -> Iterator[list[Job]]:
    """The jobs of each sub-pass: they may run at once, or one after the other, to the same bits.

    >>> jobs = next(sub_passes(np.array([0, 1, 0]), np.array([0, 1, 1]), 2, 0))
    >>> [(job.worker, job.clicks.tolist(), job.stratum.block) for job in jobs]
    [(0, [0], 0), (1, [1], 1)]
    """
    owner, block = (rows >> shift) % workers, (columns >> shift) % workers
    stratum = owner * workers + (block - owner) % workers
    if workers < 2**8:
        stratum = stratum.astype(np.uint16)  # which numpy counts into place instead of sorting
    order = np.argsort(stratum, kind="stable")
    starts = np.searchsorted(stratum[order], np.arange(workers * workers + 1))
    for s in range(workers):
        jobs = []
        for w in range(workers):
            k = w * workers + s
            clicks = order[starts[k] : starts[k + 1]]
            jobs.append(Job(w, clicks, Stratum((w + s) % workers, workers, shift)))
        yield jobs
