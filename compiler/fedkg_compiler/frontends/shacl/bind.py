"""Binds the shapes of one file: each constraint component becomes bank rows, is decided on the
graph, is off, or is rejected.

The focus nodes of a shape are nodes of the graph, and with `rows are CLASS` the table row itself
(SHACL, section 2.1.3).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from rdflib import BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import RuleRecord, Source
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.shacl.constraint_queries import Undecidable
from fedkg_compiler.frontends.shacl.data_graph import Data
from fedkg_compiler.frontends.shacl.focus_node_columns import ROW, Observer, Row, Value
from fedkg_compiler.frontends.shacl.model import (
    PAIRS,
    SHAPE_VALUED,
    Constraint,
    Shape,
    ShapesFile,
    Target,
    part_name,
    path_text,
    said_of,
    shape_name,
    shape_path,
)
from fedkg_compiler.frontends.shacl.partial_evaluation import Partial
from fedkg_compiler.frontends.shacl.rdflib_graphs import SPACE, behind_rdflib
from fedkg_compiler.frontends.shacl.shape_conditions import (
    Expr,
    Has,
    Observed,
    Piece,
    Refused,
    Writer,
    bound_rows,
    conjuncts,
    either,
    guarded,
    negate,
    required,
)
from fedkg_compiler.frontends.shacl.sparql_constraint_binding import conditional
from fedkg_compiler.frontends.shacl.static_validation import find_violations
from fedkg_compiler.frontends.shacl.table_results import Component, ShapeResults
from fedkg_compiler.frontends.shacl.unknown_terms import Words
from fedkg_compiler.frontends.shacl.validator import component_name
from fedkg_compiler.frontends.sparql.answer_frames import Answer
from fedkg_compiler.frontends.sparql.numeric_terms import mixed
from fedkg_compiler.graph.graph_terms import Iri, local_name
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.ir import (
    NO_CONSTRAINTS,
    BankRows,
    BoundRows,
    GraphVerdict,
    PartOutcome,
    Program,
    Refusal,
    placement_of,
)


@dataclass(frozen=True, slots=True)
class Focus:
    """A focus node of a component: what a row is about, the node itself, and values that must be
    there for it to be one.
    """

    root: Node | Row
    node: Value
    given: tuple[Observed, ...] = ()
    unless: tuple[BoundRows, ...] = ()
    """Rows that all hold if the table makes the node not a focus node (the target's query reads the
    table); () if it always is one."""

    @property
    def depends(self) -> bool:
        """Whether the table says if it is a focus node."""
        return bool(self.given or self.unless)


@dataclass(frozen=True, slots=True)
class TargetQueries:
    """Asks queries of targets that read the table."""

    partial: Partial
    observer: Observer
    span: Span

    def foci(self, target: Target) -> list[Focus]:
        """The entities with columns, and the table row, that may be focus nodes.

        Raises ValueError if the query cannot be split.
        """
        if re.search(r"[?$]this\b", target.select) is None:
            raise ValueError("it does not select ?this")
        record = RuleRecord(name="target", file="", line=1)
        found: list[Focus] = []
        rows = [] if self.observer.sources.names.rows_class is None else [ROW]
        for node in (*self.observer.keyed(), *rows):
            if not isinstance(node, URIRef | Row):
                continue
            try:
                asked = self.partial.queries.target(target.select, node, record, self.span)
            except SparqlProblem as problem:
                raise ValueError(str(problem)) from problem
            if asked.violations:
                found.append(Focus(node, node))
            elif asked.rows:
                found.append(Focus(node, node, (), asked.rows))
        return found


def focus_nodes(
    shape: Shape, data: Data, observer: Observer, asked: TargetQueries
) -> tuple[list[Focus], list[str]]:
    """The focus nodes of a shape, each once, and what is wrong with its targets: sentences."""
    found: dict[Focus, None] = {}
    wrong: list[str] = []
    for target in shape.targets:
        if target.kind == "unknown":
            wrong.append("is of no known kind")
            continue
        try:
            if target.kind == "sparql" and asked.partial.queries.is_table_read(target.select, {}):
                found.update(dict.fromkeys(asked.foci(target)))
                continue
            found.update(
                dict.fromkeys(
                    Focus(node, node) for node in sorted(data.target_nodes(target), key=str)
                )
            )
        except ValueError as error:
            wrong.append(f"has a query that fedkg cannot run: {error}")
        found.update(dict.fromkeys(_observed(target, data, observer)))
    return list(found), wrong


def _observed(target: Target, data: Data, observer: Observer) -> list[Focus]:
    """Those for which the table counts: table rows, and subjects and values of an observed property
    where it has one.
    """
    rows = observer.sources.names.rows_class
    if target.kind == "class":
        return (
            [Focus(ROW, ROW)]
            if rows is not None and target.value in data.superclasses(URIRef(rows))
            else []
        )
    if (
        target.kind not in ("subjects", "objects")
        or not isinstance(target.value, URIRef)
        or not observer.is_observed(target.value)
    ):
        return []
    subjects: list[Node | Row] = [*observer.keyed(), *([ROW] if rows is not None else [])]
    if target.kind == "objects":
        return [
            Focus(node, value, (value,))
            for node in subjects
            for value in observer.values(target.value, node)
        ]
    return [
        Focus(node, node, values[:1])
        for node in subjects
        if (values := observer.values(target.value, node))
    ]


def focus_term(focus: Focus) -> Node:
    """A focus node as a term; a text for the table row."""
    return Literal("every table row") if isinstance(focus.root, Row) else focus.root


def rdf_term(term: Answer) -> Node:
    """An answer of a query as a term; a text for the table row."""
    if term is None:
        return Literal("every table row")
    return URIRef(term.value) if isinstance(term, Iri) else Literal(term.lexical)


_NO_SPARQL = frozenset({"FKG110", "FKG341", "FKG342"})
"""Codes of queries that say nothing in SPARQL."""

_NO_FOCUS = "no focus node"
_RANKS: dict[type[PartOutcome], int] = {GraphVerdict: 0, BankRows: 1, Refusal: 2}
"""The outcome that counts where a component has several, by its roots: the highest."""

Placed = dict[tuple[Node, Constraint | None], PartOutcome]
"""The outcome of each component of a shape, and of a shape without components (None)."""

NAMED = 3
"""Focus nodes that the message about a violated component names at most."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A focus node that violates a component; `value` is None if it is about no single one."""

    focus: Node
    value: Node | None = None
    message: str = ""


