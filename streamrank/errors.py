"""Every exception of streamrank.

StreamrankError
├── ConfigError        a setting is wrong: nothing was started
├── MalformedEvent     a record cannot become an event: it goes to the dead letters
├── SourceError        a log or topic cannot be read
│   └── SourceDown     the broker cannot be reached or does not answer: it may later
├── ServerRefused      a server did not do what a client asked, or is away
├── DivergedError      a learner met a step that is not finite: its state is as before that step
└── StoreError         the state could not be read or written
    ├── Fenced         another process owns the shard now
    ├── OffsetMismatch the store does not stand where this process believes
    ├── StateLost      part of what was committed is no longer there
    ├── StoreDown      the store cannot be reached, does not answer or is not ready
    ├── StoreFull      the store, or what is allowed of it, has no room
    ├── StoreReadOnly  the store takes no writes
    └── SnapshotError  a snapshot file is damaged, foreign or of an unknown format
"""


class StreamrankError(Exception):
    """What the command line prints as one line, without a traceback."""


class ConfigError(StreamrankError):
    """A setting is unknown, of the wrong type or out of range."""


class MalformedEvent(StreamrankError):
    """A record that cannot become an event.

    ``reason`` says what is wrong, ``where`` names the place inside the record (``$.items[0].id``),
    ``fix`` what the sender can do. ``kind`` is a short stable word to count by, such as ``bad-type``.
    """

    def __init__(self, kind: str, reason: str, *, where: str = "$", fix: str = "") -> None:
        self.kind, self.reason, self.where, self.fix = kind, reason, where, fix
        super().__init__(f"{kind} at {where}: {reason}" + (f". {fix}" if fix else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return (_malformed, (self.kind, self.reason, self.where, self.fix))


def _malformed(kind: str, reason: str, where: str, fix: str) -> MalformedEvent:
    return MalformedEvent(kind, reason, where=where, fix=fix)


class SourceError(StreamrankError):
    """A log cannot be opened, is not the log that was being read, or ends in the middle of a record."""


class SourceDown(SourceError):
    """The broker cannot be reached, does not answer in time, or is not ready; nothing was read."""


class ServerRefused(StreamrankError):
    """A server answered otherwise than asked; `status` is that of HTTP, 0 where no answer came."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


class StoreError(StreamrankError):
    """The state could not be read or written."""


class Fenced(StoreError):
    """Another process acquired the shard after this one did; what this one holds in memory is void."""


class OffsetMismatch(StoreError):
    """The batch to commit does not start at the stored offset; memory is void, the store is the truth."""


class StateLost(StoreError):
    """The store has thrown part of a shard away, such as by evicting it; the shard has to be made anew."""


class StoreDown(StoreError):
    """The store cannot be reached, does not answer in time or is not ready; a commit may have been made."""


class StoreFull(StoreError):
    """There is no room for what is to be written; nothing was written."""


class StoreReadOnly(StoreError):
    """The store takes no writes, such as a replica; nothing was written."""


class SnapshotError(StoreError):
    """A snapshot file is damaged, foreign, or of a format this version cannot read."""
