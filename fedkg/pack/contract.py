"""The data contract: which columns the rules read and write, in which unit, and how a table's rows
hang together. `Node` is the base of all plain data in a pack.
"""

from __future__ import annotations

from operator import not_
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["input", "output"]

TRUTHS = ("false", "true")
"""The vocabulary of a ``boolean`` column: the code of each word is the number that represents it.
"""


class Node(BaseModel):
    """A frozen pydantic model that rejects unknown fields, and numbers that are NaN or infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class Column(Node):
    """One column of the value matrix that formulas are evaluated on.

    Attributes:
        name: unique in the pack: the signal's name, with its entity in brackets where it has one:
            ``temperature[zone_7]``.
        source: the header of the table column it is read from (case and spaces as in the file).
        alternatives: other headers of the same column, such as the browse path and the NodeId of
            an OPC UA variable; a table without `source` is read by the first of them that it has.
        type: ``real`` holds numbers; ``category`` holds the code of a text in `vocabulary`;
            ``boolean`` holds 0 and 1, which are codes of `TRUTHS` and may be read as numbers too;
            ``score`` holds the score of class `category` of output `label` (in a table: 1 for the
            class in the cell, 0 for the others).
        role: an ``input`` is observed data, an ``output`` what the model predicts.
        unit: of the values in the table, as written by the author; empty when it has none.
        span: smallest and largest value to expect, in `unit`.
        vocabulary: the texts of a ``category`` column, `TRUTHS` of a ``boolean`` one; the code is
            the position.
    """

    name: str
    source: str
    alternatives: tuple[str, ...] = Field(default=(), exclude_if=not_)
    type: Literal["real", "boolean", "category", "score"] = "real"
    role: Role = "input"
    unit: str = ""
    span: tuple[float, float] | None = None
    vocabulary: tuple[str, ...] = ()
    label: str = ""
    category: str = ""


class View(Node):
    """One reading of the table, and one run of the model.

    ``base`` is each row as it is (always view 0); ``previous`` is the row before it in its group
    (rows that agree in the table columns `groups`; without any the whole table is one group; the
    first row of a group is unknown); ``raised`` is the row with `column` raised by `delta` (in the
    column's unit), all else equal. With `steps` a ``previous`` row is the one that is a step
    earlier on the timeline, where a table has the contract's time column: a step that no row has is
    unknown.
    """

    kind: Literal["base", "previous", "raised"] = "base"
    groups: tuple[str, ...] = ()
    steps: bool = False
    column: int | None = None
    delta: float = 0.0


class DataContract(Node):
    """Everything a table must offer.

    Attributes:
        kind: ``table`` (rows without order), ``trace`` (one time series) or ``panel`` (traces told
            apart by `trace`).
        time: header of the time column; None without one.
        step: seconds between two rows; None if the rules do not declare it.
        trace: header of the column that tells traces apart; None without one.
        end: what a window that reaches beyond its trace meets there: unknown steps (``strict``), or
            nothing (``clip``).
        columns: the value columns, in the order of bank slots.
        views: the readings that rules refer to; view 0 is the base.
        unread: the columns of declared outputs and labels that no rule reads. Only a job that
            trains one of them needs its columns.
    """

    kind: Literal["table", "trace", "panel"] = "table"
    time: str | None = None
    step: float | None = None
    trace: str | None = None
    end: Literal["strict", "clip"] = "strict"
    columns: tuple[Column, ...]
    views: tuple[View, ...] = (View(),)
    unread: tuple[Column, ...] = Field(default=(), exclude_if=not_)

    def index(self, name: str) -> int:
        """Position of the column called `name`. Raises KeyError."""
        for i, column in enumerate(self.columns):
            if column.name == name:
                return i
        raise KeyError(name)

    def with_output(self, name: str) -> DataContract:
        """The contract with the columns of the declared output or label `name`, if no rule reads
        it; with "", those of the only one, if rules read none.
        """
        names = {one.label or one.name for one in self.unread}
        if not name and len(names) == 1 and all(one.role == "input" for one in self.columns):
            [name] = names
        own = tuple(one for one in self.unread if name == (one.label or one.name))
        others = tuple(one for one in self.unread if one not in own)
        return self.model_copy(update={"columns": (*self.columns, *own), "unread": others})
