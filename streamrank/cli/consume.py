"""`streamrank consume`: one worker, or several processes of it."""

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ..config import Settings, load_settings
from ..errors import ConfigError
from ..pipeline.letters import DeadLetters
from ..pipeline.replay import stop_signals
from ..pipeline.supervisor import supervise
from ..pipeline.worker import Worker
from ..sources.topics import open_topic
from ..state import open_store
from ..state.digest import digest, shard_digests
from ..state.urls import shown
from .output import print_json, say

TOPICS = {"clicks": "streamrank.events", "examples": "streamrank.examples"}
STATUS_S = 5.0


def consume(arguments: argparse.Namespace) -> int:
    """Learn from a topic until it is idle or stopped."""
    settings = kafka_settings(arguments)
    url = arguments.store or settings.store
    topic = settings.kafka.topic or TOPICS[arguments.what]
    group = arguments.group or settings.kafka.group or f"streamrank.{arguments.what}"
    log_lines()
    if url.startswith("memory:"):
        raise ConfigError("what a memory:// store learns ends with the process: give redis:// or sqlite:///")
    if arguments.workers > 1:
        code, counts = supervise(_member(arguments), arguments.workers)
        if code:
            return code
    else:
        counts = _work(settings, url, topic, group, arguments.until_idle)
        if arguments.member:
            print_json(counts)
            return 0
    if arguments.json:
        with open_store(url, settings) as store:
            found = shard_digests(store).items()
            shards = {name: {"digest": one, "offset": offset} for name, (one, offset) in found}
            print_json({**counts, "workers": arguments.workers, "digest": digest(store), "shards": shards})
    return 0


def kafka_settings(arguments: argparse.Namespace) -> Settings:
    """The settings, with the brokers and the topic that were named."""
    settings = load_settings(arguments.config)
    given = {"servers": arguments.kafka, "topic": arguments.topic}
    kafka = msgspec.structs.replace(settings.kafka, **{k: v for k, v in given.items() if v})
    return msgspec.structs.replace(settings, kafka=kafka)


def _work(settings: Settings, url: str, name: str, group: str, until_idle: float | None) -> dict[str, int]:
    kafka = settings.kafka
    with stop_signals() as stopped, open_store(url, settings) as store:
        topic = open_topic(kafka, name, group)
        letters = DeadLetters(kafka) if kafka.dead_letter_topic else None
        try:
            say(
                f"streamrank consume: {name} ({len(topic.partitions)} partitions) at {kafka.servers}, group "
                f"{group}, into {shown(url)}, from {kafka.start} where nothing is known, models "
                + ", ".join(f"{model.name} ({model.learner})" for model in settings.models)
            )
            settings = msgspec.structs.replace(settings, store=url)
            worker = Worker(settings, store, topic, group=group, letters=letters, at=_fault())
            worker.run(stopped, until_idle_s=until_idle, watch=_status(worker))
        finally:
            topic.close()
            if letters:
                letters.close()
    return dict(worker.counts)


def _status(worker: Worker) -> Callable[[], None]:
    """A line on a terminal that is written over, a log line elsewhere."""
    last, records, terminal = time.monotonic(), 0, sys.stderr.isatty()

    def watch() -> None:
        nonlocal last, records
        passed = time.monotonic() - last
        if passed < (1.0 if terminal else STATUS_S):
            return
        taken = worker.counts["records"]
        text = f"{taken} records, {(taken - records) / passed:.0f}/s, {len(worker.shards)} partitions"
        if terminal:
            print(f"\r{text}  ", end="", file=sys.stderr, flush=True)
        else:
            logging.getLogger("streamrank.consume").info(text)
        last, records = time.monotonic(), taken

    return watch


def _member(arguments: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "streamrank", "consume", arguments.what, "--member"]
    for option in ("kafka", "topic", "group", "store", "config", "until_idle"):
        value = getattr(arguments, option)
        if value is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    return command


def _fault() -> Callable[[str], None]:
    """For tests: STREAMRANK_TEST_KILL_AT=4c:3 ends the process by kill -9 the third time it is at step 4c."""
    wanted = os.environ.get("STREAMRANK_TEST_KILL_AT", "")
    step, _, times = wanted.partition(":")
    left = int(times or 1)

    def at(here: str) -> None:
        nonlocal left
        if here == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return at if wanted else lambda _: None


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_lines() -> None:
    """Logs to standard error: for people on a terminal, one JSON object a line elsewhere."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(levelname)s %(message)s") if sys.stderr.isatty() else _JsonLines()
    )
    logger = logging.getLogger("streamrank")
    logger.handlers, logger.level = [handler], logging.INFO
