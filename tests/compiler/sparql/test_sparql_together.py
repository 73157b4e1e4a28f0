"""Many queries in one run do not affect each other.

Diagnostics name each by a file that can be opened.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sparql_cases import HEAD, PREFIX, sensors

from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation

GRAPH = (
    HEAD
    + sensors([("m1", "t"), ("m2", "t")])
    + (
        "p:m1 a p:Mill ; p:max 60 ; p:in p:a, p:b ; p:feeds p:m2, p:m3 . "
        "p:m2 a p:Mill ; p:max 65 ; p:in p:b ; p:feeds p:m1 ."
        'p:K fkg:keyColumn "k" . p:k1 a p:K ; p:in p:a . '
        "p:k2 a p:K ; p:in p:c . p:k3 a p:K ; p:in p:c ."
        'p:u a sosa:ObservableProperty ; fkg:column "u" .'
    )
)


def compile_queries(folder: Path, **queries: str) -> Compilation:
    """Compile a rule file, one folder up, that names all queries."""
    (folder / "legacy").mkdir()
    for name, body in queries.items():
        (folder / "legacy" / f"{name}.rq").write_text(PREFIX + body, encoding="utf-8")
    (folder / "g.ttl").write_text(GRAPH, encoding="utf-8")
    (folder / "r.fkg").write_text('queries "legacy/*.rq"\n', encoding="utf-8")
    return compile_rules([folder / "r.fkg", folder / "g.ttl"])


def test_every_problem_is_reported_in_one_run(tmp_path: Path) -> None:
    gathered = (
        "SELECT (SUM(?v) AS ?s) WHERE {{ ?m p:in p:{} ; p:u ?v . ?n p:in p:c ; p:u ?w }}"
        " HAVING (SUM(?v * ?w) > 3)"
    )
    found = compile_queries(
        tmp_path,
        apart=gathered.format("c"),
        none=gathered.format("b"),  # only p:u of p:c has columns
        wrong="SELECT ?m WHERE { ?m p:t ?v FILTER ?v > 3 }",
        text='SELECT ?m WHERE { ?m p:t ?v FILTER(regex(str(?v), "6")) }',
        fine="SELECT ?m WHERE { ?m p:t ?v FILTER(?v > 60) }",
        nothing="SELECT ?m WHERE { ?m p:in p:a ; p:t ?v ; p:max ?x FILTER(?x > 70 && ?v > 3) }",
    )
    assert found.pack is None
    said = {Path(item.span.file).stem: item.code for item in found.diagnostics}
    assert said == {
        "apart": "FKG346",
        "wrong": "FKG341",
        "text": "FKG343",
        "nothing": "FKG350",
        "none": "FKG350",
    }


def test_what_the_graph_answers_to_one_query_refuses_no_other(tmp_path: Path) -> None:
    body = (
        "SELECT ?a WHERE {{ ?a p:max ?x FILTER NOT EXISTS {{ ?m p:in p:{} ; p:u ?v . ?n p:in p:{} ;"
        " p:u ?w FILTER(?w > ?v) }} }}"
    )
    alike = {f"q_{name}": body.format(name, "c") for name in ("a", "b", "c")}
    found = compile_queries(tmp_path, **alike)
    refused = {Path(item.span.file).stem for item in found.diagnostics if item.severity == "error"}
    assert refused == {
        "q_a",
        "q_c",
    }  # p:b has no member with a key, so no solution reads two rows there


def test_limits_of_groups_differ_between_queries_of_one_shape(tmp_path: Path) -> None:
    body = "SELECT ?m WHERE {{ ?m p:feeds ?n }} GROUP BY ?m HAVING (COUNT(?n) > {})"
    found = compile_queries(tmp_path, one=body.format(0), two=body.format(1), three=body.format(2))
    said = {
        Path(item.span.file).stem: item.message.partition("`: ")[2]
        for item in found.diagnostics
        if item.code == "FKG348"
    }
    assert said == {"one": "m1; m2", "two": "m1"}


def test_files_are_named_as_they_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    found = compile_queries(
        Path("sub"),
        high="SELECT ?m WHERE { ?m p:t ?v FILTER(?v > 60) }",
        low="SELECT ?m WHERE { ?m p:t ?v FILTER(?v < 70) }",
        odd="SELECT ?m WHERE { ?m p:max ?v FILTER(?v > 1) }",
    )
    files = {item.code: item.span.file for item in found.diagnostics}
    assert {"FKG500", "FKG348"} <= set(files)
    assert all(Path(item.span.file).is_file() for item in found.diagnostics)
    (conflict,) = [item for item in found.diagnostics if item.code == "FKG500"]
    assert [(item.span.file, item.span.line) for item in conflict.related] == [
        (str(Path("sub/legacy/high.rq")), 2)
    ]
