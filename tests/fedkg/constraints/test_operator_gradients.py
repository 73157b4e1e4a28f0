"""Gradients of every operator and function of the language against finite differences.

Each is tested alone and in random formulas.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import CATEGORY, X, Y, bank_of, formulas, pack_of, packs, tables
from test_window_gradients import (
    DATA,
    LIMIT,
    OPERATORS,
    OTHER,
    OUT,
    SCALE,
    batch,
    le,
    module_of,
    single,
)
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule
from fedkg.pack import (
    And,
    Call,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Known,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Sum,
    Term,
    Until,
)
from fedkg.pack.formulas import everywhere

SEMANTICS = ("exact", "smooth", "sound")

ABOVE = Sum(args=(Product(args=(OUT, OUT)), DATA))
"""Above -2 on these batches; reads an output and an input."""

TERMS: dict[str, Term] = {
    "sum": Sum(args=(OUT, OTHER, DATA)),
    "product": Product(args=(OUT, OTHER, DATA)),
    "negate": Negate(arg=OUT),
    "quotient": Quotient(numerator=OTHER, denominator=Sum(args=(ABOVE, Param(index=4)))),
    **{
        f"power {n}": Power(base=Sum(args=(ABOVE, Param(index=4))), exponent=n)
        for n in (-1.0, 0.0, 0.5, 1.0, 1.7, 2.0, 3.0)
    },
    **{name: Call(function=name, args=(OUT, OTHER, DATA)) for name in ("min", "max")},
    **{
        name: Call(function=name, args=(OUT,))
        for name in ("abs", "exp", "sin", "cos", "tan", "tanh", "floor", "ceil", "round")
    },
    **{
        name: Call(function=name, args=(Sum(args=(ABOVE, Param(index=4))),))
        for name in ("sqrt", "log")
    },
}
FLAT = ("power 0.0", "floor", "ceil", "round")
"""Piecewise constant terms; with the output itself added they have a gradient."""


def compared(op: str, *, tolerance: bool) -> Compare:
    return Compare.model_validate(
        {
            "op": op,
            "left": OUT,
            "right": OTHER,
            "scale": SCALE,
            "tolerance": Param(index=4) if tolerance else None,
        }
    )


def of_term(name: str) -> Formula:
    return le(Sum(args=(OUT, TERMS[name])) if name in FLAT else TERMS[name], LIMIT)


GUARD = le(DATA, LIMIT)
"""An atom over inputs only."""

ATOMS: dict[str, Formula] = {
    **{op: compared(op, tolerance=False) for op in ("le", "lt", "eq")},
    **{f"{op} with tolerance": compared(op, tolerance=True) for op in ("le", "lt", "eq", "ne")},
    "class": ClassIn(inside=(0,), outside=(1, 3)),
    "strict class": ClassIn(inside=(0, 3), outside=(1,), strict=True),
    "no class": Not(arg=ClassIn(inside=(0,), outside=(1, 3))),
}

SIDES = (le(OUT, LIMIT), le(LIMIT, OTHER), le(OUT, OTHER))

CONNECTIVES: dict[str, Formula] = {
    "and": And(args=SIDES),
    "or": Or(args=SIDES),
    "implies": Implies(antecedent=SIDES[1], consequent=SIDES[0]),
    "not and": Not(arg=And(args=SIDES)),
    "not or": Not(arg=Or(args=SIDES[:2])),
    "not implies": Not(arg=Implies(antecedent=SIDES[0], consequent=SIDES[2])),
    "guards": Implies(
        antecedent=And(args=(GUARD, Known(slot=2))),
        consequent=Or(args=(SIDES[0], Not(arg=GUARD), SIDES[2])),
    ),
    "category": Or(
        args=(
            And(args=(CategoryIs(slot=4, param=4), SIDES[0])),
            And(args=(Not(arg=CategoryIs(slot=4, param=4)), SIDES[2])),
        )
    ),
}

ALL: dict[str, tuple[Formula, bool]] = {
    **OPERATORS,
    **{name: (formula, False) for name, formula in {**ATOMS, **CONNECTIVES}.items()},
    **{f"term {name}": (of_term(name), False) for name in TERMS},
    "count": (le(Reduce(op="count", members=0, arg=OUT), Sum(args=(Param(index=4), OUT))), True),
}


def module_for(skeleton: Formula, members: bool) -> ConstraintModule:
    """One row over failure, quality, torque, a score and the category.

    Its limit is -0.8, its scale 2, its windows 0 .. 2.
    """
    if members:
        return module_of(single(skeleton, limit=-0.8, members=True))
    return module_of(
        pack_of([bank_of(skeleton, [-0.8, 2.0, 0.0, 2.0, 2.0], [4, 5, 0, 6, CATEGORY])])
    )


def test_every_operator_and_function_is_checked() -> None:
    def name(part: Formula | Term) -> str:
        return f"{part.kind} {getattr(part, 'op', getattr(part, 'function', ''))}"

    seen = {name(part) for skeleton, _ in ALL.values() for _, part in everywhere(skeleton)}
    language = set()
    for kind in (*get_args(get_args(Formula)[0]), *get_args(get_args(Term)[0])):
        choices = [
            get_args(kind.model_fields[field].annotation)
            for field in ("op", "function")
            if field in kind.model_fields
        ]
        language |= {
            f"{kind.model_fields['kind'].default} {op}" for op in (choices[0] if choices else ("",))
        }
    assert seen == language
    assert any(isinstance(skeleton, Until) and skeleton.closed for skeleton, _ in ALL.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_gradients_of_every_operator_are_finite_differences(name: str, semantics: str) -> None:
    skeleton, members = ALL[name]
    module = module_for(skeleton, members)
    x, y = batch(count=3, steps=6)
    x[0, 1, 0] = torch.nan
    x[1:, ::2, CATEGORY] = 2.0
    options = {
        "semantics": semantics,
        "temperature": 0.3,
        "form": "log_barrier" if semantics == "sound" else "hinge",
    }

    def values(answers: Tensor) -> tuple[Tensor, Tensor]:
        report = module(x, answers, **options)
        return report.penalties.sum(), torch.where(
            report.robustness.isfinite(), report.robustness, 0.0
        ).sum()

    assert torch.autograd.gradcheck(values, y.requires_grad_(), eps=1e-7, atol=1e-5, fast_mode=True)
    (of_penalty,) = torch.autograd.grad(module(x, y, **options).penalty, y)
    report = module(x, y, **options)
    counted = report.at_steps.counted.sum()
    (of_sum,) = torch.autograd.grad(report.at_steps.penalties.sum() / counted, y)
    assert torch.allclose(of_penalty, of_sum)
    assert of_penalty.abs().sum() > 0


def check_slope(pack: Pack, table: np.ndarray, seed: int, semantics: str) -> bool:
    """Whether finite differences determine the gradient in a random direction.

    Fails if the gradient disagrees.
    """
    dice = np.random.default_rng(seed)
    module = ConstraintModule(pack, x=X, y=Y)
    keys = {"Type": torch.from_numpy(table[:, CATEGORY]).long()}
    answers = torch.from_numpy(dice.normal(0, 2, (4, len(table), 5)))[
        list(module.plan.runs)
    ].requires_grad_()
    direction = torch.from_numpy(dice.normal(size=answers.shape))

    def value(y: Tensor) -> Tensor:
        report = module(
            torch.from_numpy(table[:, :4]),
            y,
            keys=keys,
            previous="above",
            semantics=semantics,
            temperature=0.5,
        )
        known = torch.nan_to_num(report.robustness, nan=0.0, posinf=0.0, neginf=0.0)
        return report.penalty + 1e-3 * known.sum()

    result = value(answers)
    if not (result.requires_grad and result.abs() < 1e5):
        return False
    (gradient,) = torch.autograd.grad(result, answers)
    slopes, here = [], float(result.detach())
    with torch.no_grad():
        for step in (1e-4, 1e-5):
            ahead, behind = (float(value(answers + sign * step * direction)) for sign in (1, -1))
            slopes.append(
                [(ahead - behind) / (2 * step), (ahead - here) / step, (here - behind) / step]
            )
    scale = 1.0 + max(abs(s) for pair in slopes for s in pair)
    if max(abs(s - slopes[0][0]) for pair in slopes for s in pair) >= 1e-2 * scale:
        return False  # a kink or an edge within the step
    assert float((gradient * direction).sum()) == pytest.approx(slopes[1][0], abs=2e-3 * scale)
    return True


RANDOM = st.one_of(
    packs(max_banks=1, temporal=True, members=True),
    packs(max_banks=1, skeletons=formulas(("min", "max", "abs", "tanh", "sin"))),
)


@given(RANDOM, tables(4), st.integers(0, 99), st.sampled_from(SEMANTICS))
@tries(30)
def test_gradients_of_random_formulas_are_finite_differences(
    pack: Pack, table: np.ndarray, seed: int, semantics: str
) -> None:
    assume(check_slope(pack, table, seed, semantics))


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_gradients_of_a_thousand_random_formulas_are_finite_differences(semantics: str) -> None:
    @given(RANDOM, tables(4), st.integers(0, 9999))
    @tries(1000)
    def check_example(pack: Pack, table: np.ndarray, seed: int) -> None:
        assume(check_slope(pack, table, seed, semantics))

    check_example()
