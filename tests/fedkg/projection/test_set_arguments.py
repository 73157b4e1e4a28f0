"""Arguments of sets and their methods: integers and lists, and values that are not points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
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
    Polytope,
    Product,
    ProjectionSet,
    SecondOrderCone,
    Simplex,
    recognise_closed_form,
)
from fedkg.projection.set_arguments import ON_POINTS

ROWS = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, -2.0], [1.0, 0.0, 1.0]], dtype=torch.float64)
SETS: dict[str, ProjectionSet] = {
    "box": Box(0.0, 1.0),
    "half-space": HalfSpace(ROWS[0], 1.0),
    "affine": Affine(ROWS[:1], ROWS[0, :1]),
    "L1": L1Ball(1.0),
    "L2": L2Ball(1.0),
    "L-infinity": LInfBall(1.0),
    "simplex": Simplex(),
    "capped": CappedSimplex(0.5),
    "monotone": MonotoneCone(),
    "weighted": MonotoneCone(ROWS[0] + 1),
    "cone": SecondOrderCone(),
    "product": Product([(Box(0.0), 1), (L2Ball(1.0), 2)]),
    "intersection": Intersection([Box(0.0), L2Ball(1.0)]),
    "polytope": Polytope(ROWS, ROWS[0]),
}


@pytest.mark.parametrize("method", ON_POINTS)
@pytest.mark.parametrize("name", SETS)
def test_points_are_floating_point_tensors(name: str, method: str) -> None:
    kept = SETS[name]
    where = (
        f"`{type(kept).__name__}.{{}}` needs the points as a tensor of floating-point numbers\n"
        "  expected: float32 [..., n], or float64"
    )
    for wrong, received, help in (  # noqa: A001  the error's own word
        (2.0, "the number 2.0", "torch.tensor([0.5, 2.0])"),
        ([3, 1, 2], "list", "torch.tensor(point, dtype=torch.float32)"),
        (np.zeros(3), "ndarray", "torch.tensor(point, dtype=torch.float32)"),
        (torch.tensor([3, 1, 2]), "int64 [3]", "point.to(torch.float32)"),
        (torch.tensor(1.0), "float32 []", "point.unsqueeze(0), for a point of one entry"),
        (None, "NoneType", "torch.tensor([0.5, 2.0])"),
    ):
        with pytest.raises(SetError) as caught:
            getattr(kept, method)(wrong)
        asked = {where.format(name) for name in ON_POINTS}  # `contains` calls `excess`, and so on
        assert str(caught.value) in {
            f"{one}\n  received: {received}\n  help: {help}" for one in asked
        }


POINTS = torch.tensor([[3.0, -1.0, 0.5], [0.2, 0.1, 4.0]], dtype=torch.float64)
ALIKE = {
    "box": (lambda as_: Box(as_([0, 1, -2]), as_([1, 2, 3]))),
    "half-space": (lambda as_: HalfSpace(as_([1, 2, 2]), as_(1))),
    "affine": (lambda as_: Affine(as_([[1, 1, 1], [1, -1, 0]]), as_([2, 1]))),
    "L1": (lambda as_: L1Ball(as_(1), as_([1, 0, 0]))),
    "L2, one radius each": (lambda as_: L2Ball(as_([1, 2]))),
    "L-infinity": (lambda as_: LInfBall(as_(2), as_([1, 0, 0]))),
    "simplex": (lambda as_: Simplex(as_([2, 3]))),
    "capped": (lambda as_: CappedSimplex(as_([1, 1, 2]), as_(2))),
    "weighted": (lambda as_: MonotoneCone(as_([1, 2, 3]))),
    "polytope": (lambda as_: Polytope(as_([[1, 1, 0], [0, 1, -2], [1, 0, 1]]), as_([1, 2, 3]))),
    "polytope with equations": (
        lambda as_: Polytope(as_([[1, 2, 3]]), as_([4]), as_([[1, 1, 1]]), as_([1]))
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_whole_numbers_and_lists_make_the_set_that_their_tensors_make(name: str) -> None:
    expected = ALIKE[name](lambda numbers: torch.tensor(numbers, dtype=torch.float64))
    for given in (
        lambda numbers: numbers,
        torch.tensor,
        np.array,
        lambda numbers: torch.tensor(numbers, dtype=torch.int32),
    ):
        kept = ALIKE[name](given)
        for points in (POINTS, POINTS.float()):
            assert torch.equal(kept.project(points), expected.project(points))
            assert torch.equal(kept.excess(points), expected.excess(points))
            assert torch.equal(kept.distance2(points), expected.distance2(points))


@pytest.mark.parametrize(
    ("kind", "numbers", "said"),
    [
        (HalfSpace, (2.0, 1.0), "`HalfSpace.normal`"),
        (HalfSpace, (torch.tensor(2.0), 1.0), "`HalfSpace.normal`"),
        (HalfSpace, ("up", 1.0), "`HalfSpace.normal`"),
        (Box, (0.0, "ten"), "`Box.high`"),
        (Box, ([[1.0], [2.0, 3.0]],), "`Box.low`"),
        (L2Ball, (None,), "`L2Ball.radius`"),
        (Affine, (None, [1.0]), "`Affine.matrix`"),
        (Simplex, (1 + 2j,), "`Simplex.total`"),
        (MonotoneCone, (torch.zeros(3, dtype=torch.complex64),), "`MonotoneCone.weight`"),
        (MonotoneCone, ([torch.ones(1, requires_grad=True)] * 3,), "`MonotoneCone.weight`"),
        (Polytope, (ROWS, {1.0}), "`Polytope.h`"),
    ],
)
def test_what_is_made_of_no_numbers_is_rejected_by_name(
    kind: type, numbers: tuple[object, ...], said: str
) -> None:
    with pytest.raises(
        SetError,
        match=rf"^{said} must be made of numbers\n  expected: .*\n  received: .*\n"
        rf"  help: torch\.tensor",
    ):
        kind(*numbers)


def test_polytopes_of_lists_are_recognised() -> None:
    recognise: Any = recognise_closed_form
    assert isinstance(recognise([[1, 0], [0, -1]], [1, 2]), Box)
    assert isinstance(recognise([[1, -1]], torch.tensor([0])), MonotoneCone | HalfSpace)
    with pytest.raises(SetError, match=r"`recognised: h` must be made of numbers"):
        recognise_closed_form(ROWS, "high")  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class Everything(ProjectionSet):
    """A user-defined set."""

    shift: Tensor | float = 0.0

    def project(self, point: Tensor) -> Tensor:
        """Every point is in the set."""
        return point + self.shift * 0

    def excess(self, point: Tensor) -> Tensor:
        """Always 0."""
        return point.new_zeros(point.shape[:-1])


def test_sets_of_ones_own_are_given_the_same() -> None:
    assert isinstance(Everything([1, 2]).shift, Tensor)  # type: ignore[arg-type]
    assert torch.equal(Everything().project(point=POINTS), POINTS)
    with pytest.raises(SetError, match=r"`Everything\.project` needs the points"):
        Everything().distance2([1.0])  # type: ignore[arg-type]


def test_a_sets_numbers_keep_their_gradient() -> None:
    radius = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    [slope] = torch.autograd.grad(L2Ball(radius).project(POINTS).sum(), radius)
    assert float(slope.abs()) > 0
