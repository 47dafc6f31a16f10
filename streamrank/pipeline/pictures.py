"""The numbers of `figures` as charts to look at."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..features.batch import Floats
from .curve import Look
from .figures import ALGORITHM_1, FIT_FROM, RTOL, SOLVERS, Comparison, ErrorPath, Estimates
from .report import GREY, UNORDERED, Chart, Curve, Section

NAMES = {"cg": "CG", "egdm": "eGDM", "gdm": "GDM"}


def path_section(path: ErrorPath, held_out: str) -> Section:
    """[003] figures 1 and 2."""
    steps = np.arange(1, len(path.errors) + 1).tolist()
    curves = [
        Curve(f"λ {_lam(lam)}", steps, errors.tolist())
        for lam, errors in zip(path.lambdas, path.errors.T, strict=True)
    ]
    best = float(np.nanmin(path.errors))
    later = float(
        np.nanmax(path.errors[min(3, len(path.errors) - 1) :])
    )  # the first steps would dwarf the rest
    chart = Chart(
        f"Pairwise error on the {held_out} lists",
        "iterations of CG",
        curves,
        {f"best: {best:.4f} with λ {_lam(path.best_lam)} after {path.best_t}": path.best_t},
        y_title="pairs in the wrong order, share",
        top=later + 0.15 * (later - best) or None,
        ordered=True,
        wide=True,
    )
    text = (
        "Little regularisation is good at first, then fits the noise: stopping early regularises too. Much "
        "of it converges at once, to something too plain."
    )
    rows = [
        [_lam(lam), f"{np.nanmin(errors):.4f}", int(np.nanargmin(errors)) + 1, f"{errors[-1]:.4f}"]
        for lam, errors in zip(path.lambdas, path.errors.T, strict=True)
    ]
    head = ["λ", "best error", "at iteration", f"after {len(path.errors)}"]
    return Section("Where to stop, and how much to regularise", text, [chart], head, rows)


def eigenvalue_section(found: Estimates) -> Section:
    """[000] figures 1 and 2, and the two eigenvalues apart."""
    steps = np.arange(1, len(found.corrected) + 1).tolist()

    def chart(name: str, what: str, of: Callable[[Floats], Floats], *more: Curve) -> Chart:
        curves = [
            Curve("corrected Algorithm 1", steps, of(found.corrected.T).tolist()),
            Curve("as printed", steps, of(found.printed.T).tolist()),
            *more,
        ]
        if found.exact is not None:
            exact = float(of(np.array(found.exact)))
            curves.append(Curve("exact", [1, steps[-1]], [exact, exact], "dashes", GREY))
        return Chart(f"{name}: {what}", "power iterations", curves, {}, name, log_x=True, log_y=True)

    products, bounds = found.bound.T.tolist()
    charts = [
        chart("κ₁", "the largest", lambda k: k[0], Curve("bound from above", products, bounds, "points")),
        chart("κₙ", "the smallest", lambda k: k[1]),
        chart("κ₁ κₙ", "sets the step, η = 1/√(κ₁ κₙ)", lambda k: k[0] * k[1]),
        chart("κ₁ / κₙ", "sets the momentum μ", lambda k: k[0] / k[1]),
    ]
    rows = [
        [name, *(f"{value:,.4g}" for value in (k1, kn, k1 * kn, k1 / kn)), found.n_iter[name] or "no end"]
        for name, (k1, kn) in found.used.items()
    ]
    text = (
        f"Of X'LX + λ with λ = {_lam(found.lam)}. The printed algorithm leaves the centring L out, so it "
        "finds the eigenvalues of another matrix. κ₁ must not be too low, or eGDM diverges; κₙ may be too "
        f"high. The table takes the estimates after {ALGORITHM_1} steps and lets eGDM run on them."
    )
    head = ["known from", "κ₁", "κₙ", "κ₁ κₙ", "κ₁ / κₙ", "eGDM iterations"]
    return Section("The eigenvalues behind step and momentum", text, charts, head, rows)


def solver_section(found: Comparison) -> Section:
    """[000] section 3."""
    lambdas, conditions = found.lambdas.tolist(), found.conditions.tolist()
    fits, grown = [], []
    for name, colour in zip(SOLVERS, UNORDERED, strict=False):
        power, steps = found.exponents[name], found.n_iter[name]
        if power is not None:
            used = (found.conditions >= 0.999 * FIT_FROM) & np.isfinite(steps)
            x = found.conditions[used]
            level = np.exp(np.mean(np.log(steps[used]) - power * np.log(x)))
            label = f"{NAMES[name]} ~ C^{power:.2f}"
            fits.append(Curve(label, x.tolist(), (level * x**power).tolist(), "dashes", colour))
            grown.append(label)

    def chart(title: str, x_title: str, x: list[float], values: dict[str, Floats], y_title: str) -> Chart:
        curves = [Curve(NAMES[name], x, values[name].tolist(), "points") for name in SOLVERS]
        return Chart(title, x_title, curves, {}, y_title, log_x=True, log_y=True)

    by_condition = chart(
        "Iterations: " + (", ".join(grown) or "too few points to fit"),
        "condition number C = κ₁/κₙ",
        conditions,
        found.n_iter,
        "iterations",
    )
    regularisation = "regularisation (γ in [000], λ in [003])"
    charts = [
        by_condition._replace(curves=[*by_condition.curves, *fits], wide=True),
        chart("Iterations until the gradient is gone", regularisation, lambdas, found.n_iter, "iterations"),
        chart("Seconds, estimates of κ included", regularisation, lambdas, found.seconds, "seconds"),
    ]
    how = "the products are with X'LX, formed once" if found.formed else "the products go through the rows"
    text = (
        f"The same systems by three solvers, to a gradient of {RTOL:.0e} |b|; {how}. Theory: GDM takes a "
        "multiple of C, eGDM of √C, CG no more than that and often less. Exponents are fitted from "
        f"C = {FIT_FROM:.0f} up: below, the momentum .9 of GDM sets its pace. What did not converge in time "
        "is left out."
    )
    rows = [
        [f"{lam:.4g}", f"{c:.0f}", *(_count(found.n_iter[name][k]) for name in SOLVERS)]
        for k, (lam, c) in enumerate(zip(lambdas, conditions, strict=True))
    ]
    rows.append(["exponent", "", *(_power(found.exponents[name]) for name in SOLVERS)])
    head = ["λ", "C", *(NAMES[name] for name in SOLVERS)]
    return Section("GDM, eGDM, CG: what an ill-conditioned problem costs", text, charts, head, rows)


def stream_sections(looks: Sequence[Look], held_out: str) -> list[Section]:
    """A streaming learner against lists seen; of EGDM also what its moves rest on."""
    seen = [look.lists for look in looks]

    def chart(title: str, y_title: str, curves: dict[str, list[float]], log_y: bool = False) -> Chart:
        lines = [Curve(name, seen, values, "points") for name, values in curves.items()]
        return Chart(title, "lists learnt", lines, {}, y_title, log_x=True, log_y=log_y)

    errors = {"as served": [look.error for look in looks]}
    spectra = [look.spectrum for look in looks if look.spectrum is not None]
    gains = {"as served": [look.ndcg for look in looks]}
    if spectra:
        errors["its exact optimum so far"] = [look.optimum_error for look in looks]
        gains["its exact optimum so far"] = [look.optimum_ndcg for look in looks]
    quality = Section(
        f"Quality on the {held_out} lists, as learning goes",
        "Measured at moments of one pass after another; looking changes nothing.",
        [
            chart("Pairwise error (lower is better)", "pairs in the wrong order, share", errors),
            chart("NDCG@10 (higher is better)", "NDCG@10", gains),
        ],
        ["lists learnt", "pairwise error", "NDCG@10"],
        [[look.lists, look.error, look.ndcg] for look in (looks[0], looks[len(looks) // 2], looks[-1])],
    )
    if not spectra:
        return [quality]
    eigenvalues = {"κ₁": [s.kappa_1 for s in spectra], "κₙ": [s.kappa_n for s in spectra]}
    moves = Section(
        "What the moves rest on",
        "Bounds of the eigenvalues of the statistics, per row, kept up by one power step a list; the step η "
        "and the momentum μ follow from them.",
        [
            chart("Eigenvalues", "κ, per row", eigenvalues, log_y=True),
            chart("Condition number", "C = κ₁/κₙ", {"C": [s.condition for s in spectra]}, log_y=True),
            chart("Learning rate", "η, rows", {"η": [s.eta for s in spectra]}, log_y=True),
            chart("Momentum", "μ", {"μ": [s.mu for s in spectra]}),
        ],
    )
    return [quality, moves]


def online_section(looks: Mapping[str, Sequence[Look]], click_model: str, held_out: str) -> Section:
    """Learners that serve the same users, against rounds."""
    curves = [
        Curve(name, [look.lists for look in some], [look.ndcg for look in some], "points")
        for name, some in looks.items()
    ]
    chart = Chart(
        f"NDCG@10 on the {held_out} lists (higher is better)",
        "rounds: rankings shown",
        curves,
        {},
        "NDCG@10",
        log_x=True,
        wide=True,
    )
    text = (
        f"Each learner ranks for the same {click_model} users and learns from their clicks alone, judged and "
        "debiased as live. Measured at moments on lists never shown; measuring changes nothing."
    )
    rows = [
        [name, *(some[k].ndcg for k in (len(some) // 4, len(some) // 2, -1))] for name, some in looks.items()
    ]
    some = next(iter(looks.values()))
    head = ["learner", *(f"after {some[k].lists}" for k in (len(some) // 4, len(some) // 2, -1))]
    return Section("Online learning to rank", text, [chart], head, rows)


def _lam(lam: float) -> str:
    """Powers of two as such: the grid is made of them."""
    if lam > 0 and np.log2(lam) == round(np.log2(lam)):
        return "2" + str(round(np.log2(lam))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{lam:.3g}"


def _count(steps: float) -> str:
    return "-" if np.isnan(steps) else f"{steps:.0f}"


def _power(exponent: float | None) -> str:
    return "-" if exponent is None else f"{exponent:.2f}"
