"""The archive holds what was learnt: the same rows as the log taken again, whatever dies in between."""

import json
import multiprocessing
import os
import signal
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from streamrank.cli import main
from streamrank.config import (
    ArchiveSettings,
    ModelSettings,
    RecommenderSettings,
    ReconcileSettings,
    Settings,
)
from streamrank.errors import SourceError, StoreFull
from streamrank.events.types import Record
from streamrank.features.batch import join_batches
from streamrank.learners.latent import RoBiRankMF
from streamrank.pipeline import shelf
from streamrank.pipeline.archive import Archive, read_lists, shard_folder
from streamrank.pipeline.checkpoint import Checkpoint
from streamrank.pipeline.datasets import ArchiveData, LogData, TopicData
from streamrank.pipeline.driftlog import drift_history
from streamrank.pipeline.flow import Flow
from streamrank.pipeline.members import lead, noted
from streamrank.pipeline.reconcile import reconcile
from streamrank.pipeline.shelf import kept, notes
from streamrank.pipeline.training import TrainingSet
from streamrank.simulation import Settings as SimulationSettings
from streamrank.simulation import Simulator
from streamrank.sources import open_source
from streamrank.state import open_store
from streamrank.state.digest import digest

pq = pytest.importorskip("pyarrow.parquet")
FORK = multiprocessing.get_context("fork")
CLICKS = list(Simulator(SimulationSettings(events=1200, seed=5, shuffled=0.3)).records())
MORE = [
    b'{"event": "preference", "better": {"price": 1}, "worse": {"price": 2, "new": 1}, "weight": 2}',
    b'{"event": "example", "query": "q", "item": "a", "x": {"price": 3}, "y": 1}',
    b'{"event": "example", "query": "q", "item": "b", "x": {"price": 5}, "y": 0}',
    b'{"event": "ranking", "id": "j", "timestamp": 1, "items": [{"id": "a", "label": 1}, {"id": "b"}]}',
]
LOG = [*MORE, *CLICKS]
END = len(LOG)
LEARNERS = [
    ModelSettings(name="exact"),
    ModelSettings(name="keyed", learner="song"),
    ModelSettings(name="slow", learner="ranknet"),
    ModelSettings(name="deep", learner="listnet", params={"hidden": 4}),
]


@pytest.fixture
def settings(tmp_path):
    return Settings(
        models=LEARNERS,
        archive=ArchiveSettings(folder=str(tmp_path / "archive")),
        reconcile=ReconcileSettings(margin=0.0),
    )


def learn(store, settings, end=END, every=200, shard="0"):
    checkpoint = Checkpoint(store, Flow(settings), shard=shard)
    for offset in range(checkpoint.flow.offset, end):
        checkpoint.flow.step(Record(offset, LOG[offset]))
        if offset % every == every - 1:
            checkpoint.commit()
    checkpoint.commit()
    return checkpoint.flow


def log_data(tmp_path, settings):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(LOG) + b"\n")
    return LogData(open_source([path]), settings)


def all_of(pieces):
    """Every field of the lists together, to compare."""
    pieces = list(pieces)
    batch = join_batches([piece.batch for piece in pieces])
    fields = {name: np.asarray(value) for name, value in zip(batch._fields, batch, strict=True)}
    fields["ranking"], fields["offset"] = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("ranking", "offset")
    )
    fields["names"] = np.array([list(names) for piece in pieces for names in piece.items], dtype=object)
    assert [b.first for b in pieces[1:]] == [a.end for a in pieces[:-1]]
    return fields


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_archive_log_and_topic_give_the_same_lists(settings, tmp_path):
    messages = [SimpleNamespace(offset=offset, value=value) for offset, value in enumerate(LOG)]
    bounds = SimpleNamespace(start=0, end=len(LOG))
    topic = SimpleNamespace(name="clicks", bounds=lambda _: bounds, read=lambda *_: iter([messages]))
    rule = msgspec.structs.replace(settings.judge, rule="fair-pairs")
    for judge in (settings.judge, rule):
        settings = msgspec.structs.replace(settings, judge=judge)
        with open_store("memory://") as store:
            learn(store, settings, shard="clicks[0]")
            entries, end = store.read("clicks[0]")
        found = [
            all_of(data.lists("clicks[0]", end, entries))
            for data in (ArchiveData(settings), log_data(tmp_path, settings), TopicData(topic, settings))
        ]
        assert len(found[0]["mode"]) > 300
        assert same(found[0], found[1])
        assert same(found[1], found[2])
        for file in kept(shard_folder(settings.archive.folder, "clicks[0]")):
            file.path.unlink()


