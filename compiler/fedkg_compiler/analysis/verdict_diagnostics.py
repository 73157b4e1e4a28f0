"""The verdicts of the analysis as diagnostics: one sentence each, the places of all its rules, and
a remedy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedkg.pack import Formula, Pack, RuleRecord
from fedkg_compiler.analysis.requirement_text import clause
from fedkg_compiler.analysis.verdict import UNKNOWN, RowRef, Verdict
from fedkg_compiler.diagnostics.record import Diagnostic, Related, Severity, Span
from fedkg_compiler.formulas.formula_algebra import implications

CODES: dict[str, str] = {
    "conflict": "FKG500",
    "outside": "FKG501",
    "conditional": "FKG502",
    "never_applies": "FKG503",
    "never_fails": "FKG504",
    "redundant": "FKG505",
    "duplicate": "FKG506",
    "undecided": "FKG507",
}
LONGEST = 160
"""Longer clauses are cut in the middle of a sentence."""


def diagnostics_of(
    pack: Pack, verdicts: Sequence[Verdict], places: Mapping[str, Span]
) -> list[Diagnostic]:
    """The diagnostics of verdicts.

    Args:
        places: the location of each rule, by name; for others the file and line of their record are
            used.
    """
    formatter = _VerdictText(pack, places)
    return [formatter.diagnostic(verdict) for verdict in verdicts]


class _VerdictText:
    def __init__(self, pack: Pack, places: Mapping[str, Span]) -> None:
        self.pack, self.places = pack, places
        self.records = {record.name: record for record in pack.manifest.rules}

    def diagnostic(self, verdict: Verdict) -> Diagnostic:
        message, advice = getattr(self, f"_{verdict.kind}")(verdict)
        partial = verdict.kind in ("never_applies", "never_fails") and verdict.places < verdict.of
        severity: Severity = "info" if partial or verdict.kind == "undecided" else "warning"
        about = verdict.rules or tuple(self.records)[:1]
        first, *others = about
        if verdict.kind in ("conflict", "undecided"):
            *others, first = about
        related = (
            tuple(
                Related(span=self._span(name), message=self._requirement(verdict, name))
                for name in others
            )
            if verdict.rows
            else ()
        )
        return Diagnostic(
            code=CODES[verdict.kind],
            severity=severity,
            span=self._span(first),
            message=message,
            help=advice,
            related=related,
        )

    def _span(self, name: str) -> Span:
        if name in self.places:
            return self.places[name]
        record: RuleRecord = self.records[name]
        line = max(1, record.line)
        return Span(file=record.file, line=line, column=1, end_line=line, end_column=2)

    def _requirement(self, verdict: Verdict, name: str) -> str:
        """``x requires torque >= 70 N.m and torque <= 80 N.m``."""
        clauses = dict.fromkeys(
            self._clause(ref) for ref in verdict.rows if self._rule(ref) == name
        )
        return f"`{name}` requires {_listed(list(clauses))}" if clauses else f"`{name}`"

    def _clause(self, ref: RowRef, part: Formula | None = None) -> str:
        text = clause(self.pack, self.pack.banks[ref.bank], ref.row, part)
        return text if len(text) <= LONGEST else text[: LONGEST - 3].rstrip() + "..."

    def _rule(self, ref: RowRef) -> str:
        return self.pack.manifest.rules[int(self.pack.banks[ref.bank].rule[ref.row])].name

    def _where(self, verdict: Verdict) -> str:
        """`` (zone 7, and 12 more)``."""
        if not verdict.entities:
            return f" ({verdict.places} times)" if verdict.places > 1 else ""
        more = verdict.places - 1
        return f" ({verdict.entities[0]}{f', and {more:,} more' if more > 0 else ''})"

    def _conflict(self, verdict: Verdict) -> tuple[str, str]:
        inside = " inside the declared spans" if verdict.spans else ""
        where = self._where(verdict)
        if len(verdict.rules) == 1:
            required = self._requirement(verdict, verdict.rules[0])
            return (
                f"{required}: no value{inside} satisfies that{where}",
                "correct its bounds: in its current form it is always violated",
            )
        required = _listed([self._requirement(verdict, name) for name in verdict.rules])
        both = "both" if len(verdict.rules) == 2 else f"all {len(verdict.rules)}"
        return (
            f"{required}: no value{inside} satisfies {both}{where}",
            "change one of them, or say with `if ... then ...` where each applies",
        )

    def _outside(self, verdict: Verdict) -> tuple[str, str]:
        required = self._requirement(verdict, verdict.rules[0])
        spans = self._spans(verdict)
        return (
            (
                f"{required}, and {spans}: no value inside the span satisfies that"
                f"{self._where(verdict)}"
            ),
            "correct the bound, its unit, or the span",
        )

    def _conditional(self, verdict: Verdict) -> tuple[str, str]:
        ref = verdict.rows[0]
        [*parts] = implications(self.pack.banks[ref.bank].skeleton)
        when = (
            clause(self.pack, self.pack.banks[ref.bank], ref.row, parts[0].antecedent)
            if parts
            else "it applies"
        )
        texts = []
        for name in verdict.rules:
            refs = [other for other in verdict.rows if self._rule(other) == name]
            asked = [
                self._clause(other, parts[0].consequent if other == ref and parts else None)
                for other in refs
            ]
            texts.append(f"`{name}` ({'; '.join(dict.fromkeys(asked))})")
        return (
            f"whenever {when}, no value satisfies {_listed(texts)}{self._where(verdict)}",
            "make the conditions exclude each other, or change what one of them requires",
        )

    def _never_applies(self, verdict: Verdict) -> tuple[str, str]:
        name, *others = verdict.rules
        ref = verdict.rows[0]
        parts = implications(self.pack.banks[ref.bank].skeleton)
        when = (
            clause(self.pack, self.pack.banks[ref.bank], ref.row, parts[0].antecedent)
            if parts
            else "its condition"
        )
        required = _listed([self._requirement(verdict, other) for other in others])
        because = (
            f", because the hard rule{'s' * (len(others) > 1)} {required}"
            if others
            else " inside the declared spans"
        )
        return (
            f"`{name}` never applies{self._part(verdict)}: `{when}` never holds{because}",
            "correct the condition, its unit, or the span"
            if not others
            else "correct the condition, or remove `hard` from a rule that data may violate",
        )

    def _never_fails(self, verdict: Verdict) -> tuple[str, str]:
        required = self._requirement(verdict, verdict.rules[0])
        spans = self._spans(verdict)
        if verdict.detail == UNKNOWN:
            return (
                (
                    f"{required}, which can never be found violated{self._part(verdict)}: inside "
                    f"the declared spans it holds or is unknown"
                ),
                (
                    "correct the rule: look for conditions that exclude each other, a divisor "
                    "of 0, a root or logarithm outside its range"
                ),
            )
        inside = "its span" if spans and " and " not in spans else "the declared spans"
        return (
            f"{required}, which always holds inside {inside}{self._part(verdict)}"
            + (f": {spans}" if spans else ""),
            "correct the bound, its unit, or the span",
        )

    def _redundant(self, verdict: Verdict) -> tuple[str, str]:
        texts = []
        for name in verdict.rules:
            clauses = dict.fromkeys(
                self._clause(ref) for ref in verdict.rows if self._rule(ref) == name
            )
            if clauses:
                texts.append(f"`{name}` ({'; '.join(clauses)})")
        first, *givers = verdict.rules
        where = self._where(verdict)
        if len(texts) <= len(givers):  # other rows follow from other rules
            names = _listed([f"`{name}`" for name in givers])
            example = f"for {verdict.entities[0]}" if verdict.entities else "in one place"
            where = (
                f" {example}, and for {verdict.places - 1:,} more from "
                f"{'one or more of ' if len(givers) > 1 else ''}{names}"
            )
        return (
            f"{texts[0]} follows from {_listed(texts[1:])}{where}",
            f"leave `{first}` out, or tighten it",
        )

    def _duplicate(self, verdict: Verdict) -> tuple[str, str]:
        name, other = verdict.rules
        return (
            (
                f"`{name}` says the same as `{other}`: "
                f"{self._clause(verdict.rows[0])}{self._where(verdict)}"
            ),
            "leave one of them out",
        )

    def _undecided(self, verdict: Verdict) -> tuple[str, str]:
        if verdict.detail == "places":
            return (
                (
                    f"{verdict.places:,} combinations of keys (of machines, products and the "
                    f"like) were not looked at: there are too many"
                ),
                "nothing is wrong; to have them looked at too, check the rule files one by one",
            )
        names = _listed([f"`{name}`" for name in verdict.rules[:5]])
        more = f" and {len(verdict.rules) - 5} more" if len(verdict.rules) > 5 else ""
        if verdict.detail == "size":
            looked = (
                f"whether {names}{more} contradict each other was looked at for each "
                f"entity, not for all of them at once"
            )
            return (
                f"{looked}: they meet in columns that very many rows read",
                (
                    "nothing is wrong; a contradiction between several entities would show in "
                    "the data only"
                ),
            )
        alone = len(verdict.rules) == 1
        asked = (
            "contradicts or repeats others, or can never fail,"
            if alone
            else "contradict or repeat each other, or can never fail,"
        )
        return (
            f"whether {names}{more} {asked} could not be decided within the time of a check",
            (
                "nothing is wrong, and all other findings are valid; fewer rules, shorter "
                "windows, or terms without products are decided sooner"
            ),
        )

    def _part(self, verdict: Verdict) -> str:
        if verdict.places >= verdict.of:
            return "" if verdict.of == 1 else f" for any of its {verdict.of:,} entities"
        example = f", for example {verdict.entities[0]}" if verdict.entities else ""
        return f" for {verdict.places:,} of {verdict.of:,} entities{example}"

    def _spans(self, verdict: Verdict) -> str:
        """``torque has the span 0 .. 80 N.m``, of the columns that a row reads; "" for more than
        two.
        """
        ref = verdict.rows[0]
        bank = self.pack.banks[ref.bank]
        columns = [
            self.pack.manifest.contract.columns[i]
            for i in dict.fromkeys(bank.slots[ref.row].tolist())
        ]
        texts = [
            f"`{column.name}` has the span {column.span[0]:g} .. "
            f"{column.span[1]:g}{' ' + column.unit if column.unit else ''}"
            for column in columns
            if column.span
        ]
        return _listed(texts) if 0 < len(texts) <= 2 else ""


def _listed(texts: Sequence[str]) -> str:
    """``a, b and c``."""
    return (
        texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else ""
    )
