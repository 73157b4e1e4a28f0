"""The loops agree with the engine for any formula.

Verdicts and robustness agree to the bit, penalties and gradients up to rounding.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from fused_engines import agree
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from stl_formulas import Maker
from strategies import CATEGORY, VOCABULARY, X, Y, bank_of, pack_of, packs, tables
from test_agreement import cases, module_of, stacked
from test_torch_windows import answers_for, ending
from tries import tries

from fedkg.constraints import ConstraintModule
from fedkg.pack import Formula, Pack

ROOT = re.compile(r'"sqrt"|"exponent":0.5')
DTYPES = st.sampled_from([torch.float64, torch.float32])
ENDS = st.sampled_from(["clip", "strict"])


def dtype_for(pack: Pack, dtype: torch.dtype) -> torch.dtype:
    """float64 for packs with square roots: torch does not round float32 roots correctly."""
    return (
        torch.float64
        if any(ROOT.search(bank.skeleton.model_dump_json()) for bank in pack.banks)
        else dtype
    )


@given(packs(), cases(), DTYPES)
@tries(12)
def test_random_rules_on_rows(
    pack: Pack, case: tuple[NDArray[np.float64], NDArray[np.float64]], dtype: torch.dtype
) -> None:
    table, answers = case
    dtype = dtype_for(pack, dtype)
    module = module_of(pack)
    keys = {"Type": [VOCABULARY[int(c)] for c in table[:, CATEGORY]]}
    agree(
        module,
        torch.from_numpy(table[:, :4]).to(dtype),
        stacked(module, answers).to(dtype),
        previous="above",
        keys=keys,
    )


@given(packs(max_banks=2, temporal=True), tables(max_rows=7), st.integers(0, 99), ENDS, DTYPES)
@tries(12)
def test_random_rules_over_time_on_one_trace(
    pack: Pack, table: NDArray[np.float64], seed: int, end: str, dtype: torch.dtype
) -> None:
    dtype = dtype_for(pack, dtype)
    module = module_of(ending(pack, end))
    module._horizons.clear()  # a trace may be too short to decide a rule anywhere
    answers = torch.from_numpy(answers_for(seed, len(table), unknown=True))[
        list(module.plan.runs)
    ].to(dtype)
    agree(module, torch.from_numpy(table[:, :4]).to(dtype), answers, previous="above")


@given(packs(max_banks=2, temporal=True), tables(max_rows=8), st.integers(0, 99), ENDS)
@tries(10)
def test_random_rules_over_time_on_traces_by_label(
    pack: Pack, table: NDArray[np.float64], seed: int, end: str
) -> None:
    """Traces of unequal lengths with interleaved rows."""
    contract = ending(pack, end).manifest.contract.model_copy(update={"trace": "Type"})
    module = module_of(
        replace(pack, manifest=pack.manifest.model_copy(update={"contract": contract}))
    )
    module._horizons.clear()
    answers = torch.from_numpy(answers_for(seed, len(table), unknown=True))[list(module.plan.runs)]
    agree(module, torch.from_numpy(table[:, :4]), answers, previous="above")


@given(packs(max_banks=2, temporal=True), st.integers(0, 2**16), ENDS, st.booleans())
@tries(10)
def test_random_rules_over_time_on_windows_with_padding(
    pack: Pack, seed: int, end: str, unknown: bool
) -> None:
    dice = torch.Generator().manual_seed(seed)
    module = module_of(ending(pack, end))
    module._horizons.clear()
    x, y = (torch.randint(-3, 4, (3, 6, width), generator=dice).double() / 2 for width in (4, 5))
    x[..., CATEGORY] = torch.randint(0, 3, (3, 6), generator=dice).double()
    x[..., :3] *= 200.0  # as no standardised numbers are
    if unknown:
        x[..., :3][torch.rand(3, 6, 3, generator=dice) < 0.2] = torch.nan
    weight = torch.rand(3, 6, generator=dice, dtype=torch.float64)
    weight[1, 4:], weight[2, :2] = 0.0, 0.0
    agree(module, x, y.expand(len(module.plan.runs), *y.shape), sample_weight=weight)


def random_formula(dice: random.Random) -> tuple[Formula, list[float]]:
    """A formula over slot 0, an output, and slot 1, another; the scale of all comparisons is 1."""
    maker = Maker(dice)
    text = maker.formula(3)[0]
    as_outputs = text.model_dump_json().replace('"role":"input"', '"role":"output"')
    return type(text).model_validate_json(as_outputs), maker.params


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("end", ["clip", "strict"])
def test_nested_formulas_on_long_traces(seed: int, end: str) -> None:
    """Traces longer than any window, with unknown numbers and no equal ones."""
    formula, params = random_formula(random.Random(seed))
    module = ConstraintModule(ending(pack_of([bank_of(formula, params, [4, 5])]), end), x=X, y=Y)
    module._horizons.clear()
    dice = torch.Generator().manual_seed(seed)
    x, y = (
        torch.zeros(2, 40, 4, dtype=torch.float64),
        torch.randn(2, 40, 5, generator=dice, dtype=torch.float64),
    )
    if seed % 2:
        y[torch.rand(y.shape, generator=dice) < 0.05] = torch.nan
    agree(module, x, y)
