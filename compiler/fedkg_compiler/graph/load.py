"""Loads what a rule file uses: ontologies by name, the user's graphs, their alignments.

Then adds what these entail. `open_graph` opens one graph: a file, a store on disk, or an endpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg._internal.name_matching import Suggestion, certain_match
from fedkg.errors import FedkgError
from fedkg.limits import explain_raise, limit
from fedkg.pack.manifest import Source
from fedkg_compiler.diagnostics.record import MOST_ERRORS, Diagnostic, Span
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.alignment.mappings import (
    SSSOM_WORD,
    WORDS,
    accepted,
    equivalences,
    exact_matches,
    exact_origins,
    one_of_two_names,
)
from fedkg_compiler.graph.client_subgraph import Ownership, cut
from fedkg_compiler.graph.diagnostic_spans import report
from fedkg_compiler.graph.graph import (
    DerivedColumns,
    Graph,
    derive_columns,
    several_units,
    shared_columns,
)
from fedkg_compiler.graph.ontologies import (
    Catalog,
    Definition,
    Vocabulary,
    by_namespace,
    closest_name,
    definitions,
    documents_of,
    find,
    follow_imports,
    load_catalog,
    our_file,
    strangers,
    told_twice,
    two_kinds,
)
from fedkg_compiler.graph.opcua_node_name_resolution import linked
from fedkg_compiler.graph.owl_rl_closure import clashes, closure
from fedkg_compiler.graph.rdf_reader import (
    DEFAULT,
    INFERRED,
    VOCABULARY_INFERRED,
    Document,
    LaterTriples,
    NamedGraph,
    checksum,
    graphs_of,
    in_graph,
    ontology_graph,
    read_file,
    read_rdf,
    rename_shared_blank_nodes,
    stated,
)
from fedkg_compiler.graph.rdf_terms import is_iri, split_iri
from fedkg_compiler.graph.reasoning.facts import TooLarge, most_pairs
from fedkg_compiler.graph.reasoning.swrl_rules import IMP
from fedkg_compiler.graph.recorded_answers import RecordedAnswers
from fedkg_compiler.graph.standard_vocabularies import FEDKG, STANDARD_PREFIXES
from fedkg_compiler.graph.stores.stored_triples import StoredTriples
from fedkg_compiler.graph.swrl_diagnostics import unapplied_rules
from fedkg_compiler.graph.triple_locations import Told
from fedkg_compiler.graph.user_ontology_files import local
from fedkg_compiler.input_files import ABSENT, RDF_SUFFIXES, is_endpoint, is_store, note, read_bytes

if TYPE_CHECKING:
    from fedkg_compiler.graph.stores.closure_cache import Closed
    from fedkg_compiler.graph.stores.relevant_terms import Relevance, RuleTerms
    from fedkg_compiler.graph.stores.rule_relevant_triples import TouchedPart


def open_graph(
    path: Path | str, *, at_once: bool = False, relevance: Relevance | None = None
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return what a graph says, and what is wrong with it; None if nothing at all could be read.

    Args:
        path: a file, a store, or the address of an endpoint.
        at_once: as for `fedkg_compiler.graph.rdf_reader.read_rdf`.
        relevance: what matters of an endpoint that holds very much; None: everything.
    """
    if is_endpoint(path):
        from fedkg_compiler.graph.stores.endpoint_graph_download import read_endpoint

        return read_endpoint(str(path), relevance=relevance)
    if is_store(Path(path)):
        from fedkg_compiler.graph.stores.folder import open_store

        return open_store(Path(path))
    return read_file(Path(path), at_once=at_once)


_NOWHERE = "https://w3id.org/fedkg/nowhere#"
"""Namespace for a prefix with a malformed IRI, so that its names are not reported again."""
GRAPH = "graph"
"""The common name of the user's graphs in a pack: their source (file, store or endpoint) does not
change the pack."""


