"""How the checks compare learners: by bits, by served scores, and through a mirror of the state."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..features.batch import Floats
from .base import Ranker
from .lessons import Example, Lesson

BLOCK = 4096  # rows a block of `Ranker.dirty`


def expect(ok: bool, message: str) -> None:
    """An assertion that `python -O` keeps."""
    if not ok:
        raise AssertionError(message)


def frozen(value: Any) -> Any:
    """A copy that compares equal exactly where the bits are equal (NaN to NaN, 0.0 not to -0.0)."""
    if isinstance(value, Mapping):
        return {key: frozen(value[key]) for key in sorted(value)}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [frozen(part) for part in value]
    return value.hex() if isinstance(value, float) else value


def size_of(value: Any) -> int:
    """Bytes of a state, about."""
    if isinstance(value, Mapping):
        return sum(len(key) + size_of(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return sum(8 + size_of(part) for part in value)
    if isinstance(value, np.ndarray):
        return value.nbytes
    return len(value) if isinstance(value, str | bytes) else 8


def expect_same_state(one: Ranker, two: Ranker, message: str) -> None:
    """The states are the same bits; the message names the entries that are not."""
    a, b = frozen(one.to_state()), frozen(two.to_state())
    names = sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
    expect(not names, f"{message}: {', '.join(names)}")


def scores_of(ranker: Ranker, xs: Sequence[Example]) -> Floats:
    """Served scores of dicts."""
    return ranker.scores(ranker._known(xs))


def expect_close(one: Ranker, two: Ranker, xs: Sequence[Example], message: str) -> None:
    """The served scores are the same up to rounding."""
    expect(bool(np.allclose(scores_of(one, xs), scores_of(two, xs), rtol=1e-9, atol=1e-12)), message)


def pairwise_error_of(ranker: Ranker, lessons: Sequence[Lesson]) -> float:
    """Share of the preferences by label that are scored the wrong way round; a tie is wrong."""
    wrong = [
        ranker.predict_one(better) <= ranker.predict_one(worse)
        for lesson in lessons
        for better, y in zip(lesson.xs, lesson.ys, strict=True)
        for worse, z in zip(lesson.xs, lesson.ys, strict=True)
        if y > z
    ]
    return sum(wrong) / len(wrong)


def commit_to(ranker: Ranker, mirror: dict[str, Any]) -> None:
    """Send the mirror what `dirty` names, nothing else, and compare."""
    state = ranker.to_state()
    for name, blocks in ranker.dirty().items():
        if name not in state:
            mirror.pop(name, None)
        elif blocks is None:
            mirror[name] = copy.deepcopy(state[name])
        else:
            array = state[name]
            # filled with nonsense: rows that nobody sends must not be right by chance
            grown = np.full(array.nbytes, 0xAB, np.uint8).view(array.dtype).reshape(array.shape)
            kept = mirror.get(name, array[:0])[: len(array)]
            grown[: len(kept)] = kept
            for k in blocks:
                grown[k * BLOCK : (k + 1) * BLOCK] = array[k * BLOCK : (k + 1) * BLOCK]
            mirror[name] = grown
    mine, sent = frozen(state), frozen(mirror)
    names = sorted(name for name in {*mine, *sent} if mine.get(name) != sent.get(name))
    expect(not names, f"dirty did not cover what changed: {', '.join(names)}")
