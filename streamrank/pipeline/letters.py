"""Dead letters by way of a topic: written before the offset goes past them, and read again."""

from collections.abc import Sequence

from ..config import KafkaSettings
from ..errors import SourceError
from ..sources.topics import open_outbox
from ..state.base import DeadLetter


class DeadLetters:
    """The way to the dead-letter topic; what cannot be delivered there stops the worker."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topic, self._servers = settings.dead_letter_topic, settings.servers
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
                    key=f"{origin}[{partition}]@{letter.offset}.{letter.part}".encode(),
                    headers=[(name, text.encode()) for name, text in said.items()],
                )
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
