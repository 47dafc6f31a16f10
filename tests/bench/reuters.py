"""Reuters-21578 as a ranking problem: documents on acquisitions above all others, in the order of time."""

import csv
import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, diags

from streamrank.features.batch import Floats

TRAIN, VALID = 12_000, 14_500  # rows up to which one learns, chooses; the rest is the test


class Part(NamedTuple):
    """Rows of length 1, and 1 where the topic is the one sought."""

    X: Any
    y: Floats


def reuters(folder: Path, topic: str = "acq") -> tuple[Part, Part, Part]:
    """To learn, to choose, to test: log counts times inverse document frequency of the rows to learn from."""
    indptr, indices, counts = [0], [0] * 0, [0.0] * 0
    with gzip.open(folder / "first80.counts.svmlight.gz", "rt") as lines:
        for line in lines:
            for entry in line.split()[1:]:
                column, count = entry.split(":")
                indices.append(int(column))
                counts.append(float(count))
            indptr.append(len(indices))
    with gzip.open(folder / "first80.docs.tsv.gz", "rt") as lines:
        y = np.array(
            [float(topic in row["topics"].split("|")) for row in csv.DictReader(lines, delimiter="\t")]
        )
    C = csr_matrix((np.log1p(counts), indices, indptr))
    df = np.bincount(C[:TRAIN].indices, minlength=C.shape[1])
    X = C @ diags(np.log(TRAIN / np.maximum(df, 1)))
    X = csr_matrix(diags(1.0 / np.sqrt(np.maximum(X.multiply(X).sum(axis=1).A1, 1e-12))) @ X)
    cuts = (slice(TRAIN), slice(TRAIN, VALID), slice(VALID, None))
    train, valid, test = (Part(X[cut], y[cut]) for cut in cuts)
    return train, valid, test
