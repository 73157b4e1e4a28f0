"""Rows of a frame that can share a formula: where the same values are there, of the same kinds and
in the same units.

Letters: N rows of the frame, P rows of a part.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from fedkg.pack import Formula
from fedkg_compiler.frontends.fkg.binding.scope import Place
from fedkg_compiler.frontends.sparql.answer_frames import Answer, Frame, Ids, Reading, column_of
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.rdf_terms import Iri, Literal, Quantity
from fedkg_compiler.graph.standard_vocabularies import RDF
from fedkg_compiler.ir import RowBuilder

Kind = tuple[str, str]
"""``none``, ``true``, ``false``, ``number`` with its unit, ``text``, ``iri``."""


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """P rows of a frame that share a formula.

    Attributes:
        frame: the frame that the rows belong to.
        at: int64 [P], the positions of the rows in the frame.
        rows: the rows of the formula.
        outer: the part that contains the rows, if they are members of a set; else None.
        owner: int64 [P], the row of `outer` that contains each row; None without `outer`.
        table: the number of the member table that the rows belong to; -1 for the rows of the bank.
        members: the member tables that were made for the frames of inner groups, by the identity of
            their branch.
        inline: the parts that were made for inner groups with the same rows, by the identity of
            their branch.
        gathered: for each row, the headers and texts that select the table rows of all its members.
        depth: in which table row the rows are read, as in `fedkg.pack.TableRows`.
        without_row: that no table row has the keys of a member; None for what is read from rows.
    """

    frame: Frame
    at: Ids
    rows: RowBuilder
    outer: Part | None = None
    owner: Ids | None = None
    table: int = -1
    members: dict[int, list[Part]] = field(default_factory=dict)
    inline: dict[int, Part] = field(default_factory=dict)
    gathered: dict[int, dict[str, str]] = field(default_factory=dict)
    depth: int = 0
    without_row: Formula | None = None

    @property
    def other_rows(self) -> bool:
        """Whether the rows are read from other table rows than their owner."""
        return self.outer is not None and self.depth > self.outer.depth

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.frame.batch.graph

    def answers(self, name: str) -> list[Answer] | None:
        """The static variable in each row: [P]."""
        column = column_of(name, self.frame)
        return None if column is None else [column[i] for i in self.at.tolist()]

    def place(self, name: str) -> tuple[list[Place], Ids] | None:
        """Return the columns of an observed variable and the column of each row, or None."""
        reading = self.frame.readings[name]
        at = reading.at[self.at]
        return None if at.shape[0] == 0 or at[0] < 0 else (list(reading.places), at)

    def kind(self, name: str) -> Kind:
        """The kind of a static variable, the same in all rows."""
        column = self.answers(name)
        return ("none", "") if not column else kind_of(column[0], self.frame.batch.observations)


def partition(frame: Frame) -> list[Ids]:
    """The rows of a frame in parts."""
    signature = [_kinds(column, frame.batch.observations) for column in frame.columns.values()]
    signature += [
        _place_codes(reading) for item in _same_rows(frame) for reading in item.readings.values()
    ]
    if not signature:
        return [np.arange(frame.count)] if frame.count else []
    stacked = np.stack(signature, axis=1)
    _, first, which = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    return [np.flatnonzero(which.ravel() == i) for i in order.tolist()]


def _same_rows(frame: Frame) -> list[Frame]:
    """The frame and the inner frames with the same rows."""
    return [
        frame,
        *(other for inner in frame.inside.values() if inner.inline for other in _same_rows(inner)),
    ]


def _kinds(column: list[Answer], observations: Observations) -> Ids:
    numbers: dict[Hashable, int] = {}
    terms = {id(term): term for term in column}  # answers to one query share their terms
    codes = {
        key: numbers.setdefault(kind_of(term, observations), len(numbers))
        for key, term in terms.items()
    }
    return np.array([codes[id(term)] for term in column], dtype=np.int64)


def kind_of(term: Answer, observations: Observations) -> Kind:
    """What a static value is."""
    if term is None:
        return "none", ""
    found = observations.kinds.get(term)
    if found is None:
        found = observations.kinds[term] = _find_kind(term, observations)
    return found


def _find_kind(term: Iri | Literal, observations: Observations) -> Kind:
    if isinstance(term, Literal) and isinstance(term.value, bool):
        return ("true" if term.value else "false"), ""
    number = observations.number(term)
    if number is not None:
        value, unit = (number.value, number.unit) if isinstance(number, Quantity) else (number, "")
        return ("number", unit) if np.isfinite(value) else ("none", "")
    if isinstance(term, Iri):
        return "iri", ""
    return "text", "@" if term.datatype == RDF + "langString" else ""


def _place_codes(reading: Reading) -> Ids:
    numbers: dict[Hashable, int] = {None: 0}
    codes = [0]
    for place, kind in zip(reading.places, reading.kinds, strict=True):
        told = (
            kind,
            place.role,
            place.stored.text if place.stored else None,
            place.rule_unit.text if place.rule_unit else None,
        )
        codes.append(numbers.setdefault(told, len(numbers)))
    return np.array(codes, dtype=np.int64)[reading.at + 1]
