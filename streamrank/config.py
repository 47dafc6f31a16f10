"""Settings: frozen, built once, at the edge, from a TOML or YAML file and the environment.

Every setting has an environment variable: `join.window_ms` is STREAMRANK_JOIN_WINDOW_MS, `store` is
STREAMRANK_STORE; lists and tables are given as JSON. The environment wins over the file.
"""

import math
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from .errors import ConfigError

PREFIX = "STREAMRANK_"
ENVIRONMENT_ONLY = {"STREAMRANK_DATA", "STREAMRANK_REQUIRE_SERVERS", "STREAMRANK_CONFIG"}


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class EventSettings(_Section, frozen=True):
    """What is taken for an event."""

    max_bytes: int = 1 << 20  # a longer record is refused
    max_items: int = 1000  # a longer ranking is refused


class JoinSettings(_Section, frozen=True):
    """How clicks find their rankings, all in event time."""

    window_ms: int = 1_800_000  # a click counts for a ranking up to this long after it
    lateness_ms: int = 300_000  # events may arrive this much out of order
    settle_ms: int = 0  # learn a click this long after it came: 0 at once
    max_open: int = 100_000  # rankings kept open at most; the oldest is closed early
    dedup_ms: int = 7_200_000  # ids are remembered this long
    max_ids: int = 1_000_000  # ids remembered at most; the oldest go first


class JudgeSettings(_Section, frozen=True):
    """What the clicks say of a list."""

    rule: Literal["auto", "unclicked", "ips", "scored", "skip-above", "last-click", "fair-pairs"] = "auto"
    grades: dict[str, float] = msgspec.field(default_factory=lambda: {"click": 1.0, "purchase": 3.0})
    clip: float = 10.0  # largest weight 1/theta; 0 for no limit, only where theta is measured
    theta: list[float] | None = None  # chance that rank 1, 2, … is looked at
    min_shuffled: int = 2000  # shuffled rankings needed before their theta is trusted


class FeatureSettings(_Section, frozen=True):
    """Names to columns."""

    mode: Literal["vocabulary", "hashed"] = "vocabulary"
    columns: int = 1000  # vocabulary: at most this many names get a column
    bits: int = 18  # hashed: 2^bits columns
    text: list[str] = msgspec.field(default_factory=lambda: ["title", "description", "text"])
    click_rate_half_life_ms: int = 0  # the click_rate column, its clicks halved so often; 0 leaves it out
    max_items: int = 100_000  # items whose metadata and click rate are kept


class ModelSettings(_Section, frozen=True):
    """One named learner."""

    name: str
    learner: str = "egdm"
    params: dict[str, Any] = {}


class RecommenderSettings(_Section, frozen=True):
    """One named learner of who clicked what."""

    name: str
    learner: Literal["robirank-mf", "bpr"] = "robirank-mf"
    params: dict[str, Any] = {}


class RedisSettings(_Section, frozen=True):
    """How a Redis is used; where it is, `store` says."""

    prefix: str = "streamrank"  # of every key, so that several can share one Redis
    password: str = ""  # where it is not to stand in the URL
    ca_file: str = ""  # the certificates to trust with rediss://; empty: the system's
    timeout_ms: int = 5000  # how long to wait for an answer
    retry_ms: int = 15_000  # how long to go on trying when it is away, or not ready


class SnapshotSettings(_Section, frozen=True):
    """Snapshots that are taken by themselves, after a commit; both 0: none."""

    every_events: int = 0  # records since the last one, of all shards together
    every_seconds: int = 0  # seconds since the last one, if anything was learnt in them
    folder: str = "snapshots"  # where they go; workers of one store share it
    keep: int = 3  # so many are kept; the oldest go


