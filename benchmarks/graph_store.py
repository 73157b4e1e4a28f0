"""Load a plant's graph of a million triples into a store on disk, and compile rules that read it.

    python benchmarks/graph_store.py [--triples 1000000] [--repeats 3]

The graph is one file of N-Triples: the example graphs of the rule library, copied with machines,
tools, limits and products of their copy (3 %); machines with their place in the plant and their
sensors (27 %); observations of the sensors (70 %). As N-Quads, its triples lie in the default graph
and in twelve named graphs, those of a subject together.

Every turn of a side is a new process, start-up included; times are processor time of all threads.
Python's compiled files are retained, as in installed programs.

- *Load*: `fedkg graph load`, which checks the triples, sorts them, computes their checksum, and
  writes them so that a crash leaves the store intact, against `Store.bulk_load` of pyoxigraph.
- *Query*: `fedkg compile` of a rule with one bound row for each machine, after a change of the
  rule's limit, on the store that an earlier compilation has closed. What that compilation asked is
  recorded beside the closure, the solutions of the rule's pattern among it. The peer is
  pyoxigraph, which opens its store, answers the query and lists the solutions; its process imports
  nothing of fedkg. fedkg also finds columns and units, analyses the rule and writes the pack.
- *Another pattern*: the same after a change of the pattern, of which no solutions are recorded.
- *Unchanged*: the same compilation again, without any change.
- *First*: the same compilation the first time, which indexes and closes the store. No other program
  does this work.

Before the timing, the numbers of triples and of solutions of both sides are compared. The floor of
loading is one read of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Set
from pathlib import Path

import pyoxigraph as ox
from reporting.rows import Row, compare, without_peer

PLANT = "https://example.org/plant#"
SOSA, FKG, RDFS = (
    "http://www.w3.org/ns/sosa/",
    "https://w3id.org/fedkg/ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
)
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
ISA95 = "http://www.w3id.org/hsu-aut/DINEN62264-2#"
RULES = Path(__file__).resolve().parents[1] / "rules"
LOAD_TARGET = 1 / 1.3
"""Loading takes at most 1.3 times as long as pyoxigraph's bulk load."""
QUERY_TARGET = 1 / 2
"""A later compilation takes at most twice as long as pyoxigraph takes to answer the query."""
LIMITS = "graph=4GB,query=60"
"""Limits of fedkg that a graph of this size needs."""
PEER = "pyoxigraph"
SENSORS = f"?s a <{SOSA}Sensor> ; <{SOSA}observes> <{PLANT}vibration>"
OWN_RULE = f"""prefix plant: <{PLANT}>
prefix sosa: <{SOSA}>
rule calm for ?s where {{ ?s a sosa:Sensor ; sosa:observes plant:vibration }}
  require value(?s) <= """
"""A rule without its limit, with one bound row for each machine's sensor."""
GRAPHS = 12
"""Named graphs of the N-Quads."""
FORMATS = {".nt": ox.RdfFormat.N_TRIPLES, ".nq": ox.RdfFormat.N_QUADS}


