"""The server's work in this process, without HTTP."""

import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..config import Settings, load_settings
from ..errors import MalformedEvent
from ..sources.feedback import SHARD
from .answers import Answer, Comparison, Receipt
from .client import POLL_S, Events, Items, feedback_body, rank_request
from .service import Service


class Local:
    """What `Client` does, without a server: rank here, write feedback down here, learn in a process beside.

    One at a time may have a store open so; any number of servers and `Live` may read it.

    >>> import tempfile
    >>> from streamrank.config import Settings
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Local(Settings(store=f"sqlite:///{folder.name}/s.db")) as ranker:
    ...     receipt = ranker.feedback({"event": "preference", "better": {"x": 1.0}, "worse": {"x": 0.0}})
    ...     learnt = ranker.wait_until_learnt(receipt, timeout_s=120)
    ...     answer = ranker.rank({"low": {"x": 0.0}, "high": {"x": 1.0}})
    >>> [ranked.item for ranked in answer.items]
    ['high', 'low']
    >>> folder.cleanup()
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.service = Service(settings or load_settings())

    def rank(self, items: Items, *, model: str = "default", explain: bool = False, **of: Any) -> Answer:
        """Order items; `of` are further fields of a `Ranking`: user, session, query, fields."""
        answer = self.service.rank(model, rank_request(items, **of), explain=explain)
        if isinstance(answer, MalformedEvent):
            raise answer
        return answer

    def feedback(self, events: Events) -> Receipt:
        """Take events; returns when they are on disk. The receipt says which were refused, and why."""
        return self.service.feedback(feedback_body(events))

    def wait_until_learnt(self, receipt: Receipt, timeout_s: float = 10.0) -> bool:
        """Until rankings know of these events; False when that took too long."""
        deadline = time.monotonic() + timeout_s
        while not self._has_learnt(receipt):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _has_learnt(self, receipt: Receipt) -> bool:
        served = self.service.live.served
        shard = served.shards.get(SHARD) if served else None
        return shard is not None and shard.standing.offset >= receipt.offset

    def train(self, model: str = "default") -> dict[str, Any]:
        """Reconcile a model; the report."""
        return self.service.train(model)

    def snapshot(self, path: str | Path) -> None:
        """Save the state to a file."""
        self.service.snapshot(Path(path))

    def comparison(self) -> Comparison | None:
        """How the challenger does against the champion; None where nobody challenges."""
        return self.service.comparison()

    def ready(self) -> str:
        """Why nothing should be asked now; empty when all is well."""
        return self.service.not_ready()

    def close(self) -> None:
        """Let the worker commit, and end."""
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
