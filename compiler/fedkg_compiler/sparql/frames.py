"""The rows of a branch: what the graph answered, and where the table has what is read.

Letters: N rows of a frame, Q queries of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedkg_compiler.binding.reading import Place
from fedkg_compiler.ontology.graph import Graph
from fedkg_compiler.ontology.terms import Iri, Literal, Quantity
from fedkg_compiler.sparql.branches import Branch, Observed, Reduced, Within, is_static, static_names
from fedkg_compiler.sparql.observed import Observations
from fedkg_compiler.sparql.printer import expr_text, parts_text
from fedkg_compiler.sparql.scope import certain, in_scope, variables
from fedkg_compiler.sparql.shape import QueryText, SparqlProblem
from fedkg_compiler.sparql.tree import Const, Expr, Group, Op, Part, Var, walk

Ids = NDArray[np.int64]
Answer = Iri | Literal | None
MOST_VALUES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Queries of one shape whose other constants agree too, so that they are answered together.

    Attributes:
        open: the constants in which they differ, by token.
    """

    queries: Sequence[QueryText]
    open: dict[int, Const]
    graph: Graph
    observations: Observations

    def show(self, constant: Const) -> str:
        """A constant as the store is asked: a variable where queries differ in it."""
        if len(self.queries) > 1 and constant.token in self.open and constant.open:
            return f"?_h{constant.token}"
        return self.queries[0].value(constant)

    def holes(self, text: str) -> list[Const]:
        """The open constants that a text asks for."""
        return [] if len(self.queries) == 1 else [item for token, item in sorted(self.open.items()) if f"?_h{token} " in f"{text} "]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """What is read in each row: [N] positions in `places`, -1 where the table has nothing."""

    observed: Observed
    at: Ids
    places: tuple[Place, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Frame:
    """The N rows of one branch.

    Attributes:
        owner: [N], the row of `parent` inside which each row stands. query: [N], its query.
        columns: static variables and calculated sub-expressions. exprs: the name of the column of each sub-expression.
        text: a sub-select that gives the static variables, for what stands inside. inside: frames of EXISTS and aggregates.
        without: entities that were left out because the table has nothing of them.
    """

    branch: Branch
    batch: Batch
    parent: Frame | None
    owner: Ids
    query: Ids
    columns: dict[str, list[Answer]]
    exprs: dict[Expr, str]
    names: tuple[str, ...]
    text: str
    inline: bool = False
    readings: dict[str, Reading] = field(default_factory=dict)
    inside: dict[int, Frame] = field(default_factory=dict)
    without: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """N."""
        return int(self.query.shape[0])

    def take(self, rows: Ids) -> None:
        """Keep some rows alone."""
        self.owner, self.query = self.owner[rows], self.query[rows]
        self.columns = {name: [column[i] for i in rows.tolist()] for name, column in self.columns.items()}
        self.readings = {
            name: Reading(observed=item.observed, at=item.at[rows], places=item.places) for name, item in self.readings.items()
        }


def expressions_of(branch: Branch) -> list[Expr]:
    """The expressions whose value matters."""
    return list(branch.conditions)


def make_frame(branch: Branch, batch: Batch, parent: Frame | None, extra: Sequence[Expr] = (), *, wanted: Sequence[str] = ()) -> Frame:
    """Ask the graph for the rows of a branch, then find out what is read in each, and the same for all that stands inside it.

    Args:
        extra: expressions besides its conditions: the arguments of aggregates. wanted: static variables that are wanted in any case.
    """
    exprs = [*expressions_of(branch), *extra]
    inline = parent is not None and not branch.static and not wanted and _reads_outside(branch, parent)
    static = branch.static if inline else _enumerated(branch, batch, parent)
    calculated: dict[Expr, str] = {}
    needed = set(wanted)
    for expr in exprs:
        _needs(expr, needed, calculated)
    for item in branch.observed:
        needed |= {node.name for node in (item.subject, item.property) if isinstance(node, Var)}
    for inner in _inner(exprs):
        needed |= in_scope(inner.static) | inner_names(inner)
    own = in_scope(static)
    frame = _ask(branch, batch, parent, static, needed & own, calculated, inline=inline)
    for item in branch.observed:
        frame.readings[item.variable] = _reading(item, frame)
    missing = [frame.readings[item.variable].at < 0 for item in branch.observed if item.required]
    for item, gaps in zip([item for item in branch.observed if item.required], missing, strict=True):
        if gaps.any() and isinstance(item.property, Const):
            values = node_values(item.subject, frame)
            frame.without |= {value for i in np.flatnonzero(gaps).tolist() if (value := values[i]) and not value.startswith("_:")}
    if missing and not inline and (gone := np.logical_or.reduce(missing)).any():
        frame.take(np.flatnonzero(~gone))
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Within):
                for inner in node.branches:
                    _check_bound(inner, frame)
                    part = replace(inner, static=(Group(at=node.at, parts=inner.static),)) if node.apart and inner.static else inner
                    frame.inside[id(inner)] = make_frame(part, batch, frame)
            elif isinstance(node, Reduced) and id(node.branch) not in frame.inside:
                found = [item for other in exprs for item in walk(other) if isinstance(item, Reduced) and item.branch is node.branch]
                args = [item.arg for item in found if item.arg is not None]
                facts = sorted(node.branch.facts)
                grouped = Branch(
                    static=(Group(at=node.at, parts=node.branch.static),) if node.branch.static else (),
                    observed=node.branch.observed,
                    conditions=node.branch.conditions,
                    focus=node.branch.focus,
                )
                frame.inside[id(node.branch)] = make_frame(grouped, batch, frame, args, wanted=facts)
    return frame


