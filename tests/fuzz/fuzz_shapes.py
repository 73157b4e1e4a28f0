"""Compare generated shapes with pySHACL: `make fuzz`.

A batch of 12 shapes and two rows of a table is drawn from its seed; the grammar is in
``tests/compiler/shacl/shacl_grammar.py``. A case is one
shape on both rows: equal if fedkg and pySHACL find the same focus nodes in each, refused if the
compiler rejects it with a reason.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1] / "compiler" / "shacl")]

from fuzz_queries import Counts, main, reason_of  # noqa: E402  # the path comes first
from rdflib import Graph  # noqa: E402
from shacl_grammar import random_shapes, shape_graph  # noqa: E402
from shacl_plant import compile_shapes, dealt, ours, theirs  # noqa: E402

from fedkg_compiler.diagnostics.record import Diagnostic  # noqa: E402

RECORD = Path(__file__).with_name("shapes.json")

VIOLATED = "FKG310"
"""A shape that the graph alone violates."""

REFUSALS = ("FKG312", "FKG313", "FKG316")
"""Warnings that a part of a shape is not checked."""


def run(seeds: Iterator[int]) -> Counts:
    """Run one batch of shapes for each seed."""
    counts = Counts()
    for seed in seeds:
        _batch(seed, counts)
    return counts


def _batch(number: int, outcome: Counts) -> None:
    """Add what a batch finds."""
    dice = Random(number)
    bodies, rows = random_shapes(dice, 12), dealt(number, 2)
    outcome.cases += len(bodies)
    decided: set[tuple[int, str]] = set()
    refused: dict[int, Diagnostic] = {}
    apart: set[int] = set()
    with tempfile.TemporaryDirectory() as folder:
        while True:  # of several shapes that the graph violates alike, the compiler names one
            kept = ["sh:nodeKind sh:IRI" if i in apart else body for i, body in enumerate(bodies)]
            found = compile_shapes(Path(folder), shape_graph(kept))
            for problem in found.diagnostics:
                named = re.search(r"\bS(\d+)\b", problem.message)
                if problem.code == VIOLATED:  # whatever the table says
                    assert named, problem
                    nodes = re.findall(r"\bP\d\b", problem.message)
                    decided |= {(int(named[1]), node) for node in nodes}
                elif problem.severity == "error" or problem.code in REFUSALS:
                    assert named, problem
                    refused.setdefault(int(named[1]), problem)
            if apart == (apart := refused.keys() | {shape for shape, _ in decided}):
                break
    outcome.refused.update(
        reason_of(problem.code, re.sub(r"\bP?\d+\b|\bS\d+\S*", "_", problem.message))
        for problem in refused.values()
    )
    assert found.pack is not None, found.diagnostics
    mine = ours(found.pack, rows)
    other = theirs(Graph().parse(data=shape_graph(bodies), format="turtle"), rows)
    for i, body in enumerate(bodies):
        own, expected = ({one for one in side if one[1] == f"S{i}"} for side in (mine, other))
        nodes = {node for shape, node in decided if shape == i}
        whole = {(row, f"S{i}", node) for row in range(len(rows)) for node in nodes}
        equal = whole <= expected if nodes else own == expected
        if i not in refused and not equal:
            outcome.different.append(f"seed {number}: {body}\n{own}\n{expected}")


if __name__ == "__main__":
    sys.exit(main(run, RECORD))