@dataclass(slots=True)
class _Loading:
    """The state of loading."""

    catalog: Catalog
    ontologies: list[tuple[str, Document]] = field(default_factory=list)
    graphs: list[Document] = field(default_factory=list)
    sources: dict[tuple[str, str, str], Source] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=lambda: dict(STANDARD_PREFIXES))
    closed: dict[str, str] = field(
        default_factory=lambda: {
            namespace: prefix for prefix, namespace in STANDARD_PREFIXES.items()
        }
    )
    partial: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    paths: dict[Path | str, Document | None] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    respelled: list[ox.Quad] = field(default_factory=list)
    """The user's triples with terms in the spelling that rules use."""
    columns: DerivedColumns | None = None
    """What the graphs state about columns in other words than `fkg:column`; None before it was
    asked for."""
    closed_part: TouchedPart | None = None
    """What rules touch of a closure that is kept on disk."""

    def keep_source(self, document: Document, kind: str) -> None:
        name = Path(document.name).name
        source = Source.model_validate({"name": name, "kind": kind, "sha256": document.sha256})
        self.sources[kind, name, document.sha256] = source


def load_graph(
    uses: Sequence[tuple[str, Span]],
    prefixes: Mapping[str, tuple[str, Span]],
    files: Sequence[Path | str],
    *,
    beside: Mapping[str, Path] | None = None,
    catalog: Catalog | None = None,
    text_graphs: Sequence[tuple[str, str]] = (),
    client: str = "",
    rules: RuleTerms | None = None,
) -> tuple[Graph, tuple[Diagnostic, ...], tuple[Source, ...]]:
    """Return the closed graph of everything named, what is wrong with it, and which files went in.

    Args:
        uses: the words after `use`, with their places: names of the catalogue, else of files in the
            folder of the rule file.
        prefixes: the prefixes that the rule file declares, as prefix to (IRI, place); they take
            precedence over those that `use` brings.
        files: the user's graphs: files, stores on disk, and addresses of endpoints.
        beside: the folder of each rule file, by its name in places.
        catalog: the catalogue of ontologies; default: the one that ships with fedkg, with the
            user's additions.
        text_graphs: further graphs as (name, Turtle).
        client: the client of the private pack: the triples of other clients are removed before the
            closure. "" for a public pack.
        rules: what rules name, so that what they do not touch is neither asked of an endpoint nor
            read from a store; None: everything.

    The order of files and uses changes nothing but the order of diagnostics.
    """
    loading = _Loading(load_catalog() if catalog is None else catalog)
    for entry in sorted(loading.catalog.entries.values(), key=lambda item: item.name):
        if entry.always:
            _load_named(loading, entry.name)
    for name, span in uses:
        if len(loading.problems) > MOST_ERRORS:  # the compilation stops at them
            break
        _use(loading, name, span, (beside or {}).get(span.file))
    endpoints = [path for path in files if rules is not None and is_endpoint(path)]
    for path in files:
        if path not in endpoints:
            _load_file(loading, path)
    for name, text in text_graphs:
        _keep_graph(loading, *read_rdf(text.encode(), file=name))
    if endpoints and rules is not None:
        _load_endpoints(loading, endpoints, rules)
    _follow_imports(loading)
    for name, document, problems in [*_alignments(loading)]:
        _keep_ontology(loading, name, document, problems)
    _align_b2mml(loading)
    _link_node_sets(loading)
    loading.graphs = rename_shared_blank_nodes(loading.graphs)
    ontologies = [document for _, document in loading.ontologies]
    documents = [*ontologies, *loading.graphs]
    equal: list[ox.Quad] = []
    if any(one.marks or any(word in one.text for word in WORDS) for one in loading.graphs) or any(
        one.marks or SSSOM_WORD in one.text for one in ontologies
    ):
        mapped, wrong = accepted(loading.graphs)
        exact = [*exact_matches(documents), *mapped]
        equal = [*mapped, *equivalences(exact, documents)]
        loading.respelled, said = one_of_two_names(
            loading.graphs, ontologies, [iri for iri, _ in prefixes.values()]
        )
        loading.problems += [*said, *wrong]
    whole, found = _whole(loading, equal, rules, tell=not client)
    _declare_prefixes(loading, prefixes)
    if client:
        triples = [*_triples(loading, equal), *_learned(loading)]
        is_kept, ownership = cut(triples, whole, client)
        store = _closed_part(loading, equal, is_kept)
        graph = _graph(loading, found, store, whole, ownership, is_kept)
        kept = [quad for quad in _triples(loading, equal) if is_kept(quad)]
    else:
        part = loading.closed_part
        graph = (
            _graph(loading, found, whole, whole)
            if part is None
            else _graph(loading, found, part.read, whole, answers=part.answers)
        )
    graph.told = Told(
        documents=(*loading.graphs, *ontologies),
        triples=lambda: kept if client else _triples(loading, equal),
        graphs=lambda: [*_data(loading), *_vocabularies(loading)],
        origins=lambda: {**_columns(loading).origins, **exact_origins(equal)},
    )
    given = [document for document in loading.graphs if document.name not in loading.used]
    if given:
        loading.sources["graph", GRAPH, ""] = Source(
            name=GRAPH, kind="graph", sha256=checksum(given)
        )
    loading.problems += [
        problem for stored in _stored(loading) if (problem := stored.problem) is not None
    ]
    sources = tuple(loading.sources[key] for key in sorted(loading.sources))
    return graph, tuple(_in_sources(loading)), sources


