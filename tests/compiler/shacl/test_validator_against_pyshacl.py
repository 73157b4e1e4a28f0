"""Random shapes on random graphs: `fedkg validate` gives the results that pySHACL gives.

Results are compared as sets of focus node, component, source shape, value and path; all blank paths
are equal. The data has no booleans: pySHACL compares them with numbers, and SPARQL does not.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyshacl
import pytest
from rdflib import BNode, Graph, Namespace
from rdflib.term import Node
from shacl_grammar import random_shapes, shape_graph
from shacl_plant import HEAD

from fedkg_compiler.frontends.shacl.shapes_graph_reader import Step
from fedkg_compiler.frontends.shacl.validation import validate_graph

SH = Namespace("http://www.w3.org/ns/shacl#")
Row = tuple[str | None, ...]

VALUES = {
    "pressure": ("1", "4.0", "5.5", "6.0e0", '"high"'),
    "level": ("2", "3.5", "5.5", '"7"', "-1"),
    "state": ('"On"', '"off"', '"On"@en', '"in"@en-gb', "plant:Steel"),
    "note": ('"ok"@en', '"gut"@de', '"ok"@fr', '"plain"'),
    "material": ("plant:Steel", "plant:Brass", "plant:Pine", "[]", '"wood"'),
    "feeds": ("plant:p0", "plant:p1", "plant:p2", "plant:p3"),
}
CLASSES = """
plant:Steel a plant:Iron . plant:Brass a plant:Metal . plant:Pine a plant:Wood .
plant:Iron rdfs:subClassOf plant:Metal .
"""


def random_data(dice: Random) -> str:
    """Turtle of four pumps with up to two values of each property."""
    lines = [HEAD, CLASSES]
    for i in range(4):
        lines.append(f"plant:p{i} a plant:Pump .")
        for name, values in VALUES.items():
            chosen = dice.sample(values, dice.choice((0, 1, 1, 2)))
            lines += [f"plant:p{i} plant:{name} {value} ." for value in chosen]
    return "\n".join(lines)


def shown(node: Node | None) -> str | None:
    return None if node is None else "blank" if isinstance(node, BNode) else node.n3()


def by_fedkg(data: Path, shapes: Path) -> set[Row]:
    report = validate_graph([data], [shapes]).report
    assert report is not None
    return {
        (
            *(shown(one) for one in (result.focus, result.component, result.shape, result.value)),
            shown(result.path.property)
            if isinstance(result.path, Step)
            else result.path and "blank",
        )
        for result in report.results
    }


def by_pyshacl(data: Path, shapes: Path) -> set[Row]:
    graph = Graph().parse(data)
    known = Graph().parse(shapes)
    _, report, _ = pyshacl.validate(graph, shacl_graph=known, inference="none", advanced=True)
    assert isinstance(report, Graph)
    names = (SH.focusNode, SH.sourceConstraintComponent, SH.sourceShape, SH.value, SH.resultPath)
    return {
        tuple(shown(report.value(result, name)) for name in names)
        for result in report.objects(None, SH.result)
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_results_are_those_of_pyshacl(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)
    data, shapes = tmp_path / "data.ttl", tmp_path / "shapes.ttl"
    data.write_text(random_data(dice), encoding="utf-8")
    shapes.write_text(shape_graph(random_shapes(dice, 40)), encoding="utf-8")
    ours, theirs = by_fedkg(data, shapes), by_pyshacl(data, shapes)
    assert sorted(map(str, ours - theirs)) == []
    assert sorted(map(str, theirs - ours)) == []
