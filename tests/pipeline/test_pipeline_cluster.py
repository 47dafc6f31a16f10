import os
import signal

import numpy as np
import pytest
from scipy.sparse import random as random_sparse

from streamrank.config import ModelSettings, ReconcileSettings, Settings
from streamrank.errors import ConfigError
from streamrank.events.types import Record
from streamrank.kernels.blocked import BlockedOperator
from streamrank.learners.rankrls import RankRLS
from streamrank.pipeline import cluster
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.cluster import DaskOperator, dask_client
from streamrank.pipeline.datasets import LogData
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.reconcile import reconcile
from streamrank.pipeline.swap import swaps_of
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.sources import open_source
from streamrank.sources.blockfile import write_blocks
from streamrank.state import open_store

pytest.importorskip("distributed")
pytestmark = pytest.mark.xdist_group("dask")
N = 600


@pytest.fixture(scope="module")
def client():
    with dask_client("local", 2) as running:
        yield running


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    rng = np.random.default_rng(1)
    X = random_sparse(2000, N, 0.02, "csr", rng=rng)
    chunk = (X, rng.standard_normal(2000), np.arange(0, 2001, 10))
    return write_blocks(tmp_path_factory.mktemp("rows") / "rows", [chunk], 40_000)


def test_a_cluster_gives_what_one_process_gives(client, stored):
    n, blocks = stored
    here, there = BlockedOperator(blocks, n), DaskOperator(client, blocks, n)
    v = np.random.default_rng(0).standard_normal(n)
    for mine, expected in (
        (there(v), here(v)),
        (there.rhs(), here.rhs()),
        (there.scores(v), here.scores(v)),
        (there.gram(), here.gram()),
    ):
        np.testing.assert_allclose(mine, expected, rtol=1e-12, atol=1e-12)
    assert (there(v) == there(v)).all()


def test_the_weights_agree_to_1e_9(client, stored):
    n, blocks = stored
    model = RankRLS(lam=1.0, solver="cg", rtol=1e-12)
    here = model.fit_blocks(BlockedOperator(blocks, n)).weights
    there = model.fit_blocks(DaskOperator(client, blocks, n)).weights
    assert np.linalg.norm(here - there) <= 1e-9 * np.linalg.norm(here)


def test_every_worker_has_a_share(client, stored):
    n, blocks = stored
    operator = DaskOperator(client, blocks, n)
    operator(np.ones(n))
    held = client.who_has(operator._runs)
    assert {worker for workers in held.values() for worker in workers} == set(client.nthreads())


def test_a_reconciliation_over_the_cluster_is_that_in_process(client, tmp_path):
    log = list(Simulator(SimulationSettings(events=1500, seed=3)).records())
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(log) + b"\n")
    settings = Settings(
        models=[ModelSettings(name="slow", learner="ranknet", params={"rate": 0.0005})],
        reconcile=ReconcileSettings(margin=0.0, memory_mb=64, folder=str(tmp_path)),
    )
    reports, optima = [], []
    for dask in (None, client.scheduler.address):
        with open_store("memory://") as store:
            checkpoint = Checkpoint(store, Flow(settings))
            for offset, value in enumerate(log):
                checkpoint.flow.step(Record(offset, value))
            checkpoint.commit()
            data = LogData(open_source([tmp_path / "log.jsonl"]), settings)
            reports.append(reconcile(store, data, settings, dask=dask))
            optima.append(swaps_of(store, "0", "slow")[0].optimum)
    assert reports[0]["swapped"]
    assert reports[0]["lambda"] == reports[1]["lambda"]
    assert reports[1]["drift"] == pytest.approx(reports[0]["drift"], abs=1e-9)
    assert np.linalg.norm(optima[0] - optima[1]) <= 1e-9 * np.linalg.norm(optima[0])
    assert not list(tmp_path.glob("tmp*"))


def test_a_killed_worker_is_survived(client, stored):
    n, blocks = stored
    operator = DaskOperator(client, blocks, n)
    v = np.random.default_rng(0).standard_normal(n)
    before = operator(v)
    os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)
    assert (operator(v) == before).all()
    client.wait_for_workers(2, timeout=30)
    assert (operator(v) == before).all()


def test_two_clusters_of_one_machine_do_not_meet(client):
    with dask_client("local", 1) as other:
        assert other.submit(os.getpid).result() not in client.run(os.getpid).values()


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(cluster, "_WAIT", 0.2)
    with pytest.raises(ConfigError, match="answers at tcp://127"), dask_client("tcp://127.0.0.1:9"):
        pass
