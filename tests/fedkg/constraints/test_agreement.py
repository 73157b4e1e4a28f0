"""The tensor engine agrees with the interpreter on any formula."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import CATEGORY, EXACT, TRANSCENDENTAL, VOCABULARY, X, Y, formulas, packs, tables
from tries import tries

from fedkg.constraints import ConstraintModule, evaluate_bank
from fedkg.pack import Pack


def module_of(pack: Pack) -> ConstraintModule:
    return ConstraintModule(pack, x=X, y=Y)


def readings(table: NDArray[np.float64], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values [V, B, C] of the contract's views.

    Features come from `table`, outputs of every view from `answers` [V, B, 5].
    """
    views = np.repeat(table[None], 4, axis=0)
    views[1, :, 1] += 2.5
    for view, groups in ((2, np.zeros(len(table))), (3, table[:, CATEGORY])):
        for row in range(len(table)):
            above = [i for i in range(row) if groups[i] == groups[row]]
            views[view, row] = table[above[-1]] if above else np.nan
    views[:, :, 4:] = np.where(np.isnan(views[:, :, CATEGORY : CATEGORY + 1]), np.nan, answers)
    views[1, :, 4:] = np.where(
        np.isnan(views[1, :, 1:2]), np.nan, views[1, :, 4:]
    )  # what is raised is not known
    return views


def stacked(module: ConstraintModule, answers: NDArray[np.float64]) -> torch.Tensor:
    return torch.from_numpy(answers[list(module.plan.runs)])


@st.composite
def cases(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    table = draw(tables())
    seed = draw(st.integers(0, 2**16))
    grid = np.random.default_rng(seed).integers(-3, 4, (4, len(table), 5)) / 2.0
    if draw(st.booleans()):
        grid[np.random.default_rng(seed + 1).random(grid.shape) < 0.2] = np.nan
    return table, grid


def compare(
    pack: Pack, table: NDArray[np.float64], answers: NDArray[np.float64], **tolerance: float
) -> None:
    module = module_of(pack)
    values = readings(table, answers)
    report = module(
        torch.from_numpy(table[:, :4]),
        stacked(module, answers),
        previous="above",
        keys={"Type": [VOCABULARY[int(c)] for c in table[:, CATEGORY]]},
    )
    start = 0
    for bank in pack.banks:
        expected = evaluate_bank(bank, values)
        rows = slice(start, start := start + bank.rows)
        assert (report.applicable[:, rows].numpy() == expected.applicable).all()
        np.testing.assert_allclose(
            report.robustness[:, rows].numpy(),
            expected.robustness,
            **({"rtol": 0, "atol": 0} | tolerance),
        )
        for name in ("satisfied", "violated", "unknown", "fired"):
            differing = getattr(report, name)[:, rows].numpy() != getattr(expected, name)
            assert not differing[
                ~(np.abs(expected.robustness) < tolerance.get("atol", -1))
            ].any(), name


@given(packs(), cases())
@tries(30)
def test_robustness_and_verdicts_are_the_interpreters_to_the_bit(
    pack: Pack, case: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> None:
    compare(pack, *case)


@given(packs(skeletons=formulas(EXACT + TRANSCENDENTAL)), cases())
@tries(25)
def test_transcendental_functions_agree_to_the_last_digits(
    pack: Pack, case: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> None:
    compare(pack, *case, rtol=1e-6, atol=1e-6)
