"""`streamrank evaluate --online`."""

import argparse
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from ..learners.base import Ranker
from ..learners.registry import build
from ..pipeline.curve import LearningCurve
from ..pipeline.online import Users, online
from ..sources.dataset import Dataset
from .output import print_json, print_table, progress

USUAL = {"click_model": "pbm", "rounds": 10_000, "shuffled": 0.1}  # where not told


def settle_online(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together with or without --online; fill in what was not told."""
    for name, value in USUAL.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
        elif not arguments.online:
            raise ConfigError(f"--{name.replace('_', '-')} is of --online: add that, or leave it out")
    if arguments.online and (arguments.interactions or arguments.off_policy):
        raise ConfigError("--online shows judged lists to its users: leave --interactions, --off-policy out")


def serve_users(
    arguments: argparse.Namespace, train: Dataset, held_out: Dataset, test: Dataset, params: Mapping[str, Any]
) -> int:
    """Each learner in turn serves the same users; one table, and one figure if asked for."""
    names = [name.strip() for name in arguments.learner.split(",")]
    if arguments.passes != 1:
        raise ConfigError("--passes does not go with --online: say how many rankings to show by --rounds")
    if len(names) != len(set(names)) or not all(names):
        raise ConfigError(f"--learner {arguments.learner}: name each learner once, with commas between")
    if params and len(names) > 1:
        raise ConfigError("--set goes with one learner: several do not have the same parameters")
    for name in names:  # before an hour is spent on the first
        build(name, params)
    users = Users(train, arguments.click_model, arguments.rounds, arguments.seed)
    curves = {name: LearningCurve(held_out, arguments.rounds) for name in names}
    results: dict[str, dict[str, Any]] = {}
    done = 0
    with progress(
        lambda: (len(results) * arguments.rounds + done, len(names) * arguments.rounds), "evaluate"
    ) as update:
        for name, curve in curves.items():

            def look(ranker: Ranker, rounds: int, curve: LearningCurve = curve) -> None:
                if arguments.plot:
                    curve.look(ranker, rounds)

            def tell(rounds: int, name: str = name) -> None:
                nonlocal done
                done = rounds
                update(f"{name}, round {rounds}")

            results[name] = online(
                users,
                test,
                learner=name,
                params=params,
                shuffled=arguments.shuffled,
                looks=curve.at,
                look=look,
                tell=tell,
            )
            done = 0
    result: dict[str, Any] = dict(results[names[0]])
    if len(names) > 1:
        shared = {key: result[key] for key in ("click_model", "rounds")}
        result = {**shared, "seconds": sum(one["seconds"] for one in results.values()), "learners": results}
    if arguments.plot:
        result["figures"] = _draw(arguments, curves)
    if arguments.json:
        print_json(result)
    else:
        _print(arguments, results)
    return 0


def _draw(arguments: argparse.Namespace, curves: Mapping[str, LearningCurve]) -> dict[str, Any]:
    from ..pipeline.pictures import online_section
    from ..pipeline.report import write_sections  # plotly takes half a second to load

    looks = {name: curve.looks for name, curve in curves.items()}
    held_out = "validation" if arguments.valid else "test"
    section = online_section(looks, arguments.click_model, held_out)
    title = f"evaluate: {', '.join(curves)} online, {arguments.click_model} clicks"
    write_sections(arguments.plot, title, [section])
    return {
        "file": arguments.plot,
        "rounds": next(iter(curves.values())).at,
        "ndcg@10": {name: [look.ndcg for look in some] for name, some in looks.items()},
    }


def _print(arguments: argparse.Namespace, results: Mapping[str, Mapping[str, Any]]) -> None:
    head = ["learner", "test ndcg@10", "pairwise error", "shown ndcg@10", "cumulative, discounted", "seconds"]
    rows = [
        [
            name,
            one["test"]["ndcg@10"],
            one["test"]["pairwise_error"],
            one["online"]["ndcg@10"],
            one["online"]["cumulative_ndcg@10"],
            one["seconds"],
        ]
        for name, one in results.items()
    ]
    print_table(f"{arguments.rounds} rounds, {arguments.click_model} clicks", head, rows)
    if arguments.plot:
        print_table("", ["figures"], [[arguments.plot]])
