"""`streamrank dlq`: the dead letters of a store, or of a topic."""

import argparse
import sys
from contextlib import closing
from pathlib import Path

import msgspec

from ..config import KafkaSettings, load_settings
from ..errors import ConfigError, SourceError
from ..pipeline.checkpoint import Checkpoint
from ..pipeline.flow import Flow
from ..pipeline.letters import DeadLetters, read_letters
from ..state import DeadLetter, Store
from .output import existing_store, print_json, print_table, settings_of

TAKEN = ("learnt", "duplicate", "late")  # fates that settle a letter
Letters = dict[str, tuple[str, DeadLetter]]  # by what `dlq list` calls it: its shard, and itself


def list_letters(arguments: argparse.Namespace) -> int:
    """One line a letter."""
    letters = [
        (identity, letter)
        for identity, (_, letter) in _found(arguments).items()
        if arguments.kind in (None, letter.kind)
    ]
    if arguments.json:
        print_json({"letters": [_plain(identity, letter) for identity, letter in letters]})
    else:
        rows = [(identity, letter.place, letter.error) for identity, letter in letters]
        print_table(f"{len(letters)} dead letters", ["id", "place", "why, and what to do"], rows)
    return 0


def show_letter(arguments: argparse.Namespace) -> int:
    """One letter, whole."""
    _, letter = _one(_found(arguments), arguments.id)
    if arguments.json:
        print_json(_plain(arguments.id, letter))
    else:
        print(f"id     {arguments.id}\nplace  {letter.place}\nkind   {letter.kind}\nwhy    {letter.error}\n")
        print(letter.value.decode("utf-8", "backslashreplace"))
    return 0


def replay_letters(arguments: argparse.Namespace) -> int:
    """Try letters again; exit code 1 if some are still refused."""
    if arguments.mended and len(arguments.ids) != 1:
        raise ConfigError("--with mends one letter: name its ID")
    kafka = _topic(arguments)
    with existing_store(arguments.store) as store:
        letters = _of_topic(kafka) if kafka else _of_store(store)
        chosen = {i: _one(letters, i) for i in arguments.ids} if arguments.ids else letters
        if kafka:
            _adopt(store, kafka, chosen)
        fates: dict[str, str] = {}
        for shard in sorted({shard for shard, _ in chosen.values()}):
            checkpoint = Checkpoint(store, Flow(settings_of(store, shard, None)), shard=shard)
            settled = []
            for identity, (home, letter) in chosen.items():
                if home != shard:
                    continue
                if arguments.mended:
                    letter = msgspec.structs.replace(letter, value=_read(arguments.mended))
                fates[identity] = checkpoint.flow.redeliver(letter)
                if fates[identity] in TAKEN:
                    settled.append((letter.offset, letter.part))
            checkpoint.commit(settled=settled)
    refused = {identity: fate for identity, fate in fates.items() if fate not in TAKEN}
    result = {fate: [i for i, got in fates.items() if got == fate] for fate in TAKEN} | {"refused": refused}
    if arguments.json:
        print_json(result)
    else:
        print("  ".join(f"{len(result[fate])} {fate}" for fate in TAKEN) + f"  {len(refused)} still refused")
        for identity, why in refused.items():
            print(f"{identity}  {why}")
    return 1 if refused else 0


def _found(arguments: argparse.Namespace) -> Letters:
    if kafka := _topic(arguments):
        return _of_topic(kafka)
    with existing_store(arguments.store) as store:
        return _of_store(store)


def _topic(arguments: argparse.Namespace) -> KafkaSettings | None:
    """How to reach the dead-letter topic, if that is meant."""
    if not arguments.kafka and not arguments.topic:
        return None
    kafka = load_settings().kafka
    given = {"servers": arguments.kafka, "dead_letter_topic": arguments.topic}
    kafka = msgspec.structs.replace(kafka, **{k: v for k, v in given.items() if v})
    if not kafka.dead_letter_topic:
        raise ConfigError("name the dead-letter topic: --topic, or the setting kafka.dead_letter_topic")
    return kafka


def _of_topic(kafka: KafkaSettings) -> Letters:
    return {f"{shard}:{one.offset}.{one.part}": (shard, one) for shard, one in read_letters(kafka)}


def _of_store(store: Store) -> Letters:
    shards = store.shards()
    return {
        f"{f'{shard}:' if len(shards) > 1 else ''}{letter.offset}.{letter.part}": (shard, letter)
        for shard in shards
        for letter in store.letters(shard)
    }


def _adopt(store: Store, kafka: KafkaSettings, letters: Letters) -> None:
    """Letters of a topic become letters of the store, then leave the topic.

    From there they are learnt and settled in one transaction: whatever dies on the way, once.
    """
    known = store.shards()
    for shard in sorted({shard for shard, _ in letters.values()}):
        if shard not in known:
            raise ConfigError(f"the store has no shard {shard}: give the --store that learns that topic")
        epoch, offset = store.acquire(shard), store.offset(shard)
        mine = [letter for home, letter in letters.values() if home == shard]
        store.commit(shard, epoch, {}, start=offset, end=offset, letters=mine)
    with closing(DeadLetters(kafka)) as topic:
        topic.settle(list(letters.values()))


def _one(letters: Letters, identity: str) -> tuple[str, DeadLetter]:
    if identity not in letters:
        raise ConfigError(f"there is no dead letter {identity!r}; `streamrank dlq list` names them")
    return letters[identity]


def _plain(identity: str, letter: DeadLetter) -> dict[str, object]:
    return {
        "id": identity,
        "place": letter.place,
        "kind": letter.kind,
        "error": letter.error,
        "value": letter.value.decode("utf-8", "backslashreplace"),
    }


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None
