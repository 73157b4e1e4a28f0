"""The findings of the analysis of a compilation, as diagnostics: what the rules mean together, and
what they leave out. They leave out declared signals that no rule reads, and entities of their
classes that no rule reaches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedkg.pack import Pack
from fedkg_compiler.analysis.run import reason
from fedkg_compiler.analysis.verdict_diagnostics import diagnostics_of
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.binding.signal_columns import Sources
from fedkg_compiler.frontends.fkg.binding.symbol_table import Names
from fedkg_compiler.frontends.fkg.syntax.tree import InClass, Pattern, Quantifier
from fedkg_compiler.waivers import Waivers

if TYPE_CHECKING:
    from fedkg_compiler.graph.graph import Graph

_OF_CLASS = re.compile(r"\?(\w+)\s+a\s+([A-Za-z][\w.-]*:[A-Za-z][\w.-]*)")
SHOWN = 3
"""At most this number of entities is named."""
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
        *waivers.reported([*_unread(pack, names), *_unreached(pack, names, sources)]),
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
            rest = f"; so it is with {len(alike) - MOST} more"
            kept[-1] = replace(kept[-1], message=kept[-1].message + rest)
    return kept


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
