"""The compiled exchange of rows against the batched one, on shared rows of which there are no more than a point has entries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkg.projection import polytope_kernels as one_by_one
from fedkg.projection import polytope_side_by_side as side_by_side
from fedkg.projection.polytope_gradient import normed
from fedkg.projection.polytope_pattern import pattern
from fedkg.projection.polytope_rows import unit_rows
from fedkg.projection.polytope_solver import _compiled, _pivoted, solve

DOUBLE = torch.float64


@given(
    seed=st.integers(0, 2**31),
    m=st.integers(1, 12),
    scale=st.sampled_from([0.1, 3.0, 1e6]),
    kind=st.sampled_from(["upper", "between", "some equal", "twice"]),
)
def test_both_exchanges_find_the_same_points(seed: int, m: int, scale: float, kind: str) -> None:
    dice = torch.Generator().manual_seed(seed)
    matrix = torch.randn(m, 12, generator=dice, dtype=DOUBLE) * (torch.rand(m, 12, generator=dice) < 0.5)
    middle = torch.randn(12, generator=dice, dtype=DOUBLE)
    if kind == "twice":
        matrix[m // 2 :] = matrix[: m - m // 2].clone()
    high = (matrix @ middle).expand(20, -1) + torch.rand(20, m, generator=dice, dtype=DOUBLE)
    low = high - 1 if kind == "between" else torch.full_like(high, -torch.inf)
    if kind == "some equal":
        high[:, : m // 2] = (matrix @ middle)[: m // 2]
        low[:, : m // 2] = high[:, : m // 2]
    point = torch.randn(20, 12, generator=dice, dtype=DOUBLE) * scale
    rows = normed(unit_rows(matrix), low, high, point)
    assert rows.gram is not None
    start = torch.zeros_like(low)
    multiplier, right = _compiled(rows, rows.gram, point, start, exact=True)
    theirs, also = _pivoted(rows, point, start, True)
    both = right & also
    slack = 1e-6 * scale if kind == "twice" else 1e-8 * (1 + scale)
    torch.testing.assert_close((point - rows.back(multiplier))[both], (point - rows.back(theirs))[both], atol=slack, rtol=0)
    value = rows.at(point - rows.back(multiplier))
    assert bool((rows.missed(value).abs() <= 2 * rows.slack)[right].all())
    assert bool(((multiplier > 0) <= (value - rows.upper > -2 * rows.slack))[right & ~rows.equal.any(1)].all())


@given(
    seed=st.integers(0, 2**31),
    m=st.integers(2, 12),
    share=st.sampled_from([0.1, 0.3, 0.6]),
    kind=st.sampled_from(["apart", "twice", "zero"]),
)
def test_points_side_by_side_and_one_after_the_other_are_the_same(seed: int, m: int, share: float, kind: str) -> None:
    dice = torch.Generator().manual_seed(seed)
    matrix = torch.randn(m, 14, generator=dice, dtype=DOUBLE) * (torch.rand(m, 14, generator=dice) < share)
    high = (matrix @ torch.randn(14, generator=dice, dtype=DOUBLE)).expand(130, -1) + torch.rand(130, m, generator=dice, dtype=DOUBLE)
    if kind == "twice":
        matrix[m // 2 :] = matrix[: m - m // 2].clone()
    if kind == "zero":
        matrix[0], high[:, 0] = 0, high[:, 0].abs()
    point = torch.randn(130, 14, generator=dice, dtype=DOUBLE) * 3
    rows = normed(unit_rows(matrix), torch.full_like(high, -torch.inf), high, point)
    assert rows.gram is not None
    parts = tuple(part.numpy() for part in (rows.gram, rows.at(point), rows.lower, rows.upper, rows.slack))
    start = np.zeros((130, m))
    for exact in (True, False):
        found, right = side_by_side.pivoted(*parts, 14, start, exact=exact)
        theirs, also = one_by_one.pivoted(*parts, 14, start)
        both = torch.from_numpy((right > 0) & (also > 0))
        assert kind != "apart" or float(both.double().mean()) > 0.5
        ours, other = (point - rows.back(torch.from_numpy(part)) for part in (found, theirs))
        torch.testing.assert_close(ours[both], other[both], atol=1e-7, rtol=0)
        assert bool((rows.missed(rows.at(ours)).abs() <= 2 * rows.slack)[torch.from_numpy(right) > 0].all())


@given(seed=st.integers(0, 2**31), m=st.integers(1, 12))
def test_the_pattern_gives_the_factor_of_any_rows_taken(seed: int, m: int) -> None:
    dice = np.random.default_rng(seed)
    matrix = dice.normal(size=(m, 30)) * (dice.random((m, 30)) < 0.1)
    gram = matrix @ matrix.T + np.eye(m)
    plan = pattern((gram != 0).tobytes(), m)
    ordered = gram[plan.order][:, plan.order]
    whole, factor, pivots = np.zeros(len(plan.row) + 1), np.zeros(len(plan.row) + 1), np.zeros(m)
    for e, (i, j) in enumerate(zip(plan.row, plan.column, strict=True)):
        span = slice(plan.pairs.at[e], plan.pairs.at[e + 1])
        whole[e] = ordered[i, j] - whole[plan.pairs.left[span]] @ factor[plan.pairs.right[span]]
        pivots[j] = whole[e] if i == j else pivots[j]
        factor[e] = whole[e] / pivots[j]
    low = np.zeros((m, m))
    low[plan.row, plan.column] = factor[:-1]
    np.testing.assert_allclose(low * pivots @ low.T, ordered, atol=1e-9)


def test_contradictions_are_left_to_the_method_that_proves_them() -> None:
    rows = normed(
        unit_rows(torch.tensor([[1.0, 0, 0], [-1, 0, 0]], dtype=DOUBLE)),
        torch.full((4, 2), -torch.inf, dtype=DOUBLE),
        torch.tensor([[0.0, -1]], dtype=DOUBLE).expand(4, -1),
        torch.zeros(4, 3, dtype=DOUBLE),
    )
    assert rows.gram is not None
    start = torch.zeros(4, 2, dtype=DOUBLE)
    _, right = _compiled(rows, rows.gram, torch.zeros(4, 3, dtype=DOUBLE), start, exact=True)
    assert not bool(right.any())
    assert bool(solve(rows, torch.zeros(4, 3, dtype=DOUBLE)).empty.all())


@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_threads_says_the_same(threads: int) -> None:
    dice = torch.Generator().manual_seed(7)
    matrix, point = torch.randn(9, 12, generator=dice, dtype=DOUBLE), torch.randn(300, 12, generator=dice, dtype=DOUBLE) * 3
    high = torch.rand(300, 9, generator=dice, dtype=DOUBLE)
    rows = normed(unit_rows(matrix), torch.full_like(high, -torch.inf), high, point)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        whole = solve(rows, point)
    finally:
        torch.set_num_threads(before)
    parts = torch.cat([solve(rows.of(torch.arange(i, i + 100)), point[i : i + 100]).multiplier for i in (0, 100, 200)])
    torch.testing.assert_close(whole.multiplier, parts, atol=1e-12, rtol=1e-12)
