"""Loads what a rule file uses: ontologies by name, the user's graphs, their alignments; then closes the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyoxigraph as ox

from fedkg.nearest import Suggestion, certain
from fedkg.pack.manifest import Source
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.inputs import ABSENT, note
from fedkg_compiler.ontology import pairs
from fedkg_compiler.ontology.catalog import Added, Catalog, load_catalog
from fedkg_compiler.ontology.closure import TooLarge, follows
from fedkg_compiler.ontology.gather import Definition, by_namespace, definitions, find, strangers
from fedkg_compiler.ontology.graph import Graph
from fedkg_compiler.ontology.ownership import Ownership, cut
from fedkg_compiler.ontology.places import point, report
from fedkg_compiler.ontology.reading import Document, read_file, read_rdf
from fedkg_compiler.ontology.sniff import RDF_SUFFIXES
from fedkg_compiler.ontology.standard import OWL, STANDARD_PREFIXES
from fedkg_compiler.ontology.terms import split_iri
from fedkg_compiler.ontology.two_names import one_of_two_names
from fedkg_compiler.ontology.values import is_iri
from fedkg_compiler.ontology.vocabulary import Vocabulary, closest

_NOWHERE = "https://w3id.org/fedkg/nowhere#"
"""What a prefix with a broken IRI stands for, so that its names are not complained of again."""


@dataclass(slots=True)
class _Loading:
    """What has been loaded so far."""

    catalog: Catalog
    ontologies: list[tuple[str, Document]] = field(default_factory=list)
    graphs: list[Document] = field(default_factory=list)
    sources: dict[tuple[str, str, str], Source] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=lambda: dict(STANDARD_PREFIXES))
    closed: dict[str, str] = field(default_factory=lambda: {namespace: prefix for prefix, namespace in STANDARD_PREFIXES.items()})
    partial: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    paths: dict[Path, Document | None] = field(default_factory=dict)

    def keep_source(self, document: Document, kind: str) -> None:
        name = Path(document.name).name
        source = Source.model_validate({"name": name, "kind": kind, "sha256": document.sha256})
        self.sources[kind, name, document.sha256] = source


def load_graph(
    uses: Sequence[tuple[str, Span]],
    prefixes: Mapping[str, tuple[str, Span]],
    files: Sequence[Path],
    *,
    beside: Mapping[str, Path] | None = None,
    catalog: Catalog | None = None,
    text_graphs: Sequence[tuple[str, str]] = (),
    client: str = "",
) -> tuple[Graph, tuple[Diagnostic, ...], tuple[Source, ...]]:
    """Return the closed graph of everything named, what is wrong with it, and which files went in.

    Args:
        uses: the words after `use`, with their places: names of the catalogue, else of files beside the rule file.
        prefixes: as the rule file declares them: prefix to (IRI, place); they go before those that `use` brings.
        files: the user's graphs. text_graphs: further ones as (name, Turtle).
        client: whose private pack is made: then the triples of other clients are cut out, before anything is concluded. "" for all.
        beside: the folder of each rule file, by its name in places. catalog: default: the one that ships, with the user's additions.

    The order of files and uses changes nothing but the order of diagnostics.
    """
    loading = _Loading(load_catalog() if catalog is None else catalog)
    for entry in sorted(loading.catalog.entries.values(), key=lambda item: item.name):
        if entry.always:
            _load_named(loading, entry.name)
    for name, span in uses:
        _use(loading, name, span, (beside or {}).get(span.file))
    for path in files:
        _load_file(loading, path)
    for name, text in text_graphs:
        _keep_graph(loading, *read_rdf(text.encode(), file=name))
    _follow_imports(loading)
    for alignment in loading.catalog.alignments:
        if set(alignment.between) <= loading.names:
            _keep_ontology(loading, "-".join(alignment.between), *_our_file(loading.catalog.folder / alignment.file))
    ontologies = [document for _, document in loading.ontologies]
    equal, said = one_of_two_names(loading.graphs, ontologies, [iri for iri, _ in prefixes.values()])
    loading.problems += said
    triples = [*(quad for document in [*ontologies, *loading.graphs] for quad in document.triples), *equal]
    whole = _closed(loading, triples)
    _declare_prefixes(loading, prefixes)
    if client:
        kept, ownership = cut(triples, whole, client)
        graph = _graph(loading, _closed(loading, kept), whole, ownership)
    else:
        graph = _graph(loading, whole, whole)
    sources = tuple(loading.sources[key] for key in sorted(loading.sources))
    return graph, tuple(loading.problems), sources


def _closed(loading: _Loading, triples: Sequence[ox.Quad]) -> ox.Store:
    """The triples with what follows from them; without, and a problem told, where that is too much."""
    store = ox.Store()
    store.extend(triples)
    try:
        store.extend(follows(triples))
    except TooLarge as error:
        loading.problems.append(_too_large(loading, error.property))
    return store


def _too_large(loading: _Loading, property: ox.NamedNode) -> Diagnostic:
    documents = [*loading.graphs, *(document for _, document in loading.ontologies)]
    most = max(documents, key=lambda document: sum(quad.predicate == property for quad in document.triples))
    return report(
        "FKG118",
        find(most, property.value, *split_iri(property.value)),
        f"more than {pairs.LIMIT:,} triples follow from the graphs, too many of them of <{property.value}>",
        help="leave out the part of the graph that no rule needs, or do not declare the property transitive",
    )


def _use(loading: _Loading, name: str, span: Span, beside: Path | None) -> None:
    if name in loading.catalog.entries or name in loading.catalog.added:
        _load_named(loading, name)
        return
    if beside is not None:
        for suffix in RDF_SUFFIXES:
            path = beside / f"{name}{suffix}"
            if path.is_file():
                _use_file(loading, name, path)
                return
            note(path, ABSENT)
    local = {path.stem for path in beside.iterdir() if path.suffix in RDF_SUFFIXES} if beside is not None and beside.is_dir() else set()
    known = {*loading.catalog.names(), *local}
    meant = closest(name, known)
    listed = f"known are {', '.join(loading.catalog.names())}; or put {name}.ttl beside the rule file"
    advice = f"did you mean `{meant}`?" if meant else listed
    if meant and meant == certain(name, known):
        advice = Suggestion(advice, name, meant)
    loading.problems.append(report("FKG100", span, f"there is no ontology `{name}`", help=advice))


def _use_file(loading: _Loading, name: str, path: Path) -> None:
    """Load a file beside the rule file; the prefix `name` becomes what the file calls so, else its empty prefix."""
    document = _load_file(loading, path)
    if document is not None:
        namespace = document.prefixes.get(name) or document.prefixes.get("")
        if namespace is not None:
            loading.prefixes.setdefault(name, namespace)


def _load_named(loading: _Loading, name: str) -> None:
    """Load an ontology of the catalogue once: the user's file in place of our module, and our additions to it."""
    if name in loading.names:
        return
    loading.names.add(name)
    entry, added = loading.catalog.entries.get(name), loading.catalog.added.get(name)
    loading.prefixes.update(loading.catalog.prefixes_of(name))
    for namespace in loading.catalog.prefixes_of(name).values():
        loading.closed[namespace] = name
    replaced = added is not None and _load_added(loading, added)
    if entry is None:
        return
    if entry.partial and not replaced:
        loading.partial |= set(entry.all_prefixes().values())
    for file in (*(() if replaced else (entry.module,)), *entry.additions):
        _keep_ontology(loading, name, *_our_file(loading.catalog.folder / file))


