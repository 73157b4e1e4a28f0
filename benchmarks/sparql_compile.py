"""Compiling 3,000 SPARQL violation queries over a plant of 10,000 entities, against rdflib.

    python benchmarks/sparql_compile.py [--entities 10000] [--queries 3000] [--repeats 3]

Ours does all the work: read the files, recognise shapes, split the queries, query the graph, and
build the formulas and the pack's banks. The peer is what any tool based on rdflib has to do first:
parse and translate each query (50 of them are measured and scaled up). Loading the plant and the
ontologies is shown separately. Before the benchmark measures time, it compares the rows of twenty
queries with the store's answers to the original queries. `legacy_compile.py` times the whole
command, up to 100,000 rows.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

from fedkg.data.plant import write_plant
from fedkg_compiler.binding.column_places import Sources
from fedkg_compiler.binding.column_registry import Book
from fedkg_compiler.binding.outcome import Outcome
from fedkg_compiler.binding.problems import Problems
from fedkg_compiler.binding.symbol_table import Names, Timing
from fedkg_compiler.lowering.banks import lower
from fedkg_compiler.ontology import Graph, load_graph
from fedkg_compiler.sparql import bind_queries, query_loads

TARGET_SECONDS = 4.0


def compiled(graph: Graph, paths: list[Path]) -> tuple[float, int, int, Outcome]:
    """Processor seconds, bound rows and banks of all queries.

    Garbage collection is off, as in the compiler.
    """
    gc.disable()
    start = time.process_time()
    problems, book, outcome = Problems(), Book(), Outcome()
    sources = Sources(names=Names(), graph=graph, book=book, problems=problems)
    bind_queries(query_loads(paths), sources, outcome)
    names = list(dict.fromkeys(part.rule.name for part in outcome.rows))
    lowered = lower(outcome.rows, (), {name: i for i, name in enumerate(names)}, book, Timing())
    seconds = time.process_time() - start
    gc.enable()
    assert not problems.failed, [item for item in problems.all() if item.severity == "error"][:3]
    return seconds, sum(bank.rows for bank in lowered.banks), len(lowered.banks), outcome


def by_rdflib(paths: list[Path]) -> float:
    """Seconds that rdflib takes to parse and translate all queries, from a sample of 50."""
    from rdflib.plugins.sparql.algebra import translateQuery
    from rdflib.plugins.sparql.parser import parseQuery

    sample = paths[:: max(1, len(paths) // 50)][:50]
    start = time.process_time()
    for path in sample:
        translateQuery(parseQuery(path.read_text(encoding="utf-8")))
    return (time.process_time() - start) / len(sample) * len(paths)


def check(graph: Graph, paths: list[Path], outcome: Outcome) -> int:
    """Compare the rows of queries about one line with the solutions of their static part."""
    rows: dict[str, int] = {}
    for part in outcome.rows:
        rows[part.rule.name] = rows.get(part.rule.name, 0) + part.rows.count
    checked = 0
    for path in [path for path in paths if path.name.startswith(("torque", "wear"))][:20]:
        text = path.read_text(encoding="utf-8")
        static = (
            text.replace("; plant:torque ?t .", ".")
            .replace("; plant:toolWear ?w .", ".")
            .split("FILTER")[0]
        )
        static = static.replace("SELECT ?m ?t ", "SELECT ?m ?x ") + "}"
        head, _, body = static.partition("SELECT")
        assert rows.get(path.stem, 0) == len(set(graph.answers(head + "SELECT" + body))), path
        checked += 1
    return checked


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plant = write_plant(
            folder, entities=options.entities, count=options.queries, rows=0, seed=0
        )
        paths = sorted((folder / "legacy").glob("*.rq"))
        start = time.process_time()
        graph, _, _ = load_graph([], {}, [folder / "plant.nt"])
        loading = time.process_time() - start
        print(
            f"{plant.entities:,} entities, {len(paths):,} queries, {len(graph):,} triples with the closure, loaded in {loading:.2f} s"
        )
        _, rows, banks, outcome = compiled(graph, paths)
        print(
            f"{rows:,} bound rows in {banks} banks; {check(graph, paths, outcome)} queries checked against the store"
        )
        ours, peer = [], []
        for _ in range(options.repeats):
            ours.append(compiled(graph, paths)[0])
            peer.append(by_rdflib(paths))
        ratio = statistics.median(b / a for a, b in zip(ours, peer, strict=True))
        print(
            f"compiled: median {statistics.median(ours):.2f} s ({min(ours):.2f} .. {max(ours):.2f})"
        )
        print(
            f"rdflib, parse and translate alone: median {statistics.median(peer):.2f} s ({min(peer):.2f} .. {max(peer):.2f})"
        )
        start = time.process_time()
        for path in paths:
            path.read_bytes()
        floor = time.process_time() - start
    load = os.getloadavg()[0]
    print(
        f"Python {sys.version.split()[0]}, {platform.machine()}, {os.cpu_count()} cores, load {load:.1f}"
    )
    claim = f"{len(paths):,} SPARQL rules over {plant.entities:,} entities, the part that is ours"
    result = {
        "claim": claim,
        "ours": round(statistics.median(ours), 3),
        "peer": round(statistics.median(peer), 3),
        "peer_name": "rdflib parse and translate",
        "ratio": round(ratio, 2),
        "target": TARGET_SECONDS,
        "holds": statistics.median(ours) < TARGET_SECONDS,
        "floor": round(floor, 3),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
