"""Read ontologies and plant graphs and infer types and subclasses, against owlrl and reasonable.

    python benchmarks/ontology_closure.py [--turns 3] [--machines 90000] [--small 200]
        [--patience 240] [--most 10000] [--folder FOLDER]

Every side does the same work in a new process for each turn: start, read the file, apply the rules
of OWL 2 RL, and print the inferred types and subclasses as JSON. Ours is
`fedkg ontology reason FILE --json` with an empty cache, which also looks for contradictions. The
peers are rdflib with owlrl, and the Rust reasoner `reasonable`. Times are processor time of all
threads.

*Ontologies*: every RDF file of the folder of official ontologies (FOLDER, or `ontologies` in
$FEDKG_SHARED, or in `shared` beside the repository; without one, the modules that ship), up to
`--most` kilobytes. owlrl has `--patience` seconds for a file and runs once for each; a file that it
does not finish is left out on both sides and named. *Hierarchy*: a plant of machines, 11 triples
each, with MASON's classes, against `reasonable` with `--machines` and against owlrl with `--small`
machines.

The conclusions are compared: ours must contain every type and subclass between named terms that the
peer infers, except those about the terms of the W3C. Names are compared without their namespaces,
because the command prints short names. The floor is the time in which pyoxigraph reads the files.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pyoxigraph as ox
from reporting.rows import Row, compare, missing, without_peer

MODULES = Path(__file__).resolve().parents[1] / "ontologies"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
BELOW = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
FORMATS = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
}
PLANT = "https://example.org/plant#"
OWLRL_TARGET, REASONABLE_TARGET = 10.0, 1.0

Fact = tuple[str, str, str]
"""Subject, "type" or "below", object; names without namespaces."""


class SideError(Exception):
    """A side has no result. The message is "failed: ..." or "does not finish within ... s"."""


def official_files(folder: Path | None, most: int) -> list[Path]:
    """The official ontologies that pyoxigraph reads, of at most `most` bytes, the largest last.

    The modules that ship if the folder does not exist.
    """
    shared = Path(os.environ.get("FEDKG_SHARED", MODULES.parents[1] / "shared")) / "ontologies"
    base = folder or shared
    found = base.rglob("*") if base.is_dir() else MODULES.glob("*.ttl")
    files = [
        path
        for path in found
        if path.suffix in FORMATS
        and "test-suite" not in str(path)
        and path.stat().st_size <= most
        and is_readable(path)
    ]
    return sorted(files, key=lambda path: path.stat().st_size)


def is_readable(path: Path) -> bool:
    """Whether pyoxigraph finds a triple in the file and no error."""
    try:
        return bool(parse(path))
    except (SyntaxError, ValueError, OSError):
        return False


def parse(path: Path) -> list[ox.Quad]:
    """The triples that pyoxigraph reads in a file."""
    return list(
        ox.parse(path=str(path), format=FORMATS[path.suffix], base_iri="file:///file", lenient=True)
    )


def infer_by_owlrl(path: Path) -> list[Fact]:
    """The types and subclasses that rdflib with owlrl infers."""
    import owlrl
    import rdflib

    warnings.simplefilter("ignore")
    logging.disable()  # owlrl logs a page for each literal that does not match its datatype
    graph = rdflib.Graph().parse(path)
    stated = set(graph)
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    return named_facts((s.n3(), p.n3(), o.n3()) for s, p, o in graph if (s, p, o) not in stated)


def infer_by_reasonable(path: Path) -> list[Fact]:
    """The types and subclasses that reasonable infers."""
    import reasonable

    reasoner = reasonable.PyReasoner()
    reasoner.load_file(str(path))
    stated = {(str(q.subject), str(q.predicate), str(q.object)) for q in parse(path)}
    every = ((f"<{s}>", f"<{p}>", f"<{o}>") for s, p, o in reasoner.reason())
    return named_facts(triple for triple in every if triple not in stated)


SIDES: dict[str, Callable[[Path], list[Fact]]] = {
    "rdflib, owlrl": infer_by_owlrl,
    "reasonable": infer_by_reasonable,
}
"""The peers; each runs in a process with `--side`."""
NEEDED = {"rdflib, owlrl": "owlrl", "reasonable": "reasonable"}
"""The package of each peer."""


def named_facts(triples: object) -> list[Fact]:
    """The types and subclasses among triples in N-Triples syntax.

    Only between different named terms that are not of the W3C.
    """
    kinds = {TYPE: "type", BELOW: "below"}
    return [
        (local_name(s), kinds[p], local_name(o))
        for s, p, o in triples  # type: ignore[attr-defined]
        if p in kinds
        and s != o
        and all(one.startswith("<") and not one.startswith("<http://www.w3.org/") for one in (s, o))
    ]


def local_name(term: str) -> str:
    """The last part of an IRI or of a prefixed name."""
    return re.split(r"[#/:]", term.strip("<>"))[-1]


def run(side: str, path: Path, patience: float | None = None) -> tuple[float, set[Fact]]:
    """Run a side in a new process. Return its processor time in seconds and its conclusions.

    Raises:
        SideError: it failed, or did not finish within `patience` seconds.
    """
    command = [sys.executable, __file__, "--side", side, str(path)]
    if side == "fedkg":
        command = [sys.executable, "-m", "fedkg", "ontology", "reason", str(path), "--json"]
    with tempfile.TemporaryDirectory() as cache:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
                env={**os.environ, "XDG_CACHE_HOME": cache},
            )
        except subprocess.TimeoutExpired:
            raise SideError(f"does not finish within {patience:g} s") from None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if not done.stdout.startswith(("[", "{")):
        lines = done.stderr.strip().splitlines()
        raise SideError(f"failed: exit code {done.returncode}: {lines[-1] if lines else ''}")
    found = json.loads(done.stdout)
    if side == "fedkg":
        found = [
            (local_name(s), "type" if kind == "types" else "below", local_name(o))
            for kind in ("types", "below")
            for s, _, o in found[kind]
        ]
    return seconds, {(s, kind, o) for s, kind, o in found}


def write_plant(folder: Path, machines: int) -> Path:
    """Write MASON's module and a plant of machines with 11 triples each as Turtle."""
    module = parse(MODULES / "mason.ttl")
    classes = sorted(
        {
            str(quad.subject)
            for quad in module
            if str(quad.predicate) == BELOW and str(quad.subject).startswith("<")
        }
    )
    path = folder / f"plant{machines}.ttl"
    triples = [quad.triple for quad in module]
    with path.open("w", encoding="utf-8") as file:
        file.write((ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES) or b"").decode())
        for i in range(machines):
            file.write(f"<{PLANT}M{i}> {TYPE} {classes[i % len(classes)]} .\n")
            for j in range(10):
                file.write(f'<{PLANT}M{i}> <{PLANT}p{j}> "{i * j % 997}" .\n')
    return path


