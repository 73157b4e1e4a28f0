"""Our own modules: complete, documented, and consistent with their originals."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pyoxigraph as ox
import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.ontology import Catalog, load_graph
from fedkg_compiler.ontology.closure import DOMAIN, INVERSE, RANGE, SUB_CLASS, SUB_PROPERTY, TYPE
from fedkg_compiler.ontology.rdf_reader import Document, read_file
from fedkg_compiler.ontology.standard_vocabularies import FKG, OWL, RDF, RDFS

OFFICIAL = {
    "isa95": SHARED / "ontologies/isa95-dinen62264-2/DINEN62264.owl",
    "mason": SHARED / "ontologies/mason/mason.owl",
    "qudt": SHARED / "ontologies/qudt/VOCAB_QUDT-UNITS-ALL-v2.1.ttl",
    "nist": SHARED / "ontologies/amontology/AMOntology_v2.ttl",
    "schema": SHARED / "ontologies/schemaorg/schemaorg-current-https.ttl",
    "iof": SHARED / "ontologies/iof/Core.rdf",
}
_NOWHERE = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=1)
LABEL, COMMENT = ox.NamedNode(RDFS + "label"), ox.NamedNode(RDFS + "comment")


def module(catalog: Catalog, file: str) -> Document:
    document, problems = read_file(catalog.folder / file)
    assert document is not None
    assert problems == ()
    return document


def module_files(catalog: Catalog) -> list[str]:
    return [
        file
        for entry in catalog.entries.values()
        for file in (entry.module, *entry.parts, *entry.additions)
    ]


def every_file(catalog: Catalog) -> list[str]:
    return [*module_files(catalog), *(alignment.file for alignment in catalog.alignments)]


def subjects(document: Document) -> set[ox.NamedNode]:
    return {quad.subject for quad in document.triples if isinstance(quad.subject, ox.NamedNode)}


def facts_of(document: Document, *predicates: ox.NamedNode) -> set[tuple[object, object, object]]:
    nodes = {quad for quad in document.triples if quad.predicate in predicates}
    return {
        (q.subject, q.predicate, q.object)
        for q in nodes
        if isinstance(q.subject, ox.NamedNode) and isinstance(q.object, ox.NamedNode)
    }


def test_every_turtle_file_is_in_the_catalogue(catalog: Catalog) -> None:
    on_disk = {
        path.relative_to(catalog.folder).as_posix()
        for path in catalog.folder.rglob("*.ttl")
        if path.parent.name != "shapes"
    }
    assert on_disk == set(every_file(catalog))


def test_every_term_has_one_english_label_and_one_sentence(catalog: Catalog) -> None:
    spaces = tuple(
        namespace
        for entry in catalog.entries.values()
        for namespace in entry.all_prefixes().values()
    )
    documents = {file: module(catalog, file) for file in module_files(catalog)}
    described: dict[str, dict[ox.NamedNode, list[str]]] = {}
    for document in documents.values():
        for quad in document.triples:
            if (
                quad.predicate in (LABEL, COMMENT)
                and isinstance(quad.object, ox.Literal)
                and isinstance(quad.subject, ox.NamedNode)
            ):
                assert quad.object.language == "en"
                described.setdefault(quad.subject.value, {}).setdefault(quad.predicate, []).append(
                    quad.object.value
                )
    terms = {
        node.value
        for document in documents.values()
        for node in subjects(document)
        if node.value.startswith(spaces)
    }
    assert len(terms) > 1500
    wrong = [
        term
        for term in sorted(terms)
        if [len(texts) for texts in described.get(term, {}).values()] != [1, 1]
    ]
    assert wrong == []
    assert [term for term in sorted(terms) if not described[term][COMMENT][0].endswith(".")] == []


def test_every_file_uses_only_terms_that_exist(catalog: Catalog) -> None:
    """No module uses a name that its ontology lacks; this detects typing errors in our files."""
    names = [(name, _NOWHERE) for name in catalog.names()]
    _, problems, _ = load_graph(
        names, {}, [catalog.folder / file for file in every_file(catalog)], catalog=catalog
    )
    assert [(problem.code, problem.message) for problem in problems] == []


def test_additions_say_that_they_are_ours(catalog: Catalog) -> None:
    """Terms of ours in the namespace of an official file have `rdfs:isDefinedBy` and an IRI of
    ours.
    """
    ours, defined_by = FKG.removesuffix("ns#"), ox.NamedNode(RDFS + "isDefinedBy")
    for entry in catalog.entries.values():
        if (
            entry.official is None or entry.name == "qudt"
        ):  # QUDT's schema is a separate file, and its terms are QUDT's
            continue
        for file in entry.additions:
            triples = module(catalog, file).triples
            named = {quad.subject for quad in triples if quad.predicate == LABEL}
            added = {
                node
                for node in named
                if isinstance(node, ox.NamedNode) and node.value.startswith(entry.namespace)
            }
            said_so = {
                quad.subject
                for quad in triples
                if quad.predicate == defined_by
                and isinstance(quad.object, ox.NamedNode)
                and quad.object.value.startswith(ours)
            }
            assert added - said_so == set(), file


def test_there_is_breadth(catalog: Catalog) -> None:
    kinds = {OWL + "Class": "class", RDFS + "Class": "class", RDF + "Property": "property"}
    kinds |= {OWL + f"{kind}Property": "property" for kind in ("Object", "Datatype", "Annotation")}
    found: dict[str, set[object]] = {"class": set(), "property": set()}
    for file in module_files(catalog):
        for quad in module(catalog, file).triples:
            if (
                quad.predicate == TYPE
                and isinstance(quad.object, ox.NamedNode)
                and quad.object.value in kinds
            ):
                found[kinds[quad.object.value]].add(quad.subject)
    assert len(found["class"]) >= 1000
    assert len(found["property"]) >= 550


def test_alignments_give_a_reason_for_each_mapping(catalog: Catalog) -> None:
    source, relation, target = (
        ox.NamedNode(OWL + f"annotated{end}") for end in ("Source", "Property", "Target")
    )
    for alignment in catalog.alignments:
        triples = module(catalog, alignment.file).triples
        axioms = {quad.subject for quad in triples if quad.object == ox.NamedNode(OWL + "Axiom")}
        reasons = {
            quad.subject
            for quad in triples
            if quad.predicate == ox.NamedNode(FKG + "justification")
        }
        assert axioms == reasons
        parts = {
            (quad.subject, quad.predicate): quad.object
            for quad in triples
            if quad.subject in axioms
        }
        explained = {
            (parts[axiom, source], parts[axiom, relation], parts[axiom, target]) for axiom in axioms
        }
        described = (LABEL, COMMENT, TYPE)
        mapped = {
            (q.subject, q.predicate, q.object)
            for q in triples
            if q.subject not in axioms and q.predicate not in described
        }
        assert mapped == explained


@needs_shared
@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_what_claims_to_follow_the_original_is_there(catalog: Catalog, name: str) -> None:
    """Every term of a module is a term of the original; no addition is.

    Hierarchy, domains and inverses are the original's.
    """
    entry = catalog.entries[name]
    parts = [module(catalog, file) for file in (entry.module, *entry.parts)]
    ours = replace(parts[0], triples=tuple(quad for part in parts for quad in part.triples))
    original, problems = read_file(OFFICIAL[name])
    assert original is not None
    assert problems == ()
    terms = {
        node
        for node in subjects(ours)
        if node.value.startswith(tuple(entry.all_prefixes().values()))
    }
    assert terms - subjects(original) == set()
    for file in entry.additions:
        labelled = {
            quad.subject for quad in module(catalog, file).triples if quad.predicate == LABEL
        }
        added = {
            node
            for node in labelled
            if isinstance(node, ox.NamedNode) and node.value.startswith(entry.namespace)
        }
        assert added & subjects(original) == set()
    assert (
        facts_of(ours, SUB_CLASS, SUB_PROPERTY, DOMAIN, RANGE, INVERSE)
        - facts_of(original, SUB_CLASS, SUB_PROPERTY, DOMAIN, RANGE, INVERSE)
        == set()
    )
    kinds = {
        OWL + kind for kind in ("Class", "ObjectProperty", "DatatypeProperty", "TransitiveProperty")
    }
    typed = {
        fact
        for fact in facts_of(ours, TYPE)
        if getattr(fact[2], "value", "") in kinds and fact[0] in terms
    }
    assert typed - facts_of(original, TYPE) == set()
    about = {(s, p, o) for s, p, o in facts_of(original, SUB_CLASS, SUB_PROPERTY) if s in terms}
    assert about - facts_of(ours, SUB_CLASS, SUB_PROPERTY) <= {
        (s, p, o) for s, p, o in about if "#top" in str(o)
    }


@needs_shared
@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_the_checksums_of_the_catalogue_are_those_of_the_files(catalog: Catalog, name: str) -> None:
    official = catalog.entries[name].official
    assert official is not None
    assert hashlib.sha256(OFFICIAL[name].read_bytes()).hexdigest() == official.sha256


@needs_shared
def test_unit_codes_and_factors_are_those_of_qudt(catalog: Catalog) -> None:
    ours = module(catalog, "qudt-units.ttl")
    original, _ = read_file(OFFICIAL["qudt"])
    assert original is not None
    store = ox.Store()
    store.extend(original.triples)
    wrong = []
    for quad in ours.triples:
        kind = quad.predicate.value.rsplit("/", 1)[-1]
        if kind in ("ucumCode", "conversionMultiplier", "conversionOffset") and isinstance(
            quad.object, ox.Literal
        ):
            theirs = [
                q.object.value
                for q in store.quads_for_pattern(quad.subject, quad.predicate, None)
                if isinstance(q.object, ox.Literal)
            ]
            same = (
                quad.object.value in theirs
                if kind == "ucumCode"
                else any(abs(float(quad.object.value) / float(v) - 1) < 1e-6 for v in theirs)
            )
            if theirs and not same:
                wrong.append((quad.subject, kind, quad.object.value, theirs))
    wrong_there = {
        "PER-MIN": ["60"],
        "PER-HR": ["360"],
        "K-PER-MIN": ["60"],
    }  # errors of QUDT 2.1: a minute has 60 seconds, not 1/60
    assert {node.value.rsplit("/", 1)[-1]: theirs for node, _, _, theirs in wrong} == wrong_there
    assert {kind for _, kind, _, _ in wrong} == {"conversionMultiplier"}
