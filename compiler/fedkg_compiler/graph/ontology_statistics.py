"""Counts concepts, relations, axioms and constraints of each ontology and of all, and the concepts
that alignments match.

What is counted, on the triples as the files state them, before anything is concluded:

- concepts: names that a file defines: classes, properties, individuals (all other named subjects);
- relations: triples that join two different concepts, of one ontology or of two; the sum counts
  each triple once;
- axioms: triples about subsumption, equality, disjointness and inverses, domains and ranges, and
  characteristics of properties;
- constraints: restrictions (`owl:Restriction`), property shapes (`sh:property`) and disjointness;
- matched: concepts that an alignment file joins to a concept of another ontology; all others are
  unmatched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.alignment.alignment_consequences import Entailed, entailed
from fedkg_compiler.graph.alignment.b2mml_mapping_rules import b2mml_alignments
from fedkg_compiler.graph.ontologies import (
    Catalog,
    definitions,
    documents_of,
    load_catalog,
    our_file,
)
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.rdf_terms import TermKind
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, STANDARD_TERMS

_TYPE = ox.NamedNode(RDF + "type")
_SHAPE = ox.NamedNode("http://www.w3.org/ns/shacl#property")
_RESTRICTION = ox.NamedNode(OWL + "Restriction")
_APART = frozenset(
    ox.NamedNode(OWL + word) for word in ("disjointWith", "propertyDisjointWith", "disjointUnionOf")
)
_GROUPS_APART = frozenset(
    ox.NamedNode(OWL + word) for word in ("AllDisjointClasses", "AllDisjointProperties")
)
_AXIOMS = _APART | frozenset(
    [ox.NamedNode(RDFS + word) for word in ("subClassOf", "subPropertyOf", "domain", "range")]
    + [
        ox.NamedNode(OWL + word)
        for word in (
            *(
                "equivalentClass",
                "equivalentProperty",
                "inverseOf",
                "propertyChainAxiom",
                "hasKey",
                "sameAs",
                "differentFrom",
            ),
            *("complementOf", "oneOf"),
        )
    ]
)
_CHARACTERISTICS = _GROUPS_APART | frozenset(
    ox.NamedNode(OWL + f"{word}Property")
    for word in (
        "Functional",
        "InverseFunctional",
        "Transitive",
        "Symmetric",
        "Asymmetric",
        "Reflexive",
        "Irreflexive",
    )
)


class Figures(BaseModel):
    """The counts of one ontology, or of all; the module defines them.

    Attributes:
        in_use: ``module`` (our module) or ``added`` (the user's file).
        concepts: the sum of `classes`, `properties` and `individuals`.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    in_use: str
    triples: int
    concepts: int
    classes: int
    properties: int
    individuals: int
    relations: int
    axioms: int
    constraints: int
    matched: int
    unmatched: int


class Report(BaseModel):
    """The figures of each ontology, sorted by name, and of all together, alignments included.

    Attributes:
        entailed: what the mappings between them bring about; None unless two or more were asked for
            by name.
    """

    model_config = ConfigDict(frozen=True)

    ontologies: tuple[Figures, ...]
    total: Figures
    entailed: Entailed | None = None


def report_figures(
    names: Sequence[str] = (), *, home: Path | None = None
) -> tuple[Report, tuple[Diagnostic, ...]]:
    """Return the figures of these ontologies (default: all of the catalogue), and what is wrong
    with their files.
    """
    catalog = load_catalog(home=home)
    chosen = sorted(set(names)) if names else list(catalog.names())
    problems: list[Diagnostic] = []
    documents: dict[str, list[Document]] = {}
    for name in chosen:
        opened, _ = documents_of(catalog, name)
        problems += [problem for _, said in opened for problem in said]
        documents[name] = [document for document, _ in opened if document is not None]
    kinds = {name: _kinds(name, found) for name, found in documents.items()}
    whole: dict[str, TermKind] = {}
    for found in kinds.values():
        for iri, kind in found.items():
            if whole.get(iri, "individual") == "individual":
                whole[iri] = kind
    aligned = _alignments(catalog, chosen)
    aligned += b2mml_alignments(
        [document for found in documents.values() for document in found], documents.get("isa95", [])
    )
    matched = _matched(aligned, kinds)
    rows = tuple(
        _figures(
            name,
            "added" if name in catalog.added else "module",
            documents[name],
            kinds[name],
            whole,
            matched,
        )
        for name in chosen
    )
    everything = [document for name in chosen for document in documents[name]]
    total = _figures("all", "", [*everything, *aligned], whole, whole, matched)
    by_mappings = entailed(everything, aligned, catalog) if len(set(names)) > 1 else None
    return Report(ontologies=rows, total=total, entailed=by_mappings), tuple(problems)


def _kinds(name: str, documents: Iterable[Document]) -> dict[str, TermKind]:
    """The concepts of an ontology with their kinds.

    What one file calls an individual may be a class in another.
    """
    found: dict[str, TermKind] = {}
    for document in documents:
        for iri, entry in definitions(document, name, individuals=True).items():
            if found.get(iri, "individual") == "individual" and not iri.startswith(
                tuple(STANDARD_TERMS)
            ):
                found[iri] = entry.kind
    return found


def _alignments(catalog: Catalog, names: Sequence[str]) -> list[Document]:
    """The alignment files between the ontologies of these names."""
    opened = [
        our_file(catalog.folder / one.file)
        for one in catalog.alignments
        if set(one.between) <= set(names)
    ]
    return [document for document, _ in opened if document is not None]


def _matched(aligned: Iterable[Document], kinds: dict[str, dict[str, TermKind]]) -> frozenset[str]:
    owners = {iri: name for name in sorted(kinds, reverse=True) for iri in kinds[name]}
    found: set[str] = set()
    for quad in (quad for document in aligned for quad in document.triples):
        ends = (_value(quad.subject), _value(quad.object))
        if ends[0] in owners and ends[1] in owners and owners[ends[0]] != owners[ends[1]]:
            found |= set(ends)
    return frozenset(found)


def _value(node: object) -> str:
    return node.value if isinstance(node, ox.NamedNode) else ""


def _figures(
    name: str,
    in_use: str,
    documents: Sequence[Document],
    own: dict[str, TermKind],
    whole: dict[str, TermKind],
    matched: frozenset[str],
) -> Figures:
    concepts = {ox.NamedNode(iri) for iri in whole}
    triples = {quad for document in documents for quad in document.triples}
    relations = axioms = constraints = 0
    for quad in triples:
        subject, predicate, value = quad.subject, quad.predicate, quad.object
        relations += subject in concepts and value in concepts and subject != value
        axioms += predicate in _AXIOMS or (predicate == _TYPE and value in _CHARACTERISTICS)
        constraints += (
            predicate == _SHAPE
            or predicate in _APART
            or (predicate == _TYPE and (value == _RESTRICTION or value in _GROUPS_APART))
        )
    kinds = list(own.values())
    return Figures(
        name=name,
        in_use=in_use,
        triples=len(triples),
        concepts=len(own),
        classes=kinds.count("class"),
        properties=kinds.count("property"),
        individuals=kinds.count("individual"),
        relations=relations,
        axioms=axioms,
        constraints=constraints,
        matched=len(matched & own.keys()),
        unmatched=len(own.keys() - matched),
    )
