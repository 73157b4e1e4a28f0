"""The shapes that others publish: Schema.org's and AMMO's compile, and no part of them is
dropped.
"""

from __future__ import annotations

from collections import Counter

import pytest
from rdflib import URIRef
from shared import SHARED, needs_shared

from fedkg_compiler.frontends.shacl.shapes_graph_reader import read_shapes
from fedkg_compiler.pipeline import compile_rules

pytestmark = [needs_shared, pytest.mark.slow]

SCHEMA = SHARED / "ontologies/schemaorg"
AMMO = SHARED / "ontologies/ammo"


def test_all_node_shapes_of_schema_org_compile() -> None:
    path = SCHEMA / "schemaorg-shapes.shacl"
    shapes, problems = read_shapes(path)
    assert shapes is not None
    assert [problem for problem in problems if problem.severity == "error"] == []
    kind, node_shape = (
        URIRef("http://www.w3.org/1999/02/22-rdf-syntax-ns#type"),
        URIRef("http://www.w3.org/ns/shacl#NodeShape"),
    )
    assert sum(1 for _ in shapes.graph.subjects(kind, node_shape)) == 1014
    assert all(node in shapes.shapes for node in shapes.graph.subjects(kind, node_shape))
    found = compile_rules([SCHEMA / "schemaorg-current-https.ttl"], text=f'shapes "{path}"\n')
    assert found.pack is not None
    assert Counter(placement.where for placement in found.pack.manifest.placements)["refused"] == 0
    assert len(found.pack.manifest.placements) > 5000


def test_the_shapes_of_ammo_compile() -> None:
    found = compile_rules([AMMO / "ammo-0.6.0-shapes.ttl", AMMO / "ammo-0.6.0-merged.ttl"])
    assert found.pack is not None
    placements = found.pack.manifest.placements
    assert sum(placement.where == "graph" for placement in placements) > 0
    refused = [placement.part for placement in placements if placement.where == "refused"]
    assert refused == [
        "DesignedComponentShape.TargetClass"
    ]  # as published: SHACL has `sh:targetClass`, and this one targets nothing
