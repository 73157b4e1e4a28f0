"""Writes the findings of a run as a named graph (TriG), each with its run as origin (PROV-O).

The graph is ``urn:fedkg:run:DIGEST``, and the IRIs in it are ``urn:fedkg:run:DIGEST#...``, the
digest being that of all that was learnt: the same findings have the same IRIs, those of two runs
never meet, and graphs of many runs can be loaded together. The name of the graph keeps findings
apart from the user's data (`fedkg_compiler.graph.rdf_reader`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from urllib.parse import quote

from fedkg.learned_knowledge_records import (
    CausalEdge,
    LearnedKnowledge,
    MinedProperty,
    Precedence,
    RuleEvidence,
)
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.rdf_reader import RUN
from fedkg_compiler.graph.standard_vocabularies import FKG, QUDT, RDFS, XSD
from fedkg_compiler.learned import findings_vocabulary
from fedkg_compiler.learned.findings_vocabulary import (
    DATE,
    DATE_TIME,
    DOUBLE,
    INTEGER,
    LABEL,
    TYPE,
    fkg,
)
from fedkg_compiler.learned.plant_nodes import PlantNodes

DIGITS = 16
"""Hexadecimal digits of a run's digest that its IRIs have."""


def trig(learned: LearnedKnowledge, nodes: PlantNodes | None = None) -> str:
    """The findings of a run as TriG; the same findings give the same text.

    Args:
        learned: the findings.
        nodes: the nodes of the plant graph; findings then refer to them, beside the names.
    """
    nodes = PlantNodes() if nodes is None else nodes
    digest = hashlib.sha256(learned.model_dump_json().encode()).hexdigest()[:DIGITS]
    graph = ox.NamedNode(f"{RUN}{digest}")
    space = f"{graph.value}#"
    triples = [ox.Triple(graph, findings_vocabulary.GENERATED_BY, _activity(space))]
    triples += _run(learned, space)
    units = findings_vocabulary.units()
    for number, found in enumerate(learned.properties):
        triples += _property(found, space, number, units)
        finding = ox.NamedNode(f"{space}property-{number}")
        triples += _links(finding, "clientNode", [found.client], nodes.clients)
        triples += _links(finding, "columnNode", found.columns, nodes.columns)
    for number, evidence in enumerate(learned.evidence):
        triples += _evidence(evidence, space, number)
    for number, edge in enumerate(learned.edges):
        triples += _edge(edge, space, number, learned.step)
        triples += _edge_links(edge, ox.NamedNode(f"{space}edge-{number}"), nodes)
    prefixes = {
        "fkg": FKG,
        "prov": findings_vocabulary.PROV,
        "qudt": QUDT,
        "rdfs": RDFS,
        "xsd": XSD,
        "run": space,
        "unit": "http://qudt.org/vocab/unit/",
    }
    quads = (ox.Quad(one.subject, one.predicate, one.object, graph) for one in triples)
    body = ox.serialize(quads, format=ox.RdfFormat.TRIG, prefixes=prefixes)
    assert body is not None, "a serialisation without a file is bytes"
    lines = body.decode().splitlines()
    return "\n".join(
        [*sorted(lines[: len(prefixes)]), "", *lines[len(prefixes) :], ""]
    )  # the writer has the prefixes in any order


def _run(learned: LearnedKnowledge, space: str) -> Iterator[ox.Triple]:
    run, agent = _activity(space), ox.NamedNode(f"{space}software")
    yield ox.Triple(run, TYPE, fkg("Run"))
    yield ox.Triple(run, LABEL, ox.Literal(learned.title))
    yield ox.Triple(run, fkg("sha256"), ox.Literal(learned.run))
    yield ox.Triple(run, findings_vocabulary.STARTED, ox.Literal(learned.began, datatype=DATE_TIME))
    yield ox.Triple(run, findings_vocabulary.ASSOCIATED, agent)
    yield from _window(run, learned.window)
    for number, file in enumerate(learned.files):
        node = ox.NamedNode(f"{space}file-{number}")
        yield ox.Triple(run, findings_vocabulary.USED, node)
        yield ox.Triple(node, TYPE, findings_vocabulary.ENTITY)
        yield ox.Triple(node, LABEL, ox.Literal(file.name))
        yield ox.Triple(node, fkg("sha256"), ox.Literal(file.sha256))
    yield ox.Triple(agent, TYPE, findings_vocabulary.SOFTWARE)
    yield ox.Triple(agent, LABEL, ox.Literal(learned.software))


def _property(
    found: MinedProperty, space: str, number: int, units: dict[str, ox.NamedNode]
) -> Iterator[ox.Triple]:
    node = ox.NamedNode(f"{space}property-{number}")
    yield from _finding(
        node, "FoundProperty", f"{found.inference} of {found.client or 'all clients'}", space
    )
    yield _text(node, "inference", found.inference)
    yield _text(node, "template", found.template)
    yield _text(node, "formula", found.text)
    if found.client:
        yield _text(node, "client", found.client)
    for column in found.columns:
        yield _text(node, "readsColumn", column)
    yield _count(node, "traces", found.traces)
    yield _real(node, "confidence", found.confidence)
    if found.epsilon is not None:
        yield _real(node, "epsilon", found.epsilon)
    yield from _window(node, found.window)
    numbers = [
        (each, ox.NamedNode(f"{space}property-{number}-{quote(each.name, safe='')}"))
        for each in found.numbers
    ]
    for _, own in numbers:
        yield ox.Triple(node, fkg("number"), own)
    for each, own in numbers:
        yield ox.Triple(own, TYPE, fkg("FoundNumber"))
        yield _text(own, "numberName", each.name)
        value = (
            ox.Literal(str(round(each.value)), datatype=INTEGER)
            if each.integer
            else ox.Literal(repr(each.value), datatype=DOUBLE)
        )
        yield ox.Triple(own, findings_vocabulary.NUMERIC_VALUE, value)
        if each.unit:
            yield ox.Triple(
                own, findings_vocabulary.UNIT, units.get(each.unit, ox.Literal(each.unit))
            )
        yield _text(own, "direction", each.direction)


