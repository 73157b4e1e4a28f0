"""Assigns diagnostics of nested components to the component that contains them."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from rdflib import BNode
from rdflib.term import Node

from fedkg_compiler.frontends.fkg.binding.part_outcomes import (
    NO_CONSTRAINTS,
    GraphVerdict,
    PartOutcome,
)
from fedkg_compiler.frontends.shacl.model import (
    SHAPE_VALUED,
    Constraint,
    Shape,
    ShapesFile,
    path_text,
)
from fedkg_compiler.frontends.shacl.shape_names import part_name

Placed = dict[tuple[Node, Constraint | None], PartOutcome]
"""The outcome of each component of a shape, and of a shape without components (None)."""


def place_inner(shapes: ShapesFile, placed: Placed) -> None:
    """Give every component and shape that has no outcome yet the one that it has.

    Components inside others share the outcome of the nearest of those. What nothing reaches is off,
    and so is a shape without components.
    """
    inside: dict[Node, tuple[PartOutcome, str]] = {}
    waiting = deque(
        (constraint, outcome)
        for (_, constraint), outcome in placed.items()
        if constraint is not None
    )
    while waiting:
        constraint, outcome = waiting.popleft()
        for node in constraint.values if constraint.name in SHAPE_VALUED else ():
            inner = shapes.shapes.get(node)
            if inner is None or node in inside:
                continue
            inside[node] = (outcome, constraint.name)
            waiting += [(item, outcome) for item in inner.constraints]
    for shape in shapes.shapes.values():
        for constraint in shape.constraints:
            key = shape.node, constraint
            if key in placed or constraint.name == "property":
                continue
            name = part_name(
                shape, path := "" if shape.path is None else path_text(shape.path), constraint.name
            )
            if shape.node in inside:
                outer, word = inside[shape.node]
                reason = (
                    f"part of {outer.part}"
                    if outer.part.endswith(word)
                    else f"part of sh:{word} in {outer.part}"
                )
                if isinstance(shape.node, BNode):
                    name = ".".join(
                        filter(
                            None, (outer.part.removesuffix(f".{word}"), word, path, constraint.name)
                        )
                    )
                placed[key] = replace(outer, part=name, reason=reason)
                continue
            reason = "it is deactivated" if constraint.deactivated else "no target leads to it"
            reason = "the shape is deactivated" if shape.deactivated else reason
            placed[key] = GraphVerdict(part=name, conforms=True, reason=reason, is_on=False)
        if not _has_components(shapes, shape, set()):
            name = part_name(shape, "" if shape.path is None else path_text(shape.path), "")
            placed[shape.node, None] = GraphVerdict(
                part=name, conforms=True, reason=NO_CONSTRAINTS, is_on=False
            )


def _has_components(shapes: ShapesFile, shape: Shape, above: set[Node]) -> bool:
    """Whether a shape or a property shape inside it has a component."""
    if shape.node in above:
        return False
    inner = [
        shapes.shapes.get(one.values[0]) for one in shape.constraints if one.name == "property"
    ]
    return any(one.name != "property" for one in shape.constraints) or any(
        one is None or _has_components(shapes, one, above | {shape.node}) for one in inner
    )
