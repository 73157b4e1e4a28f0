"""The intermediate representation: typed formulas over rows, as every frontend gives them to the
passes and to the banks.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Formula, Param, Placement, Role, RuleRecord, Slot, Source
from fedkg.pack.causes import CauseRecord
from fedkg.pack.examples import RuleExample
from fedkg.pack.feasible_sets import KeptSet
from fedkg.pack.inference_records import Inference
from fedkg.pack.knowledge_models import KnowledgeModel
from fedkg_compiler.column_registry import Columns
from fedkg_compiler.diagnostics.record import Diagnostic, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What `timeline` says: seconds between rows, headers of the time column and of the column that
    tells traces apart.

    Attributes:
        step: seconds between two rows; None if it is not declared.
        time: header of the time column, or None.
        trace: header of the column that tells traces apart, or None.
        end: how a window is read beyond its trace: as unknown steps (`strict`), or as no steps
            (`clip`).
        declared: whether there is a `timeline` statement.
        step_broken: the declared step is wrong; a diagnostic has been reported.
        ordered: a rule is about time, so the rows have an order even if no timeline is declared.
    """

    step: float | None = None
    time: str | None = None
    trace: str | None = None
    end: Literal["strict", "clip"] = "strict"
    declared: bool = False
    step_broken: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotColumn:
    """The contents of one slot: ids [R] of columns and of views.

    `depth`: in which table row it is read, as in `fedkg.pack.TableRows`.
    """

    columns: NDArray[np.int64]
    views: NDArray[np.int64]
    role: Role
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """A parameter that is the code of a text, known when all texts are: column ids [R] and texts
    [R].
    """

    columns: NDArray[np.int64]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberRows:
    """Sets of members, one for each owner (a row of the table `parent`, or with -1 of the rule),
    and the columns of their M members.

    Attributes:
        offsets: int64 [P + 1], as in `fedkg.pack.MemberTable`.
        keys: for members that are read from other table rows than their owner: for each of M
            members, the headers and texts that select its table rows; else None.
    """

    parent: int
    offsets: NDArray[np.int64]
    rows: Rows
    keys: tuple[RowKeys, ...] | None = None


RowKeys = tuple[tuple[str, str], ...]
"""Headers and texts that select table rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The contents of the slots and parameters of a formula in R rows, and of its sets of members.

    Attributes:
        count: R.
        members: the sets of members of all levels, numbered as formulas number them; the rows of
            members have none themselves.
    """

    count: int
    slots: tuple[SlotColumn, ...] = ()
    params: tuple[NDArray[np.float64] | Codes, ...] = ()
    members: tuple[MemberRows, ...] = ()

    def slots_read(self) -> list[SlotColumn]:
        """All slots, those of members included."""
        return [*self.slots, *(slot for table in self.members for slot in table.rows.slots)]


