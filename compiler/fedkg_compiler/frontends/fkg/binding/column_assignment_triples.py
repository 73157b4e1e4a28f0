"""The triples that assign columns and rows of the table to entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.fkg.binding.signal_columns import columns_of
from fedkg_compiler.graph.graph import Graph, Resource
from fedkg_compiler.graph.standard_vocabularies import FKG, QUDT, RDF, SOSA

TermTriple = tuple[Resource, Resource, Resource]
_QUANTITY = tuple(QUDT + name for name in ("numericValue", "value", "unit", "hasUnit"))
_OF_COLUMNS = (
    *(FKG + name for name in ("column", "alternativeColumn", "keyColumn", "keyValue")),
    *_QUANTITY,
    *(SOSA + "observes", FKG + "storedValueOf"),
)


def facts_of_column(
    sources: Sources, property_iri: str, entity: Resource | None
) -> Iterator[TermTriple]:
    """Return the triples that assign columns and rows to an observed property of an entity.

    These are the triples about the property and about its sensors.

    Args:
        entity: None for the rows of the table themselves.
    """
    graph = sources.graph
    if graph is None:
        return
    read = graph.node(property_iri)
    if entity is not None:
        yield from facts_of_key(graph, entity)
        for row in graph.nodes(
            f"SELECT * WHERE {{ ?e <{property_iri}> ?n . ?n <{FKG}column> ?c }}",
            {"e": entity},
            everywhere=True,
        ):
            yield entity, read, row["n"]
            yield from facts_about(graph, row["n"], _OF_COLUMNS)
    for fact in columns_of(sources, property_iri, getattr(entity, "value", None)):
        yield from facts_about(graph, read, _OF_COLUMNS)
        if fact.sensor is not None and not fact.sensor.startswith("_:"):
            yield from facts_of_sensor(graph, graph.node(fact.sensor), entity)


def facts_of_sensor(
    graph: Graph, sensor: Resource, entity: Resource | None
) -> Iterator[TermTriple]:
    """Return the triples about the column of a sensor (or another node) and its owner."""
    yield from facts_about(graph, sensor, _OF_COLUMNS)
    if entity is not None:
        yield from facts_about(graph, sensor, (SOSA + "isHostedBy",), entity)


def facts_of_key(graph: Graph, entity: Resource) -> Iterator[TermTriple]:
    """What says which rows of the table are about an entity."""
    yield from facts_about(graph, entity, (FKG + "keyColumn", FKG + "keyValue"))
    for row in graph.nodes(
        f"SELECT DISTINCT * WHERE {{ ?e a ?k . ?k <{FKG}keyColumn> ?c }}",
        {"e": entity},
        everywhere=True,
    ):
        yield from facts_about(graph, row["k"], (FKG + "keyColumn",))
        yield entity, graph.node(RDF + "type"), row["k"]


def facts_of_values(graph: Graph, triples: Iterable[TermTriple]) -> Iterator[TermTriple]:
    """Return the numbers and units of the quantities among the objects of triples."""
    for _, _, value in triples:
        if not str(value).startswith('"'):
            yield from facts_about(graph, value, _QUANTITY)


def facts_about(
    graph: Graph, subject: Resource, properties: Sequence[str], value: Resource | None = None
) -> Iterator[TermTriple]:
    """The triples of a subject by some properties, with one value if it is given."""
    wanted = " ".join(f"<{iri}>" for iri in properties)
    given = {"s": subject} if value is None else {"s": subject, "o": value}
    query = f"SELECT * WHERE {{ VALUES ?p {{ {wanted} }} ?s ?p ?o }}"
    for row in graph.nodes(query, given, everywhere=True):
        yield subject, row["p"], row["o"] if value is None else value
