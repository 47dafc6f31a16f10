"""Reconciling what two partitions taught: the topic again and the archive say the same."""

import json

from streamrank.cli import main


def test_the_topic_and_the_archive_give_one_report(broker, new_topic, tmp_path, capsys, monkeypatch):
    topic, store = new_topic(partitions=2), f"sqlite:///{tmp_path}/s.db"
    monkeypatch.setenv("STREAMRANK_ARCHIVE_FOLDER", str(tmp_path / "archive"))
    monkeypatch.setenv(
        "STREAMRANK_MODELS", '[{"name": "slow", "learner": "ranknet", "params": {"rate": 0.0005}}]'
    )
    at = ["--kafka", broker.address, "--topic", topic]
    assert main(["simulate", "--events", "2500", "--seed", "3", *at]) == 0
    assert main(["replay", *at, "--store", store]) == 0
    reports = []
    for data in ("kafka", "archive"):
        capsys.readouterr()
        assert main(["reconcile", "--store", store, "--data", data, *at, "--dry-run", "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out.splitlines()[-1]) | {"seconds": 0})
    assert reports[0] == reports[1]
    assert set(reports[0]["offsets"]) == {f"{topic}[0]", f"{topic}[1]"}
    assert main(["reconcile", "--store", store, "--data", "kafka", *at, "--json"]) == 0
