"""Champion and challenger: who is who, and what the clicks on lists they share say so far."""

from ..config import Settings
from ..errors import ConfigError
from ..metrics.intervals import wilson
from ..preferences.contest import Credit
from .answers import Comparison
from .shards import Served


def check_challenger(settings: Settings) -> None:
    """Refuse one that there is not, before anybody is served."""
    named, names = settings.serve.challenger, [model.name for model in settings.models]
    if named and named not in names:
        raise ConfigError(
            f"serve.challenger is {named!r}: there is no such model; there are: {', '.join(names)}"
        )


def challenger_of(served: Served, named: str) -> str:
    """The model that shares the champion's lists; empty if there is none."""
    return named if named in served.learners and named != served.champion else ""


def comparison(served: Served | None, named: str) -> Comparison | None:
    """How the challenger does against the champion; None where nobody challenges."""
    if served is None or not (challenger := challenger_of(served, named)):
        return None
    return compared(served.champion, challenger, served.credit(challenger, served.champion))


def compared(champion: str, challenger: str, credit: Credit) -> Comparison:
    """The challenger's share of the rankings that were decided, with Wilson's 95 % interval.

    >>> found = compared("old", "new", Credit(shown=300, wins=60, losses=40, ties=20))
    >>> found.win_rate, round(found.low, 3), round(found.high, 3)
    (0.6, 0.502, 0.691)
    """
    decided = credit.wins + credit.losses
    rate = credit.wins / decided if decided else None
    return Comparison(champion, challenger, *credit, decided, rate, *wilson(credit.wins, decided))
