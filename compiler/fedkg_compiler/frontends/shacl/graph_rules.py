"""Applies the rules of shapes (`sh:rule`) to the graph of a compilation.

The rules run on the closed graph, before anything is bound to it; OWL draws no conclusions from
what they add. A rule that mentions a property of the table, or a table in which the rows themselves
are the entities, would need the rules on every row: fedkg rejects it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rdflib import BNode, URIRef
from rdflib.term import Node

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.shacl.constraint_queries import Undecidable
from fedkg_compiler.frontends.shacl.inference_rules import Rule, RuleProblem, RuleRun, read_rules
from fedkg_compiler.frontends.shacl.prebound_query_execution import iris_of
from fedkg_compiler.frontends.shacl.query_syntax_problem import find_syntax_problem
from fedkg_compiler.frontends.shacl.shape_conditions import Observer
from fedkg_compiler.frontends.shacl.shape_source_positions import JoinedTexts
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SPACE,
    Data,
    ShapesFile,
    StoredTerms,
    behind_rdflib,
    memory_graph,
    quiet,
    shapes_of,
)
from fedkg_compiler.frontends.shacl.validator import Validator
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.graph.sparql_syntax.tokens import names_graph, tokens
from fedkg_compiler.input_files import holds_shapes

_NOT_APPLIED = "this rule is not applied, and other shapes may need its facts: {}"
_CORRECT = "correct the rule, or take it out of the file; for data in RDF: `fedkg validate`"


def apply_rules(paths: Sequence[Path], sources: Sources) -> None:
    """Apply the rules in files with shapes to the graph; report those that cannot be applied."""
    if sources.graph is None:
        return
    with quiet():
        documents = [
            document
            for path in paths
            if holds_shapes(path) and (document := read_file(path)[0]) is not None
        ]
        try:
            shapes = shapes_of(documents)
        except RecursionError:
            return  # reported when the shapes are bound
        if shapes is not None:
            _apply(shapes, documents, sources)


def reject_rules_on_rows(shapes: ShapesFile) -> Diagnostic | None:
    """Return the error for the first rule in a file if table rows are the entities.

    None if the file has no active rule.
    """
    try:
        rules = read_rules(shapes)
        if not rules:
            return None
        problem = _on_rows(rules[0])
    except RuleProblem as error:
        problem = error
    line, column, width = shapes.locate(shapes.lines.get(problem.shape, 1), "rule", SPACE)
    span = point(shapes.name, line, column, width=width)
    return report("FKG312", span, _NOT_APPLIED.format(problem.sentence), help=_CORRECT)


def _apply(shapes: ShapesFile, documents: Sequence[Document], sources: Sources) -> None:
    assert sources.graph is not None
    store = sources.graph.store
    data = Data(behind_rdflib(store, everywhere=True), behind_rdflib(store))
    observer = Observer(sources, data, shapes)
    texts = JoinedTexts(documents)
    try:
        rules = read_rules(shapes)
        for rule in rules:
            _require_static(rule, shapes, observer)
        if not rules:
            return
        prefixes = dict(shapes.prefixes)
        added = run_apart(
            lambda: _run(rules, shapes, store, prefixes), "the rules of the shapes", name="seconds"
        )
        if isinstance(added, RuleProblem):
            raise added
        sources.graph.extend(added)
    except RuleProblem as error:
        problem = find_syntax_problem(shapes, error.queries)
        sources.problems.error(
            "FKG312",
            texts.located(*problem.place)
            if problem is not None and problem.place is not None
            else texts.span(shapes, error.shape, "rule"),
            _NOT_APPLIED.format(error.sentence if problem is None else problem.sentence),
            (problem is not None and problem.help) or _CORRECT,
        )
    except Crashed as error:
        sources.problems.error(
            "FKG312",
            texts.span(shapes, None, ""),
            str(error),
            "simplify the rules and the shapes that they name",
        )


def _run(
    rules: Sequence[Rule], shapes: ShapesFile, store: ox.Store, prefixes: dict[str, str]
) -> list[ox.Quad] | RuleProblem:
    """The triples that the rules add, in the process of this call."""
    memory = ox.Store()  # the graph of the compilation may be in a store that is read-only
    memory.bulk_extend(iter(store))
    terms = StoredTerms()  # equal to those of `shapes`
    graph = memory_graph(memory, terms)
    try:
        validator = Validator(shapes, Data(graph), memory, prefixes)
        run = RuleRun(rules, memory, graph, validator, targets=behind_rdflib(memory), terms=terms)
        run.run()
        return run.new
    except RuleProblem as error:
        return error
    except Undecidable as error:
        shape = error.shape or rules[0].shape.node
        return RuleProblem(str(error), shape, rules[0].node, error.queries)
    return run.new


def _require_static(rule: Rule, shapes: ShapesFile, observer: Observer) -> None:
    """Raise RuleProblem if a rule has to do with the table, or reads named graphs."""
    if observer.sources.names.rows_class is not None:
        raise _on_rows(rule)
    if any(map(names_graph, rule.construct)):
        # The graph of a compilation has ontologies and inferences, but no graph of each file.
        sentence = "it has GRAPH, which addresses the graphs of files in `fedkg validate` alone"
        raise RuleProblem(sentence, rule.shape.node, rule.node)
    for name in sorted(_mentioned(rule, shapes)):
        if observer.is_observed(URIRef(name)):
            sentence = f"it reads or adds <{name}>, which is a property of the table"
            raise RuleProblem(sentence, rule.shape.node, rule.node)


def _on_rows(rule: Rule) -> RuleProblem:
    sentence = "the rows of the table are entities, and fedkg applies rules to graphs only"
    return RuleProblem(sentence, rule.shape.node, rule.node)


def _mentioned(rule: Rule, shapes: ShapesFile) -> set[str]:
    """The IRIs in a rule, its targets and its conditions, with the shapes that these name."""
    found = {str(target.value) for target in rule.shape.targets}
    for text in rule.construct:
        found |= iris_of(tokens(text))
    waiting: list[Node] = [rule.node]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for value in shapes.graph.objects(node):
            if isinstance(value, URIRef):
                found.add(str(value))
            if isinstance(value, BNode) or value in shapes.shapes:
                waiting.append(value)
    return found
