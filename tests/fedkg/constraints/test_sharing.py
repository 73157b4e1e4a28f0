"""Equal rows, common subterms and extremes are evaluated once.

Numbers are the same to the bit; penalties and gradients are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import CATEGORY, X, Y, bank_of, formulas, pack_of, packs, tables
from test_torch_windows import answers_for, ending
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule
from fedkg.constraints.engine.shared_window_extremes import OverExtreme
from fedkg.constraints.engine.sharing import Sharing
from fedkg.constraints.report import ConstraintReport
from fedkg.pack import (
    And,
    Bank,
    Compare,
    Formula,
    Implies,
    Negate,
    Pack,
    Param,
    Product,
    Slot,
    Sum,
    Temporal,
)
from fedkg.pack.formulas import subformulas, terms_of

F64 = torch.float64
TORQUE, WEAR, PRESSURE, FAILURE, QUALITY = (
    Slot(index=0),
    Slot(index=1),
    Slot(index=2),
    Slot(index=3, role="output"),
    Slot(index=4, role="output"),
)
P, Q, SCALE = Param(index=0), Param(index=1), 2


def both(pack: Pack) -> tuple[ConstraintModule, ConstraintModule]:
    """The module, and one with rows that have nothing in common."""
    module, plain = (ConstraintModule(pack, x=X, y=Y) for _ in range(2))
    plain.sharing = Sharing(
        banks=plain.banks, values=(), hoisted=(None,) * len(plain.banks), extremes=()
    )
    return module, plain


def repeat_rows(bank: Bank, times: int, dice: np.random.Generator) -> Bank:
    """The bank with `times` copies of each row, in random order.

    Some copies differ in one number or belong to another rule.
    """
    rows = dice.permutation(np.repeat(np.arange(bank.rows), times))
    many = bank.take(rows.astype(np.int64))
    params = many.params.copy()
    if params.shape[1]:
        changed = dice.random(len(rows)) < 0.3
        params[changed, 0] += dice.integers(1, 4, int(changed.sum()))
    return replace(
        many,
        params=params,
        rule=dice.integers(0, 2, len(rows)).astype(np.int32),
        weight=dice.uniform(0.1, 2.0, len(rows)),
    )


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal to the bit, NaN for NaN."""
    return torch.equal(torch.isnan(one), torch.isnan(other)) and torch.equal(
        one.nan_to_num(7e7), other.nan_to_num(7e7)
    )


def check(report: ConstraintReport, plain: ConstraintReport, answers: Tensor) -> None:
    for name in ("robustness", "smooth_robustness"):
        assert same(getattr(report, name), getattr(plain, name)), name
    # The last bit of an exponential depends on where torch finds the number in memory.
    assert torch.allclose(report.penalties, plain.penalties, rtol=1e-12, atol=0, equal_nan=True)
    for name in (
        "satisfied",
        "violated",
        "unknown",
        "applicable",
        "fired",
        "counted",
        "rule_index",
    ):
        assert torch.equal(getattr(report, name), getattr(plain, name)), name
    assert torch.allclose(report.penalty, plain.penalty)
    for what in ("rule", "entity"):
        parts, expected = report.penalty_by(what), plain.penalty_by(what)
        assert parts.keys() == expected.keys()
        assert all(torch.allclose(part, expected[name]) for name, part in parts.items())
    weight = torch.ones(1, *report.penalties.shape[:-1], dtype=answers.dtype)
    assert torch.allclose(report.penalty_apart(weight), plain.penalty_apart(weight))
    assert report.violations().equals(plain.violations())
    for one, other in (
        (report.penalty, plain.penalty),
        (report.penalties.sum(), plain.penalties.sum()),
    ):
        if other.requires_grad:
            gradients = [
                torch.autograd.grad(value, answers, retain_graph=True)[0] for value in (one, other)
            ]
            assert torch.allclose(*gradients, rtol=1e-4, atol=1e-8)


@given(
    st.one_of(
        packs(max_banks=2, temporal=True, members=True), packs(max_banks=2, skeletons=formulas())
    ),
    tables(max_rows=6),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from(["exact", "smooth", "sound"]),
)
@tries(20)
def test_random_packs_are_judged_as_without(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool, semantics: str
) -> None:
    dice = np.random.default_rng(seed)
    pack = ending(
        replace(pack, banks=tuple(repeat_rows(bank, 6, dice) for bank in pack.banks)),
        "clip" if seed % 2 else "strict",
    )
    answers = torch.from_numpy(answers_for(seed, len(table), unknown)).requires_grad_()
    keys = {"Type": torch.from_numpy(table[:, CATEGORY]).long()}
    options: dict[str, Any] = {"previous": "above", "keys": keys, "semantics": semantics}
    x = torch.from_numpy(table[:, :4])
    reports = [module(x, answers[list(module.plan.runs)], **options) for module in both(pack)]
    check(reports[0], reports[1], answers)


def le(left: object, right: object) -> Compare:
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": SCALE})


POWER = Product(args=(TORQUE, WEAR, Q))
RISE = Sum(args=(FAILURE, Negate(arg=QUALITY)))


def rows_of(skeleton: Formula, count: int, dice: np.random.Generator, width: int = 5) -> Bank:
    """Random limits; the other number, the scale and the columns are the same for all rows."""
    one = bank_of(skeleton, [0.0, 0.25, 2.0, 0.0, 2.0][:width], [0, 1, 2, 4, 5])
    many = one.take(np.zeros(count, dtype=np.int64))
    params = many.params.copy()
    params[:, 0] = dice.normal(size=count)
    return replace(many, params=params)


