"""The outcome of each part of a shape or query: rows in a bank, a verdict on the graph, or a
refusal.

There is no fourth outcome, and none of the three can be empty: rows have a rule and are at least
one, a verdict says whether the graph conforms, and a refusal has a place and a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from fedkg.pack import Placement
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.ir import BoundRows


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRows:
    """A part that is checked on data.

    Attributes:
        part: the constraint component of the shape, or the query.
        rows: its constraints, at least one.
        graph_violates: whether the graph alone violates it too.
        reason: why it is placed so; "" for none.

    Raises:
        ValueError: there are no rows.
    """

    part: str
    rows: tuple[BoundRows, ...] = field(compare=False, repr=False)
    graph_violates: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"{self.part} has no rows; expected rows, a verdict or a refusal")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphVerdict:
    """A part that the graph decides when it is compiled.

    Attributes:
        part: the constraint component of the shape, or the query.
        conforms: whether the graph conforms to it.
        reason: why it is decided so; "" for none.
        is_on: whether the part applies at all. A deactivated part, and one that no target leads to,
            is off: every graph conforms to it.

    Raises:
        ValueError: a part that is off is violated, or has no reason.
    """

    part: str
    conforms: bool
    reason: str = ""
    is_on: bool = True

    def __post_init__(self) -> None:
        if not self.is_on and not (self.conforms and self.reason):
            raise ValueError(f"{self.part} is off: expected a reason, and that the graph conforms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A part that fedkg does not check; a diagnostic reports it.

    Attributes:
        part: the constraint component of the shape, or the query.
        span: the place of the construct that fedkg does not support.
        reason: why it is not checked.

    Raises:
        ValueError: there is no reason.
    """

    part: str
    span: Span
    reason: str

    def __post_init__(self) -> None:
        if not self.reason:
            raise ValueError(f"{self.part} is refused without a reason")


PartOutcome = BankRows | GraphVerdict | Refusal
NO_CONSTRAINTS = "it has no constraints"
"""The reason of a shape without components; a compilation of such shapes alone is an error."""


def placement_of(outcome: PartOutcome, source: str) -> Placement:
    """Return the record of an outcome in the pack.

    Args:
        outcome: the outcome of one part.
        source: the name of its file without folders.
    """
    match outcome:
        case BankRows():
            return Placement(
                source=source,
                part=outcome.part,
                where="rows",
                rule=outcome.rows[0].rule.name,
                reason=outcome.reason,
                conforms=False if outcome.graph_violates else None,
            )
        case GraphVerdict():
            return Placement(
                source=source,
                part=outcome.part,
                where="graph" if outcome.is_on else "off",
                reason=outcome.reason,
                conforms=outcome.conforms if outcome.is_on else None,
            )
        case Refusal():
            return Placement(
                source=source, part=outcome.part, where="refused", reason=outcome.reason
            )
        case _:
            assert_never(outcome)
