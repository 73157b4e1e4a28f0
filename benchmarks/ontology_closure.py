"""Reading and closing ontologies and plant graphs, against owlrl and `reasonable`.

    python benchmarks/ontology_closure.py [--turns 3] [--machines 90000] [--small 600]
        [--patience 240] [--folder FOLDER]

There are three claims. *Ontologies*: every RDF file of the folder of official ontologies
(`FEDKG_SHARED`, or `shared` next to the checkout; without one, the modules that ship), from the
file to everything that follows by OWL 2 RL, each file separately, in sum. rdflib with owlrl gets
`--patience` seconds per file; files that it does not finish are left out on both sides, and named.
*Hierarchy*: a plant of machines (11 triples each, with MASON's classes), from the file to all types
that follow, against the Rust reasoner `reasonable` at full size and against owlrl at `--small`
machines. *Added*: the plant on top of ontologies that are closed already, against closing
everything at once.

Before the benchmark measures time, it compares the conclusions: ours must contain every type and
subclass between named nodes that the peer concludes (ignoring equal things, literals as subjects,
and what owlrl concludes about every term). The floor is the time that pyoxigraph needs to read the
files. Turns alternate. Times are processor time of one thread; for reasonable, which may use more,
of all threads.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyoxigraph as ox
from peers.own_process import PeerError, peer_process

from fedkg_compiler.ontology.closure import closure
from fedkg_compiler.ontology.rdf_reader import read_file

OURS = Path(__file__).resolve().parents[1] / "ontologies"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
BELOW = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
FORMATS = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
}
MASON = "http://www.owl-ontologies.com/mason.owl#"
PLANT = "https://example.org/plant#"
Spoken = tuple[str, str, str]


def official(folder: Path | None) -> list[Path]:
    """The RDF files of the folder of ontologies that both readers accept, the largest last.

    If there is no such folder, the files that ship.
    """
    shared = (
        folder or Path(os.environ.get("FEDKG_SHARED", OURS.parents[1] / "shared")) / "ontologies"
    )
    found = (
        [
            path
            for path in shared.rglob("*")
            if path.suffix in FORMATS and "test-suite" not in str(path)
        ]
        if shared.is_dir()
        else []
    )
    found = [
        path
        for path in found or sorted(OURS.glob("*.ttl"))
        if (read := read_file(path)[0]) is not None and read.triples
    ]
    readable = [path for path in found if path.suffix != ".owl" or b"<rdf:RDF" in path.read_bytes()]
    return sorted(readable, key=lambda path: path.stat().st_size)


def ours(path: Path) -> list[ox.Quad]:
    """All statements of a file and their closure."""
    document, _ = read_file(path)
    assert document is not None
    return [*document.triples, *closure(document.triples, all_rules=True).added()]


def by_owlrl(path: str, send: Callable[[object], None], receive: Callable[[], object]) -> None:
    """The same by rdflib and owlrl in a separate process: send the time and the conclusions."""
    import owlrl
    import rdflib

    warnings.simplefilter("ignore")
    logging.disable()  # owlrl logs a page for each literal that does not match its datatype
    start = time.thread_time()
    graph = rdflib.Graph().parse(path)
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    took = time.thread_time() - start
    send((took, [(s.n3(), p.n3(), o.n3()) for s, p, o in graph if p.n3() in (TYPE, BELOW)]))


def patiently(path: Path, patience: float) -> tuple[float, list[Spoken]]:
    """The time owlrl takes, and its conclusions.

    Raises PeerError if it fails or does not finish.
    """
    with peer_process(by_owlrl, str(path)) as peer:
        found: tuple[float, list[Spoken]] = peer.receive(patience)
    return found


def lacking(
    found: Iterable[ox.Quad],
    theirs: Iterable[Spoken],
    spaces: tuple[str, ...] = ("http://www.w3.org/",),
) -> list[Spoken]:
    """The types and subclasses of named nodes that the peer concludes and we do not.

    Terms of the W3C vocabularies are ignored.
    """
    mine = {(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in found}
    named = (
        one
        for one in theirs
        if one[0] != one[2] and one[0].startswith("<") and one[2].startswith("<")
    )
    own = (
        one
        for one in named
        if not one[0][1:].startswith(spaces) and not one[2][1:].startswith(spaces)
    )
    return sorted(one for one in own if one[1] in (TYPE, BELOW) and one not in mine)


def timed(run: Callable[[], object]) -> float:
    """Processor time of this thread in seconds."""
    start = time.thread_time()
    run()
    return time.thread_time() - start


def plant_file(folder: Path, machines: int) -> Path:
    """Lines of MASON's module and of a plant with this number of machines, 11 triples each."""
    module, _ = read_file(OURS / "mason.ttl")
    assert module is not None
    kinds = sorted(
        {
            str(quad.subject)
            for quad in module.triples
            if str(quad.predicate) == BELOW and str(quad.subject).startswith("<")
        }
    )
    path = folder / f"plant{machines}.ttl"
    with path.open("w", encoding="utf-8") as file:
        file.write((ox.serialize(module.triples, format=ox.RdfFormat.N_TRIPLES) or b"").decode())
        for i in range(machines):
            file.write(f"<{PLANT}M{i}> {TYPE} {kinds[i % len(kinds)]} .\n")
            for j in range(10):
                file.write(f'<{PLANT}M{i}> <{PLANT}p{j}> "{i * j % 997}" .\n')
    return path


