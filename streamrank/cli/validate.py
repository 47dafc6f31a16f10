"""`streamrank validate`."""

import argparse
from collections import Counter
from contextlib import ExitStack, closing

from ..config import load_settings
from ..errors import ConfigError, MalformedEvent
from ..events.codec import Decoder
from ..sources import Source, open_source
from ..sources.partition import PartitionSource
from ..sources.topics import open_topic
from .consume import TOPICS, kafka_settings
from .output import print_json, print_table, progress


def validate(arguments: argparse.Namespace) -> int:
    """Decode every event and report what is refused, by kind and line."""
    limits = load_settings(arguments.config).events
    decoder = Decoder(max_bytes=limits.max_bytes, max_items=limits.max_items)
    valid: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    examples: dict[str, list[dict[str, str]]] = {}
    with ExitStack() as stack:
        for source in _sources(arguments, stack):
            with progress(source, "validate") as update:
                for record in source.records():
                    for event in decoder.decode(record.value):
                        if isinstance(event, MalformedEvent):
                            faults[event.kind] += 1
                            if faults[event.kind] <= arguments.show:
                                examples.setdefault(event.kind, []).append(
                                    {"place": record.place, "where": event.where, "error": str(event)}
                                )
                        else:
                            valid[event.kind] += 1
                    if record.offset % 1000 == 0:
                        update(f"{record.offset} records, {faults.total()} refused")
            source.close()
    if arguments.json:
        print_json(
            {
                "events": valid.total() + faults.total(),
                "valid": valid.total(),
                "invalid": faults.total(),
                "kinds": dict(sorted(valid.items())),
                "faults": {
                    kind: {"count": faults[kind], "examples": examples[kind]} for kind in sorted(faults)
                },
            }
        )
    else:
        print_table("events", ["kind", "count"], [(kind, valid[kind]) for kind in sorted(valid)])
        rows = [
            (kind if k == 0 else "", faults[kind] if k == 0 else "", example["place"], example["error"])
            for kind in sorted(faults)
            for k, example in enumerate(examples[kind])
        ]
        if rows:
            print_table("\nrefused", ["kind", "count", "place", "why, and what to do"], rows)
        print(f"\n{valid.total()} of {valid.total() + faults.total()} events are well formed")
    return 1 if faults else 0


def _sources(arguments: argparse.Namespace, stack: ExitStack) -> list[Source]:
    if bool(arguments.logs) == bool(arguments.kafka):
        raise ConfigError("say what to check: LOG files, or --kafka HOST:PORT with --topic")
    if arguments.logs:
        return [open_source(arguments.logs)]
    kafka = kafka_settings(arguments).kafka
    topic = stack.enter_context(closing(open_topic(kafka, kafka.topic or TOPICS["clicks"])))
    return [PartitionSource(topic, partition) for partition in topic.partitions]
