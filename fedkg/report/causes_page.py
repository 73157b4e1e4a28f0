"""The report of a causal discovery: graph, tables and losses in one self-contained HTML file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkg._internal.html_templates import template_environment
from fedkg.report.charts import SITE_COLOURS, colours

HERE = Path(__file__).parent
SIZE, RADIUS = 520, 200
"""Side length of the drawing in pixels, and radius of the circle of clients."""
NODE = (52, 17)
"""Half the width and height of a client's box."""
TIP = 14
"""Length of an arrow head, which extends beyond the end of its line."""
CROWDED = 8
"""With more clients than this the drawing omits edges that are not significant."""
WIDTH, HEIGHT, LEFT, FOOT = 640, 220, 44, 24
"""Size of the loss chart in pixels, and its left and bottom margins."""
COLOURS = {"server": "#b45309"}
"""Fixed colours of curves; other curves use the colours of sites."""


def causes_page(results: Mapping[str, Any], losses: Sequence[Mapping[str, Any]]) -> str:
    """The page as HTML. `Any`: JSON as in `results.json`.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    environment = template_environment(HERE, "the report")
    from markupsafe import Markup

    safe = json.dumps({"reached": results["reached"]}, ensure_ascii=False).replace("<", "\\u003c")
    return environment.get_template("causes.html.j2").render(
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),
        results=results,
        drawing=drawing(list(results["clients"]), results["edges"], results["level"]),
        curves=curves(losses),
        data=Markup(safe),
        size=SIZE,
        chart={
            "width": WIDTH,
            "height": HEIGHT,
            "left": LEFT,
            "right": WIDTH - 8,
            "epochs": (losses[0]["epoch"], losses[-1]["epoch"]) if losses else (),
            "marks": [
                {"y": _loss_height(share), "text": f"{share:.0%}"} for share in (0.0, 0.5, 1.0)
            ],
        },
    )


def drawing(
    clients: Sequence[str], edges: Sequence[Mapping[str, Any]], level: float
) -> dict[str, Any]:
    """Positions of clients and arrows. `Any`: JSON.

    Significant edges are solid; the width of an arrow shows its strength.
    """
    spots = {
        name: (
            SIZE / 2 + RADIUS * math.sin(2 * math.pi * place / len(clients)),
            SIZE / 2 - RADIUS * math.cos(2 * math.pi * place / len(clients)),
        )
        for place, name in enumerate(clients)
    }
    most = max((edge["reference"] for edge in edges), default=1.0) or 1.0
    arrows = []
    for edge in edges:
        sure = edge["adjusted"] is not None and edge["adjusted"] <= level
        if not sure and len(clients) > CROWDED:
            continue
        (x0, y0), (x1, y1) = spots[edge["driver"]], spots[edge["driven"]]
        distance = math.hypot(x1 - x0, y1 - y0)
        ux, uy = (x1 - x0) / distance, (y1 - y0) / distance
        bend = 22  # to the left, so that the arrows of both directions do not overlap
        middle = ((x0 + x1) / 2 - bend * uy, (y0 + y1) / 2 + bend * ux)
        start, end = _edge_of_box((x0, y0), middle, 4), _edge_of_box((x1, y1), middle, TIP)
        title = (
            f"{edge['driver']} drives {edge['driven']}: reference {edge['reference']:.3g}, "
            f"lag {edge['lag']}"
        )
        title += "" if edge["adjusted"] is None else f", p = {edge['adjusted']:.3g} corrected"
        arrows.append(
            {
                "path": (
                    f"M{start[0]:.1f},{start[1]:.1f} Q{middle[0]:.1f},{middle[1]:.1f} "
                    f"{end[0]:.1f},{end[1]:.1f}"
                ),
                "width": f"{1 + 5 * edge['reference'] / most:.1f}",
                "sure": sure,
                "title": title,
                "driver": edge["driver"],
                "driven": edge["driven"],
            }
        )
    return {
        "clients": [
            {"name": name, "x": f"{x:.1f}", "y": f"{y:.1f}"} for name, (x, y) in spots.items()
        ],
        "arrows": arrows,
    }


def _edge_of_box(
    spot: tuple[float, float], towards: tuple[float, float], gap: float
) -> tuple[float, float]:
    """The point at a distance `gap` outside a client's box, on the line towards another point."""
    x, y = towards[0] - spot[0], towards[1] - spot[1]
    way = math.hypot(x, y)
    edge = min(
        half * way / abs(along) if along else math.inf
        for half, along in zip(NODE, (x, y), strict=True)
    )
    return spot[0] + (edge + gap) * x / way, spot[1] + (edge + gap) * y / way


def _loss_height(share: float) -> float:
    """The vertical position of a share of the largest loss."""
    return round(HEIGHT - FOOT - (HEIGHT - FOOT - 10) * share, 1)


def curves(losses: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """A curve for each loss over the epochs, as a share of its maximum. `Any`: numbers."""
    if len(losses) < 2:
        return []
    made = []
    names = [name for name in losses[0] if name != "epoch"]
    tints = colours([name for name in names if name not in COLOURS], SITE_COLOURS) | COLOURS
    for name in names:
        values = [float(row[name]) for row in losses]
        top = max(values) or 1.0
        span = WIDTH - 8 - LEFT
        points = " ".join(
            f"{LEFT + place * span / (len(values) - 1):.1f},{_loss_height(value / top):.1f}"
            for place, value in enumerate(values)
        )
        made.append(
            {
                "name": name,
                "colour": tints[name],
                "points": points,
                "first": f"{values[0]:.4g}",
                "last": f"{values[-1]:.4g}",
            }
        )
    return made
