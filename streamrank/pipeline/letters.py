"""Dead letters by way of a topic: written before the offset goes past them, and read again."""

from collections.abc import Sequence
from contextlib import closing

from ..config import KafkaSettings
from ..errors import SourceError
from ..sources.topics import open_outbox, open_topic
from ..state.base import DeadLetter
from .shard import shard_name


class DeadLetters:
    """The way to the dead-letter topic; what cannot be delivered there stops the worker.

    A letter's key names its origin. It may come twice, and counts once; a record with its key and no value
    says that it is settled, so a topic with `cleanup.policy=compact` forgets it.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._topic = settings.dead_letter_topic
        try:
            self._outbox = open_outbox(settings)
        except SourceError as error:
            raise self._refused(error) from error

    def send(self, origin: str, partition: int, letters: Sequence[DeadLetter]) -> None:
        """Deliver all of them, with where they come from, before returning."""
        try:
            for letter in letters:
                said = {
                    "origin-topic": origin,
                    "origin-partition": str(partition),
                    "origin-offset": str(letter.offset),
                    "origin-part": str(letter.part),
                    "kind": letter.kind,
                    "error": letter.error,
                }
                self._outbox.send(
                    self._topic,
                    letter.value,
                    key=_key(shard_name(origin, partition), letter),
                    headers=[(name, text.encode()) for name, text in said.items()],
                )
            self._outbox.flush()
        except SourceError as error:
            raise self._refused(error) from error

    def settle(self, letters: Sequence[tuple[str, DeadLetter]]) -> None:
        """Take (shard, letter) out of the topic, before returning."""
        try:
            for shard, letter in letters:
                self._outbox.send(self._topic, None, key=_key(shard, letter))
            self._outbox.flush()
        except SourceError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Nothing is left to send."""
        self._outbox.close()

    def _refused(self, error: Exception) -> SourceError:
        return SourceError(
            f"the dead-letter topic {self._topic} takes nothing: {error} Nothing was dropped: what was not "
            "learnt comes again. Make the topic, or mend the broker, and start again."
        )


def read_letters(settings: KafkaSettings) -> list[tuple[str, DeadLetter]]:
    """The (shard, letter) that stand in the dead-letter topic, by origin."""
    found: dict[bytes, tuple[str, DeadLetter]] = {}
    with closing(open_topic(settings, settings.dead_letter_topic)) as topic:
        for partition in topic.partitions:
            bounds = topic.bounds(partition)
            for messages in topic.read(partition, *bounds):
                for message in messages:
                    said = {name: text.decode("utf-8", "replace") for name, text in message.headers}
                    if message.value is None:
                        found.pop(message.key or b"", None)
                    elif message.key and "origin-offset" in said:  # else it is none of ours
                        found[message.key] = _letter(said, message.value)
    return sorted(found.values(), key=lambda one: (one[0], one[1].offset, one[1].part))


def _letter(said: dict[str, str], value: bytes) -> tuple[str, DeadLetter]:
    shard = shard_name(said["origin-topic"], int(said["origin-partition"]))
    offset, part = int(said["origin-offset"]), int(said["origin-part"])
    return shard, DeadLetter(offset, part, f"{shard}@{offset}", said["kind"], said["error"], value)


def _key(shard: str, letter: DeadLetter) -> bytes:
    return f"{shard}@{letter.offset}.{letter.part}".encode()
