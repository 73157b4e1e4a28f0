"""That ranges are never empty and predictions lie in them, for every sample within the declared spans (Fan et al. 2022, assumption 5.1).

A contradiction needs clauses that hold together. So it is asked, for each set of clauses that together allow nothing, and for each
prediction with a range that forbids it, whether anything satisfies their conditions at once. Where nothing does, that is the proof; where
something does, it is shown; where it cannot be decided, it is said, and `fedkg eval` counts on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from fedkg.pack import Pack
from fedkg.pack.knowledge import Clause, KnowledgeModel
from fedkg.pack.walk import is_temporal
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.reason import Budget
from fedkg_compiler.reason.rows import RowTable

STEPS = 2_000_000
"""Of the solver, for all questions of a compilation."""
MOST_ROWS, MOST_AT_ONCE, MOST_SETS = 150, 3, 20_000
"""Models of more bound clauses are not looked at, contradictions of more clauses than that at once are not asked about; and so many sets of
clauses are looked through for one."""
Z3 = Any
"""z3 has no types."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One bound clause: its number among all conditions' rows, and those before it in a list of predictions."""

    number: int
    clause: Clause
    earlier: tuple[int, ...] = ()


Verdict = tuple[Literal["proven", "broken", "open"], str]
"""What came out, and for ``broken`` the values at which it is."""


def prove(pack: Pack, places: Mapping[str, Span]) -> tuple[Pack, list[Diagnostic]]:
    """The pack with what is proven of its knowledge models, and what is to be said of the rest.

    Args:
        places: where each model stands in the rule files, by name.
    """
    if not pack.manifest.knowledge:
        return pack, []
    prover, said = _Prover(pack), list[Diagnostic]()
    models = []
    for model in pack.manifest.knowledge:
        span = places.get(model.name, Span(file=model.file, line=model.line, column=1, end_line=model.line, end_column=1))
        proven: list[Literal["nonempty", "within"]] = []
        for what, verdict in prover.questions(model):
            if verdict[0] == "proven":
                proven.append(what)
            else:
                said.append(_said(model, what, verdict, span))
        models.append(model.model_copy(update={"proven": tuple(proven)}))
    return replace(pack, manifest=pack.manifest.model_copy(update={"knowledge": tuple(models)})), said


def _said(model: KnowledgeModel, what: str, verdict: Verdict, span: Span) -> Diagnostic:
    if verdict[0] == "open":
        fails = "allow nothing" if what == "nonempty" else "predict outside of its range"
        return Diagnostic(
            code="FKG381",
            severity="info",
            span=span,
            message=f"it could not be decided whether `{model.name}` can {fails}: it is checked on data",
            help="`fedkg eval` counts the rows for which it does",
        )
    if what == "nonempty":
        message, advice = f"`{model.name}` allows nothing{verdict[1]}", "make the conditions exclude each other, or the ranges overlap"
        return Diagnostic(code="FKG379", severity="warning", span=span, message=message, help=advice)
    message = f"what `{model.name}` predicts is not allowed{verdict[1]}"
    return Diagnostic(code="FKG380", severity="warning", span=span, message=message, help="allow it there, or predict something else")


