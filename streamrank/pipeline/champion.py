"""Who is champion: the model that answers for the first one of the config.

An entry `champion` of every shard names it, and the credits of that moment, from which evidence counts anew.
Shards are written one after the other, each by a fenced commit; the entry with the highest number holds, so
the change is seen at once and can be finished later. The worker does not touch it, and nothing that was
learnt changes: every model goes on learning under its own name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from ..errors import ConfigError
from ..preferences.contest import Contests, Credit
from ..state.base import Store
from ..state.values import decode, encode
from .swap import At, change

KEY, CONTESTS = "champion", "contest/"
KEEP = 10  # champions remembered, to go back


class Reign(NamedTuple):
    """The champions in turn, the last of which reigns, and the credits of this shard when that began."""

    number: int = 0
    names: Sequence[str] = ()
    since: Mapping[str, Sequence[int]] = {}


def reign_of(entries: Mapping[str, bytes]) -> Reign:
    """As the entries of a shard say."""
    return Reign(*cast(list[Any], decode(entries[KEY]))) if KEY in entries else Reign()


def latest(reigns: Sequence[Reign]) -> Reign:
    """The one that holds."""
    return max(reigns, key=lambda reign: reign.number, default=Reign())


def credit_since(contests: Contests, reign: Reign, one: str, other: str) -> Credit:
    """How `one` did against `other` since the champion reigns, in one shard."""
    before = Contests(())
    before.from_state(reign.since)
    credit = contests.credit(one, other).plus(before.credit(one, other), -1)
    return Credit(*(max(count, 0) for count in credit))  # a ranking of before may have got a click since


def evidence(store: Store, one: str, other: str) -> Credit:
    """The same, in all shards."""
    credit = Credit()
    for shard in store.shards():
        entries, _ = store.read(shard, (CONTESTS, KEY))
        credit = credit.plus(credit_since(_contests(entries), reign_of(entries), one, other))
    return credit


def reigning(store: Store, first: str) -> list[str]:
    """The champions in turn; at the beginning the first model of the config."""
    reigns = [reign_of(store.read(shard, (KEY,))[0]) for shard in store.shards()]
    return list(latest(reigns).names) or [first]


def proclaim(store: Store, names: Sequence[str], *, at: At = lambda _: None) -> None:
    """Let the last of `names` reign, in every shard; a shard that knows already is left alone."""
    if not names:
        raise ConfigError("there is no promotion to take back")
    now = latest([reign_of(store.read(shard, (KEY,))[0]) for shard in store.shards()])
    number = now.number if list(now.names) == list(names) else now.number + 1

    def make(entries: Mapping[str, bytes], _: int) -> dict[str, bytes | None] | None:
        if reign_of(entries).number >= number:
            return None
        return {KEY: encode([number, list(names), _contests(entries).to_state()])}

    for shard in store.shards():
        change(store, shard, (CONTESTS, KEY), make, at=at)


def _contests(entries: Mapping[str, bytes]) -> Contests:
    contests = Contests(())
    contests.from_state(
        {key.removeprefix(CONTESTS): decode(entries[key]) for key in entries if key.startswith(CONTESTS)}
    )
    return contests
