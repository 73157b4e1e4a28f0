"""The penalty as a function of the violation, and its parts by rule, kind and entity."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import X, Y, formulas, packs, tables
from tries import tries

import fedkg
from fedkg import columns
from fedkg.constraints import ConstraintModule
from fedkg.constraints.report import ConstraintReport
from fedkg.errors import UsageError
from fedkg.pack import Pack

RULES = """
signal load in kW span 0 .. 100
output left in bar span 0 .. 10
output right in bar span 0 .. 10
rule high kind capacity require if load > 50 kW then left <= 6 bar
rule low kind capacity weight 2 require left >= 2 bar
rule order kind physical require left <= right
"""


def report_of(
    pack: Pack, table: np.ndarray, answers: torch.Tensor, **options: object
) -> ConstraintReport:
    module = ConstraintModule(pack, x=X, y=Y)
    keys = {"Type": torch.from_numpy(table[:, 3]).long()}
    return module(
        torch.from_numpy(table[:, :4]),
        answers[list(module.plan.runs)],
        keys=keys,
        previous="above",
        **options,
    )


def answers_for(table: np.ndarray, seed: int) -> torch.Tensor:
    return torch.from_numpy(
        np.random.default_rng(seed).normal(0, 2, (4, len(table), 5))
    ).requires_grad_()


def barrier(missing: float, sharpness: float) -> float:
    """Kervadec et al. 2022, equation 4, cut off at one scale inside."""
    edge = 1 / sharpness**2
    if missing <= -edge:
        return max(0.0, -math.log(-missing) / sharpness)
    return sharpness * missing - math.log(edge) / sharpness + 1 / sharpness


def plant() -> tuple[ConstraintModule, torch.Tensor]:
    module = fedkg.compile(text=RULES).constraints(
        x=columns(["load"]), y=columns(["left", "right"])
    )
    return module, torch.tensor([[60.0], [60.0], [20.0], [math.nan]])


@given(
    packs(skeletons=formulas()),
    tables(),
    st.integers(0, 99),
    st.sampled_from(["exact", "smooth", "sound"]),
)
@tries(25)
def test_squared_is_the_square_of_the_hinge(
    pack: Pack, table: np.ndarray, seed: int, semantics: str
) -> None:
    answers = answers_for(table, seed)
    hinge = report_of(pack, table, answers, semantics=semantics).penalties
    squared = report_of(pack, table, answers, semantics=semantics, form="squared").penalties
    assert torch.allclose(squared, hinge * hinge)


@given(
    packs(skeletons=formulas()), tables(), st.integers(0, 99), st.sampled_from([1.0, 5.0, 100.0])
)
@tries(25)
def test_the_barrier_is_finite_and_positive_where_violated(
    pack: Pack, table: np.ndarray, seed: int, sharpness: float
) -> None:
    answers = answers_for(table, seed)
    hinge = report_of(pack, table, answers)
    report = report_of(pack, table, answers, form="log_barrier", sharpness=sharpness)
    assert (report.penalties >= 0).all()
    assert torch.isfinite(report.penalties).all()
    assert (report.penalties[hinge.penalties > 1e-3] > 0).all()
    assert (report.penalties[hinge.unknown] == 0).all()
    if report.penalty.requires_grad:
        (gradient,) = torch.autograd.grad(report.penalty, answers)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("sharpness", [1.0, 3.0, 20.0])
@pytest.mark.parametrize("left", [0.0, 1.9, 2.0, 2.04, 4.0, 5.999, 6.0, 6.5, 14.0])
def test_the_barrier_is_the_papers_formula(left: float, sharpness: float) -> None:
    module, x = plant()
    x = x.double()
    y = torch.tensor([[left, 200.0]] * 4, dtype=torch.float64, requires_grad=True)
    found = module(x, y, form="log_barrier", sharpness=sharpness).penalties
    low = barrier((2 - left) / 10, sharpness)
    high = barrier((left - 6) / 10, sharpness)
    assert found[:, 0].tolist() == pytest.approx([high, high, 0.0, 0.0], abs=1e-12)
    assert found[:, 1].tolist() == pytest.approx([low] * 4, abs=1e-12)
    (gradient,) = torch.autograd.grad(found.sum(), y)
    step = 1e-6
    slope = [
        (
            barrier((left - 6 + s * step) / 10, sharpness)
            + barrier((2 - left - s * step) / 10, sharpness)
        )
        for s in (1, -1)
    ]
    assert gradient[0, 0].item() == pytest.approx((slope[0] - slope[1]) / (2 * step), abs=1e-3)


def test_parts_by_rule_kind_and_entity_add_up_and_are_differentiable() -> None:
    module, x = plant()
    y = torch.tensor([[7.0, 1.0], [1.0, 0.0], [9.0, 9.5], [1.5, 4.0]], requires_grad=True)
    report = module(x, y)
    rules, kinds, entities = (report.penalty_by(what) for what in ("rule", "kind", "entity"))
    assert (list(rules), list(kinds), list(entities)) == (
        ["high", "low", "order"],
        ["capacity", "physical"],
        [""],
    )
    for parts in (rules, kinds, entities):
        assert sum(part.item() for part in parts.values()) == pytest.approx(report.penalty.item())
    assert kinds["capacity"].item() == pytest.approx(rules["high"].item() + rules["low"].item())
    assert rules["high"].item() == pytest.approx(0.1 / 4)
    assert rules["low"].item() == pytest.approx(2 * (0.1 + 0.05) / 4)
    (gradient,) = torch.autograd.grad(rules["low"], y, retain_graph=True)
    assert gradient[:, 0].tolist() == pytest.approx([0, -0.05, 0, -0.05])
    assert not gradient[:, 1].any()


def test_parts_by_entity_name_the_entity(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("tag,high\npress [bar],6\npump [bar],6\n")
    (tmp_path / "plant.fkg").write_text(
        """
output press column "press [bar]" in bar span 0 .. 10
output pump column "pump [bar]" in bar span 0 .. 10
rule tight for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high
"""
    )
    module = fedkg.compile(tmp_path / "plant.fkg").constraints(
        x=columns(["none"]), y=columns(["press", "pump"])
    )
    parts = module(torch.zeros(2, 1), torch.tensor([[7.0, 5.0], [8.0, 7.0]])).penalty_by("entity")
    assert {name: part.item() for name, part in parts.items()} == {
        "press [bar]": pytest.approx(0.3 / 4),
        "pump [bar]": pytest.approx(0.1 / 4),
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"semantics": "soft"},
            r'unknown semantics `soft`\n  expected: "exact" or "smooth" or "sound"',
        ),
        ({"form": "square"}, r"unknown form `square`"),
        ({"semantics": "smooth", "temperature": 0.0}, r"temperature must be above 0"),
        ({"form": "log_barrier", "sharpness": -1.0}, r"sharpness must be above 0"),
    ],
)
def test_forms_that_there_are_not_are_rejected(options: dict[str, object], words: str) -> None:
    module, x = plant()
    with pytest.raises(UsageError, match=words):
        module(x, torch.zeros(4, 2), **options)