def _load_added(loading: _Loading, added: Added) -> bool:
    """Load a file of the shelf if it is still the one that was added; tell whether it was."""
    path = loading.catalog.shelf / added.file
    document, problems = read_file(path)
    if document is not None and document.sha256 != added.sha256:
        message = f"{path} is no longer the file that was added as {added.name}: its checksum is {document.sha256}"
        advice = f"add it again with `fedkg ontology add {added.name} {added.source}`"
        loading.problems.append(report("FKG106", point(str(path)), message, help=advice))
        return False
    _keep_ontology(loading, added.name, document, problems)
    return document is not None


@lru_cache(maxsize=32)
def _read_ours(path: Path, stamp: tuple[int, int]) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    return read_file(path, shown=path.name)


def _our_file(path: Path) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return a module of ours; read once as long as it does not change."""
    state = path.stat()
    document, problems = _read_ours(path, (state.st_mtime_ns, state.st_size))
    if document is not None:
        note(path, document.sha256)
    return document, problems


def _keep_ontology(loading: _Loading, name: str, document: Document | None, problems: tuple[Diagnostic, ...]) -> None:
    loading.problems += problems
    if document is not None:
        loading.ontologies.append((name, document))
        loading.keep_source(document, "ontology")


def _load_file(loading: _Loading, path: Path) -> Document | None:
    """Load a graph file once, however often it is named."""
    resolved = path.resolve()
    if resolved not in loading.paths:
        document, problems = read_file(path)
        loading.paths[resolved] = document
        _keep_graph(loading, document, problems)
    return loading.paths[resolved]


def _keep_graph(loading: _Loading, document: Document | None, problems: tuple[Diagnostic, ...]) -> None:
    loading.problems += problems
    if document is not None:
        loading.graphs.append(document)
        loading.keep_source(document, "graph")


def _follow_imports(loading: _Loading) -> None:
    """Load imported ontologies that the catalogue knows; say of the others that they are not followed. Circles end by themselves."""
    seen: set[str] = set()
    waiting = [*loading.graphs, *(document for _, document in loading.ontologies)]
    told = {*(id(document) for document in loading.graphs)}
    while waiting:
        document = waiting.pop(0)
        for iri in document.imports:
            name = loading.catalog.name_of_iri(iri)
            if name is not None:
                count = len(loading.ontologies)
                _load_named(loading, name)
                waiting += [later for _, later in loading.ontologies[count:]]
            elif iri not in seen and id(document) in told and not _is_loaded(loading, iri):
                span = find(document, iri, iri, "")
                advice = "to have it loaded, give its file as a graph, or `fedkg ontology add` it"
                loading.problems.append(report("FKG105", span, f"the import of <{iri}> is not followed", help=advice, severity="info"))
            seen.add(iri)


def _is_loaded(loading: _Loading, iri: str) -> bool:
    node = ox.NamedNode(iri) if is_iri(iri) else None
    if node is None:
        return False
    documents = [*loading.graphs, *(document for _, document in loading.ontologies)]
    return any(
        quad.subject == node and getattr(quad.object, "value", "") == OWL + "Ontology"
        for document in documents
        for quad in document.triples
    )


def _declare_prefixes(loading: _Loading, prefixes: Mapping[str, tuple[str, Span]]) -> None:
    """Take over the rule file's own prefixes, after a look at each."""
    spaces = {*loading.catalog.all_prefixes().values(), *STANDARD_PREFIXES.values()}
    for document in loading.graphs:
        spaces |= set(document.prefixes.values())
    for prefix, (iri, span) in prefixes.items():
        if not is_iri(iri):
            advice = "an IRI has a scheme and no spaces: `<https://example.org/plant#>`"
            loading.problems.append(report("FKG108", span, f"<{iri}> is not an IRI", help=advice))
            loading.prefixes.setdefault(prefix, _NOWHERE)
            continue
        known = loading.prefixes.get(prefix)
        nearly = next((iri + mark for mark in ("#", "/") if iri + mark in spaces), None)
        if nearly is not None and iri not in spaces:
            message = f"no graph has terms in <{iri}>, but in <{nearly}>"
            loading.problems.append(report("FKG109", span, message, help=f"write `prefix {prefix}: <{nearly}>`", severity="warning"))
        elif known is not None and known != iri:
            message = f"`{prefix}:` is <{known}> elsewhere, and <{iri}> here"
            advice = f"leave this line out, or choose another prefix for <{iri}>"
            loading.problems.append(report("FKG109", span, message, help=advice, severity="warning"))
        loading.prefixes[prefix] = iri


