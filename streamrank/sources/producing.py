"""A stream into a topic."""

import time
import zlib
from collections.abc import Iterable
from contextlib import closing

from streamrank.config import KafkaSettings
from streamrank.sources.topics import open_outbox

PARTITIONS = 4  # of a topic that is made


def produce(
    settings: KafkaSettings,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes]],
    *,
    rate: float | None = None,
) -> int:
    """Send (key, value) to a topic and wait until all are there; returns how many were sent.

    The partition is the CRC-32 of the key; a record without a key is sent to every partition. The topic is
    made, with four partitions, where there is none.
    """
    n = 0
    with closing(open_outbox(settings)) as outbox:
        partitions = outbox.make_topic(topic, PARTITIONS)
        began = time.monotonic()
        for key, value in records:
            chosen = partitions if key is None else [partitions[zlib.crc32(key) % len(partitions)]]
            for partition in chosen:
                outbox.send(topic, value, key=key or None, partition=partition)
            n += len(chosen)
            if rate and (ahead := n / rate - (time.monotonic() - began)) > 0:
                time.sleep(ahead)
        outbox.flush()
    return n
