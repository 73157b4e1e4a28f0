"""Ontologies and the names that they define.

The catalogue is `ontologies/catalog.toml` as checked data, with what the user has added to it, and
the files behind an ontology's name: the user's in place of our module, and our additions to either.
The records are plain dataclasses: importing pydantic takes longer than to validate a small graph.

`follow_imports` follows `owl:imports` to bundled ontologies and to files beside the importing file.
fedkg never fetches an import from the network. It reports every problem at the triple of the
import.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import FedkgError
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.abbreviated_qudt_units import units_meant
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.rdf_reader import Document, imports_in_folder, read_file
from fedkg_compiler.graph.rdf_terms import KnownTerm, TermKind, is_iri, local_name, split_iri
from fedkg_compiler.graph.standard_vocabularies import (
    FEDKG,
    OWL,
    RDF,
    RDFS,
    SKOS,
    SOSA,
    STANDARD_TERMS,
    UNIT,
)
from fedkg_compiler.input_files import ABSENT, data_folder, note, read_bytes

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
        records = json.loads(read_bytes(source))
        if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
            raise ValueError("the file is not a list of objects")
        listed = [_added(record) for record in records]
        return sorted(listed, key=lambda item: item.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FedkgError(
            f"the list of added ontologies {source} cannot be read",
            received=error.strerror or str(error),
            help="make the file readable, or set FEDKG_HOME to another folder",
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        wrong = "an entry lacks a field, or has an unknown one"
        raise FedkgError(
            f"the list of added ontologies {source} cannot be read",
            received=wrong if isinstance(error, TypeError) else str(error),
            help="remove the file and add the ontologies again: fedkg ontology add NAME FILE",
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


# The names a rule file may use: prefixes, what each namespace has, and what was probably meant by
# a name that nothing has; and the names that documents define. Finds names in a user's graph that
# the ontology they belong to lacks, and names that are declared as two kinds of thing or defined
# differently.


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Prefixes and terms, gathered while the graph was loaded.

    Attributes:
        prefixes: prefix to namespace, as rule files see them.
        closed: the namespaces of loaded ontologies, each with the name of its ontology; a name in
            such a namespace that the ontology lacks is an error.
        terms: namespace to the local names that ontologies and graphs define in it.
        unused: prefixes of catalogue ontologies that are not loaded, each with the word for `use`.
        declared: prefixes that graph files declare for themselves: prefix to (namespace, file).
        partial: closed namespaces that our module contains only in part.
        graphs: the IRIs of named graphs.
        store: the triples, to look up names that are mentioned but not defined.
        told: the triples with the names that messages may show; None: all. For a private pack it
            holds only the triples that the pack is made from, so that messages reveal no name of
            another client.
    """

    prefixes: Mapping[str, str]
    closed: Mapping[str, str]
    terms: Mapping[str, frozenset[str]]
    unused: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    partial: frozenset[str] = frozenset()
    graphs: frozenset[str] = frozenset()
    store: ox.Store = field(default_factory=ox.Store)
    told: ox.Store | None = None
    _local_names: dict[str, frozenset[str]] = field(default_factory=dict)

    def shorten(self, iri: str) -> str:
        """Return the prefixed name of an IRI, or ``<IRI>`` where no prefix fits."""
        best = max(
            (item for item in self.prefixes.items() if iri.startswith(item[1])),
            key=lambda item: (len(item[1]), item[0]),
            default=None,
        )
        if best is None or any(mark in iri[len(best[1]) :] for mark in "/#:"):
            return f"<{iri}>"
        return f"{best[0]}:{iri[len(best[1]) :]}"

    def expand(self, name: str, span: Span) -> tuple[str | None, tuple[Diagnostic, ...]]:
        """Return the IRI of a prefixed name, or the diagnostic for a prefix that is not known."""
        prefix, _, local = name.partition(":")
        if prefix in self.prefixes:
            return self.prefixes[prefix] + _unescaped(local), ()
        return None, (self._unknown_prefix(prefix, span),)

    def check(self, iri: str, shown: str, span: Span) -> tuple[Diagnostic, ...]:
        """Return what is wrong with a term, in the words of `shown`: nothing, an error in a known
        ontology, a warning elsewhere.
        """
        space = self._closed_space(iri)
        if space is not None:
            name, local = self.closed[space], iri[len(space) :]
            known = self.terms.get(space, frozenset()) | STANDARD_TERMS.get(space, frozenset())
            if not local or local in known:
                return ()
            meant = nearest_term(space, local, self.closed, self.terms)
            advice = (
                f"did you mean `{self._like(shown, meant)}`?"
                if meant
                else f"`fedkg ontology show {name}` lists what it has"
            )
            if space in self.partial and not meant:
                advice = (
                    f"the module that ships has a part of {name}; `fedkg ontology add "
                    f"{name} FILE` loads all of it"
                )
            return (report("FKG111", span, f"{name} has no term `{local}`", help=advice),)
        if self.mentioned(iri):
            return ()
        split = _namespace_of(iri, self.prefixes.values())
        others = self.local_names(split) if split else frozenset()
        if not others:
            return ()
        meant = closest_name(iri[len(split) :], others)
        advice = (
            f"did you mean `{self._like(shown, split + meant)}`?"
            if meant
            else "check the spelling against the graph"
        )
        return (
            report(
                "FKG112", span, f"the graph does not use `{shown}`", help=advice, severity="warning"
            ),
        )

    def mentioned(self, iri: str) -> bool:
        """Tell whether any triple has this IRI, or a graph."""
        return iri in self.graphs or _mentions(self.store, iri)

    def local_names(self, namespace: str) -> frozenset[str]:
        """Return the local names of a namespace's IRIs in the graph, those of named graphs among
        them, that messages may show.

        Scans every triple the first time, so for messages only.
        """
        if namespace not in self._local_names:
            self._local_names[namespace] = self._find_local_names(namespace)
        return self._local_names[namespace]

    def forget_local_names(self) -> None:
        """Scan the triples again: there are more."""
        self._local_names.clear()

    def _find_local_names(self, namespace: str) -> frozenset[str]:
        store = self.store if self.told is None else self.told
        iris = (
            node.value
            for quad in store
            for node in (quad.subject, quad.predicate, quad.object)
            if isinstance(node, ox.NamedNode)
        )
        return frozenset(
            iri[len(namespace) :] for iri in (*self.graphs, *iris) if iri.startswith(namespace)
        )

    def by_local_name(self, name: str) -> list[str]:
        """Return the IRIs of known terms with this local name, sorted."""
        return sorted(space + name for space, names in self.terms.items() if name in names)

    def all_local_names(self) -> frozenset[str]:
        """Return the local names of all terms that `by_local_name` finds and that messages may
        show.
        """
        told = self.told
        return frozenset(
            name
            for space, names in self.terms.items()
            for name in names
            if told is None or _mentions(told, space + name)
        )

    def _closed_space(self, iri: str) -> str | None:
        return max((space for space in self.closed if iri.startswith(space)), key=len, default=None)

    def _like(self, shown: str, iri: str) -> str:
        return self.shorten(iri) if not shown.startswith("<") else f"<{iri}>"

    def _unknown_prefix(self, prefix: str, span: Span) -> Diagnostic:
        message = f"the prefix `{prefix}:` is not known"
        if prefix in self.unused:
            return report("FKG110", span, message, help=f"add `use {self.unused[prefix]}`")
        if prefix in self.declared:
            namespace, file = self.declared[prefix]
            return report(
                "FKG110",
                span,
                message,
                help=f"{file} declares this prefix: add `prefix {prefix}: <{namespace}>`",
            )
        meant = closest_name(prefix, (*self.prefixes, *self.unused))
        if meant is not None and meant in self.unused:
            return report(
                "FKG110",
                span,
                message,
                help=f"did you mean `{meant}:`? then add `use {self.unused[meant]}`",
            )
        advice = (
            f"did you mean `{meant}:`?"
            if meant
            else f"declare it: `prefix {prefix}: <https://...#>`"
        )
        return report("FKG110", span, message, help=advice)


