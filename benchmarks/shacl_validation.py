"""SHACL as data validation: 100,000 focus nodes x 20 property shapes, against pySHACL, SPARQL on pyoxigraph and the Rust engine `shacl`.

    python benchmarks/shacl_validation.py [--nodes 100000] [--repeats 3] [--pyshacl-nodes 500]

Every property shape has a datatype, a lower and an upper bound; every fourth one a `sh:lessThan`. One node in a hundred breaks something.
The result set (focus node, component, path) is compared with pySHACL's on a small share of the nodes, and with the SPARQL queries' counts
on all of them, before anything is timed. pySHACL takes minutes for all nodes: it is timed on a share. The engine `shacl` comes with the
extra `bench`; where it cannot be imported, the claims against it are reported as not measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyoxigraph as ox

from fedkg.evaluation.violations import violations
from fedkg.pack import Pack
from fedkg.tables import Table
from fedkg_compiler.shacl.rdf_rows import compile_for_rdf

P = 20
EX, XSD = "http://ex/", "http://www.w3.org/2001/XMLSchema#"
RUST = "shacl (Rust)"

Result = tuple[str, str, str]


def write(nodes: int, folder: Path) -> tuple[Path, Path]:
    """The data as N-Triples, and the shapes."""
    dice = np.random.default_rng(1)
    values = np.sort(dice.uniform(0, 100, (nodes, P)), 1).round(3)
    kinds = dict(
        zip(
            np.flatnonzero(bad := dice.random(nodes) < 0.01).tolist(),
            dice.integers(0, 4, int(bad.sum())).tolist(),
            strict=True,
        )
    )
    data, shapes = folder / f"d{nodes}.nt", folder / "shapes.ttl"
    with data.open("w", encoding="utf-8") as out:
        for i in range(nodes):
            row, kind = values[i], kinds.get(i)
            if kind == 0:
                row[0] = -5.0
            elif kind == 1:
                row[19] = 150.0
            elif kind == 3:
                row[8], row[9] = row[9], row[8] - 0.001
            texts = [f'"{value}"^^<{XSD}double>' for value in row.tolist()]
            if kind == 2:
                texts[5] = '"abc"'
            out.write(
                f"<{EX}n{i}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{EX}Node> .\n"
            )
            out.writelines(f"<{EX}n{i}> <{EX}p{j}> {text} .\n" for j, text in enumerate(texts))
    parts = (
        f"  sh:property [ sh:path ex:p{j} ; sh:datatype xsd:double ; sh:minInclusive 0.0e0 ; sh:maxInclusive 100.0e0"
        + (f" ; sh:lessThan ex:p{j + 1}" if j % 4 == 0 else "")
        + " ]"
        for j in range(P)
    )
    head = f"@prefix sh: <http://www.w3.org/ns/shacl#> .\n@prefix ex: <{EX}> .\n@prefix xsd: <{XSD}> .\n"
    shapes.write_text(
        f"{head}ex:S a sh:NodeShape ; sh:targetClass ex:Node ;\n" + " ;\n".join(parts) + " .\n",
        encoding="utf-8",
    )
    return data, shapes


def ours(pack: Pack, table: Table) -> set[Result]:
    """Focus node, path and component of every violation."""
    found, focus = violations(pack, table), table.texts("focus node")
    names = [tuple(rule.name.split(".")[1:3]) for rule in pack.manifest.rules]
    return {
        (focus[row], names[rule][0], names[rule][1])
        for rule, row in zip(found.rule.tolist(), found.row.tolist(), strict=True)
    }


def from_file(shapes: Path, data: Path) -> int:
    """Everything from the file on; the number of violations."""
    [(_, pack, table)] = compile_for_rdf([shapes], data).parts
    return len(ours(pack, table))


def pyshacl_results(shapes: Path, data: Path) -> set[Result]:
    """The same with pySHACL."""
    import pyshacl
    from rdflib import Graph, Namespace

    sh = Namespace("http://www.w3.org/ns/shacl#")
    graph = Graph().parse(data, format="nt")
    _, report, _ = pyshacl.validate(graph, shacl_graph=Graph().parse(shapes), inference="none")
    assert isinstance(report, Graph)
    found = set()
    for result in report.objects(None, sh.result):
        component = (
            str(report.value(result, sh.sourceConstraintComponent))
            .rsplit("#", 1)[1]
            .removesuffix("ConstraintComponent")
        )
        path = str(report.value(result, sh.resultPath)).removeprefix(EX)
        found.add(
            (str(report.value(result, sh.focusNode)), path, component[0].lower() + component[1:])
        )
    return found


def sparql(data: Path) -> int:
    """The same in SPARQL, one query for each property's value constraints and one for each pair, on pyoxigraph's store."""
    store = ox.Store()
    store.bulk_load(path=str(data), format=ox.RdfFormat.N_TRIPLES)
    found = 0
    for j in range(P):
        wrong = {
            "datatype": f"datatype(?v) != <{XSD}double>",
            "low": "!(COALESCE(?v >= 0.0e0, false))",
            "high": "!(COALESCE(?v <= 100.0e0, false))",
        }
        counts = " ".join(f"(SUM(IF({text}, 1, 0)) AS ?{name})" for name, text in wrong.items())
        query = f"SELECT {counts} WHERE {{ ?s <{EX}p{j}> ?v . FILTER({' || '.join(wrong.values())}) FILTER EXISTS {{ ?s a <{EX}Node> }} }}"
        rows = store.query(query)
        assert isinstance(rows, ox.QuerySolutions)
        for row in rows:
            found += sum(int(str(row[name].value)) for name in wrong if row[name] is not None)  # type: ignore[union-attr]
        if j % 4 == 0:
            pair = f"?s <{EX}p{j}> ?v ; <{EX}p{j + 1}> ?w . FILTER(!(COALESCE(?v < ?w, false))) FILTER EXISTS {{ ?s a <{EX}Node> }}"
            rows = store.query(f"SELECT ?s WHERE {{ {pair} }}")
            assert isinstance(rows, ox.QuerySolutions)
            found += sum(1 for _ in rows)
    return found


def rust(shapes: Path, data: Path) -> Callable[[], int] | None:
    """The Rust engine, or None where it is not installed."""
    try:
        shacl = importlib.import_module("shacl")
    except ImportError:
        return None
    return lambda: len(shacl.Shapes.from_file(str(shapes)).validate_file(str(data)))


def floor(data: Path) -> float:
    """Seconds to stream the file through pyoxigraph's parser."""
    begun = time.perf_counter()
    for _ in ox.parse(path=str(data), format=ox.RdfFormat.N_TRIPLES):
        pass
    return time.perf_counter() - begun


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def claim(
    text: str, mine: Sequence[float], peer: Sequence[float], name: str, target: float, least: float
) -> dict[str, object]:
    ratio = statistics.median(a / b for a, b in zip(peer, mine, strict=True))
    return {
        "claim": text,
        "ours": statistics.median(mine),
        "peer": statistics.median(peer),
        "peer_name": name,
        "ratio": round(ratio, 1),
        "target": target,
        "holds": ratio >= target,
        "floor": least,
    }


