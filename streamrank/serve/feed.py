"""Where feedback goes, and how far it is learnt."""

from collections.abc import Sequence
from typing import Any, Protocol

from ..events.types import Event


class Feed(Protocol):
    """Takes what was accepted by /feedback to whoever learns from it."""

    def send(self, events: Sequence[tuple[bytes, Event]]) -> int:
        """Hand events over, each as its line; returns once they are safe, with where they are learnt.

        That is an offset of the shard `feedback`, or 0 where there is none.
        """
        ...

    @property
    def lag_ms(self) -> float:
        """How long the oldest event not yet learnt has waited."""
        ...

    @property
    def behind(self) -> int:
        """How much is not yet learnt: bytes of a log, records of a topic."""
        ...

    def trouble(self) -> str:
        """Why nothing is learnt now; empty when all is well."""
        ...

    def status(self) -> dict[str, Any]:
        """Of what learns: alive, restarts, learn_seconds and commit_seconds (None where unknown)."""
        ...

    def close(self) -> None:
        """Let go, in order."""
        ...
