"""Contract of every feasible set: feasible, idempotent, non-expansive, optimal, differentiable."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor

from fedkg.errors import SetError
from fedkg.projection import (
    Affine,
    Box,
    CappedSimplex,
    HalfSpace,
    Intersection,
    L1Ball,
    L2Ball,
    LInfBall,
    MonotoneCone,
    Product,
    ProjectionSet,
    SecondOrderCone,
    Simplex,
)

N = 6
DICE = torch.Generator().manual_seed(11)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=DICE, dtype=torch.float64)


WEIGHT = drawn(N).abs() + 0.1
SETS: dict[str, ProjectionSet] = {
    "box": Box(-0.5, drawn(N).abs()),
    "half-space": HalfSpace(drawn(N), 0.1),
    "affine": Affine(drawn(2, N), drawn(2)),
    "affine, of lower rank": Affine(
        torch.ones(3, N, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    ),
    "L1 ball": L1Ball(1.5, drawn(N)),
    "L2 ball": L2Ball(0.7, drawn(N)),
    "L-infinity ball": LInfBall(0.4),
    "a ball of radius 0": L1Ball(0.0),
    "simplex": Simplex(2.0),
    "capped simplex": CappedSimplex(
        torch.tensor([0.1, 0.5, 0.3, 0.4, 0.2, 0.0], dtype=torch.float64)
    ),
    "capped simplex, full": CappedSimplex(torch.full((N,), 0.5, dtype=torch.float64), 3.0),
    "monotone": MonotoneCone(),
    "falling, weighted": MonotoneCone(WEIGHT, falling=True),
    "cone": SecondOrderCone(0.7),
    "product": Product([(Simplex(), 2), (L2Ball(1.0), 3), (Box(0.0), 1)]),
}
EACH = pytest.mark.parametrize("name", SETS)


def points(seed: int, scale: float, count: int = 12) -> Tensor:
    return (
        torch.randn(count, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        * scale
    )


def inner(name: str, left: Tensor, right: Tensor) -> Tensor:
    """The inner product in which the set's projection is the nearest point."""
    weight = WEIGHT if name == "falling, weighted" else torch.ones(N, dtype=torch.float64)
    return (weight * left * right).sum(-1)


@pytest.mark.slow
@EACH
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.01, 1.0, 30.0]))
def test_projections_are_feasible_idempotent_and_do_not_expand(
    name: str, seed: int, scale: float
) -> None:
    x, y = points(seed, scale), points(seed + 1, scale)
    p, q = SETS[name].project(x), SETS[name].project(y)
    slack = 1e-10
    assert bool(SETS[name].contains(p, slack * (1 + scale)).all())
    torch.testing.assert_close(SETS[name].project(p), p, atol=slack * (1 + scale), rtol=0)
    apart, before = inner(name, p - q, p - q).sqrt(), inner(name, x - y, x - y).sqrt()
    assert bool((apart <= before * (1 + slack) + slack).all())


@EACH
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.3, 3.0]))
def test_no_other_point_of_the_set_is_nearer(name: str, seed: int, scale: float) -> None:
    """The variational inequality <x - p, z - p> <= 0 for all z of the set: p is nearest."""
    x, others = points(seed, scale), SETS[name].project(points(seed + 1, scale, 200))
    p = SETS[name].project(x)
    angle = inner(name, (x - p)[:, None], others[None] - p[:, None])
    assert float(angle.max()) <= 1e-9 * (1 + scale**2)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SETS if name != "falling, weighted"])
def test_the_nearest_point_is_that_of_a_general_solver(name: str) -> None:
    """SLSQP minimises the distance under the set's own inequality."""
    kept = SETS[name]
    x = points(7, 1.0, 4)
    for point, found in zip(x, kept.project(x), strict=True):

        def distance(z: np.ndarray, point: Tensor = point) -> float:
            return float(((z - point.numpy()) ** 2).sum())

        def slack(z: np.ndarray) -> float:
            return -float(kept.excess(torch.from_numpy(z)))

        start = found.numpy() + 0.0
        best = optimize.minimize(
            distance,
            start,
            method="SLSQP",
            constraints=[{"type": "ineq", "fun": slack}],
            options={"ftol": 1e-14},
        )
        if slack(best.x) > -1e-9:
            assert distance(found.numpy()) <= best.fun + 1e-7


@EACH
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    x = points(3, 1.0, 4).requires_grad_()
    slack = {"atol": 1e-4, "eps": 1e-6}
    assert torch.autograd.gradcheck(SETS[name].project, x, **slack)
    assert torch.autograd.gradcheck(SETS[name].distance2, x, **slack)