def inner_names(branch: Branch) -> frozenset[str]:
    """The static variables outside that a branch inside may read."""
    names: set[str] = set()
    for expr in branch.conditions:
        names |= static_names(expr)
    for item in branch.observed:
        names |= {node.name for node in (item.subject, item.property) if isinstance(node, Var)}
    for inner in _inner(branch.conditions):
        names |= inner_names(inner) | in_scope(inner.static)
    for part in branch.static:
        names |= variables(part)
    return frozenset(names)


def _inner(exprs: Sequence[Expr]) -> list[Branch]:
    found: list[Branch] = []
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Within):
                found += node.branches
            elif isinstance(node, Reduced):
                found.append(node.branch)
    return found


def _check_bound(inner: Branch, frame: Frame) -> None:
    open_ = (inner_names(inner) & frame.branch.facts) - frame.branch.certain
    if open_ and inner.static:
        name = min(open_)
        raise SparqlProblem(
            "FKG343", inner.static[0].at, f"?{name} may have no value outside, and is asked for inside", "bind it for certain"
        )


def _reads_outside(branch: Branch, parent: Frame) -> bool:
    around: set[str] = set()
    focus: set[str] = set(branch.focus)
    here: Frame | None = parent
    while here is not None:
        around |= set(here.columns)
        focus |= here.branch.focus
        here = here.parent
    nodes = [node for item in branch.observed for node in (item.subject, item.property) if isinstance(node, Var)]
    return all(node.name in around | focus for node in nodes)


def _enumerated(branch: Branch, batch: Batch, parent: Frame | None) -> tuple[Part, ...]:
    """The static parts, and for entities that nothing else names, those that have a column."""
    static, observations = list(branch.static), batch.observations
    outside = set() if parent is None else set(parent.names)
    for item in branch.observed:
        fixed = certain(static) | outside
        if isinstance(item.property, Var) and item.property.name not in fixed:
            raise SparqlProblem("FKG343", item.property.at, f"?{item.property.name} may have no value here", "bind it for certain")
        if not isinstance(item.subject, Var) or item.subject.name in fixed or item.subject.name in focus_of(branch, parent):
            continue
        if item.subject.name in in_scope(static):
            raise SparqlProblem("FKG343", item.at, f"?{item.subject.name} may have no value where it is read", "bind it for certain")
        iris = observations.every() if isinstance(item.property, Var) else (batch.queries[0].value(item.property)[1:-1],)
        if len(iris) == 1 and observations.of_rows(iris[0]):
            continue
        static.insert(0, observations.among(item.subject, iris))
    return tuple(static)


