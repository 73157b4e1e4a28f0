"""Rules compiled and evaluated in one step, for tests that compare with hand-computed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation import table_values
from fedkg.pack import Pack
from fedkg.tables import read_bytes
from fedkg_compiler import compile_rules


def compiled(text: str, graphs: Sequence[Path] = ()) -> Pack:
    """The pack of a rule text; fails with the messages where there is none."""
    compilation = compile_rules(text=text, graphs=graphs)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def by_entity(pack: Pack, table: str) -> dict[str, list[float]]:
    """Robustness on each table row, by the entity of the bank row.

    NaN where it does not apply or is unknown.
    """
    values = table_values(pack.manifest.contract, read_bytes(table.encode(), "table.csv")).values
    found = {}
    for bank in pack.banks:
        result = evaluate_bank(bank, values)
        for i in range(bank.rows):
            found[pack.manifest.entities[int(bank.entity[i])]] = np.where(
                result.applicable[:, i], result.robustness[:, i], np.nan
            ).tolist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """The bank rows of a pack on one table row.

    Robustness and whether each fires, in pack order; the unit of the first.
    """

    robustness: NDArray[np.float64]
    fired: NDArray[np.bool_]
    unit: str


def row_of(text: str, row: Mapping[str, float | str]) -> RowResult:
    """The results of the rules on one table row."""
    pack = compiled(text)
    body = (
        ";".join(f'"{header}"' for header in row)
        + "\n"
        + ";".join(str(value) for value in row.values())
        + "\n"
    )
    values = table_values(pack.manifest.contract, read_bytes(body.encode(), "table.csv")).values
    results = [evaluate_bank(bank, values) for bank in pack.banks]
    return RowResult(
        robustness=np.concatenate([result.robustness[0] for result in results]),
        fired=np.concatenate([result.fired[0] for result in results]),
        unit=pack.manifest.units[int(pack.banks[0].unit[0])],
    )