def _load_endpoints(loading: _Loading, endpoints: Sequence[Path | str], rules: RuleTerms) -> None:
    """Load what endpoints hold, without what the rules do not touch, where all axioms are known:
    ontologies that a graph imports may add some.
    """
    from fedkg_compiler.graph.stores.relevant_terms import Relevance

    def axioms() -> Iterator[ox.Quad]:
        documents = [*(document for _, document in loading.ontologies), *loading.graphs]
        documents += [document for _, document, _ in _alignments(loading) if document is not None]
        for document in documents:
            yield from document.triples

    known = all(
        loading.catalog.name_of_iri(iri) in (None, *loading.names)
        for document in loading.graphs
        for iri in document.imports
    )
    relevance = Relevance(rules, axioms) if known else None
    for path in endpoints:
        document = _load_file(loading, path, relevance)
        if document is not None and relevance is not None:
            names = {loading.catalog.name_of_iri(iri) for iri in document.imports}
            if names - {None} - loading.names:
                loading.graphs.remove(document)
                del loading.paths[str(path)]
                _load_file(loading, path)


def _alignments(loading: _Loading) -> Iterator[tuple[str, Document | None, tuple[Diagnostic, ...]]]:
    """The alignments between the ontologies that are loaded."""
    for alignment in loading.catalog.alignments:
        if set(alignment.between) <= loading.names:
            opened = our_file(loading.catalog.folder / alignment.file)
            yield "-".join(alignment.between), *opened


def _in_sources(loading: _Loading) -> list[Diagnostic]:
    """The problems at the files that the user added, in place of the copies on the shelf, for as
    long as both are the same.
    """
    added = loading.catalog.added.values()
    copies = {str(loading.catalog.shelf / one.file): one for one in added}
    with_problems = {problem.span.file for problem in loading.problems} & set(copies)
    sources = {
        file: str(source)
        for file in with_problems
        if (source := local(copies[file].source)) is not None
        and _is_still(source, copies[file].sha256)
    }
    return [
        replace(problem, span=replace(problem.span, file=sources[problem.span.file]))
        if problem.span.file in sources
        else problem
        for problem in loading.problems
    ]


def _is_still(path: Path, sha256: str) -> bool:
    """Tell whether a file has this checksum."""
    try:
        return path.is_file() and hashlib.sha256(read_bytes(path)).hexdigest() == sha256
    except (OSError, ValueError, FedkgError):
        return False


def _align_b2mml(loading: _Loading) -> None:
    """Add the mappings of B2MML schemas to ISA-95, where both are loaded."""
    isa95 = [document for name, document in loading.ontologies if name == "isa95"]
    if not isa95:
        return
    from fedkg_compiler.graph.alignment.b2mml_mapping_rules import b2mml_alignments

    documents = [*(document for _, document in loading.ontologies), *loading.graphs]
    for mapped in b2mml_alignments(documents, isa95):
        _keep_ontology(loading, "b2mml-isa95", mapped, ())


