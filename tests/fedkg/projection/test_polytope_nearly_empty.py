"""`project_polytope(...).empty` and `Polytope.project` agree about rows that nearly contradict."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedkg.errors import SetError
from fedkg.projection import Polytope, project_polytope

ROWS = {
    "bounds": [[1.0], [-1.0]],
    "sum": [[1.0, 1, 1], [-1, -1, -1], [1, 0, 0]],
    "triangle": [[1.0, 1], [-1, 0], [0, -1]],
}


def polytope(name: str, gap: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows with the first two, or all, in contradiction by `gap`; 0: they touch."""
    ends = {"bounds": [0, -gap], "sum": [0, -gap, 5], "triangle": [0, 0, -gap]}[name]
    return torch.tensor(ROWS[name], dtype=dtype), torch.tensor(ends, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gap", [1e-4, 1e-6, 1e-7, 1e-8, 3e-9, 1e-10, 0.0, -1e-6])
@pytest.mark.parametrize("name", ROWS)
def test_both_give_one_answer(name: str, gap: float, dtype: torch.dtype) -> None:
    rows, ends = polytope(name, gap, dtype)
    points = torch.randn(5, rows.shape[1], dtype=dtype, generator=torch.Generator().manual_seed(1))
    solved = project_polytope(points, rows, ends)
    if bool(solved.empty.any()):
        assert bool(solved.empty.all())
        with pytest.raises(SetError, match="the polytope is empty"):
            Polytope(rows, ends).project(points)
    else:
        Polytope(rows, ends).project(points)
    if gap <= 0:
        assert not bool(solved.empty.any())
    if gap >= 1e-7 and dtype == torch.float64:
        assert bool(solved.empty.all())
        assert torch.equal(solved.point, points)
        combination = solved.multipliers @ rows
        value = solved.multipliers @ ends
        assert bool((value < 0).all())  # Farkas: no combination of rows is 0 with ends below 0
        assert bool((combination.abs().amax(1) < value.abs()).all())


def test_rows_of_each_point_are_judged_by_themselves() -> None:
    rows = torch.tensor([[[1.0], [-1]], [[1], [-1]]], dtype=torch.float64)
    ends = torch.tensor([[0.0, -1e-7], [0, 1e-7]], dtype=torch.float64)
    solved = project_polytope(torch.ones(2, 1, dtype=torch.float64), rows, ends)
    assert solved.empty.tolist() == [True, False]


def test_transforms_still_run() -> None:
    rows, ends = polytope("triangle", 1e-7, torch.float64)
    points = torch.ones(3, 2, dtype=torch.float64)
    found = torch.func.vmap(lambda point: project_polytope(point, rows, ends).point)(points)
    assert found.shape == points.shape
