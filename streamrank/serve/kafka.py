"""Feedback that goes to a topic; `streamrank consume` learns from it, wherever that runs."""

import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..config import Settings
from ..errors import SourceError, StreamrankError
from ..events.keys import key_of
from ..events.types import Event
from ..pipeline.shard import shard_name
from ..sources.topics import open_outbox, open_topic
from .live import Live

TOPIC, PARTITIONS = "streamrank.events", 4  # where none is named; where there is none yet
LOOK_S = 1.0  # between looks at where the topic ends
MAX_LOOKS = 3600
MAX_FAILURES = 1000  # remembered until whoever waits has heard of them


class TopicFeed:
    """Sends feedback to Kafka: when `send` returns, the broker has it.

    The lag is what the topic holds, whoever sent it, beyond where the shards of the store stand; so it grows
    when no consumer lives.
    """

    def __init__(self, settings: Settings, live: Live) -> None:
        kafka = settings.kafka
        self.name, self._live = kafka.topic or TOPIC, live
        self._outbox = open_outbox(kafka)
        self._partitions = self._outbox.make_topic(self.name, PARTITIONS)
        self._topic = open_topic(kafka, self.name)
        self._sending, self._flushing = threading.Lock(), threading.Lock()
        self._sent = self._arrived = 0  # bodies
        self._failures: deque[tuple[int, int, str]] = deque(maxlen=MAX_FAILURES)  # bodies after, up to, why
        self._looks: deque[tuple[float, dict[int, int]]] = deque(maxlen=MAX_LOOKS)  # when, where it ended
        self._trouble = ""
        self._stop = threading.Event()
        self._look()
        self._watcher = threading.Thread(target=self._watch, name="topic", daemon=True)
        self._watcher.start()

    def send(self, events: Sequence[tuple[bytes, Event]]) -> int:
        """Send events, wait until the broker has them; 0, as there is no one offset at which they are learnt.

        Those who wait at the same time share one flush; if it fails, all of them hear of it.
        """
        with self._sending:
            self._sent += 1
            mine = self._sent
            with self._noting_failure():
                for line, event in events:
                    key = key_of(event)
                    for partition in self._partitions if key is None else [self._of(key)]:
                        self._outbox.send(self.name, line, key=key or None, partition=partition)
        with self._flushing:
            if self._arrived < mine and not self._failure(mine):
                with self._sending, self._noting_failure():
                    self._outbox.flush()
                self._arrived = self._sent
        if failure := self._failure(mine):
            raise SourceError(f"the topic {self.name} takes nothing: {failure}")
        return 0

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """What fails may be a record of anyone whose body is under way: all of those have failed."""
        try:
            yield
        except StreamrankError as error:
            self._failures.append((self._arrived, self._sent, str(error)))

    def _failure(self, body: int) -> str:
        return next((why for low, high, why in self._failures if low < body <= high), "")

    def _of(self, key: bytes) -> int:
        return self._partitions[zlib.crc32(key) % len(self._partitions)]

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        try:
            ends = {partition: self._topic.bounds(partition).end for partition in self._partitions}
        except StreamrankError as error:
            self._trouble = f"the topic cannot be looked at: {error}"
            return
        self._trouble = ""
        if self._behind(ends):
            self._looks.append((time.monotonic(), ends))

    def _behind(self, ends: Mapping[int, int]) -> int:
        served = self._live.served
        shards = served.shards if served else {}
        found = {p: shards.get(shard_name(self.name, p)) for p in ends}
        return sum(max(end - (s.standing.offset if (s := found[p]) else 0), 0) for p, end in ends.items())

    @property
    def lag_ms(self) -> float:
        """How long the oldest record not yet learnt has waited, to a second."""
        while self._looks and not self._behind(self._looks[0][1]):
            self._looks.popleft()
        try:
            return 1000 * (time.monotonic() - self._looks[0][0])
        except IndexError:
            return 0.0

    @property
    def behind(self) -> int:
        """Records not yet learnt."""
        try:
            return self._behind(self._looks[-1][1])
        except IndexError:
            return 0

    def trouble(self) -> str:
        """Why nothing is learnt now; empty when all is well."""
        return self._trouble

    def status(self) -> dict[str, Any]:
        """Of the workers: where they are, only they know."""
        return {"alive": not self._trouble, "restarts": 0, "learn_seconds": None, "commit_seconds": None}

    def close(self) -> None:
        """Let the connections go."""
        self._stop.set()
        self._watcher.join()
        self._outbox.close()
        self._topic.close()
