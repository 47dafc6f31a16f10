"""`streamrank evaluate`."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ConfigError
from ..learners.rankrls import GRID
from ..pipeline.curve import LearningCurve
from ..pipeline.evaluate import BATCH, read_lists
from ..pipeline.evaluate import evaluate as run
from ..pipeline.figures import (
    CONDITIONS,
    SOLVERS,
    Problem,
    compare_solvers,
    eigenvalue_estimates,
    error_path,
)
from ..pipeline.rbf import RBF, in_front
from ..pipeline.recommend import evaluate_interactions, rank_as_they_come
from ..sources.dataset import Dataset
from ..sources.ratings import read_interactions
from .offpolicy import weigh_candidates
from .online import serve_users, settle_online
from .output import check_writable, print_json, print_table, progress


def evaluate(arguments: argparse.Namespace) -> int:
    """Train on one set of judged lists, test on another; draw how it went."""
    settle_online(arguments)
    if arguments.off_policy:
        return weigh_candidates(arguments, _params(arguments.set or []))
    if not arguments.learner:
        raise ConfigError("say which --learner to evaluate, such as --learner egdm")
    if arguments.interactions:
        return _evaluate_interactions(arguments)
    if not arguments.train or not arguments.test:
        raise ConfigError(
            "evaluate needs --train and --test with judged lists, or --interactions, or --off-policy"
        )
    if arguments.plot:
        check_writable(arguments.plot, "figures")
    train, test = read_lists(arguments.train), read_lists(arguments.test)
    valid = read_lists(arguments.valid) if arguments.valid else None
    params = _params(arguments.set or [])
    if arguments.online:
        return serve_users(arguments, train, valid or test, test, params)
    task: dict[str, Any] = {
        "valid": valid,
        "learner": arguments.learner,
        "params": params,
        "passes": arguments.passes,
        "seed": arguments.seed,
    }
    if not arguments.plot:
        result = run(train, test, **task)
    elif arguments.learner == BATCH:
        result = run(train, test, **task)
        result["figures"] = _draw_batch(arguments, train, valid or test, params, result["chosen"]["lam"])
    else:
        held_out = valid or test
        if arguments.learner == RBF:  # what the learner is shown
            front = in_front(train, test, valid, params, arguments.seed)
            held_out = front.valid or front.test
        curve = LearningCurve(held_out, arguments.passes * train.n_lists)
        with progress(lambda: (len(curve.looks), len(curve.at)), "evaluate") as update:

            def look(ranker: Any, lists: int) -> None:
                curve.look(ranker, lists)
                update(f"{lists} lists, ndcg@10 {curve.looks[-1].ndcg:.3f}")

            result = run(train, test, **task, looks=curve.at, look=look)
        result["figures"] = _draw_stream(arguments, curve)
    if arguments.json:
        print_json(result)
    else:
        _print(arguments, result)
    return 0


def _evaluate_interactions(arguments: argparse.Namespace) -> int:
    if arguments.train or arguments.test or arguments.valid or arguments.plot:
        raise ConfigError("--interactions is split by --split: leave --train, --test, --valid, --plot out")
    in_order = arguments.split == "prequential"
    if in_order and arguments.passes > 1:
        raise ConfigError("--split prequential takes each interaction once: leave --passes out")
    data = read_interactions(arguments.interactions)
    task: dict[str, Any] = {
        "learner": arguments.learner,
        "params": _params(arguments.set or []),
        "seed": arguments.seed,
    }
    if in_order:
        result = rank_as_they_come(data, **task)
    else:
        result = evaluate_interactions(data, passes=arguments.passes, how=arguments.split, **task)
    if arguments.json:
        print_json(result)
    else:
        plain = [(name, value) for name, value in result.items() if name != "test"]
        print_table(f"{arguments.learner} on {', '.join(arguments.interactions)}", ["", ""], plain)
        print_table("", ["measure", "test"], list(result["test"].items()))
    return 0


def _draw_batch(
    arguments: argparse.Namespace, train: Dataset, held_out: Dataset, params: Mapping[str, Any], lam: float
) -> dict[str, Any]:
    from ..pipeline.pictures import eigenvalue_section, path_section, solver_section
    from ..pipeline.report import write_sections  # plotly takes half a second to load

    done = 0
    with progress(lambda: (done, 2 + len(SOLVERS) * CONDITIONS), "figures") as update:

        def tell(note: str) -> None:
            nonlocal done
            update(note)
            done += 1

        problem = Problem(train)
        tell("error against iterations")
        given = params.get("lam")
        path = error_path(problem, held_out, lam, given if isinstance(given, list) else GRID)
        tell("eigenvalues")
        estimates = eigenvalue_estimates(problem, lam or 1.0)  # early stopping has chosen none
        comparison = compare_solvers(problem, tell)
    sections = [
        path_section(path, _held_out(arguments)),
        eigenvalue_section(estimates),
        solver_section(comparison),
    ]
    write_sections(arguments.plot, _title(arguments), sections)
    kappa_1, kappa_n = estimates.used.get("exact", estimates.corrected[-1].tolist())
    return {
        "file": arguments.plot,
        "exponents": comparison.exponents,
        "lam": estimates.lam,
        "kappa_1": kappa_1,
        "kappa_n": kappa_n,
        "condition": kappa_1 / kappa_n,
    }


def _draw_stream(arguments: argparse.Namespace, curve: LearningCurve) -> dict[str, Any]:
    from ..pipeline.pictures import stream_sections
    from ..pipeline.report import write_sections

    write_sections(arguments.plot, _title(arguments), stream_sections(curve.looks, _held_out(arguments)))
    return {
        "file": arguments.plot,
        "lists": [look.lists for look in curve.looks],
        "ndcg@10": [look.ndcg for look in curve.looks],
        "pairwise_error": [look.error for look in curve.looks],
    }


def _title(arguments: argparse.Namespace) -> str:
    return f"evaluate: {arguments.learner} on {', '.join(Path(name).name for name in arguments.train)}"


def _held_out(arguments: argparse.Namespace) -> str:
    return "validation" if arguments.valid else "test"


def _print(arguments: argparse.Namespace, result: Mapping[str, Any]) -> None:
    plain = [(name, value) for name, value in result.items() if name not in ("test", "figures")]
    if arguments.plot:
        plain.append(("figures", arguments.plot))
        for name, power in result["figures"].get("exponents", {}).items():
            plain.append((f"iterations of {name}", "-" if power is None else f"~ condition^{power:.2f}"))
    print_table(f"{arguments.learner} on {', '.join(arguments.test)}", ["", ""], plain)
    print_table("", ["measure", "test"], list(result["test"].items()))


def _params(pairs: list[str]) -> dict[str, Any]:
    params = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set {pair}: give name=value, such as --set rate=0.03")
        try:  # numbers, lists, true and null are JSON; anything else is a plain string
            params[name] = msgspec.json.decode(text.encode())
        except msgspec.DecodeError:
            params[name] = text
    return params
