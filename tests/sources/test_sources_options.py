"""Options of a Kafka client that would be taken silently, or break something later, are refused at once."""

import pytest

from streamrank.config import KafkaSettings
from streamrank.errors import ConfigError
from streamrank.sources import topics
from streamrank.sources.topics import open_outbox, open_topic

REFUSED = [
    ("kafka-python", {"security_protocol": "SASL_SLL"}, r"security_protocol is 'SASL_SLL'.*SASL_SSL"),
    ("kafka-python", {"security_protocol": "ssl"}, r"security_protocol is 'ssl'.*PLAINTEXT, SSL"),
    ("kafka-python", {"ssl_cafile": "nowhere.pem"}, r"ssl_cafile is 'nowhere.pem': there is no such file"),
    ("kafka-python", {"max_poll_records": "many"}, r"max_poll_records is 'many': a number is wanted"),
    ("kafka-python", {"ssl_check_hostname": "no"}, r"ssl_check_hostname is 'no': a truth value is wanted"),
    ("kafka-python", {"enable_auto_commit": True}, r"enable_auto_commit is not taken.*by the store"),
    ("kafka-python", {"group_id": "g"}, r"group_id is not taken: give kafka.group"),
    ("kafka-python", {"auto_offset_reset": "latest"}, r"auto_offset_reset is not taken: give kafka.start"),
    ("confluent", {"max.poll.records": "many"}, r"max.poll.records is 'many': a number is wanted"),
    ("confluent", {"group.id": "g"}, r"group.id is not taken: give kafka.group"),
    ("confluent", {"enable.auto.commit": True}, r"enable.auto.commit is not taken.*by the store"),
]


@pytest.mark.parametrize(("client", "options", "why"), REFUSED)
def test_an_option_that_would_do_harm_is_refused_before_anything_is_connected(client, options, why):
    pytest.importorskip(topics.CLIENTS[client][0])
    settings = KafkaSettings(client=client, servers="127.0.0.1:1", options=options)
    for opened in (lambda: open_topic(settings, "t", "g"), lambda: open_outbox(settings)):
        with pytest.raises(ConfigError, match=why):
            opened()
