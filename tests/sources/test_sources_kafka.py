"""What kafka-python does not do by itself."""

import time
from contextlib import closing

from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from streamrank.config import KafkaSettings
from streamrank.sources.kafka import Topic

PATIENCE_S = 10.0


def test_a_join_that_outlasts_a_poll_is_completed_by_the_next(broker, new_topic):
    name = new_topic()
    settings = KafkaSettings(servers=broker.address, options={"metadata_max_age_ms": 50})
    with closing(Topic(settings, name, name)) as topic:
        for n in (1, 2, 3, 4):
            if n > 1:  # the group is joined anew because of what the member hears of the topic
                with closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
                    admin.create_partitions({name: NewPartitions(n)})
            deadline, told = time.monotonic() + PATIENCE_S, []
            while ("assigned", list(range(n))) not in told:
                assert time.monotonic() < deadline, f"{n} partitions, told of {told}"
                topic.poll(1)
                told += [(what, sorted(partitions)) for what, partitions in topic.changes()]
