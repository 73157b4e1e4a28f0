"""Gathers what the documentation site shows, and renders it: a page for each module, an index, the
Turtle of the modules and the alignments.

The pages have no scripts and load nothing from elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from fedkg.errors import FedkgError
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.ontologies import Catalog, Entry, definitions, load_catalog, our_file
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.standard_vocabularies import (
    DCTERMS,
    FKG,
    OWL,
    RDF,
    RDFS,
    SKOS,
    SSSOM,
    STANDARD_PREFIXES,
)

TEMPLATES = Path(__file__).parent
GENERATOR = "fedkg ontology publish"
_LABEL, _COMMENT, _TYPE = RDFS + "label", RDFS + "comment", RDF + "type"
_RELATIONS = {
    "superclass": (RDFS + "subClassOf",),
    "superproperty": (RDFS + "subPropertyOf",),
    "type": (_TYPE,),
    "domain": (RDFS + "domain", "https://schema.org/domainIncludes"),
    "range": (RDFS + "range", "https://schema.org/rangeIncludes"),
    "inverse": (OWL + "inverseOf",),
    "equivalent": (OWL + "equivalentClass", OWL + "equivalentProperty"),
    "disjoint with": (OWL + "disjointWith",),
}
"""What a term's page lists, by its title: the properties that lead to other terms."""
_METADATA = {
    "Version": (OWL + "versionIRI",),
    "Creator": (DCTERMS + "creator",),
    "Created": (DCTERMS + "created",),
    "Modified": (DCTERMS + "modified",),
    "Licence": (DCTERMS + "license",),
    "Follows": (DCTERMS + "source",),
    "Imports": (OWL + "imports",),
}
_KINDS = {"class": "Classes", "property": "Properties", "individual": "Individuals"}
_REVERSE = {"broadMatch": "narrowMatch", "narrowMatch": "broadMatch"}


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to a page of the site, or to an address elsewhere; "" to nothing."""

    text: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class MappingRow:
    """A reviewed mapping as the page of one of its ends shows it.

    Attributes:
        predicate: a prefixed name; `is rdfs:subClassOf of` and the like from the other end.
        confidence, justification: as the alignment states them. alignment: its file.
    """

    predicate: str
    other: Link
    confidence: str
    justification: str
    alignment: Link


@dataclass(frozen=True, slots=True)
class TermEntry:
    """A term on the page of its module."""

    name: str
    iri: str
    kind: str
    label: str
    definition: str
    source: str
    relations: tuple[tuple[str, tuple[Link, ...]], ...]
    mappings: tuple[MappingRow, ...]


@dataclass(frozen=True, slots=True)
class ModulePage:
    """The page of a module.

    Attributes:
        stem: the name of its files without the ending. sections: terms by the title of their kind.
    """

    stem: str
    iri: str
    title: str
    description: str
    metadata: tuple[tuple[str, tuple[Link, ...]], ...]
    prefixes: tuple[tuple[str, str], ...]
    sections: tuple[tuple[str, tuple[TermEntry, ...]], ...]

    @property
    def size(self) -> int:
        """The number of its terms."""
        return sum(len(terms) for _, terms in self.sections)


@dataclass(slots=True)
class _Site:
    """Everything that pages refer to.

    Attributes:
        pages: the address of each term's entry. facts: by subject and predicate, the objects.
    """

    prefixes: dict[str, str]
    pages: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, list[ox.NamedNode | ox.Literal]]] = field(default_factory=dict)
    mappings: dict[str, list[MappingRow]] = field(default_factory=lambda: defaultdict(list))

    def name(self, iri: str) -> str:
        """The prefixed name of an IRI; the IRI if no prefix fits."""
        fitting = [
            (len(space), f"{prefix}:{iri[len(space) :]}")
            for prefix, space in self.prefixes.items()
            if iri.startswith(space) and "/" not in iri[len(space) :]
        ]
        return max(fitting)[1] if fitting else iri

    def link(self, node: ox.NamedNode | ox.Literal) -> Link:
        """A link to a term's entry; to its address if no module defines it."""
        if isinstance(node, ox.Literal):
            return Link(node.value)
        return Link(self.name(node.value), self.pages.get(node.value, node.value))

    def text(self, iri: str, predicate: str) -> str:
        """The first text of a subject; "" if it has none."""
        found = self.facts.get(iri, {}).get(predicate, ())
        return min((node.value for node in found if isinstance(node, ox.Literal)), default="")


