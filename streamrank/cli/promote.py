"""`streamrank promote`."""

import argparse

import msgspec

from ..config import Settings
from ..errors import ConfigError
from ..pipeline.champion import KEEP, evidence, proclaim, reigning
from ..serve.comparison import compared
from .output import existing_store, print_json, say, settings_of


def promote(arguments: argparse.Namespace) -> int:
    """Make the challenger champion, if its wins say so; or take the last promotion back."""
    with existing_store(arguments.store) as store:
        settings = settings_of(store, store.shards()[0], arguments.config)
        names = reigning(store, settings.models[0].name)
        if arguments.undo:
            proclaim(store, names[:-1])
            return _say(arguments, {"champion": names[-2], "before": names[-1], "promoted": True})
        challenger = _challenger(arguments, settings, names[-1])
        found = compared(names[-1], challenger, evidence(store, challenger, names[-1]))
        enough = found.low > 0.5
        if enough or arguments.force:
            proclaim(store, [*names, challenger][-KEEP:])
    if not enough:
        rate = "none" if found.win_rate is None else f"{100 * found.win_rate:.1f} %"
        within = f"{100 * found.low:.1f} to {100 * found.high:.1f} %"
        then = (
            "promoted all the same" if arguments.force else "not promoted. Let them share more, or --force."
        )
        say(
            f"of {found.decided} decided rankings {challenger} won {rate}; the 95 % interval, {within}, does "
            f"not lie above 50 %: {then}"
        )
    done = enough or arguments.force
    result = {"champion": challenger if done else names[-1], "before": names[-1], "promoted": done}
    return _say(arguments, result | {"evidence": msgspec.to_builtins(found)})


def _say(arguments: argparse.Namespace, result: dict[str, object]) -> int:
    if arguments.json:
        print_json(result)
    elif result["promoted"]:
        print(f"{result['champion']} is champion, in place of {result['before']}")
    return 0 if result["promoted"] else 1


def _challenger(arguments: argparse.Namespace, settings: Settings, champion: str) -> str:
    """The one named, else that of the settings, else the only other model there is."""
    names = [model.name for model in settings.models]
    others = [name for name in names if name != champion]
    named: str = arguments.challenger or settings.serve.challenger or (others[0] if len(others) == 1 else "")
    if named == champion:
        raise ConfigError(f"{champion} is champion already")
    if named not in names:
        what = f"there is no model {named!r}" if named else "say which model is to be champion (--challenger)"
        raise ConfigError(f"{what}; there are: {', '.join(names)}")
    return named
