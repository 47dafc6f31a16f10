"""`streamrank dlq`."""

import argparse
import sys
from pathlib import Path

import msgspec

from ..errors import ConfigError, SourceError
from ..pipeline.checkpoint import Checkpoint
from ..pipeline.flow import Flow
from ..state import DeadLetter, Store
from .output import existing_store, print_json, print_table, settings_of

TAKEN = ("learnt", "duplicate", "late")  # fates that settle a letter


def list_letters(arguments: argparse.Namespace) -> int:
    """One line a letter."""
    with existing_store(arguments.store) as store:
        letters = [
            (identity, letter)
            for identity, (_, letter) in _letters(store).items()
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
    with existing_store(arguments.store) as store:
        _, letter = _one(_letters(store), arguments.id)
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
    with existing_store(arguments.store) as store:
        letters = _letters(store)
        chosen = (
            [(i, *_one(letters, i)) for i in arguments.ids]
            if arguments.ids
            else [(i, shard, letter) for i, (shard, letter) in letters.items()]
        )
        fates: dict[str, str] = {}
        for shard in sorted({shard for _, shard, _ in chosen}):
            checkpoint = Checkpoint(store, Flow(settings_of(store, shard, None)), shard=shard)
            settled = []
            for identity, home, letter in chosen:
                if home != shard:
                    continue
                if arguments.mended:
                    letter = msgspec.structs.replace(letter, value=_read(arguments.mended))
                fates[identity] = checkpoint.flow.redeliver(letter)
                if fates[identity] in TAKEN:
                    settled.append(_place(identity))
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


def _letters(store: Store) -> dict[str, tuple[str, DeadLetter]]:
    shards = store.shards()
    return {
        f"{f'{shard}:' if len(shards) > 1 else ''}{letter.offset}.{letter.part}": (shard, letter)
        for shard in shards
        for letter in store.letters(shard)
    }


def _one(letters: dict[str, tuple[str, DeadLetter]], identity: str) -> tuple[str, DeadLetter]:
    if identity not in letters:
        raise ConfigError(f"there is no dead letter {identity!r}; `streamrank dlq list` names them")
    return letters[identity]


def _place(identity: str) -> tuple[int, int]:
    offset, part = identity.rpartition(":")[2].split(".")
    return int(offset), int(part)


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
