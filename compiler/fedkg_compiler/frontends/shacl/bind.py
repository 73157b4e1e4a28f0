"""Binds the shapes of one file: each constraint component becomes bank rows, is decided on the
graph, is off, or is rejected. Reports the words of shapes that nothing knows.

The focus nodes of a shape are nodes of the graph, and with `rows are CLASS` the table row itself
(SHACL, section 2.1.3).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from rdflib import RDF, BNode, Literal, URIRef
from rdflib.term import Node
from typing_extensions import override

from fedkg._internal.name_matching import nearest_name
from fedkg.pack import RuleRecord, Source
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.shacl.constraint_queries import Undecidable
from fedkg_compiler.frontends.shacl.constraint_query_references import asked_properties, unbound
from fedkg_compiler.frontends.shacl.partial_evaluation import Partial
from fedkg_compiler.frontends.shacl.query_syntax_problem import find_syntax_problem
from fedkg_compiler.frontends.shacl.shape_conditions import (
    CATEGORY,
    PASSING,
    ROW,
    Expr,
    Has,
    Observed,
    Observer,
    Piece,
    Refused,
    Row,
    Value,
    Writer,
    bound_rows,
    conjuncts,
    either,
    guarded,
    is_number,
    negate,
    required,
)
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    PAIRS,
    SHAPE_VALUED,
    SPACE,
    Constraint,
    Data,
    Repeat,
    Shape,
    ShapeNames,
    ShapesFile,
    Step,
    Target,
    behind_rdflib,
    namespace_of,
    part_name,
    path_text,
    quiet,
    read_shapes,
    said_of,
    shape_name,
    shape_path,
    steps_in,
    suggest_name,
)
from fedkg_compiler.frontends.shacl.shapes_graph_reader import Path as PropertyPath
from fedkg_compiler.frontends.shacl.sparql_constraint_binding import conditional
from fedkg_compiler.frontends.shacl.static_validation import find_violations
from fedkg_compiler.frontends.shacl.static_value_checks import ORDERED
from fedkg_compiler.frontends.shacl.table_results import Component, Header, ShapeResults
from fedkg_compiler.frontends.shacl.validation_report import fill_message, message_values
from fedkg_compiler.frontends.shacl.validator import component_name
from fedkg_compiler.frontends.sparql.answer_frames import Answer
from fedkg_compiler.frontends.sparql.numeric_terms import mixed
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.graph.ontologies import closest_name
from fedkg_compiler.graph.rdf_terms import Iri, local_name
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

# Words of shapes that nothing knows: SHACL's own, properties and classes of the graph. And shapes
# that nothing leads to.

_TYPE = ox.NamedNode(str(RDF.type))


class Words(ShapeNames):
    """Check the names in one shapes file against the graph, the ontologies and the contract."""

    def __init__(
        self, shapes: ShapesFile, sources: Sources, data: Data, observer: Observer, partial: Partial
    ) -> None:
        assert sources.graph is not None
        super().__init__(
            shapes,
            data.graph,
            sources.problems,
            lambda line, column, width: point(shapes.name, line, column, width=width),
        )
        self.data, self.observer, self.partial = data, observer, partial
        self.vocabulary = sources.graph.vocabulary
        rows = sources.names.rows_class
        self.rows = set() if rows is None else data.superclasses(URIRef(rows))
        self._members: list[str] | None = None
        self._named: dict[str, frozenset[str]] = {}

    def tell(self) -> frozenset[Node]:
        """Warn of properties that no source uses and of shapes that are never checked.

        Returns the shapes with such a property in their path.
        """
        lost: dict[URIRef, list[tuple[Shape, str]]] = {}
        for shape, iri, word, optional in self._properties():
            if not self.is_used(iri) and not (
                optional
                and closest_name(local_name(str(iri)), self._property_names(namespace_of(iri)))
                is None
            ):
                lost.setdefault(iri, []).append((shape, word))
        strange = {
            space: [iri for iri in lost if namespace_of(iri) == space]
            for space in dict.fromkeys(map(namespace_of, lost))
        }
        for space, properties in strange.items():
            if len(properties) > 1 and not any(
                self.is_used(URIRef(space + name)) for name in self._names(space)
            ):
                self._tell_space(space, {iri: lost[iri] for iri in properties})
                continue
            for iri in properties:
                for shape, word in lost[iri]:
                    self._tell_property(iri, self._property_names(space), shape, word)
        for shape in self._live():
            for constraint in shape.constraints:
                if constraint.name == "sparql" and not constraint.deactivated:
                    self._tell_variables(shape, constraint)
        for shape in self.shapes.shapes.values():
            if (
                shape.constraints
                and not shape.targets
                and not shape.deactivated
                and not self._is_referred_to(shape.node)
            ):
                message = (
                    f"{shape_name(shape)} has no target, and no other shape refers "
                    f"to it: it is not checked"
                )
                advice = (
                    "say where it holds: `sh:targetClass CLASS`, or name it in "
                    "another shape: `sh:node`, `sh:property`"
                )
                self.problems.warning("FKG319", self.span(shape.line), message, advice)
        return frozenset(
            shape.node for found in lost.values() for shape, word in found if word == "sh:path"
        )

    @override
    def tell_values(self) -> None:
        """Warn of severities and node kinds that SHACL does not define, and of values outside the
        declared categories of a column.
        """
        super().tell_values()
        for shape in self._live():
            declared = (
                list(self.data.graph.objects(shape.path.property, CATEGORY))
                if isinstance(shape.path, Step)
                else []
            )
            for constraint in shape.constraints if declared else ():
                self._tell_categories(
                    shape,
                    constraint,
                    {_text_of(one) for one in declared},
                    any(map(is_number, declared)),
                )

    def _tell_categories(
        self, shape: Shape, constraint: Constraint, declared: set[str], numbers: bool
    ) -> None:
        strange: list[Node] = []
        if constraint.name in ("hasValue", "in"):
            strange = [one for one in constraint.values if _text_of(one) not in declared]
        elif constraint.name in ORDERED and not numbers:
            strange = [one for one in constraint.values if is_number(one)]
        for value in strange:
            place, shown = self._at(shape, constraint.name), _text_of(value)
            message = (
                f"sh:{constraint.name} of {shape_name(shape)}: {shown} is not a "
                f"declared category of `{shape_path(shape)}`"
            )
            if constraint.name in ORDERED:
                message = (
                    f"sh:{constraint.name} of {shape_name(shape)} compares {shown} "
                    f"with texts of `{shape_path(shape)}`: all break it"
                )
            near = closest_name(shown, declared)
            advice = (
                f'did you mean "{near}"?'
                if near
                else f"declared are {', '.join(sorted(declared)[:5])}"
            )
            self.problems.warning("FKG326", place, message, advice)

    @override
    def _find_use(self, iri: URIRef) -> bool:
        return (
            iri in PASSING
            or iri in self.observer.attached
            or iri in self.rows
            or self.observer.is_observed(iri)
            or local_name(str(iri)) in self.vocabulary.terms.get(namespace_of(iri), ())
            or super()._find_use(iri)
        )

    @override
    def _shorten(self, iri: URIRef) -> str:
        return self.vocabulary.shorten(str(iri))

    # what shapes name

    def _properties(self) -> Iterator[tuple[Shape, URIRef, str, bool]]:
        """The properties that shapes ask for, each with the word before it, and whether the shape
        says itself that it may be absent.

        Not those that must not be there: with ``sh:maxCount 0``, or with ``sh:minCount`` alone
        inside ``sh:not``.
        """
        live = self._live()
        denied = {node for shape in live for node in self._inside(shape, "not")}
        denied |= {
            node
            for shape in live
            if shape.node in denied
            for node in self._inside(shape, "property")
        }
        allowed = {
            node
            for shape in live
            if any(one.name == "closed" for one in shape.constraints)
            for node in self._inside(shape, "property")
        }
        for shape in live:
            counts = {
                one.name: str(one.values[0])
                for one in shape.constraints
                if one.name in ("minCount", "maxCount")
            }
            forbidden = counts.get("maxCount") == "0" or (
                shape.node in denied and {one.name for one in shape.constraints} == {"minCount"}
            )
            if shape.path is not None and not forbidden:
                loose = counts.get("minCount") == "0" or (
                    shape.node in allowed and "minCount" not in counts
                )
                maybe = loose or (isinstance(shape.path, Repeat) and shape.path.least == 0)
                yield from (
                    (shape, step.property, "sh:path", maybe) for step in steps_in(shape.path)
                )
            for constraint in shape.constraints:
                if constraint.name in PAIRS:
                    yield from (
                        (shape, value, f"sh:{constraint.name}", False)
                        for value in constraint.values
                        if isinstance(value, URIRef)
                    )
                if constraint.name == "sparql" and not constraint.deactivated:
                    found = asked_properties(self.partial.queries, shape, constraint)
                    yield from ((shape, value, "the query", absent) for value, absent in found)
            for target in shape.targets:
                if target.kind in ("subjects", "objects") and isinstance(target.value, URIRef):
                    yield shape, target.value, "the target", False

    @staticmethod
    def _inside(shape: Shape, word: str) -> Iterator[Node]:
        """The shapes that a shape names behind one of SHACL's words."""
        return (
            node
            for constraint in shape.constraints
            if constraint.name == word
            for node in constraint.values
        )

    def _names(self, space: str) -> frozenset[str]:
        """The names in a namespace that columns or the graph use."""
        if space not in self._named:
            columns = (
                name
                for one in self.observer.properties()
                if (name := one.removeprefix(space)) != one
            )
            self._named[space] = self.vocabulary.local_names(space).union(columns)
        return self._named[space]

    def _property_names(self, space: str) -> list[str]:
        """Those of them that are properties."""
        return [name for name in self._names(space) if self._is_property(URIRef(space + name))]

    def _is_referred_to(self, node: Node) -> bool:
        """Whether a triple leads to a shape (in another file too, if the shape has a name)."""
        if (None, None, node) in self.shapes.graph:
            return True
        return not isinstance(node, BNode) and (None, None, node) in self.data.graph

    @override
    def _with_members(self) -> list[str]:
        """The classes with members, including the table's rows, that messages may name."""
        if self._members is None:
            store = self.vocabulary.store if self.vocabulary.told is None else self.vocabulary.told
            kinds = {
                quad.object
                for quad in store.quads_for_pattern(None, _TYPE, None)
                if isinstance(quad.object, ox.NamedNode)
            }
            self._members = sorted(
                {kind.value for kind in kinds} | {str(kind) for kind in self.rows}
            )
        return self._members

    # messages

    def _tell_property(self, iri: URIRef, known: list[str], shape: Shape, word: str) -> None:
        place, shown = self._span_and_text(shape, iri)
        advice = (
            suggest_name(shown, iri, known)
            or "check the spelling, declare a signal with it, or load the graph that has it"
        )
        message = (
            f"the graph does not use `{shown}`, and no column has it: {word} "
            f"of {shape_name(shape)} finds no values"
        )
        self.problems.warning("FKG318", place, message, advice)

    def _tell_variables(self, shape: Shape, constraint: Constraint) -> None:
        for name, bound in unbound(self.partial.queries, shape, constraint):
            lines = self.shapes.text.split("\n")
            found = (
                (number, place)
                for number in range(shape.line, len(lines) + 1)
                if (place := re.search(rf"[?$]{re.escape(name)}\b", lines[number - 1]))
            )
            line, at = next(found, (shape.line, None))
            span = (
                self.span(line)
                if at is None
                else self.span(line, at.start() + 1, at.end() - at.start())
            )
            near = nearest_name(name, bound)
            advice = (
                f"did you mean `?{near}`?"
                if near
                else f"bound are {', '.join(f'`?{one}`' for one in bound)}"
                if bound
                else ""
            )
            message = (
                f"the query of {shape_name(shape)} does not bind `?{name}`, so a "
                f"condition that reads it is never true"
            )
            self.problems.warning("FKG325", span, message, advice)

    def _tell_space(self, space: str, lost: Mapping[URIRef, list[tuple[Shape, str]]]) -> None:
        iri, found = next(iter(lost.items()))
        place, shown = self._span_and_text(found[0][0], iri)
        many = f"{len(lost)} properties of these shapes find no values, first `{shown}`"
        message = f"the graph uses no term of <{space}>: {many}"
        self.problems.warning(
            "FKG318",
            place,
            message,
            "check the namespace against the graph, or load the graph that has it",
        )

    def _is_property(self, iri: URIRef) -> bool:
        """Whether something is used, read or declared as a property."""
        graph = self.data.graph
        used = (
            self.observer.is_observed(iri)
            or iri in self.observer.attached
            or (None, iri, None) in graph
        )
        return used or any(str(kind).endswith("Property") for kind in graph.objects(iri, RDF.type))


