"""`streamrank consume`: one worker, or several processes of it."""

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import msgspec

from ..config import Settings, load_settings
from ..errors import ConfigError, SourceDown, SourceError, StoreDown
from ..pipeline.letters import DeadLetters
from ..pipeline.replay import stop_signals
from ..pipeline.shard import start_ms
from ..pipeline.supervisor import supervise
from ..pipeline.worker import RETRY_S, Worker
from ..sources.topics import open_topic
from ..state import open_store
from ..state.digest import digest, shard_digests
from ..state.urls import shown
from .output import print_json, say

TOPICS = {"clicks": "streamrank.events", "examples": "streamrank.examples"}
STATUS_S, TERMINAL_S = 5.0, 1.0  # between two lines

log = logging.getLogger("streamrank.consume")
T = TypeVar("T")


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
        code, counts = supervise(_member(arguments), arguments.workers, again=["--again"])
        if code:
            return code
    else:
        counts = _work(settings, url, topic, group, arguments)
        if arguments.member is not None:
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
    settings: Settings, url: str, name: str, group: str, arguments: argparse.Namespace
) -> dict[str, int]:
    kafka, member = settings.kafka, arguments.member
    with ExitStack() as stack:
        told = stack.enter_context(stop_signals())

        def stopped() -> bool:  # also a member whose supervisor was killed: the next one has its own
            return told() or (member is not None and os.getppid() != member)

        patience_s = kafka.give_up_ms / 1000 if arguments.again else 0.0
        store = stack.enter_context(_opened(lambda: open_store(url, settings), stopped, patience_s))
        topic = _opened(lambda: open_topic(kafka, name, group), stopped, patience_s)
        stack.callback(topic.close)
        letters = None
        if kafka.dead_letter_topic:
            letters = _opened(lambda: DeadLetters(kafka), stopped, patience_s)
            stack.callback(letters.close)
        say(
            f"streamrank consume: {name} ({len(topic.partitions)} partitions) at {kafka.servers}, group "
            f"{group}, into {shown(url)}, from {kafka.start} where nothing is known, models "
            + ", ".join(f"{model.name} ({model.learner})" for model in settings.models)
        )
        settings = msgspec.structs.replace(settings, store=url)
        adopt = arguments.adopt_config
        worker = Worker(settings, store, topic, group=group, letters=letters, adopt_config=adopt, at=_fault())
        status = _Status(worker)
        try:
            worker.run(stopped, until_idle_s=arguments.until_idle, watch=status.watch)
        finally:
            status.end()
    return dict(worker.counts)


def _opened(make: Callable[[], T], stopped: Callable[[], bool], patience_s: float) -> T:
    """What is away when a worker starts is an error; when it takes the place of one that died, waited for."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return make()
        except (SourceDown, StoreDown) as error:
            if stopped() or time.monotonic() > deadline:
                raise
            log.warning("not started yet: %s", error)
        time.sleep(RETRY_S)


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
    command = [sys.executable, "-m", "streamrank", "consume", arguments.what, "--member", str(os.getpid())]
    for option in ("kafka", "topic", "group", "store", "config", "until_idle"):
        value = getattr(arguments, option)
        if value is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    return command + ["--adopt-config"] * arguments.adopt_config


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
