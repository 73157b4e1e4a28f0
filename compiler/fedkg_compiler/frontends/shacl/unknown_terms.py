"""Words of shapes that nothing knows: SHACL's own, properties and classes of the graph.

And shapes that nothing leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import pyoxigraph as ox
from rdflib import OWL, RDF, RDFS, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg._internal.name_matching import Suggestion, certain_match, nearest_name
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.shacl.constraint_query_references import asked_properties, unbound
from fedkg_compiler.frontends.shacl.data_graph import Data
from fedkg_compiler.frontends.shacl.focus_node_columns import CATEGORY, PASSING, Observer, is_number
from fedkg_compiler.frontends.shacl.model import (
    KNOWN,
    PAIRS,
    SHAPE_VALUED,
    Constraint,
    Repeat,
    Shape,
    ShapesFile,
    Step,
    part_name,
    path_text,
    shape_name,
    shape_path,
    steps_in,
)
from fedkg_compiler.frontends.shacl.partial_evaluation import Partial
from fedkg_compiler.frontends.shacl.rdflib_graphs import SPACE
from fedkg_compiler.frontends.shacl.static_value_checks import ORDERED
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.graph.standard_vocabularies import STANDARD_TERMS
from fedkg_compiler.graph.vocabulary_index import closest_name
from fedkg_compiler.ir import Refusal

_CLOSED = {
    "severity": ("Violation", "Warning", "Info"),
    "nodeKind": (
        "BlankNode",
        "IRI",
        "Literal",
        "BlankNodeOrIRI",
        "BlankNodeOrLiteral",
        "IRIOrLiteral",
    ),
}
"""Properties of SHACL with a closed list of values."""

_TYPE = ox.NamedNode(str(RDF.type))


def _suggest(name: str, known: Iterable[str]) -> str:
    """A help text with the most similar name in SHACL's namespace; "" if there is none."""
    near = nearest_name(name, known)
    return f"did you mean `sh:{near}`?" if near else ""


