"""Runs a test of the W3C SHACL suite through the compiler, twice: all static, and with data
properties moved into a table.

    python tests/compiler/shacl/shacl_suite.py

writes the list of tests and their engines into the reference.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from rdflib import RDF, BNode, Graph, Literal, Namespace, URIRef
from rdflib.term import Node
from shared import SHARED

from fedkg.evaluation import evaluate
from fedkg.tables import Table
from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation
from fedkg_compiler.frontends.shacl.shapes_graph_reader import quiet
from fedkg_compiler.frontends.shacl.validation import validate_graph
from fedkg_compiler.rdf_data_tables import FOCUS, class_table, read_subjects

PARTS = ("core", "sparql")
SUITE = SHARED / "ontologies" / "shacl-test-suite" / "tests"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "w3c-test-suites.md"
BEGIN, END = "<!-- suite: begin -->", "<!-- suite: end -->"
MF = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
SHT = Namespace("http://www.w3.org/ns/shacl-test#")
SH = Namespace("http://www.w3.org/ns/shacl#")
FKG = Namespace("https://w3id.org/fedkg/ns#")

STANDARD = (
    str(SH),
    str(MF),
    str(SHT),
    *("http://www.w3.org/" + name for name in ("1999/02/22-rdf", "2000/01/rdf", "2002/07/owl")),
)
"""Vocabularies with properties that are not data."""

KNOWN: dict[str, str] = {
    "core/property/uniqueLang-002": (
        'the graph store reads `"1"^^xsd:boolean` as `true`, but the suite distinguishes them'
    )
}
"""Tests with another verdict, and why."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One test; `conforms` is None if the suite expects the shapes to be rejected."""

    name: str
    manifest: Path
    data: Path
    shapes: Path
    conforms: bool | None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result: `rows` and `graph` count components; `refused` is the reason for a rejection."""

    conforms: bool | None
    rows: int = 0
    graph: int = 0
    refused: str = ""


def cases(part: str) -> list[Case]:
    """The tests of a part of the suite, by name."""
    found = []
    for path in sorted((SUITE / part).rglob("*.ttl")):
        graph = _parsed(path)
        for test in graph.subjects(RDF.type, SHT.Validate):
            action, result = graph.value(test, MF.action), graph.value(test, MF.result)
            data, shapes = (
                _file(graph.value(action, name), path) for name in (SHT.dataGraph, SHT.shapesGraph)
            )
            conforms = graph.value(result, SH.conforms)
            found.append(
                Case(
                    name=f"{path.parent.relative_to(SUITE).as_posix()}/{path.stem}",
                    manifest=path,
                    data=data,
                    shapes=shapes,
                    conforms=None if not isinstance(conforms, Literal) else bool(conforms.value),
                )
            )
    return found


def _parsed(path: Path) -> Graph:
    with quiet():
        return Graph().parse(path, publicID=f"file:///{path.name}")


def _file(node: Node | None, path: Path) -> Path:
    name = str(node).rsplit("/", 1)[-1] if node is not None else ""
    return (
        path.parent / name
        if name.endswith(".ttl")
        else path.parent / f"{name}.ttl"
        if name
        else path
    )


def on_the_graph(case: Case) -> Verdict:
    """The verdict with everything static: the graph decides."""
    return _verdict(compile_rules(graphs=list(dict.fromkeys((case.data, case.shapes)))), None)


def on_a_table(case: Case, folder: Path) -> Verdict:
    """The verdict with every data property that fits into a column in a table of the nodes.

    `refused` says why a test cannot be converted.
    """
    graph = _parsed(case.data)
    moved = observable(graph)
    if not moved:
        return Verdict(conforms=None, refused="no data property of named nodes")
    nodes = sorted(
        {
            node
            for node in (*graph.subjects(), *graph.objects(None, SH.targetNode))
            if isinstance(node, URIRef)
        }
    )
    rest = Graph()
    for triple in graph:
        if triple[1] not in moved:
            rest.add(triple)
    for node in nodes:
        rest.add((node, FKG.keyColumn, Literal(FOCUS)))
        rest.add((node, FKG.keyValue, Literal(str(node))))
    lines = folder / "data.nt"
    graph.serialize(lines, format="nt", encoding="utf-8")
    found, _ = read_subjects(lines, [str(predicate) for predicate in moved], {})
    assert found is not None
    rows = [found.names.setdefault(str(node), len(found.names)) for node in nodes]
    part = class_table(found, "", np.array(rows, dtype=np.int64), case.name, categories=True)
    if not part.turtle:
        return Verdict(conforms=None, refused="no property fits into columns")
    for predicate, _ in part.left_out:
        for triple in graph.triples((None, URIRef(predicate), None)):
            rest.add(triple)
    data, columns = folder / f"{case.data.stem}.ttl", folder / "columns.ttl"
    data.write_text(rest.serialize(format="turtle"), encoding="utf-8")
    columns.write_text(part.turtle, encoding="utf-8")
    shapes = data if case.shapes == case.data else case.shapes
    return _verdict(compile_rules(graphs=list(dict.fromkeys((data, shapes, columns)))), part.table)


def observable(graph: Graph) -> list[URIRef]:
    """The properties with literals among their values, of named nodes."""
    found = []
    shapes = {
        node
        for shape in graph.subjects(RDF.type, SH.NodeShape)
        for node in graph.objects(shape, SH.property)
    }
    for predicate in sorted({p for p in graph.predicates() if isinstance(p, URIRef)}):
        if str(predicate).startswith(STANDARD):
            continue
        pairs = list(graph.subject_objects(predicate))
        if not any(isinstance(s, BNode) or s in shapes for s, _ in pairs) and any(
            isinstance(o, Literal) for _, o in pairs
        ):
            found.append(predicate)
    return found


COMPARED = (
    *("focusNode", "resultPath", "resultSeverity", "sourceConstraintComponent", "sourceShape"),
    "value",
)
"""The properties of a result that the suite compares; messages are compared where it gives some."""


def reports(case: Case) -> tuple[Graph | None, Graph | None]:
    """The report that the suite expects and that of `fedkg validate`, reduced to what is compared.

    None if the shapes are rejected.
    """
    found = validate_graph([case.data], [case.shapes]).report
    manifest = _parsed(case.manifest)
    test = next(iter(manifest.subjects(RDF.type, SHT.Validate)))
    report = manifest.value(test, MF.result)
    assert report is not None
    messages = any(
        (result, SH.resultMessage, None) in manifest
        for result in manifest.objects(report, SH.result)
    )
    expected = None if case.conforms is None else _reduced(manifest, report, messages)
    if found is None:
        return expected, None
    graph = found.graph()
    (root,) = graph.subjects(RDF.type, SH.ValidationReport)
    return expected, _reduced(graph, root, messages)


def _reduced(graph: Graph, report: Node, messages: bool) -> Graph:
    """The triples of a report that are compared."""
    found = Graph()
    for value in graph.objects(report, SH.conforms):
        found.add((report, SH.conforms, value))
    for result in graph.objects(report, SH.result):
        found.add((report, SH.result, result))
        for name in (*COMPARED, *(["resultMessage"] if messages else [])):
            for value in graph.objects(result, SH[name]):
                found.add((result, SH[name], value))
                if name == "resultPath":
                    _copy(graph, value, found)
    return found


def _copy(graph: Graph, node: Node, into: Graph) -> None:
    """Copy the description of a blank node, such as a path."""
    for triple in graph.triples((node, None, None)) if isinstance(node, BNode) else ():
        if triple not in into:
            into.add(triple)
            _copy(graph, triple[2], into)


def _verdict(compilation: Compilation, table: Table | None) -> Verdict:
    errors = [
        item
        for item in compilation.diagnostics
        if item.severity == "error" and item.code != "FKG310"
    ]
    if errors:
        return Verdict(conforms=None, refused=errors[0].message)
    refused = [item for item in compilation.diagnostics if item.code in ("FKG312", "FKG313")]
    if refused:
        return Verdict(conforms=None, refused=refused[0].message)
    broken = any(item.code == "FKG310" for item in compilation.diagnostics)
    pack = compilation.pack
    if pack is None:
        return Verdict(conforms=False, graph=1)
    where = [placement.where for placement in pack.manifest.placements]
    if table is not None and pack.rows:
        broken = broken or any(rule.violated for rule in evaluate(pack, table).rules)
    return Verdict(conforms=not broken, rows=where.count("rows"), graph=where.count("graph"))


def run(case: Case, folder: Path) -> tuple[Verdict, Verdict]:
    """Both verdicts."""
    return on_the_graph(case), on_a_table(case, folder)


def table_line(case: Case, graph: Verdict, table: Verdict) -> str:
    """The line of the reference for one test."""
    expected = {True: "conforms", False: "violated", None: "rejected"}[case.conforms]
    on_rows = table.rows and table.conforms is not None
    where = (
        "graph"
        if not on_rows
        else "rows of a table and graph"
        if table.graph
        else "rows of a table"
    )
    if case.name in KNOWN:
        where = f"other verdict: {KNOWN[case.name]}"
    return f"| `{case.name}` | {expected} | {where} |"


def page_table(folder: Path) -> str:
    """The table of the reference."""
    lines = ["| test | expected | decided on |", "|---|---|---|"]
    lines += [table_line(case, *run(case, folder)) for part in PARTS for case in cases(part)]
    return "\n".join(lines)


def main() -> None:
    """Write the table into the reference."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        table = page_table(Path(folder))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