def parsed(path: Path) -> list[ox.Quad]:
    """The triples that pyoxigraph reads in a file."""
    return list(ox.parse(path=str(path), format=FORMATS[path.suffix], lenient=True))


def hierarchy(path: Path, machines: int, turns: int) -> dict[str, Any]:
    """Ours against reasonable on the plant. `Any`: JSON."""
    import reasonable

    def theirs() -> list[Any]:
        reasoner = reasonable.PyReasoner()
        reasoner.load_file(str(path))
        return list(reasoner.reason())

    missing = lacking(
        ours(path),
        ((f"<{s}>", f"<{p}>", f"<{o}>") for s, p, o in theirs() if str(s).startswith(PLANT)),
    )
    pairs = []
    for _ in range(turns):
        a, start = timed(lambda: ours(path)), time.process_time()
        theirs()
        pairs.append((a, time.process_time() - start))
    floor = min(timed(partial(parsed, path)) for _ in range(2))
    print(
        f"plant of {machines:,} machines: ours {[f'{a:.2f}' for a, _ in pairs]} s, reasonable {[f'{b:.2f}' for _, b in pairs]} s"
    )
    print(
        f"  types and subclasses that reasonable has and ours lacks: {len(missing)} {missing[:3]}"
    )
    return claim(
        "class hierarchy over a plant graph, from the file",
        pairs,
        f"reasonable {version('reasonable')}",
        1.0,
        floor,
        not missing,
    )


def claim(
    what: str, pairs: list[tuple[float, float]], peer: str, target: float, floor: float, same: bool
) -> dict[str, Any]:
    """One claim: medians, the ratio pair by pair, its spread. `Any`: JSON."""
    ratios = sorted(b / a for a, b in pairs)
    ratio = statistics.median(ratios)
    return {
        "claim": what,
        "ours": f"{statistics.median(a for a, _ in pairs):.3f} s",
        "peer": f"{statistics.median(b for _, b in pairs):.3f} s",
        "peer_name": peer,
        "ratio": round(ratio, 2),
        "spread": f"{ratios[0]:.2f} .. {ratios[-1]:.2f}",
        "target": f">= {target:g}",
        "holds": bool(same and ratio >= target),
        "floor": f"{floor:.3f} s to read the files",
    }


