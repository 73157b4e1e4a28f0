"""What the rules at one place mean together: the solver decides what neither tried values nor the
rules' numbers show.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkg.pack import Compare
from fedkg.pack.formulas import is_temporal
from fedkg_compiler.analysis.branch_and_prune_search import WitnessSearch
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.difference_bounds import Paths
from fedkg_compiler.analysis.interaction_groups import Place
from fedkg_compiler.analysis.local_search import RowLayout, Shown
from fedkg_compiler.analysis.single_column_bounds import Bounds, RowTable
from fedkg_compiler.analysis.verdict import UNKNOWN, Condition, Kind, Method, Witness
from fedkg_compiler.formulas.formula_algebra import implications, looks_for_gaps, sure, without_time

if TYPE_CHECKING:
    from fedkg_compiler.analysis.z3_solver import Answer, Solver

MOST_CONFLICTS = 5
"""At most this number of conflicts is searched for at one place."""
FEW = 12
"""The solver receives all rows at once up to this number."""
WIDER = 1e-6
"""Spans are widened by this share of their width before fedkg reports that a rule never fails:
a limit at the very end of a span is intended.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding at one place.

    Attributes:
        kind: as in `Verdict`.
        rows: numbers of the rows; the row of the rule that the finding is about comes first.
        keeps: as in `Verdict`.
        spans: as in `Verdict`.
        detail: as in `Verdict`.
        method: as `decided_by` in `Verdict`.
    """

    kind: Kind
    rows: tuple[int, ...]
    keeps: tuple[Witness | None, ...] = ()
    spans: bool = False
    detail: str = ""
    method: Method = "z3"


@dataclass(slots=True, kw_only=True)
class Findings:
    """All findings at one place.

    Attributes:
        found: the findings, in the order in which they were made.
        torn: numbers of the rows that are part of a conflict.
        empty: numbers of the rows that never apply or never fail.
        alarms: numbers of the rows that apply only where soft rules are violated.
        implied: for each row that others imply, the numbers of these others.
        by_numbers: the rows of `implied` that follow from one row of the same form by their numbers
            alone.
        open: the number of questions that were not decided.
    """

    found: list[Finding] = field(default_factory=list)
    torn: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    alarms: set[int] = field(default_factory=set)
    implied: dict[int, frozenset[int]] = field(default_factory=dict)
    by_numbers: set[int] = field(default_factory=set)
    open: int = 0


class PlaceReasoner:
    """Puts the questions about one place, the important ones first."""

    def __init__(
        self,
        table: RowTable,
        bounds: Bounds,
        budget: Budget,
        place: Place,
        rows: Sequence[int],
        givers: Mapping[int, Sequence[int]],
        shown: Shown,
        paths: Paths | None = None,
        *,
        witnesses: bool = True,
    ) -> None:
        """Begin with a place.

        `rows`: those of the place that intervals did not find to contradict others or themselves.
        `givers`: rows that each follows from by its numbers. `shown`: what values showed.
        `paths`: what decides rows that bound differences; None if there are others.
        `witnesses`: whether conflicts are found with values that satisfy all rows but one.
        """
        self.paths, self.witnesses = paths, witnesses
        self.table, self.place, self.budget, self.givers, self.shown = (
            table,
            place,
            budget,
            givers,
            shown,
        )
        self.rows, self._whole, self._bounds = list(rows), rows, bounds
        self.search = WitnessSearch(table, bounds, budget, place.keys)
        self.result = Findings()

    @cached_property
    def solver(self) -> Solver:
        """The solver, with the rows of this place and their spans."""
        return self._solver(self.rows)

    def _solver(self, rows: Sequence[int], **settings: Any) -> Solver:  # Any: those of `Solver`
        from fedkg_compiler.analysis.z3_solver import Solver

        return Solver(self.table, rows, self.budget, keys=self.place.keys, **settings)

    @cached_property
    def _layout(self) -> RowLayout:
        still = {
            bank: without_time(self.table.banks[bank].skeleton)
            for bank in {int(self.table.bank[row]) for row in self._whole}
        }
        return RowLayout(self.table, self._bounds, [(self.place.keys, self._whole)], still)

    def _encode(
        self, conditions: Sequence[Condition], solver: Solver | None = None
    ) -> list[Any] | None:
        """The conditions for the solver; None where one is too large."""
        found = [
            (solver or self.solver).part(one.row, one.formula, positive=one.holds)
            for one in conditions
        ]
        return None if None in found else found

    def _ask(self, rows: Sequence[int], *conditions: Condition) -> tuple[Answer, list[int]]:
        """Whether the rows and conditions can be satisfied, and the rows needed to decide it."""
        said = self._encode(conditions)
        return self._answer_of(
            "unknown" if said is None else self.solver.ask(rows, *said), rows, rows, conditions
        )

    def _answer_of(
        self,
        answer: Answer,
        needed: Sequence[int],
        rows: Sequence[int],
        conditions: Sequence[Condition],
    ) -> tuple[Answer, list[int]]:
        """The solver's answer where it is to be relied on, else that of a search, else that of the
        solver with longer windows.

        `needed`: the rows that the solver received.
        """
        about = [*needed, *(one.row for one in conditions)]
        if answer == "no" or (answer == "yes" and not self.solver.is_loose(about)):
            return answer, list(needed)
        found = self.search.ask(rows, conditions)
        if found.answer != "unknown" or not self.solver.timed:
            return found.answer, list(found.rows)
        return self._written_out(rows, conditions), list(rows)

    def _written_out(
        self, rows: Sequence[int], conditions: Sequence[Condition], **settings: Any
    ) -> Answer:  # Any: those of `Solver`
        """The same with longer windows written out."""
        solver = self._longer(rows, conditions, **settings)
        said = self._encode(conditions, solver)
        longer: Answer = "unknown" if said is None else solver.ask(rows, *said)
        doubtful = solver.weakened if longer == "yes" else solver.translator.narrowed
        return "unknown" if doubtful else longer

    def _longer(
        self, rows: Sequence[int], conditions: Sequence[Condition], **settings: Any
    ) -> Solver:  # Any: those of `Solver`
        """A solver of these rows with longer windows."""
        return self._solver(
            [*dict.fromkeys([*rows, *(one.row for one in conditions)])],
            bounded=True,
            taken=rows,
            **settings,
        )

    def _narrowed(self, rows: Sequence[int], condition: Condition) -> tuple[Answer, list[int]]:
        """The answer for these rows and a condition, and the rows needed to decide it.

        The solver begins with none. Where it finds values, those of the rows join that these
        violate, all else being as it was tried.
        """
        said = self._encode([condition])
        if said is None or self.solver.timed or self.shown.best is None or len(rows) <= FEW:
            return self._ask(rows, condition)
        taken: list[int] = []
        while (answer := self.solver.ask(taken, *said)) == "yes":
            point = self.shown.best.copy()
            values = self.solver.values(
                set().union(*(self.table.reads(one) for one in (condition.row, *taken)))
            )
            point[np.searchsorted(self._layout.variable, list(values))] = list(values.values())
            kept = dict(
                zip(
                    self._layout.row.tolist(),
                    self._layout.verdicts(point[None])[0][0].tolist(),
                    strict=True,
                )
            )
            missed = [row for row in rows if not kept[row]]
            if missed and not set(missed) - set(taken):
                return self._ask(rows, condition)
            if not missed:
                break
            taken = [row for row in rows if row in set(taken) | set(missed)]
        return self._answer_of(answer, taken, rows, [condition])

    def _core(self, rows: Sequence[int], *conditions: Condition) -> tuple[list[int], Method]:
        """A minimal set among these rows, which nothing keeps where the conditions are met, and
        what shows that.
        """
        kept, method = list(rows), "interval"
        for solver in (
            (self.solver, self._longer(rows, conditions)) if self.solver.timed else (self.solver,)
        ):
            said = self._encode(conditions, solver)
            if (
                said is not None
                and not solver.translator.narrowed
                and solver.ask(rows, *said) == "no"
            ):
                kept, method = solver.core(rows, *said), "z3"
                break
        if method == "interval" or self.solver.is_loose([*kept, *(one.row for one in conditions)]):
            for row in reversed(list(kept)):
                fewer = [other for other in kept if other != row]
                if row in kept and (found := self.search.ask(fewer, conditions)).answer == "no":
                    kept, method = list(found.rows), "interval"
        return kept, "z3" if method == "z3" else "interval"

    def conflicts(self) -> None:
        """Sets of rows that no value satisfies together."""
        if self.shown.together:
            return
        rows = list(self.rows)
        for _ in range(MOST_CONFLICTS):
            core, method = self._conflict(rows)
            if not core:
                break
            rows.remove(core[-1])
            if self._hair(core):
                continue
            self.result.torn.update(core)
            spans = method == "interval" or self._without_spans(core)
            keeps: tuple[Witness | None, ...] = ()
            if self.witnesses:
                keeps = tuple(
                    self._keeping([other for other in core if other != row]) for row in core
                )
            kind: Kind = "conflict" if len(core) > 1 or not spans else "outside"
            self.result.found.append(
                Finding(kind=kind, rows=tuple(core), keeps=keeps, spans=spans, method=method)
            )
        self.rows = [row for row in rows if row not in self.result.torn]

    def _conflict(self, rows: Sequence[int]) -> tuple[list[int], Method]:
        """A minimal set of rows that no value satisfies together, and what shows it; [] if none is
        found.
        """
        if self.paths is not None:
            return self.paths.conflict(rows) or [], "z3"
        answer, needed = self._ask(rows)
        if answer == "unknown":
            self.result.open += 1
        return self._core(needed) if answer == "no" else ([], "z3")

    def _without_spans(self, core: Sequence[int]) -> bool:
        """Whether values outside the declared spans satisfy these rows."""
        if self.paths is not None:
            return not self.paths.clash(core, spans=False)
        return self._solver(core, spans=False).ask(core) != "no"

    def antecedents(self) -> None:
        """Rules that never apply, and rules that cannot be satisfied where they apply."""
        asked = [
            (row, part)
            for row in self.rows
            for number, part in enumerate(implications(self.table.skeleton(row)))
            if (row, number) not in self.shown.applies
        ]
        if asked and self.solver.timed:
            self.solver.bundle(self.rows)
        for row, part in asked:
            self._antecedent(row, Condition(row, part.antecedent, True))

    def _antecedent(self, row: int, applies: Condition) -> None:
        answer, _ = self._ask([], applies)
        if answer == "no":
            self.result.empty.add(row)
            self.result.found.append(Finding(kind="never_applies", rows=(row,), spans=True))
            return
        rows = self.rows
        for _ in range(MOST_CONFLICTS):
            full, needed = self._narrowed(rows, applies)
            self.result.open += full == "unknown"
            if full != "no":
                return
            order = [other for other in needed if other != row] + [row] * (row in needed)
            core, method = self._core(order, applies)
            if self._hair(core, applies) or (core == [row] and self._never_fails(row)):
                return
            soft = [one for one in core if not self.table.is_hard(one)]
            if row in core or not soft:
                self._inapplicable(row, core, applies, method)
                return
            # Data may violate a soft rule: it does not prove that the antecedent never holds.
            self.result.alarms.add(row)
            rows = [one for one in rows if one not in soft]

    def _inapplicable(
        self, row: int, core: Sequence[int], applies: Condition, method: Method
    ) -> None:
        """Note that nothing keeps the rows of `core` where a row applies: with the row itself, or
        without it.
        """
        others = tuple(other for other in core if other != row)
        if row not in core:
            self.result.empty.add(row)
        kind: Kind = "conditional" if row in core else "never_applies"
        keeps = tuple(
            self._keeping([kept for kept in core if kept != one], applies) for one in (row, *others)
        )
        self.result.found.append(
            Finding(kind=kind, rows=(row, *others), keeps=keeps, spans=True, method=method)
        )

    def vacuous(self, plain: set[int]) -> None:
        """Rules that never fail inside the spans; those of `plain` have been looked at."""
        rows = [
            row
            for row in self.rows
            if row not in plain and row not in self.result.empty and row not in self.shown.fails
        ]
        if not rows:
            return
        solver = self._wider(rows)
        for row in rows:
            answer = self._failing(row, solver)
            self.result.open += answer == "unknown"
            if answer == "no":
                self._no_failure(row, solver)

    def _failing(self, row: int, solver: Solver) -> Answer:
        """Whether some value a little beyond the spans violates a row."""
        fails = solver.violated(row)
        answer = "unknown" if fails is None else solver.ask([], fails)
        if answer == "no" or (answer == "yes" and not solver.is_loose([row])):
            return answer
        search = WitnessSearch(self.table, self._bounds, self.budget, self.place.keys, width=WIDER)
        broken, timed = [Condition(row, self.table.skeleton(row), False)], self.table.is_timed(row)
        found = search.ask([], broken).answer
        return self._written_out([], broken, width=WIDER) if timed and found == "unknown" else found

    def _no_failure(self, row: int, solver: Solver) -> None:
        """A row never fails: either it always holds, or it is unknown where it does not."""
        from fedkg_compiler.analysis.z3_formulas import denied

        always = sure(self.table.skeleton(row))
        if not always:
            holds = solver.part(row, self.table.skeleton(row))
            always = holds is None or (
                not solver.is_loose([row]) and solver.ask([], denied(holds)) == "no"
            )
        self.result.empty.add(row)
        self.result.found.append(
            Finding(kind="never_fails", rows=(row,), spans=True, detail="" if always else UNKNOWN)
        )

    def _never_fails(self, row: int) -> bool:
        return self._failing(row, self._wider([row])) == "no"

    def _wider(self, rows: Sequence[int]) -> Solver:
        """Only the spans, a little wider than they are."""
        return self._solver(rows, width=WIDER, taken=())

    def redundant(
        self,
        may_imply: Callable[[int, int], bool],
        kind: Callable[[int], Hashable],
        plain: Container[int],
    ) -> None:
        """Rows that rows of other rules imply, the latest rule first.

        Rows that need no others for that never fail.

        Implied is a row where, whenever it is violated, one of the others is: also where values are
        missing.

        `may_imply(one, other)`: whether a row may make another needless; it says the same of rows
        of one `kind`. `plain`: rows that bound single columns; another check reports those that
        never fail, unless the bound is the end of a span.
        """
        rules = self.table.rule
        kept = list(self.rows)
        temporal = {
            row
            for row in kept
            if self.table.is_timed(row) and is_temporal(self.table.at_any_step(row))
        }
        reads = self.table.all_reads(kept)
        kinds = {row: kind(row) for row in kept}
        models = {kinds[row]: row for row in kept}
        usable = {
            kind: {one for one, model in models.items() if may_imply(model, row)}
            for kind, row in models.items()
        }
        rule_of = {row: int(rules[row]) for row in kept}
        for row in reversed(list(kept)):
            if row in self.result.empty | self.result.alarms or row in self.shown.alone:
                continue
            others = [
                other
                for other in kept
                if rule_of[other] != rule_of[row] and kinds[other] in usable[kinds[row]]
            ]
            if not any(reads[row] & reads[other] for other in others):
                continue
            giver = next((other for other in self.givers.get(row, ()) if other in others), None)
            if giver is not None and row not in plain:
                self.result.implied[row] = frozenset([giver])
                self.result.by_numbers.add(row)
                kept.remove(row)
                continue
            if row in temporal or (row not in plain and self.table.is_timed(row)):
                self._over_time(row, others, reads, kept)
                continue
            others = [other for other in others if other not in temporal]
            if self.paths is not None:
                core = self.paths.implying(row, others)
                if core is None:
                    continue
                if core:
                    if giving := self._giving_by_paths(row, core, others, reads):
                        self.result.implied[row] = giving
                        kept.remove(row)
                    continue
            fails = Condition(row, self.table.at_any_step(row), False)
            answer, needed = self._narrowed(others, fails)
            self.result.open += answer == "unknown"
            if answer != "no":
                continue
            if core := self._core(needed, fails)[0]:
                nearer = [other for other in others if reads[other] <= reads[row]]
                if giving := self._giving(row, core, nearer, fails):
                    self.result.implied[row] = giving
                    kept.remove(row)
            elif row not in plain:
                self._no_failure(row, self.solver)

    def _giving_by_paths(
        self, row: int, core: Sequence[int], others: Sequence[int], reads: Mapping[int, set[int]]
    ) -> frozenset[int]:
        """The same as `_giving`."""
        assert self.paths is not None
        if self.paths.implies(core, row, gaps=True):
            return frozenset(core)
        nearer = [other for other in others if reads[other] <= reads[row]]
        fewer = None if set(nearer) >= set(core) else self.paths.implying(row, nearer)
        return (
            frozenset(fewer) if fewer and self.paths.implies(fewer, row, gaps=True) else frozenset()
        )

    def _over_time(
        self, row: int, others: Sequence[int], reads: Mapping[int, set[int]], kept: list[int]
    ) -> None:
        """Whether others imply a row with windows."""
        from fedkg_compiler.analysis.temporal_implication import OverTime

        implying, certain = OverTime(self.table, self.budget, self.place.keys).implying(
            row, others, reads
        )
        self.result.open += not (certain or self.search.stands_alone(row, others))
        if implying:
            self.result.implied[row] = implying
            kept.remove(row)

    def _giving(
        self, row: int, core: Sequence[int], nearer: Sequence[int], fails: Condition
    ) -> frozenset[int]:
        """Rows that are jointly violated wherever this one is, even with missing values.

        Empty if none.

        `core`: rows that imply it where every value is known. `nearer`: the others that read
        nothing else than it does. `fails`: that the row is violated.
        """
        if self._found_with_gaps(row, core):
            return frozenset(core)
        answer, needed = ("unknown", []) if set(nearer) >= set(core) else self._ask(nearer, fails)
        if answer != "no":
            return frozenset()
        fewer = self._core(needed, fails)[0]
        return frozenset(fewer) if self._found_with_gaps(row, fewer) else frozenset()

    def _found_with_gaps(self, row: int, others: Sequence[int]) -> bool:
        """Whether one of the others is certainly violated wherever the row is, whichever values are
        missing.
        """
        if self.table.duplicate_rows(int(self.table.bank[row])).get(row) in others:
            return True
        rows = [row, *others]
        skeletons = [self.table.skeleton(one) for one in rows]
        from fedkg_compiler.analysis.z3_formulas import denied

        solver = self._solver(rows, taken=())
        solver.translator.knowable = {number for one in rows for number in self.table.reads(one)}
        fails = [solver.part(one, self.table.at_any_step(one), positive=False) for one in rows]
        if not solver.weakened and all(condition is not None for condition in fails):
            return solver.ask([], fails[0], *(denied(condition) for condition in fails[1:])) == "no"
        if any(
            looks_for_gaps(skeleton) or not sure(skeleton) for skeleton in skeletons
        ) or not isinstance(skeletons[0], Compare):
            return False
        return all(self.table.reads(other) <= self.table.reads(row) for other in others)

    def _keeping(self, rows: Sequence[int], *conditions: Condition) -> Witness | None:
        said = self._encode(conditions)
        if said is not None and self.solver.ask(rows, *said) == "yes" and self.solver.replayable:
            return self.solver.witness()
        return self.search.find_witness(rows, conditions)

    def _hair(self, core: Sequence[int], applies: Condition | None = None) -> bool:
        """Whether a set of rows only just has no solution, by the rounding of converted numbers."""
        if self.paths is not None and applies is None:
            return not self.paths.clash(core, lenient=True)
        conditions = [] if applies is None else [applies]
        rows = [*dict.fromkeys([*core, *(one.row for one in conditions)])]
        solver = self._solver(rows, lenient=1.0)
        if applies is not None:
            solver.translator.lenient = -3.0
        said = self._encode(conditions, solver)
        if said is None or solver.ask(core, *said) != "yes":
            return False
        if not solver.is_loose(rows):
            return True
        exact = self.search.ask(core, conditions).answer == "no"
        return not exact and not (
            solver.timed and self._written_out(core, conditions, lenient=1.0) == "no"
        )
