"""The output of `fedkg ontology list` and `show` for each ontology."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.load import load_graph
from fedkg_compiler.graph.ontologies import Catalog, closest_name, load_catalog
from fedkg_compiler.graph.rdf_terms import TermKind


class TermInfo(BaseModel):
    """A class, property or individual of an ontology, as `show` prints it."""

    model_config = ConfigDict(frozen=True)

    name: str
    iri: str
    kind: TermKind
    label: str
    comment: str


class EntryInfo(BaseModel):
    """One ontology: what it is, which file is in use, where the official one comes from.

    Attributes:
        prefix: the prefix of its terms.
        namespace: the namespace of its terms.
        prefixes: all prefixes that `use` brings, with their namespaces.
        official_source: the address of the original; "" if there is no original or the catalogue
            does not know it.
        official_sha256: the checksum of the original; "" if the catalogue has none.
        licence: the licence of the original; "" if the catalogue has none.
        loaded_from: text that says where the file in use comes from.
        in_use: ``module`` (our module), or ``added`` (a file that the user added in place of our
            module or under a new name).
        file: the path of the file in use.
        additions: our files that are loaded with it.
        terms: the terms; only `show_entry` fills them.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    version: str
    iri: str
    prefix: str
    namespace: str
    prefixes: dict[str, str]
    official_source: str = ""
    official_sha256: str = ""
    licence: str = ""
    loaded_from: str
    in_use: str
    file: str
    additions: tuple[str, ...] = ()
    always: bool = False
    terms: tuple[TermInfo, ...] = ()


def list_entries(*, home: Path | None = None) -> list[EntryInfo]:
    """Return every ontology that `use` accepts, sorted by name."""
    catalog = load_catalog(home=home)
    return [_entry(catalog, name) for name in catalog.names()]


def show_entry(name: str, *, home: Path | None = None) -> tuple[EntryInfo, tuple[Diagnostic, ...]]:
    """Return one ontology with its terms, and what is wrong with its files.

    Raises:
        UsageError: no ontology has this name.
    """
    catalog = load_catalog(home=home)
    if name not in catalog.names():
        meant = closest_name(name, catalog.names())
        raise UsageError(
            f"no ontology is named {name!r}",
            expected=", ".join(catalog.names()),
            help=f"did you mean `{meant}`?"
            if meant
            else "`fedkg ontology list` lists the ontologies",
        )
    here = Span(file=name, line=1, column=1, end_line=1, end_column=1)
    graph, problems, _ = load_graph([(name, here)], {}, [], catalog=catalog)
    terms = tuple(
        TermInfo(
            name=term.short, iri=term.iri, kind=term.kind, label=term.label, comment=term.comment
        )
        for term in graph.terms()
        if term.ontology == name
    )
    return _entry(catalog, name).model_copy(update={"terms": terms}), problems


def _entry(catalog: Catalog, name: str) -> EntryInfo:
    entry, added = catalog.entries.get(name), catalog.added.get(name)
    known = entry if entry is not None else added
    assert known is not None, "the catalogue names those alone that it has"
    official = entry.official if entry is not None else None
    ours = "the module that ships with fedkg"
    return EntryInfo(
        name=name,
        title=known.title,
        version=entry.version if entry is not None and added is None else "",
        iri=known.iri,
        prefix=known.prefix,
        namespace=known.namespace,
        prefixes=catalog.prefixes_of(name),
        official_source=official.source if official is not None else "",
        official_sha256=official.sha256 if official is not None else "",
        licence=official.licence if official is not None else "",
        loaded_from=ours if added is None else f"{added.source} (sha256 {added.sha256[:12]})",
        in_use="module" if added is None else "added",
        file=str(catalog.shelf / added.file)
        if added is not None
        else str(catalog.folder / entry.module)
        if entry is not None
        else "",
        additions=entry.additions if entry is not None else (),
        always=entry.always if entry is not None else False,
    )
