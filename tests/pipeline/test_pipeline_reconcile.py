"""Reconciliation: the drift is that of an independent solver, and a swap is exact whatever dies."""

import json

import msgspec
import numpy as np
import pytest

from streamrank.cli import main
from streamrank.config import ModelSettings, ReconcileSettings, Settings
from streamrank.errors import Fenced, SourceError
from streamrank.events.types import Record
from streamrank.features.batch import BY_LABEL, EXAMPLE, SCORED
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.datasets import LogData
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.judgements import Judgements
from streamrank.pipeline.learnt import cut, recording
from streamrank.pipeline.memory import all_entries
from streamrank.pipeline.reconcile import reconcile
from streamrank.pipeline.swap import roll_back, swaps_of
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.sources import open_source
from streamrank.state import open_store

SLOW = ModelSettings(name="slow", learner="ranknet", params={"rate": 0.0005})
SETTINGS = Settings(models=[SLOW], reconcile=ReconcileSettings(margin=0.0))
LOG = list(Simulator(SimulationSettings(events=4000, seed=3, drift_at=0.3)).records())


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_bytes(b"".join(record.rstrip(b"\n") + b"\n" for record in LOG))
    return lambda: LogData(open_source([path]), SETTINGS)


def learn(store, end, settings=SETTINGS):
    checkpoint = Checkpoint(store, Flow(settings))
    for offset in range(checkpoint.flow.offset, end):
        checkpoint.flow.step(Record(offset, LOG[offset]))
    checkpoint.commit()
    return checkpoint


@pytest.fixture
def store():
    with open_store("memory://") as store:
        learn(store, 3000)
        yield store


def oracle(store, end, settings=SETTINGS):
    """The log again, with the weights of each swap taken where it was made."""
    flow, due = Flow(settings), {s.offset: s.after for s in swaps_of(store, "0", "slow")}
    for offset in range(end + 1):
        if offset in due:
            flow.learn()
            flow.models[0].learner.take_weights(due[offset])
        if offset < end:
            flow.step(Record(offset, LOG[offset]))
    flow.learn()
    return all_entries(flow)


def learnt(store):
    return {key: value for key, value in store.load("0").items() if key not in ("swaps/slow", "source")}


def without_source(entries):
    return {key: value for key, value in entries.items() if key != "source"}


def plain_pairs(batch):
    """(better row, worse row, weight, difference wanted), by the definition, list by list."""
    for q in range(batch.n_lists):
        rows = range(batch.lists[q], batch.lists[q + 1])
        m, mode = len(rows), batch.mode[q]
        alike = len({batch.c[i] for i in rows}) == 1
        if mode in (SCORED, EXAMPLE) or (mode == BY_LABEL and alike):
            label = [batch.y[i] * (batch.c[i] if mode == SCORED else 1.0) for i in rows]
            c = batch.c[rows[0]] if mode == BY_LABEL else 1.0
            for a in range(m):
                for b in range(a):  # ties too: c'Lc = 1/m sum over pairs of squares
                    yield rows[a], rows[b], c / m, label[a] - label[b]
        else:
            for i in rows:
                for j in rows:
                    wins = batch.y[i] > batch.y[j] if mode == BY_LABEL else batch.y[i] > 0
                    if i != j and wins and batch.c[i] > 0:
                        yield i, j, batch.c[i], 1.0


def test_the_optimal_error_is_that_of_an_independent_solver(store, source):
    report = reconcile(store, source(), SETTINGS, method="tikhonov")
    flow, found = Flow(SETTINGS), []
    flow.recorder = recording(flow.counts, found.append)
    for offset in range(3000):
        flow.step(Record(offset, LOG[offset]))
    flow.learn()
    total, parts = flow.counts["learnt"], [Judgements() for _ in range(3)]
    cuts = [round(0.7 * total), round(0.85 * total)]
    for learnt in found:
        for piece in cut(learnt, cuts):
            parts[sum(piece.first >= number for number in cuts)](piece)
    n = max(part.n_columns for part in parts)

    def dense(batch):
        X = np.zeros((len(batch.y), n))
        X[np.repeat(np.arange(len(X)), np.diff(batch.indptr)), batch.indices] = batch.values
        return X

    fit, later = parts[0].batch(), parts[2].last()
    X, spread = dense(fit), np.sqrt((dense(fit) ** 2).mean(axis=0))
    X /= np.where(spread > 0, spread, 1.0)
    better, worse, c, wanted = map(np.array, zip(*plain_pairs(fit), strict=True))
    D = X[better] - X[worse]
    w = np.linalg.solve((D.T * c) @ D + report["lambda"] * np.eye(n), D.T @ (c * wanted))
    s, errors = dense(later) @ (w / np.where(spread > 0, spread, 1.0)), []
    for a, b in zip(later.lists[:-1], later.lists[1:], strict=True):
        pairs = [(i, j) for i in range(a, b) for j in range(a, b) if later.y[i] > later.y[j]]
        if pairs:
            errors.append(np.mean([0.5 - 0.5 * np.sign(s[i] - s[j]) for i, j in pairs]))
    assert len(errors) > 50
    assert report["drift"]["pairwise_error_optimal"] == pytest.approx(np.mean(errors), abs=1e-6)


