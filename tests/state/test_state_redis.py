"""What is Redis's own: addresses, users, TLS, Clusters. The contract itself is in test_state_contract.py."""

import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamrank.config import RedisSettings, Settings, load_settings
from streamrank.errors import ConfigError, StoreError
from streamrank.state import DeadLetter, Standing, open_store
from streamrank.state.redis import RedisStore
from streamrank.state.urls import shown
from tests.servers import free_port

S = "clicks[0]"
AT_ONCE = RedisSettings(retry_ms=0, timeout_ms=5000)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://", "no host"),
        ("redis:///0", "no host"),
        ("redis://h/zero", "the database is a number, not 'zero'"),
        ("redis://h?prefx=a", "unknown prefx"),
        ("redis://h:port", "[Pp]ort"),
        ("redis://a:1,b:2", "several hosts are for redis\\+cluster"),
        ("redis+cluster://a:1,b:2/3", "one database only"),
        ("redis+cluster://a:1,:2", "no host"),
    ],
)
def test_an_address_not_understood_is_refused_with_the_forms_it_takes(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"{why}.*Accepted: redis://\[user.*rediss://.*redis\+cluster://"):
        open_store(url)


def test_a_password_is_never_shown(start_redis: Callable[..., Any]) -> None:
    assert shown("redis://u:p@w:o@h:1/0?prefix=x") == "redis://u:***@h:1/0?prefix=x"
    assert shown("redis://u@h") == "redis://u@h"
    assert shown("sqlite:///a:b@c") == "sqlite:///a:b@c"
    server = start_redis()
    server.client().config_set("requirepass", "right")
    for url in (f"redis://:wrong@{server.address}", f"redis://:secret@{server.address}?no=1"):
        with pytest.raises((StoreError, ConfigError)) as caught:
            RedisStore(url, AT_ONCE)
        assert "secret" not in str(caught.value)
        assert "wrong" not in str(caught.value)


def test_user_and_password_come_from_the_url_or_the_settings(start_redis: Callable[..., Any]) -> None:
    server = start_redis()
    server.client().execute_command("ACL SETUSER", "ranker", "on", ">p%ss", "~*", "+@all")
    server.client().execute_command("ACL SETUSER", "default", "resetpass", ">another")
    RedisStore(f"redis://ranker:p%25ss@{server.address}", AT_ONCE).close()
    RedisStore(f"redis://ranker@{server.address}", RedisSettings(password="p%ss", retry_ms=0)).close()
    with pytest.raises(StoreError, match="asks for a password"):
        RedisStore(server.url, AT_ONCE)
    with pytest.raises(StoreError, match="refuses this user and password"):
        RedisStore(f"redis://ranker:no@{server.address}", RedisSettings(retry_ms=60_000))  # and does not wait


def test_a_password_of_digits_is_a_password() -> None:
    settings = load_settings(environ={"STREAMRANK_REDIS_PASSWORD": "0123", "STREAMRANK_REDIS_PREFIX": "42"})
    assert (settings.redis.password, settings.redis.prefix) == ("0123", "42")


def test_what_a_commit_needs_but_the_user_may_not_is_refused_when_the_shard_is_acquired(
    start_redis: Callable[..., Any],
) -> None:
    server = start_redis()
    server.client().execute_command("ACL SETUSER", "ranker", "on", "nopass", "~*", "+@all", "-zadd")
    with RedisStore(f"redis://ranker:x@{server.address}", AT_ONCE) as store:
        with pytest.raises(StoreError, match=r"may not do that\. Nothing was written.*\+@write"):
            store.acquire(S)
        assert store.standing(S) == Standing()


def test_the_permissions_that_the_error_names_are_enough(start_redis: Callable[..., Any]) -> None:
    server = start_redis()
    rights = "on nopass ~streamrank:* +@read +@write +@scripting +@transaction +info"
    server.client().execute_command("ACL SETUSER", "ranker", *rights.split())
    with RedisStore(f"redis://ranker:x@{server.address}", AT_ONCE) as store:
        letter = DeadLetter(0, 0, "", "bad-type", "", b"")
        epoch = store.acquire(S)
        store.commit(S, epoch, {"w": b"1", "v": b"2"}, start=0, end=1, letters=[letter])
        store.commit(S, epoch, {"v": None}, start=1, end=2)
        assert (store.read(S), store.letters(S), store.shards()) == (({"w": b"1"}, 2), [letter], [S])
        store.reset(S)


def test_stores_with_a_prefix_each_share_one_redis(redis_url: str) -> None:
    one, two = (uuid.uuid4().hex for _ in range(2))
    with (
        RedisStore(f"{redis_url}?prefix={one}") as first,
        RedisStore(redis_url, RedisSettings(prefix=two)) as second,
    ):
        first.commit(S, first.acquire(S), {"w": b"1"}, start=0, end=1)
        assert second.shards() == []
        assert second.acquire(S) == 1
        assert first.read(S) == ({"w": b"1"}, 1)


