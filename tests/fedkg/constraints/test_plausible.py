"""Warnings about batches and answers that do not match their layouts.

Those that match raise nothing.
"""

from __future__ import annotations

import pytest
import torch
from strategies import bank_of, pack_of
from torch import Tensor, nn

import fedkg
from fedkg.constraints import ConstraintModule, columns, logit, probability
from fedkg.constraints.binding import batch_scale_check
from fedkg.errors import LayoutError
from fedkg.pack import And, Column, Compare, DataContract, Pack, Param, Slot, View

FAILURE = Column(name="failure", source="failure", role="output", unit="probability")
MEAN = torch.tensor([300.0, 310.0, 1540.0, 40.0, 108.0])
STD = torch.tensor([2.0, 1.5, 180.0, 10.0, 64.0])
NAMES = ["air", "process", "speed", "torque", "wear"]
UNITS = dict(zip(NAMES, ["K", "K", "rpm", "N.m", "min"], strict=True))
SPANS = dict(
    zip(
        NAMES,
        [(280.0, 320.0), (290.0, 330.0), (0.0, 3000.0), (0.0, 100.0), (0.0, 260.0)],
        strict=True,
    )
)
SHOWN = r"fedkg\.columns\(names, mean=\.\.\., std=\.\.\.\)"


def rules_over(units: dict[str, str], spans: dict[str, tuple[float, float]] | None = None) -> Pack:
    """Every column is at most 1000 in its unit."""
    found = tuple(
        Column(name=name, source=name, unit=unit, span=(spans or {}).get(name))
        for name, unit in units.items()
    )
    parts = tuple(
        Compare(op="le", left=Slot(index=i), right=Param(index=0), scale=1)
        for i in range(len(found))
    )
    bank = bank_of(
        And(args=parts) if len(parts) > 1 else parts[0], [1000.0, 1.0], list(range(len(found)))
    )
    return pack_of([bank], contract=DataContract(columns=found, views=(View(),)))


def raised_only() -> Pack:
    """Failure never falls as wear rises; no formula reads `wear` itself."""
    wear = Column(name="wear", source="wear", unit="min", span=(0.0, 260.0))
    contract = DataContract(
        columns=(wear, FAILURE), views=(View(), View(kind="raised", column=0, delta=13.0))
    )
    base, other = Slot(index=0, role="output"), Slot(index=1, role="output")
    return pack_of(
        [bank_of(Compare(op="le", left=base, right=other, scale=0), [1.0], [1, 1], views=[0, 1])],
        contract=contract,
    )


def standard(rows: int, features: int = 5) -> Tensor:
    z = torch.randn(rows, features, generator=torch.Generator().manual_seed(7))
    return (z - z.mean(dim=0)) / z.std(dim=0)


def half(x: Tensor) -> Tensor:
    return torch.full((len(x), 1), 0.5)


@pytest.mark.parametrize("rows", [8, 32, 256, 4096])
@pytest.mark.parametrize("spans", [SPANS, {}, {"wear": (0.0, 260.0)}])
def test_a_forgotten_mean_and_std_is_detected_with_spans_and_without(
    rows: int, spans: dict[str, tuple[float, float]]
) -> None:
    pack, z = rules_over(UNITS, spans), standard(rows)
    raw = z * STD + MEAN
    with pytest.raises(LayoutError, match=SHOWN):
        ConstraintModule(pack, x=columns(NAMES))(z)
    ConstraintModule(pack, x=columns(NAMES))(raw)
    ConstraintModule(pack, x=columns(NAMES, mean=MEAN, std=STD))(z)
    with pytest.raises(LayoutError, match="raw"):
        ConstraintModule(pack, x=columns(NAMES, mean=MEAN, std=STD))(raw)


def test_a_layout_marked_sure_is_not_questioned() -> None:
    pack, z = rules_over(UNITS, SPANS), standard(64)
    stopped = columns(NAMES, sure=True)
    assert ConstraintModule(pack, x=stopped)(z).robustness.shape == (64, 1)
    assert ConstraintModule(pack, x=columns(NAMES, mean=MEAN, std=STD, sure=True))(
        z * STD + MEAN
    ).robustness.shape == (64, 1)


def test_a_column_that_is_only_raised_is_judged() -> None:
    z, y = standard(64, 1), probability("failure")
    with pytest.raises(LayoutError, match=SHOWN):
        ConstraintModule(raised_only(), x=columns(["wear"]), y=y)(z, half)
    ConstraintModule(raised_only(), x=columns(["wear"]), y=y)(z * 60.0 + 120.0, half)
    with pytest.raises(LayoutError, match="raw"):
        ConstraintModule(raised_only(), x=columns(["wear"], mean=[108.0], std=[64.0]), y=y)(
            z * 60.0 + 120.0, half
        )


