"""Proves that ranges are never empty and that predictions lie inside them, for every sample within
the declared spans (Fan et al. 2022, assumption 5.1).

A contradiction needs clauses that hold together. So it is asked, for each set of clauses that
together allow nothing, be they of one range model or of several of one output, and for each
prediction with a range that forbids it, whether anything satisfies their conditions at once. If
nothing does, the model is proven. If something does, a diagnostic shows an example. If the solver
cannot decide, a diagnostic says so, and `fedkg eval` counts cases on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from fedkg.pack import Pack
from fedkg.pack.formulas import is_temporal
from fedkg.pack.knowledge_models import KnowledgeModel
from fedkg_compiler.analysis import Budget
from fedkg_compiler.analysis.single_column_bounds import RowTable
from fedkg_compiler.diagnostics.record import Diagnostic, Related, Span
from fedkg_compiler.frontends.knowledge.clause_proof_records import ClauseRow, Verdict
from fedkg_compiler.frontends.knowledge.clauses_without_common_class import contradictions

STEPS = 2_000_000
"""Of the solver, for all questions of a compilation."""
MOST_ROWS = 150
"""Models of more bound clauses, one or several together, are not looked at."""


def prove(pack: Pack, places: Mapping[str, Span]) -> tuple[Pack, list[Diagnostic]]:
    """The pack with the proofs of its knowledge models, and diagnostics for models without a proof.

    Args:
        places: the span of each model in the rule files, by name.
    """
    if not pack.manifest.knowledge:
        return pack, []
    prover = _Prover(pack)
    asked = [(model, list(prover.questions(model))) for model in pack.manifest.knowledge]
    together = {output: prover.joint_verdicts(ranges) for output, ranges in _ranges(pack).items()}
    spans = {model.name: places.get(model.name, _line(model)) for model, _ in asked}
    doubted = {name for found in together.values() for names in found for name in names}
    undecided = {
        model.name
        for model, verdicts in asked
        for what, verdict in verdicts
        if (what, verdict[0]) == ("nonempty", "open")
    }
    models, said = list[KnowledgeModel](), list[Diagnostic]()
    for model, verdicts in asked:
        said += [
            _diagnostic(model.name, what, verdict, spans[model.name])
            for what, verdict in verdicts
            if verdict[0] != "proven"
        ]
        proven = tuple(
            what
            for what, verdict in verdicts
            if verdict[0] == "proven" and (what == "within" or model.name not in doubted)
        )
        models.append(model.model_copy(update={"proven": proven}))
    for output, found in together.items():
        for names, verdict in found.items():
            if verdict[0] == "broken" or not undecided.intersection(names):
                said.append(
                    _joint_diagnostic(output, [(name, spans[name]) for name in names], verdict)
                )
    return replace(
        pack, manifest=pack.manifest.model_copy(update={"knowledge": tuple(models)})
    ), said


def _line(model: KnowledgeModel) -> Span:
    return Span(file=model.file, line=model.line, column=1, end_line=model.line, end_column=1)


def _ranges(pack: Pack) -> dict[str, list[KnowledgeModel]]:
    """The range models of each output, in order."""
    found: dict[str, list[KnowledgeModel]] = {}
    for model in pack.manifest.knowledge:
        if model.kind == "range":
            found.setdefault(model.output, []).append(model)
    return found


def _diagnostic(model: str, what: str, verdict: Verdict, span: Span) -> Diagnostic:
    if verdict[0] == "open":
        fails = "allow nothing" if what == "nonempty" else "predict outside of its range"
        return Diagnostic(
            code="FKG381",
            severity="info",
            span=span,
            message=f"fedkg could not decide whether `{model}` can {fails}; check it on data",
            help="`fedkg eval` counts the rows for which it does",
        )
    if what == "nonempty":
        message, advice = (
            f"`{model}` allows nothing{verdict[1]}",
            "make the conditions exclude each other, or the ranges overlap",
        )
        return Diagnostic(
            code="FKG379", severity="warning", span=span, message=message, help=advice
        )
    message = f"what `{model}` predicts is not allowed{verdict[1]}"
    return Diagnostic(
        code="FKG380",
        severity="warning",
        span=span,
        message=message,
        help="allow it there, or predict something else",
    )


def _joint_diagnostic(
    output: str, models: Sequence[tuple[str, Span]], verdict: Verdict
) -> Diagnostic:
    """The diagnostic for several range models of one output, placed at the last model."""
    names, (_, span) = _listed([name for name, _ in models]), models[-1]
    related = tuple(
        Related(span=at, message=f"`{name}` is defined here") for name, at in models[:-1]
    )
    if verdict[0] == "open":
        return Diagnostic(
            code="FKG381",
            severity="info",
            span=span,
            message=f"fedkg could not decide whether {names} together can allow nothing "
            f"for `{output}`; check it on data",
            help="`fedkg eval` counts the rows for which they do",
            related=related,
        )
    return Diagnostic(
        code="FKG379",
        severity="warning",
        span=span,
        message=f"{names} together allow nothing for `{output}`{verdict[1]}",
        help="make their conditions exclude each other, or their ranges overlap",
        related=related,
    )


def _listed(names: Sequence[str]) -> str:
    """The names for a sentence."""
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} and {last}"


class _Prover:
    """Questions about the conditions of knowledge models."""

    def __init__(self, pack: Pack) -> None:
        self.pack, self.table = pack, RowTable(pack, pack.conditions)
        self.budget = Budget(each=500_000, total=STEPS)

    def questions(
        self, model: KnowledgeModel
    ) -> Iterator[tuple[Literal["nonempty", "within"], Verdict]]:
        """The properties to prove of a model, with their verdicts."""
        if model.kind == "range":
            yield (
                "nonempty",
                ("proven", "") if model.network is not None else self._worst(self._empty(model)),
            )
            return
        ranges = [
            other
            for other in self.pack.manifest.knowledge
            if other.kind == "range" and other.output == model.output
        ]
        if not ranges:
            yield "within", ("proven", "")
        elif model.network is not None or any(other.network is not None for other in ranges):
            yield "within", ("open", "")
        else:
            yield (
                "within",
                self._worst(verdict for other in ranges for verdict in self._outside(model, other)),
            )

    def joint_verdicts(self, ranges: Sequence[KnowledgeModel]) -> dict[tuple[str, ...], Verdict]:
        """The sets of range models of one output that together allow nothing somewhere, or may, by
        their names.
        """
        names = tuple(model.name for model in ranges)
        if len(ranges) < 2:
            return {}
        if any(model.network is not None for model in ranges):
            return {names: ("open", "")}
        rows = [row for model in ranges for row in self._rows(model)]
        if len(rows) > MOST_ROWS:
            return {names: ("open", "")}
        found: dict[tuple[str, ...], Verdict] = {}
        sets, more = self._contradictions(rows, ranges[0])
        for chosen, condition in sets:
            among = {row.model for row in chosen}
            key = tuple(name for name in names if name in among)
            if len(key) > 1 and found.get(key, ("open", ""))[0] == "open":
                verdict = self._ask(chosen, condition)
                if verdict[0] != "proven":
                    found[key] = verdict
        if more:
            found.setdefault(names, ("open", ""))
        return found

    @staticmethod
    def _worst(verdicts: Iterator[Verdict]) -> Verdict:
        worst: Verdict = ("proven", "")
        for verdict in verdicts:
            if verdict[0] == "broken":
                return verdict
            worst = verdict if verdict[0] == "open" else worst
        return worst

    def _rows(self, model: KnowledgeModel) -> list[ClauseRow]:
        """The bound clauses of a model in order; `otherwise` last, behind all others."""
        found: list[ClauseRow] = []
        for clause in (*model.clauses, *(() if model.otherwise is None else (model.otherwise,))):
            start = int(self.table.starts[clause.bank])
            for number in range(start, start + self.pack.conditions[clause.bank].rows):
                last = clause is model.otherwise
                earlier = (
                    tuple(row.number for row in found) if model.kind == "predict" or last else ()
                )
                found.append(ClauseRow(model.name, number, clause, earlier))
        return found

    def _empty(self, model: KnowledgeModel) -> Iterator[Verdict]:
        rows = self._rows(model)
        if len(rows) > MOST_ROWS:
            yield "open", ""
            return
        sets, more = self._contradictions(rows, model)
        for chosen, condition in sets:
            yield self._ask(chosen, condition)
        if more:
            yield "open", ""
        if not model.classes and model.span is not None:
            for one in rows:
                if one.clause.low is not None or one.clause.high is not None:
                    yield self._ask([one], lambda at, a=one, span=model.span: at.misses(a, span))

    @staticmethod
    def _contradictions(
        rows: Sequence[ClauseRow], model: KnowledgeModel
    ) -> tuple[list[tuple[list[ClauseRow], Any]], bool]:
        """The sets of clauses about a model's output that allow nothing together, where a further
        condition (`Any`, as of `_ask`) holds; and whether there may be larger ones.
        """
        if model.classes:
            every = frozenset(range(len(model.classes)))
            sets, more = contradictions(
                [
                    every if row.clause.classes is None else frozenset(row.clause.classes)
                    for row in rows
                ]
            )
            return [([rows[i] for i in chosen], None) for chosen in sets], more
        low, high = (
            [row for row in rows if getattr(row.clause, end) is not None] for end in ("low", "high")
        )
        return [
            (
                [one, other] if one is not other else [one],
                lambda at, a=one, b=other: at.exceeds(a, b),
            )
            for one in low
            for other in high
        ], False

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
                    if (
                        allowed.clause.classes is not None
                        and said.clause.predicted not in allowed.clause.classes
                    ):
                        yield self._ask([said, allowed])
                elif allowed.clause.low is not None or allowed.clause.high is not None:
                    yield self._ask([said, allowed], lambda at, a=said, b=allowed: at.leaves(a, b))

    def _ask(self, rows: Sequence[ClauseRow], condition: Any = None) -> Verdict:
        """Whether these clauses can hold at once, under a further condition.

        `Any`: a function from questions to one of z3's.
        """
        keysets = [dict(self.table.keysets[int(self.table.keyset[row.number])]) for row in rows]
        if any(
            one.get(column, code) != code
            for one in keysets
            for other in keysets
            for column, code in other.items()
        ):
            return "proven", ""  # no sample is about both
        from fedkg_compiler.frontends.knowledge.clause_satisfiability import Questions

        if any(
            is_temporal(self.pack.conditions[int(self.table.bank[n])].skeleton)
            for row in rows
            for n in (row.number, *row.earlier)
        ):
            return (
                "open",
                "",
            )  # what holds of a row now need not hold at other steps, as a rule does
        keys = tuple(sorted({pair for one in keysets for pair in one.items()}))
        return Questions(
            self.table,
            [row.number for row in rows],
            [n for row in rows for n in row.earlier],
            keys,
            self.budget,
        ).answer(condition)
