"""One HTML file that shows how a run went; it opens anywhere, with nothing to fetch."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from ..errors import SourceError
from .flow import Flow
from .model import METRICS

TITLES = {
    "ndcg@10": "NDCG@10 of the clicks, each list scored before it is learnt; favours the order shown",
    "mrr": "Reciprocal rank of the first click (higher is better)",
    "pairwise_error": "Share of pairs in the wrong order (lower is better)",
    "ndcg@10_shuffled": "NDCG@10 of the clicks on rankings shown in random order: compare models by this one",
}
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --quiet: #57606a; --paper: #fff; --line: #d0d7de }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --quiet: #9198a1; --paper: #0d1117; --line: #30363d } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem } p { color: var(--quiet) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } td, th { padding: .2rem 1rem .2rem 0;
        text-align: left; border-bottom: 1px solid var(--line) } td + td, th + th { text-align: right }
code { overflow-wrap: anywhere }
"""
# plotly draws its own text: give it the ink of the page, whichever scheme the reader has
INK = """
const ink = getComputedStyle(document.documentElement).getPropertyValue('--ink');
const line = getComputedStyle(document.documentElement).getPropertyValue('--line');
for (const plot of document.querySelectorAll('.plotly-graph-div'))
  Plotly.relayout(plot, {'font.color': ink, 'xaxis.gridcolor': line, 'yaxis.gridcolor': line});
"""


class Curve(NamedTuple):
    """A line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Chart(NamedTuple):
    """A chart of several lines, with marks at some places of its x axis."""

    title: str
    x_title: str
    curves: list[Curve]
    marks: Mapping[str, float] = {}


def write_report(
    path: str | Path, title: str, flow: Flow, result: Mapping[str, Any], charts: Sequence[Chart] = ()
) -> None:
    """Charts of each model's quality over the stream (after `charts`), tables of what happened."""
    quality = [_quality(flow, k) for k in range(len(METRICS))]
    parts = [f"<h1>streamrank {html.escape(title)}</h1>", _models(result)]
    for chart in [*charts, *quality]:
        if any(len(curve.x) for curve in chart.curves):
            parts += [f"<h2>{html.escape(chart.title)}</h2>", _draw(chart)]
    parts += ["<h2>What happened</h2>", _table([], _plain(result))]
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>streamrank {html.escape(title)}</title><style>{STYLE}</style>"
        f"<script>{get_plotlyjs()}</script><body>{''.join(parts)}<script>{INK}</script></body></html>"
    )
    try:
        Path(path).write_text(page, "utf-8")
    except OSError as error:
        raise SourceError(f"cannot write the report {path}: {error.strerror}") from None


def _quality(flow: Flow, k: int) -> Chart:
    curves = []
    for model in flow.models:
        x, means = model.history.series()
        held = ~np.isnan(means[:, k])
        curves.append(Curve(model.name, x[held].tolist(), means[held, k].tolist()))
    return Chart(TITLES[METRICS[k]], "judged lists", curves)


def _draw(chart: Chart) -> str:
    figure = go.Figure()
    for curve in chart.curves:
        figure.add_scatter(x=list(curve.x), y=list(curve.y), name=curve.name, mode="lines")
    for name, x in chart.marks.items():
        figure.add_vline(x=x, line_dash="dot", line_color="#888", annotation_text=html.escape(name))
    figure.update_layout(
        template="none",
        height=340,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis_title=chart.x_title,
        showlegend=True,
        legend={"orientation": "h", "y": 1.12},
    )
    text: str = figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})
    return f'<div role="img" aria-label="{html.escape(chart.title, quote=True)}">{text}</div>'


def _models(result: Mapping[str, Any]) -> str:
    models = result.get("models", {})
    return _table(["model", *METRICS], [[name, *(q[m] for m in METRICS)] for name, q in models.items()])


def _plain(result: Mapping[str, Any]) -> list[list[Any]]:
    return [[name, value] for name, value in result.items() if not isinstance(value, Mapping)]


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = [f"<tr>{cells}</tr>"] if head else []
    for row in rows:
        texts = (_text(cell) for cell in row)
        lines.append("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in texts) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _text(cell: Any) -> str:
    if isinstance(cell, float):
        return "-" if np.isnan(cell) else f"{cell:,.4f}"
    return str(cell)
