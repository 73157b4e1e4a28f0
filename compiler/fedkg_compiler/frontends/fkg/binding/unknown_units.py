"""Diagnostics about unknown units in graphs and sheets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fedkg.units.text import UnitProblem

if TYPE_CHECKING:
    from fedkg_compiler.graph.graph import Graph

_IRI = re.compile(r"[A-Za-z][\w+.-]*:[^\s]+")


def strange_unit(
    problem: UnitProblem, text: str, given: str, graph: Graph | None
) -> tuple[str, str]:
    """Message and help for the unit `text`; `given` says who gives it: ``?limit comes in``, ``the
    graph gives ... the unit``.
    """
    if _IRI.fullmatch(text):
        near = None if graph is None else graph.nearest_unit(text)
        advice = (
            f"did you mean {near}?"
            if near
            else 'give the unit an `fkg:unitText` in the graph, as rule files write it: "N.m"'
        )
        return f"{given} <{text}>, and fedkg knows no unit with that IRI", advice
    advice = problem.advice or "docs/reference/units.md lists the units"
    return f"{given} `{text}`, which {problem.reason}", advice
