"""Durations become the whole steps inside the closed window."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg_compiler import compile_rules
from fedkg_compiler.frontends.fkg.binding.durations_in_steps import steps_of

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
tenths = st.integers(min_value=0, max_value=10_000)


@given(first=tenths, width=tenths, step=st.integers(min_value=1, max_value=600))
def test_every_step_inside_the_interval_counts_and_no_other(
    first: int, width: int, step: int
) -> None:
    """Against exact arithmetic: tenths of a second, which floats do not represent exactly."""
    low, high = steps_of(
        np.array([first / 10 / (step / 10)]), np.array([(first + width) / 10 / (step / 10)])
    )
    inside = [
        k
        for k in range(first // step, (first + width) // step + 2)
        if first <= k * step <= first + width
    ]
    if inside:
        assert (low[0], high[0]) == (inside[0], inside[-1])
    else:
        assert low[0] > high[0]


@given(
    number=st.integers(min_value=0, max_value=5000),
    unit=st.sampled_from(sorted(UNITS)),
    step=st.integers(min_value=1, max_value=500),
    step_unit=st.sampled_from(["s", "min"]),
)
def test_a_duration_in_any_unit_against_a_step_in_any_unit(
    number: int, unit: str, step: int, step_unit: str
) -> None:
    text = (
        f"timeline step {step} {step_unit}\nsignal p in bar\nrule r require always [0 s,"
        f" {number / 10} {unit}] p <= 3\n"
    )
    compilation = compile_rules(text=text)
    assert compilation.pack is not None
    exact = Fraction(number, 10) * UNITS[unit] / (step * UNITS[step_unit])
    low, high = compilation.pack.banks[0].params[0, :2].tolist()
    assert low == 0
    assert high == exact.numerator // exact.denominator
    narrow = [problem.code for problem in compilation.diagnostics]
    assert narrow == (["FKG254"] if 0 < exact < 1 else [])


@pytest.mark.parametrize(
    ("window", "steps"),
    [
        ("[0.1 s, 0.3 s]", (1, 3)),
        ("[1 min, inf]", (600, -1)),
        ("[500 ms, 1 s]", (5, 10)),
        ("within 1 h", (0, 36000)),
        ("[0, 30]", (0, 30)),
        ("[2, 2]", (2, 2)),
        ("[0 h, 30]", (0, 30)),
        ("[5, end]", (5, -1)),
        ("[0.05 s, 0.15 s]", (1, 1)),
    ],
)
def test_windows_of_tenths_of_a_second(window: str, steps: tuple[int, int]) -> None:
    text = f"timeline step 0.1 s\nsignal p in bar\nrule r require eventually {window} p <= 3\n"
    compilation = compile_rules(text=text)
    assert compilation.pack is not None
    assert tuple(compilation.pack.banks[0].params[0, :2].tolist()) == steps
