"""`streamrank replay --kafka`: a whole topic, partition by partition, in one process."""

import argparse
import time
from collections import Counter
from contextlib import closing

from ..errors import ConfigError
from ..pipeline.replay import stop_signals
from ..pipeline.shard import Shard
from ..sources.topics import open_topic
from ..state import open_store
from ..state.digest import digest, shard_digests
from .consume import TOPICS, kafka_settings
from .output import print_json, print_table, progress


def replay_topic(arguments: argparse.Namespace) -> int:
    """Learn every partition up to where it ends now; the shards are those that `consume` makes."""
    if arguments.until or arguments.report or arguments.adopt_config:
        raise ConfigError("--until, --report and --adopt-config go with log files, not with --kafka")
    settings = kafka_settings(arguments)
    began, counts = time.perf_counter(), Counter[str]()
    name = settings.kafka.topic or TOPICS["clicks"]
    with open_store(arguments.store or settings.store, settings) as store:
        with closing(open_topic(settings.kafka, name)) as topic, stop_signals() as stopped:
            for partition in topic.partitions:
                shard = Shard(store, settings, topic, partition)
                end = topic.bounds(partition).end
                with progress(lambda: (shard.flow.offset, end), shard.name) as update:  # noqa: B023
                    for messages in topic.read(partition, shard.position, end):
                        shard.take(messages)
                        shard.checkpoint.maybe_commit()
                        update(f"{shard.flow.counts['events']} events")
                        if stopped():
                            break
                shard.checkpoint.commit()
                counts.update(shard.flow.counts)
                counts["accepted"] += shard.flow.accepted
                if stopped():
                    raise KeyboardInterrupt
        found = shard_digests(store)
        whole = digest(store)
    seconds = time.perf_counter() - began
    if arguments.json:
        shards = {shard: {"digest": one, "offset": offset} for shard, (one, offset) in found.items()}
        print_json({**counts, "seconds": seconds, "digest": whole, "shards": shards})
    else:
        rows = [(shard, offset, one) for shard, (one, offset) in found.items()]
        print_table(f"{counts['events']} events of {name}", ["shard", "offset", "digest"], rows)
    return 0
