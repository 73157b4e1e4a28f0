"""The user's local catalogue: official files that replace our modules, and the user's ontologies,
by name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePath

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.ontologies import (
    ADDED_FILE,
    Added,
    Catalog,
    closest_name,
    load_catalog,
    read_shelf,
    shelf_folder,
)
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.rdf_terms import split_iri
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, STANDARD_PREFIXES
from fedkg_compiler.graph.user_ontology_files import Taken, take

_NAMELESS = "#"
"""The namespace of a file that has no name for itself and none for what it describes."""
_ONTOLOGY = ox.NamedNode(OWL + "Ontology")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}$")


def add_entry(
    name: str, source: str, sha256: str | None = None, *, home: Path | None = None
) -> tuple[Added | None, tuple[Diagnostic, ...]]:
    """Put a file on the shelf under `name`.

    From then on `use name` loads it in place of our module.

    Args:
        name: a name of the catalogue, or a new name.
        source: a path (of a folder, its XML schemas are read) or an http(s) address; fedkg fetches
            only addresses.
        sha256: the expected checksum of the file. Default: that of the original of `name`, if the
            catalogue has one; else the checksum is not compared. For several files: that of the
            sorted lines ``<sha256>  <name>``, as `sha256sum` writes them.
        home: as for `shelf_folder`.

    Returns:
        What was recorded, or None with an error: unreadable, other checksum, no RDF, nothing in it.

    Raises:
        UsageError: `name` is not a valid name for `use`, or `sha256` is not a checksum.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or name == "rules":
        raise UsageError(
            f"{name!r} cannot be the name of an ontology",
            expected="letters, digits and _, without a digit in front; `rules` is reserved",
        )
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise UsageError(
            "the checksum is not a SHA-256", expected="64 hexadecimal digits", received=sha256
        )
    catalog = load_catalog(home=home)
    taken, problems = take(source)
    if taken is None:
        return None, problems
    wrong = _checksum_problem(taken.sha256, source, sha256, catalog, name)
    if wrong is not None:
        return None, (wrong,)
    document, problems = taken.read()
    if document is None or any(problem.severity == "error" for problem in problems):
        return None, problems
    if not document.triples:
        return None, (
            *problems,
            report(
                "FKG102",
                point(source),
                f"{source} contains no triples",
                help="check that this is the right file",
            ),
        )
    record = _record(name, taken, document, catalog)
    if not any(
        isinstance(quad.subject, ox.NamedNode) and quad.subject.value.startswith(record.namespace)
        for quad in document.triples
    ):
        message = (
            f"{source} says nothing about {name}: it describes no term of <{record.namespace}>"
        )
        if record.namespace == _NAMELESS:
            message = f"{source} describes nothing that has an IRI"
        return None, (
            *problems,
            report(
                "FKG116",
                point(source),
                message,
                help="check that this is the right file"
                + ("" if record.namespace == _NAMELESS else ", or add it under another name"),
            ),
        )
    catalog.shelf.mkdir(parents=True, exist_ok=True)
    before = catalog.added.get(name)
    if taken.is_folder:
        _write_folder(catalog.shelf / record.file, taken.files)
    else:
        _write(catalog.shelf / record.file, next(iter(taken.files.values())))
    _write_list(
        catalog.shelf, [*(item for item in catalog.added.values() if item.name != name), record]
    )
    if before is not None and before.file != record.file:
        _take_away(catalog.shelf / before.file)
    return record, problems


def remove_entry(name: str, *, home: Path | None = None) -> Added:
    """Take an added file off the shelf; our module, where there is one, is loaded again.

    Return what was recorded.

    Raises:
        UsageError: nothing was added under this name.
    """
    shelf = shelf_folder(home)
    records = {item.name: item for item in read_shelf(shelf)}
    if name not in records:
        near = closest_name(name, records)
        raise UsageError(
            (
                f"no ontology was added as {name!r}"
                if records
                else f"no ontology was added as {name!r}, nor any other"
            ),
            expected=", ".join(sorted(records)),
            help=f"did you mean `{near}`?" if near else "",
        )
    _write_list(shelf, [item for item in records.values() if item.name != name])
    _take_away(shelf / records[name].file)
    return records[name]


def _checksum_problem(
    digest: str, source: str, sha256: str | None, catalog: Catalog, name: str
) -> Diagnostic | None:
    entry = catalog.entries.get(name)
    listed = entry.official.sha256 if entry is not None and entry.official is not None else ""
    expected = (sha256 or listed).lower()
    if not expected or digest == expected:
        return None
    origin = (
        "the one given with --sha256"
        if sha256
        else f"that of the file of `{name}` in the catalogue"
    )
    whole = next(
        (
            other.name
            for other in catalog.entries.values()
            if other.official is not None and other.official.sha256 == digest
        ),
        "",
    )
    advice = f"fetch it again, or, if this version is wanted: `--sha256 {digest}`"
    if whole:
        advice = f"this is the file of `{whole}`: fedkg ontology add {whole} {source}"
    message = (
        f"{source} is not the file that was meant: its SHA-256 is {digest}, and {origin} is "
        f"{expected}"
    )
    return report("FKG106", point(source), message, help=advice)


def _record(name: str, taken: Taken, document: Document, catalog: Catalog) -> Added:
    entry = catalog.entries.get(name)
    suffix = _SUFFIX.search(PurePath(taken.source).name)
    file = name if taken.is_folder else name + (suffix.group().lower() if suffix else ".rdf")
    kinds = (
        (quad.subject, quad.object)
        for quad in document.triples
        if quad.predicate.value == RDF + "type"
    )
    named = (
        subject.value
        for subject, kind in kinds
        if isinstance(subject, ox.NamedNode) and kind == _ONTOLOGY
    )
    iri = next(named, "")
    namespace = (
        entry.namespace
        if entry is not None
        else (
            document.prefixes[""]
            if document.nodes is not None and document.prefixes
            else _main_namespace(document, iri)
        )
    )
    return Added(
        name=name,
        file=file,
        sha256=document.sha256,
        source=taken.source,
        prefix=entry.prefix if entry is not None else name,
        namespace=namespace,
        iri=iri,
        title=entry.title if entry is not None else "",
    )


def _main_namespace(document: Document, iri: str) -> str:
    """Return the namespace of most subjects, the ontology itself left out.

    With none, the ontology's own IRI.
    """
    subjects = (
        quad.subject.value for quad in document.triples if isinstance(quad.subject, ox.NamedNode)
    )
    spaces = Counter(split_iri(subject)[0] for subject in subjects if subject != iri)
    for standard in STANDARD_PREFIXES.values():
        spaces.pop(standard, None)
    if spaces:
        return max(spaces.items(), key=lambda item: (item[1], item[0]))[0]
    return iri if iri.endswith(("#", "/")) else iri + _NAMELESS


def _write_list(shelf: Path, records: list[Added]) -> None:
    listed = [asdict(item) for item in sorted(records, key=lambda item: item.name)]
    _write(shelf / ADDED_FILE, json.dumps(listed, indent=2, ensure_ascii=False).encode())


def _write(path: Path, body: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    part.write_bytes(body)
    part.replace(path)


def _write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder, and put it in the place of an older one."""
    part, old = (path.with_name(f"{path.name}.{word}{os.getpid()}") for word in ("part", "old"))
    for leftover in (part, old):
        _take_away(leftover)
    for name, body in files.items():
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_bytes(body)
    if path.is_dir():
        path.replace(old)
    part.replace(path)
    _take_away(old)


def _take_away(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
