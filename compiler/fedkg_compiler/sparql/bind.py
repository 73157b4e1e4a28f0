"""From the queries of one shape to bound rows: one question to the graph, one formula for each kind of rows.

Letters: N rows of a frame, P rows of a part, Q queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from fedkg.pack import Formula, Placement, RuleRecord
from fedkg_compiler.binding.outcome import Outcome
from fedkg_compiler.binding.rule import BoundRows
from fedkg_compiler.lowering.rows import Codes, Rows, SlotColumn
from fedkg_compiler.ontology.graph import Graph
from fedkg_compiler.ontology.terms import Iri, Literal, local_name
from fedkg_compiler.passes.hard import bent_comparisons
from fedkg_compiler.passes.scales import set_scales
from fedkg_compiler.sparql.branches import Branch
from fedkg_compiler.sparql.compact import compact
from fedkg_compiler.sparql.formulas import opposite
from fedkg_compiler.sparql.frames import Answer, Batch, Frame, Ids, make_frame, node_values
from fedkg_compiler.sparql.members import conditions, keys_of
from fedkg_compiler.sparql.observed import Observations
from fedkg_compiler.sparql.parser import parse_query
from fedkg_compiler.sparql.parts import Part, partition
from fedkg_compiler.sparql.reading import Lowering
from fedkg_compiler.sparql.scope import projected
from fedkg_compiler.sparql.shape import QueryText, SparqlProblem
from fedkg_compiler.sparql.split import Splitter
from fedkg_compiler.sparql.tree import Const, Group, Node, Query, walk

_LISTED = 5


@dataclass(slots=True, kw_only=True)
class _Found:
    """What one query has come to so far.

    Attributes:
        rows: bound constraints. static: its solutions that depend on nothing observed, the first few in words, and their number.
        reads: whether any branch of it reads the table.
    """

    rows: int = 0
    static: list[str] = field(default_factory=list)
    violations: int = 0
    reads: bool = False


class QueryBinder:
    """Binds queries shape by shape; rows and placements are kept by query until all are done, so that they come out in order."""

    def __init__(self, graph: Graph, observations: Observations, outcome: Outcome) -> None:
        self.graph = graph
        self.observations = observations
        self.outcome = outcome
        self.problems = observations.sources.problems
        self.parts: dict[str, list[BoundRows]] = {}
        self.placed: dict[str, Placement] = {}
        self.records: dict[str, RuleRecord] = {}
        self.labels: dict[str, str] = {}

    def bind(self, queries: Sequence[QueryText]) -> None:
        """Bind all queries."""
        shapes: dict[str, list[QueryText]] = {}
        for query in queries:
            shapes.setdefault(query.shape, []).append(query)
        for alike in shapes.values():
            self._shape(alike)
        for query in queries:
            self.outcome.rows += self.parts.get(query.name, ())
            self.outcome.placements.append(self.placed[query.name])

    def _shape(self, queries: list[QueryText]) -> None:
        """Queries with the same words but for constants: parsed once, and bound together where closed constants agree."""
        first = queries[0]
        try:
            self._check_syntax(first)
            tree = _closed(parse_query(first.words, classes_closed=self.observations.sources.names.rows_class is not None))
        except SparqlProblem as problem:
            for query in queries:
                self._refuse(query, problem)
            return
        nodes = [node for node in walk(tree) if isinstance(node, Const)]
        open_ = {node.token: node for node in nodes if node.open}
        fixed = [i for i, word in enumerate(first.words) if word.kind in ("iri", "pname", "number", "string") and i not in open_]
        groups: dict[tuple[str, ...], list[QueryText]] = {}
        for query in queries:
            try:
                for token in open_:
                    query.constant(token)
                groups.setdefault(tuple(query.constant(i) for i in fixed), []).append(query)
            except SparqlProblem as problem:
                self._refuse(query, problem)
        for group in groups.values():
            self._check_names(group)
            try:
                self._group(tree, open_, group)
            except SparqlProblem as problem:
                for query in group:
                    self._refuse(query, problem)
            except ValueError as error:
                for query in group:
                    self._refuse(query, SparqlProblem("FKG343", tree.at, f"the graph cannot answer this query: {error}"))

    def _check_syntax(self, query: QueryText) -> None:
        """What the store's own parser refuses is no SPARQL."""
        found = self.graph.sparql_problem(query.text)
        if found is None:
            return
        for i, word in enumerate(query.words):
            if word.kind == "pname":
                query.constant(i)
        line, column = found[1], found[2]
        lines = query.text.split("\n")
        offset = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
        at = next((i for i, word in enumerate(query.words) if word.end > offset), max(len(query.words) - 1, 0))
        parse_query(query.words)  # says it better where it finds something
        shown = query.written((at, at)) if query.words else "its end"
        raise SparqlProblem("FKG341", (at, at), f"the query is not SPARQL near `{shown}`")

    def _check_names(self, group: Sequence[QueryText]) -> None:
        """Complain of names that nothing knows, as patterns in rules do."""
        seen: set[str] = set()
        vocabulary = self.graph.vocabulary
        for query in group:
            for i, word in enumerate(query.words):
                if word.kind not in ("iri", "pname") or (i and query.words[i - 1].text == "^^"):
                    continue
                iri = query.constant(i)[1:-1]
                if iri not in seen and len(seen) < 20_000:
                    seen.add(iri)
                    if self.observations.signal(iri) is None:
                        self.problems.add(vocabulary.check(iri, word.text, query.span((i, i))))

    def _group(self, tree: Query, open_: dict[int, Const], queries: list[QueryText]) -> None:
        batch = Batch(queries=queries, open=open_, graph=self.graph, observations=self.observations)
        self.observations.span = queries[0].span(tree.at)
        branches = Splitter(queries[0], self.observations).split(tree)
        found = [_Found() for _ in queries]
        shown = projected(tree) if tree.form == "select" else frozenset()
        made = [(branch, self._branch(branch, batch, shown, found)) for branch in branches]
        for _, parts in made:
            for name, rows in parts:
                self.parts.setdefault(name, []).append(rows)
        for query, what in zip(queries, found, strict=True):
            self._place(query, what, tree)

    def _branch(self, branch: Branch, batch: Batch, shown: frozenset[str], found: list[_Found]) -> list[tuple[str, BoundRows]]:
        wanted = sorted(name for name in shown & branch.facts if not name.startswith("_"))
        frame = make_frame(branch, batch, None, wanted=wanted)
        made: list[tuple[str, BoundRows]] = []
        reads = not branch.is_static
        for what in found:
            what.reads |= reads
        self._tell_without(frame)
        for at in partition(frame):
            self._part(Part(frame=frame, at=at, rows=Rows(at.shape[0])), wanted, found, made)
        return made

    def _part(self, part: Part, wanted: list[str], found: list[_Found], made: list[tuple[str, BoundRows]]) -> None:
        state = Lowering()
        branch, batch = part.frame.branch, part.frame.batch
        truth = conditions(part, branch, state)
        if truth is False:
            return
        labels = self._labels(part, wanted)
        query = part.frame.query[part.at]
        if truth is True:
            for q, label in zip(query.tolist(), labels, strict=True):
                found[q].violations += 1
                if len(found[q].static) < _LISTED:
                    found[q].static.append(label)
            return
        formula, rows = compact(opposite(truth), part.rows)
        set_scales(formula, rows, self.observations.sources.book)
        keys = keys_of(part)
        kept = np.array([i for i in range(len(keys)) if not self._torn(part, i)], dtype=np.int64)
        if kept.size < len(keys):
            at = branch.observed[0].at
            self.problems.warning(
                "FKG346",
                batch.queries[int(query[0])].span(at),
                f"{len(keys) - kept.size} solutions set values beside each other that stand in different rows of the table",
                "give the entities columns of their own",
            )
        unit = next(iter(state.compared)) if len(state.compared) == 1 else ""
        order = kept[np.argsort(query[kept], kind="stable")]
        bounds = np.flatnonzero(np.diff(query[order], prepend=-1)).tolist() if order.size else []
        for start, end in zip(bounds, [*bounds[1:], order.size], strict=True):
            own = order[start:end]
            q = int(query[own[0]])
            found[q].rows += end - start
            text = batch.queries[q]
            self._warn_hard(text, formula)
            bound = BoundRows(
                rule=self._record(text),
                formula=formula,
                rows=take_rows(rows, own) if own.size < rows.count else rows,
                keys=tuple(tuple(sorted(keys[i].items())) for i in own.tolist()),
                entities=tuple(labels[i] for i in own.tolist()),
                unit=unit,
            )
            made.append((text.name, bound))

    def _torn(self, part: Part, row: int) -> bool:
        """Whether what a row reads stands in different rows of the table."""
        own: dict[str, str] = {}
        for reading in part.frame.readings.values():
            where = int(reading.at[part.at[row]])
            key = reading.places[where].key if where >= 0 else None
            if key is not None and own.setdefault(*key) != key[1]:
                return True
        return False

    def _labels(self, part: Part, wanted: list[str]) -> list[str]:
        """What each row is about, for people: the entities and texts that the query shows, else those whose values it reads."""
        names = wanted or sorted(
            {item.subject.name for item in part.frame.branch.observed if not isinstance(item.subject, Const)} & set(part.frame.columns)
        )
        columns = [column for name in names if (column := part.answers(name)) is not None]
        if not columns:
            named = [node_values(item.subject, part.frame) for item in part.frame.branch.observed if isinstance(item.subject, Const)][:1]
            columns = [[Iri(column[i] or "") if column[i] else None for i in part.at.tolist()] for column in named]
        if not columns:
            return [""] * part.at.shape[0]
        return [", ".join(text for term in row if (text := self._label(term))) for row in zip(*columns, strict=True)]

    def _label(self, term: Answer) -> str:
        match term:
            case Iri(value):
                if value not in self.labels:
                    self.labels[value] = local_name(value) if value.startswith("_:") else self.graph.label_of(value)
                return self.labels[value]
            case Literal(value, lexical, _):
                return lexical if isinstance(value, str) else ""
        return ""

    # ---- what is said

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

    def _warn_hard(self, query: QueryText, formula: Formula) -> None:
        if query.hard and bent_comparisons(formula):
            message = f"`{query.name}` is hard, but not linear in what the model predicts: it stays a penalty and a check"
            self.problems.warning("FKG222", query.span((0, len(query.words))), message, "write it linear in the outputs")

    def _tell_without(self, frame: Frame) -> None:
        """Say how many entities were left out because the table has nothing of them."""
        if not frame.without:
            return
        names = sorted(frame.without)
        many = f"{len(names)} entities have" if len(names) > 1 else f"{self._label(Iri(names[0]))} has"
        example = f", {self._label(Iri(names[0]))} for example" if len(names) > 1 else ""
        at = frame.branch.observed[0].at
        self.problems.info(
            "FKG345",
            frame.batch.queries[0].span(at),
            f"{many} no column for what is read here{example}: nothing is checked there",
            "give their sensors an `fkg:column`",
        )

    def _place(self, query: QueryText, found: _Found, tree: Query) -> None:
        name = query.name if found.rows else ""
        whole = query.span(tree.at)
        if found.violations:
            listed = "; ".join(text for text in found.static if text)
            more = f" and {found.violations - len(found.static)} more" if found.violations > len(found.static) else ""
            many = f"{found.violations} violations" if found.violations > 1 else "one violation"
            shown = f": {listed}{more}" if listed else ""
            self.problems.warning("FKG348", whole, f"the graph has {many} of `{query.name}`{shown}", "mend the graph, or the query")
        if not found.rows and found.reads and not found.violations:
            self.problems.warning(
                "FKG350",
                whole,
                f"nothing fits the query `{query.name}`: it holds for nothing",
                "load the graph that has the facts, or mend it",
            )
        reason = "" if found.rows else "no solution fits its static part" if found.reads else "it reads nothing that is observed"
        self.placed[query.name] = Placement(
            source=_short(query),
            part=query.title or query.name,
            where="rows" if found.rows else "graph",
            rule=name,
            reason=reason,
            conforms=None if found.rows and not found.violations else not found.violations,
        )

    def _refuse(self, query: QueryText, problem: SparqlProblem) -> None:
        span = query.span(problem.at)
        self.problems.error(problem.code, span, problem.message, problem.help)
        self.placed[query.name] = Placement(
            source=_short(query),
            part=query.title or query.name,
            where="refused",
            reason=f"line {span.line}: `{query.written(problem.at)}`: {problem.message}" if query.words else problem.message,
        )


