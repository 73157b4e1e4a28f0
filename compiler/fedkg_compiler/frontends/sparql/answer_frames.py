"""The rows of a branch: what the graph answered, and where the table has what is read.

Letters: N rows of a frame, Q queries of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkg_compiler.frontends.fkg.binding.scope import Place
from fedkg_compiler.frontends.fkg.binding.signal_columns import Key
from fedkg_compiler.frontends.sparql.branch_tree import Branch, Observed
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.frontends.sparql.observed_entity_enumeration import NotTogether
from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.rdf_terms import Iri, Literal
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText
from fedkg_compiler.graph.sparql_syntax.tree import Const, Expr, Var

Ids = NDArray[np.int64]
Answer = Iri | Literal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Queries of one shape with the same other constants: the graph answers them together.

    Attributes:
        open: the constants in which they differ, by token.
        varying: tokens of further constants in which they differ, which the graph is never asked
            about: observed properties that are alike (`Observations.likeness`), and numbers.
        group: [Q], a number for each query, equal for queries with the same `varying` constants;
            the numbers are in the order of their first queries.
    """

    queries: Sequence[QueryText]
    open: dict[int, Const]
    graph: Graph
    observations: Observations
    varying: tuple[int, ...] = ()
    group: Ids = field(init=False)

    def __post_init__(self) -> None:
        numbers: dict[tuple[str, ...], int] = {}
        group = [
            numbers.setdefault(tuple(query.constant(token) for token in self.varying), len(numbers))
            for query in self.queries
        ]
        object.__setattr__(self, "group", np.array(group, dtype=np.int64))

    def groups(self, query: Ids) -> list[tuple[QueryText, Ids]]:
        """Split the rows of these queries by group.

        Returns the first query of each group, and the positions of its rows.
        """
        numbers = self.group[query]
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        firsts = np.unique(self.group, return_index=True)[1]
        return [
            (self.queries[int(firsts[numbers[at[0]]])], at)
            for at in (np.split(order, cuts) if order.size else ())
        ]

    def show(self, constant: Const) -> str:
        """A constant as the store is asked: a variable where queries differ in it.

        Raises NotTogether.
        """
        if constant.token in self.varying:
            raise NotTogether
        if len(self.queries) > 1 and constant.token in self.open and constant.open:
            return f"?_h{constant.token}"
        return self.queries[0].value(constant)

    def holes(self, text: str) -> list[Const]:
        """The open constants that a text asks for."""
        return (
            []
            if len(self.queries) == 1
            else [item for token, item in sorted(self.open.items()) if f"?_h{token} " in f"{text} "]
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """What is read in each row: [N] positions in `places`, -1 where the table has nothing, and what
    selects the table row, by row.

    `kinds`: of each place, ``number`` or ``text`` where the graph says what the column holds, else
    "".
    """

    observed: Observed
    at: Ids
    places: tuple[Place, ...]
    kinds: tuple[str, ...]
    keys: tuple[Key | None, ...]

    @property
    def keyed(self) -> bool:
        """Whether any row reads selected table rows."""
        return any(self.keys)

    def take(self, rows: Ids) -> Reading:
        """What is read in some of the rows."""
        return Reading(
            observed=self.observed,
            at=self.at[rows],
            places=self.places,
            kinds=self.kinds,
            keys=tuple([self.keys[i] for i in rows.tolist()]),
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Frame:
    """The N rows of one branch.

    Attributes:
        branch: the branch that the rows belong to.
        batch: the queries that the graph answers together.
        parent: the frame of the outer group; None for the outermost group.
        owner: int64 [N], the row of `parent` that contains each row.
        query: int64 [N], the query of the batch that each row belongs to.
        columns: for each static variable and calculated sub-expression, its value in each row, [N].
        exprs: the name of the column of each calculated sub-expression.
        names: the static variables among the columns.
        text: a sub-select with the values of the static variables, for the queries of inner groups.
        inline: whether the rows are those of `parent`, so that the graph is not queried.
        grouped: whether the rows are the members of groups.
        other_rows: whether values are read from other table rows than that of `parent`.
        readings: what each observed variable reads in each row.
        inside: the frames of EXISTS and aggregates, by the identity of their branch.
        without: IRIs of the entities that were left out because the table has no values for them,
            by the group of their query (`Batch.group`).
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
    grouped: bool = False
    other_rows: bool = False
    readings: dict[str, Reading] = field(default_factory=dict)
    inside: dict[int, Frame] = field(default_factory=dict)
    without: dict[int, set[str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """N."""
        return int(self.query.shape[0])

    def take(self, rows: Ids) -> None:
        """Keep some rows alone."""
        self.owner, self.query = self.owner[rows], self.query[rows]
        self.columns = {
            name: [column[i] for i in rows.tolist()] for name, column in self.columns.items()
        }
        self.readings = {name: reading.take(rows) for name, reading in self.readings.items()}


def keyed_subjects(frame: Frame) -> frozenset[object]:
    """The entities of other table rows that a frame reads: the names of variables, and of constants
    the IRI in each query.
    """
    subjects = [item.observed.subject for item in frame.readings.values() if item.keyed]
    return frozenset(
        node.name
        if isinstance(node, Var)
        else tuple(query.value(node) for query in frame.batch.queries)
        for node in subjects
    )


def node_values(node: Var | Const, frame: Frame) -> list[str | None]:
    """The IRI of a node in each row; "" for the table row itself, None where it is none."""
    if isinstance(node, Const):
        values = [
            query.value(node)[1:-1] if node.kind == "iri" else None for query in frame.batch.queries
        ]
        return [values[q] for q in frame.query.tolist()]
    column = column_of(node.name, frame)
    if column is None:
        return [""] * frame.count
    return [term.value if isinstance(term, Iri) else None for term in column]


def column_of(name: str, frame: Frame) -> list[Answer] | None:
    """Return the values of a static variable in each row, from outer rows if it is bound there.

    None if the graph gives no value.
    """
    if name in frame.columns:
        return frame.columns[name]
    if frame.parent is None:
        return None
    around = column_of(name, frame.parent)
    return None if around is None else [around[i] for i in frame.owner.tolist()]
