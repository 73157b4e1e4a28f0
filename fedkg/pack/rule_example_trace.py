"""Examples that rule files give of their rules: a short trace, and whether the rule holds on it.

A pack does not contain them.

Letters: T steps, C columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.bank import Bank
from fedkg.pack.contract import DataContract


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleExample:
    """One example, ready to be run.

    Attributes:
        rule: name of the rule.
        holds: whether the author expects the rule to hold.
        text: the statement as written.
        file: file of the statement.
        line: line of the statement.
        column: column at which the statement begins in this line.
        bank: the one row of the rule that the example is run on; without keys, since every step is
            about it.
        contract: the contract of that row alone; windows end with the trace.
        base: float64 [T, C], the values in the columns' units; NaN if unknown.
        given: names of the columns for which the example has values.
        unit: unit of the robustness; "" for none.
        entity: the entity that the row is about; "" for none.
    """

    rule: str
    holds: bool
    text: str
    file: str
    line: int
    column: int
    bank: Bank
    contract: DataContract
    base: NDArray[np.float64]
    given: tuple[str, ...]
    unit: str = ""
    entity: str = ""
