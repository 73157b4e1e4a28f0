"""Owners of entities: the clients that `fkg:client` names, and the contents of private packs."""

from __future__ import annotations

from collections.abc import Iterable

from fedkg.pack.manifest import Source
from fedkg_compiler.frontends.fkg.binding.declarations import COMMAND_LINE
from fedkg_compiler.frontends.fkg.binding.scope import Environment, Sources
from fedkg_compiler.graph.rdf_terms import Iri
from fedkg_compiler.graph.rdf_terms import Literal as RdfLiteral
from fedkg_compiler.graph.standard_vocabularies import FKG

EVERYBODYS = ("rules", "query", "ontology")
"""The kinds of files that all of a federation has."""


def client_of(iri: str, sources: Sources) -> str:
    """The name of the client that an entity is, or belongs to: its `fkg:client`, else its own name
    for people.
    """
    names = sorted(_clients(sources).get(iri, frozenset()))
    plain = [name for name in names if not name.startswith(("http:", "https:", "urn:"))]
    if plain or names:
        return (plain or names)[0]
    return iri if sources.graph is None else sources.graph.label_of(iri)


def check_client(sources: Sources) -> None:
    """Report a private pack for a client that owns nothing in the graph."""
    client, ownership = (
        sources.names.client,
        None if sources.graph is None else sources.graph.ownership,
    )
    if not client or sources.graph is None or ownership is None or sources.names.graph_broken:
        return
    if client in ownership.clients or (ownership.clients and sources.graph.has(client)):
        return
    advice = f'state the owners in the graph: plant:Linz fkg:client "{client}"'
    if ownership.clients:  # the names of other clients are not shown
        advice = (
            "write the client exactly as `fkg:client` states it in the graph; upper and lower case "
            "differ"
        )
    sources.problems.error(
        "FKG288", COMMAND_LINE, f"nothing in the graph belongs to the client `{client}`", advice
    )


def owned(environment: Environment, sources: Sources) -> Environment:
    """The solutions that belong in a private pack; all solutions if the pack is public.

    The graph of a private pack has no entity of other clients (`graph.client_subgraph`). A
    solution stays when one of its entities is the client's, and one without any entity stays too;
    rules about common entities belong to no client.
    """
    ownership = None if sources.graph is None else sources.graph.ownership
    if ownership is None or not environment.known:
        return environment
    kept = []
    for i in range(environment.rows):
        entities = [
            cell.iri
            for cells in environment.cells.values()
            if (cell := cells[i]) is not None and cell.iri
        ]
        if not entities or not ownership.own.isdisjoint(entities):
            kept.append(i)
    if len(kept) == environment.rows:
        return environment
    if environment.span is not None:
        gone = environment.rows - len(kept)
        are = "is" if gone == 1 else "are"
        message = (
            f"{gone} of {environment.rows} solutions {are} not about `{sources.names.client}`, and"
            f" {are} left out"
        )
        sources.problems.info("FKG287", environment.span, message)
    return environment.take(kept)


def without_private_checksums(found: Iterable[Source], sources: Sources) -> list[Source]:
    """The files that went into the pack, those of a site without their checksums.

    A checksum of the whole graph would let the holder of a pack test guesses about its contents.
    The files of a site
    are all but rules, queries and ontologies, in private packs and wherever the graph states
    owners.
    """
    if not sources.names.client and not any(_clients(sources).values()):
        return list(found)
    return [
        source if source.kind in EVERYBODYS else source.model_copy(update={"sha256": ""})
        for source in found
    ]


def _clients(sources: Sources) -> dict[str, frozenset[str]]:
    """The clients of every entity that the graph gives one: names, and IRIs of clients' nodes with
    the names of those.
    """
    if sources.graph is not None and not sources.clients:
        said: dict[str, set[str]] = {}
        for entity, client in sources.graph.pairs_of(f"{FKG}client"):
            if isinstance(entity, Iri) and isinstance(client, Iri | RdfLiteral):
                said.setdefault(entity.value, set()).add(
                    client.value if isinstance(client, Iri) else client.lexical
                )
        for entity_iri, names in said.items():
            further = {other for name in names for other in said.get(name, ())}
            sources.clients[entity_iri] = frozenset(names | further)
        sources.clients.setdefault("", frozenset())
    return sources.clients
