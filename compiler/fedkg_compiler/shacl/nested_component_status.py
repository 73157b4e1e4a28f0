"""Assigns diagnostics of nested components to the component that contains them."""

from __future__ import annotations

from collections import deque

from rdflib import BNode
from rdflib.term import Node

from fedkg.pack import Placement
from fedkg_compiler.shacl.model import SHAPE_VALUED, Constraint, ShapesFile, path_text
from fedkg_compiler.shacl.shape_names import part_name


def place_inner(
    shapes: ShapesFile, placed: dict[tuple[Node, Constraint], Placement], file: str
) -> None:
    """Components inside others share the place of the nearest of those.

    What nothing reaches is off.
    """
    inside: dict[Node, tuple[Placement, str]] = {}
    waiting = deque((constraint, placement) for (_, constraint), placement in placed.items())
    while waiting:
        constraint, placement = waiting.popleft()
        for node in constraint.values if constraint.name in SHAPE_VALUED else ():
            inner = shapes.shapes.get(node)
            if inner is None or node in inside:
                continue
            inside[node] = (placement, constraint.name)
            waiting += [(item, placement) for item in inner.constraints]
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
                placed[key] = outer.model_copy(update={"part": name, "reason": reason})
                continue
            reason = "it is deactivated" if constraint.deactivated else "no target leads to it"
            reason = "the shape is deactivated" if shape.deactivated else reason
            placed[key] = Placement(source=file, part=name, where="off", reason=reason)
