"""Sets that are polytopes as rows, so that their intersection is one polytope.

Letters: [...] any leading shape, n the length of a point, m inequalities, q equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.projection.boxes_and_halfspaces import Affine, Box, HalfSpace
from fedkg.projection.declared_field_shapes import check_fit
from fedkg.projection.monotone import MonotoneCone
from fedkg.projection.polytope import Polytope
from fedkg.projection.projection_set import ProjectionSet, numbers
from fedkg.projection.simplex import Simplex


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Rows [m, n] or [..., m, n] and their ends [..., m]; equations or inequalities."""

    matrix: Tensor
    ends: Tensor
    equations: bool = False


def common_polytope(parts: Sequence[ProjectionSet], point: Tensor) -> Polytope | None:
    """The intersection of the parts, for points like `point` [..., n]; None if one of them is not a
    polytope.
    """
    rows: list[_Part] = []
    for part in parts:
        check_fit(part, point)
        own = _rows(part, point)
        if own is None:
            return None
        rows += own
    G, h = _joined([row for row in rows if not row.equations], point)
    E, f = _joined([row for row in rows if row.equations], point)
    return Polytope(G, h, E, f) if E.shape[-2] else Polytope(G, h)


def _rows(part: ProjectionSet, point: Tensor) -> list[_Part] | None:
    n = point.shape[-1]
    unit = torch.eye(n, dtype=point.dtype, device=point.device)
    match part:
        case Box():
            low, high = (numbers(end, point) for end in (part.low, part.high))
            low, high = (end.expand(*end.shape[:-1], n) for end in (low, high))
            return [_Part(unit, high), _Part(-unit, -low)]
        case HalfSpace():
            return [
                _Part(
                    numbers(part.normal, point).unsqueeze(-2),
                    numbers(part.bound, point).unsqueeze(-1),
                )
            ]
        case Affine():
            return [_Part(numbers(part.matrix, point), numbers(part.bound, point), equations=True)]
        case MonotoneCone(weight=None):
            steps = unit[:-1] - unit[1:]
            return [_Part(-steps if part.falling else steps, point.new_zeros(n - 1))]
        case Simplex():
            total = numbers(part.total, point).unsqueeze(-1)
            return [
                _Part(-unit, point.new_zeros(n)),
                _Part(point.new_ones(1, n), total, equations=True),
            ]
        case Polytope():
            found = [_Part(numbers(part.G, point), numbers(part.h, point))]
            if part.E is not None and part.f is not None:
                found.append(_Part(numbers(part.E, point), numbers(part.f, point), equations=True))
            return found
        case _:
            return None


def _joined(rows: Sequence[_Part], point: Tensor) -> tuple[Tensor, Tensor]:
    if not rows:
        return point.new_zeros(0, point.shape[-1]), point.new_zeros(0)
    shared = all(row.matrix.ndim == 2 for row in rows)
    matrix = torch.cat(
        [
            row.matrix if shared else row.matrix.expand(*point.shape[:-1], *row.matrix.shape[-2:])
            for row in rows
        ],
        -2,
    )
    if all(row.ends.ndim == 1 for row in rows):
        return matrix, torch.cat([row.ends for row in rows])
    return matrix, torch.cat(
        [row.ends.expand(*point.shape[:-1], row.ends.shape[-1]) for row in rows], -1
    )
