"""The charts of the report as plotly figures in JSON, which plotly.js draws in the browser."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedkg.jobs.comparison_metric import MEASURES, Measure
from fedkg.report.records import ClientRow, RoundRow
from fedkg.report.trial_groups import Contender, Scenario, mean
from fedkg.violation_rate_zones import ZONES

Figure = dict[str, Any]
"""A plotly figure: ``{"data": [...], "layout": {...}}``. `Any`: JSON."""

ALGORITHM_COLOURS = ("#526175", "#0f766e", "#b45309", "#6d28d9", "#be185d", "#1d4ed8")
SITE_COLOURS = (
    "#1d4ed8",
    "#9333ea",
    "#0891b2",
    "#be185d",
    "#65a30d",
    "#4338ca",
    "#a16207",
    "#334155",
)
ALARM = "#dc2626"
ZONE_TINTS = {"safe": "#ecfdf5", "warning": "#fefce8", "danger": "#fff1e6", "critical": "#fdeaea"}


def colours(names: Sequence[str], palette: Sequence[str]) -> dict[str, str]:
    """A colour for each name; colours repeat if there are more names."""
    return {name: palette[i % len(palette)] for i, name in enumerate(names)}


def learning_curve(
    scenario: Scenario, colour: Mapping[str, str], measure: Measure = MEASURES["detection"]
) -> Figure:
    """The figure by round: the mean over seeds, with a band between the lowest and highest seed."""
    traces = [
        t
        for c in scenario.contenders
        for t in _banded(c, lambda row: float(getattr(row, measure.name)), colour[c.algorithm])
    ]
    if not measure.higher:
        return _figure(traces, y={"rangemode": "tozero", "title": {"text": measure.title}})
    return _figure(
        traces, y={"range": [0, 1.02], "tickformat": ".1f", "title": {"text": measure.title}}
    )


def violation_curve(scenario: Scenario, colour: Mapping[str, str]) -> Figure:
    """The violation rate by round with the four zones: worst site solid, mean over sites dotted."""
    traces: list[Figure] = []
    top = 0.2
    for contender in scenario.contenders:
        for read, dash, what in ((_worst, "solid", "worst site"), (_mean, "dot", "mean")):
            rounds, means, _, highest = contender.curve(read)
            if not rounds:
                continue
            top = max([top, *(highest if dash == "dot" else means)])
            line = {"color": colour[contender.algorithm], "width": 2, "dash": dash}
            traces.append(_line(f"{contender.name}, {what}", rounds, means, line, "%{y:.1%}"))
    top = min(1.0, top * 1.08)
    shapes = [_zone(name, low, min(high, top), top) for name, low, high, _ in ZONES if low < top]
    return _figure(
        traces,
        y={"range": [0, top], "tickformat": ".0%", "title": {"text": "rules violated"}},
        shapes=shapes,
    )


def weight_curve(
    contender: Contender, clients: Sequence[ClientRow], colour: Mapping[str, str], corrupted: str
) -> Figure:
    """Each site's weight in the common model by round, averaged over seeds.

    A corrupted site is red, with its share of the data dashed.
    """
    ids = {trial.id for trial in contender.trials}
    rows = [row for row in clients if row.trial in ids]
    traces = []
    for site in colour:
        rounds, weights = _mean_by_round(rows, site, lambda row: row.alpha)
        bad = site == corrupted
        line = {"color": ALARM if bad else colour[site], "width": 3.5 if bad else 1.5}
        traces.append(
            _line(f"{site} (corrupted)" if bad else site, rounds, weights, line, "%{y:.1%}")
        )
    if corrupted:
        rounds, shares = _mean_by_round(rows, corrupted, lambda row: row.share)
        line = {"color": ALARM, "width": 1.5, "dash": "dash"}
        traces.append(_line(f"{corrupted}, by data alone", rounds, shares, line, "%{y:.1%}"))
    return _figure(
        traces, y={"rangemode": "tozero", "tickformat": ".0%", "title": {"text": "weight"}}
    )


def weight_bars(
    scenario: Scenario,
    clients: Sequence[ClientRow],
    sites: Sequence[str],
    colour: Mapping[str, str],
) -> Figure:
    """Each site's mean weight over its rounds, with one bar per algorithm."""
    labels = [
        f"<b>{site} (corrupted)</b>" if site == scenario.corrupted else site for site in sites
    ]
    traces = []
    for contender in scenario.contenders:
        ids = {trial.id for trial in contender.trials}
        means = [
            mean(row.alpha for row in clients if row.trial in ids and row.client == site)
            for site in sites
        ]
        bars = {"type": "bar", "orientation": "h", "name": contender.name, "y": labels, "x": means}
        traces.append(
            bars | {"marker": {"color": colour[contender.algorithm]}, "hovertemplate": "%{x:.1%}"}
        )
    figure = _figure(traces, y={"autorange": "reversed"}, x_title="mean weight")
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    return {
        "data": traces,
        "layout": figure["layout"] | {"barmode": "group", "bargap": 0.35, "hovermode": "y unified"},
    }


