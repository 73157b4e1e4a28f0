"""Compiled loops over batches of points against batched operations: the same nearest points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkg.kernels.polytopes.polytope_batch_kernel import nearest_points_batched
from fedkg.kernels.polytopes.polytope_sparsity import pattern
from fedkg.kernels.polytopes.polytope_tangents import tangent_directions
from fedkg.projection.polytope_row_operations import (
    Rows,
    UnitRows,
    guess_multipliers,
    solve_taken_rows,
    unit_rows,
)
from fedkg.projection.polytope_solver import FAR, SLACK, _pivoted, solve
from fedkg.projection.polytope_solver_choice import nearest_in_polytope, scale_ends, tighten_ends

DOUBLE = torch.float64


def rows_between(
    matrix: torch.Tensor, low: torch.Tensor, high: torch.Tensor, point: torch.Tensor
) -> Rows:
    unit = unit_rows(matrix)
    return scale_ends(unit, *tighten_ends(unit, low, high, point, 0.0), point)


def alike(unit: UnitRows) -> UnitRows:
    """The same rows without the special path."""
    other = UnitRows(unit.matrix, unit.length, unit.gram)
    other.__dict__["shared"] = None
    return other


@given(
    seed=st.integers(0, 2**31),
    m=st.integers(2, 12),
    share=st.sampled_from([0.1, 0.3, 0.6]),
    kind=st.sampled_from(["apart", "twice", "zero"]),
)
def test_points_side_by_side_are_those_of_batched_operations(
    seed: int, m: int, share: float, kind: str
) -> None:
    dice = torch.Generator().manual_seed(seed)
    matrix = torch.randn(m, 14, generator=dice, dtype=DOUBLE) * (
        torch.rand(m, 14, generator=dice) < share
    )
    high = (matrix @ torch.randn(14, generator=dice, dtype=DOUBLE)).expand(130, -1) + torch.rand(
        130, m, generator=dice, dtype=DOUBLE
    )
    if kind == "twice":
        matrix[m // 2 :] = matrix[: m - m // 2].clone()
    if kind == "zero":
        matrix[0], high[:, 0] = 0, high[:, 0].abs()
    point = torch.randn(130, 14, generator=dice, dtype=DOUBLE) * 3
    low, unit = torch.full_like(high, -torch.inf), unit_rows(matrix)
    rows = rows_between(matrix, low, high, point)
    assert unit.shared is not None
    theirs, also = _pivoted(
        rows, point, guess_multipliers(rows, point, torch.zeros_like(rows.lower)), True
    )
    given = (point.numpy(), low.numpy(), high.numpy(), None)
    for exact in (True, False):
        found, multiplier, left = nearest_points_batched(
            unit.shared, *given, inward=0.0, share=SLACK, far=torch.inf, exact=exact
        )
        both = torch.from_numpy(~left) & also
        assert kind != "apart" or float(both.double().mean()) > 0.5
        ours, other = torch.from_numpy(found), point - rows.back(theirs)
        torch.testing.assert_close(ours[both], other[both], atol=1e-7, rtol=0)
        moved = point - rows.back(torch.from_numpy(multiplier))
        torch.testing.assert_close(ours[~left], moved[~left], atol=1e-9, rtol=0)
        assert bool((rows.missed(rows.at(ours)).abs() <= 2 * rows.slack)[~left].all())


@given(
    seed=st.integers(0, 2**31),
    inward=st.sampled_from([0.0, 1e-6, 1e-2]),
    ends=st.sampled_from(["each", "shared"]),
    kind=st.sampled_from(["above", "between", "some equal", "far", "empty", "broken"]),
)
def test_every_way_moves_ends_inwards_and_finds_the_same(
    seed: int, inward: float, ends: str, kind: str
) -> None:
    dice = torch.Generator().manual_seed(seed)
    matrix = (
        torch.randn(6, 14, generator=dice, dtype=DOUBLE)
        * (torch.rand(6, 14, generator=dice) < 0.3)
        * 3
    )
    high = (
        (matrix @ torch.randn(14, generator=dice, dtype=DOUBLE))
        .expand(1 if ends == "shared" else 70, -1)
        .clone()
    )
    low = (
        high - torch.rand(high.shape, generator=dice, dtype=DOUBLE)
        if kind == "between"
        else torch.full_like(high, -torch.inf)
    )
    point = torch.randn(70, 14, generator=dice, dtype=DOUBLE) * (1e6 if kind == "far" else 2)
    if kind == "some equal":
        low[:, :2] = high[:, :2]
    if kind == "empty":
        matrix[0] = torch.eye(14, dtype=DOUBLE)[0]
        matrix[1], high[:, 0], high[:, 1] = -matrix[0], 0, -1
    if kind == "broken":
        point[3, 2], point[4, 5] = torch.nan, torch.inf
    unit = unit_rows(matrix)
    found, other = (
        nearest_in_polytope(each, low, high, point, inward=inward) for each in (unit, alike(unit))
    )
    assert torch.equal(found.empty, other.empty)
    assert bool(found.empty.any()) == (kind == "empty")
    slack = 1e-7 if kind == "far" else 1e-9
    torch.testing.assert_close(found.point, other.point, atol=slack, rtol=slack, equal_nan=True)
    whole = ~found.empty & point.isfinite().all(1)
    here = found.point[whole] @ matrix.mT
    bounds = [end.expand(70, -1)[whole] for end in (low, high)]
    room = inward * (1 - 1e-6) * (1 + bounds[1].abs())
    kept = torch.minimum(room, (bounds[1] - bounds[0]) * 0.2499) - 1e-8 * (
        1 + found.point[whole].abs().amax(1, keepdim=True)
    )
    assert bool((here <= bounds[1] - kept.clamp(max=1e300)).all())
    torch.testing.assert_close(found.point[~whole], point[~whole], equal_nan=True)


@given(
    seed=st.integers(0, 2**31),
    share=st.sampled_from([0.1, 0.3, 1.0]),
    kind=st.sampled_from(["apart", "twice", "zero"]),
)
def test_directions_within_the_rows_taken_are_those_of_batched_operations(
    seed: int, share: float, kind: str
) -> None:
    dice = torch.Generator().manual_seed(seed)
    matrix = torch.randn(8, 10, generator=dice, dtype=DOUBLE) * (
        torch.rand(8, 10, generator=dice) < share
    )
    if kind == "twice":
        matrix[4:] = matrix[:4].clone()
    if kind == "zero":
        matrix[0] = 0
    slope, chosen = (
        torch.randn(90, 10, generator=dice, dtype=DOUBLE),
        torch.rand(90, 8, generator=dice) < 0.4,
    )
    unit = unit_rows(matrix)
    assert unit.shared is not None
    along, pull = (
        torch.from_numpy(part)
        for part in tangent_directions(unit.shared, slope.numpy(), chosen.numpy())
    )
    zero = torch.zeros(90, 8, dtype=DOUBLE)
    rows = Rows(unit.matrix, unit.gram, zero, zero, chosen, zero[:, :1])
    other, _ = solve_taken_rows(rows, chosen, rows.at(slope))
    torch.testing.assert_close(along, slope - rows.back(other), atol=1e-7, rtol=0)
    torch.testing.assert_close(along, slope - rows.back(pull), atol=1e-7, rtol=0)
    assert float(torch.where(chosen, rows.at(along), 0).abs().max()) < 1e-7
    assert not bool(pull[~chosen].any())


@given(seed=st.integers(0, 2**31), m=st.integers(1, 12))
def test_the_pattern_gives_the_factor_of_any_rows_taken(seed: int, m: int) -> None:
    dice = np.random.default_rng(seed)
    matrix = dice.normal(size=(m, 30)) * (dice.random((m, 30)) < 0.1)
    gram = matrix @ matrix.T + np.eye(m)
    plan = pattern((gram != 0).tobytes(), m)
    ordered = gram[plan.order][:, plan.order]
    whole, factor, pivots = np.zeros(len(plan.row)), np.zeros(len(plan.row)), np.zeros(m)
    for e, (i, j) in enumerate(zip(plan.row, plan.column, strict=True)):
        span = slice(plan.pairs.at[e], plan.pairs.at[e + 1])
        whole[e] = ordered[i, j] - whole[plan.pairs.left[span]] @ factor[plan.pairs.right[span]]
        pivots[j] = whole[e] if i == j else pivots[j]
        factor[e] = whole[e] / pivots[j]
    low = np.zeros((m, m))
    low[plan.row, plan.column] = factor
    np.testing.assert_allclose(low * pivots @ low.T, ordered, atol=1e-9)


def test_contradictions_are_left_to_the_method_that_proves_them() -> None:
    matrix, point = (
        torch.tensor([[1.0, 0, 0], [-1, 0, 0]], dtype=DOUBLE),
        torch.zeros(4, 3, dtype=DOUBLE),
    )
    high = torch.tensor([[0.0, -1]], dtype=DOUBLE)
    low, unit = torch.full_like(high, -torch.inf), unit_rows(matrix)
    assert bool(solve(rows_between(matrix, low, high, point), point).empty.all())
    assert unit.shared is not None
    given = (point.numpy(), low.numpy(), high.numpy(), None)
    assert nearest_points_batched(
        unit.shared, *given, inward=0.0, share=SLACK, far=FAR, exact=True
    )[2].all()
    assert bool(nearest_in_polytope(unit, low, high, point).empty.all())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_any_number_of_threads_says_the_same(threads: int, share: float) -> None:
    dice = torch.Generator().manual_seed(7)
    matrix = torch.randn(9, 12, generator=dice, dtype=DOUBLE) * (
        torch.rand(9, 12, generator=dice) < share
    )
    high, point = (
        torch.rand(300, 9, generator=dice, dtype=DOUBLE),
        torch.randn(300, 12, generator=dice, dtype=DOUBLE) * 3,
    )
    low, unit = torch.full_like(high, -torch.inf), unit_rows(matrix)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        whole = nearest_in_polytope(unit, low, high, point)
    finally:
        torch.set_num_threads(before)
    parts = torch.cat(
        [
            nearest_in_polytope(
                unit, *(part[i : i + 100] for part in (low, high, point))
            ).multiplier
            for i in (0, 100, 200)
        ]
    )
    torch.testing.assert_close(whole.multiplier, parts, atol=1e-12, rtol=1e-12)