def _mentions(store: ox.Store, iri: str) -> bool:
    if not is_iri(iri):
        return False
    node = ox.NamedNode(iri)
    patterns = ((node, None, None), (None, node, None), (None, None, node))
    return any(
        next(iter(store.quads_for_pattern(*pattern)), None) is not None for pattern in patterns
    )


def nearest_term(
    space: str, local: str, closed: Mapping[str, str], terms: Mapping[str, Iterable[str]]
) -> str | None:
    """Return the IRI that was probably meant by a name that its namespace lacks, or None.

    The terms of an ontology can be in several namespaces: the same name in another of them comes
    first, then the nearest spelling in any of them.

    Args:
        space, local: the namespace and the name. closed, terms: as in `Vocabulary`.
    """
    owner = closed.get(space)
    others = sorted(other for other, name in closed.items() if name == owner and other != space)
    spaces: dict[str, str] = {}
    for other in (space, *others):
        for name in {*terms.get(other, ()), *STANDARD_TERMS.get(other, ())}:
            spaces.setdefault(name, other)
    meant = local if local in spaces else closest_name(local, spaces)
    return None if meant is None else spaces[meant] + meant


def closest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that was probably meant: the same but for case, ``_``, ``-`` or a
    plural; else the nearest in spelling.
    """
    pool = sorted(set(candidates) - {name})
    flat: dict[str, str] = {}
    for candidate in pool:
        flat.setdefault(_flat(candidate), candidate)
    wanted = _flat(name)
    for fold in (wanted, wanted.removesuffix("s"), wanted.removesuffix("es"), wanted + "s"):
        if fold in flat:
            return flat[fold]
    return nearest_name(name, pool)


def _flat(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _namespace_of(iri: str, known: Iterable[str]) -> str:
    best = max((space for space in known if iri.startswith(space)), key=len, default="")
    return best or iri[: len(iri) - len(local_name(iri))]


def _unescaped(local: str) -> str:
    r"""Return a local name without the backslashes that SPARQL and Turtle allow in it: ``a\.b`` is
    ``a.b``.
    """
    return local.replace("\\", "")


_CLASS_TYPES = frozenset({OWL + "Class", RDFS + "Class", RDFS + "Datatype"})
_PROPERTY_TYPES = frozenset(
    {RDF + "Property"}
    | {
        OWL + name + "Property"
        for name in (
            "Object",
            "Datatype",
            "Annotation",
            "Functional",
            "InverseFunctional",
            "Transitive",
            "Symmetric",
        )
    }
)
_KINDS = {
    OWL + "Class": "class",
    RDFS + "Datatype": "datatype",
    OWL + "ObjectProperty": "object property",
    OWL + "DatatypeProperty": "data property",
    OWL + "AnnotationProperty": "annotation property",
}
_LABEL = (RDFS + "label", SKOS + "prefLabel")
_COMMENT = (RDFS + "comment", SKOS + "definition")
_TELLING = frozenset(
    ox.NamedNode(iri) for iri in (*_LABEL, *_COMMENT, RDFS + "subClassOf", RDF + "type")
)
_TYPE = ox.NamedNode(RDF + "type")
_TYPES = frozenset(
    ox.NamedNode(iri)
    for iri in _CLASS_TYPES
    | _PROPERTY_TYPES
    | {*_KINDS, SOSA + "ObservableProperty", OWL + "Ontology"}
)
_MOST_REPORTED = 20


@dataclass(slots=True)
class Definition:
    """The definition of one name in one document while it is collected.

    Attributes:
        kinds: the elements of `_KINDS` that it is declared to be.
    """

    ontology: str
    kind: TermKind = "individual"
    labels: set[tuple[str, str]] = field(default_factory=set)
    comments: set[tuple[str, str]] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)


def definitions(document: Document, ontology: str, *, individuals: bool) -> dict[str, Definition]:
    """Return the names that a document defines: its classes and properties, and with `individuals`
    every other named subject.

    An observed property (`sosa:ObservableProperty`) and a property that is used count as properties
    where individuals do not count.
    """
    found: dict[str, Definition] = defaultdict(lambda: Definition(ontology))
    observed: set[str] = set()
    beside: set[str] = set()
    predicates: set[ox.NamedNode] = set()
    for quad in document.triples:
        node = quad.predicate  # each look into a quad makes an object
        predicates.add(node)
        if (
            node not in _TELLING
            or (node == _TYPE and quad.object not in _TYPES)
            or not isinstance(subject := quad.subject, ox.NamedNode)
        ):
            continue  # most things of a plant are instances of the plant's classes
        predicate, entry, told = node.value, found[subject.value], quad.object
        if isinstance(told, ox.Literal):
            if predicate in _LABEL:
                entry.labels.add((told.language or "", told.value))
            elif predicate in _COMMENT:
                entry.comments.add((told.language or "", told.value))
        elif predicate == RDFS + "subClassOf":
            entry.kind = "class"
        elif predicate == RDF + "type" and isinstance(told, ox.NamedNode):
            kind = told.value
            if kind in _KINDS:
                entry.kinds.add(_KINDS[kind])
            if kind in _CLASS_TYPES:
                entry.kind = "class"
            elif kind in _PROPERTY_TYPES and entry.kind != "class":
                entry.kind = "property"
            elif kind == SOSA + "ObservableProperty":
                observed.add(subject.value)
            elif kind == OWL + "Ontology":
                beside.add(subject.value)
    if individuals:
        subjects = {quad.subject for quad in document.triples}
        named = {node.value for node in subjects if isinstance(node, ox.NamedNode)} - beside
        return {iri: found[iri] for iri in named if split_iri(iri)[1]}
    kept = {
        iri: entry for iri, entry in found.items() if entry.kind != "individual" or iri in observed
    }
    for iri in {node.value for node in predicates} - set(kept):
        if iri.startswith(tuple(STANDARD_TERMS)):
            continue
        kept[iri] = found[iri]
        kept[iri].kind = "property"
    return kept


def _best_text(texts: set[tuple[str, str]]) -> str:
    """Return the text in English, else without a language, else in the first language; "" where
    there is none.
    """
    return min(
        texts,
        key=lambda item: (0 if item[0].startswith("en") else 1 if not item[0] else 2, *item),
        default=("", ""),
    )[1]


def known_terms(found: Mapping[str, Definition], vocabulary: Vocabulary) -> tuple[KnownTerm, ...]:
    """The defined names with their descriptions, sorted by IRI."""
    return tuple(
        KnownTerm(
            iri=iri,
            short=vocabulary.shorten(iri),
            kind=entry.kind,
            label=_best_text(entry.labels),
            comment=_best_text(entry.comments),
            ontology=entry.ontology,
        )
        for iri, entry in sorted(found.items())
    )


def strangers(
    document: Document,
    closed: Mapping[str, str],
    known: Mapping[str, frozenset[str]],
    partial: frozenset[str],
) -> tuple[Diagnostic, ...]:
    """Return a warning for each property or object of a user's graph in a known ontology's
    namespace that the ontology lacks.

    Where our module has only a part of the ontology (`partial`), a name is doubtful only if it is
    nearly one of those.
    """
    spaces = sorted({*closed, *STANDARD_TERMS}, key=len, reverse=True)
    known_spaces = tuple(spaces)
    nodes = dict.fromkeys(
        node
        for quad in document.triples
        for node in (quad.predicate, quad.object)
        if isinstance(node, ox.NamedNode)
    )
    awaited = document.nodes.awaited if document.nodes is not None else {}
    used = [
        node for node in nodes if node.value.startswith(known_spaces) and node.value not in awaited
    ]
    defined = {quad.subject for quad in document.triples}.intersection(used)
    problems: list[Diagnostic] = []
    for iri in (node.value for node in used if node not in defined):
        space = next(space for space in spaces if iri.startswith(space))
        local = iri[len(space) :]
        names = known.get(space, frozenset()) | STANDARD_TERMS.get(space, frozenset())
        if (
            not local
            or local in names
            or (space.endswith("rdf-syntax-ns#") and re.fullmatch(r"_\d+", local))
        ):
            continue
        units = units_meant(local, names) if space == UNIT else ()
        nearest = nearest_term(space, local, closed, known)
        meant = [space + unit for unit in units] or ([nearest] if nearest else [])
        if not meant and space in partial:
            continue
        shown = _shown(document, iri)
        advice = (
            f"did you mean {' or '.join(f'`{_shown(document, one)}`' for one in meant)}?"
            if meant
            else ""
        )
        name = closed.get(space, space)
        problems.append(
            report(
                "FKG115",
                find(document, iri, space, local),
                f"{name} has no term `{shown}`",
                help=advice,
                severity="warning",
            )
        )
    return tuple(problems[:_MOST_REPORTED])


def _shown(document: Document, iri: str) -> str:
    """The IRI with the document's prefix for the longest namespace that it starts with."""
    fitting = sorted(
        (-len(space), prefix)
        for prefix, space in document.prefixes.items()
        if space and iri.startswith(space)
    )
    return f"{fitting[0][1]}:{iri[-fitting[0][0] :]}" if fitting else f"<{iri}>"