def not_measured(
    text: str, mine: Sequence[float], target: float, least: float
) -> dict[str, object]:
    """A claim against the Rust engine where that is not installed: it does not hold, for want of a measurement."""
    return {
        "claim": text,
        "ours": statistics.median(mine),
        "peer": None,
        "peer_name": RUST,
        "ratio": None,
        "target": target,
        "holds": False,
        "floor": least,
        "reason": "not measured: the package shacl is not installed (pip install 'fedkg[bench]')",
    }


def main() -> None:
    """Compare, then time in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pyshacl-nodes", type=int, default=500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        small, shapes = write(arguments.pyshacl_nodes, Path(name))
        data, shapes = write(arguments.nodes, Path(name))
        [(_, pack, table)] = compile_for_rdf([shapes], small).parts
        assert ours(pack, table) == pyshacl_results(shapes, small), "ours and pySHACL differ"
        [(_, pack, table)] = compile_for_rdf([shapes], data).parts
        count = len(ours(pack, table))
        assert count == sparql(data), "ours and SPARQL differ"
        engine = rust(shapes, data)
        assert engine is None or engine() == count
        times: dict[str, list[float]] = {
            "file": [],
            "table": [],
            "sparql": [],
            "pyshacl": [],
            "rust": [],
            "floor": [],
        }
        for _ in range(arguments.repeats):
            times["file"].append(timed(lambda: from_file(shapes, data)))
            times["sparql"].append(timed(lambda: sparql(data)))
            times["table"].append(timed(lambda: ours(pack, table)))
            times["pyshacl"].append(
                timed(lambda: pyshacl_results(shapes, small))
                * arguments.nodes
                / arguments.pyshacl_nodes
            )
            times["floor"].append(floor(data))
            if engine is not None:
                times["rust"].append(timed(engine))
    load = os.getloadavg()[0]
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}, pyoxigraph {ox.__version__}"
    )
    print(
        f"{arguments.nodes:,} focus nodes, {P} property shapes, {count:,} violations; {arguments.repeats} turns\n"
    )
    labels = {
        "file": "ours, from the file",
        "table": "ours, from a table",
        "sparql": "SPARQL on pyoxigraph, from the file",
        "pyshacl": f"pyshacl, {arguments.pyshacl_nodes} nodes scaled up",
        "rust": RUST,
        "floor": "floor: the parser alone",
    }
    for key, label in labels.items():
        if not times[key]:
            print(f"  {label:52s} not measured: the package is not installed")
            continue
        print(
            f"  {label:52s} {statistics.median(times[key]):9.3f} s  ({min(times[key]):.3f} .. {max(times[key]):.3f})"
        )
    least = statistics.median(times["floor"])
    from_file_claim, from_table_claim = (
        "SHACL from N-Triples, load included",
        "SHACL from a table in memory",
    )
    if engine is not None:
        against_rust = [
            claim(from_file_claim, times["file"], times["rust"], RUST, 1.0, least),
            claim(from_table_claim, times["table"], times["rust"], RUST, 50.0, 0.0),
        ]
    else:
        against_rust = [
            not_measured(from_file_claim, times["file"], 1.0, least),
            not_measured(from_table_claim, times["table"], 50.0, 0.0),
        ]
    others = [
        claim(
            "SHACL from N-Triples against merged SPARQL",
            times["file"],
            times["sparql"],
            "SPARQL on pyoxigraph",
            1.0,
            least,
        ),
        claim(
            "SHACL from N-Triples against pyshacl",
            times["file"],
            times["pyshacl"],
            "pyshacl, scaled up",
            50.0,
            least,
        ),
    ]
    print(json.dumps([*against_rust, *others]))


if __name__ == "__main__":
    main()