@pytest.mark.parametrize("method", ["early", "hybrid"])
def test_a_warm_start_takes_fewer_steps_and_a_better_one_is_taken(store, source, method):
    report = reconcile(store, source(), SETTINGS, method=method)
    assert report["swapped"]
    assert (
        report["candidates"][report["chosen"]]["pairwise_error"] <= report["drift"]["pairwise_error_online"]
    )
    learn(store, 3300)
    again = reconcile(store, source(), SETTINGS, method=method)
    assert again["iterations"]["warm"] <= again["iterations"]["cold"]


def test_what_is_not_better_by_the_margin_stays_out(store, source):
    before = store.load("0"), store.standing("0")
    settings = msgspec.structs.replace(SETTINGS, reconcile=ReconcileSettings(margin=0.9))
    assert not reconcile(store, source(), settings)["swapped"]
    assert (store.load("0"), store.standing("0")) == before


def test_events_that_arrive_meanwhile_are_learnt_exactly_once(store, source):
    worker = learn(store, 3000)

    def meanwhile(step):
        if step == 5:  # the optimum is found, the shard not yet taken
            for offset in range(3000, 3200):
                worker.flow.step(Record(offset, LOG[offset]))
            worker.commit()
        if step == 7:  # the shard is taken: what the worker learns now is void
            for offset in range(3200, 3250):
                worker.flow.step(Record(offset, LOG[offset]))
            with pytest.raises(Fenced):
                worker.commit()

    assert reconcile(store, source(), SETTINGS, at=meanwhile)["swapped"]
    assert [s.offset for s in swaps_of(store, "0", "slow")] == [3200]
    learn(store, 4000)  # the worker again, from where the store stands
    assert learnt(store) == without_source(oracle(store, 4000))


def test_rolling_back_serves_the_weights_of_before(store, source):
    def served():
        return learn(store, 0).flow.models[0].learner.served_weights()

    before = served()
    assert roll_back(store, "0", SETTINGS, "slow") is None
    reconcile(store, source(), SETTINGS)
    assert np.abs(served() - before).max() > 1e-3
    assert roll_back(store, "0", SETTINGS, "slow").id == "slow@3000"
    np.testing.assert_allclose(served(), before, rtol=1e-12)
    assert roll_back(store, "0", SETTINGS, "slow") is None  # it was taken back already
    learn(store, 3300)
    reconcile(store, source(), SETTINGS)
    assert len(swaps_of(store, "0", "slow")) == 3


def test_after_a_drift_a_slow_learner_does_better_with_reconciliation(source):
    def quality(every):
        with open_store("memory://") as store:
            for end in range(1000, 4001, 500):
                history = learn(store, end).flow.models[0].history
                if every:
                    reconcile(store, source(), SETTINGS)
            return history.totals()["ndcg@10"]

    assert quality(True) > quality(False) + 0.005


def test_a_log_that_is_another_is_refused(store, tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_bytes(b"\n".join(LOG[:2000]) + b"\n")
    with pytest.raises(SourceError, match="ends at record 2000"):
        reconcile(store, LogData(open_source([path]), SETTINGS), SETTINGS)
    path.write_bytes(b"\n".join([*LOG[:2999], LOG[3500]]) + b"\n")
    with pytest.raises(SourceError, match="another log"):
        reconcile(store, LogData(open_source([path]), SETTINGS), SETTINGS)


def test_the_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(LOG) + b"\n")
    config = {"models": [msgspec.to_builtins(SLOW)]}
    (tmp_path / "c.yaml").write_bytes(msgspec.yaml.encode(config))
    assert main(["replay", "log.jsonl", "--store", "sqlite:///s.db", "--config", "c.yaml"]) == 0
    capsys.readouterr()
    command = ["reconcile", "--store", "sqlite:///s.db", "--data", "log.jsonl", "--method", "hybrid"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    drift = ("pairwise_error", "ndcg@10")
    assert {f"{what}_{who}" for what in drift for who in ("online", "optimal")} <= set(report["drift"])
    assert {"cosine", "relative_norm"} <= set(report["drift"])
    assert {"lambda", "iterations", "swapped", "seconds"} <= set(report)
    assert set(report["iterations"]) == {"warm", "cold"}
    assert report["swapped"]
    assert main(["rollback", "--store", "sqlite:///s.db"]) == 0
    assert "slow@" in capsys.readouterr().out
    assert main(["rollback", "--store", "sqlite:///s.db", "--json"]) == 1
    assert main([*command, "--report", "drift.html"]) == 0
    page = (tmp_path / "drift.html").read_text()
    assert page.count("plotly-graph-div") >= 1
    assert f"{report['drift']['cosine']:.4f}" in page
    assert "pairwise_error_online" in capsys.readouterr().out


def test_what_is_measured_by_is_spread_evenly_within_its_limit():
    flow, kept, found = Flow(SETTINGS), Judgements(limit=20_000), []
    flow.recorder = recording(flow.counts, found.append)
    for offset, value in enumerate(LOG):
        flow.step(Record(offset, value))
    flow.learn()
    for learnt in found:
        kept(learnt)
    stored = sum(len(piece.batch.values) for piece in kept._pieces)
    assert 5_000 < stored <= 20_000
    rankings = np.unique(np.concatenate([piece.ranking for piece in kept._pieces]))
    stride = rankings[1] - rankings[0]
    assert stride > 1
    assert (rankings % stride == 0).all()
    every = np.concatenate([learnt.ranking for learnt in found])
    assert len(kept) == (every % stride == 0).sum()  # with all their judgements
    assert kept.last().n_lists == len(rankings)
