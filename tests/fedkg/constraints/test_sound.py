"""Penalties by norms are continuous and positive exactly where exact ones are.

Every part that contributes to a violation has a gradient.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import CATEGORY, X, Y, bank_of, formulas, pack_of, packs, tables
from test_torch_windows import answers_for, ending
from test_window_gradients import LIMIT, OPERATORS, OUT, batch, le, module_of, over, single, until
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule
from fedkg.constraints.engine.generalised_mean_extrema import norm_from_sums, norm_of, weighed
from fedkg.constraints.engine.penalty import UNREACHABLE
from fedkg.constraints.engine.unknown_value_encoding import between
from fedkg.constraints.report import ConstraintReport
from fedkg.pack import And, AtLeast, ClassIn, Compare, Formula, Not, Or, Pack, Param, Slot

F32, F64 = torch.float32, torch.float64


def report_of(
    pack: Pack, table: np.ndarray, answers: Tensor, **options: object
) -> ConstraintReport:
    module = ConstraintModule(pack, x=X, y=Y)
    keys = {"Type": torch.from_numpy(table[:, CATEGORY]).long()}
    x = torch.from_numpy(table[:, :4]).to(answers.dtype)
    return module(x, answers[list(module.plan.runs)], previous="above", keys=keys, **options)


ANY_PACK = st.one_of(packs(temporal=True, members=True), packs(skeletons=formulas()))
CALLS = (
    ANY_PACK,
    tables(max_rows=6),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from(["strict", "clip"]),
    st.sampled_from([F32, F64]),
)


def check_signs(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool, end: str, dtype: torch.dtype
) -> None:
    """Assert that penalties by norms are positive exactly where exact ones are.

    Exact ones are positive where a verdict is violated and within reach.
    """
    answers = torch.from_numpy(answers_for(seed, len(table), unknown)).to(dtype).requires_grad_()
    exact = report_of(ending(pack, end), table, answers)
    sound = report_of(ending(pack, end), table, answers, semantics="sound")
    assert torch.equal(sound.penalties > 0, exact.penalties > 0)
    assert not (sound.penalties > 0)[~exact.violated].any()
    barrier = report_of(
        ending(pack, end), table, answers, semantics="sound", form="log_barrier"
    ).penalties
    assert torch.isfinite(torch.stack([sound.penalties, barrier])).all()
    if sound.penalty.requires_grad:
        (gradient,) = torch.autograd.grad(sound.penalty + barrier.sum(), answers)
        assert torch.isfinite(gradient).all()


@given(*CALLS)
@tries(30)
def test_the_sign_never_lies(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool, end: str, dtype: torch.dtype
) -> None:
    check_signs(pack, table, seed, unknown, end, dtype)


@pytest.mark.slow
@given(*CALLS)
@tries(80)
def test_the_sign_lies_in_none_of_many(
    pack: Pack, table: np.ndarray, seed: int, unknown: bool, end: str, dtype: torch.dtype
) -> None:
    check_signs(pack, table, seed, unknown, end, dtype)


SIZES = st.one_of(
    st.floats(-1e3, 1e3).map(lambda v: 0.0 if abs(v) < 1e-6 else v),
    st.sampled_from([0.0, 1e-30, UNREACHABLE, -UNREACHABLE, math.nan, 1e20, -1e20]),
)


@given(st.lists(SIZES, min_size=1, max_size=8), st.booleans(), st.sampled_from([F32, F64]))
@example([1e-30, 0.0], False, F32)
@example([-0.0, 5.0], True, F32)
@tries(100)
def test_a_norm_is_three_valued_and_lies_beside_the_extreme(
    sizes: list[float], lowest: bool, dtype: torch.dtype
) -> None:
    unknown = between(dtype)
    parts = torch.tensor(sizes, dtype=dtype).nan_to_num(unknown).requires_grad_()
    found = norm_of(list(parts.unbind()), UNREACHABLE, lowest=lowest)
    exact = parts.min() if lowest else parts.max()
    assert bool(found > unknown) == bool(exact > unknown)
    assert bool(found <= 0) == bool(exact <= 0)
    if len(sizes) > 1 and abs(exact.item()) < 1e11 and exact.item() != unknown:
        loud = (
            (exact > 0) != lowest
            # the norm of 2 parts at least as large as the exact extreme, or of the mirror image at
            # most
        )
        most, least = (math.sqrt(len(sizes)), 1.0) if loud else (1.0, 1 / math.sqrt(len(sizes)))
        size, near = abs(exact.item()), 1.1e-10 * math.sqrt(len(sizes))
        assert least * size * (1 - 1e-5) <= abs(found.item()) <= most * size * (1 + 1e-5) + near
    (gradient,) = torch.autograd.grad(found, parts)
    assert bool((gradient >= 0).all() and (gradient <= 1 + 1e-5).all())


@given(
    st.lists(
        SIZES.filter(lambda v: abs(v) < 1e11 or abs(v) == UNREACHABLE), min_size=3, max_size=8
    ),
    st.booleans(),
    st.integers(1, 2),
)
@tries(40)
def test_brackets_make_no_difference(sizes: list[float], lowest: bool, cut: int) -> None:
    parts = list(torch.tensor(sizes, dtype=F64).unbind())
    whole = norm_of(parts, UNREACHABLE, lowest=lowest)
    nested = [norm_of(some, UNREACHABLE, lowest=lowest) for some in (parts[:cut], parts[cut:])]
    assert norm_of(nested, UNREACHABLE, lowest=lowest).item() == pytest.approx(
        whole.item(), rel=1e-9, abs=1e-9
    )


@pytest.mark.parametrize("lowest", [True, False])
def test_a_norm_of_nothing_is_what_inputs_decide(lowest: bool) -> None:
    nothing = weighed(torch.zeros(3, 0, dtype=F64), UNREACHABLE, lowest=lowest).sum(-1)
    assert (
        norm_from_sums(nothing, UNREACHABLE, lowest=lowest).tolist()
        == [UNREACHABLE if lowest else -UNREACHABLE] * 3
    )


def at_most(slot: int, limit: int) -> Compare:
    return Compare(op="le", left=Slot(index=slot, role="output"), right=Param(index=limit), scale=2)


def penalty_and_gradient(skeleton: Formula, answers: list[float]) -> tuple[float, list[float]]:
    """Two outputs with the limits 1 and 2, and a scale of 2."""
    pack = pack_of([bank_of(skeleton, [1.0, 2.0, 2.0], [4, 5])])
    y = torch.tensor([[*answers, 0.0, 0.0, 0.0]], dtype=F64).repeat(4, 1, 1).requires_grad_()
    penalty = report_of(pack, np.zeros((1, 9)), y, semantics="sound").penalties.sum()
    (gradient,) = torch.autograd.grad(penalty, y)
    return penalty.item(), gradient[0, 0, :2].tolist()


BOTH = (at_most(0, 0), at_most(1, 1))


@pytest.mark.parametrize(
    ("skeleton", "answers", "penalty", "gradient"),
    [
        (And(args=BOTH), [7.0, 10.0], 5.0, [0.5 * 3 / 5, 0.5 * 4 / 5]),
        (And(args=BOTH), [7.0, 1.0], 3.0, [0.5, 0.0]),
        (And(args=BOTH), [1.0, 2.0], 0.0, [0.0, 0.0]),
        (Or(args=BOTH), [7.0, 10.0], 2.4, [0.5 * 0.8**3, 0.5 * 0.6**3]),
        (Or(args=BOTH), [7.0, 1.9], 0.0, [0.0, 0.0]),
        (Not(arg=Or(args=BOTH)), [-5.0, -6.0], 5.0, [-0.5 * 3 / 5, -0.5 * 4 / 5]),
    ],
)
def test_by_hand(
    skeleton: Formula, answers: list[float], penalty: float, gradient: list[float]
) -> None:
    found = penalty_and_gradient(skeleton, answers)
    assert found[0] == pytest.approx(penalty, abs=1e-9)
    assert found[1] == pytest.approx(gradient, abs=1e-9)


def test_a_window_gives_a_gradient_to_every_step_that_breaks_it() -> None:
    module = module_of(single(over("always", le(OUT, LIMIT)), low=0, high=3, limit=0.0, end="clip"))
    y = torch.zeros(1, 6, 5, dtype=F64)
    y[0, :, 0] = torch.tensor([1.0, -1.0, 3.0, 2.0, -4.0, 1.0])
    y.requires_grad_()
    exact, sound = (
        module(torch.zeros(1, 6, 4, dtype=F64), y, semantics=kind).at_steps.penalties[0, 0, 0]
        for kind in ("exact", "sound")
    )
    assert exact.item() == 1.5
    assert sound.item() == pytest.approx(math.sqrt(1 + 9 + 4) / 2)
    assert torch.autograd.grad(exact, y)[0][0, :, 0].count_nonzero() == 1
    assert torch.autograd.grad(sound, y)[0][0, :, 0].tolist() == pytest.approx(
        [v / math.sqrt(14) / 2 for v in (1, 0, 3, 2, 0, 0)]
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_at_least_is_any_of_and_all_of_at_its_ends(count: int) -> None:
    """Members violate by 1.4, 5 and 5.6 scales; one to three of them are required."""
    module = module_of(single(AtLeast(count=4, members=0, arg=le(OUT, LIMIT)), members=True))
    module.banks[0].numbers[4] = float(count)
    y = torch.zeros(1, 1, 5, dtype=F64)
    y[0, 0, :2] = torch.tensor([3.0, 4.9])
    y.requires_grad_()
    found = module(torch.zeros(1, 1, 4, dtype=F64), y, semantics="sound").penalties
    first, second, third = sorted([(3.0 - 0.2) / 2.0, (4.9 + 0.1) / 1.0, (3.0 - 0.4) / 0.5])
    rest = {1: [first, second, third], 2: [second, third], 3: [third]}[count]
    before = {1: [], 2: [first], 3: [first, second]}[count]
    expected = math.sqrt(sum(m**2 for m in before) + 1 / sum(1 / m**2 for m in rest))
    assert found.item() == pytest.approx(expected)
    assert (torch.autograd.grad(found.sum(), y)[0][0, 0, :2] > 0).all()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("negated", [True, False])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_classes_lack_what_any_inside_lacks_to_all_outside(
    strict: bool, negated: bool, dtype: torch.dtype
) -> None:
    atom = ClassIn(inside=(0,), outside=(1, 2), strict=strict)
    pack = pack_of([bank_of(Not(arg=atom) if negated else atom, [], [6, 7, 8])])
    scores = torch.cartesian_prod(*[torch.tensor([0.0, 1.0, 4.0], dtype=dtype)] * 3)
    y = torch.cat([torch.zeros(27, 2, dtype=dtype), scores], dim=1).repeat(4, 1, 1).requires_grad_()
    exact, sound = (
        report_of(pack, np.zeros((27, 9)), y, semantics=kind) for kind in ("exact", "sound")
    )
    assert torch.equal(sound.penalties > 0, exact.violated)
    (gradient,) = torch.autograd.grad(sound.penalties.sum(), y)
    own, others = gradient[0, :, 2], gradient[0, :, 3:]
    assert bool(((own != 0) == exact.violated[:, 0]).all())
    if not negated:
        at_fault = scores[:, 1:] - scores[:, :1] >= 0 if strict else scores[:, 1:] > scores[:, :1]
        assert torch.equal(others > 0, at_fault)


@pytest.mark.parametrize("name", OPERATORS)
def test_penalties_are_continuous_where_a_verdict_turns(name: str) -> None:
    """Between two batches no step of a thousandth moves a penalty by more than its share."""
    skeleton, members = OPERATORS[name]
    module = module_of(single(skeleton, limit=-0.8, members=members))
    x, start = batch(3, count=1, steps=6)
    end = batch(4, count=1, steps=6)[1]
    ways = torch.linspace(0, 1, 2001, dtype=F64)[:, None, None]
    penalties = module(
        x.expand(2001, 6, 4), start + ways * (end - start), semantics="sound"
    ).at_steps.penalties
    assert (penalties[1:] - penalties[:-1]).abs().max() < 0.05


def test_an_until_is_no_longer_than_its_window() -> None:
    module = module_of(single(until("until"), low=1, high=3, limit=0.5, end="clip"))
    x, y = batch(5, count=4, steps=9)
    near, far = y.clone(), y.clone()
    far[:, 4:] = 100.0 * far[:, 4:]
    both = [
        module(x, answers, semantics="sound").at_steps.penalties[:, 0] for answers in (near, far)
    ]
    assert torch.equal(*both)
