"""Describes one term of the loaded ontologies, in any spelling: for `fedkg ontology show TERM`."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.load import load_graph
from fedkg_compiler.graph.ontologies import Catalog, closest_name, documents_of, find, load_catalog
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.rdf_terms import Iri, KnownTerm, TermKind, is_iri, local_name, split_iri
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, SKOS

MOST = 8
"""Terms of one spelling that are shown; more are only named."""
_TOP = frozenset(
    {
        OWL + "Thing",
        RDFS + "Resource",
        OWL + "topObjectProperty",
        OWL + "topDataProperty",
        OWL + "NamedIndividual",
    }
)
_SCHEMA_ORG = "https://schema.org/"
_MATCHES = (
    *(
        SKOS + word
        for word in ("exactMatch", "closeMatch", "broadMatch", "narrowMatch", "relatedMatch")
    ),
    *(OWL + word for word in ("equivalentClass", "equivalentProperty", "sameAs")),
)


class Mapped(BaseModel):
    """A term of another place that is mapped to this one.

    `by` is the predicate, from this term to the other unless `reverse`.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    iri: str
    by: str
    reverse: bool


class About(BaseModel):
    """The description of a term. Names have prefixes if a prefix is known.

    Attributes:
        defined_in: the file, with the line on which the term is first written.
        parents: the classes or properties directly above it.
        children: the classes or properties directly below it.
        types: the classes of an individual; empty for a class or property.
        members: the number of individuals of a class, those of its subclasses included; 0 for
            anything else.
        domain: the domains of a property; empty for anything else.
        range: the ranges of a property; empty for anything else.
        inverse: the inverses of a property; empty for anything else.
        properties: the properties that have this class as domain; empty for anything else.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    iri: str
    kind: TermKind
    label: str
    comment: str
    ontology: str
    defined_in: str
    parents: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    members: int = 0
    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    inverse: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    mapped: tuple[Mapped, ...] = ()


def describe_term(
    text: str, *, home: Path | None = None
) -> tuple[tuple[About, ...], tuple[Diagnostic, ...]]:
    """Return what is known of the terms that a text names, and the errors in the files.

    Args:
        text: an IRI, a prefixed name, a local name or a label; labels and local names in any case.
            An IRI or a prefixed name is one term, a label may be that of several.

    Raises:
        UsageError: no ontology of the catalogue has such a term.
    """
    catalog = load_catalog(home=home)
    here = Span(file=text, line=1, column=1, end_line=1, end_column=1)
    graph, problems, _ = load_graph(
        [(name, here) for name in catalog.names()], {}, [], catalog=catalog
    )
    known = graph.terms()
    found = _named(text, known, graph)
    if not found:
        raise UsageError(
            f"no ontology is called `{text}`, and none has such a term",
            help=_meant(text, known, catalog),
        )
    names = frozenset(term.iri for term in known)
    return tuple(_describe(term, names, graph, catalog) for term in found[:MOST]), tuple(
        one for one in problems if one.severity == "error"
    )


def _meant(text: str, known: tuple[KnownTerm, ...], catalog: Catalog) -> str:
    ontology = closest_name(text, catalog.names())
    if ontology is not None:
        return f"did you mean `{ontology}`?"
    prefix, mark, _ = text.partition(":")
    beside = [term for term in known if mark and term.short.startswith(f"{prefix}:")] or known
    local = closest_name(text.rpartition(":")[2], [local_name(term.iri) for term in beside])
    likely = [term.short for term in beside if local_name(term.iri) == local]
    return (
        f"did you mean {' or '.join(f'`{name}`' for name in likely[:3])}?"
        if likely
        else "`fedkg ontology list` lists the ontologies"
    )


def _named(text: str, known: tuple[KnownTerm, ...], graph: Graph) -> list[KnownTerm]:
    """The terms that a text names; the most exact reading that finds any."""
    iri = text.strip("<> ")
    prefix, mark, local = iri.partition(":")
    if mark and prefix in graph.vocabulary.prefixes:
        iri = graph.vocabulary.prefixes[prefix] + local
    exact = [term for term in known if term.iri == iri]
    if exact or mark:
        return exact
    folded = " ".join(text.casefold().split())
    local_names = [term for term in known if local_name(term.iri).casefold() == folded]
    return local_names or [term for term in known if term.label.casefold() == folded]


def _describe(term: KnownTerm, known: frozenset[str], graph: Graph, catalog: Catalog) -> About:
    below = RDFS + ("subPropertyOf" if term.kind == "property" else "subClassOf")
    facts = _Facts(graph, term.iri, known)
    mapped = facts.mapped()
    same = frozenset(
        one.iri for one in mapped if one.by.startswith("owl:") or one.by == "skos:exactMatch"
    )
    is_class, is_property = term.kind == "class", term.kind == "property"
    return About(
        name=term.short,
        iri=term.iri,
        kind=term.kind,
        label=term.label,
        comment=term.comment,
        ontology=term.ontology,
        defined_in=_definition_place(term, catalog),
        parents=facts.next(below, same, up=True),
        children=facts.next(below, same, up=False),
        types=() if is_class or is_property else facts.ends(RDF + "type"),
        members=len(graph.instances(term.iri, vocabularies=True)) if is_class else 0,
        domain=facts.ends(RDFS + "domain", _SCHEMA_ORG + "domainIncludes") if is_property else (),
        range=facts.ends(RDFS + "range", _SCHEMA_ORG + "rangeIncludes") if is_property else (),
        inverse=facts.ends(OWL + "inverseOf") if is_property else (),
        properties=(
            facts.ends(RDFS + "domain", _SCHEMA_ORG + "domainIncludes", reverse=True)
            if is_class
            else ()
        ),
        mapped=mapped,
    )


class _Facts:
    """Asks the graph about one term."""

    def __init__(self, graph: Graph, iri: str, known: frozenset[str]) -> None:
        self.graph = graph
        self.iri = iri
        self.known = known

    def ask(self, pattern: str) -> list[str]:
        """The IRIs bound to ?x, sorted, without the term itself."""
        rows = self.graph.answers(
            f"SELECT DISTINCT ?x WHERE {{ {pattern} FILTER(isIRI(?x)) }}", everywhere=True
        )
        return sorted({row[0].value for row in rows if isinstance(row[0], Iri)} - _TOP - {self.iri})

    def short(self, iris: list[str]) -> tuple[str, ...]:
        return tuple(sorted(self.graph.vocabulary.shorten(iri) for iri in iris))

    def ends(self, *predicates: str, reverse: bool = False) -> tuple[str, ...]:
        """The IRIs at the other end of these predicates."""
        path = "|".join(f"<{predicate}>" for predicate in predicates)
        return self.short(
            self.ask(f"?x {path} <{self.iri}>" if reverse else f"<{self.iri}> {path} ?x")
        )

    def next(self, below: str, same: frozenset[str], *, up: bool) -> tuple[str, ...]:
        """The terms right above or below: those with none between.

        `same` are other names of the term.
        """
        step = "<{0}> <{1}> {2}" if up else "{2} <{1}> <{0}>"
        near = [
            iri
            for iri in self.ask(step.format(self.iri, below, "?x"))
            if iri not in same and not self.alias(iri)
        ]
        others = set(near)
        between = f"?m <{below}> ?x" if up else f"?x <{below}> ?m"
        rows = self.graph.answers(
            f"SELECT DISTINCT ?x ?m WHERE {{ {step.format(self.iri, below, '?x')} ."
            f" {step.format(self.iri, below, '?m')} . {between} }}",
            everywhere=True,
        )
        pairs = {
            (x.value, m.value)
            for x, m in rows
            if isinstance(x, Iri) and isinstance(m, Iri) and x != m and m.value in others
        }
        return self.short(
            [iri for iri in near if not any(x == iri and (m, x) not in pairs for x, m in pairs)]
        )

    def alias(self, iri: str) -> bool:
        """Whether an IRI is only another name of a term that has a separate name, like a node's
        number.
        """
        return iri not in self.known and bool(
            self.graph.answers(
                "SELECT ?x WHERE "
                f"{{ ?x <{OWL}equivalentClass>|<{OWL}equivalentProperty> <{iri}> }} LIMIT 1",
                everywhere=True,
            )
        )

    def mapped(self) -> tuple[Mapped, ...]:
        """The terms that alignments and equivalences join to the term."""
        found: dict[str, Mapped] = {}
        for predicate in _MATCHES:
            for reverse in (False, True):
                pattern = (
                    f"?x <{predicate}> <{self.iri}>"
                    if reverse
                    else f"<{self.iri}> <{predicate}> ?x"
                )
                for iri in self.ask(pattern):
                    if iri not in self.known and predicate.startswith(OWL):
                        continue  # a node's number, and the like
                    name, by = (
                        self.graph.vocabulary.shorten(iri),
                        self.graph.vocabulary.shorten(predicate),
                    )
                    found.setdefault(iri, Mapped(name=name, iri=iri, by=by, reverse=reverse))
        return tuple(found[iri] for iri in sorted(found))


def _definition_place(term: KnownTerm, catalog: Catalog) -> str:
    """The file that defines a term, and the line where it does; "" if only an alignment speaks
    of it.
    """
    if term.ontology not in catalog.names() or not is_iri(term.iri):
        return ""
    documents = [
        document for document, _ in documents_of(catalog, term.ontology)[0] if document is not None
    ]
    for document in documents:
        if any(getattr(quad.subject, "value", "") == term.iri for quad in document.triples):
            line = _line(document, term.iri)
            return document.name if line is None else f"{document.name}, line {line}"
    return ""


def _line(document: Document, iri: str) -> int | None:
    """The line that begins with the term, or first mentions it.

    None in a folder, because its files share no line numbers.
    """
    if not document.text:
        return None
    space, local = split_iri(iri)
    prefixes = [
        re.escape(prefix) for prefix, namespace in document.prefixes.items() if namespace == space
    ]
    starts = [rf"(?:{'|'.join(prefixes)}):{re.escape(local)}(?![\w-])"] if prefixes else []
    starts.append(re.escape(f"<{iri}>"))
    names = rf"(?:{re.escape(local)}|{re.escape(local.removeprefix('has'))})"
    starts.append(
        r"<[\w:]+\s[^<>]*?\b(?:about|ID|IRI|abbreviatedIRI|name|BrowseName)\s*=\s*"
        rf"""["'](?:[^"'<>]*[#/;:])?{names}["']"""
    )
    match = re.search(rf"^[ \t]*(?:{'|'.join(starts)})", document.text, re.MULTILINE)
    return (
        find(document, iri, space, local).line
        if match is None
        else document.text.count("\n", 0, match.start()) + 1
    )
