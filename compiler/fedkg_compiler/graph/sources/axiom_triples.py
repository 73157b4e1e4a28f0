"""Trees of OWL to triples: the mapping of OWL 2 to RDF graphs (W3C, 2nd edition 2012, section 2,
table 1).

SWRL rules (`DLSafeRule`) become `swrl:Imp` nodes, as in the SWRL submission (W3C 2004).

Annotations of axioms become `owl:Axiom` nodes, those of annotations `owl:Annotation` nodes (section
2.3). Equivalences and sameness of n things are n - 1 triples along the row, and pairwise difference
of three or more is one node with a list (section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.sources.axiom_trees import Node, Part, Problems, Tree, Unsound
from fedkg_compiler.graph.sources.class_expression_triples import Expressions, named
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, SWRL

TYPE = ox.NamedNode(RDF + "type")
_KINDS = {
    "Class": OWL + "Class",
    "Datatype": RDFS + "Datatype",
    "ObjectProperty": OWL + "ObjectProperty",
    "DataProperty": OWL + "DatatypeProperty",
    "AnnotationProperty": OWL + "AnnotationProperty",
    "NamedIndividual": OWL + "NamedIndividual",
}
_DIRECT = {
    "SubClassOf": RDFS + "subClassOf",
    "SubObjectPropertyOf": RDFS + "subPropertyOf",
    "SubDataPropertyOf": RDFS + "subPropertyOf",
    "SubAnnotationPropertyOf": RDFS + "subPropertyOf",
    "InverseObjectProperties": OWL + "inverseOf",
    "ObjectPropertyDomain": RDFS + "domain",
    "DataPropertyDomain": RDFS + "domain",
    "AnnotationPropertyDomain": RDFS + "domain",
    "ObjectPropertyRange": RDFS + "range",
    "DataPropertyRange": RDFS + "range",
    "AnnotationPropertyRange": RDFS + "range",
    "DatatypeDefinition": OWL + "equivalentClass",
}
_ROWS = {
    "EquivalentClasses": OWL + "equivalentClass",
    "EquivalentObjectProperties": OWL + "equivalentProperty",
    "EquivalentDataProperties": OWL + "equivalentProperty",
    "SameIndividual": OWL + "sameAs",
}
_APART = {
    "DisjointClasses": (OWL + "disjointWith", OWL + "AllDisjointClasses"),
    "DisjointObjectProperties": (OWL + "propertyDisjointWith", OWL + "AllDisjointProperties"),
    "DisjointDataProperties": (OWL + "propertyDisjointWith", OWL + "AllDisjointProperties"),
    "DifferentIndividuals": (OWL + "differentFrom", OWL + "AllDifferent"),
}
_CHARACTERISTICS = {
    "FunctionalObjectProperty": OWL + "FunctionalProperty",
    "FunctionalDataProperty": OWL + "FunctionalProperty",
    "InverseFunctionalObjectProperty": OWL + "InverseFunctionalProperty",
    "ReflexiveObjectProperty": OWL + "ReflexiveProperty",
    "IrreflexiveObjectProperty": OWL + "IrreflexiveProperty",
    "SymmetricObjectProperty": OWL + "SymmetricProperty",
    "AsymmetricObjectProperty": OWL + "AsymmetricProperty",
    "TransitiveObjectProperty": OWL + "TransitiveProperty",
}
_ASSERTED = ("ObjectPropertyAssertion", "DataPropertyAssertion")
_DENIED = {
    "NegativeObjectPropertyAssertion": "targetIndividual",
    "NegativeDataPropertyAssertion": "targetValue",
}
_ATOMS = {
    "ClassAtom": ("ClassAtom", "classPredicate"),
    "DataRangeAtom": ("DataRangeAtom", "dataRange"),
    "ObjectPropertyAtom": ("IndividualPropertyAtom", "propertyPredicate"),
    "DataPropertyAtom": ("DatavaluedPropertyAtom", "propertyPredicate"),
    "BuiltInAtom": ("BuiltinAtom", "builtin"),
    "SameIndividualAtom": ("SameIndividualAtom", ""),
    "DifferentIndividualsAtom": ("DifferentIndividualsAtom", ""),
}
"""The atoms of rules: their class in SWRL's vocabulary, and the property of what they are about."""

NEVER_INSIDE = frozenset(
    [
        *_DIRECT,
        *_ROWS,
        *_APART,
        *_CHARACTERISTICS,
        *_ASSERTED,
        *_DENIED,
        "Declaration",
        "DLSafeRule",
        "ClassAssertion",
        "AnnotationAssertion",
    ]
)
"""Axioms that occur only directly in an ontology, never in another axiom."""