def ontologies(files: list[Path], turns: int, patience: float) -> dict[str, Any]:
    """Ours against rdflib with owlrl, file by file. `Any`: JSON."""
    mine, theirs, left_out, missing = [0.0] * turns, 0.0, 0, 0
    for path in files:
        each = [timed(partial(ours, path)) for _ in range(turns)]
        try:
            took, concluded = patiently(path, patience)
        except PeerError as failure:
            print(
                f"  {path.name:40} ours {min(each):7.3f} s   owlrl {failure}: left out", flush=True
            )
            left_out += 1
            continue
        lacks = lacking(ours(path), concluded)
        mine, theirs, missing = (
            [a + b for a, b in zip(mine, each, strict=True)],
            theirs + took,
            missing + len(lacks),
        )
        print(
            f"  {path.name:40} ours {min(each):7.3f} s   owlrl {took:8.2f} s  lacking {len(lacks)} {lacks[:1] or ''}",
            flush=True,
        )
    floor = sum(timed(partial(parsed, path)) for path in files)
    left = f" (without {left_out} for which owlrl has no result)" if left_out else ""
    if left_out == len(files):
        reason = "rdflib and owlrl have a result for no file; each reason is printed"
        return {
            "claim": "ontologies read and closed",
            "ratio": None,
            "reason": reason,
            "target": ">= 10",
        }
    return claim(
        f"{len(files) - left_out} ontologies read and closed{left}",
        [(a, theirs) for a in mine],
        "rdflib, owlrl",
        10,
        floor,
        missing == 0,
    )


def added(path: Path, turns: int) -> dict[str, Any]:
    """A small plant on top of all modules that ship, against closing both at once. `Any`: JSON."""
    base = [
        quad
        for file in sorted(OURS.glob("*.ttl"))
        if (read := read_file(file)[0]) is not None
        for quad in read.triples
    ]
    document, _ = read_file(path)
    assert document is not None
    known = {*base}
    plant = [quad for quad in document.triples if quad not in known]
    closure([], base=base, key="benchmark")
    once, later = (
        closure([*base, *plant]).added(),
        closure(plant, base=base, key="benchmark").added(),
    )
    pairs = [
        (
            timed(lambda: closure(plant, base=base, key="benchmark")),
            timed(lambda: closure([*base, *plant])),
        )
        for _ in range(turns)
    ]
    what = f"{len(plant):,} triples of a plant added to {len(base):,} of ontologies that are closed"
    floor = timed(lambda: [(quad.subject, quad.predicate, quad.object) for quad in plant])
    return claim(what, pairs, "closing all at once", 2.0, floor, {*once} == {*later}) | {
        "floor": f"{floor:.4f} s to look at the triples once"
    }


def main() -> None:
    """Print a table of the times; the last line is JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--machines", type=int, default=90_000)
    parser.add_argument("--small", type=int, default=200)
    parser.add_argument("--patience", type=float, default=240.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument(
        "--most", type=int, default=10_000, help="largest file to read, in kilobytes"
    )
    asked = parser.parse_args()
    print(
        f"Python {platform.python_version()}, pyoxigraph {version('pyoxigraph')}, owlrl {version('owlrl')}, load {os.getloadavg()[0]:.1f}"
    )
    files = [path for path in official(asked.folder) if path.stat().st_size <= 1000 * asked.most]
    claims = [ontologies(files, asked.turns, asked.patience)]
    with tempfile.TemporaryDirectory() as folder:
        small = plant_file(Path(folder), asked.small)
        try:
            took, concluded = patiently(small, asked.patience)
        except PeerError as failure:
            print(f"owlrl {failure} at {asked.small:,} machines: no ratio")
        else:
            lacks = lacking(ours(small), concluded)
            pairs = [(timed(partial(ours, small)), took) for _ in range(asked.turns)]
            floor = timed(partial(parsed, small))
            claims.append(
                claim(
                    f"class hierarchy over {asked.small:,} machines",
                    pairs,
                    "rdflib, owlrl",
                    10,
                    floor,
                    not lacks,
                )
            )
        claims.append(
            hierarchy(plant_file(Path(folder), asked.machines), asked.machines, asked.turns)
        )
        claims.append(added(small, asked.turns))
    for one in claims:
        print(
            f"{one['claim']}: ours {one['ours']}, {one['peer_name']} {one['peer']}, ratio {one['ratio']} ({one['spread']})"
        )
    print(json.dumps(claims))


if __name__ == "__main__":
    main()
