"""What `fedkg ontology list` and `show` tell about each ontology."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.ontology.catalog import Catalog, load_catalog
from fedkg_compiler.ontology.load import load_graph
from fedkg_compiler.ontology.terms import TermKind
from fedkg_compiler.ontology.vocabulary import closest


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
        in_use: ``module`` (ours), or ``added`` (the user's file in its place, or under a new name).
        file: the file in use. additions: our files loaded with it. added_from: where the user took the file from, "" for ours.
        official_*: of the original; "" where there is none or the catalogue does not know.
        terms: filled by `show_entry` alone.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    iri: str
    version: str
    prefixes: dict[str, str]
    in_use: str
    file: str
    additions: tuple[str, ...] = ()
    added_from: str = ""
    always: bool = False
    official_source: str = ""
    official_sha256: str = ""
    official_licence: str = ""
    terms: tuple[TermInfo, ...] = ()


def list_entries(*, home: Path | None = None) -> list[EntryInfo]:
    """Return every ontology that `use` accepts, sorted by name."""
    catalog = load_catalog(home=home)
    return [_entry(catalog, name) for name in catalog.names()]


def show_entry(name: str, *, home: Path | None = None) -> tuple[EntryInfo, tuple[Diagnostic, ...]]:
    """Return one ontology with its terms, and what is wrong with its files.

    Raises:
        UsageError: there is no ontology of this name.
    """
    catalog = load_catalog(home=home)
    if name not in catalog.names():
        meant = closest(name, catalog.names())
        raise UsageError(
            f"there is no ontology {name!r}", expected=", ".join(catalog.names()), help=f"did you mean `{meant}`?" if meant else ""
        )
    here = Span(file=name, line=1, column=1, end_line=1, end_column=1)
    graph, problems, _ = load_graph([(name, here)], {}, [], catalog=catalog)
    terms = tuple(
        TermInfo(name=term.short, iri=term.iri, kind=term.kind, label=term.label, comment=term.comment)
        for term in graph.terms()
        if term.ontology == name
    )
    return _entry(catalog, name).model_copy(update={"terms": terms}), problems


def _entry(catalog: Catalog, name: str) -> EntryInfo:
    entry, added = catalog.entries.get(name), catalog.added.get(name)
    official = entry.official if entry is not None else None
    if added is not None:
        file = str(catalog.shelf / added.file)
    else:
        assert entry is not None
        file = str(catalog.folder / entry.module)
    return EntryInfo(
        name=name,
        title=entry.title if entry is not None else (added.title if added is not None else ""),
        iri=entry.iri if entry is not None else (added.iri if added is not None else ""),
        version=entry.version if entry is not None and added is None else "",
        prefixes=catalog.prefixes_of(name),
        in_use="module" if added is None else "added",
        file=file,
        additions=entry.additions if entry is not None else (),
        added_from=added.source if added is not None else "",
        always=entry.always if entry is not None else False,
        official_source=official.source if official is not None else "",
        official_sha256=official.sha256 if official is not None else "",
        official_licence=official.licence if official is not None else "",
    )