def judged(
    pack: Pack, steps: int = 6
) -> tuple[ConstraintReport, ConstraintReport, ConstraintModule, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(4, steps, width, generator=generator, dtype=F64) for width in (4, 5))
    x = 40.0 + 10.0 * x
    x[..., CATEGORY] = 0.0
    y.requires_grad_()
    module, plain = both(pack)
    return module(x, y), plain(x, y), module, y


def test_a_term_of_two_rules_is_one_number() -> None:
    dice = np.random.default_rng(1)
    banks = [
        rows_of(le(POWER, P), 9, dice),
        rows_of(Implies(antecedent=le(P, POWER), consequent=le(FAILURE, P)), 9, dice),
    ]
    report, plain, module, y = judged(pack_of(banks))
    (values,) = module.sharing.values
    assert (values.slots.shape[1], values.output) == (1, False)
    assert all(
        not isinstance(term, Product)
        for bank in module.sharing.banks
        for term in terms_of(bank.skeleton)
    )
    assert same(report.robustness, plain.robustness)
    assert torch.allclose(*(torch.autograd.grad(each.penalty, y)[0] for each in (report, plain)))


def test_terms_of_outputs_carry_gradients() -> None:
    report, plain, module, y = judged(
        pack_of([rows_of(And(args=(le(RISE, P), le(P, RISE))), 20, np.random.default_rng(2))])
    )
    assert [values.output for values in module.sharing.values] == [True]
    assert same(report.penalties, plain.penalties)
    gradients = [
        torch.autograd.grad(each.penalties.sum(), y, create_graph=True)[0]
        for each in (report, plain)
    ]
    assert torch.allclose(*gradients)
    assert gradients[0].count_nonzero() > 0


@pytest.mark.parametrize("term", [POWER, RISE])
def test_extremes_are_taken_of_values(term: Product | Sum) -> None:
    always = Temporal(op="always", low=3, high=4, arg=le(term, P))
    report, plain, module, y = judged(
        ending(pack_of([rows_of(always, 12, np.random.default_rng(3))]), "clip")
    )
    hoisted = module.sharing.hoisted[0]
    assert hoisted is not None
    assert any(isinstance(part, OverExtreme) for part in subformulas(hoisted.skeleton))
    assert len(module.sharing.extremes) == 1
    assert same(report.robustness, plain.robustness)
    if term is RISE:
        assert torch.allclose(
            *(torch.autograd.grad(each.penalty, y)[0] for each in (report, plain))
        )


def test_terms_with_numbers_of_their_own_stay() -> None:
    scaled = Product(args=(P, TORQUE))
    _, _, module, _ = judged(pack_of([rows_of(le(scaled, Q), 40, np.random.default_rng(4))]))
    assert module.sharing.values == ()


def test_what_overflows_is_unknown_as_before() -> None:
    cubed = Product(args=(TORQUE, TORQUE, TORQUE))
    module, plain = both(
        pack_of([rows_of(le(Sum(args=(cubed, FAILURE)), P), 9, np.random.default_rng(5))])
    )
    x, y = torch.zeros(3, 4), torch.zeros(3, 5)
    x[0, 0], x[1, 0] = 1e20, torch.nan
    one, other = module(x, y), plain(x, y)
    assert len(module.sharing.values) == 1
    assert one.unknown[:2].all()
    assert not one.unknown[2].any()
    assert same(one.robustness, other.robustness)


@pytest.mark.parametrize("rules", [1, 2])
def test_equal_rows_are_evaluated_once(rules: int) -> None:
    bank = rows_of(le(FAILURE, P), 6, np.random.default_rng(6)).take(
        np.array([0, 1, 2, 3, 4, 5, 0, 1, 5, 0])
    )
    bank = replace(
        bank, rule=(np.arange(10) % rules).astype(np.int32), weight=np.linspace(1, 2, 10)
    )
    report, plain, module, y = judged(pack_of([bank]))
    assert (module.sharing.banks[0].rows, module.banks[0].rows) == (6, 10)
    assert report.penalties.shape[1] == report.robustness.shape[1] == 10
    check(report.at_steps, plain.at_steps, y)


def test_rows_that_differ_in_a_limit_or_a_category_stay_apart() -> None:
    bank = bank_of(le(FAILURE, P), [0.5, 0.0, 1.0], [0, 1, 2, 4, 5], rows=4)
    assert ConstraintModule(pack_of([bank]), x=X, y=Y).sharing.banks[0].rows == 1
    params = bank.params.copy()
    params[1, 0] = 0.75
    keyed = replace(
        bank,
        params=params,
        keys=np.array([[-1], [-1], [3], [3]], dtype=np.int32),
        codes=np.array([[0], [0], [1], [2]], dtype=np.int32),
    )
    assert ConstraintModule(pack_of([keyed]), x=X, y=Y).sharing.banks[0].rows == 4


def test_a_module_that_moves_takes_what_it_shares_along() -> None:
    module = ConstraintModule(
        pack_of([rows_of(le(RISE, P), 20, np.random.default_rng(7))]), x=X, y=Y
    ).to("meta")
    assert module.sharing.banks[0].input_index.device.type == "meta"