class Axioms:
    """Collects the triples of one ontology, axiom by axiom.

    Args:
        problems: takes what is wrong with the file.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.expressions = Expressions(problems)
        self.ontology: ox.NamedNode | ox.BlankNode | None = None

    @property
    def triples(self) -> list[ox.Quad]:
        """The triples so far."""
        return self.expressions.triples

    def begin(self, iri: ox.NamedNode | None, version: ox.NamedNode | None) -> None:
        """Say which ontology this is; without an IRI it is a blank node."""
        self.ontology = iri if iri is not None else self.expressions.blank()
        self._say(self.ontology, TYPE, ox.NamedNode(OWL + "Ontology"))
        if version is not None:
            self._say(self.ontology, ox.NamedNode(OWL + "versionIRI"), version)

    def imports(self, iri: ox.NamedNode) -> None:
        """Say that the ontology imports another."""
        if self.ontology is not None:
            self._say(self.ontology, ox.NamedNode(OWL + "imports"), iri)

    def add(self, tree: Tree) -> None:
        """Say what an axiom says, all of it or nothing; what is wrong with it is noted."""
        before = len(self.triples)
        self.expressions.place = (tree.line, tree.column)
        try:
            self._axiom(tree)
        except Unsound as failure:
            del self.triples[before:]
            self.problems.note(failure.problem)

    def _axiom(self, tree: Tree) -> None:
        if tree.name == "Annotation":
            if self.ontology is not None:
                self._annotate(self.ontology, [tree])
            return
        notes = [
            part for part in tree.parts if isinstance(part, Tree) and part.name == "Annotation"
        ]
        parts = [
            part
            for part in tree.parts
            if not (isinstance(part, Tree) and part.name == "Annotation")
        ]
        if tree.name in _DENIED:
            self._annotate(self._denied(tree, parts), notes)
            return
        if tree.name == "DLSafeRule":
            self._annotate(self._swrl_rule(tree, parts), notes)
            return
        said = self._main_triples(tree, parts)
        for triple in said:
            self._say(*triple)
            if notes:
                self._annotated(triple, notes)

    def _main_triples(self, tree: Tree, parts: list[Part]) -> list[tuple[Node, ox.NamedNode, Node]]:
        """The main triples of an axiom; the triples of its expressions are added on the way."""
        name, node = tree.name, self.expressions.node
        if name == "Declaration":
            return [self._declared(tree, parts)]
        if name == "AnnotationAssertion":
            self._count(tree, parts, 3, 3)
            return [(node(parts[1]), named(self.problems, tree, node(parts[0])), node(parts[2]))]
        if name in _DIRECT:
            self._count(tree, parts, 2, 2)
            if isinstance(parts[0], Tree) and parts[0].name == "ObjectPropertyChain":
                chain = self.expressions.row([node(part) for part in parts[0].parts])
                return [(node(parts[1]), ox.NamedNode(OWL + "propertyChainAxiom"), chain)]
            return [(node(parts[0]), ox.NamedNode(_DIRECT[name]), node(parts[1]))]
        if name in _ROWS:
            self._count(tree, parts, 2)
            return [
                (first, ox.NamedNode(_ROWS[name]), second)
                for first, second in pairwise([node(part) for part in parts])
            ]
        if name in _APART:
            return [self._disjoint_or_different(tree, parts)]
        if name in _CHARACTERISTICS:
            self._count(tree, parts, 1, 1)
            return [(node(parts[0]), TYPE, ox.NamedNode(_CHARACTERISTICS[name]))]
        if name == "ClassAssertion":
            self._count(tree, parts, 2, 2)
            return [(node(parts[1]), TYPE, node(parts[0]))]
        if name in _ASSERTED:
            return [self._asserted(tree, parts)]
        if name in ("HasKey", "DisjointUnion"):
            self._count(tree, parts, 2)
            word = OWL + ("hasKey" if name == "HasKey" else "disjointUnionOf")
            return [
                (
                    node(parts[0]),
                    ox.NamedNode(word),
                    self.expressions.row([node(part) for part in parts[1:]]),
                )
            ]
        raise self.problems.mistake(
            tree.line, tree.column, f"`{name}` is not an axiom of OWL 2; this one is left out"
        )

    def _declared(self, tree: Tree, parts: list[Part]) -> tuple[Node, ox.NamedNode, Node]:
        self._count(tree, parts, 1, 1)
        entity = parts[0]
        if not isinstance(entity, Tree) or entity.name not in _KINDS:
            expected = ", ".join(_KINDS)
            raise self.problems.mistake(
                tree.line,
                tree.column,
                "this declares nothing that OWL 2 has",
                f"expected is one of {expected}",
            )
        return self.expressions.node(entity), TYPE, ox.NamedNode(_KINDS[entity.name])

    def _disjoint_or_different(
        self, tree: Tree, parts: list[Part]
    ) -> tuple[Node, ox.NamedNode, Node]:
        self._count(tree, parts, 2)
        pair, several = _APART[tree.name]
        nodes = [self.expressions.node(part) for part in parts]
        if len(nodes) == 2:
            return nodes[0], ox.NamedNode(pair), nodes[1]
        group = self.expressions.blank()
        self._say(group, ox.NamedNode(OWL + "members"), self.expressions.row(nodes))
        return group, TYPE, ox.NamedNode(several)

    def _asserted(self, tree: Tree, parts: list[Part]) -> tuple[Node, ox.NamedNode, Node]:
        self._count(tree, parts, 3, 3)
        first, second = self.expressions.node(parts[1]), self.expressions.node(parts[2])
        relation = parts[0]
        if isinstance(relation, Tree) and relation.name == "ObjectInverseOf":
            self._count(relation, list(relation.parts), 1, 1)
            relation, first, second = relation.parts[0], second, first
        return first, named(self.problems, tree, self.expressions.node(relation)), second

    def _denied(self, tree: Tree, parts: list[Part]) -> ox.BlankNode:
        self._count(tree, parts, 3, 3)
        node = self.expressions.blank()
        self._say(node, TYPE, ox.NamedNode(OWL + "NegativePropertyAssertion"))
        for word, part in zip(
            ("assertionProperty", "sourceIndividual", _DENIED[tree.name]), parts, strict=True
        ):
            self._say(node, ox.NamedNode(OWL + word), self.expressions.node(part))
        return node

    def _swrl_rule(self, tree: Tree, parts: list[Part]) -> ox.BlankNode:
        self._count(tree, parts, 2, 2)
        node = self.expressions.blank()
        self._say(node, TYPE, ox.NamedNode(SWRL + "Imp"))
        for word, part in zip(("body", "head"), parts, strict=True):
            if not isinstance(part, Tree) or part.name.lower() != word:
                raise self.problems.mistake(
                    tree.line, tree.column, "`DLSafeRule` has a `Body` and a `Head`"
                )
            atoms = self.expressions.row([self._swrl_atom(tree, atom) for atom in part.parts])
            self._say(node, ox.NamedNode(SWRL + word), atoms)
        return node

    def _swrl_atom(self, rule: Tree, atom: Part) -> ox.BlankNode:
        if not isinstance(atom, Tree) or atom.name not in _ATOMS:
            raise self.problems.mistake(
                rule.line,
                rule.column,
                "a part of `DLSafeRule` is not an atom; this rule is left out",
                f"expected is one of {', '.join(_ATOMS)}",
            )
        kind, relation = _ATOMS[atom.name]
        said = [self._swrl_argument(part) for part in atom.parts]
        node = self.expressions.blank()
        self._say(node, TYPE, ox.NamedNode(SWRL + kind))
        if relation:
            self._count(atom, said, 1)
            self._say(node, ox.NamedNode(SWRL + relation), said.pop(0))
        if kind == "BuiltinAtom":
            self._say(node, ox.NamedNode(SWRL + "arguments"), self.expressions.row(said))
            return node
        wanted = 1 if kind in ("ClassAtom", "DataRangeAtom") else 2
        self._count(atom, said, wanted, wanted)
        for word, value in zip(("argument1", "argument2"), said, strict=False):
            self._say(node, ox.NamedNode(SWRL + word), value)
        return node

    def _swrl_argument(self, part: Part) -> Node:
        if not isinstance(part, Tree) or part.name != "Variable":
            return self.expressions.node(part)
        self._count(part, part.parts, 1, 1)
        variable = self.expressions.node(part.parts[0])
        self._say(variable, TYPE, ox.NamedNode(SWRL + "Variable"))
        return variable

    def _annotated(
        self, triple: tuple[Node, ox.NamedNode, Node], notes: Sequence[Tree], kind: str = "Axiom"
    ) -> None:
        node = self.expressions.blank()
        self._say(node, TYPE, ox.NamedNode(OWL + kind))
        for word, value in zip(
            ("annotatedSource", "annotatedProperty", "annotatedTarget"), triple, strict=True
        ):
            self._say(node, ox.NamedNode(OWL + word), value)
        self._annotate(node, notes)

    def _annotate(self, subject: Node, notes: Sequence[Tree]) -> None:
        for note in notes:
            inner = [
                part for part in note.parts if isinstance(part, Tree) and part.name == "Annotation"
            ]
            parts = [
                part
                for part in note.parts
                if not (isinstance(part, Tree) and part.name == "Annotation")
            ]
            self._count(note, parts, 2, 2)
            relation = named(self.problems, note, self.expressions.node(parts[0]))
            triple = (subject, relation, self.expressions.node(parts[1]))
            self._say(*triple)
            if inner:
                self._annotated(triple, inner, "Annotation")

    def _count(
        self, tree: Tree, parts: Sequence[Part], least: int, most: int | None = None
    ) -> None:
        self.expressions.count(tree, parts, least, most)

    def _say(self, subject: Node, predicate: ox.NamedNode, value: Node) -> None:
        self.expressions.say(subject, predicate, value)
