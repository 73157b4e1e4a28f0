"""Asks the graph for the rows of a branch, and finds out what is read in each.

Letters: N rows of a frame, Q queries of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedkg_compiler.frontends.sparql.answer_frames import (
    Answer,
    Batch,
    Frame,
    Ids,
    Reading,
    column_of,
    keyed_subjects,
    node_values,
)
from fedkg_compiler.frontends.sparql.branch_tree import (
    Branch,
    Observed,
    Reduced,
    Within,
    is_static,
    static_names,
)
from fedkg_compiler.frontends.sparql.observed_entity_enumeration import NotTogether, enumerated
from fedkg_compiler.graph.rdf_terms import Iri, Literal
from fedkg_compiler.graph.sparql_syntax.printer import expr_text, parts_text
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import (
    Const,
    Expr,
    Group,
    Node,
    Op,
    Part,
    Place,
    Var,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import certain, in_scope, variables


def make_frame(
    branch: Branch,
    batch: Batch,
    parent: Frame | None,
    extra: Sequence[Expr] = (),
    *,
    wanted: Sequence[str] = (),
    each: bool = False,
) -> Frame:
    """Ask the graph for the rows of a branch, then find the columns that each row reads, and do the
    same for all inner groups.

    Args:
        branch: the branch.
        batch: the queries that the graph answers together.
        parent: the frame of the outer group; None for the outermost group.
        extra: expressions in addition to the conditions of the branch: the arguments of aggregates.
        wanted: static variables that are always asked for.
        each: whether a solution that is found several times makes several rows.
    """
    exprs = [*branch.conditions, *extra]
    inline = (
        parent is not None and not branch.static and not wanted and _reads_outside(branch, parent)
    )
    static = branch.static if inline else enumerated_static(branch, batch, parent)
    calculated: dict[Expr, str] = {}
    needed = set(wanted)
    for expr in exprs:
        _needs(expr, needed, calculated)
    for item in branch.observed:
        needed |= {node.name for node in (item.subject, item.property) if isinstance(node, Var)}
    for inner in _inner(exprs):
        needed |= in_scope(inner.static) | inner_names(inner)
    own = in_scope(static)
    frame = _ask(branch, batch, parent, static, needed & own, calculated, inline=inline, each=each)
    frame.grouped = each
    for item in branch.observed:
        frame.readings[item.variable] = find_reading(item, frame)
        _check_alike(frame.readings[item.variable], frame)
    missing = [frame.readings[item.variable].at < 0 for item in branch.observed if item.required]
    for item, gaps in zip(
        [item for item in branch.observed if item.required], missing, strict=True
    ):
        if gaps.any() and isinstance(item.property, Const):
            values = node_values(item.subject, frame)
            groups = batch.group[frame.query]
            for i in np.flatnonzero(gaps).tolist():
                if (value := values[i]) and not value.startswith("_:"):
                    frame.without.setdefault(int(groups[i]), set()).add(value)
    if missing and not inline and (gone := np.logical_or.reduce(missing)).any():
        frame.take(np.flatnonzero(~gone))
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Within):
                for inner in node.branches:
                    _check_bound(inner, frame)
                    part = (
                        replace(inner, static=(Group(at=node.at, parts=inner.static),))
                        if node.apart and inner.static
                        else inner
                    )
                    frame.inside[id(inner)] = make_frame(part, batch, frame)
            elif isinstance(node, Reduced):
                for over in node.over:
                    if id(over.branch) not in frame.inside:
                        inner_frame = _members(over.branch, exprs, frame, node.at)
                        inner_frame.other_rows = bool(keyed_subjects(inner_frame))
                        frame.inside[id(over.branch)] = inner_frame
    _find_other_rows(frame, [node for expr in exprs for node in walk(expr)])
    return frame


def _find_other_rows(frame: Frame, nodes: Sequence[Node]) -> None:
    """Decide which EXISTS read the table row at hand, and which all table rows.

    EXISTS reads the row at hand if it is about the entity that selects this row. If nothing selects
    it yet, EXISTS about one entity that is given outside selects it. A group has no such row: its
    members are read from all table rows.

    Raises:
        SparqlProblem: an OPTIONAL would join two table rows.
    """
    inside = [
        (node, frame.inside[id(branch)])
        for node in nodes
        if isinstance(node, Within)
        for branch in node.branches
    ]
    read = frozenset().union(*(keyed_subjects(inner) for _, inner in inside))
    around: Frame | None = frame
    while around is not None and not around.grouped and not keyed_subjects(around):
        around = around.parent
    if around is not None:
        at_hand = keyed_subjects(around)
    elif len(read) == 1 and all(
        not isinstance(name, str) or column_of(name, frame) is not None for name in read
    ):
        at_hand = read
    else:
        at_hand = frozenset()
    for node, inner in inside:
        if keyed_subjects(inner) <= at_hand:
            continue
        if node.rest:
            raise other_rows_in_optional(node.at)
        inner.other_rows, inner.inline = True, False


def other_rows_in_optional(at: Place) -> SparqlProblem:
    """The problem of an OPTIONAL that would join two table rows."""
    return SparqlProblem(
        "FKG346",
        at,
        "this OPTIONAL reads other rows of the table than the pattern before it",
        "ask for them in FILTER EXISTS",
    )


def _check_alike(reading: Reading, frame: Frame) -> None:
    """Reject queries of a batch together if a key selects table rows in some of them only."""
    if reading.keyed and len(frame.batch.queries) > 1:
        keyed = np.array([key is not None for key in reading.keys])
        if {*frame.query[keyed].tolist()} != {*frame.query.tolist()}:
            raise SparqlProblem(
                "FKG346",
                reading.observed.at,
                "key columns select the table rows for some entities only",
                "give all of them key columns, or separate columns",
            )


def _members(branch: Branch, exprs: Sequence[Expr], frame: Frame, at: tuple[int, int]) -> Frame:
    """The solutions that aggregates of a frame range over, each as often as it is one."""
    args = [
        item.arg
        for expr in exprs
        for node in walk(expr)
        if isinstance(node, Reduced)
        for item in node.over
        if item.branch is branch and item.arg is not None
    ]
    static = (Group(at=at, parts=branch.static),) if branch.static else ()
    apart = Branch(
        static=static, observed=branch.observed, conditions=branch.conditions, focus=branch.focus
    )
    return make_frame(apart, frame.batch, frame, args, wanted=sorted(branch.facts), each=True)


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
                found += [item.branch for item in node.over]
    return found


def _check_bound(inner: Branch, frame: Frame) -> None:
    """Reject an inner group that gives a value to a variable without a certain value outside.

    An expression inside may read such a variable: where it has no value, both the store and the
    formula take the expression for an error.
    """
    open_ = frame.branch.facts - frame.branch.certain
    if inner.static and (names := _names_given(inner) & open_):
        raise _without_value(min(names), inner.static[0].at)
    for item in inner.observed:
        if isinstance(item.subject, Var) and item.subject.name in open_:
            raise _without_value(item.subject.name, item.at)


def _names_given(branch: Branch) -> frozenset[str]:
    """The variables to which the static patterns and readings of a branch give values."""
    names = in_scope(branch.static).union(
        node.name
        for item in branch.observed
        for node in (item.subject, item.property)
        if isinstance(node, Var)
    )
    return names.union(*(_names_given(inner) for inner in _inner(branch.conditions)))


def _without_value(name: str, at: tuple[int, int]) -> SparqlProblem:
    return SparqlProblem(
        "FKG343",
        at,
        f"?{name} may have no value outside, and is asked for inside",
        "give it a value in a pattern outside OPTIONAL",
    )


def _reads_outside(branch: Branch, parent: Frame) -> bool:
    around: set[str] = set()
    focus: set[str] = set(branch.focus)
    here: Frame | None = parent
    while here is not None:
        around |= set(here.columns)
        focus |= here.branch.focus
        here = here.parent
    nodes = [
        node
        for item in branch.observed
        for node in (item.subject, item.property)
        if isinstance(node, Var)
    ]
    return all(node.name in around | focus for node in nodes)


def enumerated_static(branch: Branch, batch: Batch, parent: Frame | None) -> tuple[Part, ...]:
    """The static parts, and for entities that nothing else names, those that have a column."""
    outside = frozenset() if parent is None else frozenset(parent.names)
    fixed = outside | focus_of(branch, parent)
    static = enumerated(branch, batch.observations, lambda name: _own_property(name, batch), fixed)
    fixed |= certain(static)
    for item in branch.observed:
        if isinstance(item.property, Var) and item.property.name not in fixed:
            raise SparqlProblem(
                "FKG343",
                item.property.at,
                f"?{item.property.name} may have no value here",
                "give it a value in a pattern outside OPTIONAL",
            )
        if isinstance(item.subject, Var) and item.subject.name in in_scope(static) - fixed:
            raise SparqlProblem(
                "FKG343",
                item.at,
                f"?{item.subject.name} may have no value where it is read",
                "give it a value in a pattern outside OPTIONAL",
            )
    return static


def _own_property(name: Const, batch: Batch) -> str:
    """The IRI of a property that must be the same in all queries. Raises NotTogether."""
    if name.token in batch.varying:
        raise NotTogether
    return batch.queries[0].value(name)[1:-1]


def focus_of(branch: Branch, parent: Frame | None) -> frozenset[str]:
    """The variables for the table row."""
    return branch.focus | (
        frozenset() if parent is None else focus_of(parent.branch, parent.parent)
    )


def _needs(expr: Expr, names: set[str], calculated: dict[Expr, str]) -> None:
    """What must be asked of the graph for an expression: variables, and sub-expressions over static
    variables alone.
    """
    if isinstance(expr, Var):
        names.add(expr.name)
    elif is_static(expr) and not isinstance(expr, Const):
        calculated.setdefault(expr, f"_e{len(calculated)}")
    elif isinstance(expr, Op):
        for arg in expr.args:
            _needs(arg, names, calculated)


def _ask(
    branch: Branch,
    batch: Batch,
    parent: Frame | None,
    static: tuple[Part, ...],
    names: set[str] | frozenset[str],
    calculated: dict[Expr, str],
    *,
    inline: bool,
    each: bool,
) -> Frame:
    outside = () if parent is None else parent.names
    shown = tuple(sorted(names | set(outside)))
    several = len(batch.queries) > 1
    body = parts_text(static, batch.show)
    extra = [f"({expr_text(expr, batch.show)} AS ?{name})" for expr, name in calculated.items()]
    around = "" if parent is None else parent.text
    if inline and not extra:
        assert parent is not None
        return Frame(
            branch=branch,
            batch=batch,
            parent=parent,
            owner=np.arange(parent.count),
            query=parent.query,
            columns={},
            exprs={},
            names=parent.names,
            text=parent.text,
            inline=True,
        )
    holes = batch.holes(
        f"{body} {' '.join(extra)}".replace(")", " ").replace("(", " ").replace(",", " ")
    )
    rows = _open_rows(batch, holes) if holes else ""
    head = ["?_q"] if several and (holes or "?_q" in around) else []
    columns = [*head, *(f"?{name}" for name in shown), *extra]
    text = (
        f"SELECT {'' if each else 'DISTINCT '}{' '.join(columns) or '(1 AS ?_one)'} WHERE {{ {rows}"
        f" {around}\n{body} }}"
    )
    inner = (
        f"{{ SELECT DISTINCT {' '.join([*head, *(f'?{name}' for name in shown)]) or '(1 AS ?_one)'}"
        f" WHERE {{ {rows} {around}\n{body} }} }}"
    )
    answers = _sorted_columns(*batch.graph.numbered_answers(text))
    return _framed(
        branch,
        batch,
        parent,
        answers,
        head=bool(head),
        shown=shown,
        calculated=calculated,
        text=inner,
    )


def _open_rows(batch: Batch, holes: list[Const]) -> str:
    """``VALUES (?_q ?_h5) { (0 <x>) (1 <y>) }``: the constants of every query."""
    rows = " ".join(
        f"({i} {' '.join(query.value(hole) for hole in holes)})"
        for i, query in enumerate(batch.queries)
    )
    return f"VALUES (?_q {' '.join(f'?_h{hole.token}' for hole in holes)}) {{ {rows} }}"


def _sorted_columns(terms: Sequence[Answer], rows: list[tuple[int, ...]]) -> list[list[Answer]]:
    """The columns of answers in a fixed order; the answers to one query share their terms.

    Args:
        terms: the terms in the answers. rows: for each answer the positions of its terms.
    """
    if not rows:
        return []
    order = [_order(term) for term in terms]
    ranks = {value: i for i, value in enumerate(sorted(set(order)))}
    rank = np.array([ranks[value] for value in order], dtype=np.int64)
    columns = np.array(rows, dtype=np.int64).T
    columns = columns[:, np.lexsort(rank[columns][::-1])]
    return [[terms[i] for i in column] for column in columns.tolist()]


def _order(term: Answer) -> tuple[int, float, str]:
    if term is None:
        return 0, 0.0, ""
    if isinstance(term, Iri):
        return 1, 0.0, term.value
    number = isinstance(term.value, int | float) and not isinstance(term.value, bool)
    return (2, float(term.value), term.lexical) if number else (3, 0.0, term.lexical)


def _framed(
    branch: Branch,
    batch: Batch,
    parent: Frame | None,
    answers: list[list[Answer]],
    *,
    head: bool,
    shown: tuple[str, ...],
    calculated: dict[Expr, str],
    text: str,
) -> Frame:
    """The rows of the answers, given as columns; queries that do not differ in what they ask share
    them.
    """
    count = len(answers[0]) if answers else 0
    numbers = (
        [int(term.value) if isinstance(term, Literal) else 0 for term in answers[0]]
        if head and answers
        else [0] * count
    )
    cells = answers[int(head) :]
    names = [*shown, *calculated.values()]
    columns = {name: cells[i] if cells else [] for i, name in enumerate(names)}
    query = np.array(numbers, dtype=np.int64)
    if parent is None:
        owner = np.arange(count)
        if not head and len(batch.queries) > 1:
            every = np.repeat(np.arange(len(batch.queries)), count)
            owner = np.tile(owner, len(batch.queries))
            columns = {
                name: [column[i] for i in owner.tolist()] for name, column in columns.items()
            }
            query = every
    else:
        owner, rows = _owners(parent, columns, query, head=head)
        columns = {name: [column[i] for i in rows] for name, column in columns.items()}
        query = parent.query[owner]
    return Frame(
        branch=branch,
        batch=batch,
        parent=parent,
        owner=owner,
        query=query,
        columns=columns,
        exprs=dict(calculated),
        names=shown,
        text=text,
    )


def _owners(
    parent: Frame, columns: dict[str, list[Answer]], query: Ids, *, head: bool
) -> tuple[Ids, list[int]]:
    """The parent row of each answer; an answer of several queries has one in each of them."""
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


def find_reading(item: Observed, frame: Frame) -> Reading:
    """Where each row finds a value."""
    observations = frame.batch.observations
    subjects, properties = node_values(item.subject, frame), node_values(item.property, frame)
    find = observations.find_column
    found = [
        None if subject is None or name is None else find(name, subject)
        for subject, name in zip(subjects, properties, strict=True)
    ]
    named = {
        id(where[0]): (where[0], name or "")
        for where, name in zip(reversed(found), reversed(properties), strict=True)
        if where is not None
    }
    order = dict.fromkeys([id(where[0]) for where in found if where is not None])
    positions = {key: i for i, key in enumerate(order)}
    places = [named[key][0] for key in order]
    kinds = [observations.kind(named[key][1], named[key][0]) for key in order]
    at = [-1 if where is None else positions[id(where[0])] for where in found]
    keys = [None if where is None else where[1] for where in found]
    return Reading(
        observed=item,
        at=np.array(at, dtype=np.int64),
        places=tuple(places),
        kinds=tuple(kinds),
        keys=tuple(keys),
    )
