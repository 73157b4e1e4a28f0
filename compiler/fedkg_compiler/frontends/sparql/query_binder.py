"""Binds query files: queries of one shape are parsed once and answered together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from fedkg._internal.name_matching import nearest_name
from fedkg.pack import RuleRecord
from fedkg_compiler.frontends.sparql.answer_frames import Batch
from fedkg_compiler.frontends.sparql.branch_constraint_rows import Found, RowMaker, solutions
from fedkg_compiler.frontends.sparql.branch_tree import Branch
from fedkg_compiler.frontends.sparql.graph_table_split import Splitter
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.frontends.sparql.observed_entity_enumeration import NotTogether
from fedkg_compiler.frontends.sparql.query_tree_builder import read_tree
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.ontologies import Vocabulary
from fedkg_compiler.graph.query_process import query_at
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText, SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Const, Part, Query, SubSelect, Triple, walk
from fedkg_compiler.graph.sparql_syntax.variable_scope import in_scope, shown, unbound
from fedkg_compiler.ir import BankRows, GraphVerdict, PartOutcome, Program, Refusal, placement_of

_LISTED = 5
_BETWEEN = "; "


class QueryBinder:
    """Binds queries shape by shape; the outcome of each query is kept until all are done, so that
    they come out in order.
    """

    def __init__(self, graph: Graph, observations: Observations) -> None:
        self.graph = graph
        self.observations = observations
        self.problems = observations.sources.problems
        self.maker = RowMaker(graph, observations, self._record)
        self.outcomes: dict[str, PartOutcome] = {}
        self.records: dict[str, RuleRecord] = {}
        self.fine: set[str] = set()

    def bind(self, queries: Sequence[QueryText]) -> Program:
        """The rows, placements and places of all queries."""
        shapes: dict[str, list[QueryText]] = {}
        for query in queries:
            shapes.setdefault(query.form.shape, []).append(query)
        for alike in shapes.values():
            with query_at(alike[0].start.file, alike[0].start.line):
                self._shape(alike)
        outcomes = [self.outcomes[query.name] for query in queries]
        return Program(
            rows=tuple(row for one in outcomes if isinstance(one, BankRows) for row in one.rows),
            places={query.name: query.start for query in queries},
            placements=tuple(
                placement_of(one, _short(query))
                for one, query in zip(outcomes, queries, strict=True)
            ),
        )

    def _shape(self, queries: list[QueryText]) -> None:
        """Queries with the same words but for constants: parsed once, and bound together where
        closed constants agree.
        """
        first = queries[0]
        try:
            tree = read_tree(queries, self.observations)
        except SparqlProblem as problem:
            for query in queries:
                self._refuse(query, problem)
            return
        nodes = [node for node in walk(tree) if isinstance(node, Const)]
        open_ = {node.token: node for node in nodes if node.open}
        fixed = [i for i in first.form.holes if i not in open_]
        places = [first.form.holes[i] for i in fixed]
        written: dict[tuple[object, ...], list[QueryText]] = {}
        for query in queries:
            if query.prologue.has(query.constants):
                written.setdefault(
                    (id(query.prologue), *[query.constants[i] for i in places]), []
                ).append(query)
            else:
                self._refuse(query, _unknown_prefix(query))
        groups: dict[tuple[str, ...], list[QueryText]] = {}
        for alike in written.values():
            groups.setdefault(tuple(alike[0].constant(i) for i in fixed), []).extend(alike)
        predicates = {*_predicates(tree)}
        numbers = set() if tree.aggregates else {n.token for n in nodes if n.kind == "number"}
        several: dict[tuple[Hashable, ...], list[list[QueryText]]] = {}
        for constants, group in groups.items():
            self._check_names(group)
            self.observations.span = group[0].span(tree.at)
            likeness = tuple(
                self.observations.likeness(text[1:-1])
                if i in predicates
                else None
                if i in numbers
                else text
                for i, text in zip(fixed, constants, strict=True)
            )
            several.setdefault(likeness, []).append(group)
        for likeness, together in several.items():
            varying = tuple(
                i
                for i, like in zip(fixed, likeness, strict=True)
                if like != together[0][0].constant(i)
            )
            self._together(tree, open_, together, varying if len(together) > 1 else ())

    def _together(
        self,
        tree: Query,
        open_: dict[int, Const],
        groups: Sequence[list[QueryText]],
        varying: tuple[int, ...],
    ) -> None:
        """Bind groups that differ in these constants: at once where that is possible."""
        if varying:
            whole = [query for group in groups for query in group]
            with suppress(NotTogether):
                self._group(tree, open_, whole, varying)
                return
        for group in groups:
            self._group(tree, open_, group)

    def _check_names(self, group: Sequence[QueryText]) -> None:
        """Complain of names that nothing knows, as patterns in rules do."""
        form, vocabulary = group[0].form, self.graph.vocabulary
        names = [
            i
            for i in form.holes
            if form.kinds[i] in ("iri", "pname") and not (i and form.texts[i - 1] == "^^")
        ]
        seen: set[tuple[int, str]] = set()
        for query in group:
            for i in names:
                word = id(query.prologue), query.word(i)
                if word not in seen:
                    seen.add(word)
                    self._check_name(query, i, vocabulary)

    def _check_name(self, query: QueryText, token: int, vocabulary: Vocabulary) -> None:
        iri = query.constant(token)[1:-1]
        if iri in self.fine:
            return
        wrong = (
            ()
            if self.observations.signal(iri) is not None
            else vocabulary.check(iri, query.word(token), point(query.file))
        )
        self.problems.add(replace(item, span=query.span((token, token))) for item in wrong)
        if not wrong:
            self.fine.add(iri)

    def _group(
        self,
        tree: Query,
        open_: dict[int, Const],
        queries: list[QueryText],
        varying: tuple[int, ...] = (),
    ) -> None:
        """Queries with the same closed constants but for those of `varying`.

        Raises NotTogether.
        """
        self.observations.span = queries[0].span(tree.at)
        try:
            branches = Splitter(queries[0], self.observations, varying).split(tree)
        except SparqlProblem as problem:
            for query in queries:
                self._refuse(query, problem)
            return
        within = {
            node.token
            for branch in branches
            for part in branch.static
            for node in _inside(part)
            if node.token in open_
        }
        alike: dict[tuple[str, ...], list[QueryText]] = {}
        for query in queries:
            alike.setdefault(tuple(query.constant(token) for token in sorted(within)), []).append(
                query
            )
        rest = {token: node for token, node in open_.items() if token not in within}
        for group in alike.values():
            self._answered(
                tree,
                branches,
                Batch(
                    queries=group,
                    open=rest,
                    graph=self.graph,
                    observations=self.observations,
                    varying=varying,
                ),
            )

    def _answered(self, tree: Query, branches: Sequence[Branch], batch: Batch) -> None:
        """Retry each half of a batch that fails, so that one query cannot make others fail."""
        queries = batch.queries
        try:
            found = solutions(tree, branches, batch, self.maker, shown(tree))
        except SparqlProblem as problem:
            if len(queries) == 1:
                self._refuse(queries[0], problem)
                return
            half = len(queries) // 2
            for some in (queries[:half], queries[half:]):
                self._answered(tree, branches, replace(batch, queries=some))
            return
        for query, what in zip(queries, found, strict=True):
            self._report_result(query, what, tree)

    # ---- diagnostics

    def _record(self, query: QueryText) -> RuleRecord:
        if query.name not in self.records:
            self.records[query.name] = RuleRecord.model_validate(
                {
                    "name": query.name,
                    "title": query.title,
                    "kind": query.kind,
                    "weight": query.weight,
                    "hard": query.hard,
                    "text": query.text,
                    "file": _short(query),
                    "line": 1,
                }
            )
        return self.records[query.name]

    def _report_result(self, query: QueryText, found: Found, tree: Query) -> None:
        if found.never and not found.rows and not found.violations:
            at, reason = found.never[0]
            message = f"the condition is never true: {reason}"
            self._refuse(query, SparqlProblem("FKG343", at, message, "compare values of one kind"))
            return
        if found.violations:
            count = len(found.violations)
            listed = _BETWEEN.join(
                text for terms in found.violations[:_LISTED] if (text := self.maker.label(terms))
            )
            more = f" and {count - _LISTED} more" if count > _LISTED else ""
            many = f"{count} violations" if count > 1 else "one violation"
            shown = f": {listed}{more}" if listed else ""
            self.problems.warning(
                "FKG348",
                query.span(tree.at),
                f"the graph has {many} of `{query.name}`{shown}",
                "correct the graph or the query",
            )
        if not found.rows and found.reads and not found.violations:
            message, open_ = (
                f"nothing fits the query `{query.name}`: it applies to nothing",
                unbound(tree),
            )
            if open_ is None:
                self.problems.warning(
                    "FKG350",
                    query.span(tree.at),
                    message,
                    "load the graph that has the facts, or correct the query",
                )
            else:
                near = nearest_name(open_.name, sorted(in_scope(tree.where.parts)))
                advice = f"did you mean `?{near}`?" if near else "write a pattern that gives it one"
                self.problems.warning(
                    "FKG350",
                    query.span(open_.at),
                    f"{message}; no pattern gives ?{open_.name} a value",
                    advice,
                )
        part, violated = query.title or query.name, bool(found.violations)
        self.outcomes[query.name] = (
            BankRows(part=part, rows=tuple(found.rows), graph_violates=violated)
            if found.rows
            else GraphVerdict(
                part=part,
                conforms=not violated,
                reason="no solution fits its static part"
                if found.reads
                else "it reads nothing that is observed",
            )
        )

    def _refuse(self, query: QueryText, problem: SparqlProblem) -> None:
        span = query.span(problem.at)
        self.problems.error(problem.code, span, problem.message, problem.help)
        self.outcomes[query.name] = Refusal(
            part=query.title or query.name,
            span=span,
            reason=f"line {span.line}: `{query.written(problem.at)}`: {problem.message}"
            if query.tokens
            else problem.message,
        )


def _short(query: QueryText) -> str:
    return query.file.replace("\\", "/").rsplit("/", 1)[-1]


def _unknown_prefix(query: QueryText) -> SparqlProblem:
    """What is wrong with a query that has a name without a known prefix."""
    for token in query.form.holes:
        try:
            query.constant(token)
        except SparqlProblem as problem:
            return problem
    raise AssertionError("all prefixes are known")


def _predicates(tree: Query) -> Iterator[int]:
    """The tokens of constants that are predicates of triples, and nothing else."""
    for node in walk(tree):
        if isinstance(node, Triple) and isinstance(node.predicate, Const):
            yield node.predicate.token


def _inside(part: Part) -> list[Const]:
    """The constants of sub-selects, where a variable in their place would not mean the same."""
    return [
        node
        for item in walk(part)
        if isinstance(item, SubSelect)
        for node in walk(item)
        if isinstance(node, Const)
    ]
