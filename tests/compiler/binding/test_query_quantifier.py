"""``for ?m, ?max in query "machines.rq"``: the rows of a SELECT in a separate file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation

GRAPH = """@prefix plant: <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:M1 a plant:Machine ; plant:max 50 . plant:M2 a plant:Machine ; plant:max 60 .
plant:M3 a plant:Machine .
"""
QUERY = """# limits of machines
PREFIX p: <https://example.org/plant#>
SELECT ?m (?high AS ?max) WHERE {
  ?m a p:Machine ; plant:max ?high .
}
"""
RULE = (
    "prefix plant: <https://example.org/plant#>\nsignal torque in N.m\nrule r for ?m, ?max in query"
    ' "sub/q.rq" require torque <= ?max\n'
)


def compiled(folder: Path, query: str, rule: str = RULE) -> Compilation:
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "sub" / "q.rq").write_text(query, encoding="utf-8")
    (folder / "g.ttl").write_text(GRAPH, encoding="utf-8")
    (folder / "r.fkg").write_text(rule, encoding="utf-8")
    return compile_rules([folder / "r.fkg"], graphs=[folder / "g.ttl"], reason=False)


def test_the_rows_of_a_query_file(tmp_path: Path) -> None:
    """Prefixes of the query and of the rule file hold in it."""
    compilation = compiled(tmp_path, QUERY)
    assert compilation.pack is not None, compilation.diagnostics
    bank = compilation.pack.banks[0]
    assert [compilation.pack.manifest.entities[i] for i in bank.entity.tolist()] == ["M1", "M2"]
    assert sorted(set(bank.params.ravel().tolist()) - {1.0}) == [50, 60]
    assert ("q.rq", "query") in [
        (source.name, source.kind) for source in compilation.pack.manifest.provenance.sources
    ]


@pytest.mark.parametrize(
    ("query", "code", "file", "line", "column"),
    [
        ("SELECT ?m ?maximum WHERE { ?m plant:max ?maximum }", "FKG285", "r.fkg", 3, 16),
        ("SELECT ?m ?max WHERE {\n  ?m plant:mx ?max }", "FKG112", "q.rq", 2, 6),
        ("SELECT ?m ?max WHERE {\n  ?m plan:max ?max }", "FKG110", "q.rq", 2, 6),
        ("SELECT ?m ?max WHERE {\n  ?m plant:max ?max ;; . ?m ?max }", "FKG150", "q.rq", 2, 34),
        ("ASK { ?m plant:max ?max }", "FKG284", "q.rq", 1, 1),
        ("", "FKG284", "q.rq", 1, 1),
        (
            "SELECT ?m ?max WHERE {\n ?m plant:max ?max SERVICE <http://x.org/> { ?a ?b ?c } }",
            "FKG152",
            "q.rq",
            2,
            20,
        ),
    ],
)
def test_an_error_points_to_the_wrong_part_of_the_query(
    query: str, code: str, file: str, line: int, column: int, tmp_path: Path
) -> None:
    found = next(item for item in compiled(tmp_path, query).diagnostics if item.code == code)
    assert (Path(found.span.file).name, found.span.line, found.span.column) == (file, line, column)


def test_a_query_that_is_not_there(tmp_path: Path) -> None:
    compilation = compiled(tmp_path, QUERY, RULE.replace("sub/q.rq", "q.rq"))
    assert [item.code for item in compilation.diagnostics] == ["FKG283"]
    assert compilation.pack is None
