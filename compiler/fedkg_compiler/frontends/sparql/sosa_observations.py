"""Observations as SOSA writes them, one node for each, read as what they say: the entity's property
has this value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import (
    Const,
    Group,
    Minus,
    Node,
    Optional,
    Part,
    SubSelect,
    Triple,
    Union,
    Var,
)
from fedkg_compiler.graph.standard_vocabularies import RDF, SOSA

_RESULT = SOSA + "hasSimpleResult"
_PARTS = {
    SOSA + "observedProperty": "property",
    SOSA + "hasFeatureOfInterest": "feature",
    SOSA + "madeBySensor": "sensor",
    RDF + "type": "type",
}


def without_observations(group: Group, iri: Callable[[Node], str | None]) -> Group:
    """The group where ``?o sosa:observedProperty :p ; sosa:hasFeatureOfInterest ?m ;
    sosa:hasSimpleResult ?v`` is ``?m :p ?v``.

    With ``sosa:madeBySensor ?s`` the entity is what hosts the sensor, and the property what it
    observes. ``?s a :Thermometer ; sosa:hasSimpleResult ?v`` is the same for a sensor itself.
    """
    results = [
        part
        for part in group.parts
        if isinstance(part, Triple)
        and iri(part.predicate) == _RESULT
        and not _is_sensor(part.subject, group, iri)
    ]
    nodes = {part.subject.name: part.at for part in results if isinstance(part.subject, Var)}
    parts: list[Part] = []
    said: dict[str, dict[str, Triple]] = {name: {} for name in nodes}
    for part in group.parts:
        if (
            isinstance(part, Triple)
            and isinstance(part.subject, Var)
            and part.subject.name in nodes
        ):
            predicate = iri(part.predicate)
            word = "result" if predicate == _RESULT else _PARTS.get(predicate or "")
            if word is None or word in said[part.subject.name]:
                raise SparqlProblem(
                    "FKG344",
                    part.at,
                    "of an observation, its property, feature of interest, sensor and simple result"
                    " are read, each once",
                    "write what is meant of the entity: ?machine plant:torque ?value",
                )
            said[part.subject.name][word] = part
        elif (
            isinstance(part, Triple)
            and isinstance(part.subject, Var)
            and iri(part.predicate) == _RESULT
        ):
            reading = {"result": part, "sensor": replace(part, object=part.subject)}
            parts += _meant(reading, part.at)
        else:
            parts.append(_inside(part, iri))
    for name, facts in said.items():
        parts += _meant(facts, nodes[name])
    return replace(group, parts=tuple(parts))


def _is_sensor(node: Node, group: Group, iri: Callable[[Node], str | None]) -> bool:
    """Tell whether a node with a result is a sensor: the query says something of it, and nothing
    that only observations have.
    """
    if not isinstance(node, Var):
        return False
    triples = [part for part in group.parts if isinstance(part, Triple)]
    said = [part for part in triples if _is_variable(part.subject, node.name)]
    found = {iri(part.predicate) for part in said} - {_RESULT}
    kinds = {iri(part.object) for part in said if iri(part.predicate) == RDF + "type"}
    return (
        bool(found)
        and not found & (_PARTS.keys() - {RDF + "type"})
        and SOSA + "Observation" not in kinds
        and not any(
            _is_variable(part.object, node.name) and iri(part.predicate) == SOSA + "madeObservation"
            for part in triples
        )
    )


def _is_variable(node: Node, name: str) -> bool:
    return isinstance(node, Var) and node.name == name


def _inside(part: Part, iri: Callable[[Node], str | None]) -> Part:
    match part:
        case Group():
            return without_observations(part, iri)
        case Optional() | Minus():
            return replace(part, group=without_observations(part.group, iri))
        case Union():
            return replace(
                part, groups=tuple(without_observations(group, iri) for group in part.groups)
            )
        case SubSelect():
            return replace(
                part, query=replace(part.query, where=without_observations(part.query.where, iri))
            )
        case _:
            return part


def _meant(facts: dict[str, Triple], at: tuple[int, int]) -> list[Part]:
    """One reading, and what the graph must say of the sensor."""
    result, sensor = facts["result"], facts.get("sensor")
    parts: list[Part] = []
    known: dict[str, Var | Const] = {
        word: facts[word].object for word in ("property", "feature") if word in facts
    }
    if sensor is not None:
        for word, name in (("property", "observes"), ("feature", "isHostedBy")):
            target = known.setdefault(word, Var(at=at, name=f"_s{sensor.at[0]}_{word}"))
            link = Const(at=at, token=-1, kind="iri", text=f"<{SOSA}{name}>")
            parts.append(Triple(at=sensor.at, subject=sensor.object, predicate=link, object=target))
    if "property" not in known or "feature" not in known:
        missing = (
            "sosa:observedProperty" if "property" not in known else "sosa:hasFeatureOfInterest"
        )
        raise SparqlProblem(
            "FKG344",
            at,
            f"nothing tells what this observation is of: {missing} is missing",
            "add it, or sosa:madeBySensor",
        )
    return [
        *parts,
        Triple(
            at=result.at,
            subject=known["feature"],
            predicate=known["property"],
            object=result.object,
        ),
    ]
