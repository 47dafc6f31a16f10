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
from .model import METRICS, Model
from .recommender import Recommender

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
code { overflow-wrap: anywhere } h3 { font-size: 1rem; font-weight: 600; margin: 1rem 0 0 }
.charts { display: grid; gap: 0 1.5rem;
          grid-template-columns: repeat(auto-fill, minmax(min(28rem, 100%), 1fr)) }
.charts + table { margin-top: 1rem } .charts > div { min-width: 0 } .charts > .wide { grid-column: 1 / -1 }
"""
# told apart in order, on white and on black
ORDERED = ("#5f6bd8", "#228be6", "#15aabf", "#12b886", "#74b816", "#e8a700", "#f76707", "#e03131")
UNORDERED = ("#228be6", "#f76707", "#12a67c", "#be4bdb", "#868e96")
GREY = "#888"
# plotly draws its own text: give it the ink of the page, whichever scheme the reader has
INK = """
const ink = getComputedStyle(document.documentElement).getPropertyValue('--ink');
const line = getComputedStyle(document.documentElement).getPropertyValue('--line');
for (const plot of document.querySelectorAll('.plotly-graph-div'))
  Plotly.relayout(plot, {'font.color': ink, 'xaxis.gridcolor': line, 'yaxis.gridcolor': line});
"""


class Curve(NamedTuple):
    """A line of a chart; `style` is lines, points (a line with its points marked) or dashes."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "lines"
    colour: str = ""  # else by its place among the curves


class Chart(NamedTuple):
    """A chart of several lines, with marks at some places of its x axis, if that is not logarithmic."""

    title: str
    x_title: str
    curves: list[Curve]
    marks: Mapping[str, float] = {}
    y_title: str = ""
    log_x: bool = False
    log_y: bool = False
    top: float | None = None  # where the y axis ends; else where the curves do
    ordered: bool = False  # the curves are steps of one scale, and coloured as such
    wide: bool = False  # alone in its row, where charts stand side by side


class Section(NamedTuple):
    """Charts that belong together, a sentence on how to read them, and a table below."""

    title: str
    text: str
    charts: Sequence[Chart]
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()


def write_sections(path: str | Path, title: str, sections: Sequence[Section]) -> None:
    """A page of sections, charts side by side where there is room."""
    parts = []
    for section in sections:
        parts += [f"<h2>{html.escape(section.title)}</h2><p>{html.escape(section.text)}</p>"]
        parts += ['<div class="charts">']
        for chart in section.charts:
            kind = ' class="wide"' if chart.wide else ""
            parts += [f"<div{kind}><h3>{html.escape(chart.title)}</h3>{_draw(chart)}</div>"]
        parts += ["</div>"]
        parts += [_table(section.head, section.rows) if section.rows else ""]
    _write(path, title, parts)


def write_report(
    path: str | Path, title: str, flow: Flow, result: Mapping[str, Any], charts: Sequence[Chart] = ()
) -> None:
    """Charts of each model's quality over the stream (after `charts`), tables of what happened."""
    quality = [_quality(flow.models, k, TITLES[name], "judged lists") for k, name in enumerate(METRICS)]
    if flow.recommenders:
        quality += [
            _quality(flow.recommenders, k, f"{name} of clicks, each ranked before it is learnt", "clicks")
            for k, name in enumerate(flow.recommenders[0].history.names)
        ]
    parts = [_models(result)]
    for chart in [*charts, *quality]:
        if any(len(curve.x) for curve in chart.curves):
            parts += [f"<h2>{html.escape(chart.title)}</h2>", _draw(chart)]
    parts += ["<h2>What happened</h2>", _table([], _plain(result))]
    _write(path, title, parts)


def _write(path: str | Path, title: str, parts: Sequence[str]) -> None:
    heading = f"streamrank {html.escape(title)}"
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>{STYLE}</style><script>{get_plotlyjs()}</script>"
        f"<body><h1>{heading}</h1>{''.join(parts)}<script>{INK}</script></body></html>"
    )
    try:
        Path(path).write_text(page, "utf-8")
    except OSError as error:
        raise SourceError(f"cannot write the report {path}: {error.strerror}") from None


def _quality(models: Sequence[Model | Recommender], k: int, title: str, counted: str) -> Chart:
    curves = []
    for model in models:
        x, means = model.history.series()
        held = ~np.isnan(means[:, k])
        curves.append(Curve(model.name, x[held].tolist(), means[held, k].tolist()))
    return Chart(title, counted, curves)


def _draw(chart: Chart) -> str:
    figure, n = go.Figure(), len(chart.curves)
    palette = ORDERED if chart.ordered else UNORDERED
    for k, curve in enumerate(chart.curves):
        place = k * (len(palette) - 1) // max(n - 1, 1) if chart.ordered else k % len(palette)
        figure.add_scatter(
            x=list(curve.x),
            y=list(curve.y),
            name=curve.name,
            mode="lines+markers" if curve.style == "points" else "lines",
            line_color=curve.colour or palette[place],
            line_dash="dash" if curve.style == "dashes" else "solid",
        )
    for name, x in chart.marks.items():
        figure.add_vline(x=x, line_dash="dot", line_color=GREY, annotation_text=html.escape(name))
    figure.update_layout(
        template="none",
        height=340,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis=_axis(chart.x_title, chart.log_x),
        yaxis=_axis(chart.y_title, chart.log_y) | {"autorangeoptions": {"maxallowed": chart.top}},
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    text: str = figure.to_html(
        full_html=False, include_plotlyjs=False, config={"displayModeBar": False, "responsive": True}
    )
    return f'<div role="img" aria-label="{html.escape(chart.title, quote=True)}">{text}</div>'


def _axis(title: str, log: bool) -> dict[str, Any]:
    plain: dict[str, Any] = {"title": title, "automargin": True}
    return plain | {"type": "log", "dtick": 1, "exponentformat": "power"} if log else plain


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
