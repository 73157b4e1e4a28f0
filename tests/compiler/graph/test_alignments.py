"""Reviewed mappings: their ends, their number, and that nothing wrong follows from them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pyoxigraph as ox
import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.owl_rl_closure import SUB_CLASS, follows
from fedkg_compiler.graph.rdf_reader import read_file
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, SKOS

HERE = Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=1)
OFFICIAL = (
    "isa95-dinen62264-2/DINEN62264.owl",
    "mason/mason.owl",
    "amontology/AMOntology_v2.ttl",
    "schemaorg/schemaorg-current-https.ttl",
    "iof/Core.rdf",
    "iof/bfo.rdf",
)
SOURCE, PREDICATE, TARGET = (
    ox.NamedNode(OWL + f"annotated{end}") for end in ("Source", "Property", "Target")
)


def triples_of(catalog: Catalog, *files: str) -> list[ox.Quad]:
    found: list[ox.Quad] = []
    for file in files:
        document, problems = read_file(catalog.folder / file)
        assert document is not None
        assert problems == ()
        found += document.triples
    return found


def mappings(catalog: Catalog) -> dict[str, list[tuple[str, str, str]]]:
    """By file: (source, predicate, target), as stated in the axioms."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for alignment in catalog.alignments:
        ends: dict[object, dict[object, str]] = {}
        for quad in triples_of(catalog, alignment.file):
            if quad.predicate in (SOURCE, PREDICATE, TARGET):
                assert isinstance(quad.object, ox.NamedNode)
                ends.setdefault(quad.subject, {})[quad.predicate] = quad.object.value
        found[alignment.file] = [
            (parts[SOURCE], parts[PREDICATE], parts[TARGET]) for parts in ends.values()
        ]
    return found


def test_there_are_mappings_between_all_four_and_to_sosa_ssn_qudt_and_iof(catalog: Catalog) -> None:
    found = mappings(catalog)
    rows = [row for rows in found.values() for row in rows]
    assert len(rows) >= 300
    assert len(set(rows)) == len(rows)
    pairs = {frozenset(alignment.between) for alignment in catalog.alignments}
    assert {
        frozenset(pair) for pair in combinations(("isa95", "mason", "nist", "schema"), 2)
    } <= pairs
    assert {other for pair in pairs for other in pair} == {
        "isa95",
        "mason",
        "nist",
        "schema",
        "sosa",
        "ssn",
        "qudt",
        "iof",
    }


def test_each_mapping_lies_between_the_two_ontologies_of_its_file(catalog: Catalog) -> None:
    spaces = {name: tuple(entry.all_prefixes().values()) for name, entry in catalog.entries.items()}
    rows = mappings(catalog)
    for alignment in catalog.alignments:
        for source, _, target in rows[alignment.file]:
            owners = (
                {name for name in spaces if source.startswith(spaces[name])},
                {name for name in spaces if target.startswith(spaces[name])},
            )
            assert [owner & set(alignment.between) for owner in owners] in (
                [{alignment.between[0]}, {alignment.between[1]}],
                [{alignment.between[1]}, {alignment.between[0]}],
            ), (alignment.file, source, target)


def test_no_pair_of_terms_is_mapped_in_two_ways_and_exact_matches_are_one_to_one(
    catalog: Catalog,
) -> None:
    rows = [row for rows in mappings(catalog).values() for row in rows]
    ways = Counter(frozenset((source, target)) for source, _, target in rows)
    assert [pair for pair, count in ways.items() if count > 1] == []
    exact = [
        (source, target)
        for source, predicate, target in rows
        if predicate in (SKOS + "exactMatch", OWL + "equivalentClass")
    ]
    for end in (0, 1):
        assert (
            max(
                Counter(
                    (pair[end], pair[1 - end].rsplit("#", 1)[0].rsplit("/", 1)[0]) for pair in exact
                ).values()
            )
            == 1
        )


def disjoint_pairs(triples: list[ox.Quad]) -> set[tuple[ox.NamedNode, ox.NamedNode]]:
    """The named classes that are stated to be disjoint, in pairs or as members of a list."""
    first: dict[object, object] = {
        quad.subject: quad.object for quad in triples if quad.predicate.value == RDF + "first"
    }
    rest: dict[object, object] = {
        quad.subject: quad.object for quad in triples if quad.predicate.value == RDF + "rest"
    }
    pairs: list[tuple[object, object]] = [
        (quad.subject, quad.object)
        for quad in triples
        if quad.predicate.value == OWL + "disjointWith"
    ]
    lists = {
        quad.subject for quad in triples if quad.object == ox.NamedNode(OWL + "AllDisjointClasses")
    }
    for quad in triples:
        if quad.predicate.value == OWL + "members" and quad.subject in lists:
            node: object = quad.object
            members = []
            while node in first:
                members.append(first[node])
                node = rest[node]
            pairs += combinations(members, 2)
    return {
        (one, other)
        for one, other in pairs
        if isinstance(one, ox.NamedNode) and isinstance(other, ox.NamedNode)
    }