def _evidence(evidence: RuleEvidence, space: str, number: int) -> Iterator[ox.Triple]:
    node = ox.NamedNode(f"{space}evidence-{number}")
    yield from _finding(node, "RuleEvidence", evidence.title or evidence.rule, space)
    yield _text(node, "ruleName", evidence.rule)
    yield _text(node, "kind", evidence.kind)
    yield _text(node, "about", evidence.about)
    if evidence.training:
        yield _text(node, "training", evidence.training)
    yield _count(node, "applied", evidence.applied)
    yield _count(node, "violated", evidence.violated)
    if evidence.rate is not None:
        yield _real(node, "violationRate", evidence.rate)
        yield _real(node, "confidence", 1.0 - evidence.rate)
    if evidence.not_evaluated:
        yield _text(node, "notEvaluated", evidence.not_evaluated)
    if evidence.example:
        yield _text(node, "example", evidence.example)


def _edge(edge: CausalEdge, space: str, number: int, step: float | None) -> Iterator[ox.Triple]:
    node = ox.NamedNode(f"{space}edge-{number}")
    yield from _finding(node, "CausalEdge", f"{edge.driver} drives {edge.driven}", space)
    yield _text(node, "driver", edge.driver)
    yield _text(node, "driven", edge.driven)
    yield _real(node, "strength", edge.strength)
    yield _count(node, "lagSteps", edge.lag)
    if step is not None:
        yield _real(node, "lagSeconds", edge.lag * step)
    if edge.p_value is not None:
        yield _real(node, "pValue", edge.p_value)
        yield _real(node, "confidence", 1.0 - edge.p_value)
    if edge.adjusted is not None:
        yield _real(node, "adjustedPValue", edge.adjusted)
    if edge.precedence is not None:
        yield from _precedence(node, edge.precedence)


def _edge_links(edge: CausalEdge, node: ox.NamedNode, nodes: PlantNodes) -> Iterator[ox.Triple]:
    """The nodes of the plant that an edge joins, and the sensors of its columns."""
    yield from _links(node, "driverNode", [edge.driver], nodes.clients)
    yield from _links(node, "drivenNode", [edge.driven], nodes.clients)
    if edge.precedence is not None:
        yield from _links(node, "leadingNode", [edge.precedence.leads], nodes.columns)
        yield from _links(node, "followingNode", [edge.precedence.follows], nodes.columns)


def _links(
    node: ox.NamedNode, name: str, texts: Iterable[str], nodes: Mapping[str, str]
) -> Iterator[ox.Triple]:
    """A triple for each name with a node in the plant."""
    for text in texts:
        if text in nodes:
            yield ox.Triple(node, fkg(name), ox.NamedNode(nodes[text]))


def _precedence(node: ox.NamedNode, found: Precedence) -> Iterator[ox.Triple]:
    yield _text(node, "leadingColumn", found.leads)
    yield _text(node, "followingColumn", found.follows)
    for name, value in (
        ("rise", found.rise),
        ("answer", found.answer),
        ("keptShare", found.kept),
        ("chanceShare", found.chance),
    ):
        yield _real(node, name, value)
    yield _count(node, "withinSteps", found.within)
    yield _count(node, "riseCount", found.cases)


def _finding(node: ox.NamedNode, kind: str, label: str, space: str) -> Iterator[ox.Triple]:
    yield ox.Triple(node, TYPE, fkg(kind))
    yield ox.Triple(node, LABEL, ox.Literal(label))
    yield ox.Triple(node, findings_vocabulary.GENERATED_BY, _activity(space))


def _window(node: ox.NamedNode, window: tuple[str, str] | None) -> Iterator[ox.Triple]:
    for end, time in zip(("dataFrom", "dataTo"), window or (), strict=False):
        yield ox.Triple(node, fkg(end), _time(time))


def _time(text: str) -> ox.Literal:
    """A moment as xsd:dateTime, a day as xsd:date, a count of steps or rows as text."""
    for datatype, read in ((DATE, date.fromisoformat), (DATE_TIME, datetime.fromisoformat)):
        try:
            read(text)
        except ValueError:
            continue
        if len(text) == 10 or datatype == DATE_TIME:
            return ox.Literal(text.replace(" ", "T"), datatype=datatype)
    return ox.Literal(text)


def _activity(space: str) -> ox.NamedNode:
    return ox.NamedNode(f"{space}run")


def _text(node: ox.NamedNode, name: str, value: str) -> ox.Triple:
    return ox.Triple(node, fkg(name), ox.Literal(value))


def _count(node: ox.NamedNode, name: str, value: int) -> ox.Triple:
    return ox.Triple(node, fkg(name), ox.Literal(str(value), datatype=INTEGER))


def _real(node: ox.NamedNode, name: str, value: float) -> ox.Triple:
    return ox.Triple(node, fkg(name), ox.Literal(repr(float(value)), datatype=DOUBLE))
