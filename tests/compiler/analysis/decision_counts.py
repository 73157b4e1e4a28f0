"""How many questions the analysis of rules decides, and what each procedure contributes.

    python tests/compiler/analysis/decision_counts.py [--without]

Reads the rules and examples that ship, the golden cases of the analysis and, if it is there, the
folder shared/. Prints the number of findings, the questions and rules left open, and the processor
time. `--without` repeats this with each procedure replaced by one that decides nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "tests")]

from golden.cases import cases_under  # noqa: E402
from shared import SHARED  # noqa: E402

from fedkg.pack import Pack  # noqa: E402
from fedkg_compiler.analysis import (  # noqa: E402
    branch_and_prune_search,
    run,
    temporal_implication,
    trace_witnesses,
    z3_solver,
)
from fedkg_compiler.analysis.difference_bounds import DifferenceBounds  # noqa: E402
from fedkg_compiler.analysis.interaction_analysis import PlaceReasoner  # noqa: E402
from fedkg_compiler.analysis.local_search import Shown, Trials  # noqa: E402
from fedkg_compiler.analysis.parameter_subsumption import Tighter  # noqa: E402
from fedkg_compiler.analysis.verdict import Verdict  # noqa: E402
from fedkg_compiler.pipeline import compile_rules  # noqa: E402


def shipped_packs() -> Iterator[tuple[str, Pack]]:
    """The packs of the rules and examples that ship, by file; rule libraries with their graphs."""
    for path in sorted([*ROOT.glob("rules/**/*.fkg"), *ROOT.glob("examples/**/*.fkg")]):
        known = path.with_suffix(".ttl"), path.parent / "plant.ttl"
        graphs = [one for one in known if one.exists()]
        yield from _pack(str(path.relative_to(ROOT)), [path], graphs)


def golden_packs() -> Iterator[tuple[str, Pack]]:
    """The packs of the golden cases of the analysis."""
    golden = ROOT / "tests" / "golden"
    extra = [one for one in (golden / "reason").iterdir() if one.suffix in (".ttl", ".rq")]
    with tempfile.TemporaryDirectory() as folder:
        for one in (golden / "plant" / "plant.ttl", *extra):
            (Path(folder) / one.name).write_bytes(one.read_bytes())
        before = Path.cwd()
        os.chdir(folder)
        try:
            for case in cases_under(golden / "reason"):
                Path("case.fkg").write_text(case.source, encoding="utf-8")
                graphs = [Path("plant.ttl")] if "plant:" in case.source else []
                yield from _pack(f"golden {case.id}", [Path("case.fkg")], graphs)
        finally:
            os.chdir(before)


def shared_packs() -> Iterator[tuple[str, Pack]]:
    """The packs of the rule files of shared/."""
    for path in sorted(SHARED.glob("**/*.fkg")) if SHARED.exists() else ():
        yield from _pack(str(path.relative_to(SHARED)), [path], [])


def _pack(name: str, paths: list[Path], graphs: list[Path]) -> Iterator[tuple[str, Pack]]:
    pack = compile_rules(paths, graphs=graphs, reason=False).pack
    if pack is not None and pack.banks:
        yield name, pack


def analyse(pack: Pack) -> tuple[list[Verdict], int]:
    """The verdicts on a pack, and the number of questions that stay open."""
    open_questions = 0
    take = run._Reasoning._take

    def counted(self: Any, place: Any, result: Any) -> None:  # Any: private classes
        nonlocal open_questions
        open_questions += result.open
        take(self, place, result)

    run._Reasoning._take = counted  # type: ignore[method-assign]
    try:
        return list(run.reason(pack)), open_questions
    finally:
        run._Reasoning._take = take  # type: ignore[method-assign]


@contextmanager
def without(procedure: str) -> Iterator[None]:
    """Replace a procedure by one that decides nothing; "" replaces none."""
    replaced = PROCEDURES.get(procedure, ())
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


UNDECIDED = branch_and_prune_search.Searched(answer="unknown")
PROCEDURES: dict[str, list[tuple[Any, str, Any]]] = {
    "boxes": [(run.Boxes, "conflicts", lambda self: []), (run.Boxes, "implied", lambda *_: {})],
    "tighter numbers": [(Tighter, "givers", lambda self, rows: {})],
    "shortest paths": [(DifferenceBounds, "at", lambda self, rows: None)],
    "linear programs": [(run._Reasoning, "_linear", lambda self, place: None)],
    "local search": [
        (Trials, "show", lambda self, places: [Shown() for _ in places]),
        (Trials, "together", lambda self, keys, rows: False),
    ],
    "z3": [(z3_solver.Solver, "ask", lambda self, *_: "unknown")],
    "branch and prune": [
        (branch_and_prune_search.WitnessSearch, "ask", lambda self, *_: UNDECIDED)
    ],
    "few rows first": [
        (branch_and_prune_search.WitnessSearch, "_closed", lambda self, rows, asked: iter(()))
    ],
    "box contraction": [
        (branch_and_prune_search._Place, "narrowed", lambda self, low, high: (low, high))
    ],
    "equations": [(branch_and_prune_search._Place, "solved", lambda self, low, high: None)],
    "whole traces": [(trace_witnesses.WholeTraces, "_find_first", lambda self, *_: None)],
    "longer windows": [(PlaceReasoner, "_written_out", lambda self, *_, **__: "unknown")],
    "narrowing": [(PlaceReasoner, "_narrowed", PlaceReasoner._ask)],
    "window subsumption": [(temporal_implication.OverTime, "follows", lambda self, *_: False)],
    "unrolled windows": [(temporal_implication.OverTime, "_unrolled", lambda self, *_: None)],
}
"""What replaces each procedure."""


def count(packs: list[tuple[str, Pack]]) -> tuple[set[tuple[Any, ...]], int, int, float]:
    """The findings, open questions, rules not decided, and processor seconds."""
    found: set[tuple[Any, ...]] = set()
    open_questions = rules = 0
    start = time.process_time()
    for name, pack in packs:
        verdicts, unanswered = analyse(pack)
        open_questions += unanswered
        for one in verdicts:
            if one.kind == "undecided":
                rules += one.places
            else:
                found.add((name, one.kind, one.rules, one.places))
    return found, open_questions, rules, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", action="store_true", help="also without each procedure")
    chosen = parser.parse_args()
    packs = [*shipped_packs(), *golden_packs(), *shared_packs()]
    print(f"{len(packs)} packs")  # noqa: T201
    print(f"{'without':22} findings lost new  open questions  rules not decided  seconds")  # noqa: T201
    whole, *_ = count(packs)
    for procedure in ("", *(PROCEDURES if chosen.without else ())):
        with without(procedure):
            found, open_questions, rules, spent = count(packs)
        print(  # noqa: T201
            f"{procedure or '(nothing)':22} {len(found):8} {len(whole - found):4} "
            f"{len(found - whole):3} {open_questions:15} {rules:18} {spent:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
