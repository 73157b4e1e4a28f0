"""What the rules at one place mean together, decided by the solver."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from fedkg.pack import Compare, Implies
from fedkg.pack.walk import is_temporal
from fedkg_compiler.reason.budget import Budget
from fedkg_compiler.reason.places import Place
from fedkg_compiler.reason.rows import RowTable
from fedkg_compiler.reason.shape import implications, looks_for_gaps, sure
from fedkg_compiler.reason.solve import Solver
from fedkg_compiler.reason.verdict import UNKNOWN, Kind, Witness

MOST_CONFLICTS = 5
"""So many conflicts are looked for at one place."""
WIDER = 1e-6
"""By this share of their width spans are widened before a rule is said never to fail: a limit at the very end of a span is no mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding at one place.

    Attributes:
        rows: row numbers; that of the rule which the finding is about first. keeps, detail: as in `Verdict`.
    """

    kind: Kind
    rows: tuple[int, ...]
    keeps: tuple[Witness | None, ...] = ()
    spans: bool = False
    detail: str = ""


@dataclass(slots=True, kw_only=True)
class Findings:
    """All findings at one place.

    Attributes:
        torn: rows that are part of a conflict. empty: rows that never apply or never fail. implied: for each row that others imply, which.
        open: how many questions were not decided.
    """

    found: list[Finding] = field(default_factory=list)
    torn: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    implied: dict[int, frozenset[int]] = field(default_factory=dict)
    open: int = 0


class PlaceReasoner:
    """Puts the questions about one place, the important ones first."""

    def __init__(self, table: RowTable, place: Place, budget: Budget, torn: set[int]) -> None:
        """`torn`: rows that intervals found to contradict others or themselves; they are left out."""
        self.table, self.place, self.budget = table, place, budget
        self.rows = [row for row in place.rows if row not in torn]
        self.result = Findings()
        self.solver = Solver(table, self.rows, budget, keys=place.keys)

    def conflicts(self) -> None:
        """Sets of rows that no value satisfies together."""
        rows = list(self.rows)
        for _ in range(MOST_CONFLICTS):
            answer = self.solver.ask(rows)
            if answer == "unknown":
                self.result.open += 1
            if answer != "no":
                break
            core = self.solver.core(rows)
            rows.remove(core[-1])
            if self._hair(core):
                continue
            self.result.torn.update(core)
            spans = Solver(self.table, core, self.budget, keys=self.place.keys, spans=False).ask(core) != "no"
            keeps = tuple(self._keeping([other for other in core if other != row]) for row in core)
            kind: Kind = "conflict" if len(core) > 1 or not spans else "outside"
            self.result.found.append(Finding(kind=kind, rows=tuple(core), keeps=keeps, spans=spans))
        self.rows = [row for row in rows if row not in self.result.torn]

    def antecedents(self) -> None:
        """Rules that never apply, and rules that cannot be kept where they apply."""
        self.solver.bundle(self.rows)
        for row in self.rows:
            for part in implications(self.table.skeleton(row)):
                self._antecedent(row, part)

    def _antecedent(self, row: int, part: Implies) -> None:
        applies = self.solver.part(row, part.antecedent)
        if applies is None:
            self.result.open += 1
            return
        answer = self.solver.ask([], applies)
        if answer == "no":
            self.result.empty.add(row)
            self.result.found.append(Finding(kind="never_applies", rows=(row,), spans=True))
            return
        full = self.solver.ask(self.rows, applies)
        self.result.open += "unknown" in (answer, full)
        if full != "no":
            return
        order = [other for other in self.rows if other != row] + [row]
        core = self.solver.core(order, applies)
        if self._hair(core, row, part) or (core == [row] and self._never_fails(row)):
            return
        others = tuple(other for other in core if other != row)
        if row not in core:
            self.result.empty.add(row)
        kind: Kind = "conditional" if row in core else "never_applies"
        keeps = tuple(self._keeping([kept for kept in core if kept != one], applies) for one in (row, *others))
        self.result.found.append(Finding(kind=kind, rows=(row, *others), keeps=keeps, spans=True))

    def vacuous(self, plain: set[int]) -> None:
        """Rules that never fail inside the spans; those of `plain` have been looked at."""
        rows = [row for row in self.rows if row not in plain and row not in self.result.empty]
        if not rows:
            return
        solver = self._wider(rows)
        for row in rows:
            fails = solver.violated(row)
            answer = "unknown" if fails is None else solver.ask([], fails)
            self.result.open += answer == "unknown"
            if answer == "no":
                self._no_failure(row, solver)

    def _no_failure(self, row: int, solver: Solver) -> None:
        """A row never fails: either it always holds, or it is unknown where it does not."""
        holds = None if sure(self.table.skeleton(row)) else solver.part(row, self.table.skeleton(row))
        always = holds is None or solver.ask([], z3.Not(holds)) == "no"
        self.result.empty.add(row)
        self.result.found.append(Finding(kind="never_fails", rows=(row,), spans=True, detail="" if always else UNKNOWN))

    def _never_fails(self, row: int) -> bool:
        solver = self._wider([row])
        fails = solver.violated(row)
        return fails is not None and solver.ask([], fails) == "no"

    def _wider(self, rows: Sequence[int]) -> Solver:
        """Only the spans, a little wider than they are."""
        return Solver(self.table, rows, self.budget, keys=self.place.keys, width=WIDER, taken=())

    def redundant(self, may_imply: Callable[[int, int], bool], kind: Callable[[int], Hashable], plain: Container[int]) -> None:
        """Rows that rows of other rules imply, the latest rule first; rows that need no others for that never fail.

        Implied is a row where, whenever it is violated, one of the others is: also where values are missing.

        `may_imply(one, other)`: whether a row may make another needless; it says the same of rows of one `kind`. `plain`: rows that bound
        single columns; that one of those never fails is said elsewhere, or not at all where its bound is the end of a span.
        """
        rules = self.table.rule
        temporal = {row for row in self.rows if is_temporal(self.table.skeleton(row))}
        kept = [row for row in self.rows if row not in temporal]
        reads = self.table.all_reads(kept)
        kinds = {row: kind(row) for row in kept}
        models = {kinds[row]: row for row in kept}
        rule_of = {row: int(rules[row]) for row in kept}
        for row in reversed(list(kept)):
            if row in self.result.empty:
                continue
            usable = {one for one, model in models.items() if may_imply(model, row)}
            others = [other for other in kept if rule_of[other] != rule_of[row] and kinds[other] in usable]
            if not any(reads[row] & reads[other] for other in others):
                continue
            fails = self.solver.violated(row)
            answer = "unknown" if fails is None else self.solver.ask(others, fails)
            self.result.open += answer == "unknown"
            if answer != "no":
                continue
            if core := self.solver.core(others, fails):
                nearer = [other for other in others if reads[other] <= reads[row]]
                if giving := self._giving(row, core, nearer, fails):
                    self.result.implied[row] = giving
                    kept.remove(row)
            elif row not in plain:
                self._no_failure(row, self.solver)

    def _giving(self, row: int, core: Sequence[int], nearer: Sequence[int], fails: Any) -> frozenset[int]:
        """Rows of which one is violated wherever this one is, also where values are missing; none where there are no such rows.

        `core`: rows that imply it where every value is known. `nearer`: the others that read nothing else than it does. `fails`: that the
        row is violated, for the solver of this place.
        """
        if self._found_with_gaps(row, core):
            return frozenset(core)
        if set(nearer) >= set(core) or self.solver.ask(nearer, fails) != "no":
            return frozenset()
        fewer = self.solver.core(nearer, fails)
        return frozenset(fewer) if self._found_with_gaps(row, fewer) else frozenset()

    def _found_with_gaps(self, row: int, others: Sequence[int]) -> bool:
        """Whether one of the others is certainly violated wherever the row is, whichever values are missing."""
        if self.table.repeated(int(self.table.bank[row])).get(row) in others:
            return True
        rows = [row, *others]
        skeletons = [self.table.skeleton(one) for one in rows]
        solver = Solver(self.table, rows, self.budget, keys=self.place.keys, taken=())
        solver.translator.knowable = {number for one in rows for number in self.table.reads(one)}
        fails = [solver.violated(one) for one in rows]
        if not solver.weakened and all(condition is not None for condition in fails):
            return solver.ask([], fails[0], *(z3.Not(condition) for condition in fails[1:])) == "no"
        if any(looks_for_gaps(skeleton) or not sure(skeleton) for skeleton in skeletons) or not isinstance(skeletons[0], Compare):
            return False
        return all(self.table.reads(other) <= self.table.reads(row) for other in others)

    def _keeping(self, rows: Sequence[int], *more: Any) -> Witness | None:
        if self.solver.ask(rows, *more) != "yes" or not self.solver.replayable:
            return None
        return self.solver.witness()

    def _hair(self, core: Sequence[int], row: int | None = None, part: Implies | None = None) -> bool:
        """Whether a set of rows only just has no solution, by the rounding of converted numbers."""
        rows = [*core, *([row] if row is not None and row not in core else [])]
        solver = Solver(self.table, rows, self.budget, keys=self.place.keys, lenient=1.0)
        if row is None or part is None:
            return solver.ask(core) == "yes"
        solver.translator.lenient = -3.0
        return solver.ask(core, solver.part(row, part.antecedent)) == "yes"