def reading_time(path: Path) -> float:
    """Seconds of processor time in which pyoxigraph reads the file."""
    start = time.process_time()
    parse(path)
    return time.process_time() - start


def compare_ontologies(files: list[Path], turns: int, patience: float) -> Row:
    """All official files together against owlrl."""
    peer, claim = "rdflib, owlrl", "read and infer, sum over {} ontologies, CPU s"
    if importlib.util.find_spec(NEEDED[peer]) is None:
        return without_peer(
            claim.format(len(files)), missing(NEEDED[peer]), peer, target=OWLRL_TARGET
        )
    ours, theirs, floor, left_out, lacking = [0.0] * turns, 0.0, 0.0, 0, 0
    for path in files:
        try:
            seconds, expected = run(peer, path, patience)
        except SideError as error:
            print(f"  {path.name:40} {peer} {error}: left out", flush=True)
            left_out += 1
            continue
        found = [run("fedkg", path) for _ in range(turns)]
        lost = sorted(expected - found[0][1])
        ours = [total + one for total, (one, _) in zip(ours, found, strict=True)]
        theirs, floor, lacking = theirs + seconds, floor + reading_time(path), lacking + len(lost)
        print(
            f"  {path.name:40} fedkg {min(one for one, _ in found):7.2f} s   {peer} {seconds:8.2f}"
            f" s   not found by fedkg: {len(lost)} of {len(expected)} {lost[:1] or ''}",
            flush=True,
        )
    claim = claim.format(len(files) - left_out)
    if left_out:
        claim += f" ({left_out} left out: the peer has no result)"
    if left_out == len(files):
        return without_peer(claim, "failed: no file finished", peer, target=OWLRL_TARGET)
    row = compare(claim, ours, [theirs] * turns, peer, target=OWLRL_TARGET, floor=floor)
    return {**row, "holds": bool(row["holds"]) and not lacking}


def compare_plant(
    path: Path, machines: int, peer: str, target: float, turns: int, patience: float
) -> Row:
    """The class hierarchy over a plant against one peer."""
    claim, floor = f"class hierarchy over {machines:,} machines, CPU s", reading_time(path)
    ours: list[float] = []
    theirs: list[float] = []
    reason = "" if importlib.util.find_spec(NEEDED[peer]) else missing(NEEDED[peer])
    lost: list[Fact] = []
    expected: set[Fact] = set()
    for _ in range(turns):
        seconds, found = run("fedkg", path)
        ours.append(seconds)
        if reason:
            continue
        try:
            seconds, expected = run(peer, path, patience)
        except SideError as error:
            reason = str(error)
            continue
        theirs.append(seconds)
        lost = sorted(expected - found)
    print(f"  {claim}: fedkg {min(ours):.2f} .. {max(ours):.2f}", end="; ")
    if reason:
        print(f"{peer} {reason}")
        return without_peer(claim, reason, peer, ours=ours, target=target, floor=floor)
    print(
        f"{peer} {min(theirs):.2f} .. {max(theirs):.2f}; "
        f"not found by fedkg: {len(lost)} of {len(expected)} {lost[:2] or ''}"
    )
    row = compare(claim, ours, theirs, peer, target=target, floor=floor)
    return {**row, "holds": bool(row["holds"]) and not lost}


def main() -> None:
    """Print a table of the times; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--machines", type=int, default=90_000)
    parser.add_argument("--small", type=int, default=200)
    parser.add_argument("--patience", type=float, default=240.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--most", type=int, default=10_000, help="largest file, in kilobytes")
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        side, path = options.side
        print(json.dumps(SIDES[side](Path(path))))
        return
    print(
        f"Python {platform.python_version()}, pyoxigraph {version('pyoxigraph')}, "
        f"load {os.getloadavg()[0]:.1f}; {options.turns} turns"
    )
    files = official_files(options.folder, 1000 * options.most)
    rows = [compare_ontologies(files, options.turns, options.patience)]
    with tempfile.TemporaryDirectory() as folder:
        for machines, peer, target in (
            (options.small, "rdflib, owlrl", OWLRL_TARGET),
            (options.machines, "reasonable", REASONABLE_TARGET),
        ):
            plant = write_plant(Path(folder), machines)
            rows.append(
                compare_plant(plant, machines, peer, target, options.turns, options.patience)
            )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
