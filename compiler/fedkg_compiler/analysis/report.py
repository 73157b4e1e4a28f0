"""All that reasoning has to say of a compilation, as diagnostics: verdicts, one sentence each with
the places of all its rules and a remedy, and what the rules leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedkg.pack import Formula, Pack, RuleRecord
from fedkg_compiler.analysis.negation_normal_form import implications
from fedkg_compiler.analysis.requirement_text import clause
from fedkg_compiler.analysis.run import reason
from fedkg_compiler.analysis.verdict import UNKNOWN, RowRef, Verdict
from fedkg_compiler.diagnostics.record import Diagnostic, Related, Severity, Span
from fedkg_compiler.frontends.fkg.binding.signal_columns import Sources
from fedkg_compiler.frontends.fkg.binding.symbol_table import Names
from fedkg_compiler.frontends.fkg.syntax.tree import InClass, Pattern, Quantifier
from fedkg_compiler.waivers import Waivers

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
                Related(span=self._span(name), message=self._note(verdict, name)) for name in others
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

    def _requirement(self, verdict: Verdict, name: str, verb: str = "requires") -> str:
        """``x requires torque >= 70 N.m and torque <= 80 N.m``."""
        clauses = dict.fromkeys(
            self._clause(ref) for ref in verdict.rows if self._rule(ref) == name
        )
        return f"`{name}` {verb} {_listed(list(clauses))}" if clauses else f"`{name}`"

    def _clause(self, ref: RowRef, part: Formula | None = None) -> str:
        text = clause(self.pack, self.pack.banks[ref.bank], ref.row, part)
        return text if len(text) <= LONGEST else text[: LONGEST - 3].rstrip() + "..."

    def _rule(self, ref: RowRef) -> str:
        return self.pack.manifest.rules[int(self.pack.banks[ref.bank].rule[ref.row])].name

    def _note(self, verdict: Verdict, name: str) -> str:
        return self._requirement(verdict, name)

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
        told = []
        for name in verdict.rules:
            refs = [other for other in verdict.rows if self._rule(other) == name]
            asked = [
                self._clause(other, parts[0].consequent if other == ref and parts else None)
                for other in refs
            ]
            told.append(f"`{name}` ({'; '.join(dict.fromkeys(asked))})")
        return (
            f"whenever {when}, no value satisfies {_listed(told)}{self._where(verdict)}",
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
        told = []
        for name in verdict.rules:
            clauses = dict.fromkeys(
                self._clause(ref) for ref in verdict.rows if self._rule(ref) == name
            )
            if clauses:
                told.append(f"`{name}` ({'; '.join(clauses)})")
        first, *givers = verdict.rules
        where = self._where(verdict)
        if len(told) <= len(givers):  # other rows follow from other rules
            names = _listed([f"`{name}`" for name in givers])
            example = f"for {verdict.entities[0]}" if verdict.entities else "in one place"
            where = (
                f" {example}, and for {verdict.places - 1:,} more from "
                f"{'one or more of ' if len(givers) > 1 else ''}{names}"
            )
        return (
            f"{told[0]} follows from {_listed(told[1:])}{where}",
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
        told = [
            f"`{column.name}` has the span {column.span[0]:g} .. "
            f"{column.span[1]:g}{' ' + column.unit if column.unit else ''}"
            for column in columns
            if column.span
        ]
        return _listed(told) if 0 < len(told) <= 2 else ""


def _listed(texts: Sequence[str]) -> str:
    """``a, b and c``."""
    return (
        texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else ""
    )


if TYPE_CHECKING:
    from fedkg_compiler.graph.graph import Graph

_OF_CLASS = re.compile(r"\?(\w+)\s+a\s+([A-Za-z][\w.-]*:[A-Za-z][\w.-]*)")
SHOWN = 3
"""At most this number of entities is named."""


def uncovered(pack: Pack, names: Names, sources: Sources) -> list[Diagnostic]:
    """Notes on what is declared or known, and that no rule is about."""
    return [*_unread(pack, names), *_unreached(pack, names, sources)]


def _unread(pack: Pack, names: Names) -> Iterator[Diagnostic]:
    """Signals and labels that no rule reads, and that no knowledge is of."""
    columns = pack.manifest.contract.columns
    read = {column.name.split("[")[0].removesuffix(" (category)") for column in columns} | {
        column.label for column in columns
    }
    read |= {model.output for model in pack.manifest.knowledge}
    headers = {column.source for column in columns}
    declared = [(signal.name, signal.column, signal.place) for signal in names.signals.values()]
    declared += [(label.name, label.column, label.place) for label in names.labels.values()]
    for name, column, place in declared:
        if name not in read and (column is None or column not in headers):
            advice = "write a rule about it, or leave the declaration out"
            yield Diagnostic(
                code="FKG510",
                severity="info",
                span=place,
                message=f"no rule reads `{name}`",
                help=advice,
            )


def _unreached(pack: Pack, names: Names, sources: Sources) -> Iterator[Diagnostic]:
    graph = sources.graph
    if graph is None:
        return
    contract = pack.manifest.contract
    headers = {column.source for column in contract.columns}
    keys = {
        (contract.columns[key].source, contract.columns[key].vocabulary[code])
        for bank in pack.banks
        for key, code in {
            *zip(bank.keys.ravel().tolist(), bank.codes.ravel().tolist(), strict=True)
        }
        if key >= 0
    }
    entities = {part for entity in pack.manifest.entities for part in (entity, *entity.split(", "))}
    reached = _Reached(graph, headers, keys, entities)
    told: set[str] = set()
    for title, span, members in _classes(names, graph):
        missed = [iri for iri in members if iri not in told and not reached.by_rule(iri)]
        told.update(missed)
        if missed and len(missed) < len(members):
            yield _missed(
                graph, span, missed, f"of the {len(members)} members of `{title}`, {{}} by any rule"
            )
    for signal in names.signals.values():
        facts = (
            sources.columns_of(signal.property, None) if signal.property and signal.family else ()
        )
        own = {fact.entity: fact.column for fact in facts if fact.entity is not None}
        missed = sorted(
            iri for iri, column in own.items() if column not in headers and iri not in told
        )
        if missed and len(missed) < len(own):
            told.update(missed)
            yield _missed(
                graph,
                signal.place,
                missed,
                f"`{signal.name}` is observed of {len(own)} entities: {{}} by a rule about it",
            )


class _Reached:
    """Which entities some bound row is about."""

    def __init__(
        self, graph: Graph, headers: set[str], keys: set[tuple[str, str]], entities: set[str]
    ) -> None:
        self.graph, self.headers, self.keys, self.entities = graph, headers, keys, entities

    def by_rule(self, iri: str) -> bool:
        """Whether a rule selects the entity's table rows, or names it."""
        return self.graph.key_of(iri) in self.keys or self.graph.label_of(iri) in self.entities


