"""GET /metrics: Prometheus' text format, version 0.0.4."""

import math
from collections.abc import Mapping

from ..pipeline.flow import KINDS
from .latency import BOUNDS
from .service import Service

FATES = ("rejected", "duplicates", "late")


def exposition(service: Service) -> str:
    """Everything there is to watch, as of now."""
    now, lines = service.now(), []

    def add(name: str, kind: str, text: str, *values: tuple[Mapping[str, str], float]) -> None:
        lines.append(f"# HELP streamrank_{name} {text}")
        lines.append(f"# TYPE streamrank_{name} {kind}")
        lines.extend(f"streamrank_{name}{_labels(labels)} {_number(value)}" for labels, value in values)

    events, worker, models = now["events"], now["worker"], now["models"]
    add("events_total", "counter", "Events learnt from, by kind.",
        *(({"kind": kind}, events.get(kind, 0)) for kind in KINDS))  # fmt: skip
    add("dropped_total", "counter", "Events that taught nothing, by fate; rejected ones are dead letters.",
        *(({"fate": fate}, events.get(fate, 0)) for fate in FATES))  # fmt: skip
    add("judged_lists_total", "counter", "Rankings that got a click, and lists that came judged.",
        ({}, events.get("judged", 0)))  # fmt: skip
    add("feedback_total", "counter", "Events sent to /feedback since the start, by answer.",
        *(({"answer": answer}, n) for answer, n in now["received"].items()))  # fmt: skip
    shown = events.get("ranking", 0)
    add(
        "join_hit_rate",
        "gauge",
        "Judged lists a ranking.",
        ({}, events.get("judged", 0) / shown if shown else 0),
    )
    add("lag_seconds", "gauge", "Age of the oldest event not yet learnt.", ({}, now["lag_ms"] / 1000))
    unit = "bytes of the feedback log" if service.settings.serve.feedback == "log" else "records of the topic"
    add("lag", "gauge", f"What is not yet learnt: {unit}.", ({}, now["lag"]))
    add("worker_up", "gauge", "Whether the worker runs.", ({}, float(worker["alive"])))
    add("worker_restarts_total", "counter", "How often it was started again.", ({}, worker["restarts"]))
    for part, text in (("learn", "Time the worker spent on events."), ("commit", "Of that, in commits.")):
        seconds = worker[f"{part}_seconds"]
        add(f"{part}_seconds_total", "counter", text, *([({}, seconds)] if seconds is not None else []))
    add("model_age_seconds", "gauge", "Since the last version was taken up.", ({}, now["model_age_s"]))
    add("degraded", "gauge", "Whether rankings are marked degraded.", ({}, float(bool(now["degraded"]))))
    qualities = [(m, k, v) for m, of in models.items() for k, v in of["quality"].items()]
    add("quality", "gauge", "Prequential quality on the latest lists.",
        *(({"model": m, "metric": k}, v) for m, k, v in qualities))  # fmt: skip
    compared = now["comparison"]
    if compared is not None:
        pair = {"champion": compared.champion, "challenger": compared.challenger}
        add("interleaved_total", "counter", "Rankings that two models shared, by outcome for the challenger.",
            *(({**pair, "outcome": of}, getattr(compared, of)) for of in ("wins", "losses", "ties")),
            ({**pair, "outcome": "none"}, compared.shown - compared.decided - compared.ties))  # fmt: skip
        add("challenger_win_rate", "gauge", "Of the decided ones, with the bounds of the 95 % interval.",
            ({**pair, "bound": ""}, math.nan if compared.win_rate is None else compared.win_rate),
            ({**pair, "bound": "low"}, compared.low), ({**pair, "bound": "high"}, compared.high))  # fmt: skip
    spectra = {m: of["spectrum"] for m, of in models.items() if "spectrum" in of}
    for part, text in (
        ("kappa_1", "Largest eigenvalue."), ("kappa_n", "Smallest eigenvalue."),
        ("condition", "Their ratio."), ("eta", "Step size."), ("mu", "Momentum."),
    ):  # fmt: skip
        add(part, "gauge", text,
            *(({"model": m}, spectrum[part]) for m, spectrum in spectra.items()))  # fmt: skip
    drifts = {done["model"]: done["drift"] for done in service.training.done}
    add("drift", "gauge", "How far the online model was from the full-batch optimum, when last reconciled.",
        *(({"model": m, "part": part}, v)
          for m, drift in drifts.items() for part, v in drift.items() if v is not None))  # fmt: skip
    add("reconciliations_total", "counter", "Since the start, by what was chosen (of the last hundred).",
        *(({"chosen": kind}, sum(done["chosen"] == kind for done in service.training.done))
          for kind in ("keep", "replace", "rebase")))  # fmt: skip
    lines.append("# HELP streamrank_rank_seconds Time to answer a ranking, without HTTP.")
    lines.append("# TYPE streamrank_rank_seconds histogram")
    for model in models:
        buckets = service.latencies.buckets(model)
        for bound, n in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
            lines.append(f"streamrank_rank_seconds_bucket{_labels({'model': model, 'le': bound})} {n}")
        lines.append(
            f"streamrank_rank_seconds_sum{_labels({'model': model})} {service.latencies.sums.get(model, 0.0)}"
        )
        lines.append(f"streamrank_rank_seconds_count{_labels({'model': model})} {buckets[-1]}")
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    escaped = (
        f'{k}="{v.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34)).replace(chr(10), " ")}"'
        for k, v in labels.items()
    )
    return "{" + ",".join(escaped) + "}" if labels else ""


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value == math.inf else repr(value)
