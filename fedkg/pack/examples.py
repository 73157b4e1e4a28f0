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
        rule: its name. holds: what the author expects. text, file, line, column: the statement and
            its location.
        bank: the one row of the rule that the example is run on; without keys, since every step is
            about it.
        contract: of that row alone; windows end with the trace.
        base: float64 [T, C], the values in the columns' units, NaN where unknown;
            `RuleExample.given` says which columns have any.
        unit: of the robustness. entity: what the row is about.
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
