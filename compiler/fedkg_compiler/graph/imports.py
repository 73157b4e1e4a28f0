"""Follows `owl:imports` to bundled ontologies and to files beside the importing file.

fedkg never fetches an import from the network. Every problem is reported at the triple of the
import.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.definitions import find
from fedkg_compiler.graph.graph_terms import split_iri
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.spans import point, report
from fedkg_compiler.graph.standard_vocabularies import OWL
from fedkg_compiler.input_tracking import ABSENT, note

LOCAL = "file:///"
"""The base of relative IRIs: `<parts.ttl>` in a file is read as `<file:///parts.ttl>`."""
MOST_PROBLEMS = 100
"""Imports that are reported at most."""
_ONTOLOGY = ox.NamedNode(OWL + "Ontology")


def import_span(document: Document, iri: str) -> Span:
    """Return the span of the object of the triple by which a document imports `iri`."""
    space, local = split_iri(iri)
    spellings = [re.escape(iri)]
    if iri.startswith(LOCAL):
        spellings.append(rf"(?<=[<\"']){re.escape(iri.removeprefix(LOCAL))}(?=[>\"'])")
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


def imported_file(document: Document, iri: str) -> Path | None:
    """Return the file that a relative import names, beside the importing file or below its folder.

    None for any other import: a file of somebody else cannot read further files of this machine.
    """
    if not iri.startswith(LOCAL):
        return None
    path = unquote(iri.removeprefix(LOCAL).partition("#")[0])
    importer = Path(document.name)
    if not path or not importer.is_file():
        return None
    file = importer.parent / path
    return file if file.resolve().is_relative_to(importer.resolve().parent) else None


def missing_file(document: Document, iri: str, file: Path) -> Diagnostic:
    """Report an import of a file that does not exist."""
    note(file, ABSENT)
    return report(
        "FKG105",
        import_span(document, iri),
        f"the imported file {file} does not exist",
        help="correct the import, or give the file as another graph",
        severity="warning",
    )


def unknown_import(document: Document, iri: str) -> Diagnostic:
    """Report an import that is neither bundled nor a file beside the document."""
    needed = document.nodes.awaited.values() if document.nodes is not None else ()
    written = [node.written for node in needed if node.space == iri]
    used = f", and this file uses its node {written[0]}" if written else ""
    used += f" and {len(written) - 1} more" if len(written) > 1 else ""
    return report(
        "FKG105",
        import_span(document, iri),
        f"the import of <{iri}> is not followed{used}",
        help="to load it, give its file as a graph, or add it with `fedkg ontology add`",
        severity="info",
    )


def circular_import(document: Document, iri: str) -> Diagnostic:
    """Report an import that closes a cycle. Each file is read once, so this is only a note."""
    return report(
        "FKG105",
        import_span(document, iri),
        f"{Path(document.name).name} and <{iri}> import each other",
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
        for iri in document.imports:
            name = name_of_iri(iri)
            if name is not None:
                waiting += load_named(name)
            elif id(document) not in own:
                continue
            elif (file := imported_file(document, iri)) is None:
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
            elif iri not in named and len(problems) < MOST_PROBLEMS:
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