@dataclass(slots=True)
class Part:
    """One constraint component that is checked for its own sake."""

    root: Shape
    shape: Shape
    constraint: Constraint
    name: str
    foci: list[Focus] = field(default_factory=list)


class ShapesBinder:
    """The binding of one file; `bind` does it all."""

    def __init__(
        self,
        shapes: ShapesFile,
        sources: Sources,
        taken: Iterable[str] = (),
        results: ShapeResults | None = None,
    ) -> None:
        """Prepare the binding of a file.

        Args:
            taken: the names of other rules.
            results: for a validation, notes the components behind rules, and takes the violations
                of shapes by the graph in place of diagnostics.
        """
        assert sources.graph is not None, "the pipeline loads a graph where shapes are"
        self.shapes, self.sources, self.results = shapes, sources, results
        self.graph = behind_rdflib(sources.graph.store, everywhere=True)
        self.data = Data(self.graph, behind_rdflib(sources.graph.store))
        self.observer = Observer(sources, self.data, shapes)
        self.partial = Partial(shapes, self.data, self.observer)
        self.writer = Writer(sources, self._span(1))
        self.words = Words(shapes, sources, self.data, self.observer, self.partial)
        self.reported: set[Node] = set()
        self.unsound: list[tuple[Shape, Constraint]] = []
        self.file = PurePath(shapes.name).name
        self.taken = {*taken}
        self.rows: list[BoundRows] = []
        self.placed: Placed = {}
        self.parts: dict[tuple[Node, Constraint, Node], Part] = {}
        self.ruled: dict[str, Part] = {}
        """The component behind each rule."""

    def bind(self) -> Program:
        """Place every component: its rows, the placements and the source."""
        for node, parameter, reason in self.shapes.problems:
            line = self.shapes.lines.get(node, 1)
            self._error(
                "FKG311",
                self._span(*self.shapes.locate(line, parameter, SPACE))
                if parameter
                else self._span(line),
                f"this shape cannot be read: {reason}",
                f"correct the value of sh:{parameter}; `fedkg explain FKG311` shows an example"
                if parameter
                else "add the path: `sh:path PROPERTY`",
            )
        if self.results is not None:
            self.results.files.append(self.shapes)
        unknown = self.words.tell_unknown()
        self.words.tell_values()
        for (shape, constraint), refusal in self.words.tell_lost().items():
            self.unsound.append((shape, constraint))
            self.placed[shape.node, constraint] = refusal
        self.reported |= self.words.tell()
        for shape in self.shapes.targeted():
            if not shape.deactivated:
                self._gather(shape, shape, self._foci(shape), "", set())
        static = []
        for part in self.parts.values():
            if (part.shape, part.constraint) in self.unsound or self._is_unsound(part):
                continue
            if part.constraint.name == "js":
                self._refuse(part, "constraints in JavaScript are not run")
            elif self._is_asked_here(part.shape, part.constraint) or any(
                focus.given or focus.unless for focus in part.foci
            ):
                (self._query if part.constraint.is_query else self._rows)(part)
            elif any(isinstance(focus.node, Row) for focus in part.foci) and not self._about_rows(
                part
            ):
                self._refuse(
                    part,
                    f"the table's rows have no `{shape_path(part.shape)}`: declare a "
                    "signal for it, or give it an `fkg:column`",
                )
            else:
                static.append(part)
        self._decide(static)
        place_inner(self.shapes, self.placed)
        return Program(
            rows=tuple(self.rows),
            placements=tuple(
                placement_of(outcome, self.file) for outcome in (*unknown, *self.placed.values())
            ),
            sources=(Source(name=self.file, kind="shapes", sha256=self.shapes.sha256),),
        )

    # focus nodes

    def _foci(self, shape: Shape) -> list[Focus]:
        asked = TargetQueries(self.partial, self.observer, self._span(shape.line))
        found, wrong = focus_nodes(shape, self.data, self.observer, asked)
        for sentence in wrong:
            message = f"the target of {shape_name(shape)} {sentence}"
            self._error(
                "FKG314",
                self._span(shape.line),
                message,
                "give the target a SPARQL query in sh:select that binds ?this",
            )
        if not found and self.words.tell_class(shape):
            self.reported.add(shape.node)
        return found

    def _gather(
        self, root: Shape, shape: Shape, foci: list[Focus], name: str, above: set[Node]
    ) -> None:
        """The components of a shape and of the property shapes inside it, each with its focus
        nodes.
        """
        if shape.deactivated or shape.node in above:
            return
        name = ".".join(
            part for part in (name, "" if shape.path is None else path_text(shape.path)) if part
        )
        for constraint in shape.constraints:
            if constraint.deactivated:
                continue
            if constraint.name == "property":
                inner = self.shapes.shapes.get(constraint.values[0])
                if inner is not None:
                    self._gather(
                        root, inner, self._inner(shape, foci, inner), name, above | {shape.node}
                    )
                continue
            part = self.parts.setdefault(
                (shape.node, constraint, root.node),
                Part(root, shape, constraint, part_name(root, name, constraint.name)),
            )
            part.foci += (
                [focus for focus in foci if focus not in part.foci] if len(part.foci) else foci
            )

    def _inner(self, shape: Shape, foci: list[Focus], inner: Shape) -> list[Focus]:
        """The focus nodes of a property shape inside a shape: the value nodes of the outer one."""
        if shape.path is None or not self.partial.shape_touches(inner.node):
            return foci
        found = []
        for focus in foci:
            try:
                values = self.partial.values(shape.path, focus.node)
            except Refused:
                continue  # the components of the outer shape say why
            found += [replace(focus, node=value) for value in values]
        return found

    # components over the table

    def _query(self, part: Part) -> None:
        """A SPARQL constraint: its query is split like those of query files."""
        if not part.foci:
            self._no_focus(part)
            return
        record, span = self._record(part), self._component_span(part)
        rows: list[BoundRows] = []
        terms: dict[Answer, None] = {}
        try:
            for foci in self._query_groups(part.foci):
                found = self.partial.queries.bind(
                    part.shape, part.constraint, (focus.node for focus in foci), record, span
                )
                for given in foci[0].given:
                    rows += [conditional(row, given) for row in found.rows]
                    missing = (
                        [self.writer.piece(negate(Has(given)), self._focus_name(foci[0]))]
                        if found.violations
                        else []
                    )
                    rows += bound_rows(record, missing)
                for row in foci[0].unless:
                    rows += [either(own, row, record) for own in found.rows]
                    rows += [replace(row, rule=record)] if found.violations else []
                if not foci[0].depends:
                    rows += found.rows
                    terms |= dict.fromkeys(found.violations)
        except (Refused, SparqlProblem) as problem:
            self._not_asked(part, problem)
            return
        if terms:
            self._violated(part, [Finding(rdf_term(term)) for term in terms], len(terms))
        self.rows += rows
        if rows:
            self._add_rows(part, rows, graph_violates=bool(terms))
        elif terms:
            self._add_verdict(part, conforms=False, reason="the graph alone violates it")
        else:
            reason = "no focus node has a solution of its static part"
            self._add_verdict(part, conforms=True, reason=reason)

    def _is_unsound(self, part: Part) -> bool:
        """Whether SHACL does not allow a part's query; if so, reports it."""
        if not part.constraint.is_query:
            return False
        try:
            self.partial.queries.check(part.shape, part.constraint)
        except (Refused, SparqlProblem) as problem:
            self._not_asked(part, problem)
            self.unsound.append((part.shape, part.constraint))
            return True
        return False

    def _not_asked(self, part: Part, problem: Refused | SparqlProblem) -> None:
        if isinstance(problem, SparqlProblem) and problem.code in _NO_SPARQL:
            span = self._component_span(part)
            self._add_refusal(part, str(problem))
            self._error(
                "FKG316",
                span,
                f"fedkg cannot run the query of {part.name}: {problem}",
                problem.help,
            )
        else:
            self._refuse(
                part, str(problem), problem.help if isinstance(problem, SparqlProblem) else ""
            )

    def _query_groups(self, foci: Sequence[Focus]) -> list[list[Focus]]:
        """Focus nodes that a query can be asked for at once: those that are ones whatever the table
        says, and each of the others.
        """
        always = [focus for focus in foci if not focus.depends]
        return [*([always] if always else []), *([focus] for focus in foci if focus.depends)]

    def _rows(self, part: Part) -> None:
        pieces: dict[tuple[BoundRows, ...], list[Piece]] = {}
        always: list[Focus] = []
        never: list[Focus] = []
        trivial = bool(part.foci)
        self.writer.bare.clear()
        try:
            for focus in part.foci:
                for expr in self._conditions(part, focus):
                    trivial &= expr is True
                    if expr is False:
                        (never if focus.unless else always).append(focus)
                    elif expr is not True:
                        pieces.setdefault(focus.unless, []).append(
                            self.writer.piece(expr, self._focus_name(focus))
                        )
            record = self._record(part) if pieces or never else None
            rows = (
                []
                if record is None
                else [
                    row
                    for unless, own in pieces.items()
                    for row in self._bound(record, own, unless)
                ]
            )
        except Refused as refused:
            self._refuse(part, str(refused))
            return
        for said, advice in (
            () if part.constraint.name in PAIRS else map(mixed, self.writer.bare.items())
        ):
            if said:
                self.sources.problems.warning(
                    "FKG324", self._component_span(part), f"{part.name}: {said}", advice
                )
        if always:
            self._violated(part, [Finding(focus_term(focus)) for focus in always], len(always))
        if record is not None:
            rows += [replace(row, rule=record) for focus in never for row in focus.unless]
            self.rows += rows
            self._add_rows(part, rows, graph_violates=bool(always))
        elif always:
            self._add_verdict(part, conforms=False, reason="the graph alone violates it")
        elif (
            trivial
            and part.shape.path is not None
            and not any(self.partial.values(part.shape.path, focus.node) for focus in part.foci)
        ):
            self._no_column(part)
        elif trivial:
            reason = "it holds for every value that a table can have there"
            self._add_verdict(part, conforms=True, reason=reason)
        else:
            self._no_focus(part)

    def _bound(
        self, record: RuleRecord, pieces: Sequence[Piece], unless: Sequence[BoundRows]
    ) -> list[BoundRows]:
        """The rows of some conditions.

        Where focus nodes depend on the table, they hold too where it makes them none.
        """
        rows = bound_rows(record, pieces)
        return [either(row, other, record) for row in rows for other in unless] if unless else rows

    def _conditions(self, part: Part, focus: Focus) -> Iterable[Expr]:
        values = (
            [focus.node]
            if part.shape.path is None
            else self.partial.values(part.shape.path, focus.node)
        )
        expr = self.partial.component(part.shape, part.constraint, focus.node, values)
        for conjunct in conjuncts(guarded(focus.given, expr)):
            yield required(conjunct)

    def _no_column(self, part: Part) -> None:
        """Nothing to check, since no focus node has a column: said, where the property has columns
        for others.
        """
        self._add_verdict(part, conforms=True, reason="no focus node has a column for it")
        message = (
            f"the table has columns for `{shape_path(part.shape)}`, but none of them belongs to "
            f"a focus node of {shape_name(part.root)}"
        )
        hint = (
            "give them a sensor with `fkg:column`, or a `fkg:keyColumn`, or say what "
            "the table's rows are: `rows are CLASS`"
        )
        self.sources.problems.warning("FKG313", self._span(part.root.line), message, hint)

    def _no_focus(self, part: Part) -> None:
        self._add_verdict(part, conforms=True, reason=_NO_FOCUS)
        if part.root.node in self.reported:
            return
        kinds = [str(target.value) for target in part.root.targets if target.kind == "class"]
        hint = (
            f"say what the table's rows are: `rows are <{kinds[0]}>`"
            if kinds
            else "check the shape's target"
        )
        hint = " If not, ".join(filter(None, (self.words.near_class(part.root), hint)))
        message = (
            f"{shape_name(part.root)} constrains `{shape_path(part.shape)}`, which the table "
            "has, but the shape has no focus node"
        )
        self.sources.problems.warning("FKG313", self._span(part.root.line), message, hint)

    def _focus_name(self, focus: Focus) -> str:
        if isinstance(focus.root, Row | Literal):
            return "" if isinstance(focus.root, Row) else str(focus.root)
        iri = f"_:{focus.root}" if isinstance(focus.root, BNode) else str(focus.root)
        assert self.sources.graph is not None
        return self.sources.graph.label_of(iri)

    def _record(self, part: Part) -> RuleRecord:
        base, number = part.name, 2
        name = base
        while name in self.taken:
            name, number = f"{base}.{number}", number + 1
        self.taken.add(name)
        self.ruled[name] = part
        if self.results is not None:
            self.results.components[name] = self._source(part)
        own = part.shape if part.shape.message or part.shape.title else part.root
        return RuleRecord.model_validate(
            {
                "name": name,
                "title": part.constraint.message or own.message or own.title,
                "kind": part.shape.kind if part.shape.kind != "other" else part.root.kind,
                "weight": (
                    part.shape.weight * (part.root.weight if part.shape is not part.root else 1.0)
                ),
                "severity": part.shape.severity,
                "text": (
                    f"{shape_name(part.root)}: {shape_path(part.shape)} sh:{part.constraint.name}"
                    f" {said_of(part.constraint)}".strip()
                ),
                "file": self.file,
                "line": part.shape.line,
            }
        )

    # components over the graph

    def _is_asked_here(self, shape: Shape, constraint: Constraint) -> bool:
        """Whether validation of the graph cannot decide a component: it reads the table, or its
        query names a graph.
        """
        return self.partial.touches(shape, constraint) or (
            constraint.is_query and self.partial.queries.names_graph(shape, constraint)
        )

    def _about_rows(self, part: Part) -> bool:
        """Whether a static component can be decided for table rows: what a row's class is, is
        known.
        """
        return part.constraint.name == "class" and part.shape.path is None

    def _decide(self, static: Sequence[Part]) -> None:
        if not any(part.foci for part in static):
            for part in static:
                self._add_verdict(part, conforms=True, reason=_NO_FOCUS)
            return
        left_out = self.unsound + [
            (shape, constraint)
            for shape in self.shapes.shapes.values()
            for constraint in shape.constraints
            if constraint.name != "property" and self._is_asked_here(shape, constraint)
        ]
        live = {part.root.node for part in static if part.foci}
        focus_nodes = {
            shape.node: self.data.focus_nodes(shape)
            for shape in self.shapes.targeted()
            if shape.node in live
        }
        assert self.sources.graph is not None
        try:
            results = find_violations(
                self.shapes,
                left_out,
                focus_nodes,
                self.sources.graph.store,
                self.sources.graph.vocabulary.prefixes,
            )
        except Undecidable as error:
            if not self.shapes.problems:  # these have been reported and cause this error too
                shape = None if error.shape is None else self.shapes.shapes.get(error.shape)
                self._error(
                    "FKG316",
                    self._span(1 if shape is None else shape.line),
                    f"the shapes of {self.file} cannot be evaluated: {error}",
                    "correct this shape" if shape is not None else "correct the shapes",
                )
            for part in static:
                self._add_refusal(part, str(error))
            return
        by_part: dict[tuple[Node, str], list[Finding]] = {}
        for result in results:
            finding = Finding(result.focus, result.value, str((*result.messages, "")[0]))
            component = local_name(str(result.component))
            by_part.setdefault((result.shape, component), []).append(finding)
        for part in static:
            found = by_part.get((part.shape.node, component_name(part.constraint)), [])
            self._add_verdict(part, conforms=not found, reason="" if part.foci else _NO_FOCUS)
            if found:
                self._violated(part, found, len(found))
        known = {(part.shape.node, component_name(part.constraint)) for part in static}
        for (node, component), found in by_part.items():
            if (node, component) not in known:  # no part represents this finding: report it anyway
                shape = self.shapes.shapes.get(node) or next(iter(self.shapes.shapes.values()))
                part = Part(shape, shape, Constraint(component, URIRef(""), (), node), component)
                self._violated(part, found, len(found))

    def _violated(self, part: Part, found: Sequence[Finding], count: int) -> None:
        shown = "; ".join(self._finding(item) for item in found[:NAMED])
        more = f"; and {count - NAMED} more" if count > NAMED else ""
        own = part.constraint.message or part.shape.message or part.root.message
        what = f"{part.name} is violated by {shown}{more}"
        if self.results is not None:
            for item in found:
                self.results.add(self._source(part), item.focus, item.value, item.message)
            return
        say = {
            "violation": self.sources.problems.error,
            "warning": self.sources.problems.warning,
            "info": self.sources.problems.info,
        }
        say[part.shape.severity](
            "FKG310",
            self._component_span(part),
            f"{what}: {own}" if own else what,
            "correct the graph or the shape",
        )

    def _source(self, part: Part) -> Component:
        """The component of a part, for validation results."""
        nodes = {
            self._focus_name(focus): focus.root
            for focus in part.foci
            if not isinstance(focus.root, Row)
        }
        of_rows = any(isinstance(focus.root, Row) for focus in part.foci)
        return Component(self.shapes, part.shape, part.constraint, nodes, of_rows)

    def _finding(self, finding: Finding) -> str:
        value = (
            f" ({self._short(finding.value)})"
            if finding.value is not None and finding.value != finding.focus
            else ""
        )
        return f"{self._short(finding.focus)}{value}"

    def _short(self, node: Node) -> str:
        return (
            str(node)
            if isinstance(node, Literal)
            else "a blank node"
            if isinstance(node, BNode)
            else local_name(str(node))
        )

    # outcomes

    def _add_rows(self, part: Part, rows: Sequence[BoundRows], *, graph_violates: bool) -> None:
        self._add(part, BankRows(part=part.name, rows=tuple(rows), graph_violates=graph_violates))

    def _add_verdict(self, part: Part, *, conforms: bool, reason: str = "") -> None:
        self._add(part, GraphVerdict(part=part.name, conforms=conforms, reason=reason))

    def _add_refusal(self, part: Part, reason: str) -> None:
        self._add(part, Refusal(part=part.name, span=self._component_span(part), reason=reason))

    def _add(self, part: Part, outcome: PartOutcome) -> None:
        key = part.shape.node, part.constraint
        known = self.placed.get(key)
        if (
            known is None
            or _RANKS[type(outcome)] > _RANKS[type(known)]
            or known.reason == _NO_FOCUS
        ):
            self.placed[key] = outcome

    def _refuse(self, part: Part, reason: str, help: str = "") -> None:
        self._add_refusal(part, reason)
        if part.shape.node not in self.reported:
            self.sources.problems.warning(
                "FKG312",
                self._component_span(part),
                f"{part.name} is not checked: {reason}",
                help or "write it differently, or check RDF data with `fedkg validate`",
            )

    # spans

    def _span(self, line: int, column: int = 1, width: int = 1) -> Span:
        return Span(
            file=self.shapes.name,
            line=line,
            column=column,
            end_line=line,
            end_column=column + width,
        )

    def _component_span(self, part: Part) -> Span:
        """The span of the component's parameter, as far as the text shows it."""
        line, column, width = self.shapes.locate(part.shape.line, part.constraint.name)
        return self._span(line, column, width)

    def _error(self, code: str, span: Span, message: str, help: str) -> None:
        self.sources.problems.error(code, span, message, help)