def _short(query: QueryText) -> str:
    return query.file.replace("\\", "/").rsplit("/", 1)[-1]


def _closed(tree: Query) -> Query:
    """The tree whose pattern has no open constants where solutions are grouped: a variable does not reach into the groups."""
    return replace(tree, where=_close(tree.where)) if tree.aggregates else tree


def _close(group: Group) -> Group:
    def closed(node: Any) -> Any:  # Any: a node, a tuple of them, or a plain value
        if isinstance(node, Const):
            return replace(node, open=False)
        if isinstance(node, Node):
            return replace(node, **{f.name: closed(getattr(node, f.name)) for f in fields(node) if f.name != "at"})
        return tuple(closed(item) for item in node) if isinstance(node, tuple) else node

    found = closed(group)
    assert isinstance(found, Group)
    return found


def take_rows(rows: Rows, at: Ids) -> Rows:
    """Some of the rows, with the members of each."""
    taken = Rows(at.shape[0])
    _copy(rows, taken, at)
    positions: list[Ids] = []
    for table in rows.members:
        owners = at if table.parent < 0 else positions[table.parent]
        sizes = (table.offsets[1:] - table.offsets[:-1])[owners]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        kept = (np.repeat(table.offsets[owners] - offsets[:-1], sizes) + np.arange(offsets[-1])).astype(np.int64)
        _, inner = taken.set_of_members(offsets, table.parent)
        _copy(table.rows, inner, kept)
        positions.append(kept)
    return taken


def _copy(rows: Rows, target: Rows, at: Ids) -> None:
    target.slots = [SlotColumn(columns=slot.columns[at], views=slot.views[at], role=slot.role) for slot in rows.slots]
    target.params = [
        Codes(columns=param.columns[at], texts=tuple(param.texts[i] for i in at.tolist())) if isinstance(param, Codes) else param[at]
        for param in rows.params
    ]