class _Prover:
    """Questions about the conditions of knowledge models."""

    def __init__(self, pack: Pack) -> None:
        self.pack, self.table = pack, RowTable(pack, pack.conditions)
        self.budget = Budget(each=500_000, total=STEPS)

    def questions(self, model: KnowledgeModel) -> Iterator[tuple[Literal["nonempty", "within"], Verdict]]:
        """What must be true of a model, and whether it is."""
        if model.kind == "range":
            yield "nonempty", ("proven", "") if model.network is not None else self._worst(self._empty(model))
            return
        ranges = [other for other in self.pack.manifest.knowledge if other.kind == "range" and other.output == model.output]
        if not ranges:
            yield "within", ("proven", "")
        elif model.network is not None or any(other.network is not None for other in ranges):
            yield "within", ("open", "")
        else:
            yield "within", self._worst(verdict for other in ranges for verdict in self._outside(model, other))

    @staticmethod
    def _worst(verdicts: Iterator[Verdict]) -> Verdict:
        worst: Verdict = ("proven", "")
        for verdict in verdicts:
            if verdict[0] == "broken":
                return verdict
            worst = verdict if verdict[0] == "open" else worst
        return worst

    def _rows(self, model: KnowledgeModel) -> list[_Row]:
        """The bound clauses of a model in order; `otherwise` last, behind all others."""
        found: list[_Row] = []
        for clause in (*model.clauses, *(() if model.otherwise is None else (model.otherwise,))):
            start = int(self.table.starts[clause.bank])
            for number in range(start, start + self.pack.conditions[clause.bank].rows):
                last = clause is model.otherwise
                earlier = tuple(row.number for row in found) if model.kind == "predict" or last else ()
                found.append(_Row(number, clause, earlier))
        return found

    def _empty(self, model: KnowledgeModel) -> Iterator[Verdict]:
        rows = self._rows(model)
        if len(rows) > MOST_ROWS:
            yield "open", ""
            return
        if model.classes:
            known: list[frozenset[int]] = []
            masks = [frozenset(range(len(model.classes)) if row.clause.classes is None else row.clause.classes) for row in rows]
            for size in range(1, min(MOST_AT_ONCE, len(rows)) + 1):
                for chosen in combinations(range(len(rows)), size):
                    if not frozenset.intersection(*(masks[i] for i in chosen)) and not any(small <= set(chosen) for small in known):
                        known.append(frozenset(chosen))
                        yield self._ask([rows[i] for i in chosen])
            if _deeper(masks, known):
                yield "open", ""
            return
        for one in rows:
            for other in rows:
                if one.clause.low is not None and other.clause.high is not None:
                    yield self._ask([one, other] if one is not other else [one], lambda at, a=one, b=other: at.exceeds(a, b))
            if model.span is not None and (one.clause.low is not None or one.clause.high is not None):
                yield self._ask([one], lambda at, a=one, span=model.span: at.misses(a, span))

    def _outside(self, model: KnowledgeModel, other: KnowledgeModel) -> Iterator[Verdict]:
        predictions, ranges = self._rows(model), self._rows(other)
        if len(predictions) * len(ranges) > MOST_ROWS:
            yield "open", ""
            return
        for said in predictions:
            if other.span is not None:
                yield self._ask([said], lambda at, a=said, span=other.span: at.strays(a, span))
            for allowed in ranges:
                if model.classes:
                    if allowed.clause.classes is not None and said.clause.predicted not in allowed.clause.classes:
                        yield self._ask([said, allowed])
                elif allowed.clause.low is not None or allowed.clause.high is not None:
                    yield self._ask([said, allowed], lambda at, a=said, b=allowed: at.leaves(a, b))

    def _ask(self, rows: Sequence[_Row], condition: Any = None) -> Verdict:
        """Whether these clauses can hold at once, under a further condition. `Any`: a function from questions to one of z3's."""
        keysets = [dict(self.table.keysets[int(self.table.keyset[row.number])]) for row in rows]
        if any(one.get(column, code) != code for one in keysets for other in keysets for column, code in other.items()):
            return "proven", ""  # no sample is about both
        from fedkg_compiler.knowledge.questions import Questions

        if any(is_temporal(self.pack.conditions[int(self.table.bank[n])].skeleton) for row in rows for n in (row.number, *row.earlier)):
            return "open", ""  # what holds of a row now need not hold at other steps, as a rule does
        keys = tuple(sorted({pair for one in keysets for pair in one.items()}))
        return Questions(self.table, [row.number for row in rows], [n for row in rows for n in row.earlier], keys, self.budget).answer(
            condition
        )


def _deeper(masks: Sequence[frozenset[int]], known: Sequence[frozenset[int]]) -> bool:
    """Whether more than `MOST_AT_ONCE` masks may have nothing in common, without any of the `known` sets of masks among them."""
    waiting: list[tuple[tuple[int, ...], frozenset[int]]] = [((i,), mask) for i, mask in enumerate(masks)]
    seen = 0
    while waiting:
        chosen, common = waiting.pop()
        seen += 1
        for i in range(chosen[-1] + 1, len(masks)):
            left, more = common & masks[i], (*chosen, i)
            if left == common or any(small.issubset(more) for small in known):
                continue
            if not left or seen > MOST_SETS:
                return True
            waiting.append((more, left))
    return False
