"""Analyses the rules of a pack together, and reports what they leave out."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.safe_text import list_first
from fedkg.pack import Pack
from fedkg.pack.formulas import is_temporal
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.single_column_bounds import (
    Bounds,
    Boxes,
    Keys,
    RowTable,
    find_bounds,
    point_of,
)
from fedkg_compiler.analysis.verdict import UNKNOWN, Kind, Method, Verdict, Witness
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.binding.scope import Names, Sources
from fedkg_compiler.frontends.fkg.binding.signal_columns import columns_of
from fedkg_compiler.frontends.fkg.syntax.tree import InClass, Pattern, Quantifier

if TYPE_CHECKING:
    from fedkg_compiler.analysis.difference_bounds import Paths
    from fedkg_compiler.analysis.interaction_analysis import Findings, PlaceReasoner
    from fedkg_compiler.analysis.interaction_groups import Place
    from fedkg_compiler.analysis.local_search import Shown, Trials
    from fedkg_compiler.graph.graph import Graph

MOST_NAMES = 20
"""At most this number of places is named in a verdict; the others are counted."""
MOST_WHOLE = 10
"""At most this number of places that had to be cut is searched for values that satisfy all rows."""
MOST_MINIMISED = 60
"""For conflicts of more rows fedkg reports the set that linear programming finds, perhaps not
minimal."""


@dataclass(slots=True)
class _Gathered:
    """Findings of one kind about one set of rules."""

    rows: tuple[int, ...]
    keeps: tuple[Witness | None, ...]
    spans: bool
    method: Method
    names: dict[str, None] = field(default_factory=dict)
    places: int = 0
    detail: str = ""


class _Reasoning:
    """Gathers what intervals and the solver find out."""

    def __init__(self, pack: Pack, budget: Budget, *, witnesses: bool) -> None:
        self.witnesses = witnesses
        self.table = RowTable(pack)
        self.bounds: Bounds = find_bounds(self.table)
        self.boxes = Boxes(self.table, self.bounds)
        self.binding = [(record.hard, record.scope) for record in pack.manifest.rules]
        self.budget = budget
        self.gathered: dict[tuple[Kind, tuple[int, ...]], _Gathered] = {}
        self.plain = set(np.flatnonzero(self.bounds.plain).tolist())
        self.unsure: set[int] = set()
        self.no_failure: dict[int, int] = defaultdict(int)
        self.never_fails: set[int] = set(np.flatnonzero(self.boxes.never_fails).tolist())
        self.never_applies: dict[
            int, tuple[tuple[int, ...], int, bool, tuple[Witness | None, ...]]
        ] = {}
        self.seen: dict[int, int] = defaultdict(int)
        self.torn: set[int] = set(np.flatnonzero(self.boxes.alone).tolist())
        self.implied: dict[int, frozenset[int]] = {}
        self.by_solver: set[int] = set()
        self.twice: set[int] = set()
        self.open: dict[int, None] = {}
        self.cut: dict[int, None] = {}
        self.left_out = 0

    def verdicts(self) -> list[Verdict]:
        self._single()
        self._pairs()
        self._collect_places()
        self.never_fails.update(
            row for row, places in self.no_failure.items() if places >= self.seen[row]
        )
        self._needless()
        found = [
            self._verdict(kind, rules, entry) for (kind, rules), entry in self.gathered.items()
        ]
        found += [
            *self._empty("never_fails"),
            *self._empty("never_applies"),
            *self._redundant(),
            *self._undecided(),
        ]
        return found

    def gather(
        self,
        kind: Kind,
        rows: Sequence[int],
        names: Iterable[str],
        method: Method,
        *,
        spans: bool,
        keeps: tuple[Witness | None, ...] = (),
    ) -> None:
        """One more place at which something is so."""
        rules = tuple(dict.fromkeys(int(self.table.rule[row]) for row in rows))
        key = (kind, tuple(sorted(rules)))
        if key not in self.gathered:
            self.gathered[key] = _Gathered(tuple(rows), keeps, spans, method)
        entry = self.gathered[key]
        for name in names:
            entry.places += 1
            if name:
                entry.names[name] = None

    def _single(self) -> None:
        for row in np.flatnonzero(self.boxes.alone).tolist():
            torn = any(row == one for one, _ in self.boxes.torn)
            self.gather(
                "conflict" if torn else "outside",
                [row],
                [self.table.entity_name(row)],
                "interval",
                spans=not torn,
            )

    def _pairs(self) -> None:
        for one, other in self.boxes.conflicts():
            self.torn.update((one, other))
            rows = sorted((one, other), key=lambda row: (int(self.table.rule[row]), row))
            key = ("conflict", tuple(sorted({int(self.table.rule[row]) for row in rows})))
            known = key in self.gathered
            keeps = (
                ()
                if known or not self.witnesses
                else tuple(point_of(self.table, self.bounds, [other]) for other in reversed(rows))
            )
            names = dict.fromkeys(name for row in rows if (name := self.table.entity_name(row)))
            self.gather("conflict", rows, [", ".join(names)], "interval", spans=False, keeps=keeps)

    def _collect_places(self) -> None:
        large = self.table.too_large()
        self.open.update(dict.fromkeys(self.table.rule[large].tolist()))
        general = np.flatnonzero(~self.bounds.plain & ~self.bounds.dead & ~large).tolist()
        if not general:
            return
        # Rules that only limit single columns need none of these methods.
        from fedkg_compiler.analysis.interaction_groups import find_places
        from fedkg_compiler.analysis.local_search import Trials

        places, self.left_out = find_places(self.table, self.bounds, general)
        for place in places:
            for rows in place.alike:
                for row in rows:
                    self.seen[row] += 1
            if place.linear:
                self._linear(place)
        trials = Trials(self.table, self.bounds)
        self._cut(places, trials)
        todo = self._reasoners([place for place in places if not place.linear], trials)
        for reasoner in todo:
            reasoner.conflicts()
        for reasoner in todo:
            reasoner.antecedents()
        for reasoner in todo:
            reasoner.vacuous(self.never_fails)
        for reasoner in todo:
            reasoner.redundant(self._may_imply, self._kind, self.plain)
            self._take(reasoner.place, reasoner.result)

    def _cut(self, places: Sequence[Place], trials: Trials) -> None:
        """Places that were cut are not wholly looked at, unless a value shows that all of them goes
        together.
        """
        known: dict[tuple[Keys, tuple[int, ...]], bool] = {}
        for place in places:
            for whole in place.cut:
                if whole not in known:
                    known[whole] = len(known) < MOST_WHOLE and trials.together(*whole)
            if not all(known[whole] for whole in place.cut):
                self.cut.update(dict.fromkeys(int(self.table.rule[row]) for row in place.rows))

    def _reasoners(self, places: Sequence[Place], trials: Trials) -> list[PlaceReasoner]:
        """Create the queries for each place, including the findings that need no solver."""
        from fedkg_compiler.analysis.difference_bounds import DifferenceBounds
        from fedkg_compiler.analysis.interaction_analysis import PlaceReasoner
        from fedkg_compiler.analysis.parameter_subsumption import Tighter

        rows = [[row for row in place.rows if row not in self.torn] for place in places]
        tighter = Tighter(self.table)
        givers = [tighter.givers(here) for here in rows]
        differences = DifferenceBounds(self.table)
        paths = [differences.at(here) for here in rows]
        tried = [i for i, here in enumerate(paths) if here is None]
        shown: dict[int, Shown] = dict(
            zip(
                tried,
                trials.show([(places[i].keys, rows[i], givers[i]) for i in tried]),
                strict=True,
            )
        )
        for i, here in enumerate(paths):
            if here is not None:
                shown[i] = self._shown_by_paths(here, rows[i])
        return [
            PlaceReasoner(
                self.table,
                self.bounds,
                self.budget,
                place,
                rows[i],
                givers[i],
                shown[i],
                paths[i],
                witnesses=self.witnesses,
            )
            for i, place in enumerate(places)
        ]

    def _shown_by_paths(self, paths: Paths, rows: Sequence[int]) -> Shown:
        """What values would show of a place that paths decide."""
        from fedkg_compiler.analysis.local_search import Shown

        return Shown(
            together=not paths.clash(rows),
            fails={row for row in rows if not paths.implies((), row)},
        )

    def _linear(self, place: Place) -> None:
        """Very many linear rules: linear programming names the conflict, the solver makes it
        minimal.
        """
        from fedkg_compiler.analysis.linear_programs import linear_core, shrunk_core
        from fedkg_compiler.analysis.z3_solver import Solver

        core = linear_core(self.table, place.rows)
        if core is None:
            return
        core = shrunk_core(self.table, core)
        keeps: tuple[Witness | None, ...] = ()
        if len(core) <= MOST_MINIMISED:
            solver = Solver(self.table, core, self.budget, keys=place.keys)
            if solver.ask(core) == "yes":
                return
            core = solver.core(core)
            for row in core:
                found = (
                    solver.ask([other for other in core if other != row]) == "yes"
                    and solver.replayable
                )
                keeps += (solver.witness() if found else None,)
        self.gather("conflict", core, place.names, "lp", spans=True, keeps=keeps)

    def _take(self, place: Place, result: Findings) -> None:
        """What was found at a place holds at all places like it."""
        if result.open:
            self.open.update(dict.fromkeys(int(self.table.rule[row]) for row in place.rows))
        position = {row: i for i, row in enumerate(place.rows)}
        for finding in result.found:
            if finding.kind == "never_fails":
                for rows in place.alike:
                    row = rows[position[finding.rows[0]]]
                    self.no_failure[row] += 1
                    self.unsure.update([row] if finding.detail else ())
            elif finding.kind == "never_applies":
                for rows in place.alike:
                    here = tuple(rows[position[row]] for row in finding.rows)
                    old = self.never_applies.get(here[0], (here, 0, True, finding.keeps))
                    self.never_applies[here[0]] = (
                        here if len(here) > len(old[0]) else old[0],
                        old[1] + 1,
                        finding.spans,
                        finding.keeps,
                    )
            else:
                self.gather(
                    finding.kind,
                    finding.rows,
                    place.names,
                    finding.method,
                    spans=finding.spans,
                    keeps=finding.keeps,
                )
        if result.implied and _key_columns(self.table, place):
            return
        for row, others in result.implied.items():
            for rows in place.alike:
                self.implied[rows[position[row]]] = frozenset(
                    rows[position[other]] for other in others
                )
                self.by_solver.update([] if row in result.by_numbers else [rows[position[row]]])

    def _may_imply(self, one: int, other: int) -> bool:
        """Whether a row can make another needless: it is as binding, as public, and about all table
        rows that the other is about.
        """
        keys, hard, scope = self._kind(one)
        other_keys, other_hard, other_scope = self._kind(other)
        within = keys == other_keys or set(self.table.keysets[keys]) <= set(
            self.table.keysets[other_keys]
        )
        return within and _binds(hard, scope, other_hard, other_scope)

    def _kind(self, row: int) -> tuple[int, bool, str]:
        """All of a row on which `_may_imply` depends."""
        return int(self.table.keyset[row]), *self.binding[int(self.table.rule[row])]

    def _needless(self) -> None:
        """Rows that bounds of other rules imply, and of rules over several steps what is there
        twice.
        """
        temporal = (
            number for number, bank in enumerate(self.table.banks) if is_temporal(bank.skeleton)
        )
        for bank in temporal:
            for row, other in self.table.duplicate_rows(bank).items():
                if self._may_imply(other, row):
                    self.implied[row] = frozenset([other])
                    self.twice.add(row)
        usable = ~self.boxes.alone
        for hard, scope in sorted(set(self.binding)):
            wanted = np.array([each == (hard, scope) for each in self.binding], dtype=np.bool_)
            giving = np.array([_binds(*each, hard, scope) for each in self.binding], dtype=np.bool_)
            self.implied |= self.boxes.implied(
                giving[self.table.rule] & usable, wanted[self.table.rule] & usable
            )

    def _rows_of(self, rule: int) -> NDArray[np.int64]:
        return np.flatnonzero((self.table.rule == rule) & ~self.bounds.dead)

    def _empty(self, kind: Kind) -> list[Verdict]:
        """Findings about rows that never fail or never apply."""
        flagged = (
            self.never_fails
            if kind == "never_fails"
            else {
                row
                for row, (_, places, _, _) in self.never_applies.items()
                if places >= self.seen[row]
            }
        )
        by_rule: dict[int, list[int]] = defaultdict(list)
        for row in sorted(flagged):
            by_rule[int(self.table.rule[row])].append(row)
        found = []
        for rule, rows in sorted(by_rule.items()):
            whole = self._rows_of(rule)
            proof: tuple[int, ...] = (rows[0],)
            keeps: tuple[Witness | None, ...] = ()
            spans = True
            if kind == "never_applies":
                proof, _, spans, keeps = self.never_applies[rows[0]]
            entry = _Gathered(
                tuple(proof),
                keeps,
                spans,
                "interval" if self.bounds.plain[rows[0]] else "z3",
                places=len(rows),
            )
            entry.detail = (
                UNKNOWN if kind == "never_fails" and self.unsure.intersection(rows) else ""
            )
            entry.names = dict.fromkeys(
                name for row in rows if (name := self.table.entity_name(row))
            )
            rules = tuple(dict.fromkeys(int(self.table.rule[row]) for row in proof))
            found.append(self._verdict(kind, rules, entry, of=len(whole)))
        return found

    def _redundant(self) -> list[Verdict]:
        """Rules that say nothing which others do not say, the latest first.

        What makes a rule needless stays.
        """
        torn = {
            rule
            for kind, rules in self.gathered
            if kind in ("conflict", "outside")
            for rule in rules
        }
        implied = {
            row: others for row, others in self.implied.items() if row not in self.never_fails
        }
        by_rule: dict[int, list[int]] = defaultdict(list)
        for row in implied:
            by_rule[int(self.table.rule[row])].append(row)
        needless: dict[int, tuple[int, ...]] = {}
        full = {
            rule
            for rule, rows in by_rule.items()
            if len(rows) == len(self._rows_of(rule)) and rule not in torn
        }
        for rule in sorted(full, reverse=True):
            givers = {
                int(self.table.rule[other]) for row in by_rule[rule] for other in implied[row]
            }
            if givers & set(needless):
                continue
            needless[rule] = tuple(sorted(givers))
        found = []
        for rule, givers_ in sorted(needless.items()):
            rows = sorted(by_rule[rule])
            mutual = len(givers_) == 1 and givers_[0] in full
            same = (len(givers_) == 1 and self.twice.issuperset(rows)) or (
                mutual
                and all(
                    {int(self.table.rule[other]) for other in implied[row]} == {rule}
                    for row in by_rule[givers_[0]]
                )
            )
            method: Method = "z3" if any(row in self.by_solver for row in rows) else "interval"
            entry = _Gathered(
                (rows[0], *sorted(implied[rows[0]])), (), False, method, places=len(rows)
            )
            entry.names = dict.fromkeys(
                name for row in rows if (name := self.table.entity_name(row))
            )
            found.append(
                self._verdict(
                    "duplicate" if same else "redundant", (rule, *givers_), entry, of=len(rows)
                )
            )
        return found

    def _undecided(self) -> list[Verdict]:
        found = []
        for rules, detail in ((self.open, "time"), (self.cut, "size")):
            if rules:
                names = tuple(self.table.pack.manifest.rules[rule].name for rule in sorted(rules))
                found.append(
                    Verdict(
                        kind="undecided",
                        rules=names,
                        rows=(),
                        decided_by="z3",
                        detail=detail,
                        places=len(names),
                    )
                )
        if self.left_out:
            found.append(
                Verdict(
                    kind="undecided",
                    rules=(),
                    rows=(),
                    decided_by="z3",
                    detail="places",
                    places=self.left_out,
                )
            )
        return found

    def _verdict(self, kind: Kind, rules: Sequence[int], entry: _Gathered, of: int = 0) -> Verdict:
        order = tuple(dict.fromkeys(int(self.table.rule[row]) for row in entry.rows))
        names = self.table.pack.manifest.rules
        return Verdict(
            kind=kind,
            rules=tuple(
                names[rule].name for rule in (order if set(order) >= set(rules) else rules)
            ),
            rows=tuple(self.table.ref(row) for row in entry.rows),
            entities=tuple(entry.names)[:MOST_NAMES],
            places=entry.places,
            of=max(of, entry.places),
            decided_by=entry.method,
            keeps=entry.keeps,
            spans=entry.spans,
            detail=entry.detail,
        )


def _binds(hard: bool, scope: str, other_hard: bool, other_scope: str) -> bool:
    return (hard or not other_hard) and (scope in ("public", other_scope))


def _key_columns(table: RowTable, place: Place) -> set[int]:
    """The key columns of a place that its rows read as well."""
    read = {variable for row in place.rows for variable in table.reads(row)}
    return {column for column, _ in place.keys if table.variables.place(0, column)[0] in read}


def reason(
    pack: Pack, budget: Budget | None = None, *, witnesses: bool = True
) -> tuple[Verdict, ...]:
    """What the rules of a pack mean together: conflicts, rules that never apply or never fail,
    rules that others imply.

    Intervals decide what bounds single columns, linear programming very many linear rules, the
    solver z3 the rest, within the budget.

    Rules across table rows are left out: the methods know the values of one row.

    `witnesses`: whether conflicts are proved minimal by values (`Verdict.keeps`).
    """
    pack = replace(pack, banks=tuple(bank for bank in pack.banks if not bank.reads_other_rows))
    _start_anew()
    return tuple(_Reasoning(pack, budget or Budget(), witnesses=witnesses).verdicts())


def _start_anew() -> None:
    """Reset the solver's terms of earlier packs.

    Otherwise step counts, and results, depend on them.

    What was made of them keeps its own context, and is never put together with what comes.
    """
    solver = sys.modules.get("z3.z3")
    if solver is not None:
        vars(solver)["_main_ctx"] = None


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
    headers = {column.source for column in pack.manifest.contract.columns}
    reached = _Reached(graph, pack)
    reported: set[str] = set()
    for title, span, members in _classes(names, graph):
        missed = [iri for iri in members if iri not in reported and not reached.by_rule(iri)]
        reported.update(missed)
        if missed and len(missed) < len(members):
            yield _missed(
                graph, span, missed, f"of the {len(members)} members of `{title}`, {{}} by any rule"
            )
    for signal in names.signals.values():
        facts = (
            columns_of(sources, signal.property, None) if signal.property and signal.family else ()
        )
        own = {fact.entity: fact.column for fact in facts if fact.entity is not None}
        missed = sorted(
            iri for iri, column in own.items() if column not in headers and iri not in reported
        )
        if missed and len(missed) < len(own):
            reported.update(missed)
            yield _missed(
                graph,
                signal.place,
                missed,
                f"`{signal.name}` is observed of {len(own)} entities: {{}} by a rule about it",
            )


class _Reached:
    """Which entities some bound row is about."""

    def __init__(self, graph: Graph, pack: Pack) -> None:
        self._graph, self._pack = graph, pack

    def by_rule(self, iri: str) -> bool:
        """Whether a rule selects the entity's table rows, or names it."""
        names = {self._graph.label_of(iri), self._graph.vocabulary.shorten(iri)}
        return (bool(self._keys) and self._graph.key_of(iri) in self._keys) or bool(
            names & self._entities
        )

    @cached_property
    def _keys(self) -> set[tuple[str, str]]:
        """Header and text of all selected table rows."""
        columns = self._pack.manifest.contract.columns
        return {
            (columns[key].source, columns[key].vocabulary[code])
            for bank in self._pack.banks
            for key, code in {
                *zip(bank.keys.ravel().tolist(), bank.codes.ravel().tolist(), strict=True)
            }
            if key >= 0
        }

    @cached_property
    def _entities(self) -> set[str]:
        entities = self._pack.manifest.entities
        listed = (entity for entity in entities if ", " in entity)
        return {*entities, *(part for entity in listed for part in entity.split(", "))}


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
    shown = list_first([graph.label_of(iri) for iri in missed], SHOWN)
    verb, it = ("is not reached", "it") if len(missed) == 1 else ("are not reached", "them")
    return Diagnostic(
        code="FKG511",
        severity="info",
        span=span,
        message=frame.format(f"{shown} {verb}"),
        help=f"give {it} the facts that the rules ask for in the graph, or write a rule about {it}",
    )


MOST = 40
"""At most this number of findings of one code is reported."""


def reason_about(
    pack: Pack,
    names: Names,
    sources: Sources,
    files: Sequence[Path],
    others: Mapping[str, Span],
    not_waived: Callable[[Sequence[Diagnostic]], list[Diagnostic]],
) -> list[Diagnostic]:
    """Warnings and notes on what the rules mean together, and on what they leave out.

    Args:
        pack: the compiled rules.
        names: the declarations of the rule files.
        sources: the graph and the columns that the rules refer to.
        files: the files with shapes, to name the file of a rule that is not in a rule file.
        others: the locations of rules from queries, by name.
        not_waived: drops the warnings that rules allow.
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
    found: list[Diagnostic] = []
    if verdicts:  # most compilations have none, and need no words for them
        from fedkg_compiler.analysis.verdict_diagnostics import diagnostics_of

        found = diagnostics_of(pack, verdicts, places)
    return [*_the_first(not_waived(found)), *not_waived(uncovered(pack, names, sources))]


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
