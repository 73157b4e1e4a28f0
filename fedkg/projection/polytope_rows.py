"""The rows of polytopes, and the guess of which of them hold the nearest point back.

Letters: B points, n their length, m rows, k rows of a point that are taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

RIDGE = 1e-12
"""Added to the Gram matrix of rows of length 1: rows may depend on each other."""
STIFFNESS, RELAXATION = 3.0, 1.6
"""Of the splitting: measured best for rows of length 1, whatever the unit of the points."""
LOOK, STEPS = 10, 200
"""Steps of the splitting between two looks at the rows taken, and at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """``lower <= matrix @ v <= upper``, rows of length 1 (or 0); equations where both ends are the same.

    Attributes:
        matrix: float64 [m, n], or [B, m, n] for rows of each point. gram: [m, m] of shared rows, else None.
        lower, upper: [B, m], infinite for no bound. equal: bool [B, m], which rows are equations.
        slack: [B, 1], by how much a row may be missed.
    """

    matrix: Tensor
    gram: Tensor | None
    lower: Tensor
    upper: Tensor
    equal: Tensor
    slack: Tensor

    def of(self, chosen: Tensor) -> Rows:
        """The rows of some points, int64 [b]."""
        matrix = self.matrix if self.gram is not None else self.matrix[chosen]
        return Rows(matrix, self.gram, self.lower[chosen], self.upper[chosen], self.equal[chosen], self.slack[chosen])

    def at(self, point: Tensor) -> Tensor:
        """``matrix @ point``, [B, m]."""
        return product(self.matrix, point)

    def back(self, multiplier: Tensor) -> Tensor:
        """``matrix^T @ multiplier``, [B, n]."""
        return product_back(self.matrix, multiplier)

    def missed(self, value: Tensor) -> Tensor:
        """By how much values [B, m] of the rows lie beyond their ends: above 0 over the upper one, below 0 under the lower one."""
        return value - torch.clamp(value, self.lower, self.upper)

    def ends(self, sides: Tensor) -> Tensor:
        """The end on the side (1 upper, -1 lower) on which a row is taken, [B, m]; 0 where it is not."""
        return torch.where(sides > 0, self.upper, torch.where(sides < 0, self.lower, 0))


def product(matrix: Tensor, point: Tensor) -> Tensor:
    """``matrix @ point`` for points [B, n] and a matrix [m, n] or [B, m, n]."""
    return point @ matrix.mT if matrix.ndim == 2 else (matrix @ point.unsqueeze(-1)).squeeze(-1)


def product_back(matrix: Tensor, multiplier: Tensor) -> Tensor:
    """``matrix^T @ multiplier`` for multipliers [B, m]."""
    return multiplier @ matrix if matrix.ndim == 2 else (multiplier.unsqueeze(-2) @ matrix).squeeze(-2)


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """The equations ``gram @ x = r`` of the rows that are taken, one system for each point, factored.

    Attributes:
        index: int64 [B, k], the rows taken, then some others. on: bool [B, k], which of them are taken.
        gram, factor: [B, k, k], with the identity for those that are not, and `ridge` on the diagonal.
    """

    index: Tensor
    on: Tensor
    gram: Tensor
    factor: Tensor
    ridge: float

    def solve(self, right: Tensor) -> tuple[Tensor, Tensor]:
        """For a right side [B, m] the solution [B, m], 0 elsewhere, and the step that took the ridge out of it (0 where it is to count).

        Of equations that contradict each other the step is the way in which the multipliers grow without end.
        """
        wanted = torch.where(self.on, right.gather(1, self.index), 0)
        first = self._back(wanted)
        if self.ridge > RIDGE:
            return self._spread(right, first), torch.zeros_like(right)
        step = self._back(wanted - (self.gram @ first.unsqueeze(-1)).squeeze(-1) + self.ridge * first)
        return self._spread(right, first + step), self._spread(right, step)

    def _spread(self, like: Tensor, values: Tensor) -> Tensor:
        return torch.zeros_like(like).scatter(1, self.index, torch.where(self.on, values, 0))

    def _back(self, right: Tensor) -> Tensor:
        return torch.cholesky_solve(right.unsqueeze(-1), self.factor).squeeze(-1)


def take(rows: Rows, chosen: Tensor, ridge: float = RIDGE) -> Taken:
    """The rows chosen, bool [B, m]."""
    count = max(1, int(chosen.sum(1).max()))
    index = torch.topk(chosen.to(torch.float32), count, dim=1).indices
    on = chosen.gather(1, index)
    unit = torch.eye(count, dtype=rows.matrix.dtype, device=index.device)
    if rows.gram is None:
        taken = rows.matrix.gather(1, index.unsqueeze(-1).expand(-1, -1, rows.matrix.shape[-1])) * on.unsqueeze(-1)
        gram = taken @ taken.mT + ridge * unit
        gram.diagonal(dim1=1, dim2=2).add_(~on)
    else:  # places without a row stand for rows of their own, at right angles to all others
        table = torch.block_diag(rows.gram, unit)  # type: ignore[no-untyped-call]
        table.diagonal().add_(ridge)
        place = torch.where(on, index, rows.gram.shape[0] + torch.arange(count, device=index.device))
        place = place.to(torch.int32)
        flat = place.unsqueeze(2) * table.shape[0] + place.unsqueeze(1)
        gram = table.flatten().index_select(0, flat.flatten()).view(flat.shape)
    return Taken(index, on, gram, torch.linalg.cholesky_ex(gram).L, ridge)


def guess(rows: Rows, point: Tensor, start: Tensor) -> Tensor:
    """Multipliers [B, m] near those of the nearest points, by operator splitting (Stellato et al. 2020) in single precision.

    Begins at `start` [B, m]. All points go through the same steps, each two products with the rows (one with their Gram matrix where that
    is smaller), until hardly any row is taken or let go between two looks.
    """
    matrix, x, lower, upper = (part.to(torch.float32) for part in (rows.matrix, point, rows.lower, rows.upper))
    count, length = matrix.shape[-2:]
    unit = torch.eye(length, dtype=x.dtype, device=x.device)
    pulled = matrix @ torch.linalg.inv(unit + STIFFNESS * (matrix.mT @ matrix))
    fixed = product(pulled, x)
    square = STIFFNESS * (pulled @ matrix.mT) if count <= 2 * length else None
    first = start.to(x.dtype)
    dual, kept = first / STIFFNESS, torch.clamp(product(matrix, x - product_back(matrix, first)), lower, upper)
    taken = dual.sign()
    for step in range(1, STEPS + 1):
        shift = kept - dual
        gained = product(square, shift) if square is not None else STIFFNESS * product(pulled, product_back(matrix, shift))
        mixed = torch.lerp(kept, fixed + gained, RELAXATION).add_(dual)
        kept = torch.clamp(mixed, lower, upper)
        dual = mixed - kept
        if step % LOOK == 0:
            now = dual.sign()
            changed = float((now != taken).sum()) / max(1, dual.shape[0])
            taken = now
            if changed < 0.5:
                break
    return (STIFFNESS * dual).to(point.dtype)