def test_all_keys_carry_the_prefix_and_a_commit_costs_one_key_a_kind(start_redis: Callable[..., Any]) -> None:
    server = start_redis()
    with RedisStore(f"{server.url}/3?prefix=team") as store:
        store.commit(S, store.acquire(S), {f"k{n}": b"1" for n in range(5000)}, start=0, end=1)
    assert server.client().keys() == []
    assert sorted(server.client(db=3).keys()) == [
        b"team:shards",
        b"team:{clicks[0]}:meta",
        b"team:{clicks[0]}:state",
    ]


def test_the_library_is_asked_for_by_the_name_of_the_extra() -> None:
    script = (
        "import sys; sys.modules['redis'] = None\n"
        "from streamrank.state import open_store\n"
        "open_store('redis://u:secret@localhost')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ConfigError: store URL 'redis://u:***@localhost': needs redis" in done.stderr
    assert "pip install 'streamrank[redis]'" in done.stderr


@pytest.mark.parametrize("n", [0, 999, 1000, 1001, 12_345])
def test_as_many_keys_as_you_like_are_written_and_deleted_at_once(redis_url: str, n: int) -> None:
    with open_store(f"{redis_url}?prefix={uuid.uuid4().hex}") as store:
        epoch, rows = store.acquire(S), {f"k{i}": b"%d" % i for i in range(n)}
        store.commit(S, epoch, rows, start=0, end=1)
        assert store.read(S) == (rows, 1)
        store.commit(S, epoch, dict.fromkeys(rows), start=1, end=2)
        assert store.read(S) == ({}, 2)


def test_large_values_are_fine(redis_url: str) -> None:
    with open_store(f"{redis_url}?prefix={uuid.uuid4().hex}") as store:
        large = bytes(range(256)) * 100_000
        store.commit(S, store.acquire(S), {"w": large}, start=0, end=2**63 - 1)
        assert store.read(S) == ({"w": large}, 2**63 - 1)


def test_a_redis_that_would_evict_the_state_is_refused(start_redis: Callable[..., Any]) -> None:
    server = start_redis(maxmemory="100mb", maxmemory_policy="allkeys-lru")
    with pytest.raises(StoreError, match=r"allkeys-lru.*noeviction"):
        RedisStore(server.url)
    server.client().config_set("maxmemory-policy", "volatile-lru")  # nothing of ours expires
    RedisStore(server.url).close()


def test_keys_of_another_program_and_other_formats_are_refused(start_redis: Callable[..., Any]) -> None:
    server = start_redis()
    server.client().set("streamrank:{clicks[0]}:letters", "mine")
    with RedisStore(server.url) as store:
        with pytest.raises(StoreError, match=r"another program.*redis\.prefix"):
            store.acquire(S)
        assert store.standing(S) == Standing()
    server.client().hset("streamrank:shards", "x", "99")
    with pytest.raises(StoreError, match=r"format 99; this version reads 1.*snapshot"):
        RedisStore(server.url)


def test_what_is_not_a_cluster_and_what_is_part_of_one_say_so(redis_url: str, redis_cluster: Any) -> None:
    with pytest.raises(StoreError, match="no Cluster: write redis://"):
        RedisStore(redis_url.replace("redis://", "redis+cluster://"))
    with pytest.raises(StoreError, match=r"part of a Cluster: write redis\+cluster://"):
        RedisStore(redis_cluster.nodes[0].url)  # the list of shards is on another


def test_a_cluster_spreads_the_shards_and_any_node_is_a_way_in(redis_cluster: Any) -> None:
    prefix = uuid.uuid4().hex
    with open_store(f"{redis_cluster.url}?prefix={prefix}") as store:
        for n in range(20):
            store.commit(f"s{n}", store.acquire(f"s{n}"), {"w": b"%d" % n}, start=0, end=n)
    held = [len(node.client().keys(f"{prefix}:*:state")) for node in redis_cluster.nodes]
    assert sum(held) == 20
    assert min(held) > 0
    for node in redis_cluster.nodes:
        with open_store(f"redis+cluster://{node.address}?prefix={prefix}") as store:
            assert {shard: store.offset(shard) for shard in store.shards()} == {f"s{n}": n for n in range(20)}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    )
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_tls_with_a_certificate_that_is_trusted_and_not_without(
    start_redis: Callable[..., Any], certificate: Path
) -> None:
    port = free_port()
    start_redis(
        tls_port=port,
        tls_cert_file=certificate / "cert.pem",
        tls_key_file=certificate / "key.pem",
        tls_ca_cert_file=certificate / "cert.pem",
        tls_auth_clients="no",
    )
    settings = Settings(redis=RedisSettings(ca_file=str(certificate / "cert.pem"), retry_ms=0))
    with open_store(f"rediss://localhost:{port}", settings) as store:
        store.commit(S, store.acquire(S), {"w": b"1"}, start=0, end=1)
        assert store.get(S, "w") == b"1"
    with pytest.raises(StoreError, match="certificate verify failed"):
        RedisStore(f"rediss://localhost:{port}", AT_ONCE)


def test_a_file_of_certificates_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"redis\.ca_file is 'nowhere\.pem': there is no such file"):
        RedisStore("rediss://127.0.0.1:1", RedisSettings(ca_file="nowhere.pem"))