class RowBuilder:
    """Collects slots, parameters and sets of members while a frontend binds one formula; `build`
    gives the rows. Slots and parameters are numbered in the order of their first use.

    Sets of members have builders too, with a `number` among the sets of the rule's own rows, which
    are their `root`.
    """

    def __init__(self, count: int, *, root: RowBuilder | None = None, number: int = -1) -> None:
        self.count = count
        self.root: RowBuilder = self if root is None else root
        self.number = number
        self.slots: list[SlotColumn] = []
        self.params: list[NDArray[np.float64] | Codes] = []
        self.members: list[MemberBuilder] = []
        self._known: dict[Hashable, Slot] = {}

    def slot(
        self,
        key: Hashable,
        columns: NDArray[np.int64],
        views: NDArray[np.int64],
        role: Role,
        depth: int = 0,
    ) -> Slot:
        """The slot for a reading; the same `key` (what is read, in which view) gives the same
        slot.
        """
        if key not in self._known:
            self._known[key] = Slot(index=len(self.slots), role=role)
            self.slots.append(SlotColumn(columns=columns, views=views, role=role, depth=depth))
        return self._known[key]

    def param(self, values: NDArray[np.float64]) -> Param:
        """A new parameter with one number for each row."""
        values = np.asarray(values, dtype=np.float64)
        self.params.append(
            values if values.shape == (self.count,) else np.broadcast_to(values, (self.count,))
        )
        return Param(index=len(self.params) - 1)

    def codes(self, columns: NDArray[np.int64], texts: tuple[str, ...]) -> int:
        """A new parameter that becomes the code of a text; its index."""
        self.params.append(Codes(columns=columns, texts=texts))
        return len(self.params) - 1

    def set_of_members(
        self,
        offsets: NDArray[np.int64],
        parent: int | None = None,
        keys: tuple[RowKeys, ...] | None = None,
    ) -> tuple[int, RowBuilder]:
        """A new table of members, which these rows own; its number, and the rows of its members."""
        tables = self.root.members
        rows = RowBuilder(int(offsets[-1]), root=self.root, number=len(tables))
        owner = self.number if parent is None else parent
        tables.append(MemberBuilder(parent=owner, offsets=offsets, rows=rows, keys=keys))
        return rows.number, rows

    def forget(self) -> None:
        """Remove the newest table of members, which contains these rows: nothing refers to it."""
        if self.root.members and self.root.members[-1].rows is self:
            self.root.members.pop()

    def build(self) -> Rows:
        """The rows as collected so far."""
        return Rows(
            count=self.count,
            slots=tuple(self.slots),
            params=tuple(self.params),
            members=tuple(
                MemberRows(
                    parent=table.parent,
                    offsets=table.offsets,
                    rows=table.rows.build(),
                    keys=table.keys,
                )
                for table in self.members
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberBuilder:
    """A set of members that is being collected; see `MemberRows`."""

    parent: int
    offsets: NDArray[np.int64]
    rows: RowBuilder
    keys: tuple[RowKeys, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundRows:
    """Rows of one rule that share a formula.

    Attributes:
        rule: what the pack will say of it; `output` is found out when all rows are bound.
        keys: for each of R rows, the headers and texts that select its table rows.
        entities: [R], what each row is about, for people.
        unit: of the robustness; "" where comparisons in several units meet.
        span: where the formula is written, for diagnostics of passes; None if it is not in a text.
        conclusion: what a clause of knowledge says of the output where `formula` holds. Its terms
            are in the record of the knowledge model, so it has no bank.
    """

    rule: RuleRecord
    formula: Formula
    rows: Rows
    keys: tuple[RowKeys, ...]
    entities: tuple[str, ...]
    unit: str
    span: Span | None = None
    conclusion: Formula | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """The bound statements of a compilation, or of one frontend. Passes map a program to a program.

    Attributes:
        rows: the constraints, in the order of their rules.
        conditions: formulas other than constraints; the n-th becomes the pack's n-th condition
            bank, row for row.
        inferences: the templates with parameters to be found in data, each with the position of its
            condition.
        knowledge: range and prediction models, each with the positions of its conditions.
        arrays: the weights of earlier models, by name.
        sets: the sets that keep parameters and predictions.
        causes: the statements about which client may drive which.
        placements: where each part of a shape or query went.
        examples: the examples of rules, in source order.
        sources: files that went into the pack.
        places: the locations of rules that are not in a rule file, by name.
        columns: the columns, views and texts that the rows refer to by number.
        timing: the timeline of the table rows.
        diagnostics: what the passes report.
    """

    rows: tuple[BoundRows, ...] = ()
    conditions: tuple[BoundRows, ...] = ()
    inferences: tuple[Inference, ...] = ()
    knowledge: tuple[KnowledgeModel, ...] = ()
    arrays: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    sets: tuple[KeptSet, ...] = ()
    causes: tuple[CauseRecord, ...] = ()
    placements: tuple[Placement, ...] = ()
    examples: tuple[RuleExample, ...] = ()
    sources: tuple[Source, ...] = ()
    places: Mapping[str, Span] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    timing: Timing = field(default_factory=Timing)
    diagnostics: tuple[Diagnostic, ...] = ()

    def joined_with(self, other: Program) -> Program:
        """This program followed by the statements of another one, with the columns and the
        timeline of this one.
        """
        joined: dict[str, Any] = {
            item.name: own + getattr(other, item.name)
            for item in fields(self)
            if isinstance(own := getattr(self, item.name), tuple)
        }
        return replace(
            self,
            **joined,
            arrays={**self.arrays, **other.arrays},
            places={**self.places, **other.places},
        )