def _graph(loading: _Loading, store: ox.Store, whole: ox.Store, ownership: Ownership | None = None) -> Graph:
    """The graph over `store`; names are known where `whole` has them, which is the same but for a private pack."""
    found: dict[str, Definition] = {}
    for name, document in sorted(loading.ontologies, key=lambda item: (item[0], item[1].name)):
        for iri, entry in definitions(document, name, individuals=True).items():
            _merge(found, iri, entry)
    closed = dict(loading.closed)
    ontology_names = by_namespace(list(found), closed)
    for document in loading.graphs:
        loading.problems += strangers(document, closed, ontology_names, frozenset(loading.partial))
    for document in sorted(loading.graphs, key=lambda item: (Path(item.name).name, item.sha256)):
        for iri, entry in definitions(document, Path(document.name).name, individuals=False).items():
            _merge(found, iri, entry)
    vocabulary = Vocabulary(
        prefixes=dict(loading.prefixes),
        closed=closed,
        partial=frozenset(loading.partial),
        terms=by_namespace(list(found), closed),
        unused=_unused(loading),
        declared=_declared(loading),
        store=whole,
        told=None if store is whole else store,
    )
    return Graph(store, vocabulary, found, ownership)


def _merge(found: dict[str, Definition], iri: str, entry: Definition) -> None:
    """Join what two documents say about one name; the first one that says what kind it is owns it."""
    old = found.get(iri)
    if old is None:
        found[iri] = entry
        return
    owner = old if old.kind != "individual" or entry.kind == "individual" else entry
    found[iri] = Definition(owner.ontology, owner.kind, old.labels | entry.labels, old.comments | entry.comments)


def _unused(loading: _Loading) -> dict[str, str]:
    """Return the prefixes of ontologies that are not loaded, with the word to `use`."""
    return {
        prefix: name
        for name in loading.catalog.names()
        if name not in loading.names
        for prefix in loading.catalog.prefixes_of(name)
        if prefix not in loading.prefixes
    }


def _declared(loading: _Loading) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for document in sorted(loading.graphs, key=lambda item: (item.name, item.sha256)):
        for prefix, namespace in document.prefixes.items():
            found.setdefault(prefix, (namespace, Path(document.name).name))
    return found
