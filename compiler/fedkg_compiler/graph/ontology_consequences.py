"""The output of `fedkg ontology reason`: inferred facts of ontologies and graphs, and unsatisfiable
classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.contradictions import shown
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.load import load_graph
from fedkg_compiler.graph.ontologies import load_catalog
from fedkg_compiler.graph.owl_rl_closure import (
    SUB_CLASS,
    SUB_PROPERTY,
    TYPE,
    closure,
    matches,
    possible,
)
from fedkg_compiler.graph.reasoning.facts import Facts
from fedkg_compiler.graph.reasoning.hermit_reasoner import describe
from fedkg_compiler.graph.reasoning.owl_vocabulary import NAMES, SAME, WORDS
from fedkg_compiler.graph.reasoning.rule_table import Rule
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS

Line = tuple[str, str, str]
_DISJOINT, _BELOW = NAMES["disjointWith"], NAMES["subClassOf"]
_KINDS = {SUB_CLASS: "below", SUB_PROPERTY: "below", TYPE: "types", WORDS[SAME]: "same"}
_VOCABULARY = tuple(f"<{space}" for space in (RDF, RDFS, OWL))
_INCONSISTENT = (
    "the files contradict themselves: the DL reasoner finds this, but not the "
    "statements that cause it"
)
_UNSATISFIABLE = (
    Rule(name="below two", body=((-1, _DISJOINT, -2), (-3, _BELOW, -1), (-3, _BELOW, -2))),
    Rule(name="below what it is apart from", body=((-3, _DISJOINT, -2), (-3, _BELOW, -2))),
    Rule(name="below what is apart from it", body=((-2, _DISJOINT, -3), (-3, _BELOW, -2))),
    Rule(name="below nothing", body=((-3, _BELOW, NAMES["Nothing"]),)),
)


class Reasoned(BaseModel):
    """Inferred facts about the terms and things of the files that the files do not state.

    Attributes:
        reasoner: ``OWL 2 RL``, or ``OWL 2 RL and HermiT``.
        below: the inferred subclasses and subproperties.
        types: the inferred classes of individuals.
        same: the individuals that are found to be equal.
        others: the number of further inferred triples, by property.
        unsatisfiable: the classes that cannot have a member.
    """

    model_config = ConfigDict(frozen=True)

    reasoner: str
    below: tuple[Line, ...]
    types: tuple[Line, ...]
    same: tuple[Line, ...]
    others: dict[str, int]
    unsatisfiable: tuple[str, ...]


def reason(
    asked: Sequence[str], *, dl: bool = False, limit: float = 60.0, home: Path | None = None
) -> tuple[Reasoned, list[Diagnostic]]:
    """Return what follows from ontologies and graphs, and what contradicts itself in them.

    Args:
        asked: files, and names of the catalogue.
        dl: whether HermiT reasons too.
        limit: the time limit of HermiT in seconds.
        home: the user's folder; default: as for `load_catalog`.
    """
    names = [
        one for one in asked if one in load_catalog(home=home).names() and not Path(one).exists()
    ]
    files = [Path(one) for one in asked if one not in names]
    here = Span(file=" ".join(asked), line=1, column=1, end_line=1, end_column=1)
    graph, said, _ = load_graph(
        [(name, here) for name in names], {}, files, catalog=load_catalog(home=home)
    )
    assert graph.told is not None
    problems = list(said)
    prefixes = {**graph.vocabulary.prefixes, **graph.told.prefixes()}
    if any(one.code == "FKG118" for one in said):
        return _sorted_out((), (), prefixes, "OWL 2 RL"), problems
    triples = graph.told.triples()
    closed = closure(triples)
    own = {
        quad.subject for document in graph.told.documents[: len(files)] for quad in document.triples
    }
    own |= {ox.NamedNode(term.iri) for term in graph.terms() if term.ontology in names}
    new = {quad.triple for quad in closed.added()}
    unsatisfiable = _unsatisfiable(closed.facts)
    reasoner = "OWL 2 RL"
    if dl:
        described, found = describe(triples, files[0].name if files else names[0], limit)
        problems += found
        if described is not None:
            reasoner = "OWL 2 RL and HermiT"
            told = {quad.triple for quad in triples}
            more = {
                ox.Triple(ox.NamedNode(one), SUB_CLASS, ox.NamedNode(other))
                for one, other in described.below
            } - told
            more |= {
                ox.Triple(ox.NamedNode(one), TYPE, ox.NamedNode(other))
                for one, other in described.types
            } - told
            found_too = [
                ox.Quad(triple.subject, triple.predicate, triple.object) for triple in more
            ]
            new |= more | {quad.triple for quad in closure([*triples, *found_too]).added()}
            unsatisfiable |= set(described.unsatisfiable)
            if described.inconsistent and not any(one.code == "FKG125" for one in problems):
                problems.append(
                    report(
                        "FKG125",
                        point(asked[0]),
                        _INCONSISTENT,
                        help="leave out files until the contradiction is gone",
                        severity="warning",
                    )
                )
    about = [triple for triple in new if triple.subject in own]
    return _sorted_out(about, unsatisfiable, prefixes, reasoner), problems


def _sorted_out(
    new: Iterable[ox.Triple], unsatisfiable: Iterable[str], prefixes: dict[str, str], reasoner: str
) -> Reasoned:
    found: dict[str, list[Line]] = {"below": [], "types": [], "same": []}
    others: Counter[str] = Counter()
    for triple in new:
        kind = _KINDS.get(triple.predicate)
        if kind is None or (kind == "types" and str(triple.object).startswith(_VOCABULARY)):
            others[shown(triple.predicate, prefixes)] += 1
        else:
            found[kind].append(
                (
                    shown(triple.subject, prefixes),
                    shown(triple.predicate, prefixes),
                    shown(triple.object, prefixes),
                )
            )
    return Reasoned(
        reasoner=reasoner,
        others=dict(sorted(others.items())),
        unsatisfiable=tuple(sorted(shown(ox.NamedNode(iri), prefixes) for iri in unsatisfiable)),
        below=tuple(sorted(found["below"])),
        types=tuple(sorted(found["types"])),
        same=tuple(sorted(found["same"])),
    )


def _unsatisfiable(facts: Facts) -> set[str]:
    """The named classes that are below two which have no common member, or below owl:Nothing."""
    found: set[str] = set()
    for rule in _UNSATISFIABLE:
        matched = matches(rule, facts) if possible(rule, facts) else None
        if matched is not None:
            nodes = (facts.nodes[number] for number in np.unique(matched[-3]).tolist())
            found |= {node.value for node in nodes if isinstance(node, ox.NamedNode)}
    return found - {OWL + "Nothing"}
