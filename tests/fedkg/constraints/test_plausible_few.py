"""Few columns and few rows: evidence for a raw batch, and batches that are never taken for one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_plausible import MEAN, NAMES, SPANS, STD, UNITS, rules_over, standard
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule, columns
from fedkg.constraints.binding.batch_scale_check import check_units
from fedkg.errors import LayoutError

SAMPLE = 5_000
"""The rows that determine a heavy tail's mean and standard deviation."""


def heavy(kind: str, degrees: float, seed: int) -> Tensor:
    """A standardised sample of a heavy-tailed distribution: [SAMPLE, 3], correlated columns."""
    dice = torch.Generator().manual_seed(seed)
    shared = torch.randn(SAMPLE, 1, generator=dice, dtype=torch.float64)
    normal = shared + 0.5 * torch.randn(SAMPLE, 3, generator=dice, dtype=torch.float64)
    match kind:
        case "student":
            drawn = normal / (
                torch.rand(SAMPLE, 1, generator=dice, dtype=torch.float64) ** (1 / degrees)
            )
        case "lognormal":
            drawn = torch.exp(degrees * normal)
        case _:
            drawn = torch.rand(SAMPLE, 3, generator=dice, dtype=torch.float64) ** (-1 / degrees)
    return (drawn - drawn.mean(0)) / drawn.std(0)


@tries(30)
@given(
    kind=st.sampled_from(["student", "lognormal", "pareto"]),
    degrees=st.floats(1.2, 3.0),
    rows=st.integers(1, 8),
    mean=st.sampled_from([4.0, 25.0, 40.0, 300.0, 1540.0]),
    share=st.floats(0.05, 2.0),
    seed=st.integers(0, 2**31),
)
def test_heavy_tails_in_small_batches_are_no_raw_numbers(
    kind, degrees, rows, mean, share, seed
) -> None:
    z = heavy(kind, degrees, seed)
    for spans in ({}, dict.fromkeys("abc", (mean - 4 * mean * share, mean + 4 * mean * share))):
        rules = ConstraintModule(
            rules_over(dict.fromkeys("abc", "kW"), spans),
            x=columns(["a", "b", "c"], mean=mean, std=mean * share),
        )
        for start in range(0, 40 * rows, rows):
            check_units(rules.plan, z[start : start + rows])


@pytest.mark.parametrize("spans", [SPANS, {}])
@pytest.mark.parametrize("rows", [2, 3, 7, 8, 64])
@pytest.mark.parametrize("name", ["air", "process", "speed"])
def test_one_column_of_raw_numbers_is_proof_in_two_rows(
    name: str, rows: int, spans: dict[str, tuple[float, float]]
) -> None:
    place, span = NAMES.index(name), {key: value for key, value in spans.items() if key == name}
    z = standard(64)[:rows]
    rules = ConstraintModule(
        rules_over({name: UNITS[name]}, span), x=columns(NAMES, mean=MEAN, std=STD)
    )
    rules(z)
    rules._units_checked = False
    z[:, place] = z[:, place] * STD[place] + MEAN[place]
    with pytest.raises(LayoutError, match=f"raw.*\n.*\n.*`{name}` about"):
        rules(z)


def test_one_row_needs_two_columns() -> None:
    one = ConstraintModule(rules_over({"air": "K"}), x=columns(NAMES, mean=MEAN, std=STD))
    two = ConstraintModule(
        rules_over({"air": "K", "speed": "rpm"}), x=columns(NAMES, mean=MEAN, std=STD)
    )
    one(MEAN[None])
    with pytest.raises(LayoutError, match=r"`air` about 300 K; `speed` about 1\.54e"):
        two(MEAN[None])


@pytest.mark.parametrize("rows", [8, 256])
def test_columns_that_cannot_tell_do_not_outvote_one_that_can(rows: int) -> None:
    """Raw vibration, 3 +- 1 mm/s, looks standardised as well as raw; ash of 15 +- 3 % does not."""
    units, spans = (
        {"ash": "%", "shake": "mm/s", "tilt": "deg"},
        {"ash": (0.0, 40.0), "shake": (0.0, 20.0)},
    )
    mean, std = torch.tensor([15.0, 3.0, 2.0]), torch.tensor([3.0, 1.0, 0.5])
    z = standard(rows, 3)
    ConstraintModule(rules_over(units, spans), x=columns(list(units), mean=mean, std=std))(z)
    with pytest.raises(LayoutError, match="`ash` about 15 %"):
        ConstraintModule(rules_over(units, spans), x=columns(list(units), mean=mean, std=std))(
            z * std + mean
        )


def test_a_column_with_outliers_does_not_speak_for_source_units() -> None:
    z = standard(64, 3)
    z[0] = torch.tensor([40.0, 0.0, 60.0])
    names = NAMES[:3]
    with pytest.raises(LayoutError, match="looks standardised"):
        ConstraintModule(
            rules_over({name: UNITS[name] for name in names}, SPANS), x=columns(names)
        )(z)


@tries(40)
@given(
    rows=st.integers(1, 40),
    kelvin=st.floats(200.0, 900.0),
    spread=st.floats(0.0, 30.0),
    seed=st.integers(0, 2**31),
)
def test_layouts_that_convert_units_are_left_alone(
    rows: int, kelvin: float, spread: float, seed: int
) -> None:
    """Celsius with a declared mean of 273.15 and std 1, metres with mean 0 and std 1000."""
    values = (
        torch.randn(rows, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        * spread
        + kelvin
    )
    ConstraintModule(rules_over({"a": "K"}), x=columns(["a"], mean=273.15, std=1.0))(
        values - 273.15
    )
    spans = {"a": (0.0, 2000.0)}
    ConstraintModule(rules_over({"a": "K"}, spans), x=columns(["a"], mean=273.15, std=1.0))(
        values - 273.15
    )
    ConstraintModule(rules_over({"a": "m"}), x=columns(["a"], mean=0.0, std=1000.0))(values)


@tries(40)
@given(rows=st.integers(1, 40), shift=st.floats(-6.0, 6.0), seed=st.integers(0, 2**31))
def test_a_client_unlike_the_others_is_no_raw_batch(rows: int, shift: float, seed: int) -> None:
    z = (
        torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        + shift
    )
    for spans in (SPANS, {}):
        ConstraintModule(rules_over(UNITS, spans), x=columns(NAMES, mean=MEAN, std=STD))(z)


@pytest.mark.parametrize("rows", [2, 8, 64])
@pytest.mark.parametrize(
    ("mean", "std", "elsewhere"),
    [(1500.0, 20.0, 2200.0), (50.0, 0.001, 50.1), (300.0, 0.05, 303.0)],
)
def test_a_machine_far_from_where_the_scaling_was_taken_is_no_raw_batch(
    rows: int, mean: float, std: float, elsewhere: float
) -> None:
    """A column that hardly varied there gives large numbers here.

    A wide span contains them both as they are and unscaled.
    """
    z = standard(rows)[:, :1] + (elsewhere - mean) / std
    assert z.abs().min() > 30
    ConstraintModule(
        rules_over({"a": "rpm"}, {"a": (0.0, 3000.0)}), x=columns(["a"], mean=mean, std=std)
    )(z)
