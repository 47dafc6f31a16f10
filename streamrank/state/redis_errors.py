"""What an error of Redis means for those who store there."""

import re

import redis
from redis.exceptions import AuthorizationError, ClusterDownError, RedisClusterException, TryAgainError

from streamrank.errors import StoreDown, StoreError, StoreFull, StoreReadOnly

ERRORS = (redis.RedisError, RedisClusterException, OSError, UnicodeEncodeError)

_PASSING = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.ReadOnlyError,
    ClusterDownError,
    RedisClusterException,
    TryAgainError,
    OSError,
)
_NOTHING = "Nothing was written"

# a word of Redis's answer -> what it means, and what to do
_ANSWERS: dict[str, tuple[type[StoreError], str]] = {
    "OOM": (
        StoreFull,
        f"it is full (maxmemory). {_NOTHING}. Give it more, or see what takes it: streamrank state memory",
    ),
    "MISCONF": (StoreFull, f"it cannot save to its disk. {_NOTHING}. Look at its log and its disk"),
    "READONLY": (StoreReadOnly, f"it is a replica. {_NOTHING}. Give the address of the primary"),
    "NOREPLICAS": (StoreReadOnly, f"too few replicas follow it. {_NOTHING}. Look at its replicas"),
    "LOADING": (StoreDown, f"it is still loading its data. {_NOTHING}. Start again when it is ready"),
    "MASTERDOWN": (StoreDown, f"its primary is away. {_NOTHING}. Look at the primary"),
    "CLUSTERDOWN": (StoreDown, f"the Cluster is not whole. {_NOTHING}. See: redis-cli cluster info"),
    "BUSY": (StoreDown, f"another script keeps it busy. {_NOTHING}. Start again when that is done"),
    "WRONGPASS": (StoreError, "it refuses this user and password. Look at the URL and redis.password"),
    "NOAUTH": (StoreError, "it asks for a password. Give it in the URL or as redis.password"),
    "NOPERM": (
        StoreError,
        f"this user may not do that. {_NOTHING}. On the keys of the prefix it needs +@read +@write "
        "+@scripting +@transaction +info",
    ),
    "WRONGTYPE": (StoreError, f"another program uses these keys. {_NOTHING}. Give another redis.prefix"),
    "MOVED": (StoreError, "it is part of a Cluster: write redis+cluster:// instead of redis://"),
}
_NO_CLUSTER = (StoreError, "it is no Cluster: write redis:// instead of redis+cluster://")
_ANSWERS |= {
    "connecting to": (StoreDown, f"it cannot be reached. {_NOTHING}. Look whether Redis runs there"),
    "Cluster mode is not enabled": _NO_CLUSTER,
    "cluster support disabled": _NO_CLUSTER,
    "The user executing the script": _ANSWERS["NOPERM"],
}
_DOUBT = "Whether a write was made is not known: acquire and load again, what is stored tells"
_LATE = (StoreDown, f"it does not answer in time. {_DOUBT}. If Redis is only slow, raise redis.timeout_ms")
_AWAY = (StoreDown, f"it is away. {_DOUBT}. Look whether Redis runs")


def named(error: Exception, where: str, *, doubt: bool = False) -> StoreError:
    """The error that says what, where, why and what to do. With `doubt` an earlier try may have succeeded."""
    kind, advice = _meaning(error)
    return kind(f"{where}: {error}: {advice.replace(_NOTHING, _DOUBT) if doubt else advice}.")


def leaves_doubt(error: Exception) -> bool:
    """Whether what was asked may have been done all the same."""
    return _meaning(error) in (_LATE, _AWAY)


def passes(error: Exception) -> bool:
    """Whether it may be otherwise in a moment: away, slow, not ready, about to change roles."""
    if isinstance(error, redis.AuthenticationError | AuthorizationError) or _meaning(error) == _NO_CLUSTER:
        return False
    return isinstance(error, _PASSING)


def _meaning(error: Exception) -> tuple[type[StoreError], str]:
    # the client takes the word off where it has a class for it; an old Redis hides it inside a script's error
    code = getattr(error, "status_code", None) or ""
    found = re.search(rf"\b({'|'.join(_ANSWERS)})\b", f"{code} {error}")
    if found:
        return _ANSWERS[found[1]]
    if isinstance(error, redis.TimeoutError):
        return _LATE
    if isinstance(error, redis.ConnectionError | RedisClusterException | OSError):
        return _AWAY
    return StoreError, _NOTHING
