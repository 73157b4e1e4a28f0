"""Rules compiled and evaluated on traces, for tests that compare with hand-computed verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation import table_values
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.pack import Pack, read_pack
from fedkg.tables import read_bytes
from fedkg_compiler import compile_rules


def compiled(text: str) -> Pack:
    """The pack of a rule text, written and read again; fails with the messages if there is none."""
    compilation = compile_rules(text=text)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return read_pack(compilation.pack.to_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of one rule at each step.

    Verdicts `T`, `F` or `?`, and robustness (float64 [B], NaN where unknown).
    """

    verdicts: str
    robustness: NDArray[np.float64]


def judged(pack: Pack, trace: Mapping[str, Sequence[object]]) -> dict[str, Judged]:
    """The verdict of each rule at each row of a table; its columns are given by header."""
    rows = [
        ";".join("" if cell is None else str(cell) for cell in row)
        for row in zip(*trace.values(), strict=True)
    ]
    lines = [f"row;{';'.join(trace)}", *(f"{i};{row}" for i, row in enumerate(rows))]
    table = read_bytes("\n".join([*lines, ""]).encode(), "trace.csv")
    contract = pack.manifest.contract
    timing, _ = table_timing(contract, table)
    values = table_values(contract, table).values
    found = {}
    for bank in pack.banks:
        result = evaluate_bank(bank, values, timing)
        for i in range(bank.rows):
            letters = np.where(
                result.satisfied[:, i], "T", np.where(result.violated[:, i], "F", "?")
            )
            name = pack.manifest.rules[int(bank.rule[i])].name
            found[name] = Judged(verdicts="".join(letters), robustness=result.robustness[:, i])
    return found


def verdicts(text: str, **trace: Sequence[object]) -> dict[str, str]:
    """The letters of each rule."""
    return {name: one.verdicts for name, one in judged(compiled(text), trace).items()}
