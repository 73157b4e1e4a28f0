"""Reads the terms of an ontology for comparison: their names, their descriptions and their
positions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.ontologies import Catalog, closest_name
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, SKOS

_CLASSES = frozenset({OWL + "Class", RDFS + "Class"})
_PROPERTIES = frozenset(
    {RDF + "Property", *(OWL + f"{kind}Property" for kind in ("Object", "Datatype"))}
)
_LABELS = frozenset({RDFS + "label", SKOS + "prefLabel", SKOS + "altLabel"})
_COMMENTS = frozenset({RDFS + "comment", SKOS + "definition"})
_ABOVE = frozenset({RDFS + "subClassOf", RDFS + "subPropertyOf"})
_DOMAINS = frozenset({RDFS + "domain", "https://schema.org/domainIncludes"})
_RANGES = frozenset({RDFS + "range", "https://schema.org/rangeIncludes"})


@dataclass(frozen=True, slots=True)
class Term:
    """A class or property as it is compared.

    Attributes:
        iri: the IRI of the term.
        is_class: True for a class, False for a property.
        labels: its English labels, sorted, then the local name of its IRI.
        comment: its English descriptions, joined.
        above: IRIs of the named classes or properties directly above it.
        domains: IRIs of the named domains of a property; empty for a class.
        ranges: IRIs of the named ranges of a property; empty for a class.
    """

    iri: str
    is_class: bool
    labels: tuple[str, ...]
    comment: str
    above: frozenset[str]
    domains: frozenset[str]
    ranges: frozenset[str]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two ontologies.

    Attributes:
        name: the ontology as the user named it.
        terms: its classes and properties, sorted by IRI.
        prefixes: prefix to namespace, to write its names.
        documents: the files of the ontology.
    """

    name: str
    terms: tuple[Term, ...]
    prefixes: dict[str, str]
    documents: tuple[Document, ...] = ()


def gather(name: str, catalog: Catalog) -> tuple[Side | None, tuple[Diagnostic, ...]]:
    """Return an ontology of the catalogue, as it is in use there, or the file of this path, and
    what is wrong with its files.

    Raises:
        UsageError: `name` is neither.
    """
    files, prefixes = _files(name, catalog)
    documents: list[Document] = []
    problems: list[Diagnostic] = []
    for path in files:
        document, said = read_file(path)
        problems += said
        if document is not None:
            documents.append(document)
    if not documents:
        return None, tuple(problems)
    for document in documents:
        prefixes = {**document.prefixes, **prefixes}
    spaces = tuple(catalog.prefixes_of(name).values()) if name in catalog.names() else ()
    return Side(name, _terms(documents, spaces), prefixes, tuple(documents)), tuple(problems)


def _files(name: str, catalog: Catalog) -> tuple[list[Path], dict[str, str]]:
    entry, added = catalog.entries.get(name), catalog.added.get(name)
    if entry is None and added is None:
        if Path(name).is_file():
            return [Path(name)], {}
        meant = closest_name(name, catalog.names())
        raise UsageError(
            f"there is neither an ontology nor a file {name!r}",
            expected=f"one of {', '.join(catalog.names())}, or the path of an RDF file",
            help=f"did you mean `{meant}`?"
            if meant
            else "`fedkg ontology list` lists the ontologies",
        )
    files = [catalog.shelf / added.file] if added is not None else []
    if entry is not None:
        files += [
            catalog.folder / file
            for file in (
                *(() if added is not None else (entry.module, *entry.parts)),
                *entry.additions,
            )
        ]
    return files, catalog.prefixes_of(name)


def _terms(documents: Sequence[Document], spaces: tuple[str, ...]) -> tuple[Term, ...]:
    """The classes and properties that the documents define.

    With `spaces`, those of these namespaces alone.
    """
    kinds: dict[str, bool] = {}
    texts: dict[tuple[str, str], set[str]] = defaultdict(set)
    places: dict[tuple[str, str], set[str]] = defaultdict(set)
    for document in documents:
        for quad in document.triples:
            if not isinstance(quad.subject, ox.NamedNode):
                continue
            subject, predicate, told = quad.subject.value, quad.predicate.value, quad.object
            if isinstance(told, ox.Literal):
                if predicate in _LABELS | _COMMENTS and (told.language or "en").startswith("en"):
                    texts[subject, "label" if predicate in _LABELS else "comment"].add(told.value)
            elif isinstance(told, ox.NamedNode):
                if predicate == RDF + "type" and told.value in _CLASSES | _PROPERTIES:
                    kinds[subject] = kinds.get(subject, False) or told.value in _CLASSES
                for words, place in ((_ABOVE, "above"), (_DOMAINS, "domain"), (_RANGES, "range")):
                    if predicate in words:
                        places[subject, place].add(told.value)
    return tuple(
        Term(
            iri=iri,
            is_class=is_class,
            labels=(*sorted(texts[iri, "label"]), local_name(iri)),
            comment=" ".join(sorted(texts[iri, "comment"])),
            above=frozenset(places[iri, "above"]),
            domains=frozenset(places[iri, "domain"]),
            ranges=frozenset(places[iri, "range"]),
        )
        for iri, is_class in sorted(kinds.items())
        if not spaces or iri.startswith(spaces)
    )