class ServeSettings(_Section, frozen=True):
    """How rankings are asked for and clicks taken in over HTTP."""

    host: str = "127.0.0.1"  # another one needs a token
    port: int = 8000  # 0: a free one
    token: str = ""  # asked for as `Authorization: Bearer …`; empty: none
    feedback: Literal["log", "kafka"] = "log"  # where /feedback goes: a log of its own, or kafka.topic
    log: str = ""  # folder of that log; empty: beside the store's file
    keep_mb: int = 1000  # of it kept once learnt
    max_bytes: int = 16 << 20  # a longer request is refused
    max_per_second: int = 0  # requests of one address; 0 for no limit
    timeout_ms: int = 10_000  # for a request to arrive
    max_lag_ms: int = 60_000  # of learning behind feedback, before /ready says no
    challenger: str = ""  # a model that shares the lists of the first one; empty: none
    explore: bool = True  # a learner that explores samples the order shown; false: best first


class PoolSettings(_Section, frozen=True):
    """How shards of one store keep the items of their recommenders together."""

    every_seconds: int = 0  # between takings-in of what other shards learnt; 0 for never


class ReconcileSettings(_Section, frozen=True):
    """When the full-batch optimum takes the place of the online weights, and what is kept to go back."""

    margin: float = 0.001  # by so much must the pairwise error on later lists be lower
    keep: int = 5  # swaps of a shard remembered; the oldest go
    rollback: float = 0.05  # take a swap back when the NDCG falls by so much after it; 0 for never
    every_events: int = 0  # in serve and consume: after so many more events, from the archive; 0 for never
    every_seconds: int = 0  # and after so many seconds, if anything was learnt in them; 0 for never
    memory_mb: int = 1024  # for the process; lists beyond it are read from disk again and again
    folder: str = ""  # where those lie while it solves, and Dask workers find them; empty: the system's


class ArchiveSettings(_Section, frozen=True):
    """Every list that was learnt, kept as Parquet: the training set of record."""

    folder: str = ""  # where; workers of one store share it. Empty: none is kept
    keep_mb: int = 10_000  # of a shard, of lists and of clicks; the oldest files go. 0 for no limit
    keep_days: int = 0  # older files go; 0 for no limit


class KafkaSettings(_Section, frozen=True):
    """How a topic is read live."""

    client: Literal["kafka-python", "confluent"] = "kafka-python"  # which library reads it
    servers: str = "localhost:9092"  # HOST:PORT, several with commas
    topic: str = ""  # empty: streamrank.events for clicks, streamrank.examples for examples
    group: str = ""  # consumer group; empty: streamrank.clicks, streamrank.examples
    start: str = "earliest"  # earliest, latest, ts=TIME, last=DURATION: where the store knows nothing
    on_gap: Literal["stop", "skip"] = "stop"  # the topic has dropped records that were not learnt yet
    on_lost: Literal["rebuild", "stop"] = "rebuild"  # the store has lost a shard that the group had read
    dead_letter_topic: str = ""  # where refused records go; empty: a table in the store
    dead_letter_alarm: float = 0.01  # a larger share of refused events is logged as an error
    give_up_ms: int = 600_000  # end when a shard could not be opened or committed for so long
    options: dict[str, Any] = {}  # passed to the client as they are: TLS, SASL, timeouts


class Settings(_Section, frozen=True):
    """Everything that can be set."""

    store: str = "sqlite:///streamrank.db"
    commit_every: int = 10_000  # events between commits, at most
    commit_ms: int = 1000  # milliseconds between commits, at most
    max_state_mb: int = 0  # a commit that would make a shard larger is refused; 0 for no limit
    redis: RedisSettings = RedisSettings()
    serve: ServeSettings = ServeSettings()
    kafka: KafkaSettings = KafkaSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    pool: PoolSettings = PoolSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    archive: ArchiveSettings = ArchiveSettings()
    events: EventSettings = EventSettings()
    join: JoinSettings = JoinSettings()
    judge: JudgeSettings = JudgeSettings()
    features: FeatureSettings = FeatureSettings()
    models: list[ModelSettings] = msgspec.field(
        # taste moves: what was learnt 10,000 lists ago counts half
        default_factory=lambda: [ModelSettings(name="default", params={"half_life": 10_000})]
    )

    recommenders: list[RecommenderSettings] = []

    def learning(self) -> dict[str, Any]:
        """The settings that the learnt state depends on: a store refuses to go on under others."""
        full: dict[str, Any] = msgspec.to_builtins(self)
        return {
            name: full[name] for name in ("events", "join", "judge", "features", "models", "recommenders")
        }


