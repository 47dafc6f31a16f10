"""List losses: the value, and the slope with respect to the scores, written into `ds`; one file a loss.

A list comes with labels y, weights c and a mode that says what they mean (`streamrank.features.batch`): by
label, every other, or scored. Explicit pairs are lists of two for every loss alike, but for PDGD, to which
all rows shown matter. A new loss is a file, a number here and a branch in `loss_of` (SONG alone has a memory,
and its own way in, `song_list`): one compiled kernel then serves all learners, and is kept on disk.
"""

from typing import NamedTuple

import numpy as np

from ..jit import jit
from ..keyed import Chains, Visit
from ..splitmix import Words
from .approxndcg import approxndcg
from .lambdarank import lambdarank
from .listmle import listmle
from .listnet import listnet
from .neuralndcg import neuralndcg
from .pairs import Columns, Floats, has_preference, preference
from .pdgd import pdgd
from .ranknet import ranknet
from .robirank import robirank
from .song import SongSettings, song_list

RANKNET, LISTNET, LISTMLE, LAMBDARANK, APPROXNDCG, NEURALNDCG, SONG, PDGD, ROBIRANK = range(9)
NO_WORDS = np.zeros(1, np.uint64)

__all__ = [
    "APPROXNDCG",
    "LAMBDARANK",
    "LISTMLE",
    "LISTNET",
    "NEURALNDCG",
    "PDGD",
    "RANKNET",
    "ROBIRANK",
    "SONG",
    "Loss",
    "has_preference",
    "list_loss",
    "list_slopes",
    "loss_of",
    "preference",
]


class Loss(NamedTuple):
    """Which loss, and all that one of them takes."""

    number: int
    knob: float  # the temperature, or the type, of those that have one
    song: SongSettings
    chains: Chains  # what SONG remembers, and where the lists of the batch find theirs
    visit: Visit
    sample: int = 0  # rows that RoBiRank sets each relevant one against; 0 all
    generator: Words = NO_WORDS  # of that sample


@jit
def loss_of(loss: int, knob: float, s: Floats, y: Floats, c: Floats, mode: int, ds: Floats) -> float:
    """A loss by its number; `knob` is the temperature, or the type, of those that have one."""
    if loss == LISTNET:
        return listnet(s, y, c, mode, ds)
    if loss == LISTMLE:
        return listmle(s, y, c, mode, ds)
    if loss == LAMBDARANK:
        return lambdarank(s, y, c, mode, ds)
    if loss == APPROXNDCG:
        return approxndcg(s, y, c, mode, knob, ds)
    if loss == NEURALNDCG:
        return neuralndcg(s, y, c, mode, knob, ds)
    if loss == ROBIRANK:
        return robirank(s, y, c, mode, knob == 2.0, 0, np.zeros(1, np.uint64), ds)
    return ranknet(s, y, c, mode, ds)


@jit
def list_loss(
    loss: int,
    knob: float,
    s: Floats,
    y: Floats,
    c: Floats,
    mode: int,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    ds: Floats,
) -> float:
    """The loss of a list of m rows in any mode; of explicit pairs (2/m) times the sum of theirs.

    >>> ds, two = np.empty(3), np.array([0, 2], np.int32)
    >>> s, one = np.zeros(3), np.ones(3)
    >>> value = list_loss(RANKNET, 0.0, s, s, one, 2, two[:1], two[1:], one[:1], ds)
    >>> round(3 * value, 6), ds.round(4)
    (0.693147, array([-0.1667,  0.    ,  0.1667]))
    """
    if loss == PDGD:
        return pdgd(s, y, c, mode, better, worse, pair_c, ds)
    if mode != 2:
        return loss_of(loss, knob, s, y, c, mode, ds)
    ds[:] = 0.0
    value = 0.0
    label, both, scores, slopes = np.array([1.0, 0.0]), np.empty(2), np.empty(2), np.empty(2)
    for p in range(len(better)):
        if pair_c[p] > 0.0:
            i, j = better[p], worse[p]
            scores[0], scores[1] = s[i], s[j]
            both[:] = pair_c[p]
            value += loss_of(loss, knob, scores, label, both, 0, slopes)
            ds[i] += slopes[0]
            ds[j] += slopes[1]
    ds *= 2.0
    ds /= len(s)
    return 2.0 * value / len(s)


@jit
def list_slopes(
    number: int,
    knob: float,
    settings: SongSettings,
    sample: int,
    generator: Words,
    known: int,
    u: Floats,
    query: Floats,
    s: Floats,
    y: Floats,
    c: Floats,
    mode: int,
    better: Columns,
    worse: Columns,
    pair_c: Floats,
    ds: Floats,
) -> None:
    """The slope of a loss for a list; what SONG knows of its query, u and three numbers, moves with it."""
    if number == SONG:
        song_list(s, y, c, mode, better, worse, pair_c, settings, known, u, query, ds)
    elif sample > 0 and mode != 2:
        robirank(s, y, c, mode, knob == 2.0, sample, generator, ds)
    else:
        list_loss(number, knob, s, y, c, mode, better, worse, pair_c, ds)
