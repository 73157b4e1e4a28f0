"""What an expression of one rule is bound against.

Letter: R bank rows of the rule (or of the part of its rows that share all units).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Formula
from fedkg_compiler.column_registry import Book
from fedkg_compiler.diagnostics.problems import Problems
from fedkg_compiler.frontends.fkg.binding.bound_values import Value
from fedkg_compiler.frontends.fkg.binding.mined_parameters import Mined
from fedkg_compiler.frontends.fkg.binding.quantifier_values import Environment
from fedkg_compiler.frontends.fkg.binding.signal_columns import Readings, Sources
from fedkg_compiler.frontends.fkg.binding.symbol_table import Names
from fedkg_compiler.frontends.fkg.syntax.tree import Condition, Expression
from fedkg_compiler.ir import RowBuilder

if TYPE_CHECKING:
    from fedkg_compiler.graph.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The view in which signals are read: a word that tells it from others in the same rule, and
    its ids [R].

    Attributes:
        past: what the model predicts is read as data: its history.
    """

    key: str
    ids: NDArray[np.int64]
    past: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Names, values and columns of one rule.

    Attributes:
        keys: for each of R rows, the headers and texts that select its table rows.
        compared: gathers the units of what comparisons are missed by: K where they are made in
            degC.
        bind_value: binds a value that another value or a condition contains; None where it is
            wrong, which has been said.
        bind_condition: binds a condition that a value or another condition contains, likewise.
        sources: what members are looked up in.
        mined: the variables with values mined from data, by name.
        permits: whether the condition loosens a rule (under `not`, after `if`) instead of being
            required.
    """

    names: Names
    environment: Environment
    readings: Readings
    rows: RowBuilder
    book: Book
    problems: Problems
    graph: Graph | None
    view: View
    keys: tuple[tuple[tuple[str, str], ...], ...]
    compared: list[str]
    bind_value: Callable[[Expression, Scope], Value | None]
    bind_condition: Callable[[Condition, Scope], Formula | None]
    sources: Sources | None = None
    mined: Mapping[str, Mined] = field(default_factory=dict)
    permits: bool = False

    def where(self, row: int) -> str:
        """`` in ROW`` for messages about a value of the quantifier; "" where the rule has none."""
        return (
            f" in {self.environment.name(row)}"
            if self.environment.cells and self.environment.known
            else ""
        )