def _link_node_sets(loading: _Loading) -> None:
    """Give nodes that OPC UA node sets refer to by number their names.

    Ontologies do not depend on the graphs beside them.
    """
    ontologies = [document for _, document in loading.ontologies]
    if all(document.nodes is None for document in (*loading.graphs, *ontologies)):
        return
    joined, problems = linked(ontologies)
    loading.ontologies = [
        (name, document) for (name, _), document in zip(loading.ontologies, joined, strict=True)
    ]
    loading.graphs, more = linked(loading.graphs, ontologies)
    loading.problems += [*problems, *more]


def _triples(loading: _Loading, equal: Sequence[ox.Quad]) -> list[ox.Quad]:
    """Everything that a closure rests on, the ontologies first: what runs have learned is not
    among it.
    """
    return [*_base(loading), *_stated(loading), *_columns(loading).origins, *equal]


def _base(loading: _Loading) -> list[ox.Quad]:
    """The triples of ontologies and vocabularies."""
    return [quad for _, document in loading.ontologies for quad in document.triples]


def _stated(loading: _Loading) -> Iterator[ox.Quad]:
    """The triples of the user's data."""
    for document in loading.graphs:
        yield from stated(document)
    yield from loading.respelled


def _learned(loading: _Loading) -> Iterator[ox.Quad]:
    """The triples that runs have learned."""
    for graph in _data(loading):
        if graph.kind == "learned":
            yield from graph.triples


def _vocabularies(loading: _Loading) -> list[NamedGraph]:
    """The graphs of ontologies and vocabularies, one for each document."""
    shelf = str(loading.catalog.shelf)
    return [
        NamedGraph(
            iri=ontology_graph(name, bundled=not document.name.startswith(shelf)),
            source=document.name,
            triples=document.triples,
        )
        for name, document in loading.ontologies
    ]


def _graph_names(loading: _Loading) -> list[str]:
    graphs = [*_data(loading), *_vocabularies(loading)]
    return [*(graph.iri for graph in graphs), INFERRED, VOCABULARY_INFERRED]


def _data(loading: _Loading) -> list[NamedGraph]:
    """The graphs of the user's files, stores and endpoints."""
    return [graph for document in loading.graphs for graph in graphs_of(document)]


def _copies(
    loading: _Loading, store: ox.Store, is_kept: Callable[[ox.Quad], bool] | None
) -> Iterator[ox.Quad]:
    """The quads of the graphs that hold what is in the default graph too, by source."""
    told: set[ox.Quad] = set()
    for graph in _data(loading):
        if graph.kind != "learned":
            triples = [quad for quad in graph.triples if is_kept is None or is_kept(quad)]
            told.update(triples)
            yield from in_graph(triples, graph.iri)
    default = store.quads_for_pattern(None, None, None, DEFAULT)
    yield from in_graph((quad for quad in default if quad not in told), INFERRED)


def _columns(loading: _Loading) -> DerivedColumns:
    """What the user's data states about columns in other words than `fkg:column`."""
    if loading.columns is None:
        store = ox.Store()
        store.bulk_extend(_stated(loading))
        loading.columns = derive_columns(store)
    return loading.columns


def _whole(
    loading: _Loading, equal: Sequence[ox.Quad], rules: RuleTerms | None, *, tell: bool
) -> tuple[ox.Store, dict[str, Definition]]:
    """All asserted and inferred triples, and the defined names: from the store on disk, else
    computed and saved there.

    `rules`: what rules name; None where they may ask for anything.
    """
    stored = _stored(loading)
    if not stored:
        return _filled_and_closed(loading, equal, tell=tell), _defined(loading)
    from fedkg_compiler.graph.stores.closure_cache import (
        Closed,
        count_members,
        count_properties,
        entry_for,
        find_closed,
        keep_closed,
    )

    settings = {
        "closed": sorted(loading.closed.items()),
        "partial": sorted(loading.partial),
        "tell": tell,
    }
    further = [*loading.respelled, *equal]
    entry = entry_for(stored[0].folder, loading.graphs, loading.ontologies, further, settings)
    closed = find_closed(entry)
    if closed is not None:
        loading.problems += closed.problems
        _take_part(loading, entry, closed, rules)
        return closed.store, closed.defined
    count = len(loading.problems)
    store, found = _filled_and_closed(loading, equal, tell=tell), _defined(loading)
    if all(problem.severity != "error" for problem in loading.problems[count:]) and all(
        one.problem is None for one in stored
    ):
        closed = Closed(
            store=store,
            defined=found,
            problems=tuple(loading.problems[count:]),
            properties=count_properties(store),
            classes=count_members(store),
        )
        keep_closed(entry, closed)
        _take_part(loading, entry, closed, rules)
    return store, found


