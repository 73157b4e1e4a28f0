"""The catalogue of ontologies: `ontologies/catalog.toml` as checked data, with what the user has
added to it; then the files behind an ontology's name: the user's in place of our module, and our
additions to either.

The records are plain dataclasses: importing pydantic takes longer than to validate a small graph.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedkg.errors import FedkgError
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.graph.span_construction import point, report
from fedkg_compiler.graph.standard_vocabularies import FEDKG
from fedkg_compiler.input_tracking import note, read_bytes
from fedkg_compiler.resources import data_folder

ADDED_FILE = "added.json"
"""The list of the files that the user added, in their folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Official:
    """The source of an original ontology.

    Attributes:
        source: the address of the file.
        sha256: the checksum of the file, "" if the publisher changes the file in place.
        licence: the licence as the publisher states it.
    """

    source: str
    sha256: str = ""
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One ontology that rule files can `use`.

    Attributes:
        name: the word after `use`.
        title: the title of the original.
        iri: the IRI by which the ontology names itself.
        version: the version of the original.
        prefix: the prefix that `use` brings.
        namespace: the namespace of that prefix.
        prefixes: further prefixes that `use` brings, with their namespaces.
        official: the source of the original; None if there is only our module.
        module: our file that replaces the original.
        parts: further files of ours that belong to `module`.
        additions: our files that are loaded with our module and with a file that the user added.
        always: loaded for every rule file, whether it says `use` or not.
        partial: our module has only a part of the original's terms, so a name that it lacks may be
            correct.
    """

    name: str
    title: str
    iri: str
    version: str = ""
    prefix: str
    namespace: str
    prefixes: Mapping[str, str] = field(default_factory=dict)
    official: Official | None = None
    module: str
    parts: tuple[str, ...] = ()
    additions: tuple[str, ...] = ()
    always: bool = False
    partial: bool = False

    def all_prefixes(self) -> dict[str, str]:
        """Return every prefix that `use` of this entry brings."""
        return {self.prefix: self.namespace, **self.prefixes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """A file of mappings, loaded when all of `between` are."""

    between: tuple[str, str]
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A file that the user put in place of our module, or under a new name.

    Attributes:
        name: the word after `use`.
        file: the name of the file inside the folder of the user's files.
        sha256: the checksum of the file when it was added.
        source: where the user took the file from, as given.
        prefix: the prefix of its terms, read from the file or taken from the catalogue.
        namespace: the namespace of its terms, read from the file or taken from the catalogue.
        iri: the IRI of the ontology, read from the file or taken from the catalogue; "" if there is
            none.
        title: the title, read from the file or taken from the catalogue; "" if there is none.
    """

    name: str
    file: str
    sha256: str
    source: str
    prefix: str
    namespace: str
    iri: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every ontology known by name: ours and their replacements.

    Attributes:
        folder: the folder of the module, addition and alignment files.
        shelf: the folder of the files that the user added.
        entries: the ontologies that ship with fedkg, by name.
        alignments: the alignment files that ship with fedkg.
        added: the files that the user added, by name.
    """

    folder: Path
    shelf: Path
    entries: dict[str, Entry]
    alignments: tuple[Alignment, ...]
    added: dict[str, Added]

    def names(self) -> tuple[str, ...]:
        """Return every name that `use` accepts, sorted."""
        return tuple(sorted({*self.entries, *self.added}))

    def prefixes_of(self, name: str) -> dict[str, str]:
        """Return the prefixes that `use name` brings; `name` must be one of `names()`."""
        if name in self.entries:
            return self.entries[name].all_prefixes()
        extra = self.added[name]
        return {extra.prefix: extra.namespace}

    def all_prefixes(self) -> dict[str, str]:
        """Return the prefixes of every ontology, loaded or not.

        The catalogue's win over the user's.
        """
        found: dict[str, str] = {}
        for name in (*sorted(self.entries), *sorted(set(self.added) - set(self.entries))):
            for prefix, namespace in self.prefixes_of(name).items():
                found.setdefault(prefix, namespace)
        return found

    def name_of_iri(self, iri: str) -> str | None:
        """Return the name of the ontology that calls itself `iri`, with or without a last ``#`` or
        ``/``; or of which `iri` is a module, as in ``https://w3id.org/fedkg/isa95/work``.
        """
        bare = iri.rstrip("#/")
        for name, entry in sorted(self.entries.items()):
            if bare in (entry.iri.rstrip("#/"), entry.namespace.rstrip("#/")):
                return name
            if f"{bare}/".startswith(f"{FEDKG}{name}/"):
                return name
        for name, extra in sorted(self.added.items()):
            if extra.iri and bare == extra.iri.rstrip("#/"):
                return name
        return None


def _added(record: Mapping[str, Any]) -> Added:
    """The record of an added file. Raises TypeError and ValueError."""
    if wrong := [name for name, value in record.items() if not isinstance(value, str)]:
        raise ValueError(f"{wrong[0]} is not a text")
    return Added(**record)


def _entry(record: Mapping[str, Any]) -> Entry:
    """One `[[ontology]]` of the catalogue. Raises TypeError and ValueError."""
    official = record.get("official")
    lists = {name: tuple(record[name]) for name in ("parts", "additions") if name in record}
    entry = Entry(
        **{**record, **lists, "official": None if official is None else Official(**official)}
    )
    if not re.fullmatch(r"[A-Za-z_]\w*", entry.name):
        raise ValueError(f"`{entry.name}` is not a name")
    if official is not None and not re.fullmatch("([0-9a-f]{64})?", official.get("sha256", "")):
        raise ValueError(f"the checksum of {entry.name} is not a SHA-256")
    return entry


def shelf_folder(home: Path | None = None) -> Path:
    """Return the folder of added ontologies: below `home`, else `$FEDKG_HOME`, else
    `~/.local/share/fedkg`.
    """
    if home is None:
        named = os.environ.get("FEDKG_HOME", "")
        home = Path(named) if named else Path.home() / ".local" / "share" / "fedkg"
    return home / "ontologies"


def read_shelf(shelf: Path) -> list[Added]:
    """Return the ontologies that the user has added, sorted by name; [] without a local catalogue.

    Raises:
        FedkgError: where its list is damaged.
    """
    source = shelf / ADDED_FILE
    try:
        listed = [_added(record) for record in json.loads(read_bytes(source))]
        return sorted(listed, key=lambda item: item.name)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        message = f"the list of added ontologies {source} cannot be read"
        raise FedkgError(
            message, received=str(error), help="remove the file and add the ontologies again"
        ) from error


def load_catalog(folder: Path | None = None, *, home: Path | None = None) -> Catalog:
    """Return the catalogue that ships with fedkg, with the user's additions.

    Args:
        folder: a folder with a `catalog.toml`; default: the one that ships.
        home: the user's folder; default: `$FEDKG_HOME`, else `~/.local/share/fedkg`.

    Raises:
        FedkgError: where the catalogue or the list of additions is not readable.
    """
    place = data_folder("ontologies") if folder is None else folder
    source = place / "catalog.toml"
    try:
        listed = tomllib.loads(read_bytes(source).decode())
        entries = [_entry(record) for record in listed["ontology"]]
        alignments = tuple(
            Alignment(between=tuple(record["between"]), file=record["file"])
            for record in listed.get("alignment", ())
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FedkgError(
            f"the catalogue of ontologies {source} cannot be read",
            received=str(error),
            help="install fedkg again",
        ) from error
    shelf = shelf_folder(home)
    return Catalog(
        folder=place,
        shelf=shelf,
        entries={entry.name: entry for entry in entries},
        alignments=alignments,
        added={extra.name: extra for extra in read_shelf(shelf)},
    )


Opened = tuple[Document | None, tuple[Diagnostic, ...]]
"""The document of a file (None if unreadable) and its diagnostics."""


def documents_of(catalog: Catalog, name: str) -> tuple[list[Opened], bool]:
    """Return the contents of the files of an ontology, and whether the user's file replaces our
    module.

    Args:
        name: one of `catalog.names()`.
    """
    entry, added = catalog.entries.get(name), catalog.added.get(name)
    opened = [] if added is None else [_added_file(catalog, added)]
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


def _added_file(catalog: Catalog, added: Added) -> Opened:
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