def test_the_report_from_the_archive_is_that_from_the_log(settings, tmp_path):
    with open_store("memory://") as store:
        learn(store, settings)
        for model in ("slow", "keyed", "deep"):
            reports = [
                reconcile(store, data, settings, model=model, swap=False)
                for data in (ArchiveData(settings), log_data(tmp_path, settings))
            ]
            for report in reports:
                report.pop("seconds")
            assert reports[0] == reports[1]
            assert reports[0]["retraced"]
            assert (reports[0]["drift"]["cosine"] is None) == (model == "deep")
            assert 0 < reports[0]["drift"]["pairwise_error_online"] < 0.5


def test_killed_between_archive_and_commit_nothing_is_lost_or_doubled(settings, tmp_path):
    url = f"sqlite:///{tmp_path}/state.db"

    def until_killed(nth):
        with open_store(url) as store:
            commit, left = store.commit, iter(range(nth, -1, -1))

            def dying(*arguments, **options):
                if next(left) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                commit(*arguments, **options)

            store.commit = dying
            learn(store, settings, every=150)

    for nth in (0, 1, 2):
        run = FORK.Process(target=until_killed, args=(nth,))
        run.start()
        run.join()
        assert run.exitcode == -signal.SIGKILL
    with open_store(url) as store, open_store("memory://") as undisturbed:
        files = kept(shard_folder(settings.archive.folder, "0"))
        entries, end = store.read("0")
        expected = all_of(log_data(tmp_path, settings).lists("0", end, entries))
        assert files[-1].end > len(expected["mode"])  # written, and not committed
        assert same(all_of(ArchiveData(settings).lists("0", end, entries)), expected)
        learn(store, settings, every=150)
        entries, end = store.read("0")
        expected = all_of(log_data(tmp_path, settings).lists("0", end, entries))
        assert same(all_of(ArchiveData(settings).lists("0", end, entries)), expected)
        learn(undisturbed, msgspec.structs.replace(settings, archive=ArchiveSettings()))
        assert digest(store) == digest(undisturbed)


