"""Compare SHACL validation of RDF files with the Rust engine `shacl`, pySHACL and SPARQL queries.

    python benchmarks/shacl_validation.py [--nodes 100000] [--repeats 3] [--pyshacl-nodes 20000]

Every side does the same work in a new process for each turn: start, read the shapes and the data
from disk, validate, and list each violation with its focus node, path and component as JSON. Ours
is `fedkg eval shapes.ttl data.nt --json`. Times are wall times.

The data has `--nodes` focus nodes with 20 properties. Each property shape has a datatype, a lower
and an upper bound, and every fourth one a `sh:lessThan`. One node in a hundred violates something.
pySHACL takes minutes for all nodes, so one row times it and fedkg on `--pyshacl-nodes` nodes;
nothing is scaled up. The SPARQL peer is a set of handwritten queries on pyoxigraph's store, and its
author needs to know the shapes in advance.

Before the timing, the lists of violations of all sides are compared. The floor is a process that
only parses the data with pyoxigraph.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from reporting.rows import Row, compare, missing, without_peer

P = 20
EX, XSD = "http://ex/", "http://www.w3.org/2001/XMLSchema#"
SH = "http://www.w3.org/ns/shacl#"
RUST_TARGET, SPARQL_TARGET, PYSHACL_TARGET = 1.0, 1.0, 50.0

Result = tuple[str, str, str]
"""Focus node, path, and name of the component, as in `minInclusive`."""


def write_files(nodes: int, folder: Path) -> tuple[Path, Path]:
    """Write the shapes and the data as N-Triples; return both paths."""
    dice = np.random.default_rng(1)
    values = np.sort(dice.uniform(0, 100, (nodes, P)), 1).round(3)
    faulty = dice.random(nodes) < 0.01
    faults = dict(
        zip(
            np.flatnonzero(faulty).tolist(),
            dice.integers(0, 4, int(faulty.sum())).tolist(),
            strict=True,
        )
    )
    shapes, data = folder / "shapes.ttl", folder / f"data{nodes}.nt"
    with data.open("w", encoding="utf-8") as out:
        for i in range(nodes):
            row, fault = values[i], faults.get(i)
            if fault == 0:
                row[0] = -5.0
            elif fault == 1:
                row[19] = 150.0
            elif fault == 3:
                row[8], row[9] = row[9], row[8] - 0.001
            texts = [f'"{value}"^^<{XSD}double>' for value in row.tolist()]
            if fault == 2:
                texts[5] = '"abc"'
            out.write(
                f"<{EX}n{i}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{EX}Node> .\n"
            )
            out.writelines(f"<{EX}n{i}> <{EX}p{j}> {text} .\n" for j, text in enumerate(texts))
    parts = (
        f"  sh:property [ sh:path ex:p{j} ; sh:datatype xsd:double ; sh:minInclusive 0.0e0 ; "
        "sh:maxInclusive 100.0e0" + (f" ; sh:lessThan ex:p{j + 1}" if j % 4 == 0 else "") + " ]"
        for j in range(P)
    )
    head = f"@prefix sh: <{SH}> .\n@prefix ex: <{EX}> .\n@prefix xsd: <{XSD}> .\n"
    shapes.write_text(
        f"{head}ex:S a sh:NodeShape ; sh:targetClass ex:Node ;\n" + " ;\n".join(parts) + " .\n",
        encoding="utf-8",
    )
    return shapes, data


def list_by_pyshacl(shapes: Path, data: Path) -> list[Result]:
    """The violations that pySHACL reports."""
    import pyshacl
    from rdflib import Graph, Namespace

    sh = Namespace(SH)
    graph = Graph().parse(data, format="nt")
    _, report, _ = pyshacl.validate(graph, shacl_graph=Graph().parse(shapes), inference="none")
    assert isinstance(report, Graph)
    return [
        (
            str(report.value(result, sh.focusNode)),
            str(report.value(result, sh.resultPath)),
            component_name(str(report.value(result, sh.sourceConstraintComponent))),
        )
        for result in report.objects(None, sh.result)
    ]


def list_by_rust(shapes: Path, data: Path) -> list[Result]:
    """The violations that the Rust engine `shacl` reports."""
    import shacl

    report = shacl.Shapes.from_file(str(shapes)).validate_file(str(data))
    return [
        (result.focus_node.strip("<>"), result.path.strip("<>"), component_name(result.component))
        for result in report.results
    ]


def list_by_sparql(shapes: Path, data: Path) -> list[Result]:
    """The violations that handwritten queries find on pyoxigraph's store.

    One query for the value constraints of each property, and one for each pair.
    """
    import pyoxigraph as ox

    store = ox.Store()
    store.bulk_load(path=str(data), format=ox.RdfFormat.N_TRIPLES)
    found: list[Result] = []
    tests = {
        "datatype": f"datatype(?v) != <{XSD}double>",
        "minInclusive": "!(COALESCE(?v >= 0.0e0, false))",
        "maxInclusive": "!(COALESCE(?v <= 100.0e0, false))",
    }
    named = " ".join(f"(({test}) AS ?{name})" for name, test in tests.items())
    for j in range(P):
        path = f"{EX}p{j}"
        rows = store.query(
            f"SELECT ?s {named} WHERE {{ ?s <{path}> ?v . FILTER({' || '.join(tests.values())}) "
            f"FILTER EXISTS {{ ?s a <{EX}Node> }} }}"
        )
        assert isinstance(rows, ox.QuerySolutions)
        for row in rows:
            found += [
                (row["s"].value, path, name)  # type: ignore[union-attr]
                for name in tests
                if row[name] is not None and row[name].value == "true"  # type: ignore[union-attr]
            ]
        if j % 4 == 0:
            rows = store.query(
                f"SELECT ?s WHERE {{ ?s <{path}> ?v ; <{EX}p{j + 1}> ?w . "
                "FILTER(!(COALESCE(?v < ?w, false))) "
                f"FILTER EXISTS {{ ?s a <{EX}Node> }} }}"
            )
            assert isinstance(rows, ox.QuerySolutions)
            nodes = [row["s"].value for row in rows]  # type: ignore[union-attr]
            found += [(node, path, "lessThan") for node in nodes]
    return found


def parse_only(shapes: Path, data: Path) -> list[Result]:
    """Parse the data and list nothing: the floor."""
    import pyoxigraph as ox

    for _ in ox.parse(path=str(data), format=ox.RdfFormat.N_TRIPLES):
        pass
    return []


SIDES: dict[str, Callable[[Path, Path], list[Result]]] = {
    "shacl (Rust)": list_by_rust,
    "pySHACL": list_by_pyshacl,
    "SPARQL on pyoxigraph": list_by_sparql,
    "floor": parse_only,
}
"""The other sides; each runs in a process with `--side`."""
NEEDED = {"shacl (Rust)": "shacl", "pySHACL": "pyshacl", "SPARQL on pyoxigraph": "pyoxigraph"}
"""The package of each peer."""


def component_name(iri: str) -> str:
    """``minInclusive`` of ``...#MinInclusiveConstraintComponent``."""
    name = iri.rsplit("#", 1)[-1].removesuffix("ConstraintComponent")
    return name[0].lower() + name[1:]


