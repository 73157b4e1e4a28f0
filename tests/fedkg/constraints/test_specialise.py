"""A specialised module agrees with the module, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import X, Y, bank_of, banks, comparisons, guarded, pack_of, packs, tables
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule, Specialised, evaluate_bank
from fedkg.constraints.report import ConstraintReport
from fedkg.errors import LayoutError
from fedkg.pack import (
    And,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Product,
    Slot,
    Sum,
    Term,
)

VALUES = torch.tensor([-2.0, -1.0, -0.5, -0.0, 0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 8.6, 300.0, 308.6])


def answers(seed: int, shape: tuple[int, ...], dtype: torch.dtype, broken: bool = False) -> Tensor:
    """Answers that often lie on the bounds of rules.

    With `broken`, some answers of the first client are missing.
    """
    generator = torch.Generator().manual_seed(seed)
    y = VALUES[torch.randint(len(VALUES), shape, generator=generator)].to(dtype)
    if broken and y.numel():
        y[0].view(-1)[:: 3 + seed % 3] = torch.tensor([torch.nan, torch.inf, 1e30])[seed % 3]
    return y


def same(special: ConstraintReport, plain: ConstraintReport) -> None:
    for name in ("robustness", "satisfied", "violated", "unknown", "applicable", "fired"):
        assert torch.equal(
            torch.nan_to_num(getattr(special, name) * 1.0, nan=7.5),
            torch.nan_to_num(getattr(plain, name) * 1.0, nan=7.5),
        ), name


def count_evaluated(report: ConstraintReport) -> list[int]:
    """Rows, or windows with a step, on which each constraint fires with a known verdict."""
    steps = report.at_steps
    places = steps.fired & ~steps.unknown
    return (places.any(1) if places.dim() == 3 else places).sum(0).tolist()


def check(special: Specialised, reports: list[ConstraintReport], y: Tensor) -> None:
    counts = special.counts(y)
    for k, report in enumerate(reports):
        same(special(y[k]), report)
        assert counts.violated[k].tolist() == report.violated.sum(0).tolist()
        assert counts.evaluated[k].tolist() == count_evaluated(report)


@given(
    packs(max_rows=8),
    tables(max_rows=20),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
)
@tries(20)
def test_rows(pack: Pack, table: np.ndarray, seed: int, broken: bool, dtype: torch.dtype) -> None:
    module = ConstraintModule(pack, x=X, y=Y)
    x = torch.from_numpy(table[:, :4]).to(dtype)
    y = answers(seed, (3, len(module.plan.runs), len(table), 5), dtype, broken)
    special = module.specialise(x, previous="above")
    assert torch.equal(
        torch.nan_to_num(special.inputs), torch.nan_to_num(module.views(x, previous="above"))
    )
    check(special, [module(x, y[k], previous="above") for k in range(3)], y)


def ordered(draw: st.DrawFn) -> Formula:
    """A formula of comparisons that are monotone in an output, of guards over inputs, and of
    classes.
    """
    fixed: st.SearchStrategy[Term] = st.sampled_from(
        [Param(index=0), Param(index=1), Slot(index=0), Slot(index=1)]
    )
    factor = st.one_of(fixed, fixed.map(lambda term: Sum(args=(term, Param(index=2)))))
    output = st.sampled_from([Slot(index=3, role="output"), Slot(index=4, role="output")])
    core = st.one_of(output, output, st.builds(lambda a, b: Sum(args=(a, b)), output, output))
    side = st.one_of(
        core,
        st.builds(lambda y, a: Sum(args=(a, Negate(arg=y))), core, factor),
        st.builds(lambda y, a, b: Sum(args=(Product(args=(a, y)), b)), core, factor, factor),
    )
    op, tolerance = st.sampled_from(["le", "lt"]), st.sampled_from([None, Param(index=4)])
    low = st.builds(
        lambda y, c, op, t: Compare(op=op, left=y, right=c, tolerance=t, scale=5),
        side,
        factor,
        op,
        tolerance,
    )
    high = st.builds(
        lambda y, c, op, t: Compare(op=op, left=c, right=y, tolerance=t, scale=5),
        side,
        factor,
        op,
        tolerance,
    )
    guard: st.SearchStrategy[Formula] = st.one_of(
        comparisons(outputs=False), st.just(CategoryIs(slot=5, param=6))
    )
    classes = st.builds(
        lambda strict: ClassIn(inside=(6,), outside=(7, 8), strict=strict), st.booleans()
    )
    some = st.one_of(low, high, low, high, guard, classes)

    def wider(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(lambda args: And(args=args), parts),
            st.builds(lambda args: Or(args=args), parts),
            st.builds(lambda arg: Not(arg=arg), inner),
            st.builds(
                lambda a, b: Implies(antecedent=a, consequent=b), st.one_of(guard, inner), inner
            ),
        )

    return draw(st.recursive(some, wider, max_leaves=4))


ORDERED = st.lists(banks(st.composite(ordered)(), max_rows=10), min_size=1, max_size=3).map(pack_of)


def check_thresholds(
    pack: Pack, table: np.ndarray, seed: int, broken: bool, dtype: torch.dtype
) -> None:
    module = ConstraintModule(pack, x=X, y=Y)
    x = torch.from_numpy(table[:, :4]).to(dtype)
    y = answers(seed, (3, len(module.plan.runs), len(table), 5), dtype, broken)
    check(
        module.specialise(x, previous="above"),
        [module(x, y[k], previous="above") for k in range(3)],
        y,
    )


@given(
    ORDERED,
    tables(max_rows=40),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
)
@tries(8)
def test_thresholds(
    pack: Pack, table: np.ndarray, seed: int, broken: bool, dtype: torch.dtype
) -> None:
    check_thresholds(pack, table, seed, broken, dtype)


@pytest.mark.slow
@given(
    ORDERED,
    tables(max_rows=40),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float64]),
)
@tries(30)
def test_many_thresholds(
    pack: Pack, table: np.ndarray, seed: int, broken: bool, dtype: torch.dtype
) -> None:
    check_thresholds(pack, table, seed, broken, dtype)


@given(packs(max_rows=6, members=True), tables(), st.integers(0, 99), st.booleans())
@tries(10)
def test_members(pack: Pack, table: np.ndarray, seed: int, broken: bool) -> None:
    module = ConstraintModule(pack, x=X, y=Y)
    x = torch.from_numpy(table[:, :4])
    y = answers(seed, (2, len(module.plan.runs), len(table), 5), torch.float64, broken)
    check(
        module.specialise(x, previous="above"),
        [module(x, y[k], previous="above") for k in range(2)],
        y,
    )


@given(
    packs(max_rows=6, temporal=True, members=True), st.integers(0, 99), st.booleans(), st.booleans()
)
@tries(10)
def test_windows(pack: Pack, seed: int, broken: bool, rows: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    module = ConstraintModule(pack, x=X, y=Y)
    x = VALUES[torch.randint(len(VALUES), (3, 14, 4), generator=generator)]
    x[..., 3] = torch.randint(3, (3, 14), generator=generator).to(x)
    x[0, 2, 1] = torch.nan
    x = x.flatten(0, 1) if rows else x
    previous = "above" if rows else None
    y = answers(seed, (2, len(module.plan.runs), *x.shape[:-1], 5), torch.float32, broken)
    check(
        module.specialise(x, previous=previous),
        [module(x, y[k], previous=previous) for k in range(2)],
        y,
    )


@given(packs(max_rows=8, views=1), tables(max_rows=12), st.integers(0, 99))
@tries(10)
def test_against_the_interpreter(pack: Pack, table: np.ndarray, seed: int) -> None:
    module = ConstraintModule(pack, x=X, y=Y)
    y = answers(seed, (4, len(table), 5), torch.float64)
    counts = module.specialise(torch.from_numpy(table[:, :4])).counts(y)
    for k in range(4):
        values = np.concatenate([table[:, :4], y[k].numpy()], axis=1)[None]
        found = [evaluate_bank(bank, values) for bank in pack.banks]
        assert counts.violated[k].tolist() == [
            int(c) for bank in found for c in bank.violated.sum(axis=0)
        ]


def test_rows_that_share_a_limit() -> None:
    skeleton = Implies(
        antecedent=Compare(op="le", left=Param(index=0), right=Slot(index=0), scale=5),
        consequent=Compare(
            op="lt", left=Param(index=1), right=Slot(index=3, role="output"), scale=5
        ),
    )
    bank = bank_of(skeleton, [0.5, 0.1, 0.0, 0.0, 0.0, 1.0], [0, 1, 2, 4, 5], rows=6)
    bank.params[:, 0] = [0.1, 0.3, 0.5, 1.0, 2.0, -1.0]
    bank.params[5, 1] = 0.3
    module = ConstraintModule(pack_of([bank]), x=X, y=Y)
    x = VALUES[torch.randint(len(VALUES), (300, 4), generator=torch.Generator().manual_seed(1))]
    y = answers(2, (130, 300, 5), torch.float32)
    special = module.specialise(x)
    assert special.expressed.all()
    check(special, [module(x, one) for one in y], y)


@pytest.mark.parametrize(("largest", "expressed"), [(8.0, True), (1e38, False)])
def test_inputs_so_large_that_what_is_computed_from_them_overflows(
    largest: float, expressed: bool
) -> None:
    core = Sum(
        args=(
            Product(args=(Slot(index=0), Slot(index=3, role="output"))),
            Slot(index=4, role="output"),
        )
    )
    skeleton = Compare(op="le", left=Param(index=0), right=core, scale=5)
    module = ConstraintModule(
        pack_of([bank_of(skeleton, [0.5, 0.0, 0.0, 0.0, 0.0, 1.0], [0, 1, 2, 4, 5], rows=6)]),
        x=X,
        y=Y,
    )
    x = torch.zeros(3, 4)
    x[:, 0] = torch.tensor([1.0, torch.nan, largest])
    y = torch.full((2, 3, 5), 300.0)
    special = module.specialise(x)
    assert special.expressed.all() == expressed
    check(special, [module(x, one) for one in y], y)


LIMITS = Implies(
    antecedent=Compare(op="le", left=Param(index=0), right=Slot(index=0), scale=5),
    consequent=And(
        args=(
            Compare(op="le", left=Param(index=1), right=Slot(index=3, role="output"), scale=5),
            Compare(op="lt", left=Slot(index=4, role="output"), right=Param(index=2), scale=5),
        )
    ),
)
"""Limits on two outputs in rows where an input reaches a number."""


def limited(rows: int, seed: int) -> tuple[ConstraintModule, Tensor, Tensor]:
    """A module of rows with individual limits, the limits (float32 [rows, 2]), inputs [40, 4]."""
    dice = np.random.default_rng(seed)
    bank = bank_of(LIMITS, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0, 1, 2, 4, 5], rows=rows)
    bank.params[:, :3] = dice.normal(size=(rows, 3))
    x = torch.from_numpy(dice.normal(size=(40, 4))).to(torch.float32)
    return (
        ConstraintModule(pack_of([bank]), x=X, y=Y),
        torch.from_numpy(bank.params[:, 1:3]).to(torch.float32),
        x,
    )


@pytest.mark.parametrize("rows", [3, 60, 300])
def test_answers_on_limits_and_one_float_beside(rows: int) -> None:
    module, limits, x = limited(rows, rows)
    generator = torch.Generator().manual_seed(rows)
    up = torch.tensor(torch.inf)
    steps = torch.stack([torch.nextafter(limits, -up), limits, torch.nextafter(limits, up)])
    y = VALUES[torch.randint(len(VALUES), (70, 40, 5), generator=generator)]
    chosen = torch.randint(rows, (70, 40, 2), generator=generator)
    which = torch.randint(3, (70, 40, 2), generator=generator)
    y[..., 0], y[..., 1] = (
        steps[which[..., 0], chosen[..., 0], 0],
        steps[which[..., 1], chosen[..., 1], 1],
    )
    special = module.specialise(x)
    assert special.expressed.all()
    counts = special.counts(y)
    for k in range(70):
        report = module(x, y[k])
        assert counts.violated[k].tolist() == report.violated.sum(0).tolist()
        assert counts.evaluated[k].tolist() == count_evaluated(report)


@pytest.mark.parametrize("clients", [0, 1, 64, 257])
def test_any_number_of_models(clients: int) -> None:
    module, _, x = limited(80, 1)
    y = torch.randn(clients, 40, 5, generator=torch.Generator().manual_seed(clients))
    if clients > 1:
        y[0, 3, 0], y[1, 3, 0] = torch.nan, torch.inf
    counts = module.specialise(x).counts(y)
    assert counts.violated.shape == counts.evaluated.shape == (clients, 80)
    for k in range(0, clients, 16):
        assert counts.violated[k].tolist() == module(x, y[k]).violated.sum(0).tolist()


@pytest.mark.parametrize("clients", [0, 1, 3])
def test_sums_of_answers_of_any_number_of_models(clients: int) -> None:
    core = Sum(args=(Slot(index=3, role="output"), Slot(index=4, role="output")))
    skeleton = Compare(op="le", left=core, right=Param(index=0), scale=5)
    module = ConstraintModule(
        pack_of([bank_of(skeleton, [0.5, 0.0, 0.0, 0.0, 0.0, 1.0], [0, 1, 2, 4, 5], rows=6)]),
        x=X,
        y=Y,
    )
    x, y = torch.zeros(20, 4), answers(3, (clients, 20, 5), torch.float32)
    special = module.specialise(x)
    assert special.expressed.all()
    assert special.counts(y).violated.shape == (clients, 6)
    check(special, [module(x, one) for one in y], y)


def test_counts_are_the_callers_own() -> None:
    """The caller may change the counts, also those that are the same for all models."""
    special = ConstraintModule(guarded(limit=-1.0), x=X, y=Y).specialise(torch.zeros(4, 4))
    counts = special.counts(torch.ones(1, 4, 5))
    expected = [part.tolist() for part in (counts.violated, counts.evaluated)]
    counts.violated.add_(7)
    counts.evaluated.add_(7)
    again = special.counts(torch.ones(1, 4, 5))
    assert [part.tolist() for part in (again.violated, again.evaluated)] == expected


def test_rows_that_are_open_nowhere() -> None:
    special = ConstraintModule(guarded(limit=1e9), x=X, y=Y).specialise(torch.zeros(4, 4))
    counts = special.counts(torch.ones(3, 4, 5))
    assert counts.violated.tolist() == counts.evaluated.tolist() == [[0]] * 3


def test_an_answer_that_is_no_number_counts_as_asked() -> None:
    special = ConstraintModule(guarded(limit=-1.0), x=X, y=Y).specialise(torch.zeros(4, 4))
    y = torch.ones(2, 4, 5)
    y[1, 0] = torch.nan
    assert special.counts(y).violated.tolist() == [[0], [0]]
    assert special.counts(y, unanswered="violated").violated.tolist() == [[0], [1]]


def test_gradients_go_to_the_answers() -> None:
    module = ConstraintModule(guarded(limit=-1.0), x=X, y=Y)
    y = torch.zeros(4, 5, requires_grad=True)
    (special,) = torch.autograd.grad(module.specialise(torch.zeros(4, 4))(y).penalty, y)
    (plain,) = torch.autograd.grad(module(torch.zeros(4, 4), y).penalty, y)
    assert torch.equal(special, plain)
    assert special.abs().sum() > 0


def test_answers_of_another_shape() -> None:
    special = ConstraintModule(guarded(limit=-1.0), x=X, y=Y).specialise(torch.zeros(4, 4))
    with pytest.raises(LayoutError, match="the shape of y does not fit the batch"):
        special.counts(torch.zeros(2, 3, 5))
    with pytest.raises(LayoutError, match="one more dimension"):
        special.counts(torch.zeros(4))
