"""Validates graphs against shapes: `fedkg validate`.

The data graph is the union of the data, the shapes and what they import, so that classes that an
ontology beside the shapes defines are known. Focus nodes come from the data alone. fedkg draws no
conclusions except those of `sh:rule`: the recommendation asks for none but the subclasses of target
classes and `sh:class`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from rdflib import Graph
from rdflib.term import Node

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg.errors import UsageError
from fedkg.limits import pause_garbage_collection
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.shacl.constraint_queries import Undecidable
from fedkg_compiler.frontends.shacl.inference_rules import Rule, RuleProblem, RuleRun, read_rules
from fedkg_compiler.frontends.shacl.prebound_query_execution import hide_graphs
from fedkg_compiler.frontends.shacl.shape_source_positions import JoinedTexts
from fedkg_compiler.frontends.shacl.shapes_cache import find_shapes, keep_shapes, shapes_entry
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    SPACE,
    Data,
    ShapeNames,
    ShapesFile,
    Terms,
    add_triples,
    memory_graph,
    quiet,
    shapes_of,
)
from fedkg_compiler.frontends.shacl.validation_report import Report, Result, sorted_results
from fedkg_compiler.frontends.shacl.validator import Validator
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.document_cache import read_known_file
from fedkg_compiler.graph.ontologies import documents_of, follow_imports, load_catalog
from fedkg_compiler.graph.rdf_reader import (
    Document,
    graphs_of,
    in_graph,
    ontology_graph,
    read_file,
    rename_shared_blank_nodes,
)
from fedkg_compiler.graph.sparql_syntax.tokens import names_graph
from fedkg_compiler.input_files import is_endpoint, is_store


@dataclass(slots=True)
class _Inputs:
    """Documents of a validation: the data, the shapes, and what both import."""

    data: list[Document] = field(default_factory=list)
    shapes: list[Document] = field(default_factory=list)
    imported: list[Document] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    paths: dict[Path | str, Document | None] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    ontologies: dict[int, str] = field(default_factory=dict)
    """The named graphs of ontologies, by the identity of their documents."""

    def read(self, path: Path | str, into: list[Document]) -> Document | None:
        """Read a file, a store or an endpoint once."""
        place = str(path) if is_endpoint(path) else Path(path).resolve()
        if place not in self.paths:
            document, problems = _opened(path, is_data=into is self.data)
            self.problems += problems
            self.paths[place] = document
        found = self.paths[place]
        if found is not None and not any(found is document for document in into):
            into.append(found)
        return found

    def all(self) -> list[Document]:
        """Every document once."""
        return list({id(one): one for one in (*self.data, *self.shapes, *self.imported)}.values())


def _opened(path: Path | str, *, is_data: bool) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Read a file, a store or an endpoint; shapes and ontologies from the cache, as they change
    less often than data.
    """
    if is_endpoint(path) or is_store(Path(path)):
        # Only these need the loader of rule files, and its import takes longer than a validation.
        from fedkg_compiler.graph.load import open_graph

        return open_graph(path)
    return read_file(Path(path)) if is_data else read_known_file(Path(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The report, None if there are errors in the diagnostics."""

    report: Report | None
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """What the validation in another process finds."""

    results: list[Result]
    inferred: int
    focus_nodes: int
    unused: set[Node]
    """The shapes with targets but without focus nodes."""


@dataclass(frozen=True, slots=True)
class _Rejected:
    """Why the shapes cannot be evaluated; a mistake in `queries`, else `word` in `shape`: where."""

    sentence: str
    shape: Node | None
    word: str
    queries: tuple[str, ...] = ()


@pause_garbage_collection()
def validate_graph(
    data: Sequence[Path | str], shapes: Sequence[Path | str], ontologies: Sequence[Path | str] = ()
) -> Validation:
    """Validate graphs against shapes.

    Args:
        data: files, stores or endpoints; their nodes are the focus nodes. shapes: files with
            shapes; if there is none, those of the data. ontologies: further graphs that data and
            shapes refer to.

    Raises:
        UsageError: there are no shapes.
        LimitError: a file is above a limit, or the validation takes too long.
    """
    inputs = _Inputs()
    for path in data:
        inputs.read(path, inputs.data)
    for path in shapes or data:
        inputs.read(path, inputs.shapes)
    for path in ontologies:
        inputs.read(path, inputs.imported)
    _import(inputs)
    if any(problem.severity == "error" for problem in inputs.problems):
        return Validation(report=None, diagnostics=tuple(inputs.problems))
    with quiet():
        return _validate(inputs)


def _import(inputs: _Inputs) -> None:
    catalog = load_catalog()

    def load_named(name: str) -> list[Document]:
        if name in inputs.names:
            return []
        inputs.names.add(name)
        found = []
        for document, problems in documents_of(catalog, name)[0]:
            inputs.problems += problems
            if document is not None:
                bundled = not document.name.startswith(str(catalog.shelf))
                inputs.ontologies[id(document)] = ontology_graph(name, bundled=bundled)
                found.append(document)
        inputs.imported += found
        return found

    def load_file(path: Path) -> Document | None:
        return inputs.read(path, inputs.imported)

    inputs.problems += follow_imports(
        inputs.all(),
        [],
        name_of_iri=catalog.name_of_iri,
        load_named=load_named,
        load_file=load_file,
    )


def _validate(inputs: _Inputs) -> Validation:
    documents = inputs.all()
    renamed = rename_shared_blank_nodes(documents)
    now = {id(old): new for old, new in zip(documents, renamed, strict=True)}
    own = [now[id(document)] for document in inputs.data]
    others = [document for document in renamed if not any(document is one for one in own)]
    with_shapes = [now[id(one)] for one in (*inputs.shapes, *inputs.imported)]
    terms = Terms()
    is_apart = list(map(id, with_shapes)) == list(map(id, others))  # no file is also data
    entry = shapes_entry(with_shapes) if is_apart and renamed == documents else None
    known = None if entry is None else find_shapes(entry)
    try:
        shapes = (
            shapes_of(with_shapes, memory_graph(_triples(with_shapes), terms))
            if known is None
            else known[0]
        )
    except RecursionError:
        problem = report(
            "FKG311",
            point(with_shapes[0].name),
            "the shapes of this file are nested too deeply",
            help="give the inner shapes names, and fewer levels",
        )
        return Validation(report=None, diagnostics=(*inputs.problems, problem))
    if shapes is None:
        first, more = Path(with_shapes[0].name).name, len(with_shapes) - 1
        many = f"{first} and {more} more file{'s' if more > 1 else ''} contain"
        raise UsageError(
            f"{many if more else f'{first} contains'} no SHACL shapes",
            expected="a sh:NodeShape or a sh:PropertyShape",
            help="give the data first, then the files with shapes",
        )
    texts = JoinedTexts(with_shapes)
    problems = [*inputs.problems, *_malformed(shapes, texts)]
    if any(problem.severity == "error" for problem in problems):
        return Validation(report=None, diagnostics=tuple(problems))
    try:
        rules = read_rules(shapes) if known is None else known[1]
        if entry is not None and known is None and not shapes.problems:
            keep_shapes(entry, shapes, rules)
    except RuleProblem as error:
        problems.append(_not_evaluated(_of_rule(error), shapes, texts))
        return Validation(report=None, diagnostics=tuple(problems))
    entailment = next(shapes.graph.subject_objects(SH.entailment), None)
    if entailment is not None:
        node, regime = entailment
        sentence = f"sh:entailment asks for the inferences of <{regime}>, which are not applied"
        problems.append(_not_evaluated(_Rejected(sentence, node, "entailment"), shapes, texts))
        return Validation(report=None, diagnostics=tuple(problems))
    graph = shapes.graph.copy() if is_apart else memory_graph(_triples(others), terms)
    foreign = graph.nodes() - {terms[quad.subject] for quad in _triples(own)}
    add_triples(graph, _triples(own), terms)
    store = ox.Store()
    for document in renamed:
        store.bulk_extend(document.triples)
    if _names_graph(shapes.graph):
        for old, new in zip(documents, renamed, strict=True):
            iri = inputs.ontologies.get(id(old))
            for named in graphs_of(new):
                store.bulk_extend(in_graph(named.triples, iri or named.iri))
    prefixes = {
        prefix: iri for document in reversed(renamed) for prefix, iri in document.prefixes.items()
    }
    try:
        found = run_apart(
            lambda: _evaluate(shapes, rules, store, graph, foreign, prefixes),
            "the validation",
            name="seconds",
        )
    except Crashed as error:
        found = _Rejected(str(error), None, "")
    if isinstance(found, _Rejected):
        problems.append(_not_evaluated(found, shapes, texts))
        return Validation(report=None, diagnostics=tuple(problems))
    names = ShapeNames(shapes, graph, Problems(), texts.located)
    unchecked = [*names.tell_unknown(), *names.tell_lost()]
    names.tell_values()
    for shape in shapes.targeted():
        if shape.node in found.unused:
            names.tell_class(shape)
    problems += names.problems.all()
    made = Report(
        results=sorted_results(found.results),
        shapes=shapes,
        place=lambda node: texts.place(shapes, node),
        inferred=found.inferred,
        focus_nodes=found.focus_nodes,
        unchecked=len(unchecked),
        prefixes=prefixes,
    )
    return Validation(report=made, diagnostics=tuple(problems))


def _triples(documents: Iterable[Document]) -> Iterator[ox.Quad]:
    return (quad for document in documents for quad in document.triples)


def _names_graph(shapes: Graph) -> bool:
    """Whether a query of shapes addresses a named graph: only then the store has them."""
    return any(
        names_graph(str(query))
        for name in (SH.select, SH.ask, SH.construct)
        for query in shapes.objects(None, name)
    )


def _not_evaluated(found: _Rejected, shapes: ShapesFile, texts: JoinedTexts) -> Diagnostic:
    # Only mistakes need the parser of queries.
    from fedkg_compiler.frontends.shacl.query_syntax_problem import find_syntax_problem

    problem = find_syntax_problem(shapes, found.queries)
    advice = "correct this shape" if found.shape is not None else "correct the shapes"
    return report(
        "FKG316",
        texts.located(*problem.place)
        if problem is not None and problem.place is not None
        else texts.span(shapes, found.shape, found.word),
        "the shapes cannot be evaluated: "
        + (found.sentence if problem is None else problem.sentence),
        help=(problem is not None and problem.help) or advice,
    )


def _of_rule(error: RuleProblem) -> _Rejected:
    return _Rejected(error.sentence, error.shape, "rule", error.queries)


def _evaluate(
    shapes: ShapesFile,
    rules: Sequence[Rule],
    store: ox.Store,
    graph: Graph,
    foreign: Set[Node],
    prefixes: dict[str, str],
) -> _Found | _Rejected:
    """Apply the rules and validate all targets, in the process of this call.

    Args:
        store, graph: the same data, for queries and for everything else. foreign: nodes of the
            graph that are not nodes of the data.
    """
    data = Data(
        graph,
        foreign=foreign,
        queried=lambda text: store.query(hide_graphs(text), custom_functions=validator.functions),
    )
    results: list[Result] = []
    checked: set[Node] = set()
    unused: set[Node] = set()
    try:
        validator = Validator(shapes, data, store, prefixes)
        inferred = RuleRun(rules, store, graph, validator).run()
        for shape in shapes.targeted():
            if not shape.deactivated:
                nodes = data.focus_nodes(shape)
                checked.update(nodes)
                if not nodes:
                    unused.add(shape.node)
                results += validator.results(shape.node, nodes)
    except RuleProblem as error:
        return _of_rule(error)
    except Undecidable as error:
        return _Rejected(str(error), error.shape, "", error.queries)
    except ValueError as error:
        sentence = f"the target cannot be evaluated: {error}"
        return _Rejected(sentence, shape.node, "target", shape.target_queries)
    return _Found(results, inferred, len(checked), unused)


def _malformed(shapes: ShapesFile, texts: JoinedTexts) -> list[Diagnostic]:
    """An error for each shape that is not well formed."""
    found = []
    for node, parameter, reason in shapes.problems:
        line = shapes.lines.get(node, 1)
        place = shapes.locate(line, parameter, SPACE) if parameter else (line, 1, 1)
        found.append(
            report(
                "FKG311",
                texts.located(*place),
                f"this shape cannot be read: {reason}",
                help=f"correct the value of sh:{parameter}; `fedkg explain FKG311` shows an example"
                if parameter
                else "add the path: `sh:path PROPERTY`",
            )
        )
    return found


__all__ = ["Validation", "validate_graph"]
