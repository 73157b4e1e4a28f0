"""Steps of a trace that no row of the table has.

Letters: B table rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.trace_grids import Timing
from fedkg.evaluation.column_reads import reads
from fedkg.pack import Bank, DataContract, is_temporal
from fedkg.tables import Table


@dataclass(frozen=True, slots=True)
class Gap:
    """How many steps are missing, in how many places, and the table row before the first of
    them.
    """

    steps: int
    places: int
    row: int


@dataclass(slots=True, eq=False)
class Gaps:
    """By set of key columns, filled bank by bank: the steps missing between two rows of a trace.

    None: none.

    Attributes:
        steps: the views that look one step back on the timeline.
    """

    steps: frozenset[int] = frozenset()
    found: dict[tuple[int, ...], Gap | None] = field(default_factory=dict)

    def add(self, bank: Bank, timing: Timing, base: NDArray[np.float64]) -> None:
        """Look between the rows that a bank is about, unless it looks at no step but a row's own.

        `base` float64 [B, C]: the table.
        """
        looks_back = (bool(np.isin(views, list(self.steps)).any()) for _, views, _ in reads(bank))
        if not timing.gaps or not (is_temporal(bank.skeleton) or any(looks_back)):
            return
        for keys in {tuple(sorted(key for key in row if key >= 0)) for row in bank.keys.tolist()}:
            if keys not in self.found:
                self.found[keys] = _gap(list(keys), timing, base)

    def notes(self, contract: DataContract, table: Table) -> tuple[str, ...]:
        """``the table has no row for 2 steps, first after 00:05: windows that need them are
        unknown``, for each set of key columns.
        """
        out = []
        for keys, gap in self.found.items():
            if gap is None or contract.time is None:
                continue
            steps = f"{gap.steps:,} step{'s' * (gap.steps > 1)}" + (
                f" in {gap.places:,} places" if gap.places > 1 else ""
            )
            scope = (
                " of one " + " and ".join(f"`{contract.columns[key].source}`" for key in keys)
                if keys
                else ""
            )
            after = f"{table.texts(contract.time)[gap.row]} in {table.where(gap.row)}"
            out.append(
                f"the table has no row for {steps}{scope}, first after {after}: windows "
                f"that need them are unknown"
            )
        return tuple(out)


def _gap(keys: list[int], timing: Timing, base: NDArray[np.float64]) -> Gap | None:
    rows = np.flatnonzero(
        (timing.trace >= 0) & (base[:, keys] >= 0).all(axis=1)
    )  # texts that no rule knows have a code below 0
    if rows.size < 2:
        return None
    rows = rows[
        np.lexsort((rows, timing.step[rows], *base[rows][:, keys].T[::-1], timing.trace[rows]))
    ]
    one, other = rows[1:], rows[:-1]
    same = (timing.trace[one] == timing.trace[other]) & (
        base[one][:, keys] == base[other][:, keys]
    ).all(axis=1)
    lost = np.where(same, np.maximum(timing.step[one] - timing.step[other] - 1, 0), 0)
    at = np.flatnonzero(lost)
    return Gap(int(lost.sum()), int(at.size), int(other[at[0]])) if at.size else None