def _take_part(loading: _Loading, entry: Path, closed: Closed, rules: RuleTerms | None) -> None:
    if rules is not None:
        from fedkg_compiler.graph.stores.rule_relevant_triples import touched_part

        loading.closed_part = touched_part(entry, closed, rules)


def _filled_and_closed(loading: _Loading, equal: Sequence[ox.Quad], *, tell: bool) -> ox.Store:
    """Everything that is stated and what it entails."""
    store = _filled(loading)
    loading.columns = derive_columns(store)
    store.extend(loading.columns.origins)
    if tell:
        loading.problems += shared_columns(store, loading.columns, loading.graphs)
        loading.problems += several_units(store, loading.columns, loading.graphs)
    data = [*_stated(loading), *loading.columns.origins]
    _close(loading, store, _base(loading), data, equal, tell=tell)
    return store


def _closed_part(
    loading: _Loading, equal: Sequence[ox.Quad], is_kept: Callable[[ox.Quad], bool]
) -> ox.Store:
    """A part of everything that is stated and what this part entails."""

    def kept(triples: Iterable[ox.Quad]) -> list[ox.Quad]:
        return [quad for quad in triples if is_kept(quad)]

    store, data = ox.Store(), kept([*_stated(loading), *_columns(loading).origins])
    store.bulk_extend(data)
    for graph in _graphs_apart(loading):
        store.bulk_extend(in_graph(kept(graph.triples), graph.iri))
    _close(loading, store, kept(_base(loading)), data, kept(equal), tell=True)
    return store


def _graphs_apart(loading: _Loading) -> list[NamedGraph]:
    """The graphs that the default graph does not contain."""
    learned = [graph for graph in _data(loading) if graph.kind == "learned"]
    return [*_vocabularies(loading), *learned]


def _stored(loading: _Loading) -> list[StoredTriples]:
    return [
        document.triples
        for document in loading.graphs
        if isinstance(document.triples, StoredTriples)
    ]


def _filled(loading: _Loading) -> ox.Store:
    """A store of all asserted triples, the user's data in the default graph: the store of a large
    file extended by the other triples, to avoid copying it.
    """
    stores = {
        number: store
        for number, document in enumerate(loading.graphs)
        if isinstance(document.triples, LaterTriples)
        and (store := document.triples.taken()) is not None
    }
    largest = max(stores, key=lambda number: len(stores[number]), default=None)
    whole = ox.Store() if largest is None else stores[largest]
    for number, document in enumerate(loading.graphs):
        if number != largest:
            whole.bulk_extend(stated(document))
    whole.bulk_extend(loading.respelled)
    for graph in _graphs_apart(loading):
        whole.bulk_extend(graph.quads())
    return whole


def _close(
    loading: _Loading,
    store: ox.Store,
    base: Sequence[ox.Quad],
    data: Sequence[ox.Quad],
    equal: Sequence[ox.Quad],
    *,
    tell: bool,
) -> None:
    """Add to a store what its triples entail; nothing, and a problem told, where that is too much.

    The closure of the ontologies is computed separately and cached.

    Args:
        base: the triples of the ontologies.
        data: the triples of the user's data.
        equal: mappings between terms.
        tell: report contradictions.
    """
    ontologies = [document for _, document in loading.ontologies]
    whole = len(base) == sum(len(document.triples) for document in ontologies)
    key = " ".join(sorted(document.sha256 for document in ontologies)) if whole else ""
    try:
        closed = closure(data, base=base, key=key, bridges=equal)
        entailed, known = closed.added_by_origin()
    except TooLarge as error:
        loading.problems.append(_too_large(loading, error))
        store.bulk_extend(equal)
        return
    if equal:
        described = closed.described()
        for quad in equal:
            (entailed if quad.subject in described else known).append(quad)
    store.bulk_extend(entailed)
    store.bulk_extend(in_graph(known, VOCABULARY_INFERRED))
    if not tell:
        return
    if closed.facts.typed(IMP).size:
        loading.problems += unapplied_rules(closed.facts, [*loading.graphs, *ontologies])
    if clashes(closed.facts):
        from fedkg_compiler.graph.contradictions import contradictions

        loading.problems += contradictions(closed, [*loading.graphs, *ontologies])