def place_inner(shapes: ShapesFile, placed: Placed) -> None:
    """Give every component and shape that has no outcome yet the one that it has.

    Components inside others share the outcome of the nearest of those. What nothing reaches is off,
    and so is a shape without components.
    """
    inside: dict[Node, tuple[PartOutcome, str]] = {}
    waiting = deque(
        (constraint, outcome)
        for (_, constraint), outcome in placed.items()
        if constraint is not None
    )
    while waiting:
        constraint, outcome = waiting.popleft()
        for node in constraint.values if constraint.name in SHAPE_VALUED else ():
            inner = shapes.shapes.get(node)
            if inner is None or node in inside:
                continue
            inside[node] = (outcome, constraint.name)
            waiting += [(item, outcome) for item in inner.constraints]
    for shape in shapes.shapes.values():
        for constraint in shape.constraints:
            key = shape.node, constraint
            if key in placed or constraint.name == "property":
                continue
            name = part_name(
                shape, path := "" if shape.path is None else path_text(shape.path), constraint.name
            )
            if shape.node in inside:
                outer, word = inside[shape.node]
                reason = (
                    f"part of {outer.part}"
                    if outer.part.endswith(word)
                    else f"part of sh:{word} in {outer.part}"
                )
                if isinstance(shape.node, BNode):
                    name = ".".join(
                        filter(
                            None, (outer.part.removesuffix(f".{word}"), word, path, constraint.name)
                        )
                    )
                placed[key] = replace(outer, part=name, reason=reason)
                continue
            reason = "it is deactivated" if constraint.deactivated else "no target leads to it"
            reason = "the shape is deactivated" if shape.deactivated else reason
            placed[key] = GraphVerdict(part=name, conforms=True, reason=reason, is_on=False)
        if not _has_components(shapes, shape, set()):
            name = part_name(shape, "" if shape.path is None else path_text(shape.path), "")
            placed[shape.node, None] = GraphVerdict(
                part=name, conforms=True, reason=NO_CONSTRAINTS, is_on=False
            )


def _has_components(shapes: ShapesFile, shape: Shape, above: set[Node]) -> bool:
    """Whether a shape or a property shape inside it has a component."""
    if shape.node in above:
        return False
    inner = [
        shapes.shapes.get(one.values[0]) for one in shape.constraints if one.name == "property"
    ]
    return any(one.name != "property" for one in shape.constraints) or any(
        one is None or _has_components(shapes, one, above | {shape.node}) for one in inner
    )