def _classes(names: Names, graph: Graph) -> Iterator[tuple[str, Span, list[str]]]:
    """The classes that rules range over: name, source location, members."""
    seen: set[str] = set()
    for entry in names.rules:
        quantifier = entry.rule.quantifier
        for text, form, span in _named(quantifier):
            iri, _ = graph.resolve(text, form, span)
            if iri is not None and iri not in seen:
                seen.add(iri)
                yield text, quantifier.span if quantifier else span, graph.instances(iri)


def _named(
    quantifier: Quantifier | None,
) -> Iterator[tuple[str, Literal["pname", "iri", "name"], Span]]:
    if quantifier is None:
        return
    if isinstance(quantifier.source, InClass):
        term = quantifier.source.term
        yield term.text, term.form, term.span
    elif isinstance(quantifier.source, Pattern):
        variables = {word.text.removeprefix("?") for word in quantifier.variables}
        for variable, name in _OF_CLASS.findall(quantifier.source.text):
            if variable in variables:
                yield name, "pname", quantifier.span


def _missed(graph: Graph, span: Span, missed: list[str], frame: str) -> Diagnostic:
    more = f" and {len(missed) - SHOWN:,} more" if len(missed) > SHOWN else ""
    shown = ", ".join(graph.label_of(iri) for iri in missed[:SHOWN]) + more
    verb = "is not reached" if len(missed) == 1 else "are not reached"
    return Diagnostic(
        code="FKG511",
        severity="info",
        span=span,
        message=frame.format(f"{shown} {verb}"),
        help="give them the facts that the rules' patterns ask for, or write a rule about them",
    )


MOST = 40
"""At most this number of findings of one code is reported."""


def reason_about(
    pack: Pack,
    names: Names,
    sources: Sources,
    files: Sequence[Path],
    others: Mapping[str, Span],
    waivers: Waivers,
) -> list[Diagnostic]:
    """Warnings and notes on what the rules mean together, and on what they leave out.

    Args:
        pack: the compiled rules.
        names: the declarations of the rule files.
        sources: the graph and the columns that the rules refer to.
        files: the files with shapes, to name the file of a rule that is not in a rule file.
        others: the locations of rules from queries, by name.
        waivers: the warnings that rules allow.
    """
    places = dict(others) | {entry.rule.name.text: entry.rule.name.span for entry in names.rules}
    paths = {path.name: str(path) for path in files}
    for record in pack.manifest.rules:
        if record.name not in places and record.file:
            line = max(1, record.line)
            places[record.name] = Span(
                file=paths.get(record.file, record.file),
                line=line,
                column=1,
                end_line=line,
                end_column=2,
            )
    verdicts = reason(pack, witnesses=False)
    found = diagnostics_of(pack, verdicts, places) if verdicts else []
    return [
        *_the_first(waivers.reported(found)),
        *waivers.reported(uncovered(pack, names, sources)),
    ]


def _the_first(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings, of each code no more than people read.

    The last of those says how many there are besides.
    """
    kept: list[Diagnostic] = []
    for code in dict.fromkeys(item.code for item in found):
        alike = [item for item in found if item.code == code]
        kept += alike[:MOST]
        if len(alike) > MOST:
            rest = f"; the same for {len(alike) - MOST} more"
            kept[-1] = replace(kept[-1], message=kept[-1].message + rest)
    return kept