def _text_of(value: Node) -> str:
    """A category as a column has it."""
    return str(value) if isinstance(value, Literal) else local_name(str(value))


# The binder of a file's shapes.


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
) -> tuple[list[Focus], list[tuple[str, str]]]:
    """The focus nodes of a shape, each once, and what is wrong with its targets: sentences, each
    with the query that it is about.
    """
    found: dict[Focus, None] = {}
    wrong: list[tuple[str, str]] = []
    for target in shape.targets:
        if target.kind == "unknown":
            wrong.append(("is of a kind that fedkg does not support", ""))
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
            wrong.append((f"has a query that fedkg cannot run: {error}", target.select))
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
        Focus(node, node, (value,))
        for node in subjects
        for value in observer.values(target.value, node)
    ]


def _iri_of(focus: Focus) -> str:
    """The IRI of the entity that a focus node is; "" for a table row or a text."""
    if isinstance(focus.root, Row | Literal):
        return ""
    return f"_:{focus.root}" if isinstance(focus.root, BNode) else str(focus.root)


def _name_of(focus: Focus, names: Mapping[str, str]) -> str:
    iri = _iri_of(focus)
    return names[iri] if iri else str(focus.root) if isinstance(focus.root, Literal) else ""


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
        unknown = [
            Refusal(part=one.part, span=one.span, reason=one.reason)
            for one in self.words.tell_unknown()
        ]
        self.words.tell_values()
        for (shape, constraint), lost in self.words.tell_lost().items():
            self.unsound.append((shape, constraint))
            self.placed[shape.node, constraint] = Refusal(
                part=lost.part, span=lost.span, reason=lost.reason
            )
        self.reported |= self.words.tell()
        for shape in self.shapes.targeted():
            if not shape.deactivated:
                foci = self._foci(shape)
                self._gather(shape, shape, foci, "", set())
                if self.results is not None:
                    rows = [focus.root for focus in foci if isinstance(focus.root, Row)]
                    self.results.nodes |= {f.root for f in foci if not isinstance(f.root, Row)}
                    self.results.of_rows |= bool(rows)
        static = []
        for part in self.parts.values():
            if (part.shape, part.constraint) in self.unsound or self._is_unsound(part):
                continue
            if part.constraint.name == "js":
                self._refuse(
                    part, "constraints in JavaScript are not run", "write it as a query: sh:sparql"
                )
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
        for sentence, query in wrong:
            problem = find_syntax_problem(self.shapes, [query] if query else [])
            if problem is not None:
                sentence = f"has a query that fedkg cannot run: {problem.sentence}"
            self._error(
                "FKG314",
                self._span(shape.line)
                if problem is None or problem.place is None
                else self._span(*problem.place),
                f"the target of {shape_name(shape)} {sentence}",
                (problem is not None and problem.help)
                or "give the target a SPARQL query in sh:select that binds ?this",
            )
        if wrong:
            found = []  # the validation would evaluate the targets again
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
        names = self._focus_names(part)
        rows: list[BoundRows] = []
        terms: dict[Answer, None] = {}
        try:
            for foci in self._query_groups(part.foci):
                found = self.partial.queries.bind(
                    part.shape, part.constraint, (focus.node for focus in foci), record, span, names
                )
                for given in foci[0].given:
                    rows += [conditional(row, given) for row in found.rows]
                    missing = (
                        [self.writer.piece(negate(Has(given)), _name_of(foci[0], names))]
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
            self._add_refusal(part, str(problem))
            found = self.partial.queries.syntax_problem(part.shape, part.constraint)
            self._error(
                "FKG316",
                self._component_span(part)
                if found is None or found.place is None
                else self._span(*found.place),
                f"fedkg cannot run the query of {part.name}: "
                f"{problem if found is None else found.sentence}",
                (problem.help if found is None else found.help)
                or "correct it: SHACL takes SPARQL 1.1",
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
        names = self._focus_names(part)
        self.writer.bare.clear()
        try:
            for focus in part.foci:
                for expr in self._conditions(part, focus):
                    trivial &= expr is True
                    if expr is False:
                        (never if focus.unless else always).append(focus)
                    elif expr is not True:
                        pieces.setdefault(focus.unless, []).append(
                            self.writer.piece(expr, _name_of(focus, names))
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

    def _focus_names(self, part: Part) -> dict[str, str]:
        """The names of the entities among a part's focus nodes."""
        assert self.sources.graph is not None
        return self.sources.graph.names_of(
            dict.fromkeys(iri for focus in part.foci if (iri := _iri_of(focus)))
        )

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
        # A rule is about all its focus nodes and values.
        anyone = Finding(Literal("the focus node"), Literal("the value"))
        return RuleRecord.model_validate(
            {
                "name": name,
                "title": self._filled(part, part.constraint.message or own.message, anyone)
                or own.title,
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
                mistake = find_syntax_problem(self.shapes, error.queries)
                advice = "correct this shape" if shape is not None else "correct the shapes"
                self._error(
                    "FKG316",
                    self._span(*mistake.place)
                    if mistake is not None and mistake.place is not None
                    else self._span(1 if shape is None else shape.line),
                    f"the shapes of {self.file} cannot be evaluated: "
                    f"{error if mistake is None else mistake.sentence}",
                    (mistake is not None and mistake.help) or advice,
                )
            for part in static:
                self._add_refusal(part, str(error))
            return
        if self.results is not None:
            self.results.results += results
        by_part: dict[tuple[Node, str], list[Finding]] = {}
        for result in results:
            finding = Finding(result.focus, result.value, str((*result.messages, "")[0]))
            component = local_name(str(result.component))
            by_part.setdefault((result.shape, component), []).append(finding)
        for part in static:
            found = by_part.get((part.shape.node, component_name(part.constraint)), [])
            rows = [
                Finding(focus_term(focus))
                for focus in part.foci
                if isinstance(focus.node, Row)
                and any(expr is False for expr in self._conditions(part, focus))
            ]
            conforms = not found and not rows
            self._add_verdict(part, conforms=conforms, reason="" if part.foci else _NO_FOCUS)
            found = rows if self.results is not None else found + rows  # these are in `results`
            if found:
                self._violated(part, found, len(found))
        if self.results is not None:
            return
        known = {(part.shape.node, component_name(part.constraint)) for part in static}
        for (node, component), found in by_part.items():
            if (node, component) not in known:  # no part represents this finding: report it anyway
                shape = self.shapes.shapes.get(node) or next(iter(self.shapes.shapes.values()))
                part = Part(shape, shape, Constraint(component, URIRef(""), (), node), component)
                self._violated(part, found, len(found))

    def _violated(self, part: Part, found: Sequence[Finding], count: int) -> None:
        shown = "; ".join(self._finding(item) for item in found[:NAMED])
        more = f"; and {count - NAMED} more" if count > NAMED else ""
        stated = part.constraint.message or part.shape.message
        own = stated or part.root.message
        if "{" in own:
            own = "; ".join(
                dict.fromkeys(
                    (stated and item.message) or self._filled(part, own, item)
                    for item in found[:NAMED]
                )
            )
        what = f"{part.name} is violated by {shown}{more}"
        if self.results is not None:
            source = self._source(part)
            for item in found:
                self.results.add(source, item.focus)
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

    def _filled(self, part: Part, message: str, finding: Finding) -> str:
        """A message of a part with the values of its placeholders."""
        if "{" not in message:
            return message
        values = message_values(finding.focus, finding.value, part.shape.path)
        return str(fill_message(self.shapes.graph, part.shape.node, Literal(message), values))

    def _source(self, part: Part) -> Component:
        """The component of a part, for validation results."""
        names = self._focus_names(part)
        nodes = {
            _name_of(focus, names): focus.root
            for focus in part.foci
            if not isinstance(focus.root, Row)
        }
        component = Component(self.shapes, part.shape, part.constraint, nodes)
        if part.constraint.is_query:
            return component
        for focus in part.foci:
            name = _name_of(focus, names)
            component.values[name] = (
                *component.values.get(name, ()),
                *self._reported(part.shape.path, focus),
            )
            if part.shape.path is not None and part.constraint.name in PAIRS:
                other = Step(URIRef(str(part.constraint.node)))
                component.others[name] = (
                    *component.others.get(name, ()),
                    *self._reported(other, focus),
                )
        return component

    def _reported(self, path: PropertyPath | None, focus: Focus) -> tuple[Node | Header, ...]:
        """The value nodes of a path as validation results name them; without a path, the focus
        node, if it is a value in a column.
        """
        try:
            values = (focus.node,) if path is None else self.partial.values(path, focus.node)
        except Refused:
            return ()
        if path is None and not isinstance(focus.node, Observed):
            return ()
        columns = self.sources.book.columns
        return tuple(
            Header(columns[value.place.column].source) if isinstance(value, Observed) else value
            for value in values
            if not isinstance(value, Row)
        )

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


def bind_shapes(
    graphs: Sequence[Path],
    sources: Sources,
    taken: Iterable[str] = (),
    results: ShapeResults | None = None,
) -> tuple[Program, list[ShapesBinder]]:
    """Bind the shapes of files.

    Args:
        graphs: files that hold shapes.
        taken: the names of other rules.
        results: as for `ShapesBinder`.

    Returns:
        The bound rows, and the binder of each file.
    """
    found = Program()
    if sources.graph is None:
        return found, []
    binders: list[ShapesBinder] = []
    with quiet():
        broken = sources.problems.files_with_errors()
        for path in sorted(graphs, key=lambda path: (path.name, str(path))):
            if str(path) in broken:
                continue
            try:
                shapes, problems = read_shapes(path)
                if (
                    shapes is not None
                    and shapes.shapes
                    and not any(problem.severity == "error" for problem in problems)
                ):
                    names = {*taken, *(part.rule.name for part in found.rows)}
                    binders.append(ShapesBinder(shapes, sources, names, results))
                    found = found.joined_with(binders[-1].bind())
            except RecursionError:
                start = Span(file=str(path), line=1, column=1, end_line=1, end_column=1)
                message = "the shapes of this file are nested too deeply"
                sources.problems.error(
                    "FKG311", start, message, "give the inner shapes names, and fewer levels"
                )
    return found, binders
