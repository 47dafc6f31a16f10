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
from ..errors import ConfigError, SourceError
from ..pipeline.letters import DeadLetters
from ..pipeline.replay import stop_signals
from ..pipeline.shard import start_ms
from ..pipeline.supervisor import supervise
from ..pipeline.worker import Worker
from ..sources.topics import open_topic
from ..state import open_store
from ..state.digest import digest, shard_digests
from ..state.urls import shown
from .output import print_json, say

TOPICS = {"clicks": "streamrank.events", "examples": "streamrank.examples"}
STATUS_S, TERMINAL_S = 5.0, 1.0  # between two lines

log = logging.getLogger("streamrank.consume")


def consume(arguments: argparse.Namespace) -> int:
    """Learn from a topic until it is idle or stopped."""
    settings = kafka_settings(arguments)
    url = arguments.store or settings.store
    topic = settings.kafka.topic or TOPICS[arguments.what]
    group = arguments.group or settings.kafka.group or f"streamrank.{arguments.what}"
    start_ms(settings.kafka.start)  # refused before anything is opened
    log_lines()
    if url.startswith("memory:"):
        raise ConfigError("what a memory:// store learns ends with the process: give redis:// or sqlite:///")
    if arguments.workers > 1:
        code, counts = supervise(_member(arguments), arguments.workers)
        if code:
            return code
    else:
        counts = _work(settings, url, topic, group, arguments.until_idle, arguments.member)
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


def _work(
    settings: Settings, url: str, name: str, group: str, until_idle: float | None, member: bool
) -> dict[str, int]:
    kafka = settings.kafka
    parent = os.getppid()
    with stop_signals() as told, open_store(url, settings) as store:
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
            status = _Status(worker)
            # a member whose supervisor was killed stops: the next one starts members of its own
            stopped = (lambda: told() or os.getppid() != parent) if member else told
            try:
                worker.run(stopped, until_idle_s=until_idle, watch=status.watch)
            finally:
                status.end()
        finally:
            topic.close()
            if letters:
                letters.close()
    return dict(worker.counts)


class _Status:
    """A line on a terminal that is written over, a log line elsewhere."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._terminal = worker, sys.stderr.isatty()
        self._last, self._records, self._shown = time.monotonic(), 0, False

    def watch(self) -> None:
        passed = time.monotonic() - self._last
        if passed < (TERMINAL_S if self._terminal else STATUS_S):
            return
        counts = self._worker.counts
        taken = counts["records"]
        try:
            lag = str(self._worker.lag())
        except SourceError:
            lag = "unknown"
        text = (
            f"{taken} records, {(taken - self._records) / passed:.0f}/s, lag {lag}, "
            f"{counts['commits']} commits, {counts['rejected']} refused, "
            f"{len(self._worker.shards)} partitions"
        )
        if self._terminal:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            log.info(text)
        self._last, self._records, self._shown = time.monotonic(), taken, True

    def end(self) -> None:
        if self._terminal and self._shown:
            say()


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