def focus_of(branch: Branch, parent: Frame | None) -> frozenset[str]:
    """The variables that stand for the table row."""
    return branch.focus | (frozenset() if parent is None else focus_of(parent.branch, parent.parent))


def _needs(expr: Expr, names: set[str], calculated: dict[Expr, str]) -> None:
    """What must be asked of the graph for an expression: variables, and sub-expressions over static variables alone."""
    if isinstance(expr, Var):
        names.add(expr.name)
    elif is_static(expr) and not isinstance(expr, Const):
        calculated.setdefault(expr, f"_e{len(calculated)}")
    elif isinstance(expr, Op):
        for arg in expr.args:
            _needs(arg, names, calculated)


def _ask(
    branch: Branch, batch: Batch, parent: Frame | None, static: tuple[Part, ...], names: set[str] | frozenset[str],
    calculated: dict[Expr, str], *, inline: bool,
) -> Frame:  # fmt: skip
    outside = () if parent is None else parent.names
    shown = tuple(sorted(names | set(outside)))
    several = len(batch.queries) > 1
    body = parts_text(static, batch.show)
    extra = [f"({expr_text(expr, batch.show)} AS ?{name})" for expr, name in calculated.items()]
    around = "" if parent is None else parent.text
    if inline and not extra:
        assert parent is not None
        return Frame(
            branch=branch, batch=batch, parent=parent, owner=np.arange(parent.count), query=parent.query, columns={}, exprs={},
            names=parent.names, text=parent.text, inline=True,
        )  # fmt: skip
    holes = batch.holes(f"{body} {' '.join(extra)}".replace(")", " ").replace("(", " ").replace(",", " "))
    rows = _open_rows(batch, holes) if holes else ""
    head = ["?_q"] if several and (holes or "?_q" in around) else []
    columns = [*head, *(f"?{name}" for name in shown), *extra]
    text = f"SELECT DISTINCT {' '.join(columns) or '(1 AS ?_one)'} WHERE {{ {rows} {around}\n{body} }}"
    inner = (
        f"{{ SELECT DISTINCT {' '.join([*head, *(f'?{name}' for name in shown)]) or '(1 AS ?_one)'} WHERE {{ {rows} {around}\n{body} }} }}"
    )
    answers = sorted(batch.graph.answers(text), key=_row_order)
    return _framed(branch, batch, parent, answers, head=bool(head), shown=shown, calculated=calculated, text=inner)


def _open_rows(batch: Batch, holes: list[Const]) -> str:
    """``VALUES (?_q ?_h5) { (0 <x>) (1 <y>) }``: the constants of every query."""
    rows = " ".join(f"({i} {' '.join(query.value(hole) for hole in holes)})" for i, query in enumerate(batch.queries))
    return f"VALUES (?_q {' '.join(f'?_h{hole.token}' for hole in holes)}) {{ {rows} }}"


def _row_order(row: tuple[Answer, ...]) -> tuple[tuple[int, float, str], ...]:
    return tuple([_order(term) for term in row])


def _order(term: Answer) -> tuple[int, float, str]:
    if term is None:
        return 0, 0.0, ""
    if isinstance(term, Iri):
        return 1, 0.0, term.value
    number = isinstance(term.value, int | float) and not isinstance(term.value, bool)
    return (2, float(term.value), term.lexical) if number else (3, 0.0, term.lexical)


