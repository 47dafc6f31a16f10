"""The broker that the other tests rely on."""

from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def test_a_broker_that_is_killed_has_its_records_when_it_is_back(broker, new_topic):
    if not hasattr(broker, "restart"):
        pytest.skip("the broker in STREAMRANK_TEST_KAFKA is not ours to kill")
    topic = new_topic()
    with closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
        producer.send(topic, b"one").get(10)
        broker.restart()
        producer.send(topic, b"two").get(30)
    with closing(KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest")) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        got = []
        while len(got) < 2:
            got += [record.value for record in consumer.poll(1000).get(TopicPartition(topic, 0), [])]
    assert got == [b"one", b"two"]