def split_bars(sites: Mapping[str, Mapping[str, float]], event: str) -> Figure:
    """Rows of each site, with and without the label 1.

    Args:
        event: noun for a row labelled 1, such as ``failure``; "" for targets of another kind.
    """
    names = list(sites)
    positives = [sites[name].get("positives", 0) if event else 0 for name in names]
    counts = [
        (
            f"without {event}" if event else "rows",
            "#94a3b8",
            [sites[name]["rows"] - own for name, own in zip(names, positives, strict=True)],
        ),
        *([(event, ALARM, positives)] if event else []),
    ]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": label,
            "y": names,
            "x": values,
            "marker": {"color": tint},
            "hovertemplate": "%{x:,}",
        }
        for label, tint, values in counts
    ]
    figure = _figure(
        traces, y={"autorange": "reversed", "automargin": True}, x_title="rows of data"
    )
    figure["layout"] |= {
        "barmode": "stack",
        "hovermode": "y unified",
        "height": 60 + 30 * len(names),
    }
    return figure


def _worst(row: RoundRow) -> float:
    return row.rho_worst


def _mean(row: RoundRow) -> float:
    return row.rho_mean


def _banded(contender: Contender, read: Callable[[RoundRow], float], colour: str) -> list[Figure]:
    rounds, means, lows, highs = contender.curve(read)
    if not rounds:
        return []
    traces = [_line(contender.name, rounds, means, {"color": colour, "width": 2.25}, "%{y:.2f}")]
    if len(contender.trials) > 1:
        outline = {
            "x": [*rounds, *reversed(rounds)],
            "y": [*highs, *reversed(lows)],
            "fill": "toself",
            "fillcolor": _faint(colour),
        }
        traces.insert(
            0,
            {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
            | outline,
        )
    return traces


def _line(name: str, x: Sequence[int], y: Sequence[float], line: Figure, hover: str) -> Figure:
    mode = "lines" if len(x) > 1 else "markers"
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": line,
        "hovertemplate": hover,
    }


def _zone(name: str, low: float, high: float, top: float) -> Figure:
    """A zone behind the curves, labelled if there is room for text."""
    label = {
        "text": name,
        "textposition": "top left",
        "font": {"size": 11, "color": "#475569"},
        "padding": 4,
    }
    box = {
        "type": "rect",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": low,
        "y1": high,
        "layer": "below",
        "line": {"width": 0},
    }
    return box | {"fillcolor": ZONE_TINTS[name], "label": label if high - low > 0.08 * top else {}}


def _figure(
    traces: Sequence[Figure], *, y: Figure, x_title: str = "round", shapes: Sequence[Figure] = ()
) -> Figure:
    axis = {
        "fixedrange": True,
        "zeroline": False,
        "gridcolor": "#e8ecf1",
        "linecolor": "#cbd5e1",
        "automargin": True,
    }
    layout = {
        "height": 250,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "font": {
            "family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
            "size": 12,
            "color": "#475569",
        },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "x unified",
        "dragmode": False,
        "xaxis": axis | {"title": {"text": x_title, "standoff": 6}, "nticks": 6},
        "yaxis": axis | y,
        "shapes": list(shapes),
    }
    return {"data": list(traces), "layout": layout}


def _mean_by_round(
    rows: Sequence[ClientRow], site: str, read: Callable[[ClientRow], float]
) -> tuple[list[int], list[float]]:
    at: dict[int, list[float]] = {}
    for row in rows:
        if row.client == site and not math.isnan(value := read(row)):
            at.setdefault(row.round, []).append(value)
    rounds = sorted(at)
    return rounds, [math.fsum(at[n]) / len(at[n]) for n in rounds]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.14)"
