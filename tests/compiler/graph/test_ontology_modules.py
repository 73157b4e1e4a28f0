"""Our own modules: complete, documented, and consistent with their originals."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import replace
from datetime import date

import pyoxigraph as ox
import pytest
from rdflib.namespace import PROV, SOSA, SSN
from shared import SHARED, needs_shared

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.owl_rl_closure import (
    DOMAIN,
    INVERSE,
    RANGE,
    SUB_CLASS,
    SUB_PROPERTY,
    TYPE,
)
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.graph.standard_vocabularies import DCTERMS, FEDKG, OWL, RDF, RDFS, SEMAPV, SSSOM

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


def test_every_module_and_alignment_is_in_the_catalogue(catalog: Catalog) -> None:
    on_disk = {
        path.relative_to(catalog.folder).as_posix()
        for path in catalog.folder.rglob("*.t[ts][lv]")
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


OTHERS = {
    "qudt-schema.ttl": "http://qudt.org/schema/qudt/",
    "iof-bfo.ttl": "http://purl.obolibrary.org/obo/",
    "fkg-learned.ttl": str(PROV),
}
"""Additions with terms of another official ontology, and its namespace."""


def test_our_terms_are_in_our_namespace(catalog: Catalog) -> None:
    """Whatever an addition defines has an IRI of ours and says which file of ours defines it."""
    defined_by = ox.NamedNode(RDFS + "isDefinedBy")
    for entry in catalog.entries.values():
        for file in entry.additions:
            document = module(catalog, file)
            defined = {
                quad.subject.value
                for quad in document.triples
                if quad.predicate == LABEL and isinstance(quad.subject, ox.NamedNode)
            } - {ontology_iri(document)}
            spaces = (OTHERS.get(file, FEDKG), FEDKG)
            assert [term for term in sorted(defined) if not term.startswith(spaces)] == [], file
            homes = {
                quad.subject.value: quad.object.value
                for quad in document.triples
                if quad.predicate == defined_by
                and isinstance(quad.subject, ox.NamedNode)
                and isinstance(quad.object, ox.NamedNode)
            }
            if file not in OTHERS and entry.name != "fkg":
                assert homes == dict.fromkeys(defined, ontology_iri(document)), file


SSN_SYSTEMS = [
    "Accuracy",
    "ActuationRange",
    "BatteryLifetime",
    "Condition",
    "DetectionLimit",
    "Drift",
    "Frequency",
    "Latency",
    "MaintenanceSchedule",
    "MeasurementRange",
    "OperatingPowerRange",
    "OperatingProperty",
    "OperatingRange",
    "Precision",
    "Resolution",
    "ResponseTime",
    "Selectivity",
    "Sensitivity",
    "SurvivalProperty",
    "SurvivalRange",
    "SystemCapability",
    "SystemLifetime",
    "SystemProperty",
    "hasOperatingProperty",
    "hasOperatingRange",
    "hasSurvivalProperty",
    "hasSurvivalRange",
    "hasSystemCapability",
    "hasSystemProperty",
    "inCondition",
    "qualityOfObservation",
]
"""The terms of `ssn-system` in section 5 of the recommendation of 2017."""


def test_sosa_and_ssn_have_no_terms_of_ours(catalog: Catalog) -> None:
    """rdflib lists the terms of SOSA and SSN in the recommendation of 2017."""
    known = {str(term) for space in (SOSA, SSN) for term in dir(space)}
    known |= {str(space) + str(term) for space in (SOSA, SSN) for term in dir(space)}
    known |= {f"{SSN}systems/{term}" for term in SSN_SYSTEMS}
    for file in ("sosa.ttl", "ssn.ttl"):
        terms = {node.value for node in subjects(module(catalog, file))}
        named = {term for term in terms if term.startswith((str(SOSA), str(SSN)))}
        assert len(named) > 30
        assert named - known == set()


def ontology_iri(document: Document) -> str:
    """The only subject of the document that is an ontology."""
    (found,) = {
        quad.subject.value
        for quad in document.triples
        if quad.predicate == TYPE
        and quad.object == ox.NamedNode(OWL + "Ontology")
        and isinstance(quad.subject, ox.NamedNode)
    }
    return found


def test_every_module_has_a_version_a_licence_a_creator_and_dates(catalog: Catalog) -> None:
    for file in module_files(catalog):
        document = module(catalog, file)
        iri = ontology_iri(document)
        told: dict[str, list[str]] = {}
        for quad in document.triples:
            if quad.subject == ox.NamedNode(iri) and not isinstance(quad.object, ox.Triple):
                told.setdefault(quad.predicate.value, []).append(quad.object.value)
        assert iri.startswith(FEDKG), file
        assert told[OWL + "versionIRI"] == [f"{iri}/{told[OWL + 'versionInfo'][0]}"], file
        assert told[DCTERMS + "license"] == ["https://www.apache.org/licenses/LICENSE-2.0"], file
        assert told[DCTERMS + "creator"] == ["The fedkg contributors"], file
        (created,), (modified,) = (told[DCTERMS + word] for word in ("created", "modified"))
        assert date.fromisoformat(created) <= date.fromisoformat(modified), file
    stand_ins = [entry for entry in catalog.entries.values() if entry.official is not None]
    assert len(stand_ins) == 8
    for entry in stand_ins:
        source = ox.NamedNode(DCTERMS + "source")
        found = {
            quad.object.value
            for quad in module(catalog, entry.module).triples
            if quad.predicate == source and isinstance(quad.object, ox.NamedNode)
        }
        assert found == {entry.iri}


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


def test_alignments_say_why_who_when_and_how_sure(catalog: Catalog) -> None:
    """The facts of each mapping as SSSOM's OWL form has them, and no statement besides."""
    ends = [ox.NamedNode(OWL + f"annotated{end}") for end in ("Source", "Property", "Target")]
    told = {
        ox.NamedNode(SSSOM + "mapping_justification"): ox.NamedNode(
            SEMAPV + "ManualMappingCuration"
        ),
        ox.NamedNode(SSSOM + "author_label"): ox.Literal("The fedkg contributors"),
    }
    for alignment in catalog.alignments:
        document = module(catalog, alignment.file)
        axioms: dict[object, dict[ox.NamedNode, object]] = {}
        for quad in document.triples:
            if isinstance(quad.subject, ox.BlankNode):
                axioms.setdefault(quad.subject, {})[quad.predicate] = quad.object
        explained = set()
        for parts in axioms.values():
            explained.add(tuple(parts[end] for end in ends))
            assert told.items() <= parts.items()
            confidence, comment = parts[ox.NamedNode(SSSOM + "confidence")], parts[COMMENT]
            assert isinstance(confidence, ox.Literal)
            assert isinstance(comment, ox.Literal)
            assert 0.5 <= float(confidence.value) <= 1
            assert comment.value.endswith(".")
        mapped = {
            (q.subject, q.predicate, q.object)
            for q in document.triples
            if q.subject not in axioms and q.subject.value != ontology_iri(document)
        }
        assert mapped == explained


def test_labels_in_alignments_are_those_of_the_modules(catalog: Catalog) -> None:
    labels = {
        quad.subject.value: quad.object.value
        for file in module_files(catalog)
        for quad in module(catalog, file).triples
        if quad.predicate == LABEL and isinstance(quad.object, ox.Literal)
    }
    prefixes = catalog.all_prefixes()
    for alignment in catalog.alignments:
        with (catalog.folder / alignment.file).open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader((line for line in lines if line[0] != "#"), delimiter="\t")
            for row in rows:
                for end in ("subject", "object"):
                    prefix, _, name = row[f"{end}_id"].partition(":")
                    assert row[f"{end}_label"] == labels[prefixes[prefix] + name]


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