def _too_large(loading: _Loading, error: TooLarge) -> Diagnostic:
    documents = [*loading.graphs, *(document for _, document in loading.ontologies)]
    name = error.property
    advice = (
        "leave out the part of the graph that no rule needs, or do not declare the property "
        "transitive"
    )
    if error.most < most_pairs():
        advice = f"{advice}; {explain_raise('inferred', 4 * limit('inferred'))}"
    most = max(
        documents, key=lambda document: sum(quad.predicate == name for quad in document.triples)
    )
    return report(
        "FKG118",
        find(most, name.value, *split_iri(name.value)),
        f"more than {error.most:,} triples follow from the graphs, too many of them of "
        f"<{name.value}>",
        help=advice,
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
    local = (
        {
            path.name.removesuffix(suffix)
            for path in beside.iterdir()
            for suffix in RDF_SUFFIXES
            if path.name.endswith(suffix)
        }
        if beside is not None and beside.is_dir()
        else set()
    )
    known = {*loading.catalog.names(), *local}
    meant = closest_name(name, known)
    put = (
        f"put {name}.ttl beside the rule file"
        if beside is not None
        else f"add a file: fedkg ontology add {name} FILE"
    )
    listed = f"known are {', '.join(loading.catalog.names())}; or {put}"
    advice = f"did you mean `{meant}`?" if meant else listed
    if meant and meant == certain_match(name, known):
        advice = Suggestion(advice, name, meant)
    loading.problems.append(report("FKG100", span, f"no ontology is named `{name}`", help=advice))


def _use_file(loading: _Loading, name: str, path: Path) -> None:
    """Load a file beside the rule file.

    The prefix `name` becomes what the file calls so, else its empty prefix.
    """
    document = _load_file(loading, path)
    if document is not None:
        loading.used.add(document.name)
        loading.keep_source(document, "graph")
        namespace = document.prefixes.get(name) or document.prefixes.get("")
        if namespace is not None:
            loading.prefixes.setdefault(name, namespace)


def _load_named(loading: _Loading, name: str) -> None:
    """Load an ontology of the catalogue once: the user's file in place of our module, and our
    additions to it.
    """
    if name in loading.names:
        return
    loading.names.add(name)
    entry = loading.catalog.entries.get(name)
    loading.prefixes.update(loading.catalog.prefixes_of(name))
    for namespace in loading.catalog.prefixes_of(name).values():
        loading.closed[namespace] = name
    opened, replaced = documents_of(loading.catalog, name)
    if entry is not None and entry.partial and not replaced:
        loading.partial |= {
            space for space in entry.all_prefixes().values() if not space.startswith(FEDKG)
        }
    for document, problems in opened:
        _keep_ontology(loading, name, document, problems)


def _keep_ontology(
    loading: _Loading, name: str, document: Document | None, problems: tuple[Diagnostic, ...]
) -> None:
    loading.problems += problems
    if document is not None:
        loading.ontologies.append((name, document))
        loading.keep_source(document, "ontology")


def _load_file(
    loading: _Loading, path: Path | str, relevance: Relevance | None = None
) -> Document | None:
    """Load a graph file, a store or what an endpoint holds once, however often it is named."""
    place = str(path) if is_endpoint(path) else Path(path).resolve()
    if place not in loading.paths:
        document, problems = open_graph(path, at_once=True, relevance=relevance)
        loading.paths[place] = document
        _keep_graph(loading, document, problems)
    return loading.paths[place]


def _keep_graph(
    loading: _Loading, document: Document | None, problems: tuple[Diagnostic, ...]
) -> None:
    loading.problems += problems
    if document is not None:
        loading.graphs.append(document)


def _follow_imports(loading: _Loading) -> None:
    """Load the bundled ontologies and the files that documents import; cycles are allowed."""

    def load_named(name: str) -> list[Document]:
        count = len(loading.ontologies)
        _load_named(loading, name)
        return [document for _, document in loading.ontologies[count:]]

    loading.problems += follow_imports(
        loading.graphs,
        [document for _, document in loading.ontologies],
        name_of_iri=loading.catalog.name_of_iri,
        load_named=load_named,
        load_file=lambda path: _load_file(loading, path),
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
            loading.problems.append(
                report(
                    "FKG109",
                    span,
                    message,
                    help=f"write `prefix {prefix}: <{nearly}>`",
                    severity="warning",
                )
            )
        elif known is not None and known != iri:
            message = f"`{prefix}:` is <{known}> elsewhere, and <{iri}> here"
            advice = f"leave this line out, or choose another prefix for <{iri}>"
            loading.problems.append(
                report("FKG109", span, message, help=advice, severity="warning")
            )
        loading.prefixes[prefix] = iri


def _defined(loading: _Loading) -> dict[str, Definition]:
    """The names that ontologies and graphs define; reports doubtful definitions in the graphs."""
    found: dict[str, Definition] = {}
    for name, document in sorted(loading.ontologies, key=lambda item: (item[0], item[1].name)):
        for iri, entry in definitions(document, name, individuals=True).items():
            _merge(found, iri, entry)
    ontology_names = by_namespace(list(found), loading.closed)
    for document in loading.graphs:
        loading.problems += strangers(
            document, loading.closed, ontology_names, frozenset(loading.partial)
        )
    for document in sorted(loading.graphs, key=lambda item: (Path(item.name).name, item.sha256)):
        for iri, entry in definitions(
            document, Path(document.name).name, individuals=False
        ).items():
            if (
                iri in found
                and found[iri].ontology not in loading.names
                and (twice := told_twice(iri, found[iri], entry, document))
            ):
                loading.problems.append(twice)
            _merge(found, iri, entry)
    loading.problems += two_kinds(
        found, [*loading.graphs, *(document for _, document in loading.ontologies)]
    )
    return found


def _graph(
    loading: _Loading,
    found: Mapping[str, Definition],
    store: ox.Store | Callable[[], ox.Store],
    whole: ox.Store,
    ownership: Ownership | None = None,
    is_kept: Callable[[ox.Quad], bool] | None = None,
    answers: Path | None = None,
) -> Graph:
    """The graph over `store`, with the answers of earlier compilations in the file `answers`.

    Names are known where `whole` has them: it has more triples than `store` where rules touch only
    a part of them, and for a private pack.
    """
    closed = dict(loading.closed)
    vocabulary = Vocabulary(
        prefixes=dict(loading.prefixes),
        closed=closed,
        partial=frozenset(loading.partial),
        terms=by_namespace(list(found), closed),
        unused=_unused(loading),
        declared=_declared(loading),
        graphs=frozenset(_graph_names(loading)),
        store=whole,
        told=store if ownership is not None and isinstance(store, ox.Store) else None,
    )
    return Graph(
        store,
        vocabulary,
        found,
        ownership,
        named=lambda held: _copies(loading, held, is_kept),
        whole=whole if ownership is None else None,
        answers=None if answers is None else RecordedAnswers.from_file(answers),
    )


def _merge(found: dict[str, Definition], iri: str, entry: Definition) -> None:
    """Merge the definitions of one name in two documents.

    The first one that states its kind owns it.
    """
    old = found.get(iri)
    if old is None:
        found[iri] = entry
        return
    owner = old if old.kind != "individual" or entry.kind == "individual" else entry
    found[iri] = Definition(
        owner.ontology,
        owner.kind,
        old.labels | entry.labels,
        old.comments | entry.comments,
        old.kinds | entry.kinds,
    )


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