def test_small_files_are_merged_and_old_ones_go(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(shelf, "MERGED", 4)
    with open_store("memory://") as store:
        learn(store, settings, every=20)
        entries, end = store.read("0")
    folder = shard_folder(settings.archive.folder, "0")
    files = kept(folder)
    assert {file.level for file in files} >= {1, 2}
    assert len(files) < 12
    expected = all_of(log_data(tmp_path, settings).lists("0", end, entries))
    assert same(all_of(ArchiveData(settings).lists("0", end, entries)), expected)
    os.utime(files[0].path, (0, 0))
    aged = msgspec.structs.replace(settings, archive=ArchiveSettings(folder=str(folder.parent), keep_days=3))
    Archive(aged.archive, "0", 9, flow := Flow(aged)).tidy()
    assert not flow.counts["learnt"]
    assert kept(folder) == files[1:]
    assert all(note.number >= files[1].first for note in notes(folder))


def test_files_merged_while_they_are_read_are_read_all_the_same(settings, tmp_path, monkeypatch):
    with open_store("memory://") as store:
        learn(store, settings, every=100)
        entries, end = store.read("0")
        lists = ArchiveData(settings).lists("0", end, entries)
        first = [next(lists) for _ in range(3)]
        monkeypatch.setattr(shelf, "MERGED", 4)
        before = kept(shard_folder(settings.archive.folder, "0"))
        checkpoint = Checkpoint(store, Flow(settings))
        checkpoint.flow.step(Record(END, MORE[0]))
        checkpoint.commit()
        assert not set(before) & set(kept(shard_folder(settings.archive.folder, "0")))
    expected = all_of(log_data(tmp_path, settings).lists("0", end, entries))
    assert same(all_of([*first, *lists]), expected)


def test_archive_log_and_topic_give_the_same_clicks(settings, tmp_path):
    settings = msgspec.structs.replace(settings, recommenders=[RecommenderSettings(name="latent")])
    half, messages = END // 2, [SimpleNamespace(offset=k, value=value) for k, value in enumerate(LOG)]
    topic = SimpleNamespace(
        name="clicks",
        bounds=lambda _: SimpleNamespace(start=0, end=END),
        read=lambda _, start, end: iter([messages[start:end]]),
    )
    with open_store("memory://") as store:
        learn(store, settings, half, shard="clicks[0]")
        parts = [store.read("clicks[0]")]
        archived = ArchiveData(settings).clicks("clicks[0]")
        found = [[archived(half, parts[0][0])]]
        flow = learn(store, settings, shard="clicks[0]")
        parts.append(store.read("clicks[0]"))
        found[0].append(archived(END, parts[1][0]))
    for data in (log_data(tmp_path, settings), TopicData(topic, settings)):
        until = data.clicks("clicks[0]")
        found.append([until(end, entries) for entries, end in parts])
    for one, two in found:
        assert (one.first, one.end, two.end) == (0, two.first, flow.counts["clicks"])
        assert [one.users, one.items] == [found[0][0].users, found[0][0].items]
        assert [two.users, two.items] == [found[0][1].users, found[0][1].items]
        assert np.array_equal(two.weights, found[0][1].weights)
        assert np.array_equal(two.offset, found[0][1].offset)
    learner = RoBiRankMF()
    for clicks in found[0]:
        learner.learn_batch(clicks.users, clicks.items, clicks.weights)
    expected = flow.recommenders[0].learner.to_state()["items"]
    np.testing.assert_array_equal(learner.to_state()["items"], expected, strict=True)


def test_without_its_beginning_the_archive_still_leads_to_the_stored_weights(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(shelf, "NOTE_SHARE", 0)
    with open_store("memory://") as store:
        flow = learn(store, settings, every=60)
        for file in kept(shard_folder(settings.archive.folder, "0"))[:5]:
            file.path.unlink()
        for model in flow.models[:3]:
            member = noted(store, ["0"], settings, model.name)[0]
            with TrainingSet(tmp_path, 64) as training:
                lead(member, ArchiveData(settings), settings, model.name, training)
            assert all(training.n_lists)
            assert sum(training.n_lists) < flow.counts["learnt"]
            np.testing.assert_array_equal(
                member.learners[2].served_weights(), model.learner.served_weights(), strict=True
            )
        assert reconcile(store, ArchiveData(settings), settings, model="slow")["lists"]["fit"] > 100


def test_kernels_compiled_for_the_stream_serve_the_archive_too(settings):
    # compiling them anew would not fit into the memory of a scheduled reconciliation
    with open_store("memory://") as store:
        flow = learn(store, settings)
    for piece in read_lists(settings.archive.folder, "0", flow.counts["learnt"]):
        assert all(array.flags.writeable for array in piece.batch if isinstance(array, np.ndarray))


def test_a_hole_and_a_missing_end_are_named(settings):
    with open_store("memory://") as store:
        flow = learn(store, settings)
        total = flow.counts["learnt"]
    files = kept(shard_folder(settings.archive.folder, "0"))
    with pytest.raises(SourceError, match="ends at list"):
        list(read_lists(settings.archive.folder, "0", total + 1))
    files[2].path.unlink()
    with pytest.raises(SourceError, match=f"lacks lists {files[2].first} to {files[2].end}"):
        list(read_lists(settings.archive.folder, "0", total))


def test_what_cannot_be_archived_is_not_committed(settings):
    with open_store("memory://") as store:
        learn(store, settings, 900)
        before = store.read("0")
        folder = shard_folder(settings.archive.folder, "0")
        checkpoint = Checkpoint(store, Flow(settings))
        for offset in range(900, 1000):
            checkpoint.flow.step(Record(offset, LOG[offset]))
        folder.rename(folder.with_name("gone"))
        with pytest.raises(StoreFull, match="takes no more"):
            checkpoint.commit()
        assert store.read("0") == before


def test_any_tool_can_read_it(settings):
    with open_store("memory://") as store:
        learn(store, settings)
    table = pq.read_table(settings.archive.folder)
    assert {"query", "item", "columns", "values", "label", "weight", "kind", "shard", "offset"} <= set(
        table.column_names
    )
    assert set(table.column("kind").to_pylist()) >= {"labels", "example"}
    assert table.column("item").to_pylist()[2:4] == ["a", "b"]


def test_the_command_reconciles_all_shards_from_the_archive(settings, tmp_path, capsys, monkeypatch):
    store = f"sqlite:///{tmp_path}/state.db"
    monkeypatch.setenv("STREAMRANK_ARCHIVE_FOLDER", settings.archive.folder)
    with open_store(store) as opened:
        learn(opened, settings, shard="a")
        learn(opened, settings, shard="b")
    assert main(["reconcile", "--store", store, "--data", "archive", "--model", "slow", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["offsets"] == {"a": END, "b": END}
    assert main(["reconcile", "--store", store, "--data", "archive", "--model", "slow", "--shard", "c"]) == 2
    assert "no shard 'c'; it has: a, b" in capsys.readouterr().err
    (entry,) = drift_history(settings)  # it is in the history too
    assert (entry["drift"], entry["events"]) == (report["drift"], 2 * END)
