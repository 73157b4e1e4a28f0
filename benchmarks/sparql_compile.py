"""Compile 3,000 SPARQL violation queries over a plant of 10,000 entities, and parse them with
rdflib.

    python benchmarks/sparql_compile.py [--entities 10000] [--queries 3000] [--repeats 3]

Ours is the queries' share of `fedkg compile`: the processor time of compiling the plant's rules
with the queries, less that of the same rules without them. The graph is in a store on disk
(`fedkg graph load`) that an earlier compilation has closed. Each compilation is a new process with
an empty cache. The share contains reading the query files, splitting them, answering their static
parts from the graph, and writing the rows.

The peer does less work: rdflib parses and translates each query and answers none. Before the
timing, the rows of twenty queries are compared with the solutions of their static parts in
pyoxigraph. The floor reads the files. `compile_command.py` times the whole command, the graph
included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyoxigraph as ox
from compile_command import Bench
from reporting.rows import compare, limit

from fedkg.pack import Pack

TARGET_SECONDS = 4.0
RULES, QUERIES, STORE = "rules.fkg", "queries.fkg", "plant.store"


def parse_by_rdflib(paths: Sequence[Path]) -> None:
    """Parse and translate all queries."""
    from rdflib.plugins.sparql.algebra import translateQuery
    from rdflib.plugins.sparql.parser import parseQuery

    for path in paths:
        translateQuery(parseQuery(path.read_text(encoding="utf-8")))


def check_rows(pack: Pack, graph: Path, paths: Sequence[Path]) -> int:
    """Compare the bound rows of queries about one signal with the solutions of their static part.

    Returns:
        The number of queries that were compared.
    """
    store = ox.Store()
    store.bulk_load(path=str(graph), format=ox.RdfFormat.N_TRIPLES)
    names = [rule.name for rule in pack.manifest.rules]
    rows = Counter(names[place] for bank in pack.banks for place in bank.rule.tolist())
    chosen = [path for path in paths if path.name.startswith(("torque", "wear"))][:20]
    for path in chosen:
        static = (
            path.read_text(encoding="utf-8")
            .replace("; plant:torque ?t .", ".")
            .replace("; plant:toolWear ?w .", ".")
            .split("FILTER")[0]
        )
        solutions = store.query(static.replace("SELECT ?m ?t ", "SELECT ?m ?x ") + "}")
        assert isinstance(solutions, ox.QuerySolutions)
        assert rows[path.stem] == len({str(one) for one in solutions}), path
    return len(chosen)


def timed(work: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Check the rows, then time both sides in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        arguments = ["--entities", str(options.entities), "--queries", str(options.queries)]
        plant = json.loads(
            Bench(Path(name)).run("data", "plant", "plant", *arguments, "--rows", "1", "--json")
        )
        bench = Bench(Path(name) / "plant")
        paths = sorted((bench.folder / "legacy").glob("*.rq"))
        text = (bench.folder / "plant.fkg").read_text(encoding="utf-8")
        without = [line for line in text.splitlines() if not line.startswith("queries")]
        (bench.folder / RULES).write_text("\n".join(without) + "\n", encoding="utf-8")
        (bench.folder / QUERIES).write_text(text, encoding="utf-8")
        bench.run("graph", "load", STORE, "plant.nt")
        bench.compile([RULES, STORE], "first")  # closes the store
        bench.compile([QUERIES, STORE], "second")
        pack = bench.pack()
        checked = check_rows(pack, bench.folder / "plant.nt", paths)
        print(
            f"{plant['entities']:,} entities, {len(paths):,} queries, {pack.rows:,} bound rows in "
            f"{len(pack.banks)} banks; {checked} queries checked"
        )
        ours: list[float] = []
        peer: list[float] = []
        for turn in range(options.repeats):
            alone = bench.compile([RULES, STORE], f"rules_{turn}").cpu
            both = bench.compile([QUERIES, STORE], f"queries_{turn}").cpu
            ours.append(both - alone)
            peer.append(timed(lambda: parse_by_rdflib(paths)))
            print(f"  rules {alone:.2f} s, with queries {both:.2f} s, rdflib {peer[-1]:.2f} s")
        floor = timed(lambda: [path.read_bytes() for path in paths])
    print(
        f"Python {sys.version.split()[0]}, {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}; median {statistics.median(ours):.2f} s"
    )
    claim = (
        f"{len(paths):,} SPARQL rules over {plant['entities']:,} entities: their share of "
        "fedkg compile, CPU s"
    )
    rows = [
        limit(claim, ours, TARGET_SECONDS, floor=floor),
        compare(claim, ours, peer, "rdflib, parse and translate", floor=floor),
    ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