@EACH
def test_points_are_projected_under_vmap_as_in_a_batch(name: str) -> None:
    x = points(5, 1.0)
    torch.testing.assert_close(torch.func.vmap(SETS[name].project)(x), SETS[name].project(x))
    torch.testing.assert_close(
        SETS[name].project(x.reshape(3, 4, N)).reshape(12, N), SETS[name].project(x)
    )


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_keep_their_dtype(name: str, dtype: torch.dtype) -> None:
    assert SETS[name].project(points(5, 1.0).to(dtype)).dtype == dtype


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_point_of_an_intersection(seed: int) -> None:
    parts = [L2Ball(1.0), HalfSpace(torch.ones(N, dtype=torch.float64), 0.5), MonotoneCone()]
    both = Intersection(parts)
    x = points(seed, 3.0)
    p = both.project(x)
    assert all(bool(part.contains(p, 1e-7).all()) for part in parts)
    torch.testing.assert_close(both.project(p), p, atol=1e-7, rtol=0)
    others = both.project(points(seed + 50, 3.0, 50))
    assert float(((x - p)[:, None] * (others[None] - p[:, None])).sum(-1).max()) <= 1e-6
    boxed = Intersection([Box(-1.0, 1.0), Box(-0.5, 2.0)])
    torch.testing.assert_close(boxed.project(x), x.clamp(-0.5, 1.0))
    assert torch.autograd.gradcheck(boxed.project, x[:2].requires_grad_())


def test_isotonic_regression_is_scipys() -> None:
    x, weight = points(1, 1.0, 300), points(2, 1.0, 300).abs() + 0.01
    expected = np.stack(
        [
            optimize.isotonic_regression(row, weights=w).x
            for row, w in zip(x.numpy(), weight.numpy(), strict=True)
        ]
    )
    np.testing.assert_allclose(MonotoneCone(weight).project(x).numpy(), expected, atol=1e-12)
    assert MonotoneCone().project(torch.tensor([[3.0, 2.0, 1.0], [1.0, 1.0, 1.0]])).tolist() == [
        [2.0] * 3,
        [1.0] * 3,
    ]


def test_each_point_may_have_a_radius_of_its_own() -> None:
    x = torch.tensor([[3.0, 0.0], [0.0, 3.0]], dtype=torch.float64)
    radius = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    for ball in (L1Ball, L2Ball, LInfBall):
        found = ball(radius).project(x)
        assert found.tolist() == [[1.0, 0.0], [0.0, 2.0]]
        assert torch.autograd.grad(found.sum(), radius)[0].tolist() == [1.0, 1.0]


def test_known_cases() -> None:
    assert Simplex().project(torch.tensor([1.0, 1.0, -5.0])).tolist() == [0.5, 0.5, 0.0]
    assert CappedSimplex(0.4, 0.8).project(torch.tensor([5.0, 0.0, 0.0])).tolist() == pytest.approx(
        [0.4, 0.2, 0.2]
    )
    assert SecondOrderCone().project(torch.tensor([2.0, 0.0])).tolist() == [1.0, 1.0]
    assert SecondOrderCone().project(torch.tensor([1.0, -2.0])).tolist() == [0.0, 0.0]
    assert L1Ball(1.0).distance2(torch.tensor([3.0, 0.0])).item() == 2.0


def test_sets_that_make_no_sense_are_rejected() -> None:
    with pytest.raises(SetError, match="no point lies in the box"):
        Box(1.0, 0.0)
    with pytest.raises(SetError, match="needs a direction"):
        HalfSpace(torch.zeros(3), 1.0)
    with pytest.raises(SetError, match="contradict"):
        Affine(torch.ones(2, 3), torch.tensor([0.0, 1.0]))
    with pytest.raises(
        SetError, match="contradict"
    ):  # the first of two sets, though the numbers of the second are large
        Affine(torch.ones(2, 2, 3), torch.tensor([[0.0, 0.01], [1e6, 1e6]]))
    for ball in (L1Ball, L2Ball, LInfBall):
        with pytest.raises(SetError, match="radius"):
            ball(-1.0)
    with pytest.raises(SetError, match="total"):
        Simplex(0.0)
    with pytest.raises(SetError, match="reach"):
        CappedSimplex(torch.full((3,), 0.1))
    with pytest.raises(SetError, match="weights"):
        MonotoneCone(torch.zeros(3))
    with pytest.raises(SetError, match="entries"):
        Product([(Simplex(), 2)]).project(torch.zeros(3))
    with pytest.raises(SetError, match="no nearest point in the intersection"):
        Intersection([Box(-1.0, 0.0), Box(1.0, 2.0)], rounds=100).project(torch.zeros(3))


def test_one_cap_for_all_entries_must_reach_the_total() -> None:
    with pytest.raises(SetError, match="do not reach the total"):
        CappedSimplex(0.1, 1.0).project(torch.rand(3))
    point = torch.rand(3, dtype=torch.float64)
    torch.testing.assert_close(
        CappedSimplex(torch.tensor([0.5]), 1.0).project(point),
        CappedSimplex(0.5, 1.0).project(point),
    )
    assert CappedSimplex(1 / 49, 1.0).project(torch.rand(49)).sum().item() == pytest.approx(
        1, abs=1e-5
    )


def test_a_point_with_unknown_entries_is_given_up_at_once() -> None:
    assert bool(Simplex(1.0).project(torch.full((1_000_000,), torch.nan)).isnan().all())
