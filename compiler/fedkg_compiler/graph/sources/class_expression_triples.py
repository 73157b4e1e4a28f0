"""Class expressions, data ranges and property expressions of OWL to triples: the second half of
table 1 of the mapping (`axiom_triples.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.sources.axiom_trees import DEEPEST, Node, Part, Problems, Tree
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, XSD

_TYPE = ox.NamedNode(RDF + "type")
_FIRST, _REST, _NIL = (ox.NamedNode(RDF + word) for word in ("first", "rest", "nil"))
_COUNT = ox.NamedNode(XSD + "nonNegativeInteger")
_CLASS, _RANGE = OWL + "Class", RDFS + "Datatype"
_ENTITIES = frozenset(
    {"Class", "Datatype", "ObjectProperty", "DataProperty", "AnnotationProperty", "NamedIndividual"}
)
_LISTS = {
    "ObjectIntersectionOf": (_CLASS, "intersectionOf"),
    "ObjectUnionOf": (_CLASS, "unionOf"),
    "ObjectOneOf": (_CLASS, "oneOf"),
    "DataIntersectionOf": (_RANGE, "intersectionOf"),
    "DataUnionOf": (_RANGE, "unionOf"),
    "DataOneOf": (_RANGE, "oneOf"),
}
_SINGLES = {
    "ObjectComplementOf": (_CLASS, "complementOf"),
    "DataComplementOf": (_RANGE, "datatypeComplementOf"),
    "ObjectInverseOf": ("", "inverseOf"),
}
_VALUES = {
    "ObjectSomeValuesFrom": "someValuesFrom",
    "ObjectAllValuesFrom": "allValuesFrom",
    "ObjectHasValue": "hasValue",
    "DataSomeValuesFrom": "someValuesFrom",
    "DataAllValuesFrom": "allValuesFrom",
    "DataHasValue": "hasValue",
}
_COUNTS = {
    "Min": ("minCardinality", "minQualifiedCardinality"),
    "Max": ("maxCardinality", "maxQualifiedCardinality"),
}
_COUNTS["Exact"] = ("cardinality", "qualifiedCardinality")
_CARDINALITIES = {
    f"{sort}{which}Cardinality": (*words, on)
    for sort, on in (("Object", "onClass"), ("Data", "onDataRange"))
    for which, words in _COUNTS.items()
}


def named(problems: Problems, tree: Tree, node: Node) -> ox.NamedNode:
    """The node as a property's name. Raises Unsound for any other node."""
    if not isinstance(node, ox.NamedNode):
        raise problems.mistake(
            tree.line, tree.column, f"a property of `{tree.name}` must be a name"
        )
    return node


