# ruff: noqa: E402  (the modules of the suites are in folders of their own)
"""Each query and shape of the W3C suites has one outcome: rows, a verdict or a refusal.

The record in the pack, and the rows of the compilation, say the same as the outcome.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shared import SHARED, needs_shared

sys.path[:0] = [str(Path(__file__).parent / name) for name in ("sparql", "shacl")]

import shacl_suite
import sparql_suite

from fedkg_compiler import compile_rules
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.shacl.bind import ShapesBinder
from fedkg_compiler.frontends.sparql.query_binder import QueryBinder
from fedkg_compiler.ir import BankRows, GraphVerdict, PartOutcome, Refusal, placement_of

HERE = Span(file="q.rq", line=2, column=1, end_line=2, end_column=4)
SHAPES = """@prefix : <https://x.org/p#> . @prefix sh: <http://www.w3.org/ns/shacl#> .
:Empty a sh:NodeShape ; sh:targetClass :Mill .
:NoTarget a sh:NodeShape ; sh:property [ sh:path :max ; sh:minCount 1 ] .
:Alone a sh:NodeShape .
:Off a sh:NodeShape ; sh:deactivated true ; sh:targetClass :Mill ; sh:class :Press .
:NoComponent a sh:NodeShape ; sh:targetClass :Mill ; sh:property [ sh:path :max ] .
:Circle a sh:NodeShape ; sh:targetClass :Mill ; sh:property :Ring .
:Ring a sh:PropertyShape ; sh:path :max ; sh:property :Ring .
:M1 a :Mill ; :max 60 .
"""


def test_an_outcome_cannot_say_nothing() -> None:
    with pytest.raises(ValueError, match="has no rows"):
        BankRows(part="q", rows=())
    with pytest.raises(ValueError, match="without a reason"):
        Refusal(part="q", span=HERE, reason="")
    with pytest.raises(ValueError, match="is off"):
        GraphVerdict(part="q", conforms=False, reason="no target", is_on=False)


@pytest.mark.parametrize(
    ("outcome", "where", "conforms"),
    [
        (GraphVerdict(part="q", conforms=False), "graph", False),
        (GraphVerdict(part="q", conforms=True, reason="no target", is_on=False), "off", None),
        (Refusal(part="q", span=HERE, reason="NOW() changes"), "refused", None),
    ],
)
def test_the_pack_records_an_outcome(
    outcome: PartOutcome, where: str, conforms: bool | None
) -> None:
    record = placement_of(outcome, "q.rq")
    assert (record.where, record.conforms, record.reason) == (where, conforms, outcome.reason)


@pytest.fixture
def binders(monkeypatch: pytest.MonkeyPatch) -> list[QueryBinder | ShapesBinder]:
    """The binders of all compilations of a test, in order."""
    found: list[QueryBinder | ShapesBinder] = []
    for kind in (QueryBinder, ShapesBinder):
        bind = kind.bind

        def bind_and_keep(self, *args, _bind=bind):
            found.append(self)
            self.program = _bind(self, *args)
            return self.program

        monkeypatch.setattr(kind, "bind", bind_and_keep)
    return found


def check(outcome: PartOutcome, binder: QueryBinder | ShapesBinder) -> None:
    """An outcome is what the compilation did."""
    match outcome:
        case BankRows():
            kept = {id(row) for row in binder.program.rows}
            assert all(id(row) in kept for row in outcome.rows)
        case Refusal():
            assert outcome.span.line >= 1
            assert outcome.span.file
        case GraphVerdict():
            assert outcome.conforms or outcome.is_on


def check_shapes(binder: ShapesBinder) -> None:
    """Each component has one outcome, and so has each shape without components."""
    for shape in binder.shapes.shapes.values():
        for constraint in shape.constraints:
            if constraint.name != "property":
                check(binder.placed[shape.node, constraint], binder)
    named = {node for node, _ in binder.placed}
    for shape in binder.shapes.shapes.values():
        inner = [one.values[0] for one in shape.constraints if one.name == "property"]
        assert shape.node in named or any(node in binder.shapes.shapes for node in inner)


def test_a_shape_that_checks_nothing_is_recorded(
    tmp_path: Path, binders: list[QueryBinder | ShapesBinder]
) -> None:
    (tmp_path / "s.ttl").write_text(SHAPES, encoding="utf-8")
    pack = compile_rules(graphs=[tmp_path / "s.ttl"]).pack
    assert pack is not None
    assert {(one.part, one.where, one.reason) for one in pack.manifest.placements} == {
        ("Empty", "off", "it has no constraints"),
        ("NoTarget.max.minCount", "off", "no target leads to it"),
        ("Alone", "off", "it has no constraints"),
        ("Off.class", "off", "the shape is deactivated"),
        ("NoComponent", "off", "it has no constraints"),
        ("NoComponent.max", "off", "it has no constraints"),
        ("Circle", "off", "it has no constraints"),
        ("Ring.max", "off", "it has no constraints"),
    }
    (binder,) = binders
    assert isinstance(binder, ShapesBinder)
    check_shapes(binder)


def test_shapes_that_check_nothing_at_all_are_an_error(tmp_path: Path) -> None:
    text = SHAPES.split(":NoTarget")[0]
    (tmp_path / "s.ttl").write_text(text, encoding="utf-8")
    found = compile_rules(graphs=[tmp_path / "s.ttl"])
    assert found.pack is None
    assert any(one.severity == "error" for one in found.diagnostics)


@needs_shared
@pytest.mark.slow
def test_each_query_of_the_suite_has_one_outcome(
    tmp_path: Path, binders: list[QueryBinder | ShapesBinder]
) -> None:
    count = 0
    for folder in sparql_suite.FOLDERS:
        for data, paths in sparql_suite.queries_of(
            SHARED / "ontologies" / "sparql11-test-suite" / folder, "QueryEvaluationTest"
        ).items():
            graph, _ = sparql_suite.split_data(data)
            (tmp_path / "g.ttl").write_text(graph, encoding="utf-8")
            names = [f"q{i}" for i in range(len(paths))]
            for name, path in zip(names, paths, strict=True):
                (tmp_path / f"{name}.rq").write_text(path.read_text(encoding="utf-8"), "utf-8")
            files = [tmp_path / f"{name}.rq" for name in names]
            found = compile_rules([*files, tmp_path / "g.ttl"], check_only=True)
            binder = binders.pop()
            assert isinstance(binder, QueryBinder)
            assert sorted(binder.outcomes) == sorted(names)
            for name, outcome in binder.outcomes.items():
                check(outcome, binder)
                refused = any(
                    one.severity == "error" and Path(one.span.file).stem == name
                    for one in found.diagnostics
                )
                assert refused == isinstance(outcome, Refusal)
            count += len(names)
    assert count == 225


@needs_shared
@pytest.mark.slow
def test_each_shape_of_the_suite_has_one_outcome(binders: list[QueryBinder | ShapesBinder]) -> None:
    for part in shacl_suite.PARTS:
        for case in shacl_suite.cases(part):
            compile_rules(graphs=list(dict.fromkeys((case.data, case.shapes))))
    kept = [binder for binder in binders if isinstance(binder, ShapesBinder)]
    for binder in kept:
        check_shapes(binder)
    assert len(kept) > 100