def collapses(triples: list[ox.Quad]) -> tuple[set[str], set[str]]:
    """Subclasses of two disjoint classes, and classes of an undeclared cycle."""
    told = {
        (quad.subject, quad.object)
        for quad in triples
        if quad.predicate.value == OWL + "equivalentClass"
    }
    below: dict[ox.NamedNode, set[ox.NamedNode]] = {}
    for quad in (*triples, *follows(triples)):
        if (
            quad.predicate == SUB_CLASS
            and isinstance(quad.subject, ox.NamedNode)
            and isinstance(quad.object, ox.NamedNode)
        ):
            below.setdefault(quad.subject, {quad.subject}).add(quad.object)
    pairs = disjoint_pairs(triples)
    torn = {
        node.value
        for node, above in below.items()
        if any(one in above and other in above for one, other in pairs)
    }
    cycles = {
        node.value
        for node, above in below.items()
        for other in above - {node}
        if node in below.get(other, ()) and (node, other) not in told and (other, node) not in told
    }
    return torn, cycles


def test_nothing_collapses_over_our_modules(catalog: Catalog) -> None:
    files = [
        file
        for entry in catalog.entries.values()
        for file in (entry.module, *entry.parts, *entry.additions)
    ]
    assert collapses(
        triples_of(catalog, *files, *(alignment.file for alignment in catalog.alignments))
    ) == (set(), set())


@needs_shared
@pytest.mark.slow
def test_nothing_collapses_over_all_official_files(catalog: Catalog) -> None:
    """Contradictions of the originals without any alignment are not counted."""
    replaced = ("isa95", "mason", "nist", "schema", "iof")
    files = [file for name in replaced for file in catalog.entries[name].additions]
    files += [
        file
        for name, entry in catalog.entries.items()
        if name not in replaced
        for file in (entry.module, *entry.parts, *entry.additions)
    ]
    alone = [
        *triples_of(catalog, *(str(SHARED / "ontologies" / file) for file in OFFICIAL)),
        *triples_of(catalog, *files),
    ]
    aligned = [*alone, *triples_of(catalog, *(alignment.file for alignment in catalog.alignments))]
    before, after = collapses(alone), collapses(aligned)
    assert len(disjoint_pairs(alone)) >= 40
    assert (after[0] - before[0], after[1] - before[1]) == (set(), set())


def test_a_wrong_mapping_is_detected(catalog: Catalog) -> None:
    """Phenomena are processes, so mapping a machine to a phenomenon makes it a subclass of two
    disjoint classes.
    """
    files = [
        file
        for name in ("nist", "iof")
        for file in (catalog.entries[name].module, *catalog.entries[name].parts)
    ]
    files += [
        *catalog.entries["nist"].additions,
        *catalog.entries["iof"].additions,
        "alignments/iof-nist.sssom.tsv",
    ]
    nist = catalog.entries["nist"].namespace
    machine = ox.NamedNode("https://w3id.org/fedkg/nist#AdditiveManufacturingMachine")
    wrong = [ox.Quad(machine, SUB_CLASS, ox.NamedNode(nist + "Phenomenon"))]
    torn, cycles = collapses([*triples_of(catalog, *files), *wrong])
    assert machine.value in torn
    assert cycles == set()


def test_what_follows_from_a_mapping_is_found_by_rules(catalog: Catalog) -> None:
    text = (
        "@prefix fkg-nist: <https://w3id.org/fedkg/nist#> . <https://example.org/m1> a "
        "fkg-nist:PowderBedFusionMachine ."
        f" <https://example.org/m1> <{RDFS}label> 'M1' ."
    )
    uses = [(name, HERE) for name in ("isa95", "mason", "nist")]
    graph, problems, _ = load_graph(
        uses, {}, [], catalog=catalog, text_graphs=[("plant.ttl", text)]
    )
    assert problems == ()
    for name in ("fkg-isa95:Equipment", "mason:MachineResource", "mason:MaterialResource"):
        iri, _ = graph.resolve(name, "pname", HERE)
        assert iri is not None
        assert "https://example.org/m1" in graph.instances(iri)
    for name in (
        "isa95:Work_Unit",
        "mason:MachineTool",
        "sosa:FeatureOfInterest",
    ):  # near, and not what follows
        iri, _ = graph.resolve(name, "pname", HERE)
        assert iri is not None
        assert graph.instances(iri) == []


def test_only_the_exact_mapping_makes_classes_equivalent(catalog: Catalog) -> None:
    """An assembly of MASON is an assembly process of IOF and the other way round; `mason:Control`
    and `iof:MeasurementProcess`, which are close, share no members.
    """
    text = "".join(
        f"<https://example.org/{name}> a <{catalog.all_prefixes()[prefix]}{term}> .\n"
        for name, prefix, term in (
            ("ours", "mason", "Assembly"),
            ("theirs", "iof", "AssemblyProcess"),
            ("check", "mason", "Control"),
        )
    )
    uses = [(name, HERE) for name in ("mason", "iof")]
    graph, problems, _ = load_graph(
        uses, {}, [], catalog=catalog, text_graphs=[("plant.ttl", text)]
    )
    assert problems == ()

    def members(name: str) -> list[str]:
        iri, _ = graph.resolve(name, "pname", HERE)
        assert iri is not None
        return [member.rsplit("/", 1)[-1] for member in graph.instances(iri)]

    assert members("mason:Assembly") == members("iof:AssemblyProcess") == ["ours", "theirs"]
    assert members("mason:Control") == ["check"]
    assert members("iof:MeasurementProcess") == []