def generated(triples: int) -> Iterator[str]:
    """The lines of a plant's graph."""
    examples = [
        list(ox.parse(path=str(path), format=ox.RdfFormat.TURTLE))
        for path in sorted(RULES.glob("*/*.ttl"))
        if "shapes" not in path.name
    ]
    size = sum(map(len, examples))
    count, said = 0, max(size, triples * 3 // 100)
    for copy in range(said // size):
        for quads in examples:
            shared = _shared(quads)
            for quad in quads:
                yield (
                    f"{_own(quad.subject, copy, shared)} {quad.predicate}"
                    f" {_own(quad.object, copy, shared)} ."
                )
                count += 1
    machine = 0
    while count < triples * 30 // 100:
        me, sensor = f"<{PLANT}machine{machine}>", f"<{PLANT}machine{machine}_t>"
        yield f"{me} {TYPE} <{ISA95}Work_Cell> ."
        yield f'{me} <{RDFS}label> "machine {machine}" .'
        yield f"{me} <{ISA95}isPartOf> <{PLANT}line{machine // 10}> ."
        yield f"{sensor} {TYPE} <{SOSA}Sensor> ."
        yield f"{sensor} <{SOSA}isHostedBy> {me} ."
        yield f"{sensor} <{SOSA}observes> <{PLANT}vibration> ."
        yield f'{sensor} <{FKG}column> "machine{machine}.v" .'
        count += 7
        machine += 1
    seen = 0
    while count < triples:
        one = f"<{PLANT}seen{seen}>"
        yield f"{one} {TYPE} <{SOSA}Observation> ."
        yield f"{one} <{SOSA}madeBySensor> <{PLANT}machine{seen % max(machine, 1)}_t> ."
        yield (
            f"{one} <{SOSA}hasSimpleResult>"
            f' "{seen % 977 / 10}"^^<http://www.w3.org/2001/XMLSchema#double> .'
        )
        yield (
            f"{one} <{SOSA}resultTime>"
            f' "2024-03-{1 + seen % 28:02}T08:{seen % 60:02}:00Z"'
            "^^<http://www.w3.org/2001/XMLSchema#dateTime> ."
        )
        count += 4
        seen += 1


def in_named_graphs(line: str) -> str:
    """A line of N-Triples as N-Quads: in the graph of its subject; blank nodes, which are named
    within a file, stay in the default graph.
    """
    subject, _, _ = line.partition(" ")
    number = 0 if "_:" in line else zlib.crc32(subject.encode()) % (GRAPHS + 1)
    return f"{line[:-1]}<{PLANT}graph{number}> ." if number else line


def _shared(quads: list[ox.Quad]) -> Set[object]:
    """What a plant has once.

    Properties that are observed or limited, and what has a column without being a sensor.
    """
    sensors = {quad.subject for quad in quads if quad.object == ox.NamedNode(SOSA + "Sensor")}
    named = {
        quad.object for quad in quads if quad.predicate.value in (SOSA + "observes", FKG + "limits")
    }
    return (
        named | {quad.subject for quad in quads if quad.predicate.value == FKG + "column"}
    ) - sensors


def _own(node: object, copy: int, shared: Set[object]) -> str:
    if isinstance(node, ox.BlankNode):
        return f"_:c{copy}x{node.value}"
    if isinstance(node, ox.NamedNode) and node.value.startswith(PLANT) and node not in shared:
        return f"<{node.value}_{copy}>"
    return str(node)


def bulk_load(file: Path, folder: Path) -> int:
    """Load a file into a store of pyoxigraph on disk; return the number of triples."""
    store = ox.Store(str(folder))
    store.bulk_load(path=str(file), format=FORMATS[file.suffix])
    store.flush()
    return len(store)


def list_solutions(folder: Path) -> int:
    """Open a store of pyoxigraph and list the solutions of the query; return their number."""
    solutions = ox.Store(str(folder)).query(f"SELECT DISTINCT ?s WHERE {{ {SENSORS} }}")
    assert isinstance(solutions, ox.QuerySolutions)
    return len([str(one["s"]) for one in solutions])


def run(command: list[str], caches: Path) -> tuple[float, str]:
    """Run a command in a new process. Return its processor time in seconds and its output.

    Args:
        caches: the folder for compiled files of Python, and for the caches of fedkg.
    """
    settings = os.environ | {
        "FEDKG_LIMITS": LIMITS,
        "XDG_CACHE_HOME": str(caches),
        "PYTHONPYCACHEPREFIX": str(caches / "python"),
    }
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-2000:]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def fedkg(caches: Path, *arguments: object) -> tuple[float, str]:
    """Run a `fedkg` command, as `run`."""
    return run([sys.executable, "-m", "fedkg", *map(str, arguments)], caches)


def peer(caches: Path, *arguments: object) -> tuple[float, str]:
    """Run a function of this file with pyoxigraph in a new process, as `run`."""
    return run([sys.executable, __file__, "--side", *map(str, arguments)], caches)


def show(what: str, values: list[float]) -> None:
    """Print median, smallest and largest."""
    print(
        f"  {what:44s} {statistics.median(values):8.2f} s  ({min(values):.2f} .."
        f" {max(values):.2f})",
        flush=True,
    )


def compare_loads(file: Path, folder: Path, count: int, repeats: int) -> Row:
    """Time both loads in turn."""
    start = time.process_time()
    file.read_bytes()
    floor = time.process_time() - start
    ours: list[float] = []
    theirs: list[float] = []
    caches, kind = folder / "caches", file.suffix[1:]
    one = folder / f"one{file.suffix}"
    one.write_text(f"<{PLANT}one> <{PLANT}is> <{PLANT}one> .\n", encoding="utf-8")
    fedkg(caches, "graph", "load", folder / f"{kind}.store", one)  # writes Python's compiled files
    peer(caches, "load", one, folder / kind)
    for turn in range(repeats):
        own, other = folder / f"{kind}{turn}.store", folder / f"{kind}{turn}"
        seconds, output = fedkg(caches, "graph", "load", own, file, "--json")
        assert json.loads(output)["loaded"]["triples"] == count
        ours.append(seconds)
        seconds, output = peer(caches, "load", file, other)
        assert int(output) == count
        theirs.append(seconds)
        if turn:
            shutil.rmtree(own)
            shutil.rmtree(other)
    show(f"fedkg graph load, {kind}", ours)
    show(f"pyoxigraph bulk_load, {kind}", theirs)
    named = f" in {GRAPHS} named graphs" if file.suffix == ".nq" else ""
    claim = f"{count:,} triples{named} from a file into a store on disk, CPU s"
    return compare(claim, ours, theirs, f"{PEER} bulk_load", target=LOAD_TARGET, floor=floor)


def compare_queries(folder: Path, count: int, repeats: int) -> list[Row]:
    """Compile rules on the store of the first turn, and query that of pyoxigraph."""
    store, other, caches = folder / "nt0.store", folder / "nt0", folder / "caches"
    rules = folder / "rules.fkg"

    def compile_on_store(limit: int, variable: str = "?s") -> tuple[float, str]:
        text = f"{OWN_RULE}{limit}\n".replace("?s", variable)
        rules.write_text(text, encoding="utf-8")
        return fedkg(caches, "compile", rules, store, "-o", folder / "calm.fkgpack", "--json")

    compile_on_store(0)  # writes Python's compiled files
    from fedkg_compiler.graph.stores.folder import CLOSED  # not in the processes of the peer

    shutil.rmtree(store / CLOSED)
    first, _ = compile_on_store(1)
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(repeats):
        seconds, output = compile_on_store(2 + turn)
        ours.append(seconds)
        bound = json.loads(output)["bound_rows"]
        seconds, output = peer(caches, "query", other, "-")
        theirs.append(seconds)
        assert bound == int(output), (bound, output)
    unchanged = [compile_on_store(1 + repeats)[0] for _ in range(repeats)]
    other_patterns = [compile_on_store(1, f"?t{turn}")[0] for turn in range(repeats)]
    show("fedkg compile, another pattern", other_patterns)
    show("fedkg compile, first time", [first])
    show(f"fedkg compile, {bound:,} bound rows", ours)
    show("fedkg compile, nothing changed", unchanged)
    show(f"pyoxigraph, {bound:,} solutions", theirs)
    what = f"one rule with {bound:,} bound rows on a store of {count:,} triples"
    return [
        compare(
            f"{what}, CPU s",
            ours,
            theirs,
            f"{PEER}, solutions of the query alone",
            target=QUERY_TARGET,
        ),
        compare(
            f"{what}, another pattern, CPU s",
            other_patterns,
            theirs,
            f"{PEER}, solutions of the query alone",
            target=QUERY_TARGET,
        ),
        compare(
            f"{what}, nothing changed, CPU s",
            unchanged,
            theirs,
            f"{PEER}, solutions of the query alone",
            target=QUERY_TARGET,
        ),
        without_peer(
            f"{what}, the first compilation, CPU s", "no program to compare", "none", ours=[first]
        ),
    ]


def main() -> None:
    """Write the graph, then time loads and queries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        side, first, second = options.side
        print(
            bulk_load(Path(first), Path(second)) if side == "load" else list_solutions(Path(first))
        )
        return
    print(
        f"Python {platform.python_version()}, pyoxigraph {ox.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {options.repeats} turns"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "plant.nt"
        file.write_text("\n".join(generated(options.triples)) + "\n", encoding="utf-8")
        count = bulk_load(file, folder / "counted")
        quads = folder / "plant.nq"
        lines = map(in_named_graphs, generated(options.triples))
        quads.write_text("\n".join(lines) + "\n", encoding="utf-8")
        rows = [compare_loads(one, folder, count, options.repeats) for one in (file, quads)]
        rows += compare_queries(folder, count, options.repeats)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
