"""Owners of entities: the clients that `fkg:client` names, and the contents of private packs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast, get_args

from fedkg.pack.manifest import Source
from fedkg_compiler.diagnostics.problems import Problems
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.quantifier_values import Environment
from fedkg_compiler.frontends.fkg.binding.signal_columns import Sources
from fedkg_compiler.frontends.fkg.binding.symbol_table import FileRule, Names
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Infer,
    KeepSet,
    PredictKnowledge,
    RangeKnowledge,
    Word,
)
from fedkg_compiler.graph.graph_terms import Iri
from fedkg_compiler.graph.graph_terms import Literal as RdfLiteral
from fedkg_compiler.graph.standard_vocabularies import FKG

NOWHERE = Span(file="", line=1, column=1, end_line=1, end_column=1)
"""The place of diagnostics about the command line."""

EVERYBODYS = ("rules", "query", "ontology")
"""The kinds of files that all of a federation has."""

ScopeName = Literal["public", "server", "client"]
Scoped = FileRule | Infer | KeepSet | RangeKnowledge | PredictKnowledge


def client_of(iri: str, sources: Sources) -> str:
    """The name of the client that an entity is, or belongs to: its `fkg:client`, else its own name
    for people.
    """
    names = sorted(_clients(sources).get(iri, frozenset()))
    plain = [name for name in names if not name.startswith(("http:", "https:", "urn:"))]
    if plain or names:
        return (plain or names)[0]
    return iri if sources.graph is None else sources.graph.label_of(iri)


def in_scope(names: Names, problems: Problems) -> None:
    """Leave out the statements that this pack is not for: those of clients in a public pack, all
    others in a private one.

    If a public pack leaves some out, a note explains how to compile them.
    """
    everything: list[Scoped] = [*names.rules, *names.infers, *names.sets, *names.knowledge]
    private = [statement for statement in everything if _scope(statement) == "client"]
    names.rules = [rule for rule in names.rules if (_scope(rule) == "client") == bool(names.client)]
    names.infers = [
        infer for infer in names.infers if (_scope(infer) == "client") == bool(names.client)
    ]
    names.sets = [kept for kept in names.sets if (_scope(kept) == "client") == bool(names.client)]
    names.knowledge = [
        model for model in names.knowledge if (_scope(model) == "client") == bool(names.client)
    ]
    names.left_out = {
        _name(statement)
        for statement in everything
        if (_scope(statement) == "client") != bool(names.client)
    }
    if names.client:
        names.causes, names.loads = [], []
        if not private:
            message = "no statement has the scope `client`: there is nothing for a private pack"
            problems.error(
                "FKG286",
                NOWHERE,
                message,
                "write `scope client` behind the names of rules that are a site's own business",
            )
    elif private:
        first = private[0]
        word = first.rule.scope if isinstance(first, FileRule) else first.scope
        what = "one statement is" if len(private) == 1 else f"{len(private)} statements are"
        problems.info(
            "FKG287",
            word.span if isinstance(word, Word) else NOWHERE,
            f"{what} for clients and not in this pack",
            "at each site, with its own graph: fedkg compile RULES GRAPH --client NAME -o"
            " NAME.fkgpack",
        )


def _name(statement: Scoped) -> str:
    return statement.rule.name.text if isinstance(statement, FileRule) else statement.name.text


def _scope(statement: Scoped) -> ScopeName:
    return scope_of(statement.rule.scope if isinstance(statement, FileRule) else statement.scope)


def scope_of(word: Word | None) -> ScopeName:
    """The scope that a statement names; public where it names none, or one that there is not, which
    has been said.
    """
    return (
        cast(ScopeName, word.text)
        if word is not None and word.text in get_args(ScopeName)
        else "public"
    )


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
    advice = 'state the owners in the graph: plant:Linz fkg:client "linz"'
    if ownership.clients:  # the names of other clients are not shown
        advice = "it is written as `fkg:client` gives it in the graph, in upper and lower case"
    sources.problems.error(
        "FKG288", NOWHERE, f"nothing in the graph belongs to the client `{client}`", advice
    )


def owned(environment: Environment, sources: Sources) -> Environment:
    """The solutions that belong in a private pack; all solutions if the pack is public.

    The graph of a private pack has no entity of other clients (`graph.client_ownership`). A
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
        message = (
            f"{gone} of {environment.rows} solutions are not about `{sources.names.client}`, and"
            " are left out"
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
