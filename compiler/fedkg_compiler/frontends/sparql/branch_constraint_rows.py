"""The bound rows of branches: one question to the graph, one formula for each kind of rows.

Letters: N rows of a frame, P rows of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import RuleRecord, reads_output
from fedkg.units.unit import Unit
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.formulas.formula_algebra import opposite
from fedkg_compiler.frontends.sparql.answer_frame_construction import (
    enumerated_static,
    find_reading,
    make_frame,
    other_rows_in_optional,
)
from fedkg_compiler.frontends.sparql.answer_frames import Answer, Batch, Frame, Ids, node_values
from fedkg_compiler.frontends.sparql.branch_tree import Branch, Observed, Seen, Within
from fedkg_compiler.frontends.sparql.condition_formulas import start_lowering
from fedkg_compiler.frontends.sparql.exists_members import conditions, keys_of
from fedkg_compiler.frontends.sparql.formula_slot_renumbering import compact
from fedkg_compiler.frontends.sparql.numeric_terms import mixed
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.frontends.sparql.shared_formula_rows import Part, partition
from fedkg_compiler.frontends.sparql.slot_lowering import Bare, Lowering
from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.rdf_terms import Iri, Literal, local_name
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText, SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Const, Expr, Place, Query, Var, walk
from fedkg_compiler.ir import BoundRows, Codes, MemberRows, RowBuilder, Rows

_GIVEN = "; or give the numbers of the graph a `qudt:unit`"
About = tuple[Answer, ...]
"""What a solution is about: the entities and texts that its query shows."""


@dataclass(slots=True, kw_only=True)
class Found:
    """The result of one query.

    Attributes:
        rows: the bound constraints.
        violations: the solutions that the graph alone decides, because they depend on nothing
            observed.
        reads: whether any branch of the query reads the table.
        bare: numbers without a unit that are compared or calculated with values in units.
        never: the places that keep a solution from ever existing, with the reason.
    """

    rows: list[BoundRows] = field(default_factory=list)
    violations: list[About] = field(default_factory=list)
    reads: bool = False
    bare: list[Bare] = field(default_factory=list)
    never: list[tuple[Place, str]] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Add the result of another part of the same query."""
        self.rows += other.rows
        self.violations += other.violations
        self.reads |= other.reads
        self.bare += other.bare
        self.never += other.never


