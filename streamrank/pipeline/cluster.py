"""Blocks over the workers of a Dask cluster (the extra `dask`): more rows than a machine holds."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..features.batch import Floats
from ..kernels.blocked import BlockedOperator, Fetch

LOCAL = "local"
_WAIT = 30  # seconds for a scheduler to answer, and for its first worker
_RETRIES = 5  # how often a part is begun anew after an error of a worker


@contextmanager
def dask_client(where: str, n_workers: int = 2) -> Iterator[Any]:
    """A client of the scheduler at `where` (tcp://host:port), or of processes of this machine ("local")."""
    try:
        # here, not above: it is an extra, and takes a second to load
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise ConfigError("Dask needs distributed: pip install 'streamrank[dask]'") from error
    with ExitStack() as stack:
        address: Any = where
        if where == LOCAL:
            address = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port: 8787 may be taken
            )
            stack.enter_context(address)
        try:
            client = stack.enter_context(Client(address, timeout=_WAIT, set_as_default=False))
            client.wait_for_workers(1, timeout=_WAIT)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConfigError(
                f"no Dask cluster with a worker answers at {where}: {error}. Give the scheduler's address, "
                f"as tcp://host:8786, or {LOCAL!r} for processes of this machine."
            ) from error
        yield client


class DaskOperator:
    """v -> X'L(Xv), the blocks divided among the workers.

    Each thread of the cluster gets one run of blocks and keeps it. A product sends v to each run and brings
    back its share of the sum: one vector out and one back. The shares are added in the order of the blocks,
    so the same cluster gives the same bits, and another one, or none, differs by rounding only. A run whose
    worker died is taken up by another one, from the functions that fetch its blocks.

    Parameters
    ----------
    client
        As `dask_client` gives it.
    fetch
        One function for each block, as for `BlockedOperator`; workers have to see the files it reads.
    n
        Columns.
    """

    def __init__(self, client: Any, fetch: Sequence[Fetch], n: int) -> None:
        self.shape = (n, n)
        self._client = client
        slots = [worker for worker, threads in sorted(client.nthreads().items()) for _ in range(threads)]
        cuts = np.linspace(0, len(fetch), min(len(slots), len(fetch)) + 1).astype(int).tolist()
        self._runs = [
            client.submit(
                BlockedOperator,
                list(fetch[first:end]),
                n,
                pure=False,
                workers=[worker],
                allow_other_workers=True,
                retries=_RETRIES,
            )
            for worker, first, end in zip(slots, cuts[:-1], cuts[1:], strict=False)
        ]

    def __call__(self, v: Floats) -> Floats:
        """X'LXv."""
        return self._sum("__call__", v)

    def rhs(self) -> Floats:
        """b = X'Ly."""
        return self._sum("rhs")

    def gram(self) -> Floats:
        """X'LX itself, n x n: for few columns."""
        return sum(self._each("gram"), np.zeros(self.shape))

    def scores(self, w: Floats) -> Floats:
        """Xw of all rows."""
        return np.concatenate([np.zeros(0), *self._each("scores", w)])

    def _sum(self, name: str, *arguments: Floats) -> Floats:
        return sum(self._each(name, *arguments), np.zeros(self.shape[0]))

    def _each(self, name: str, *arguments: Floats) -> list[Floats]:
        asked = [
            self._client.submit(_ask, run, name, *arguments, pure=False, retries=_RETRIES)
            for run in self._runs
        ]
        answers: list[Floats] = self._client.gather(asked)
        return answers


def _ask(run: BlockedOperator, name: str, *arguments: Floats) -> Floats:
    answer: Floats = getattr(run, name)(*arguments)
    return answer