def site_files(*, catalog: Catalog | None = None) -> dict[str, str]:
    """Return the content of every file of the site by its path, with `/` between folders.

    Raises:
        FedkgError: a module or alignment cannot be read.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    catalog = load_catalog() if catalog is None else catalog
    site = _Site({**STANDARD_PREFIXES, **catalog.all_prefixes()})
    modules = [
        (entry, file, _document(catalog, file))
        for entry in catalog.entries.values()
        for file in (entry.module, *entry.parts, *entry.additions)
    ]
    for _, file, document in modules:
        _add_facts(site, document)
        for term in _terms(document):
            site.pages[term] = f"{PurePath(file).stem}.html#{site.name(term)}"
    alignments = [
        _add_mappings(site, alignment.file, _document(catalog, alignment.file))
        for alignment in catalog.alignments
    ]
    entries: dict[str, list[ModulePage]] = defaultdict(list)
    for entry, file, document in modules:
        entries[entry.name].append(_module_page(site, PurePath(file).stem, document))
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["generator"] = GENERATOR
    module_template = environment.get_template("module.html.j2")
    files = {
        f"{page.stem}.html": module_template.render(page=page)
        for pages in entries.values()
        for page in pages
    }
    files["index.html"] = environment.get_template("index.html.j2").render(
        ontologies=[(_about(entry), entries[entry.name]) for entry in catalog.entries.values()],
        alignments=alignments,
    )
    files |= {file: document.text for _, file, document in modules}
    files |= {
        alignment.file: _document(catalog, alignment.file).text for alignment in catalog.alignments
    }
    return files


def _document(catalog: Catalog, file: str) -> Document:
    document, problems = our_file(catalog.folder / file)
    if document is None or problems:
        received = problems[0].message if problems else ""
        raise FedkgError(
            f"the ontology file {file} of fedkg cannot be read",
            received=received,
            help="restore the file in the clone of fedkg (`git checkout -- ontologies`), or "
            "install fedkg again",
        )
    return document


def _about(entry: Entry) -> Mapping[str, str]:
    """What the index says of an ontology: its title, and the original that it follows."""
    official = entry.official
    return {
        "name": entry.name,
        "title": entry.title,
        "original": "" if official is None else entry.iri,
        "version": entry.version,
        "licence": "" if official is None else official.licence,
    }


def _add_facts(site: _Site, document: Document) -> None:
    for quad in document.triples:
        if isinstance(quad.subject, ox.NamedNode) and isinstance(
            quad.object, ox.NamedNode | ox.Literal
        ):
            about = site.facts.setdefault(quad.subject.value, {})
            about.setdefault(quad.predicate.value, []).append(quad.object)


def _terms(document: Document) -> list[str]:
    """The terms that a module defines, which are those with a label, without the module itself."""
    found: dict[str, None] = {}
    ontologies = set()
    for quad in document.triples:
        if isinstance(quad.subject, ox.NamedNode):
            if quad.predicate.value == _LABEL:
                found[quad.subject.value] = None
            elif quad.object == ox.NamedNode(OWL + "Ontology"):
                ontologies.add(quad.subject.value)
    return [iri for iri in found if iri not in ontologies]


def _add_mappings(site: _Site, file: str, document: Document) -> tuple[Link, int]:
    """Note each mapping at both of its ends; return a link to the alignment and its size."""
    axioms: dict[object, dict[str, ox.NamedNode | ox.Literal]] = {}
    title = file
    for quad in document.triples:
        if isinstance(quad.object, ox.NamedNode | ox.Literal):
            if isinstance(quad.subject, ox.BlankNode):
                axioms.setdefault(quad.subject, {})[quad.predicate.value] = quad.object
            elif quad.predicate.value == _LABEL:
                title = quad.object.value
    for told in axioms.values():
        source, predicate, target = (
            told[OWL + f"annotated{end}"] for end in ("Source", "Property", "Target")
        )
        forward, reverse = site.name(predicate.value), _reversed(site, predicate.value)
        for end, name, other in ((source, forward, target), (target, reverse, source)):
            site.mappings[end.value].append(
                MappingRow(
                    name,
                    site.link(other),
                    told[SSSOM + "confidence"].value,
                    told[_COMMENT].value,
                    Link(title, file),
                )
            )
    return Link(title, file), len(axioms)


def _reversed(site: _Site, predicate: str) -> str:
    """The predicate of a mapping as it reads from its target."""
    if predicate.startswith(SKOS):
        local = predicate.removeprefix(SKOS)
        return f"skos:{_REVERSE.get(local, local)}"
    name = site.name(predicate)
    return name if name.startswith("owl:equivalent") else f"is {name} of"


def _module_page(site: _Site, stem: str, document: Document) -> ModulePage:
    (iri,) = {
        quad.subject.value
        for quad in document.triples
        if quad.predicate.value == _TYPE
        and quad.object == ox.NamedNode(OWL + "Ontology")
        and isinstance(quad.subject, ox.NamedNode)
    }
    kinds = {
        name: entry.kind for name, entry in definitions(document, "", individuals=True).items()
    }
    terms = [
        _term_entry(site, term, kinds[term]) for term in sorted(_terms(document), key=site.name)
    ]
    sections = [
        (title, tuple(term for term in terms if term.kind == kind))
        for kind, title in _KINDS.items()
    ]
    used = sorted(document.prefixes.items())
    return ModulePage(
        stem=stem,
        iri=iri,
        title=site.text(iri, _LABEL),
        description=site.text(iri, _COMMENT),
        metadata=_linked(site, iri, _METADATA),
        prefixes=tuple(used),
        sections=tuple((title, found) for title, found in sections if found),
    )


def _term_entry(site: _Site, iri: str, kind: str) -> TermEntry:
    return TermEntry(
        name=site.name(iri),
        iri=iri,
        kind=kind,
        label=site.text(iri, _LABEL),
        definition=site.text(iri, _COMMENT),
        source=site.text(iri, FKG + "source"),
        relations=_linked(site, iri, _RELATIONS),
        mappings=tuple(
            sorted(
                site.mappings.get(iri, ()),
                key=lambda row: (row.other.text, row.predicate, row.justification),
            )
        ),
    )


def _linked(
    site: _Site, iri: str, titles: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, tuple[Link, ...]], ...]:
    """What these properties say of a subject, by title, without empty ones."""
    about = site.facts.get(iri, {})
    found = (
        (title, {site.link(node) for predicate in predicates for node in about.get(predicate, ())})
        for title, predicates in titles.items()
    )
    return tuple(
        (title, tuple(sorted(links, key=lambda link: link.text))) for title, links in found if links
    )