class Words:
    """Check the names in one shapes file against the graph, the ontologies and the contract."""

    def __init__(
        self, shapes: ShapesFile, sources: Sources, data: Data, observer: Observer, partial: Partial
    ) -> None:
        assert sources.graph is not None
        self.shapes, self.data, self.observer, self.partial = shapes, data, observer, partial
        self.problems, self.vocabulary = sources.problems, sources.graph.vocabulary
        rows = sources.names.rows_class
        self.rows = set() if rows is None else data.superclasses(URIRef(rows))
        self._used: dict[URIRef, bool] = {}
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
                and closest_name(local_name(str(iri)), self._property_names(_space(iri))) is None
            ):
                lost.setdefault(iri, []).append((shape, word))
        strange = {
            space: [iri for iri in lost if _space(iri) == space]
            for space in dict.fromkeys(map(_space, lost))
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

    def tell_unknown(self) -> list[Refusal]:
        """Warn of properties in SHACL's namespace that SHACL does not define; fedkg does not check
        them.
        """
        refused = []
        for shape in self.shapes.shapes.values():
            predicates = sorted(
                {
                    str(one)
                    for one in self.shapes.graph.predicates(shape.node)
                    if str(one).startswith(SPACE)
                }
            )
            for name in (name for one in predicates if (name := one[len(SPACE) :]) not in KNOWN):
                part = part_name(shape, "" if shape.path is None else path_text(shape.path), name)
                place = self._at(shape, name)
                refused.append(Refusal(part=part, span=place, reason="SHACL has no such word"))
                message = f"{part} is not checked: SHACL has no `sh:{name}`"
                self.problems.warning("FKG312", place, message, _suggest(name, sorted(KNOWN)))
        return refused

    def tell_lost(self) -> dict[tuple[Shape, Constraint], Refusal]:
        """Warn of references to shapes that the file does not contain.

        Returns the constraints with such references, which are not checked.
        """
        lost: dict[tuple[Shape, Constraint], Refusal] = {}
        for shape in self._live():
            for constraint in shape.constraints:
                for node in constraint.values if constraint.name in SHAPE_VALUED else ():
                    if not isinstance(node, URIRef) or (node, None, None) in self.shapes.graph:
                        continue
                    part = part_name(
                        shape, "" if shape.path is None else path_text(shape.path), constraint.name
                    )
                    place, shown = self._span_and_text(shape, node)
                    reason = f"this file has no shape `{shown}`"
                    lost[shape, constraint] = Refusal(part=part, span=place, reason=reason)
                    names = [
                        str(one).removeprefix(_space(node))
                        for one in self.shapes.shapes
                        if isinstance(one, URIRef) and one != node
                    ]
                    advice = _meant(shown, node, names) or "state it in this file"
                    self.problems.warning(
                        "FKG312", place, f"{part} is not checked: {reason}", advice
                    )
        return lost

    def tell_values(self) -> None:
        """Warn of severities and node kinds that SHACL does not define, and of values outside the
        declared categories of a column.
        """
        for shape in self._live():
            for word, known in _CLOSED.items():
                value = self.shapes.graph.value(shape.node, URIRef(SPACE + word))
                name = str(value).removeprefix(SPACE)
                if isinstance(value, URIRef) and name != str(value) and name not in known:
                    place = self._at(shape, name)
                    message = (
                        f"sh:{word} of {shape_name(shape)} means nothing: SHACL has no `sh:{name}`"
                    )
                    self.problems.warning("FKG312", place, message, _suggest(name, known))
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

    def tell_class(self, shape: Shape) -> bool:
        """Warn if a shape without focus nodes targets a class that no source uses.

        Returns whether it does.
        """
        lost = [node for node in _classes(shape) if not self.is_used(node)]
        for node in lost:
            place, shown = self._span_and_text(shape, node)
            message = (
                f"{shape_name(shape)} has no focus node: the graph does not use "
                f"its target `{shown}`"
            )
            advice = (
                self.near_class(shape)
                or "check the spelling against the graph, or load the graph that has it"
            )
            self.problems.warning("FKG313", place, message, advice)
        return bool(lost)

    def near_class(self, shape: Shape) -> str:
        """``did you mean `plant:Pump`?`` for the first target of a shape that is spelt like a class
        with members; "" for none.
        """
        for node in _classes(shape):
            space = _space(node)
            names = [
                name for kind in self._with_members() if (name := kind.removeprefix(space)) != kind
            ]
            if near := _meant(self._span_and_text(shape, node)[1], node, names):
                return near
        return ""

    def is_used(self, iri: URIRef) -> bool:
        """Whether a column of the table has this IRI, or a triple uses or declares it.

        The triples of shapes do not count.
        """
        if iri not in self._used:
            self._used[iri] = self._find_use(iri)
        return self._used[iri]

    def _find_use(self, iri: URIRef) -> bool:
        graph, name = self.data.graph, local_name(str(iri))
        space = _space(iri)
        if (
            space == SPACE
            or iri in PASSING
            or iri in self.observer.attached
            or iri in self.rows
            or self.observer.is_observed(iri)
        ):
            return True
        if name in STANDARD_TERMS.get(space, ()) or name in self.vocabulary.terms.get(space, ()):
            return True
        if (None, iri, None) in graph or any(
            kind not in (RDFS.Resource, OWL.Thing) for _, kind in graph.predicate_objects(iri)
        ):
            return True
        return any(
            not str(predicate).startswith(SPACE) and predicate != RDF.first
            for predicate in graph.predicates(None, iri)
        )

    def span(self, line: int, column: int = 1, width: int = 1) -> Span:
        """A place of the file."""
        return Span(
            file=self.shapes.name,
            line=line,
            column=column,
            end_line=line,
            end_column=column + width,
        )

    def _at(self, shape: Shape, word: str) -> Span:
        """The span of a SHACL word in a shape."""
        return self.span(*self.shapes.locate(shape.line, word, SPACE))

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

    def _live(self) -> list[Shape]:
        """The shapes that are checked: those with targets, and what they refer to."""
        waiting = [shape for shape in self.shapes.targeted() if not shape.deactivated]
        found: dict[Node, Shape] = {}
        while waiting:
            shape = waiting.pop(0)
            if shape.node in found or shape.deactivated:
                continue
            found[shape.node] = shape
            nodes = (
                node for one in shape.constraints if one.name in SHAPE_VALUED for node in one.values
            )
            waiting += [
                inner for node in nodes if (inner := self.shapes.shapes.get(node)) is not None
            ]
        return list(found.values())

    # messages

    def _tell_property(self, iri: URIRef, known: list[str], shape: Shape, word: str) -> None:
        place, shown = self._span_and_text(shape, iri)
        advice = (
            _meant(shown, iri, known)
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

    def _span_and_text(self, shape: Shape, iri: URIRef) -> tuple[Span, str]:
        """The span at which a shape names a term, and its text there."""
        place = self.shapes.locate(shape.line, local_name(str(iri)), _space(iri))
        return self.span(*place), self.shapes.written(place) if place[
            2
        ] > 1 else self.vocabulary.shorten(str(iri))


def _text_of(value: Node) -> str:
    """A category as a column has it."""
    return str(value) if isinstance(value, Literal) else local_name(str(value))


def _classes(shape: Shape) -> list[URIRef]:
    """The classes that a shape targets."""
    return [
        target.value
        for target in shape.targets
        if target.kind == "class" and isinstance(target.value, URIRef)
    ]


def _space(iri: URIRef) -> str:
    return str(iri).removesuffix(local_name(str(iri)))


def _meant(shown: str, iri: URIRef, names: list[str]) -> str:
    """``did you mean `plant:Pump`?``, written as the term is; "" if nothing is near."""
    name = local_name(str(iri))
    near = closest_name(name, names)
    if near is None:
        return ""
    right = shown.replace(name, near)
    said = f"did you mean `{right}`?"
    return Suggestion(said, shown, right) if certain_match(name, names) == near else said