@pytest.mark.parametrize(
    "units",
    [
        dict.fromkeys("abc", ""),  # no units to go by
        dict.fromkeys("abc", "mm/s"),  # three axes of one instrument
        {"a": "K"},  # a temperature difference
        {"a": "bar", "b": "mm"},
    ],
)
def test_numbers_about_zero_that_may_well_be_measurements_are_left_alone(
    units: dict[str, str],
) -> None:
    ConstraintModule(rules_over(units), x=columns(list(units)))(standard(256, len(units)))


def test_spans_about_zero_identities_and_few_rows_tell_nothing() -> None:
    z = standard(64)
    ConstraintModule(rules_over(UNITS, dict.fromkeys(NAMES, (-5.0, 5.0))), x=columns(NAMES))(z)
    ConstraintModule(rules_over(UNITS), x=columns(NAMES, mean=0.0, std=1.0))(z)
    ConstraintModule(rules_over(UNITS), x=columns(NAMES, mean=0.0, std=1.0))(z * STD + MEAN)
    ConstraintModule(rules_over(UNITS, SPANS), x=columns(NAMES))(z[: batch_scale_check.ENOUGH - 1])


def test_a_layout_may_convert_units() -> None:
    celsius = standard(64, 2) * 3.0 + 25.0
    rules = ConstraintModule(
        rules_over({"a": "K", "b": "K"}, {}), x=columns(["a", "b"], mean=273.15, std=1.0)
    )
    assert bool(rules(celsius).satisfied.all())


def test_logits_announced_as_probabilities_are_detected() -> None:
    x = standard(32, 1) * 60.0 + 120.0
    model = nn.Linear(1, 1)
    with pytest.raises(LayoutError, match=r'fedkg\.logit\("failure"\)'):
        ConstraintModule(raised_only(), x=columns(["wear"]), y=probability("failure"))(
            x, lambda z: model(z) - 3.0
        )
    ConstraintModule(raised_only(), x=columns(["wear"]), y=logit("failure"))(
        x, lambda z: model(z) - 3.0
    )


@pytest.mark.parametrize("answer", [-0.0005, 0.0, 1.0005, float("nan"), float("inf")])
@pytest.mark.filterwarnings("ignore:.*are not finite")
def test_probabilities_may_be_rounded_or_unknown(answer: float) -> None:
    rules = ConstraintModule(raised_only(), x=columns(["wear"]), y=probability("failure"))
    rules(standard(32, 1) * 60.0 + 120.0, lambda z: torch.full((len(z),), answer))


def test_answers_are_not_judged_where_they_are_no_numbers() -> None:
    rules = ConstraintModule(raised_only(), x=columns(["wear"]), y=probability("failure"))
    x = standard(32, 1) * 60.0 + 120.0
    slopes = torch.func.vmap(
        torch.func.grad(lambda shift: rules(x, lambda z: half(z) + shift).penalty)
    )(torch.tensor([4.0, 5.0]))
    assert slopes.isfinite().all()


@pytest.mark.parametrize("rows", [12, 400])
def test_answers_are_checked_in_every_call(rows: int) -> None:
    """Valid answers in the first calls, an invalid probability in a later one.

    Tests small and large batches.
    """
    pack = fedkg.compile(
        text="signal p in bar span 0 .. 10\n"
        "output f in probability span 0 .. 1\n"
        "output g in bar span -50 .. 50\n"
        "rule a require if p > 5 bar then f >= 0.5\n"
        "rule b require g <= 4 bar\n"
    )
    rules = ConstraintModule(pack, x=columns(["p"]), y=probability("f") + columns(["g"]))
    x, right = torch.rand(rows, 1) * 10, torch.rand(rows, 2)
    right[:, 1] = -30.0  # the layout declares no probability
    special = rules.specialise(x)
    for _ in range(3):
        rules(x=x, y=right)
        special(right)
    right[0, 0] = torch.nan
    rules(x=x, y=right)
    wrong = right.clone()
    wrong[rows // 2, 0] = -2.0
    for call in (
        lambda: rules(x=x, y=wrong),
        lambda: special(wrong),
        lambda: special.counts(torch.stack([right, wrong])),
    ):
        with pytest.raises(LayoutError, match=r"`f` lie outside of 0\.\.1"):
            call()