def run(side: str, shapes: Path, data: Path) -> tuple[float, list[Result]]:
    """Run a side in a new process. Return the wall time in seconds and the sorted violations."""
    command = [sys.executable, __file__, "--side", side, str(shapes), str(data)]
    if side == "fedkg":
        command = [sys.executable, "-m", "fedkg", "eval", str(shapes), str(data), "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(f"exit code {done.returncode}: {lines[-1] if lines else 'no output'}")
    found = json.loads(done.stdout)
    if side == "fedkg":
        found = [
            # the name of a rule is shape.path.component
            (result["entity"], EX + result["rule"].split(".")[1], result["rule"].split(".")[2])
            for evaluation in found["evaluations"]
            for result in evaluation["results"]
        ]
    return seconds, sorted((focus, path, name) for focus, path, name in found)


def compare_sides(
    shapes: Path, data: Path, targets: dict[str, float], repeats: int, nodes: int
) -> list[Row]:
    """Check that all sides list the same violations, time them in turn, and return the rows."""
    _, expected = run("fedkg", shapes, data)
    reasons: dict[str, str] = {}
    for side in targets:
        if importlib.util.find_spec(NEEDED[side]) is None:
            reasons[side] = missing(NEEDED[side])
            continue
        try:
            _, found = run(side, shapes, data)
        except RuntimeError as error:
            reasons[side] = f"failed: {error}"
            continue
        assert found == expected, (side, sorted({*found} ^ {*expected})[:5])
    sides = ["fedkg", *(side for side in targets if side not in reasons), "floor"]
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repeats):
        for side in sides:
            times[side].append(run(side, shapes, data)[0])
    print(f"{nodes:,} focus nodes, {P} property shapes, {len(expected):,} violations")
    for side, each in times.items():
        print(
            f"  {side:22s} {statistics.median(each):9.2f} s  ({min(each):.2f} .. {max(each):.2f})"
        )
    for side, reason in reasons.items():
        print(f"  {side:22s} {reason}")
    floor, rows = statistics.median(times["floor"]), []
    for side, target in targets.items():
        claim = f"SHACL, {nodes:,} focus nodes: files to list of violations, new process, s"
        rows.append(
            without_peer(
                claim, reasons[side], side, ours=times["fedkg"], target=target, floor=floor
            )
            if side in reasons
            else compare(claim, times["fedkg"], times[side], side, target=target, floor=floor)
        )
    return rows


def main() -> None:
    """Compare the results, then time all sides in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pyshacl-nodes", type=int, default=20_000)
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        side, shapes, data = options.side
        print(json.dumps(SIDES[side](Path(shapes), Path(data))))
        return
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}, pyoxigraph {version('pyoxigraph')}; "
        f"{options.repeats} turns"
    )
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        for nodes, targets in (
            (options.nodes, {"shacl (Rust)": RUST_TARGET, "SPARQL on pyoxigraph": SPARQL_TARGET}),
            (options.pyshacl_nodes, {"pySHACL": PYSHACL_TARGET}),
        ):
            shapes, data = write_files(nodes, Path(name))
            rows += compare_sides(shapes, data, targets, options.repeats, nodes)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
