"""Polytopes inside compiled functions, in half precision, and with wrong arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedkg.errors import SetError
from fedkg.projection import Intersection, L2Ball, Polytope, ProjectionSet, project_polytope

DICE = torch.Generator().manual_seed(5)
ROWS, ENDS, POINTS = (torch.randn(*shape, generator=DICE) for shape in ((4, 5), (4,), (50, 5)))
ENDS = ENDS.abs()


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize(
    "kept",
    [
        Polytope(ROWS, ENDS),
        Intersection([Polytope(ROWS, ENDS), L2Ball(2.0)]),
        Polytope(ROWS[:1], ENDS[:1]),
    ],
)
def test_compiled_functions_end_their_graph_around_a_polytope(kept: ProjectionSet) -> None:
    torch.compiler.reset()
    work = torch.compile(lambda point: kept.project(2 * point).exp(), backend="aot_eager")
    points = POINTS.clone().requires_grad_()
    found, expected = work(points), kept.project(2 * points).exp()
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad(one.sum(), points)[0] for one in (found, expected)))


def test_compiled_functions_end_their_graph_around_project_polytope() -> None:
    torch.compiler.reset()
    work = torch.compile(lambda point: project_polytope(point, ROWS, ENDS), backend="eager")
    found, expected = work(POINTS), project_polytope(POINTS, ROWS, ENDS)
    assert torch.equal(found.point, expected.point)
    assert torch.equal(found.multipliers, expected.multipliers)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [4, 40])
def test_half_precision_is_held_to_what_it_can_keep(dtype: torch.dtype, rows: int) -> None:
    matrix = torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))
    ends = torch.rand(rows, generator=torch.Generator().manual_seed(1))
    points = (torch.randn(50, 8, generator=torch.Generator().manual_seed(2)) * 3).to(dtype)
    found = Polytope(matrix, ends).project(points)
    assert found.dtype == dtype
    exact = Polytope(matrix.to(dtype).double(), ends.to(dtype).double()).project(points.double())
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), exact, atol=eps, rtol=eps)
    assert project_polytope(points, matrix, ends).residual.dtype == dtype
    with pytest.raises(SetError, match="do not reach the tolerance"):
        Polytope(matrix, ends, tolerance=1e-12).project(points)


def test_project_polytope_looks_at_what_it_is_given() -> None:
    with pytest.raises(SetError, match="`project_polytope` needs the points"):
        project_polytope([0.0] * 5, ROWS, ENDS)  # type: ignore[arg-type]
    for name, parts in (
        ("G", ("rows", ENDS)),
        ("h", (ROWS, {1.0})),
        ("E", (ROWS, ENDS, "rows", ENDS)),
        ("f", (ROWS, ENDS, ROWS, {1.0})),
    ):
        with pytest.raises(SetError, match=f"`project_polytope: {name}` must be made of numbers"):
            project_polytope(POINTS, *parts)  # type: ignore[arg-type]
    project: Any = project_polytope
    lists = project(POINTS, ROWS.tolist(), ENDS.tolist(), [[1, 1, 0, 0, 0]], [0])
    assert torch.equal(
        lists.point,
        project_polytope(
            POINTS, ROWS, ENDS, torch.tensor([[1.0, 1, 0, 0, 0]]), torch.zeros(1)
        ).point,
    )


def test_an_empty_polytope_names_who_says_which_rows_contradict_each_other() -> None:
    kept = Polytope(torch.cat([ROWS, -ROWS[:1]]), torch.cat([ENDS, -ENDS[:1] - 1]))
    with pytest.raises(
        SetError,
        match=r"the polytope is empty(.*\n"
        r")*  help: `project_polytope\(\.\.\.\)\.empty` marks these points; .*Farkas",
    ):
        kept.project(POINTS)
    assert project_polytope(POINTS[0], kept.G, kept.h).multipliers.nonzero().flatten().tolist() == [
        0,
        4,
    ]
