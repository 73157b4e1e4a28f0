"""Whether two rules of a pack agree on random traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation.table_readings import table_values
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.pack import Pack
from fedkg.tables import Table

TRACES, LONGEST = 60, 12
"""Number of random traces, and steps of the longest one."""
LARGEST = 1e6
"""Numbers of rules above this are no values of columns: margins, ends of windows."""


def count_differing_traces(pack: Pack, first: str, second: str) -> int:
    """Count the random traces, of `TRACES`, that one of two rules violates and the other does not.

    Columns take the numbers of the two rules, so that comparisons become true and false. The traces
    are the same in every call. The pack's timeline has a trace column.
    """
    names = [rule.name for rule in pack.manifest.rules]
    places = []
    for name in (first, second):
        number = names.index(name)
        bank = next(bank for bank in pack.banks if number in bank.rule)
        places.append((bank, int(np.flatnonzero(bank.rule == number)[0])))
    numbers = np.unique(np.concatenate([bank.params[row] for bank, row in places]))
    numbers = numbers[np.abs(numbers) < LARGEST]
    contract = pack.manifest.contract
    random = np.random.default_rng(0)
    traces = np.repeat(np.arange(TRACES), random.integers(1, LONGEST, TRACES, endpoint=True))
    headers = {column.source or column.name: column.type for column in contract.columns}
    cells: dict[str, Sequence[str] | NDArray[np.float64]] = {
        header: _column(random, traces, np.array([0.0, 1.0]) if kind == "boolean" else numbers)
        for header, kind in headers.items()
    }
    cells[contract.trace or "trace"] = [f"t{trace}" for trace in traces.tolist()]
    table = Table.of("random traces", cells)
    timing, _ = table_timing(contract, table)
    values = table_values(contract, table).values
    violated = [
        np.bincount(traces, evaluate_bank(bank, values, timing).violated[:, row], TRACES) > 0
        for bank, row in places
    ]
    return int(np.sum(violated[0] != violated[1]))


def _column(
    random: np.random.Generator, traces: NDArray[np.int64], pool: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Values of one column, float64 [B]: half of them are those of the step before."""
    drawn = random.choice(pool, len(traces))
    kept = random.random(len(traces)) < 0.5
    kept[1:] &= traces[1:] == traces[:-1]
    kept[0] = False
    return drawn[np.maximum.accumulate(np.where(kept, 0, np.arange(len(traces))))]
