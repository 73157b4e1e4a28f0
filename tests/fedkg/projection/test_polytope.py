"""Polytopes: exact nearest points with a certificate, or a proof of emptiness."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

from fedkg.errors import SetError
from fedkg.projection import (
    Affine,
    Box,
    HalfSpace,
    Intersection,
    L2Ball,
    MonotoneCone,
    Polytope,
    ProjectionSet,
    Simplex,
    project_polytope,
    recognise_closed_form,
)
from fedkg.projection.polytope_gradient import nearest_points

N = 6
DOUBLE = torch.float64


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def random_rows(seed: int, m: int, n: int = N) -> tuple[Tensor, Tensor]:
    """Rows of mixed signs with a common interior point."""
    matrix = drawn(seed, m, n) * (drawn(seed + 1, m, n).abs() < 0.8)
    return matrix, matrix @ drawn(seed + 2, n) + drawn(seed + 3, m).abs()


POLYTOPES: dict[str, Polytope] = {
    "general": Polytope(*random_rows(1, 9)),
    "many rows": Polytope(*random_rows(5, 60)),
    "with equations": Polytope(
        *random_rows(9, 7), torch.ones(1, N, dtype=DOUBLE), torch.full((1,), 0.3, dtype=DOUBLE)
    ),
    "a row unbounded": Polytope(
        random_rows(13, 5)[0], torch.tensor([0.1, torch.inf, 0.2, 0.0, 1.0], dtype=DOUBLE)
    ),
    "rows twice": Polytope(random_rows(17, 4)[0].repeat(3, 1), random_rows(17, 4)[1].repeat(3)),
    "rows of 0": Polytope(
        torch.cat([random_rows(21, 4)[0], torch.zeros(2, N, dtype=DOUBLE)]),
        torch.cat([random_rows(21, 4)[1], torch.zeros(2)]),
    ),
    "a vertex of many rows": Polytope(drawn(25, 40, N), torch.zeros(40, dtype=DOUBLE)),
    "equations twice": Polytope(
        *random_rows(29, 5), drawn(33, 1, N).repeat(3, 1), torch.full((3,), 0.5, dtype=DOUBLE)
    ),
    "an inequality both ways": Polytope(
        torch.cat([drawn(37, 3, N), -drawn(37, 3, N)]),
        torch.tensor([1.0, 2, 3, -1, -2, -3], dtype=DOUBLE),
    ),
}
EACH = pytest.mark.parametrize("name", POLYTOPES)


@EACH
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.01, 1.0, 30.0, 1e6]))
@example(seed=9494, scale=1e6)  # of "many rows": a vertex of nearly parallel ones
def test_nearest_points_satisfy_every_optimality_condition(
    name: str, seed: int, scale: float
) -> None:
    kept = POLYTOPES[name]
    x = drawn(seed, 8, N) * scale
    found = project_polytope(x, kept.G, kept.h, kept.E, kept.f)
    size = 1 + scale
    assert not bool(found.empty.any())
    assert float(found.residual.max()) <= 1e-9
    assert bool(kept.contains(found.point, 1e-9 * size * 10).all())
    assert float(found.multipliers.min()) >= 0
    pull = found.multipliers @ kept.G + (0 if kept.E is None else found.equations @ kept.E)
    torch.testing.assert_close(x - pull, found.point, atol=1e-8 * size, rtol=1e-8)
    room = kept.h - found.point @ kept.G.mT
    assert float((found.multipliers * room.nan_to_num(posinf=0)).abs().max()) <= 1e-7 * size**2
    torch.testing.assert_close(kept.project(found.point), found.point, atol=1e-8 * size, rtol=0)


@EACH
def test_no_point_that_a_general_solver_finds_is_nearer(name: str) -> None:
    kept = POLYTOPES[name]
    rows = kept.h.isfinite()
    constraints = [optimize.LinearConstraint(kept.G[rows].numpy(), -np.inf, kept.h[rows].numpy())]
    if kept.E is not None and kept.f is not None:
        constraints.append(
            optimize.LinearConstraint(kept.E[:1].numpy(), kept.f[:1].numpy(), kept.f[:1].numpy())
        )
    x = drawn(3, 3, N)
    for point, found in zip(x.numpy(), kept.project(x).numpy(), strict=True):
        best = optimize.minimize(
            lambda z, point=point: ((z - point) ** 2).sum(),
            found * 0.9,
            jac=lambda z, point=point: 2 * (z - point),
            method="SLSQP",
            constraints=constraints,
        )
        assert ((found - point) ** 2).sum() <= best.fun + 1e-6


@EACH
def test_gradients_and_vmap(name: str) -> None:
    kept = POLYTOPES[name]
    x = drawn(4, 3, N).requires_grad_()
    assert torch.autograd.gradcheck(kept.project, x, atol=1e-4)
    assert torch.autograd.gradcheck(kept.distance2, x, atol=1e-4)
    torch.testing.assert_close(torch.func.vmap(kept.project)(x), kept.project(x))
    jacobians = torch.func.vmap(torch.func.jacrev(kept.project))(x)
    torch.testing.assert_close(jacobians, jacobians.mT, atol=1e-7, rtol=0)


@pytest.mark.parametrize("lead", [(), (4,)])
def test_gradients_in_the_rows_and_their_ends(lead: tuple[int, ...]) -> None:
    given = [
        drawn(41, 4, N),
        drawn(42, *lead, 8, N),
        drawn(43, *lead, 8).abs(),
        drawn(44, *lead, 2, N),
        drawn(45, *lead, 2),
    ]
    parts = [part.requires_grad_() for part in given]
    assert torch.autograd.gradcheck(lambda *a: project_polytope(*a).point, parts, atol=1e-4)


def test_each_point_may_have_rows_of_its_own() -> None:
    x, rows, ends = drawn(51, 2, 5, N), drawn(52, 2, 5, 12, N), drawn(53, 2, 5, 12).abs()
    found = project_polytope(x, rows, ends)
    for i, j in ((0, 0), (1, 3)):
        one = project_polytope(x[i, j], rows[i, j], ends[i, j])
        torch.testing.assert_close(found.point[i, j], one.point)
        torch.testing.assert_close(found.multipliers[i, j], one.multipliers, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_an_empty_polytope_is_proven_so(shared: bool) -> None:
    rows = drawn(61, 5, N)
    rows = torch.cat([rows, -rows[:1] - 2 * rows[1:2], torch.zeros(1, N, dtype=DOUBLE)])
    equation, end = drawn(62, 1, N), torch.ones(1, dtype=DOUBLE)
    ends = torch.tensor([0.0, 0, 1, 1, 1, -0.5, 0], dtype=DOUBLE)
    x = drawn(63, 30, N)
    given = rows if shared else rows.expand(30, -1, -1)
    found = project_polytope(x, given, ends, equation, end)
    assert bool(found.empty.all())
    assert bool((found.multipliers >= 0).all())
    combination = found.multipliers @ rows + found.equations @ equation
    value = found.multipliers @ ends + found.equations @ end
    assert bool((combination.abs().amax(1) <= 1e-8 * value.abs()).all())
    assert bool((value < 0).all())
    assert bool(found.residual.isinf().all())
    mixed = torch.where(torch.arange(30)[:, None] < 7, ends, ends.abs() + 1)
    assert int(project_polytope(x, given, mixed, equation, end).empty.sum()) == 7
    with pytest.raises(SetError, match="none for 7 of 30"):
        Polytope(given, mixed, equation, end).project(x)


def test_contradicting_rows_give_way_evenly_where_asked() -> None:
    rows = (
        torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=DOUBLE).repeat(2, 1)
        * torch.tensor([1.0, 1, -2, -1], dtype=DOUBLE)[:, None]
    )
    upper = torch.tensor(
        [[1.0, 5.0, -6.0, 0.0]], dtype=DOUBLE
    )  # v_1 <= 1, v_2 <= 5, v_1 >= 3, v_2 >= 0
    nearest, _, empty = nearest_points(
        torch.tensor([[9.0, 7.0]], dtype=DOUBLE),
        rows,
        torch.full_like(upper, -torch.inf),
        upper,
        soft=True,
    )
    assert not bool(empty.any())
    torch.testing.assert_close(nearest, torch.tensor([[2.0, 5.0]], dtype=DOUBLE), atol=1e-4, rtol=0)


def test_closed_forms_are_recognised() -> None:
    unit = torch.eye(4, dtype=DOUBLE)
    steps, x = unit[:-1] - unit[1:], drawn(71, 50, 4) * 2
    one, zero = torch.ones(1, dtype=DOUBLE), torch.zeros(4, dtype=DOUBLE)
    cases: list[tuple[type[ProjectionSet] | None, tuple[Tensor, ...]]] = [
        (
            Box,
            (
                torch.cat([2 * unit, -unit, unit[:1]]),
                torch.tensor([1.0, 2, 3, 4, 0, 0, 0, 0, 0.1], dtype=DOUBLE),
            ),
        ),
        (HalfSpace, (drawn(72, 1, 4), one)),
        (MonotoneCone, (steps.flip(0) * 3, zero[:3])),
        (MonotoneCone, (-steps, zero[:3])),
        (Affine, (unit[:0], zero[:0], drawn(73, 2, 4), zero[:2] + 1)),
        (Simplex, (-2 * unit.flip(0), zero, 3 * torch.ones(1, 4, dtype=DOUBLE), 6 * one)),
        (None, (steps, zero[:3] + 1)),
        (None, (drawn(74, 2, 4), zero[:2])),
        (None, (-unit, zero, torch.tensor([[1.0, 1, 1, 2]], dtype=DOUBLE), one)),
    ]
    for kind, rows in cases:
        closed = recognise_closed_form(*rows)
        assert type(closed) is (kind or type(None))
        general = project_polytope(x, *rows)
        assert float(general.residual.max()) < 1e-9
        if closed is not None:
            torch.testing.assert_close(closed.project(x), general.point, atol=1e-9, rtol=0)
        torch.testing.assert_close(Polytope(*rows).project(x), general.point, atol=1e-9, rtol=0)


def test_bounds_that_contradict_each_other_are_said_to_be_empty() -> None:
    with pytest.raises(SetError, match="empty"):
        Polytope(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0.0, -1.0])).project(
            torch.zeros(3, 2)
        )


def test_linear_sets_meet_as_one_polytope() -> None:
    x = drawn(81, 20, N) * 3
    parts = [
        Box(-0.5, drawn(82, N).abs()),
        HalfSpace(drawn(83, N), 0.5),
        MonotoneCone(falling=True),
        Polytope(drawn(84, 2, N), torch.ones(2, dtype=DOUBLE)),
    ]
    p = Intersection(parts).project(x)
    slowly = Intersection([*parts, L2Ball(1e6)], tolerance=1e-13, rounds=20_000).project(x)
    torch.testing.assert_close(p, slowly, atol=1e-6, rtol=0)
    shares = Intersection([Simplex(), Box(0.0, 0.4)])
    assert bool(shares.contains(shares.project(x), 1e-9).all())
    with pytest.raises(SetError, match="no nearest point in the intersection"):
        Intersection([Simplex(), Box(0.5, 1.0)]).project(x)


def test_a_start_that_is_near_changes_nothing() -> None:
    matrix, ends = random_rows(91, 80, 20)
    x = drawn(92, 50, 20) * 3
    first = project_polytope(x, matrix, ends)
    nearby = x + 0.01 * drawn(93, 50, 20)
    torch.testing.assert_close(
        project_polytope(nearby, matrix, ends, warm=first).point,
        project_polytope(nearby, matrix, ends).point,
    )


def test_a_start_of_other_points_or_rows_is_rejected() -> None:
    matrix, ends = random_rows(91, 5)
    x = drawn(92, 8, N)
    for points, rows in ((3, 5), (8, 2), (5, 8)):
        other = project_polytope(drawn(93, points, N), *random_rows(94, rows))
        with pytest.raises(SetError, match="do not fit"):
            project_polytope(x, matrix, ends, warm=other)
    first = project_polytope(x, matrix, ends)
    torch.testing.assert_close(
        project_polytope(x.unflatten(0, (2, 4)), matrix, ends, warm=first).point.flatten(0, 1),
        first.point,
    )


@pytest.mark.parametrize("count", [0, 1, 70])
@pytest.mark.parametrize("rows", [4, 20])
def test_points_that_keep_all_rows_stay_and_so_do_their_slopes(count: int, rows: int) -> None:
    matrix, ends = random_rows(99, rows)
    x = drawn(101, N).expand(count, N).clone().requires_grad_()  # the interior point
    nearest = project_polytope(x, matrix, ends).point
    assert torch.equal(nearest, x)
    nearest.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.ones_like(x))


def test_nothing_to_do() -> None:
    rows, ends = random_rows(95, 4)
    assert project_polytope(torch.zeros(0, N, dtype=DOUBLE), rows, ends).point.shape == (0, N)
    x = drawn(96, 3, N)
    assert torch.equal(project_polytope(x, rows[:0], ends[:0]).point, x)
    assert torch.equal(project_polytope(x, rows, torch.full_like(ends, torch.inf)).point, x)


def test_polytopes_that_make_no_sense_are_rejected() -> None:
    rows, ends = random_rows(97, 4)
    x = drawn(98, 3, N)
    with pytest.raises(SetError, match="does not fit"):
        project_polytope(x, rows, ends[:3])
    with pytest.raises(SetError, match="does not fit"):
        project_polytope(x[:, :5], rows, ends)
    with pytest.raises(SetError, match="both parts"):
        project_polytope(x, rows, ends, rows)
    with pytest.raises(SetError, match="bounds of a polytope must be numbers"):
        project_polytope(x, rows, ends * torch.nan)
    for number in (torch.nan, torch.inf, 1e200):
        broken = rows.clone()
        broken[1, 1] = number
        for each in (broken, broken.expand(3, -1, -1)):
            with pytest.raises(
                SetError, match="rows of a polytope and their lengths must be finite"
            ):
                project_polytope(x, each, ends)


def mixed_signs(m: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random rows over three of 50 entries around a point; repair in some orders fails."""
    dice = np.random.default_rng(seed)
    inside, rows = dice.normal(size=50) * 0.5, np.zeros((m, 50))
    for row in rows:
        row[dice.choice(50, 3, replace=False)] = dice.uniform(0.5, 2, 3) * dice.choice([-1, 1], 3)
    return torch.from_numpy(rows), torch.from_numpy(rows @ inside + dice.uniform(0.2, 1.0, m))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("m", [20, 40, 60, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_mixed_signs(m: int, dtype: torch.dtype) -> None:
    rows, ends = (part.to(dtype) for part in mixed_signs(m, m))
    x = (drawn(m, 256, 50) * 2).to(dtype)
    found = project_polytope(x, rows, ends)
    assert float(found.residual.max()) <= (1e-6 if dtype == torch.float32 else 1e-11)
    assert float((found.point @ rows.mT - ends).max()) <= (1e-5 if dtype == torch.float32 else 1e-9)