def find(document: Document, iri: str, space: str, local: str) -> Span:
    """Return where a document first writes an IRI, in full or with a prefix.

    Its beginning where that is not found.

    In an OPC UA node set it is the node of the IRI.
    """
    if document.nodes is not None and iri in document.nodes.places:
        return point(document.name, *document.nodes.places[iri])
    spellings = [
        re.escape(f"{prefix}:{local}")
        for prefix, namespace in document.prefixes.items()
        if namespace == space
    ]
    pattern = "|".join(
        [
            *(rf"(?<![\w:.-]){text}(?![\w-])" for text in sorted(spellings)),
            re.escape(iri) + r"(?![\w-])",
        ]
    )
    match = re.search(pattern, document.text)
    if match is None:
        return point(document.name)
    line = document.text.count("\n", 0, match.start()) + 1
    column = match.start() - document.text.rfind("\n", 0, match.start())
    return point(document.name, line, column, width=match.end() - match.start())


def by_namespace(iris: Sequence[str], closed: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return namespace to local names; the namespaces of `closed` first, the longest that fits."""
    spaces = sorted(closed, key=len, reverse=True)
    found: dict[str, set[str]] = defaultdict(set)
    for iri in iris:
        space = next((space for space in spaces if iri.startswith(space)), None)
        name = iri[len(space) :] if space is not None else ""
        if space is None or not name:
            space, name = split_iri(iri)
        if name:
            found[space].add(name)
    return {space: frozenset(names) for space, names in found.items()}


_CONFLICTS = (
    ("class", "object property", "class"),
    ("class", "data property", "class"),
    ("class", "annotation property", "class"),
    ("class", "datatype", "class"),
    ("object property", "data property", "property"),
)
"""Two kinds that no name can have, and what it is taken as. A class or a property that is an
individual too is allowed by OWL 2."""


def two_kinds(
    found: Mapping[str, Definition], documents: Sequence[Document]
) -> tuple[Diagnostic, ...]:
    """Return a warning for each name with two kinds that exclude each other, at the first place in
    `documents` that has it.
    """
    clashes: dict[str, tuple[str, str, str]] = {}
    for iri, entry in sorted(found.items()):
        if len(entry.kinds) < 2 or iri.startswith(tuple(STANDARD_TERMS)):
            continue
        clash = next((clash for clash in _CONFLICTS if {*clash[:2]} <= entry.kinds), None)
        if clash is not None and len(clashes) < _MOST_REPORTED:
            clashes[iri] = clash
    places = _first_places(clashes, documents)
    problems: list[Diagnostic] = []
    for iri, (one, other, taken) in clashes.items():
        article = "an" if other[0] in "ao" else "a"
        problems.append(
            report(
                "FKG120",
                places[iri],
                f"<{iri}> is declared to be {'an' if one[0] in 'ao' else 'a'} {one} and "
                f"{article} {other}",
                help=f"fedkg uses it as a {taken}; give one of the two another name",
                severity="warning",
            )
        )
    return tuple(problems)


def _first_places(iris: Iterable[str], documents: Sequence[Document]) -> dict[str, Span]:
    """The span at which the first document that states a kind for each name writes it."""
    waiting = {ox.NamedNode(iri) for iri in iris}
    places: dict[str, Span] = {}
    for document in documents:
        if not waiting:
            break
        said = {
            quad.subject
            for quad in document.triples
            if quad.predicate == _TYPE and quad.subject in waiting
        }
        for node in said:
            assert isinstance(node, ox.NamedNode)
            places[node.value] = find(document, node.value, *split_iri(node.value))
        waiting -= said
    return places


def told_twice(iri: str, old: Definition, new: Definition, document: Document) -> Diagnostic | None:
    """Return a warning where two files call one class or property by different labels in one
    language; None if they agree.
    """
    for language, text in sorted(new.labels):
        others = {label for known, label in old.labels if known == language}
        if others and text not in others:
            return report(
                "FKG119",
                find(document, iri, *split_iri(iri)),
                f'<{iri}> is "{text}" here, and "{min(others)}" in {Path(old.ontology).name}; both'
                " are taken",
                help="if these are two versions of one ontology, remove one",
                severity="warning",
            )
    return None


LOCAL = "file:///"
"""The base of relative IRIs: `<parts.ttl>` in a file is read as `<file:///parts.ttl>`."""
MOST_IMPORTS = 100
"""Imports that are reported at most."""
_ONTOLOGY = ox.NamedNode(OWL + "Ontology")


def import_span(document: Document, iri: str) -> Span:
    """Return the span of the object of the triple by which a document imports `iri`."""
    space, local = split_iri(iri)
    spellings = [re.escape(iri)]
    if iri.startswith(LOCAL):
        # `..` and `.` vanish when an IRI is resolved.
        before = r"(?<=[<\"'])(?:[^<>\"':\s]*\.\./|\./|/)?"
        spellings.append(rf"{before}{re.escape(iri.removeprefix(LOCAL))}(?=[>\"'])")
    spellings += [
        re.escape(f"{prefix}:{local}")
        for prefix, namespace in document.prefixes.items()
        if namespace == space
    ]
    # A statement or list of objects has no `;` before the object: `owl:imports <a>, <b> ;`.
    pattern = rf"[:#]imports\b[^;]*?({'|'.join(f'(?:{text})' for text in spellings)})(?![\w-])"
    start = max(document.text.find("imports") - 1, 0)  # before, the search would find nothing
    found = re.compile(pattern).search(document.text, start)
    if found is None:
        return find(document, iri, iri, "")
    line = document.text.count("\n", 0, found.start(1)) + 1
    column = found.start(1) - document.text.rfind("\n", 0, found.start(1))
    return point(document.name, line, column, width=found.end(1) - found.start(1))


def imported_files(document: Document) -> dict[str, Path]:
    """Return the files that relative imports name, beside the importing file or below its folder,
    by the IRIs of the imports.

    No other: a file of somebody else cannot read further files of this machine.
    """
    importer = Path(document.name)
    if not any(iri.startswith(LOCAL) for iri in document.imports) or not importer.is_file():
        return {}
    folder = importer.resolve().parent
    return {
        iri: file
        for iri in imports_in_folder(document)
        if (path := unquote(iri.removeprefix(LOCAL).partition("#")[0]))
        and (file := importer.parent / path).resolve().is_relative_to(folder)
    }


def missing_file(document: Document, iri: str, file: Path) -> Diagnostic:
    """Report an import of a file that does not exist."""
    note(file, ABSENT)
    return report(
        "FKG105",
        import_span(document, iri),
        f"the imported file {file} does not exist",
        help="correct the path in the import, or put the file there",
        severity="warning",
    )


def unknown_import(document: Document, iri: str) -> Diagnostic:
    """Report an import that is neither bundled nor a file in the folder of the document."""
    needed = document.nodes.awaited.values() if document.nodes is not None else ()
    written = [node.written for node in needed if node.space == iri]
    used = f", and this file uses its node {written[0]}" if written else ""
    used += f" and {len(written) - 1} more" if len(written) > 1 else ""
    is_file = iri.startswith(LOCAL) and Path(document.name).is_file()
    return report(
        "FKG105",
        import_span(document, iri),
        f"the import of {unquote(Path(iri).name)} is not followed: it is not a relative path that"
        " stays in the folder of this file"
        if is_file
        else f"the import of <{iri}> is not followed{used}",
        help="to load it, give its file as a graph, or add it with `fedkg ontology add`",
        severity="warning" if is_file else "info",
    )


def circular_import(document: Document, iri: str) -> Diagnostic:
    """Report an import that closes a cycle. Each file is read once, so this is only a note."""
    return report(
        "FKG105",
        import_span(document, iri),
        f"the import of <{iri}> in {Path(document.name).name} closes a circle of imports",
        help="fedkg reads each file once; leave out one of the imports if this is not intended",
        severity="info",
    )


def follow_imports(
    graphs: Sequence[Document],
    ontologies: Sequence[Document],
    *,
    name_of_iri: Callable[[str], str | None],
    load_named: Callable[[str], Sequence[Document]],
    load_file: Callable[[Path], Document | None],
) -> list[Diagnostic]:
    """Load the bundled ontologies and the files that documents import, and what these import.

    Args:
        graphs: the user's documents; problems are reported in these, and in the files that they
            import. ontologies: documents of bundled ontologies.
        name_of_iri: the name of a bundled ontology, None for an unknown IRI.
        load_named: loads a bundled ontology; returns its documents, none if it is loaded already.
        load_file: loads a file once; returns its document, None if it cannot be read (a problem
            has been reported).
    """
    problems: list[Diagnostic] = []
    own = {id(document): document for document in graphs}
    edges: dict[int, list[tuple[str, Document]]] = defaultdict(list)
    waiting = deque([*graphs, *ontologies])
    unknown: dict[str, Document] = {}
    while waiting:
        document = waiting.popleft()
        files = imported_files(document) if id(document) in own else {}
        for iri in document.imports:
            name = name_of_iri(iri)
            if name is not None:
                waiting += load_named(name)
            elif id(document) not in own:
                continue
            elif (file := files.get(iri)) is None:
                unknown.setdefault(iri, document)
            elif not file.is_file():
                problems.append(missing_file(document, iri, file))
            elif (found := load_file(file)) is not None:
                edges[id(document)].append((iri, found))
                if id(found) not in own:
                    own[id(found)] = found
                    waiting.append(found)
    if unknown:  # a loaded file may be the ontology that another one imports
        known = {iri: document for document in own.values() for iri in _ontology_iris(document)}
        named = {iri for document in ontologies for iri in _ontology_iris(document)}
        for iri, document in unknown.items():
            if iri in known:
                edges[id(document)].append((iri, known[iri]))
            elif iri not in named and len(problems) < MOST_IMPORTS:
                problems.append(unknown_import(document, iri))
    return [*problems, *_cycles(graphs, edges)]


def _ontology_iris(document: Document) -> set[str]:
    """The IRIs by which a document calls itself an ontology."""
    return {
        quad.subject.value
        for quad in document.triples
        if quad.object == _ONTOLOGY and isinstance(quad.subject, ox.NamedNode)
    }


def _cycles(
    graphs: Sequence[Document], edges: Mapping[int, Sequence[tuple[str, Document]]]
) -> Iterator[Diagnostic]:
    """Report each import that leads back to a document on the way to it, by depth-first search."""
    seen: set[int] = set()
    for start in graphs:
        if id(start) in seen:
            continue
        seen.add(id(start))
        path = [start]
        rest = [iter(edges.get(id(start), ()))]
        while path:
            iri, target = next(rest[-1], ("", None))
            if target is None:
                path.pop()
                rest.pop()
            elif any(target is document for document in path):
                if target is not path[-1]:  # importing itself is common and harmless
                    yield circular_import(path[-1], iri)
            elif id(target) not in seen:
                seen.add(id(target))
                path.append(target)
                rest.append(iter(edges.get(id(target), ())))
