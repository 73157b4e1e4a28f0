"""Where the rows of a rule come from: the triples that put them there, and for those that were
concluded what they follow from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkg.limits import read_file
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.column_assignment_triples import (
    TermTriple,
    facts_of_column,
    facts_of_key,
    facts_of_sensor,
    facts_of_values,
)
from fedkg_compiler.frontends.fkg.binding.scope import FileRule, Sources
from fedkg_compiler.frontends.fkg.syntax.tree import InClass, InQuery, Pattern, Quantifier
from fedkg_compiler.graph.contradictions import shown
from fedkg_compiler.graph.graph import Graph, Resource
from fedkg_compiler.graph.rdf_reader import file_graph, inferred_graph
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.reasoning.justifications import Step
from fedkg_compiler.input_files import holds_shapes
from fedkg_compiler.pipeline import look_up

Meant = Callable[[str], bool]
"""Whether an IRI is that of the entity that somebody asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One triple behind a row.

    Attributes:
        triple: the triple in readable form; for a shape, its constraint.
        place: ``file:line`` of the statement, or the name of the store or endpoint; "" if the
            triple is inferred or not found.
        graph: the IRI of the named graph that the triple is in; "" if it is not found.
        rule: the OWL 2 RL rule that inferred the triple, "" if it is asserted.
        premises: the facts that it follows from.
    """

    triple: str
    place: str = ""
    graph: str = ""
    rule: str = ""
    premises: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What put the rows of one entity into a rule's bank.

    Attributes:
        rule: the name of the rule.
        entity: the IRI of the entity.
        names: the names that the pack may give the entity, first the one that it uses where labels
            repeat; only the label if this is what the entity was asked for by.
        facts: the triples that explain the rows.
    """

    rule: str
    entity: str
    names: tuple[str, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The same before it is explained; `statements` are those of a shape, with their places."""

    rule: str
    entity: str
    triples: Sequence[TermTriple]
    statements: Sequence[tuple[str, Span]] = ()


def origins(paths: Sequence[Path | str], rules: Sequence[str], entity: str) -> list[Origin]:
    """Return where the rows of an entity come from, for each of the rules that has some: of rule
    files, shapes and violation queries.

    Args:
        paths: the files and endpoints that were compiled.
        rules: the names of the rules.
        entity: an IRI, a prefixed name, a local name or a label.
    """
    sources, graphs = look_up(paths)
    graph = sources.graph
    if graph is None or graph.told is None:
        return []
    wanted = entity.strip().strip("<>")

    def is_labelled(iri: str) -> bool:
        return wanted.casefold() == graph.label_of(iri).casefold()

    def is_meant(iri: str) -> bool:
        named = wanted in (iri, graph.vocabulary.shorten(iri), local_name(iri))
        return bool(iri) and (named or is_labelled(iri))

    found = [*_of_rules(sources, rules, is_meant)]
    if len(found) < len(rules):
        found += _of_shapes(sources, graphs, rules, is_meant)
        found += _of_queries(sources, rules, is_meant)
    return [
        Origin(
            rule=one.rule,
            entity=one.entity,
            names=(
                *(() if is_labelled(one.entity) else (graph.vocabulary.shorten(one.entity),)),
                graph.label_of(one.entity),
            ),
            facts=_explained(graph, one),
        )
        for one in sorted(found, key=lambda one: rules.index(one.rule))
    ]


def _of_rules(sources: Sources, rules: Collection[str], is_meant: Meant) -> Iterator[_Found]:
    """Those of rules in rule files."""
    from fedkg_compiler.frontends.sparql.solution_triples import facts_of_pattern

    graph = sources.graph
    assert graph is not None
    for rule in sources.names.rules:
        name = rule.rule.name.text
        if name not in rules or rule.rule.quantifier is None:
            continue
        for query, variables in _queries(rule.rule.quantifier, sources):
            values = _meant(graph, query, variables, is_meant)
            if values is None:
                continue
            variable, node = values
            triples = dict.fromkeys(facts_of_pattern(graph, query, {variable: node}))
            triples |= dict.fromkeys(_of_columns(rule, sources, node))
            yield _Found(rule=name, entity=getattr(node, "value", str(node)), triples=[*triples])
            break


def _queries(quantifier: Quantifier, sources: Sources) -> Iterator[tuple[str, list[str]]]:
    """The query that a quantifier asks, with the variables that the rule has of it.

    None for a sheet.
    """
    variables = [word.text for word in quantifier.variables]
    match quantifier.source:
        case Pattern(text=text):
            yield f"SELECT * WHERE {{\n{text}\n}}", variables
        case InClass(term=term):
            assert sources.graph is not None
            iri, _ = sources.graph.resolve(term.text, term.form, term.span)
            if iri is not None:
                yield f"SELECT * WHERE {{ ?{variables[0]} a <{iri}> }}", variables
        case InQuery(path=path):
            place = sources.names.folders.get(path.span.file, Path()) / path.text
            if place.is_file():
                yield read_file(place, name="rules").decode("utf-8-sig"), variables
        case _:
            return


def _meant(
    graph: Graph, query: str, variables: Sequence[str], is_meant: Meant
) -> tuple[str, Resource] | None:
    """The variable and the node that is meant, of those that the query gives; None for none."""
    for row in graph.nodes(query):
        for name in variables:
            node = row.get(name)
            if (
                node is not None
                and str(node).startswith("<")
                and is_meant(getattr(node, "value", ""))
            ):
                return name, node
    return None


def _of_columns(rule: FileRule, sources: Sources, entity: Resource) -> Iterator[TermTriple]:
    """The statements that map the rule's signals to columns for the entity, and that select the
    table rows about it.
    """
    assert sources.graph is not None
    yield from facts_of_key(sources.graph, entity)
    text = sources.written(rule.rule.span)
    if re.search(r"(?<!\w)value\(", text) and sources.graph.column_at(getattr(entity, "value", "")):
        yield from facts_of_sensor(sources.graph, entity, None)
    for signal in sources.names.signals.values():
        if signal.property is not None and re.search(
            rf"(?<!\w){re.escape(signal.name)}(?!\w)", text
        ):
            yield from facts_of_column(sources, signal.property, entity)


def _of_shapes(
    sources: Sources, graphs: Sequence[Path], rules: Collection[str], is_meant: Meant
) -> Iterator[_Found]:
    """Those of components of shapes; the shapes are bound once more, to find their focus nodes."""
    files = [path for path in graphs if holds_shapes(path)]
    if not files:
        return
    from rdflib import URIRef

    from fedkg_compiler.frontends.shacl.bind import bind_shapes
    from fedkg_compiler.frontends.shacl.shapes_graph_reader import quiet
    from fedkg_compiler.frontends.shacl.supporting_triples import facts_of_part, statements

    with quiet():
        _, binders = bind_shapes(files, sources)
        for binder in binders:
            for rule, part in binder.ruled.items():
                roots = [
                    focus.root
                    for focus in part.foci
                    if isinstance(focus.root, URIRef) and is_meant(str(focus.root))
                ]
                for root in roots[:1] if rule in rules else ():
                    said = statements(binder, part, root)
                    yield _Found(
                        rule=rule,
                        entity=str(root),
                        triples=facts_of_part(binder, part, root),
                        statements=said,
                    )


def _of_queries(sources: Sources, rules: Collection[str], is_meant: Meant) -> Iterator[_Found]:
    """Those of violation queries."""
    loads = [load for load in sources.names.loads if load.what == "queries"]
    if not loads:
        return
    from fedkg_compiler.frontends.sparql.observed_columns import Observations
    from fedkg_compiler.frontends.sparql.query_files import read_queries
    from fedkg_compiler.frontends.sparql.query_tree_builder import read_tree
    from fedkg_compiler.frontends.sparql.solution_triples import facts_of_query

    observations = Observations(sources=sources, span=loads[0].span)
    for query in read_queries(loads, sources):
        if query.name not in rules:
            continue
        names: dict[str, None] = {}

        def noted(iri: str, names: dict[str, None] = names) -> bool:
            if is_meant(iri):
                names[iri] = None
                return True
            return False

        triples = facts_of_query(
            query, read_tree([query], observations), observations, {}, frozenset(), noted
        )
        if names:
            yield _Found(rule=query.name, entity=next(iter(names)), triples=triples)


def _explained(graph: Graph, found: _Found) -> tuple[Fact, ...]:
    """The triples with their premises and source locations."""
    told = graph.told
    assert told is not None
    reasons, prefixes = told.reasons(), {**told.prefixes(), **graph.vocabulary.prefixes}
    # There is no reason for what a run has learned, from which nothing follows.
    steps = [
        reasons.why(*triple) or Step(triple=triple) for triple in _with_values(graph, found.triples)
    ]
    leaves = [leaf for step in steps for leaf in step.asserted()]
    places, graphs = told.locate(leaves), told.name_graphs({*leaves})
    unlined = {
        document.name for document in told.documents if not document.text
    }  # stores and endpoints

    def place(span: Span | None) -> str:
        return (
            ""
            if span is None
            else span.file
            if span.file in unlined
            else f"{span.file}:{span.line}"
        )

    def fact(step: Step) -> Fact:
        premises = tuple(map(fact, step.premises))
        stated = graphs.get(step.triple)
        return Fact(
            triple=" ".join(shown(node, prefixes) for node in step.triple),
            place="" if step.rule else place(places.get(step.triple)),
            graph=inferred_graph([one.graph for one in premises])
            if step.rule
            else ""
            if stated is None
            else stated.iri,
            rule=step.rule,
            premises=premises,
        )

    said = [
        Fact(triple=text, place=place(span), graph=file_graph(span.file))
        for text, span in found.statements
    ]
    return (*said, *map(fact, steps))


def _with_values(graph: Graph, triples: Iterable[TermTriple]) -> list[TermTriple]:
    """The triples, and the statements about the quantities among their objects, without
    duplicates.
    """
    found = dict.fromkeys(triples)
    return [*(found | dict.fromkeys(facts_of_values(graph, [*found])))]