class Expressions:
    """Collects the triples that expressions need.

    Args:
        problems: makes the diagnostics.

    Attributes:
        triples: the triples so far.
        place: line and column of the current axiom.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.triples: list[ox.Quad] = []
        self.place = (1, 1)
        self._blanks = 0

    def say(self, subject: Node, predicate: ox.NamedNode, value: Node) -> None:
        """Add a triple. Raises Unsound if its subject is a literal."""
        if isinstance(subject, ox.Literal):
            raise self.problems.mistake(
                *self.place, f'statements about the text are not possible: "{subject.value[:40]}"'
            )
        self.triples.append(ox.Quad(subject, predicate, value))

    def blank(self) -> ox.BlankNode:
        """A node without a name, a new one each time."""
        self._blanks += 1
        return ox.BlankNode(f"x{self._blanks}")

    def row(self, nodes: Sequence[Node]) -> Node:
        """The head of an RDF list."""
        rest: Node = _NIL
        for node in reversed(nodes):
            cell = self.blank()
            self.say(cell, _FIRST, node)
            self.say(cell, _REST, rest)
            rest = cell
        return rest

    def count(self, tree: Tree, parts: Sequence[Part], least: int, most: int | None) -> None:
        """Raises Unsound if a construct has fewer or more parts than it may."""
        if len(parts) < least or (most is not None and len(parts) > most):
            wanted = (
                f"{least}"
                if most == least
                else f"{least} or more"
                if most is None
                else f"{least} to {most}"
            )
            raise self.problems.mistake(
                tree.line, tree.column, f"`{tree.name}` has {wanted} parts, and here {len(parts)}"
            )

    def node(self, part: Part, depth: int = 0) -> Node:
        """The node of a part; adds the triples that describe it.

        Raises Unsound for anything that OWL 2 does not have.
        """
        if isinstance(part, int):
            raise self.problems.mistake(
                *self.place, f"the number {part} is in place of a name or an expression"
            )
        if not isinstance(part, Tree):
            return part
        if depth > DEEPEST:
            raise self.problems.mistake(
                part.line,
                part.column,
                f"the expression is nested more than {DEEPEST} deep; it is left out",
            )
        name = part.name
        if name in _ENTITIES:
            self.count(part, part.parts, 1, 1)
            return self.node(part.parts[0], depth + 1)
        if name in _LISTS:
            kind, word = _LISTS[name]
            return self._described(
                kind, word, self.row([self.node(inner, depth + 1) for inner in part.parts])
            )
        if name in _SINGLES:
            self.count(part, part.parts, 1, 1)
            kind, word = _SINGLES[name]
            return self._described(kind, word, self.node(part.parts[0], depth + 1))
        if name in _VALUES:
            return self._values(part, depth)
        if name in _CARDINALITIES:
            return self._cardinality(part, depth)
        if name == "ObjectHasSelf":
            self.count(part, part.parts, 1, 1)
            return self._restricted(
                part.parts,
                "hasSelf",
                ox.Literal("true", datatype=ox.NamedNode(XSD + "boolean")),
                depth,
            )
        if name == "DatatypeRestriction":
            return self._facets(part, depth)
        raise self.problems.mistake(
            part.line, part.column, f"`{name}` is not an expression of OWL 2; the axiom is left out"
        )

    def _described(self, kind: str, word: str, value: Node) -> ox.BlankNode:
        node = self.blank()
        if kind:
            self.say(node, _TYPE, ox.NamedNode(kind))
        self.say(node, ox.NamedNode(OWL + word), value)
        return node

    def _restricted(
        self, relations: Sequence[Part], word: str, value: Node, depth: int
    ) -> ox.BlankNode:
        node = self.blank()
        self.say(node, _TYPE, ox.NamedNode(OWL + "Restriction"))
        if len(relations) == 1:
            self.say(node, ox.NamedNode(OWL + "onProperty"), self.node(relations[0], depth + 1))
        else:
            several = self.row([self.node(one, depth + 1) for one in relations])
            self.say(node, ox.NamedNode(OWL + "onProperties"), several)
        self.say(node, ox.NamedNode(OWL + word), value)
        return node

    def _values(self, tree: Tree, depth: int) -> ox.BlankNode:
        several = tree.name in ("DataSomeValuesFrom", "DataAllValuesFrom")
        self.count(tree, tree.parts, 2, None if several else 2)
        *relations, value = tree.parts
        return self._restricted(relations, _VALUES[tree.name], self.node(value, depth + 1), depth)

    def _cardinality(self, tree: Tree, depth: int) -> ox.BlankNode:
        self.count(tree, tree.parts, 2, 3)
        count, relation, *qualified = tree.parts
        if not isinstance(count, int):
            raise self.problems.mistake(
                tree.line, tree.column, f"`{tree.name}` begins with a number"
            )
        plain, word, on = _CARDINALITIES[tree.name]
        node = self._restricted(
            [relation], word if qualified else plain, ox.Literal(str(count), datatype=_COUNT), depth
        )
        if qualified:
            self.say(node, ox.NamedNode(OWL + on), self.node(qualified[0], depth + 1))
        return node

    def _facets(self, tree: Tree, depth: int) -> ox.BlankNode:
        self.count(tree, tree.parts, 3, None)
        base, *facets = tree.parts
        if len(facets) % 2:
            raise self.problems.mistake(
                tree.line, tree.column, "a facet of `DatatypeRestriction` has no value"
            )
        cells: list[Node] = []
        for word, value in zip(facets[::2], facets[1::2], strict=True):
            cells.append(self.blank())
            self.say(
                cells[-1],
                named(self.problems, tree, self.node(word, depth + 1)),
                self.node(value, depth + 1),
            )
        node = self._described(_RANGE, "onDatatype", self.node(base, depth + 1))
        self.say(node, ox.NamedNode(OWL + "withRestrictions"), self.row(cells))
        return node
