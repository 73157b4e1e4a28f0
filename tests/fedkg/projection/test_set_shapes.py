"""Sets with invalid numbers or shapes raise errors that name the field, for every set."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

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
    project_polytope,
)
from fedkg.projection.set_arguments import ON_POINTS

NAN, INF = float("nan"), float("inf")
Made = Callable[[], ProjectionSet]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: SecondOrderCone(-1), "slope of a second-order cone"),
        (lambda: SecondOrderCone(0.0), "slope of a second-order cone"),
        (lambda: SecondOrderCone(INF), "`SecondOrderCone.slope`"),
        (lambda: Box(NAN, 1), "`Box.low`"),
        (lambda: Box(0.0, [1, NAN]), "`Box.high`"),
        (lambda: HalfSpace([1, INF], 1), "`HalfSpace.normal`"),
        (lambda: HalfSpace([1, 1], NAN), "`HalfSpace.bound`"),
        (lambda: Affine([[1, NAN]], [1]), "`Affine.matrix`"),
        (lambda: Affine([[1, 1]], [INF]), "`Affine.bound`"),
        (lambda: L1Ball(NAN), "`L1Ball.radius`"),
        (lambda: LInfBall(1, INF), "`LInfBall.center`"),
        (lambda: Simplex(INF), "`Simplex.total`"),
        (lambda: CappedSimplex([NAN, 1]), "`CappedSimplex.cap`"),
        (lambda: MonotoneCone([1, INF]), "`MonotoneCone.weight`"),
        (lambda: Polytope([[NAN, 1, 1], [1, 2, 3]], [1, 1]), "`Polytope.G`"),
        (lambda: Polytope([[1, 1, 1]], [NAN]), "`Polytope.h`"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_where_the_set_is_made(
    made: Made, said: str
) -> None:
    with pytest.raises(SetError, match=said):
        made()


def test_no_bound_is_a_bound() -> None:
    point = torch.tensor([3.0, -4.0])
    for kept in (
        Box(-INF, [INF, 1]),
        HalfSpace([1, 1], INF),
        L2Ball(INF),
        CappedSimplex([INF, 2], 1),
        Polytope([[1, 1], [1, -1]], [INF, 9]),
    ):
        assert bool(kept.project(point).isfinite().all())


def test_numbers_under_a_transform_are_not_looked_at() -> None:
    rows = torch.ones(4, 3)
    points = torch.func.vmap(lambda row: SecondOrderCone().project(row) + numbers(row))(rows)
    assert points.shape == (4, 3)


def numbers(row: torch.Tensor) -> torch.Tensor:
    kept = Polytope(row.unsqueeze(0), row[:1])
    return kept.excess(row)


@pytest.mark.parametrize("method", ON_POINTS)
@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            HalfSpace([1, 2], 1),
            (
                r"HalfSpace.normal.*\n  expected: \[\.\.\., n\].*\n"
                r"  received: normal \[2\], points \[5, 3\]"
            ),
        ),
        (HalfSpace([1], 1), r"HalfSpace.normal"),
        (HalfSpace([1, 2, 3], torch.ones(4)), r"HalfSpace.bound"),
        (
            Affine([[1, 2]], [1]),
            r"Affine.matrix.*\n.*\n  received: matrix \[1, 2\], bound \[1\], points \[5, 3\]",
        ),
        (Intersection([Box([0, 0], 1), HalfSpace([1, 1, 1], 1)]), r"Box.low"),
        (Intersection([L2Ball(1, [0, 0]), Box(0.0, 1.0)]), r"L2Ball.center"),
        (
            Product([(Box([0, 0], 1), 1), (L2Ball(1), 2)]),
            r"Box.low.*\n.*\n  received: low \[2\], points \[5, 1\]",
        ),
        (Box([0, 0], 1), r"Box.low"),
        (L2Ball(1, [1, 2]), r"L2Ball.center"),
        (L1Ball([1, 2]), r"L1Ball.radius"),
        (Simplex([1, 2]), r"Simplex.total"),
        (CappedSimplex([1, 1]), r"CappedSimplex.cap"),
        (MonotoneCone([1, 1]), r"MonotoneCone.weight"),
        (Polytope([[1, 2]], [1]), r"Polytope.G"),
        (
            Polytope([[1, 2, 3]], [[1], [2]]),
            r"Polytope.h.*\n.*\n  received: G \[1, 3\], h \[2, 1\], points \[5, 3\]",
        ),
    ],
)
def test_points_of_another_width_or_number_are_rejected(
    kept: ProjectionSet, said: str, method: str
) -> None:
    with pytest.raises(SetError, match=rf"^`{said}"):
        getattr(kept, method)(torch.zeros(5, 3))


def test_more_polytopes_than_points_are_rejected() -> None:
    with pytest.raises(SetError, match=r"Polytope.h` does not fit the points"):
        Polytope([[1, 2, 3]], [[1], [2]]).project(torch.zeros(3))
    with pytest.raises(SetError, match=r"project_polytope.h` does not fit the points"):
        project_polytope(torch.zeros(3), torch.ones(1, 3), torch.ones(2, 1))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda: Affine([[1, 0, 0], [0, 1, 0]], [0]),
            r"`Affine.bound` does not fit the rest of the set",
        ),
        (
            lambda: Affine([1, 0, 0], [1]),
            r"`Affine.matrix` does not fit .*\n  expected: \[\.\.\., m, n\]",
        ),
        (
            lambda: Polytope([1, 2, 3], [1]),
            r"`Polytope.G` does not fit .*\n  expected: \[\.\.\., m, n\]",
        ),
        (lambda: Polytope([[1, 2, 3]], [1, 2]), r"`Polytope.h` does not fit"),
        (lambda: Polytope([[1, 2, 3]], [1], [[1, 1]], [1]), r"`Polytope.E` does not fit"),
        (lambda: Box([0, 0], [1, 1, 1]), r"`Box.high` does not fit"),
        (
            lambda: Product([Box(0, 1), L2Ball(1)]),
            (
                r"must be pairs(.*\n"
                r")*  help: Product\(\[\("
            ),
        ),  # type: ignore[list-item]
        (lambda: Product([(Box(0, 1), 1.0)]), r"must be pairs"),  # type: ignore[list-item]
        (lambda: Product(Box(0, 1)), r"`Product.parts` must be a list"),  # type: ignore[arg-type]
        (
            lambda: Intersection([Box(0, 1), 3]),
            r"must be sets\n  expected: sets\n  received: the number 3",
        ),  # type: ignore[list-item]
        (
            lambda: Intersection(Box(0, 1)),
            (
                r"`Intersection.parts` must be a "
                r"list"
            ),
        ),  # type: ignore[arg-type]
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused_where_the_set_is_made(
    made: Made, said: str
) -> None:
    with pytest.raises(SetError, match=said):
        made()
