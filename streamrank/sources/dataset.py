"""Judged lists as arrays: what an evaluation or a batch solver reads."""

from dataclasses import dataclass

from streamrank.features.batch import Columns, Floats, Ints


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows in CSR form, grouped into lists.

    Row r holds columns ``indices[indptr[r]:indptr[r+1]]`` with ``data`` beside them, ready for
    ``scipy.sparse.csr_matrix((data, indices, indptr), shape)``; list q, of query ``qids[q]``, holds rows
    ``lists[q]:lists[q+1]``. Column j is called ``names[j]``; row r is about ``docs[r]`` and judged ``y[r]``.
    """

    indptr: Ints
    indices: Columns
    data: Floats
    y: Floats
    lists: Ints
    qids: list[str]
    docs: list[str]
    names: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.y), len(self.names)

    @property
    def n_lists(self) -> int:
        """How many lists."""
        return len(self.qids)