def _framed(
    branch: Branch, batch: Batch, parent: Frame | None, answers: list[tuple[Answer, ...]], *, head: bool, shown: tuple[str, ...],
    calculated: dict[Expr, str], text: str,
) -> Frame:  # fmt: skip
    """The answers as columns; queries that do not differ in what they ask share them."""
    numbers = [int(row[0].value) if isinstance(row[0], Literal) else 0 for row in answers] if head else [0] * len(answers)
    cells = [list(column) for column in zip(*answers, strict=True)][int(head) :] if answers else []
    names = [*shown, *calculated.values()]
    columns = {name: cells[i] if cells else [] for i, name in enumerate(names)}
    query = np.array(numbers, dtype=np.int64)
    if parent is None:
        owner = np.arange(len(answers))
        if not head and len(batch.queries) > 1:
            every = np.repeat(np.arange(len(batch.queries)), len(answers))
            owner = np.tile(owner, len(batch.queries))
            columns = {name: [column[i] for i in owner.tolist()] for name, column in columns.items()}
            query = every
    else:
        owner, rows = _owners(parent, columns, query, head=head)
        columns = {name: [column[i] for i in rows] for name, column in columns.items()}
        query = parent.query[owner]
    return Frame(
        branch=branch, batch=batch, parent=parent, owner=owner, query=query, columns=columns, exprs=dict(calculated),
        names=shown, text=text,
    )  # fmt: skip


def _owners(parent: Frame, columns: dict[str, list[Answer]], query: Ids, *, head: bool) -> tuple[Ids, list[int]]:
    """The row of the parent inside which each answer stands; an answer of several queries stands in a row of each."""
    where: dict[tuple[object, ...], list[int]] = {}
    outside = [column_of(name, parent) or [] for name in parent.names]
    for i in range(parent.count):
        key = (int(parent.query[i]) if head else 0, *(column[i] for column in outside))
        where.setdefault(key, []).append(i)
    owner: list[int] = []
    rows: list[int] = []
    inside = [columns[name] for name in parent.names]
    for i in range(query.shape[0]):
        for row in where.get((int(query[i]) if head else 0, *(column[i] for column in inside)), ()):
            owner.append(row)
            rows.append(i)
    order = np.argsort(np.array(owner, dtype=np.int64), kind="stable")
    return np.array(owner, dtype=np.int64)[order], np.array(rows, dtype=np.int64)[order].tolist()


def _reading(item: Observed, frame: Frame) -> Reading:
    """Where each row finds a value."""
    subjects, properties = node_values(item.subject, frame), node_values(item.property, frame)
    known: dict[tuple[str | None, str | None], int] = {}
    places: list[Place] = []
    at = np.empty(frame.count, dtype=np.int64)
    for i, key in enumerate(zip(subjects, properties, strict=True)):
        where = known.get(key)
        if where is None:
            subject, name = key
            place = None if subject is None or name is None else frame.batch.observations.place(name, subject)
            where = known[key] = -1 if place is None else len(places)
            if place is not None:
                places.append(place)
        at[i] = where
    return Reading(observed=item, at=at, places=tuple(places))


def node_values(node: Var | Const, frame: Frame) -> list[str | None]:
    """The IRI of a node in each row; "" for the table row itself, None where it is none."""
    if isinstance(node, Const):
        values = [query.value(node)[1:-1] if node.kind == "iri" else None for query in frame.batch.queries]
        return [values[q] for q in frame.query.tolist()]
    column = column_of(node.name, frame)
    if column is None:
        return [""] * frame.count
    return [term.value if isinstance(term, Iri) else None for term in column]


def column_of(name: str, frame: Frame) -> list[Answer] | None:
    """The values of a static variable in each row, from outside where it stands there; None where the graph gives none."""
    if name in frame.columns:
        return frame.columns[name]
    if frame.parent is None:
        return None
    around = column_of(name, frame.parent)
    return None if around is None else [around[i] for i in frame.owner.tolist()]


def number_of(term: Answer, graph: Graph) -> Quantity | float | None:
    """The number that a static value is, with its unit where it is a quantity."""
    if isinstance(term, Literal):
        return float(term.value) if isinstance(term.value, int | float) and not isinstance(term.value, bool) else None
    if isinstance(term, Iri):
        found = graph.term_of(term.value)
        if isinstance(found, Quantity):
            return found
        if isinstance(found, Literal):
            return number_of(found, graph)
    return None