def load_settings(
    path: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
    base: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from a file (TOML, or YAML by its ending), else `base`, then the environment, checked."""
    data: dict[str, Any] = dict(base or {})
    where = "the environment"
    path = path or environ.get("STREAMRANK_CONFIG")
    if path is not None:
        where = str(path)
        data = _read(Path(path))
    _overlay(data, environ)
    try:
        settings = msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}. See the settings table in the README.") from None
    _check(settings)
    return settings


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from None
    try:
        data = yaml.safe_load(text) if path.suffix in (".yaml", ".yml") else tomllib.loads(text)
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not valid {path.suffix.lstrip('.') or 'toml'}: {error}") from None
    if data is None:  # an empty YAML file
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a table of settings, not a {type(data).__name__}")
    return {name: value for name, value in data.items() if value is not None}  # a YAML section left empty


def variables() -> dict[str, tuple[str, ...]]:
    """Every environment variable and the path of the setting it gives."""
    names: dict[str, tuple[str, ...]] = {}
    for field in msgspec.structs.fields(Settings):
        if isinstance(field.type, type) and issubclass(field.type, _Section):
            for inner in msgspec.structs.fields(field.type):
                names[f"{PREFIX}{field.name}_{inner.name}".upper()] = (field.name, inner.name)
        else:
            names[f"{PREFIX}{field.name}".upper()] = (field.name,)
    return names


def _overlay(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    known = variables()
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in ENVIRONMENT_ONLY or name.startswith("STREAMRANK_TEST_"):
            continue
        if name not in known:
            raise ConfigError(f"{name} is set in the environment, but there is no such setting")
        *sections, last = known[name]
        target = data
        for section in sections:
            target = target.setdefault(section, {})
        try:  # numbers, lists and tables are JSON; anything else is a plain string
            value = msgspec.json.decode(environ[name])
        except msgspec.DecodeError:
            value = environ[name]
        # a password of digits is no number
        target[last] = environ[name] if known[name] in _TEXTS and not isinstance(value, str) else value


_TEXTS = {
    ("store",),
    ("redis", "prefix"),
    ("redis", "password"),
    ("redis", "ca_file"),
    ("snapshots", "folder"),
    ("reconcile", "folder"),
    ("archive", "folder"),
    ("serve", "host"),
    ("serve", "token"),
    ("serve", "log"),
    ("serve", "challenger"),
    *(("kafka", name) for name in ("servers", "topic", "group", "start", "dead_letter_topic")),
}


def _check(settings: Settings) -> None:
    positive = {
        "commit_every": settings.commit_every,
        "commit_ms": settings.commit_ms,
        "redis.timeout_ms": settings.redis.timeout_ms,
        "kafka.give_up_ms": settings.kafka.give_up_ms,
        "snapshots.keep": settings.snapshots.keep,
        "serve.max_bytes": settings.serve.max_bytes,
        "serve.timeout_ms": settings.serve.timeout_ms,
        "serve.max_lag_ms": settings.serve.max_lag_ms,
        "reconcile.keep": settings.reconcile.keep,
        "events.max_bytes": settings.events.max_bytes,
        "events.max_items": settings.events.max_items,
        "join.window_ms": settings.join.window_ms,
        "join.max_open": settings.join.max_open,
        "join.max_ids": settings.join.max_ids,
        "features.max_items": settings.features.max_items,
        "judge.min_shuffled": settings.judge.min_shuffled,
    }
    for name, value in positive.items():
        if value < 1:
            raise ConfigError(f"{name} is {value}: it must be at least 1")
    for name, value in {
        "max_state_mb": settings.max_state_mb,
        "redis.retry_ms": settings.redis.retry_ms,
        "serve.keep_mb": settings.serve.keep_mb,
        "archive.keep_mb": settings.archive.keep_mb,
        "pool.every_seconds": settings.pool.every_seconds,
        "reconcile.every_events": settings.reconcile.every_events,
        "reconcile.every_seconds": settings.reconcile.every_seconds,
        "archive.keep_days": settings.archive.keep_days,
        "serve.max_per_second": settings.serve.max_per_second,
        "snapshots.every_events": settings.snapshots.every_events,
        "snapshots.every_seconds": settings.snapshots.every_seconds,
        "join.lateness_ms": settings.join.lateness_ms,
        "join.settle_ms": settings.join.settle_ms,
        "join.dedup_ms": settings.join.dedup_ms,
        "features.click_rate_half_life_ms": settings.features.click_rate_half_life_ms,
    }.items():
        if value < 0:
            raise ConfigError(f"{name} is {value}: it cannot be negative")
    if not 0 <= settings.serve.port < 65_536:
        raise ConfigError(f"serve.port is {settings.serve.port}: choose 1 to 65535, or 0 for a free one")
    if settings.reconcile.memory_mb < 64:
        raise ConfigError(f"reconcile.memory_mb is {settings.reconcile.memory_mb}: it must be at least 64")
    if not 0 <= settings.reconcile.rollback < 1:
        raise ConfigError(
            f"reconcile.rollback is {settings.reconcile.rollback}: a difference of NDCG, 0 to 1"
        )
    if (settings.reconcile.every_events or settings.reconcile.every_seconds) and not settings.archive.folder:
        raise ConfigError(
            "reconcile.every_events and every_seconds reconcile from the archive: set archive.folder"
        )
    if not 0 <= settings.reconcile.margin < 1:
        raise ConfigError(f"reconcile.margin is {settings.reconcile.margin}: a share of pairs from 0 up")
    if not re.fullmatch(r"earliest|latest|ts=.+|last=[0-9]+[smhd]", settings.kafka.start):
        raise ConfigError(
            f"kafka.start is {settings.kafka.start!r}: earliest, latest, ts= and a time (milliseconds or "
            "ISO-8601), or last= and a duration such as 30m, 12h or 7d"
        )
    if not 0 <= settings.kafka.dead_letter_alarm <= 1:
        raise ConfigError(f"kafka.dead_letter_alarm is {settings.kafka.dead_letter_alarm}: a share, 0 to 1")
    judge = settings.judge
    if judge.theta is not None and not (judge.theta and all(0 < t <= 1 for t in judge.theta)):
        raise ConfigError("judge.theta must be a list of numbers in (0, 1], one a rank, the first usually 1")
    if judge.clip == 0 and judge.theta is not None:
        raise ConfigError(
            "judge.clip is off while judge.theta comes from the config: a wrong theta, unclipped, trains a "
            "ranker worse than none. Set judge.clip (10 is the default), or drop judge.theta and show some "
            "rankings shuffled, so that theta is measured."
        )
    if judge.clip != 0 and not 1 <= judge.clip < math.inf:
        raise ConfigError(f"judge.clip is {judge.clip}: a number from 1 up, or 0 to weigh clicks in full")
    if any(not 0 <= grade < math.inf for grade in judge.grades.values()):
        raise ConfigError("judge.grades must be finite numbers from 0 up")
    names = [model.name for model in settings.models]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"models need names, each its own; got {names}")
    names += [recommender.name for recommender in settings.recommenders]
    if len(set(names)) != len(names):
        raise ConfigError(f"models and recommenders need names, each its own; got {names}")
    if any(not name or "/" in name for name in names):
        raise ConfigError(f"a model's name is not empty and holds no '/'; got {names}")
