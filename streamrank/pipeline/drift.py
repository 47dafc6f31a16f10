"""A reconciliation as a page to look at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .figures import ErrorPath
from .pictures import path_section
from .report import Section, write_sections


def write_drift(path: str | Path, result: Mapping[str, Any]) -> None:
    """The report of `reconcile` as one HTML file: candidates, drift, and error by lambda and step."""
    candidates = [[kind, *m.values()] for kind, m in result["candidates"].items()]
    swapped = (
        f"{result['chosen']}: the weights were swapped." if result["swapped"] else "The online model stays."
    )
    drift = [[name, value] for name, value in result["drift"].items()]
    title = f"Reconciliation of {result['model']}"
    if "passes" in result:
        curve = [list(row) for row in zip(*result["validation"].values(), strict=True)]
        sections = [
            Section("Who finds later clicks best", swapped, [], ["", "NDCG@10", "HR@10"], candidates),
            Section("How far the online model is from the refitted", "", [], ["", ""], drift),
            Section("Validation", f"{result['passes']} passes.", [], list(result["validation"]), curve),
        ]
        write_sections(path, title, sections)
        return
    steps = result["iterations"]
    sections = [
        Section("Who orders later lists best", swapped, [], ["", "pairwise error", "NDCG@10"], candidates),
        Section(
            "How far the online model is from the optimum",
            f"λ {result['lambda']:.3g}; {steps['warm']} steps from the last reconciled weights, "
            f"{steps['cold']} from 0.",
            [],
            ["", ""],
            drift,
        ),
    ]
    lambdas, errors = (np.array(result["validation"][name]) for name in ("lambdas", "errors"))
    t, j = np.unravel_index(int(np.nanargmin(errors)), errors.shape)
    found = ErrorPath(lambdas, errors, float(lambdas[j]), int(t) + 1)
    write_sections(path, title, [*sections, path_section(found, "validation")])
