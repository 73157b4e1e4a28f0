"""The files behind an ontology's name: the user's in place of our module, and our additions to
either.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.catalog import Added, Catalog
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.graph.spans import point, report
from fedkg_compiler.input_tracking import note

Opened = tuple[Document | None, tuple[Diagnostic, ...]]
"""The document of a file (None if unreadable) and its diagnostics."""


def documents_of(catalog: Catalog, name: str) -> tuple[list[Opened], bool]:
    """Return the contents of the files of an ontology, and whether the user's file replaces our
    module.

    Args:
        name: one of `catalog.names()`.
    """
    entry, added = catalog.entries.get(name), catalog.added.get(name)
    opened = [] if added is None else [_added(catalog, added)]
    replaced = any(document is not None for document, _ in opened)
    if entry is not None:
        ours = (*(() if replaced else (entry.module, *entry.parts)), *entry.additions)
        opened += [our_file(catalog.folder / file) for file in ours]
    return opened, replaced


def our_file(path: Path) -> Opened:
    """Return what a module of ours says; read once as long as it does not change."""
    state = path.stat()
    document, problems = _read_ours(path, (state.st_mtime_ns, state.st_size))
    if document is not None:
        note(path, document.sha256)
    return document, problems


@lru_cache(maxsize=128)
def _read_ours(path: Path, stamp: tuple[int, int]) -> Opened:
    return read_file(path, shown=path.name)


def _added(catalog: Catalog, added: Added) -> Opened:
    """The document of a file in the local catalogue, if the file is unchanged."""
    path = catalog.shelf / added.file
    document, problems = read_file(path)
    if document is not None and document.sha256 != added.sha256:
        message = (
            f"{path} is no longer the file that was added as {added.name}: its "
            f"SHA-256 is {document.sha256}, and was {added.sha256}"
        )
        advice = f"add it again with `fedkg ontology add {added.name} {added.source}`"
        return None, (report("FKG106", point(str(path)), message, help=advice),)
    return document, problems