class RowMaker:
    """Makes rows of branches.

    `record` tells what the pack says of a query's rule; `names` gives entities other names than
    their labels.
    """

    def __init__(
        self,
        graph: Graph,
        observations: Observations,
        record: Callable[[QueryText], RuleRecord],
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.graph = graph
        self.observations = observations
        self.problems = observations.sources.problems
        self.record = record
        self.given = names or {}
        self.labels = dict(self.given)
        self.names: dict[About, str] = {}

    def make(self, branch: Branch, batch: Batch, shown: frozenset[str]) -> list[Found]:
        """Return the rows that a branch adds to each query of a batch, identified by `shown`.

        Raises:
            SparqlProblem: if the branch is not supported.
        """
        reads = not branch.is_static
        found = [Found(reads=reads) for _ in batch.queries]
        wanted = sorted(name for name in shown & branch.facts if not name.startswith("_"))
        frame = make_frame(branch, batch, None, wanted=wanted)
        self._tell_without(frame)
        order = _shown_first(branch.observed, shown)
        rows_read = _table_rows_read(order, frame)
        for which in sorted(set(rows_read)):
            if any(which):
                static = enumerated_static(branch, batch, None)
                joined = _join_table_rows(replace(branch, static=static), order, which)
                frame = make_frame(joined, batch, None, wanted=wanted)
                rows_read = _table_rows_read(order, frame)
            kept = np.array([rows == which for rows in rows_read], dtype=np.bool_)
            self._add(frame, kept, wanted, found)
        return found

    def _add(
        self, frame: Frame, kept: NDArray[np.bool_], wanted: list[str], found: list[Found]
    ) -> None:
        """Add the bound rows of some of a frame's rows: [N]."""
        parts = [
            Part(frame=frame, at=own, rows=RowBuilder(own.shape[0]))
            for at in partition(frame)
            if (own := at[kept[at]]).size
        ]
        results = [found if len(parts) == 1 else [Found() for _ in found] for _ in parts]
        abouts = [self._subjects(part, wanted) for part in parts]
        apart = self._told_apart(parts, abouts)
        for part, about, result in zip(parts, abouts, results, strict=True):
            self._part(part, about, apart, result)
        if len(parts) > 1:
            # the parts of a query are in the order in which queries of its group meet them
            for q, order in enumerate(_orders(frame, [part.at for part in parts])):
                for i in order:
                    found[q].add(results[i][q])

    def _told_apart(
        self, parts: Sequence[Part], abouts: Sequence[Sequence[About]]
    ) -> dict[int, dict[str, str]]:
        """For each query the names of entities whose label another one of its entities has too."""
        entities: dict[int, set[str]] = {}
        for part, about in zip(parts, abouts, strict=True):
            for q, terms in zip(part.frame.query[part.at].tolist(), about, strict=True):
                entities.setdefault(q, set()).update(
                    term.value
                    for term in terms
                    if isinstance(term, Iri) and not term.value.startswith("_:")
                )
        return {
            q: {
                iri: name
                for iri, name in self.graph.names_of(iris - self.given.keys()).items()
                if name != self.graph.label_of(iri)
            }
            for q, iris in entities.items()
        }

    def _part(
        self,
        part: Part,
        about: Sequence[About],
        apart: Mapping[int, Mapping[str, str]],
        found: list[Found],
    ) -> None:
        state = start_lowering()
        batch = part.frame.batch
        truth = conditions(part, part.frame.branch, state)
        if any(state.modes.get(read, mode) != mode for read, mode in state.presumed.items()):
            state = start_lowering(state.modes)
            truth = conditions(part, part.frame.branch, state)
        if truth is False:
            for q in set(part.frame.query[part.at].tolist()):
                found[q].never += state.never
            return
        query = part.frame.query[part.at]
        if truth is True:
            for q, terms in zip(query.tolist(), about, strict=True):
                found[q].violations.append(terms)
            return
        self._report_ambiguous(part, state)
        for q in set(query.tolist()):
            found[q].bare += [item for item in state.bare if q in item.values]
        formula, rows = compact(opposite(truth), part.rows.build())
        if reads_output(formula) and any(table.keys is not None for table in rows.members):
            raise SparqlProblem(
                "FKG346",
                self._first_place(part.frame),
                "a prediction is compared with values in other rows of the table",
                "predictions are known for one row at a time: give each entity a separate column",
            )
        keys = [tuple(sorted(key.items())) for key in keys_of(part)]
        names = [
            self._joined(terms, apart[q]) if apart[q] else self.label(terms)
            for q, terms in zip(query.tolist(), about, strict=True)
        ]
        unit = next(iter(state.compared)) if len(state.compared) == 1 else ""
        order = np.argsort(query, kind="stable")
        rows = take_rows(rows, order)
        bounds = (
            [*np.flatnonzero(np.diff(query[order], prepend=-1)).tolist(), order.size]
            if order.size
            else []
        )
        for start, end in pairwise(bounds):
            own = order[start:end].tolist()
            q = int(query[own[0]])
            asked = batch.queries[q]
            bound = BoundRows(
                rule=self.record(asked),
                formula=formula,
                rows=cut_rows(rows, start, end),
                keys=tuple([keys[i] for i in own]),
                entities=tuple([names[i] for i in own]),
                unit=unit,
                span=asked.span((0, len(asked.tokens))) if asked.hard else None,
            )
            found[q].rows.append(bound)

    def _first_place(self, frame: Frame) -> Place:
        """The place of a value that a frame or a frame inside it reads."""
        observed = frame.branch.observed
        places = [self._first_place(inner) for inner in frame.inside.values()]
        return next((place for place in [*(o.at for o in observed), *places]), (0, 0))

    def _subjects(self, part: Part, wanted: list[str]) -> list[About]:
        """Return the subject of each row: the entities that the query shows, else those it
        reads.
        """
        observed = part.frame.branch.observed
        names = wanted or sorted(
            {item.subject.name for item in observed if not isinstance(item.subject, Const)}
            & set(part.frame.columns)
        )
        columns = [column for name in names if (column := part.answers(name)) is not None]
        if not columns:
            named = [
                node_values(item.subject, part.frame)
                for item in observed
                if isinstance(item.subject, Const)
            ][:1]
            columns = [
                [Iri(column[i] or "") if column[i] else None for i in part.at.tolist()]
                for column in named
            ]
        return list(zip(*columns, strict=True)) if columns else [()] * part.at.shape[0]

    def label(self, terms: About) -> str:
        """The names of entities, and texts, for people."""
        if terms not in self.names:
            self.names[terms] = self._joined(terms, {})
        return self.names[terms]

    def _joined(self, terms: About, apart: Mapping[str, str]) -> str:
        names = (
            apart[term.value]
            if isinstance(term, Iri) and term.value in apart
            else self._label(term)
            for term in terms
        )
        return ", ".join(filter(None, names))

    def _label(self, term: Answer) -> str:
        match term:
            case Iri(value):
                if value not in self.labels:
                    self.labels[value] = (
                        local_name(value) if value.startswith("_:") else self.graph.label_of(value)
                    )
                return self.labels[value]
            case Literal(value, lexical, _):
                return lexical if isinstance(value, str) else ""
        return ""

    def _report_ambiguous(self, part: Part, state: Lowering) -> None:
        """Say which columns are read as numbers though neither the query nor the graph tells what
        they hold.
        """
        batch = part.frame.batch
        for read, (at, columns, query, any_property) in state.ambiguous.items():
            mode = state.modes.get(read, state.presumed.get(read))
            if mode != "number" or (read in state.modes and not any_property):
                continue
            for first, rows in batch.groups(query):
                entry = self.observations.sources.book.columns[int(columns[rows[0]])]
                self.problems.info(
                    "FKG359",
                    first.span(at),
                    f"fedkg reads `{entry.name}` as numbers, because nothing states what it "
                    f"contains",
                    "if it contains texts, give its property `fkg:category` or `fkg:datatype"
                    " xsd:string`",
                )

    def _tell_without(self, frame: Frame) -> None:
        """Say how many entities were left out because the table has nothing of them."""
        at = frame.branch.observed[0].at if frame.branch.observed else (0, 0)
        for group, entities in frame.without.items():
            names = sorted(entities)
            first = self._label(Iri(names[0]))
            many = f"{len(names)} entities have" if len(names) > 1 else f"{first} has"
            example = f", {first} for example" if len(names) > 1 else ""
            self.problems.info(
                "FKG345",
                frame.batch.queries[int(np.argmax(frame.batch.group == group))].span(at),
                f"{many} no column for what is read here{example}: the query is not evaluated "
                f"for them",
                "give their sensors an `fkg:column`",
            )


def _orders(frame: Frame, parts: Sequence[Ids]) -> list[list[int]]:
    """For each query the parts of a frame, by the first row that queries of its group have
    there.
    """
    groups = frame.batch.group
    first = np.full((int(groups.max()) + 1, len(parts)), frame.count, dtype=np.int64)
    for i, at in enumerate(parts):
        np.minimum.at(first[:, i], groups[frame.query[at]], at)
    orders = [np.argsort(line, kind="stable").tolist() for line in first]
    return [orders[group] for group in groups.tolist()]


TableRowsRead = tuple[int, ...]
"""For each value that a solution reads, the number of its table row. 0 is the row at hand."""


def _shown_first(observed: Sequence[Observed], shown: frozenset[str]) -> list[Observed]:
    """What is read, the values of the entities that a query shows first: their table row is the
    row at hand.
    """
    return sorted(
        observed,
        key=lambda item: not (isinstance(item.subject, Var) and item.subject.name in shown),
    )


def _table_rows_read(order: Sequence[Observed], frame: Frame) -> list[TableRowsRead]:
    """The table rows that each row of a frame reads.

    A solution reads one table row unless the keys of its entities contradict each other. Then each
    value is in the first row whose keys do not contradict its own.
    """
    same = (0,) * len(order)
    readings = [frame.readings.get(item.variable) or find_reading(item, frame) for item in order]
    keyed = [reading for reading in readings if reading.keyed]
    if all(reading.keys == keyed[0].keys for reading in keyed):
        return [same] * frame.count
    found: list[TableRowsRead] = []
    for i in range(frame.count):
        rows: list[dict[str, str]] = [{}]
        numbers: list[int] = []
        for reading in readings:
            key = reading.keys[i]
            if key is None:
                numbers.append(0)
                continue
            header, text = key
            number = next(
                (n for n, row in enumerate(rows) if row.get(header, text) == text), len(rows)
            )
            if number == len(rows):
                rows.append({})
            rows[number][header] = text
            numbers.append(number)
        found.append(tuple(numbers))
    return found


def _join_table_rows(branch: Branch, order: Sequence[Observed], which: TableRowsRead) -> Branch:
    """A branch that reads several table rows as one that reads a row and asks whether others exist.

    A row is a violation where the other rows have values that satisfy the remaining conditions.

    Raises:
        SparqlProblem: a value of another row may be missing.
    """
    numbers = {item.variable: number for item, number in zip(order, which, strict=True)}
    subjects: dict[Expr, int] = {}
    for item in order:
        if numbers[item.variable]:
            subjects.setdefault(item.subject, numbers[item.variable])
            if not item.required:
                raise other_rows_in_optional(item.at)

    def depth(expr: Expr) -> int:
        names, entities = _read_by(expr)
        return max(
            (
                *(numbers.get(name, 0) for name in names),
                *(subjects.get(entity, 0) for entity in entities),
            ),
            default=0,
        )

    inner: tuple[Expr, ...] = ()
    for number in range(max(which), -1, -1):
        part = Branch(
            observed=tuple(one for one in branch.observed if numbers[one.variable] == number),
            conditions=(*(one for one in branch.conditions if depth(one) == number), *inner),
        )
        inner = (Within(at=part.observed[0].at, branches=(part,), negated=False),)
    return replace(branch, observed=part.observed, conditions=part.conditions)


def _read_by(expr: Expr) -> tuple[set[str], set[Var | Const]]:
    """The observed variables of an expression, and the entities that EXISTS inside it reads."""
    names: set[str] = set()
    entities: set[Var | Const] = set()
    for node in walk(expr):
        if isinstance(node, Seen):
            names.add(node.name)
        for branch in node.branches if isinstance(node, Within) else ():
            entities |= {item.subject for item in branch.observed}
            for inner in branch.conditions:
                further, others = _read_by(inner)
                names |= further
                entities |= others
    return names, entities


def take_rows(rows: Rows, at: Ids) -> Rows:
    """Some of the rows, with the members of each."""
    if at.shape[0] == rows.count and (at[:-1] < at[1:]).all():
        return rows
    members: list[MemberRows] = []
    positions: list[Ids] = []
    for table in rows.members:
        owners = at if table.parent < 0 else positions[table.parent]
        sizes = (table.offsets[1:] - table.offsets[:-1])[owners]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        kept = (
            np.repeat(table.offsets[owners] - offsets[:-1], sizes) + np.arange(offsets[-1])
        ).astype(np.int64)
        inner = _pick(table.rows, kept, kept.shape[0])
        keys = None if table.keys is None else tuple([table.keys[i] for i in kept.tolist()])
        members.append(replace(table, offsets=offsets, rows=inner, keys=keys))
        positions.append(kept)
    return replace(_pick(rows, at, at.shape[0]), members=tuple(members))


def cut_rows(rows: Rows, start: int, end: int) -> Rows:
    """The rows from `start` to before `end`, with the members of each: views of the same arrays."""
    members: list[MemberRows] = []
    ranges: list[tuple[int, int]] = []
    for table in rows.members:
        first, last = (start, end) if table.parent < 0 else ranges[table.parent]
        offsets = table.offsets[first : last + 1]
        begin, stop = int(offsets[0]), int(offsets[-1])
        inner = _pick(table.rows, slice(begin, stop), stop - begin)
        keys = None if table.keys is None else table.keys[begin:stop]
        members.append(replace(table, offsets=offsets - offsets[0], rows=inner, keys=keys))
        ranges.append((begin, stop))
    return replace(_pick(rows, slice(start, end), end - start), members=tuple(members))


def _pick(rows: Rows, at: Ids | slice, count: int) -> Rows:
    """Some of the rows without their members."""
    slots = [replace(slot, columns=slot.columns[at], views=slot.views[at]) for slot in rows.slots]
    params = [
        (
            Codes(
                columns=param.columns[at],
                texts=(
                    param.texts[at]
                    if isinstance(at, slice)
                    else tuple([param.texts[i] for i in at.tolist()])
                ),
            )
            if isinstance(param, Codes)
            else param[at]
        )
        for param in rows.params
    ]
    return Rows(count=count, slots=tuple(slots), params=tuple(params))


def solutions(
    tree: Query, branches: Sequence[Branch], batch: Batch, maker: RowMaker, shown: frozenset[str]
) -> list[Found]:
    """Return the result of each query of a batch over all branches; `shown` as in `make`.

    Raises:
        SparqlProblem: if a branch is not supported.
    """
    try:
        parts = [maker.make(branch, batch, shown) for branch in branches]
    except ValueError as error:
        raise SparqlProblem(
            "FKG343", tree.at, f"the graph cannot answer this query: {error}"
        ) from error
    for q, (query, each) in enumerate(zip(batch.queries, zip(*parts, strict=True), strict=True)):
        _tell_bare(query, q, [item for one in each for item in one.bare], maker.problems)
    whole = [Found() for _ in batch.queries]
    for results in parts:
        for found, one in zip(whole, results, strict=True):
            found.add(one)
    return whole


def _tell_bare(query: QueryText, q: int, bare: Sequence[Bare], problems: Problems) -> None:
    """Warn of numbers that are taken in several units, or in the first of those of an aggregate's
    members, in the query at `q`.
    """
    places: dict[Place, dict[Unit, str]] = {}
    for item in bare:
        value = item.values[q]
        name = "" if item.written else query.written(item.at)
        units = places.setdefault(item.at, {})
        units.setdefault(item.unit, item.columns[q])
        said, advice = mixed((value, units), name)
        if not said and item.others and value:
            unit = item.unit.text
            meant = f"is read in {unit}" if name else f"means {value:g} {unit}"
            said = (
                f"`{name or f'{value:g}'}` has no unit, and {meant}: there are members in"
                f" {', '.join(item.others)} too"
            )
            advice = f"declare their unit: `signal NAME(?x) is PROPERTY in {unit}`"
        if said:
            problems.warning(
                "FKG356", query.span(item.at), said, f"{advice}{_GIVEN if name else ''}"
            )
