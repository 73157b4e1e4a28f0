"""Description logic on demand: HermiT, which comes with owlready2 and runs in Java, with a limit on
its time.

OWL 2 RL (`owl_rl_closure.py`) leaves out what takes more than rules: that a class with all the
parts of a definition is below what it defines, that a class can have no member. HermiT (Glimm et
al. 2014, Journal of Automated Reasoning 53) answers for all of OWL 2 DL, in any time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS

Pair = tuple[str, str]
TYPE, _INDIVIDUAL = ox.NamedNode(RDF + "type"), ox.NamedNode(OWL + "NamedIndividual")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The conclusions of a DL reasoner.

    Attributes:
        below: pairs of a class and one of its superclasses, asserted pairs included; a pair that
            follows from other pairs is left out.
        types: pairs of an individual and its class, asserted pairs included; a pair that follows
            from other pairs is left out.
        unsatisfiable: the classes that cannot have a member.
        inconsistent: the triples contradict each other; the other fields are then empty.
    """

    below: tuple[Pair, ...] = ()
    types: tuple[Pair, ...] = ()
    unsatisfiable: tuple[str, ...] = ()
    inconsistent: bool = False


def describe(
    triples: Sequence[ox.Quad], file: str, limit: float
) -> tuple[Described | None, tuple[Diagnostic, ...]]:
    """Return the conclusions of HermiT from triples.

    None with an error if Java is missing, HermiT fails, or it times out.

    Args:
        triples: the asserted triples.
        file: the name of the file in diagnostics.
        limit: the time limit in seconds.
    """
    if shutil.which("java") is None:
        advice = (
            "install Java 11 or newer, so that `java -version` answers; without --dl, "
            "OWL 2 RL is used, which needs none"
        )
        return None, (
            report(
                "FKG126",
                point(file),
                "the DL reasoner needs Java, and there is no `java` on the PATH",
                help=advice,
            ),
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "triples.nt"
        told = {quad.triple for quad in triples}
        path.write_bytes(
            ox.serialize([*told, *_individuals(told)], format=ox.RdfFormat.N_TRIPLES) or b""
        )
        printed = _run(
            [sys.executable, "-m", "fedkg_compiler.graph.reasoning.hermit_child", str(path)],
            folder,
            limit,
        )
    if printed is None:
        advice = "give more time with --limit, or fewer files"
        return None, (
            report(
                "FKG127", point(file), f"the DL reasoner was stopped after {limit:g} s", help=advice
            ),
        )
    broken = {"failure": printed.strip().rpartition("\n")[2] or "it said nothing"}
    try:
        answer: dict[str, Any] = json.loads(printed)  # `Any`: JSON
    except ValueError:  # Java's own messages
        answer = broken
    if answer["failure"]:
        advice = "without --dl, OWL 2 RL is used, which leaves aside what it does not know"
        return None, (
            report(
                "FKG126", point(file), f"the DL reasoner failed: {answer['failure']}", help=advice
            ),
        )
    pairs = {
        key: tuple(sorted({(one, other) for one, other in answer[key] if one != other}))
        for key in ("below", "types")
    }
    return Described(
        **pairs, unsatisfiable=tuple(answer["unsatisfiable"]), inconsistent=answer["inconsistent"]
    ), ()


def _individuals(triples: Iterable[ox.Triple]) -> Iterator[ox.Triple]:
    """Triples that declare the members of named classes as individuals, as owlready2 requires."""
    for triple in triples:
        kind, member = triple.object, triple.subject
        named = isinstance(kind, ox.NamedNode) and not kind.value.startswith((RDF, RDFS, OWL))
        if named and triple.predicate == TYPE and isinstance(member, ox.NamedNode):
            yield ox.Triple(member, TYPE, _INDIVIDUAL)


def _run(command: Sequence[str], folder: str, limit: float) -> str | None:
    """The output of a command.

    None when it was stopped, with all processes that it began, after `limit` s.
    """
    surroundings = os.environ | {"TMPDIR": folder}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=surroundings,
    )
    try:
        return process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
