"""Applies the rules of shapes (`sh:rule`) to a graph, before the graph is validated.

Source: SHACL Advanced Features (W3C Working Group Note 2017), section 8. The note leaves open
whether rules run once or until nothing changes. fedkg runs all rules in the order of `sh:order`,
each on what the rules before it have added, and repeats this until a pass adds no triple. The
result then does not depend on the order of rules that only add facts for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol

from rdflib import RDF, RDFS, BNode, Graph, URIRef
from rdflib.term import Node

from fedkg.errors import LimitError
from fedkg.limits import explain_raise, limit
from fedkg_compiler.frontends.shacl.prebound_query_execution import (
    Functions,
    construct,
    has_negated_path,
    hide_graphs,
    iris_of,
    names_word,
    predicate_variables,
    triple_to_store,
)
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    Data,
    Shape,
    ShapesFile,
    Terms,
    declared_prefixes,
    is_true,
    items,
)
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.rdf_reader import as_kept, names_by_content, renamed
from fedkg_compiler.graph.sparql_syntax.tokens import asks_service, tokens

MOST_PASSES = 100
"""Passes over all rules; each pass adds a triple, and a chain of this length is an endless one."""
FREE_TRIPLES = 300_000
"""Triples that rules may add to a graph of any size; the limit `inferred` applies beyond them."""
_RANDOM = frozenset({"UUID", "STRUUID", "RAND", "NOW"})
"""Functions with another value at each call: a rule that calls one would never stop adding."""
_CLASS_PROPERTIES: frozenset[str] = frozenset({str(RDF.type), str(RDFS.subClassOf)})


class RuleProblem(Exception):
    """A rule that cannot be applied.

    Attributes:
        shape: the shape with the rule. node: the rule.
        queries: the queries that may be the reason, as the file has them, with their prefixes.
    """

    def __init__(
        self, sentence: str, shape: Node, node: Node, queries: tuple[str, ...] = ()
    ) -> None:
        super().__init__(sentence, shape, node, queries)
        self.sentence, self.shape, self.node, self.queries = sentence, shape, node, queries


class Conditions(Protocol):
    """Evaluates what rules need of SHACL.

    Attributes:
        functions: the functions that queries may call besides those of SPARQL.
    """

    functions: Functions

    def conforming(self, shape: Node, focus_nodes: Sequence[Node]) -> list[Node]:
        """The focus nodes that conform to a shape."""

    def values(self, expression: Node, focus: Node) -> set[Node]:
        """The values of a node expression."""

    def forget(self, predicates: Collection[str]) -> None:
        """Forget what depends on triples with these properties, because there are new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of a shape.

    Attributes:
        order: `sh:order` of the shape, then of the rule; both 0 by default.
        conditions: shapes to which a focus node must conform.
        triple: subject, predicate and object expressions of a `sh:TripleRule`; () for others.
        construct: the queries of a `sh:SPARQLRule`, with prefixes.
        is_random: a query makes other names or numbers each time that it runs.
    """

    shape: Shape
    node: Node
    order: tuple[float, float]
    conditions: tuple[Node, ...] = ()
    triple: tuple[Node, ...] = ()
    construct: tuple[str, ...] = ()
    is_random: bool = False

    @property
    def reads(self) -> frozenset[str] | None:
        """The properties whose triples the rule may read; None if it may read any."""
        if (targets := target_properties(self.shape)) is None:
            return None
        found = set(targets)
        if self.conditions or any(isinstance(node, BNode) for node in self.triple):
            return None
        for text in self.construct:
            words = tokens(text)
            if predicate_variables(words) or has_negated_path(words):
                return None
            found |= iris_of(words)
        return frozenset(found)


def target_properties(shape: Shape) -> frozenset[str] | None:
    """The properties whose triples decide which nodes are focus nodes; None if it may be any."""
    kinds = {target.kind for target in shape.targets}
    if not kinds <= {"class", "node", "subjects", "objects"}:
        return None
    if kinds <= {"class", "node"}:
        return _CLASS_PROPERTIES
    return _CLASS_PROPERTIES | {
        str(target.value) for target in shape.targets if target.kind in ("subjects", "objects")
    }


def read_rules(shapes: ShapesFile) -> list[Rule]:
    """The active rules of a shapes graph in the order in which they run.

    Raises:
        RuleProblem: a rule is neither a triple rule nor a SPARQL rule, or is not well formed.
    """
    graph, found = shapes.graph, list[Rule]()
    for owner, node in graph.subject_objects(SH.rule):
        shape = shapes.shapes.get(owner)
        if shape is None or shape.deactivated or is_true(graph.value(node, SH.deactivated)):
            continue
        construct = _constructs(graph, shape, node)
        rule = Rule(
            shape=shape,
            node=node,
            order=(_order(graph, owner), _order(graph, node)),
            conditions=tuple(_conditions(graph, node)),
            triple=_triple(graph, shape, node),
            construct=construct,
            is_random=any(names_word(tokens(text), _RANDOM) for text in construct),
        )
        if not rule.triple and not rule.construct:
            raise RuleProblem(
                "the rule is neither a sh:TripleRule nor a sh:SPARQLRule", owner, node
            )
        found.append(rule)
    return sorted(found, key=lambda rule: (rule.order, str(rule.shape.node), str(rule.node)))


def _triple(graph: Graph, shape: Shape, node: Node) -> tuple[Node, ...]:
    parts = [list(graph.objects(node, SH[name])) for name in ("subject", "predicate", "object")]
    if not any(parts):
        return ()
    if any(len(part) != 1 for part in parts):
        sentence = "a sh:TripleRule has one sh:subject, one sh:predicate and one sh:object"
        raise RuleProblem(sentence, shape.node, node)
    return tuple(part[0] for part in parts)


def _constructs(graph: Graph, shape: Shape, node: Node) -> tuple[str, ...]:
    prefixes = "".join(
        f"PREFIX {name}: <{iri}>\n" for name, iri in sorted(declared_prefixes(graph, node).items())
    )
    found = []
    for text in sorted(str(value) for value in graph.objects(node, SH.construct)):
        if asks_service(text):
            sentence = "SERVICE asks another server, and fedkg contacts none for a rule"
            raise RuleProblem(sentence, shape.node, node)
        found.append(prefixes + text)
    return tuple(found)


def _conditions(graph: Graph, node: Node) -> Iterator[Node]:
    for condition in graph.objects(node, SH.condition):
        yield from items(graph, condition) or (condition,)


def _order(graph: Graph, node: Node) -> float:
    value = graph.value(node, SH.order)
    try:
        return 0.0 if value is None else float(str(value))
    except ValueError:
        return 0.0


@dataclass(slots=True)
class RuleRun:
    """Applies rules to a store until nothing changes.

    Attributes:
        store: the data, whose default graph grows. graph: the same triples for rdflib.
        targets: the triples in which targets find focus nodes; default: `graph`.
        terms: the terms of `graph` by those of `store`.
        added: the number of added triples. new: the triples.
    """

    rules: Sequence[Rule]
    store: ox.Store
    graph: Graph
    conditions: Conditions
    targets: Graph | None = None
    terms: Terms = field(default_factory=Terms)
    added: int = 0
    new: list[ox.Quad] = field(default_factory=list)
    _size: int = 0
    _changed: dict[str, int] = field(default_factory=dict)
    """The number of added triples after the last one of each property."""
    _data: Data = field(init=False)
    _focus_nodes: dict[Node, tuple[int, list[Node]]] = field(default_factory=dict)
    """The focus nodes of shapes, with the number of triples that were added before."""
    _target_properties: dict[Node, frozenset[str] | None] = field(default_factory=dict)

    def run(self) -> int:
        """Apply the rules; return the number of added triples.

        Raises:
            RuleProblem: a query is wrong, or the rules add triples without end.
            LimitError: too many triples follow.
        """
        self._size = len(self.store)
        functions = self.conditions.functions
        self._data = Data(
            self.graph,
            self.targets,
            queried=lambda text: self.store.query(hide_graphs(text), custom_functions=functions),
        )
        repeated = [rule for rule in self.rules if not rule.is_random]
        self._repeat(repeated)
        before = self.added
        for rule in self.rules:
            if rule.is_random:
                self._apply(rule)
        if self.added > before:
            self._repeat(repeated)
        return self.added

    def _repeat(self, rules: Sequence[Rule]) -> None:
        """Apply rules until a pass adds nothing; a rule runs again if what it reads has changed."""
        reads: dict[int, frozenset[str] | None] = {}
        done = [-1] * len(rules)
        for _ in range(MOST_PASSES):
            before = self.added
            for number, rule in enumerate(rules):
                if not self._targeted(rule):
                    continue  # as most rules of an ontology: what they read does not matter
                if number not in reads:
                    reads[number] = self._reads(rule)
                if done[number] < self._last_change(reads[number]):
                    done[number] = self.added
                    self._apply(rule)
            if self.added == before:
                return
        last = rules[-1]
        raise RuleProblem(
            f"the rules still add triples after {MOST_PASSES} passes", last.shape.node, last.node
        )

    def _reads(self, rule: Rule) -> frozenset[str] | None:
        """The properties that a rule reads; None if it may read any, as functions do."""
        found = rule.reads
        called = {function.value for function in self.conditions.functions}
        return found if found is not None and called.isdisjoint(found) else None

    def _last_change(self, properties: frozenset[str] | None) -> int:
        changes = (
            self._changed.values()
            if properties is None
            else (self._changed.get(name, 0) for name in properties)
        )
        return max(changes, default=0)

    def _targeted(self, rule: Rule) -> list[Node]:
        """The focus nodes of the shape of a rule."""
        shape = rule.shape
        before, nodes = self._focus_nodes.get(shape.node, (-1, []))
        if before == self.added:
            return nodes
        if shape.node not in self._target_properties:
            self._target_properties[shape.node] = target_properties(shape)
        if before < self._last_change(self._target_properties[shape.node]):
            try:
                nodes = self._data.focus_nodes(shape)
            except ValueError as error:
                sentence = f"the target of the shape cannot be evaluated: {error}"
                raise RuleProblem(sentence, shape.node, rule.node, shape.target_queries) from error
        self._focus_nodes[shape.node] = self.added, nodes
        return nodes

    def _apply(self, rule: Rule) -> None:
        nodes = self._targeted(rule)
        for condition in rule.conditions:
            nodes = self.conditions.conforming(condition, nodes)
        if nodes:
            self._add(self._triples(rule, nodes) if rule.triple else self._constructed(rule, nodes))

    def _add(self, concluded: Iterable[ox.Quad]) -> None:
        new = [quad for quad in dict.fromkeys(concluded) if quad not in self.store]
        if not new:
            return
        self.store.extend(new)
        terms = self.terms
        for quad in new:
            self.graph.add((terms[quad.subject], terms[quad.predicate], terms[quad.object]))
        self.new += new
        self.added += len(new)
        allowed = max(FREE_TRIPLES, limit("inferred") * self._size)
        if self.added > allowed:
            raise LimitError(
                f"the rules of the shapes add more than {allowed:,} triples",
                help=explain_raise("inferred", 4 * limit("inferred")),
            )
        changed = {quad.predicate.value for quad in new}
        self._changed |= dict.fromkeys(changed, self.added)
        self._data.forget(changed)
        self.conditions.forget(changed)

    def _triples(self, rule: Rule, nodes: Sequence[Node]) -> Iterator[ox.Quad]:
        for node in nodes:
            parts = [self._values(expression, node) for expression in rule.triple]
            for subject, predicate, value in product(*parts):
                triple = (subject, predicate, value)
                if (
                    isinstance(subject, URIRef | BNode)
                    and isinstance(predicate, URIRef)
                    and triple not in self.graph
                ):
                    yield triple_to_store(triple)

    def _values(self, expression: Node, node: Node) -> Iterable[Node]:
        if expression == SH.this:
            return (node,)
        if isinstance(expression, BNode):
            return self.conditions.values(expression, node)
        return (expression,)

    def _constructed(self, rule: Rule, nodes: Sequence[Node]) -> list[ox.Quad]:
        found: list[ox.Quad] = []
        for text in rule.construct:
            try:
                found += construct(self.store, hide_graphs(text), nodes, self.conditions.functions)
            except (SyntaxError, ValueError, RuntimeError, OSError) as error:
                sentence = f"the query cannot be evaluated: {str(error).split(chr(10))[0]}"
                raise RuleProblem(sentence, rule.shape.node, rule.node, (text,)) from error
        return self._named(found)

    def _named(self, quads: list[ox.Quad]) -> list[ox.Quad]:
        """Name the new blank nodes by their content: a second run must add the same nodes."""
        new = {
            node.value
            for quad in quads
            for node in (quad.subject, quad.object)
            if isinstance(node, ox.BlankNode) and not self._occurs(node)
        }
        if not new:
            return quads
        # Nodes of the data keep their names: as far as the new ones are concerned, they are IRIs.
        names = names_by_content(as_kept([_with_iris(quad, new) for quad in quads]))
        return renamed(quads, {old: name for old, name in names.items() if old in new})

    def _occurs(self, node: ox.BlankNode) -> bool:
        return any(True for _ in self.store.quads_for_pattern(node, None, None, None)) or any(
            True for _ in self.store.quads_for_pattern(None, None, node, None)
        )


def _with_iris(quad: ox.Quad, new: set[str]) -> ox.Quad:
    """A triple in which only new blank nodes are blank."""

    def part(node: object) -> object:
        if isinstance(node, ox.BlankNode) and node.value not in new:
            return ox.NamedNode(f"urn:fedkg:blank:{node.value}")
        return node

    return ox.Quad(part(quad.subject), quad.predicate, part(quad.object))  # type: ignore[arg-type]
