"""Reads findings from a graph: the output of `to_rdf`, or other RDF in the same vocabulary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from pydantic import ValidationError

from fedkg.errors import FedkgError
from fedkg.learned_knowledge_records import (
    CausalEdge,
    LearnedKnowledge,
    MinedNumber,
    MinedProperty,
    Precedence,
    RuleEvidence,
)
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.learned import findings_vocabulary
from fedkg_compiler.learned.findings_vocabulary import LABEL, TYPE, fkg

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
Made = TypeVar("Made")


def read(triples: Sequence[ox.Quad], name: str) -> tuple[LearnedKnowledge, ...]:
    """The findings of each run of a graph, by the runs' IRIs.

    Args:
        triples: the triples of the graph.
        name: the name of the file in messages.

    Raises:
        FedkgError: a finding lacks something, or has something of another kind: which one, and
            what.
    """
    about: dict[Node, dict[str, list[Node]]] = defaultdict(lambda: defaultdict(list))
    for quad in triples:
        about[quad.subject][quad.predicate.value].append(quad.object)
    kinds = {
        kind: sorted(_of_kind(about, kind), key=_order)
        for kind in ("FoundProperty", "CausalEdge", "RuleEvidence")
    }
    units = {node: text for text, node in reversed(findings_vocabulary.units().items())}
    runs: dict[str, list[Node]] = defaultdict(list)
    for findings in kinds.values():
        for node in findings:
            runs[_single_text(about[node], findings_vocabulary.GENERATED_BY) or ""].append(node)

    def made(kind: str, members: Iterable[Node], make: Callable[[Node], Made]) -> tuple[Made, ...]:
        return tuple(_made(node, make, name) for node in kinds[kind] if node in members)

    return tuple(
        LearnedKnowledge(
            run=_text(about[ox.NamedNode(run)], "sha256") if run else "",
            title=(_single_text(about[ox.NamedNode(run)], LABEL) if run else None)
            or "findings without a run",
            software="",
            began=(
                _single_text(about[ox.NamedNode(run)], findings_vocabulary.STARTED) if run else None
            )
            or "",
            window=_window(about[ox.NamedNode(run)]) if run else None,
            properties=made(
                "FoundProperty", set(members), lambda node: _property(about, units, node)
            ),
            evidence=made("RuleEvidence", set(members), lambda node: _evidence(about[node])),
            edges=made("CausalEdge", set(members), lambda node: _edge(about[node])),
        )
        for run, members in sorted(runs.items())
    )


def _order(node: Node) -> tuple[int, str]:
    """The order in which findings are numbered."""
    return len(str(node)), str(node)


def _of_kind(about: Mapping[Node, Mapping[str, Sequence[Node]]], kind: str) -> Iterable[Node]:
    return (
        node for node, properties in about.items() if fkg(kind) in properties.get(TYPE.value, ())
    )


def _made(node: Node, make: Callable[[Node], Made], name: str) -> Made:
    try:
        return make(node)
    except (KeyError, ValueError, ValidationError) as error:
        lacking = (
            f"it has no {error.args[0]}"
            if isinstance(error, KeyError)
            else f"{error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']}"
            if isinstance(error, ValidationError)
            else str(error).partition("\n")[0]
        )
        raise FedkgError(
            f"{name}: the finding {node} cannot be read",
            received=lacking,
            help="correct the finding; fkg-learned.ttl defines the properties and values of "
            "findings",
        ) from error


def _property(
    about: Mapping[Node, Mapping[str, Sequence[Node]]],
    units: Mapping[ox.NamedNode, str],
    node: Node,
) -> MinedProperty:
    properties = about[node]
    numbers = [
        _number(about[own], units)
        for own in sorted(properties.get(fkg("number").value, ()), key=_order)
    ]
    text = _needed(properties, "formula")
    numbers.sort(key=lambda one: text.find(f"?{one.name}"))
    return MinedProperty(
        inference=_needed(properties, "inference"),
        template=_needed(properties, "template"),
        text=text,
        client=_text(properties, "client"),
        columns=tuple(
            sorted(
                node.value
                for node in properties.get(fkg("readsColumn").value, ())
                if isinstance(node, ox.Literal)
            )
        ),
        numbers=tuple(numbers),
        traces=int(_needed(properties, "traces")),
        epsilon=float(_text(properties, "epsilon")) if _text(properties, "epsilon") else None,
        window=_window(properties),
    )


def _window(properties: Mapping[str, Sequence[Node]]) -> tuple[str, str] | None:
    first, last = _text(properties, "dataFrom"), _text(properties, "dataTo")
    return (first, last) if first and last else None


def _number(
    properties: Mapping[str, Sequence[Node]], units: Mapping[ox.NamedNode, str]
) -> MinedNumber:
    number = properties.get(findings_vocabulary.NUMERIC_VALUE.value, ())
    if not number or not isinstance(number[0], ox.Literal):
        raise KeyError("qudt:numericValue")
    unit = next(iter(properties.get(findings_vocabulary.UNIT.value, ())), None)
    direction = _text(properties, "direction") or "none"
    if direction not in ("up", "down", "none"):
        raise ValueError(f"the direction must be up, down or none, not {direction}")
    return MinedNumber.model_validate(
        {
            "name": _needed(properties, "numberName"),
            "value": float(number[0].value),
            "unit": units.get(unit, unit.value)
            if isinstance(unit, ox.NamedNode)
            else _single_text(properties, findings_vocabulary.UNIT) or "",
            "integer": number[0].datatype == findings_vocabulary.INTEGER,
            "direction": direction,
        }
    )


def _evidence(properties: Mapping[str, Sequence[Node]]) -> RuleEvidence:
    return RuleEvidence.model_validate(
        {
            "rule": _needed(properties, "ruleName"),
            "title": _single_text(properties, LABEL) or "",
            "kind": _text(properties, "kind") or "other",
            "about": _needed(properties, "about"),
            "training": _text(properties, "training"),
            "applied": int(_needed(properties, "applied")),
            "violated": int(_needed(properties, "violated")),
            "not_evaluated": _text(properties, "notEvaluated"),
            "example": _text(properties, "example"),
        }
    )


def _edge(properties: Mapping[str, Sequence[Node]]) -> CausalEdge:
    return CausalEdge(
        driver=_needed(properties, "driver"),
        driven=_needed(properties, "driven"),
        strength=float(_needed(properties, "strength")),
        lag=int(_text(properties, "lagSteps") or 1),
        p_value=float(_text(properties, "pValue")) if _text(properties, "pValue") else None,
        adjusted=float(_text(properties, "adjustedPValue"))
        if _text(properties, "adjustedPValue")
        else None,
        precedence=_precedence(properties) if _text(properties, "leadingColumn") else None,
    )


def _precedence(properties: Mapping[str, Sequence[Node]]) -> Precedence:
    return Precedence(
        leads=_needed(properties, "leadingColumn"),
        rise=float(_needed(properties, "rise")),
        follows=_needed(properties, "followingColumn"),
        answer=float(_needed(properties, "answer")),
        within=int(_needed(properties, "withinSteps")),
        kept=float(_needed(properties, "keptShare")),
        chance=float(_needed(properties, "chanceShare")),
        cases=int(_needed(properties, "riseCount")),
    )


def _needed(properties: Mapping[str, Sequence[Node]], name: str) -> str:
    found = _text(properties, name)
    if not found:
        raise KeyError(f"fkg:{name}")
    return found


def _text(properties: Mapping[str, Sequence[Node]], name: str) -> str:
    return _single_text(properties, fkg(name)) or ""


def _single_text(properties: Mapping[str, Sequence[Node]], property: ox.NamedNode) -> str | None:
    """The one thing that a property says of a node, as text; the least where it says several."""
    return min(
        (
            node.value
            for node in properties.get(property.value, ())
            if isinstance(node, ox.Literal | ox.NamedNode)
        ),
        default=None,
    )
