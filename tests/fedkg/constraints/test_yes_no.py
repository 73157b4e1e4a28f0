"""Yes/no conditions have infinite margins.

Whether a category is given, or a value exists, is infinitely far from the other verdict.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from strategies import CATEGORY, X, Y, bank_of, pack_of

from fedkg.constraints import ConstraintModule, evaluate_bank
from fedkg.pack import And, CategoryIs, Compare, Formula, Implies, Known, Not, Or, Pack, Param, Slot

INF, NAN = math.inf, math.nan
OUT = Slot(index=0, role="output")


def limit(param: int) -> Compare:
    return Compare(op="le", left=OUT, right=Param(index=param), scale=4)


IS_A, IS_B = CategoryIs(slot=1, param=2), CategoryIs(slot=1, param=3)
GUARDED = Implies(antecedent=IS_A, consequent=limit(0))
PER_KIND = Or(args=(And(args=(IS_A, limit(0))), And(args=(IS_B, limit(1)))))
WHERE_KNOWN = Implies(antecedent=Known(slot=2), consequent=limit(0))


def pack(skeleton: Formula) -> Pack:
    """Limits 3 and 5 on the output, categories A (0) and B (1), and wear, which may be missing."""
    return pack_of([bank_of(skeleton, [3.0, 5.0, 0.0, 1.0, 2.0], [4, CATEGORY, 1])])


def both(
    skeleton: Formula, kinds: list[float], answers: list[float], wear: list[float] | None = None
) -> list[float]:
    """The robustness of each row, after asserting that interpreter and tensors agree."""
    table, rules = np.zeros((1, len(kinds), 9)), pack(skeleton)
    table[0, :, CATEGORY], table[0, :, 4], table[0, :, 1] = (
        kinds,
        answers,
        wear or [0.0] * len(kinds),
    )
    expected = evaluate_bank(rules.banks[0], table).robustness[:, 0].tolist()
    said = torch.zeros(len(kinds), 5, dtype=torch.float64)
    said[:, 0] = torch.tensor(answers)
    found = (
        ConstraintModule(rules, x=X, y=Y)(torch.from_numpy(table[0, :, :4]), said)
        .robustness[:, 0]
        .tolist()
    )
    np.testing.assert_array_equal(found, expected)
    return expected


def test_a_guarded_rule_is_as_far_as_what_it_asks_for() -> None:
    assert both(GUARDED, [0, 0, 1, 2], [8.0, 2.0, 80.0, 2.0]) == [-5.0, 1.0, INF, INF]
    np.testing.assert_array_equal(both(GUARDED, [NAN, NAN], [8.0, 2.0]), [NAN, 1.0])


def test_each_kind_has_its_own_limit() -> None:
    assert both(PER_KIND, [0, 1, 2], [4.0, 4.0, 4.0]) == [-1.0, 1.0, -INF]


def test_whether_a_value_is_there_is_no_number() -> None:
    assert both(WHERE_KNOWN, [0, 0, 0], [8.0, 2.0, 8.0], wear=[1.0, 1.0, NAN]) == [-5.0, 1.0, INF]
    assert both(
        And(args=(Known(slot=2), limit(0))), [0, 0, 0], [8.0, 2.0, 2.0], wear=[1.0, 1.0, NAN]
    ) == [-5.0, 1.0, -INF]
    assert both(Not(arg=Known(slot=2)), [0, 0], [8.0, 8.0], wear=[1.0, NAN]) == [-INF, INF]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "skeleton", [GUARDED, PER_KIND, WHERE_KNOWN, Not(arg=PER_KIND), And(args=(GUARDED, PER_KIND))]
)
def test_gradients_are_those_of_the_limits_that_apply(
    skeleton: Formula, dtype: torch.dtype
) -> None:
    x = torch.zeros(5, 4, dtype=dtype)
    x[:, CATEGORY] = torch.tensor([0.0, 1.0, 2.0, NAN, 0.0])
    x[4, 1] = NAN
    rules = ConstraintModule(pack(skeleton), x=X, y=Y)

    def sum_of_robustness(answers: torch.Tensor) -> torch.Tensor:
        found = rules(x, answers).robustness
        return torch.where(torch.isfinite(found), found, 0.0).sum()

    answers = torch.full((3, 5, 5), 4.5, dtype=dtype)
    slopes = torch.func.vmap(torch.func.grad(sum_of_robustness))(answers)
    (alone,) = torch.autograd.grad(
        sum_of_robustness(leaf := answers[0].clone().requires_grad_()), leaf
    )
    assert torch.equal(slopes[1], alone)
    assert torch.isfinite(slopes).all()
    assert set(slopes[..., 0].abs().unique().tolist()) <= {0.0, 1.0}
    assert slopes[0, 0, 0].abs() == 1.0  # category A: the limit decides
    assert not slopes[..., 1:].any()


@pytest.mark.parametrize("semantics", ["exact", "smooth", "sound"])
@pytest.mark.parametrize("skeleton", [GUARDED, PER_KIND, And(args=(GUARDED, PER_KIND))])
def test_a_penalty_sees_a_yes_or_no_as_it_sees_a_comparison_of_inputs(
    skeleton: Formula, semantics: str
) -> None:
    def compared(formula: Formula) -> Formula:
        match formula:
            case CategoryIs():
                return Compare(
                    op="eq",
                    left=Slot(index=formula.slot),
                    right=Param(index=formula.param),
                    scale=4,
                )
            case And() | Or():
                return formula.model_copy(update={"args": tuple(map(compared, formula.args))})
            case Implies():
                return Implies(
                    antecedent=compared(formula.antecedent), consequent=compared(formula.consequent)
                )
            case _:
                return formula

    x = torch.zeros(8, 4)
    x[:, CATEGORY] = torch.tensor([0.0, 1.0, 2.0, NAN] * 2)
    answers = torch.linspace(2, 7, 8)[:, None].repeat(1, 5).requires_grad_()
    reports = [
        ConstraintModule(pack(one), x=X, y=Y)(x, answers, semantics=semantics)
        for one in (skeleton, compared(skeleton))
    ]
    assert torch.equal(reports[0].penalties, reports[1].penalties)
    assert reports[0].penalties.sum() > 0
    slopes = [torch.autograd.grad(report.penalty, answers)[0] for report in reports]
    assert torch.equal(*slopes)
