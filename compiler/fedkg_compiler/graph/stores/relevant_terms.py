"""Which triples of a large graph rules can touch, so that an endpoint is not asked for the others,
and those of a store on disk are not read.

Triples matter if rules name their property or class, if fedkg reads the property itself (columns,
units, labels, axioms), or if triples that matter may follow from them. What may follow is read from
the axioms as the rules of OWL 2 RL use them (W3C OWL 2 Profiles, section 4.3), generously: what is
not understood counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.graph import READ_PROPERTIES
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.standard_vocabularies import FKG, OWL, QUDT, RDF, RDFS, SKOS, SOSA

Term = ox.NamedNode | ox.BlankNode
TYPE = ox.NamedNode(RDF + "type")
_READ_OF_CLOSURE = frozenset(
    ox.NamedNode(name)
    for name in (
        *(SOSA + name for name in ("observes", "isHostedBy")),
        *(RDFS + "label", SKOS + "prefLabel", RDFS + "subClassOf"),
    )
)
"""Properties of a closure that fedkg reads whether or not rules name them; also all of
`_READ_SPACES`."""
_READ = _READ_OF_CLOSURE | (READ_PROPERTIES - {TYPE})
"""The same before the closure, when columns are still derived from other properties."""
_READ_SPACES = (FKG, QUDT)
_AXIOM_SPACES = (OWL, RDFS, RDF, SKOS, FKG)
_TEXTS = frozenset(ox.NamedNode(RDFS + name) for name in ("label", "comment", "seeAlso"))
_ALWAYS = ox.BlankNode("always")
"""Stands for the terms that matter to any rules: equal things follow from them."""
_UPWARDS = frozenset(
    ox.NamedNode(RDFS + name) for name in ("subClassOf", "subPropertyOf", "domain", "range")
)
_EQUATING = frozenset(
    ox.NamedNode(OWL + name) for name in ("FunctionalProperty", "InverseFunctionalProperty")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTerms:
    """What rule files and queries name.

    Attributes:
        text: all rule files and queries, joined.
        types: whether a pattern asks for the classes of something.
        spaces: the IRIs that `text` has in brackets; some of them are those of prefixes.
    """

    text: str
    types: bool = False
    spaces: frozenset[str] = frozenset()

    def names(self, term: Term) -> bool:
        """Whether a term may be meant: its local name, or what follows the IRI of a prefix, occurs
        anywhere.
        """
        return isinstance(term, ox.NamedNode) and (
            local_name(term.value) in self.text
            or any(
                term.value.startswith(space) and term.value[len(space) :] in self.text
                for space in self.spaces
            )
        )


def is_read(term: Term) -> bool:
    """Whether fedkg reads the triples of a property whether or not rules name it."""
    return term in _READ or (isinstance(term, ox.NamedNode) and term.value.startswith(_READ_SPACES))


def is_read_of_closure(term: ox.NamedNode) -> bool:
    """Whether fedkg reads the triples of a property of a closure whether or not rules name it."""
    return term in _READ_OF_CLOSURE or term.value.startswith(_READ_SPACES)


def is_axiom(predicate: ox.NamedNode) -> bool:
    """Whether triples of a property may be axioms, which are needed to tell what matters."""
    return predicate.value.startswith(_AXIOM_SPACES) and predicate not in (TYPE, *_TEXTS)


class Relevance:
    """What matters to rules, given the axioms of all graphs."""

    def __init__(self, rules: RuleTerms, axioms: Callable[[], Iterable[ox.Quad]]) -> None:
        self.rules, self._axioms = rules, axioms

    def matters(
        self, properties: Iterable[ox.NamedNode], further: Iterable[ox.Quad]
    ) -> Callable[[Term], bool]:
        """Return the test for a property or class.

        Args:
            properties: all of the graph. further: its axioms.
        """
        reached = self._reached([*self._axioms(), *further], properties)

        def test(term: Term) -> bool:
            return (
                term in reached
                or isinstance(term, ox.BlankNode)
                or self._is_seed(term)
                or term.value.startswith((OWL, RDFS, RDF))
            )

        return test

    def _is_seed(self, term: Term) -> bool:
        return term == _ALWAYS or is_read(term) or self.rules.names(term)

    def _reached(self, axioms: Iterable[ox.Quad], properties: Iterable[ox.NamedNode]) -> Set[Term]:
        """The terms from whose triples some that matter may follow."""
        sources: dict[Term, set[Term]] = defaultdict(set)
        for start, end in _conclusions(axioms):
            sources[end].add(start)
        terms = {*properties, *sources, *(one for some in sources.values() for one in some)}
        found = {term for term in terms if self._is_seed(term)}
        waiting = list(found)
        while waiting:
            new = sources.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found


def _conclusions(axioms: Iterable[ox.Quad]) -> Iterator[tuple[Term, Term]]:
    """Pairs of terms: from triples of the first, triples of the second may follow."""
    restricted: list[tuple[Term, Term]] = []
    giving: set[Term] = set()
    for quad in axioms:
        subject, name, target = quad.subject, quad.predicate, quad.object
        if isinstance(subject, ox.Triple):
            continue
        if name == TYPE and target in _EQUATING:
            yield subject, _ALWAYS
        if name.value in (OWL + "hasValue", OWL + "hasSelf"):
            giving.add(subject)
        if name.value in (OWL + "hasKey",) or "ardinality" in name.value:
            yield subject, _ALWAYS
        if not isinstance(target, ox.NamedNode | ox.BlankNode) or _is_standard(target):
            continue
        match name.value.removeprefix(OWL):
            case "onProperty":
                yield target, subject
                restricted.append((subject, target))
            case "someValuesFrom":
                yield target, subject
            case "allValuesFrom":
                yield subject, target
            case "hasKey":
                yield target, _ALWAYS
            case _ if name in _UPWARDS:
                yield subject, target
            case _ if is_axiom(name) and not name.value.startswith(FKG):
                yield subject, target
                yield target, subject
    for restriction, term in restricted:
        if restriction in giving:
            yield restriction, term


def _is_standard(term: Term) -> bool:
    return isinstance(term, ox.NamedNode) and term.value.startswith((OWL, RDFS, RDF))
