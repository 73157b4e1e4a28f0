"""Where the rows of a rule come from: the triples that put them there, and for those that were concluded what they follow from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkg_compiler.binding.names import FileRule
from fedkg_compiler.binding.places import Sources
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.driver import look_up
from fedkg_compiler.ontology.contradictions import shown
from fedkg_compiler.ontology.graph import Graph, Resource
from fedkg_compiler.ontology.reasoning.why import Step
from fedkg_compiler.ontology.standard import FKG, QUDT, RDF, SOSA
from fedkg_compiler.ontology.terms import local_name
from fedkg_compiler.reason.pattern_facts import Spoken, facts_of_pattern
from fedkg_compiler.syntax.tree import InClass, InQuery, Pattern, Quantifier

_QUANTITY = tuple(QUDT + name for name in ("numericValue", "value", "unit", "hasUnit"))
_OF_COLUMNS = (FKG + "column", FKG + "keyColumn", FKG + "keyValue", *_QUANTITY, SOSA + "observes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One triple behind a row.

    Attributes:
        triple: as people write it. place: ``file:line`` where it is told, or the store or endpoint; "" where it is not found.
        rule: by which of OWL 2 RL it was concluded, "" where it is told. premises: what it follows from.
    """

    triple: str
    place: str = ""
    rule: str = ""
    premises: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What put the rows of one entity into a rule's bank.

    Attributes:
        rule: its name. entity, label: the entity's IRI, and its name in the pack. facts: the triples.
    """

    rule: str
    entity: str
    label: str
    facts: tuple[Fact, ...]


def origins(paths: Sequence[Path | str], rules: Sequence[str], entity: str) -> list[Origin]:
    """Return where the rows of an entity come from, for each of the rules that stands in a rule file and has some.

    Args:
        paths: rule files and graphs, wherever these are. rules: their names. entity: an IRI, a prefixed name, a local name or a label.
    """
    sources = look_up(paths)
    graph = sources.graph
    if graph is None or graph.told is None:
        return []
    found: list[Origin] = []
    for rule in sources.names.rules:
        if rule.rule.name.text not in rules or rule.rule.quantifier is None:
            continue
        for query, variables in _queries(rule.rule.quantifier, sources):
            values = _meant(graph, query, variables, entity)
            if values is None:
                continue
            name, node = values
            spoken = dict.fromkeys(facts_of_pattern(graph, query, {name: node}))
            spoken |= dict.fromkeys(_of_values(graph, spoken))
            spoken |= dict.fromkeys(_of_columns(graph, rule, sources, node))
            iri = getattr(node, "value", str(node))
            found.append(Origin(rule=rule.rule.name.text, entity=iri, label=graph.label_of(iri), facts=_explained(graph, [*spoken])))
            break
    return found


def _queries(quantifier: Quantifier, sources: Sources) -> Iterator[tuple[str, list[str]]]:
    """The query that a quantifier asks, with the variables that the rule has of it; none for a sheet."""
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
                yield place.read_text(encoding="utf-8-sig"), variables
        case _:
            return


def _meant(graph: Graph, query: str, variables: Sequence[str], entity: str) -> tuple[str, Resource] | None:
    """The variable and the node that a text means, of those that the query gives; None for none."""
    wanted = entity.strip().strip("<>")
    for row in graph.nodes(query):
        for name in variables:
            node = row.get(name)
            iri = getattr(node, "value", "")
            if node is None or not str(node).startswith("<"):
                continue
            if wanted in (iri, graph.vocabulary.shorten(iri), local_name(iri)) or wanted.casefold() == graph.label_of(iri).casefold():
                return name, node
    return None


def _of_values(graph: Graph, spoken: Sequence[Spoken] | dict[Spoken, None]) -> Iterator[Spoken]:
    """What is said of quantities: their numbers and units."""
    for _, _, value in spoken:
        if not str(value).startswith('"'):
            yield from _said(graph, value, _QUANTITY)


def _of_columns(graph: Graph, rule: FileRule, sources: Sources, entity: Resource) -> Iterator[Spoken]:
    """What says in which columns the rule's signals stand for the entity, and which rows of the table are about it."""
    yield from _said(graph, entity, (FKG + "keyColumn", FKG + "keyValue"))
    kinds = graph.nodes(f"SELECT DISTINCT * WHERE {{ ?e a ?k . ?k <{FKG}keyColumn> ?c }}", {"e": entity})
    for row in kinds:
        yield from _said(graph, row["k"], (FKG + "keyColumn",))
        yield from _said(graph, entity, (RDF + "type",), row["k"])
    text = sources.written(rule.rule.span)
    for signal in sources.names.signals.values():
        if signal.property is None or not re.search(rf"(?<!\w){re.escape(signal.name)}(?!\w)", text):
            continue
        for fact in sources.columns_of(signal.property, getattr(entity, "value", None)):
            for observed in graph.nodes(f"SELECT ?x WHERE {{ VALUES ?x {{ <{signal.property}> }} }}"):
                yield from _said(graph, observed["x"], _OF_COLUMNS)
            if fact.sensor is not None and not fact.sensor.startswith("_:"):
                for sensor in graph.nodes(f"SELECT ?x WHERE {{ VALUES ?x {{ <{fact.sensor}> }} }}"):
                    yield from _said(graph, sensor["x"], _OF_COLUMNS)
                    yield from _said(graph, sensor["x"], (SOSA + "isHostedBy",), entity)


def _said(graph: Graph, subject: Resource, properties: Sequence[str], value: Resource | None = None) -> Iterator[Spoken]:
    """The triples of a subject by some properties, with one value if it is given."""
    wanted = " ".join(f"<{iri}>" for iri in properties)
    given = {"s": subject} if value is None else {"s": subject, "o": value}
    for row in graph.nodes(f"SELECT * WHERE {{ VALUES ?p {{ {wanted} }} ?s ?p ?o }}", given):
        yield subject, row["p"], row["o"] if value is None else value


def _explained(graph: Graph, spoken: Sequence[Spoken]) -> tuple[Fact, ...]:
    """The triples with what they follow from, and where that is told."""
    told = graph.told
    assert told is not None
    reasons, prefixes = told.reasons(), {**told.prefixes(), **graph.vocabulary.prefixes}
    steps = [(triple, reasons.why(*triple)) for triple in spoken]
    leaves = [leaf for _, step in steps if step is not None for leaf in step.told()]
    places = told.places(leaves)
    unlined = {document.name for document in told.documents if not document.text}  # stores and endpoints

    def place(span: Span | None) -> str:
        return "" if span is None else span.file if span.file in unlined else f"{span.file}:{span.line}"

    def fact(step: Step) -> Fact:
        return Fact(
            triple=" ".join(shown(node, prefixes) for node in step.triple),
            place="" if step.rule else place(places.get(step.triple)),
            rule=step.rule,
            premises=tuple(map(fact, step.premises)),
        )

    return tuple(fact(step or Step(triple=triple)) for triple, step in steps)
