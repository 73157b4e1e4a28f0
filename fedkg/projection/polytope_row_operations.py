"""Rows of polytopes, and the guess of the active ones.

Letters: B points, n their length, m rows, k active rows of a point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedkg.kernels.compiled_loop_policy import can_compile_loops
from fedkg.kernels.polytopes.polytope_sparsity import Shared, shared_rows

RIDGE = 1e-12
"""Added to the Gram matrix of rows of length 1, because rows may depend on each other."""
SOFT, STIFF, RELAXATION = 1.5, 3.0, 1.6
"""Penalties and relaxation of the splitting; the first penalty for fewer rows than entries.
Measured best for rows of length 1, for any unit of the points.
"""
LOOK, STEPS, SETTLED = 5, 200, 0.3
"""Steps of the splitting between two checks of the active rows, and at most; number of changes per
point at which it stops.
"""
ROWS, NEAR, PAIRS, OVER = 256, 4096, 16384, 1.25
"""Limits for loops over batches of points: rows, nonzero entries of the Gram matrix, products of
its factor, and rows per entry of a point. Measured best below these.
"""
ENTRIES = 1 << 16
"""Largest number of matrix entries of equations that are solved together: points with similar
numbers of active rows, few enough for the cache.
"""


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of length 1 (or 0), without their ends.

    Attributes:
        matrix: float64 [m, n] or [B, m, n].
        length: [m] or [B, m], their original lengths (1 instead of 0).
        gram: [m, m] of shared rows, else None.
    """

    matrix: Tensor
    length: Tensor
    gram: Tensor | None

    def select(self, chosen: Tensor) -> UnitRows:
        """The rows of some points, int64 [b]."""
        return (
            self
            if self.gram is not None
            else UnitRows(self.matrix[chosen], self.length[chosen], None)
        )

    @cached_property
    def shared(self) -> Shared | None:
        """The rows for loops over batches; None unless all points share them, on a CPU, and they
        are few or mostly orthogonal.
        """
        gram = self.gram
        if (
            gram is None
            or not can_compile_loops()
            or gram.device.type != "cpu"
            or not 0 < len(gram) <= min(ROWS, OVER * self.matrix.shape[1])
        ):
            return None
        if int(torch.count_nonzero(gram)) > NEAR:
            return None
        found = shared_rows(self.matrix.numpy(), gram.numpy(), self.length.numpy())
        return found if len(found.plan.pairs.left) <= PAIRS else None


def unit_rows(matrix: Tensor) -> UnitRows:
    """The rows of [m, n] or [B, m, n] with length 1."""
    matrix = matrix.detach().to(torch.float64)
    length: Tensor = torch.linalg.vector_norm(matrix, dim=-1)
    length = torch.where(length == 0, 1, length)
    matrix = matrix / length.unsqueeze(-1)
    return UnitRows(matrix, length, matrix @ matrix.mT if matrix.ndim == 2 else None)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """``lower <= matrix @ v <= upper`` with rows of length 1 (or 0); a row with equal ends is an
    equation.

    Attributes:
        matrix: float64 [m, n], or [B, m, n] for rows of each point.
        gram: [m, m] of shared rows, else None.
        lower: [B, m], lower ends; -inf for no bound.
        upper: [B, m], upper ends; inf for no bound.
        equal: bool [B, m], which rows are equations.
        slack: [B, 1], tolerated violation of a row.
    """

    matrix: Tensor
    gram: Tensor | None
    lower: Tensor
    upper: Tensor
    equal: Tensor
    slack: Tensor

    def select(self, chosen: Tensor) -> Rows:
        """The rows of some points, int64 [b]."""
        matrix = self.matrix if self.gram is not None else self.matrix[chosen]
        parts = (
            part.index_select(0, chosen)
            for part in (self.lower, self.upper, self.equal, self.slack)
        )
        return Rows(matrix, self.gram, *parts)

    def at(self, point: Tensor) -> Tensor:
        """``matrix @ point``, [B, m]."""
        return product(self.matrix, point)

    def back(self, multiplier: Tensor) -> Tensor:
        """``matrix^T @ multiplier``, [B, n]."""
        return product_back(self.matrix, multiplier)

    def moved(self, multiplier: Tensor) -> Tensor:
        """The change of the rows' values by multipliers, ``matrix @ matrix^T @ multiplier``, [B,
        m].
        """
        if self.gram is not None and len(self.gram) <= 2 * self.matrix.shape[-1]:
            return multiplier @ self.gram
        return self.at(self.back(multiplier))

    def missed(self, value: Tensor) -> Tensor:
        """Violation of the ends by values [B, m] of the rows: positive above the upper, negative
        below the lower end.
        """
        return value - torch.clamp(value, self.lower, self.upper)

    def ends(self, sides: Tensor) -> Tensor:
        """The end on the active side of a row (1 upper, -1 lower), [B, m]; finite for inactive
        rows.
        """
        return torch.clamp(sides * torch.finfo(sides.dtype).max, self.lower, self.upper)


def product(matrix: Tensor, point: Tensor) -> Tensor:
    """``matrix @ point`` for points [..., n] and a matrix [m, n] or [..., m, n]."""
    return point @ matrix.mT if matrix.ndim == 2 else (matrix @ point.unsqueeze(-1)).squeeze(-1)


def product_back(matrix: Tensor, multiplier: Tensor) -> Tensor:
    """``matrix^T @ multiplier`` for multipliers [B, m]."""
    return (
        multiplier @ matrix if matrix.ndim == 2 else (multiplier.unsqueeze(-2) @ matrix).squeeze(-2)
    )


def solve_taken_rows(
    rows: Rows, chosen: Tensor, right: Tensor, ridge: float = RIDGE, *, exact: bool = True
) -> tuple[Tensor, Tensor]:
    """Solve ``gram @ x = right`` [B, m] among the active rows, bool [B, m]; x is 0 elsewhere. Also
    return a refinement step.

    Args:
        ridge: on the diagonal. A large one stays in the solution.
        exact: remove the ridge and the rounding error from the solution by a step of refinement;
            else the step is 0. For contradicting equations, the step is a direction in which the
            solution grows without bound.
    """
    count, order = torch.sort(chosen.sum(1))
    counts, width = count.tolist(), chosen.shape[1]
    most = counts[-1] if counts else 0
    on = torch.arange(most, device=right.device) < count.unsqueeze(1)
    index = (
        torch.arange(width, width + most, device=right.device)
        .expand(len(counts), most)
        .contiguous()
    )  # indices from m on are padding
    index.masked_scatter_(on, chosen.index_select(0, order).nonzero()[:, 1])
    padded = torch.cat([right.index_select(0, order), right.new_zeros(len(right), most)], 1)
    wanted = padded.gather(1, index).unsqueeze(-1)
    found, step = torch.zeros_like(wanted), torch.zeros_like(wanted)
    table = _table(rows.gram, most, ridge) if rows.gram is not None else None
    length = 1 + ENTRIES // (most * most + 1)
    for first in range(0, len(counts), length):
        group = slice(first, first + length)
        size = counts[group][-1]
        part, end = index[group, :size], wanted[group, :size]
        gram = (
            _entries(table, part)
            if table is not None
            else _grams(rows.matrix.index_select(0, order[group]), part, ridge)
        )
        factor = torch.linalg.cholesky_ex(gram).L
        found[group, :size] = torch.cholesky_solve(end, factor)
        if exact and ridge <= RIDGE:
            own = found[group, :size]
            step[group, :size] = more = torch.cholesky_solve(end - gram @ own + ridge * own, factor)
            own += more
    return _spread(found, index, order, padded), _spread(
        step, index, order, padded
    ) if exact else torch.zeros_like(right)


def _spread(values: Tensor, index: Tensor, order: Tensor, padded: Tensor) -> Tensor:
    """Scatter values [B, k, 1] of the rows at index [B, k] to [B, m], with points in `order`; 0 for
    all other rows.
    """
    spread = torch.zeros_like(padded).scatter_(1, index, values.squeeze(-1))[
        :, : padded.shape[1] - index.shape[1]
    ]
    return torch.empty_like(spread).index_copy_(0, order, spread)


def _table(gram: Tensor, most: int, ridge: float) -> Tensor:
    """The Gram matrix of the shared rows, extended by `most` orthogonal rows of length 1 as
    padding.
    """
    table: Tensor = torch.block_diag(  # type: ignore[no-untyped-call]  # untyped in torch
        gram, torch.eye(most, dtype=gram.dtype, device=gram.device)
    )
    table.diagonal().add_(ridge)
    return table


def _entries(table: Tensor, index: Tensor) -> Tensor:
    """The blocks [b, k, k] of the table [m, m] at rows and columns [b, k]."""
    place = index.to(torch.int32)
    flat = place.unsqueeze(2) * table.shape[0] + place.unsqueeze(1)
    return table.flatten().index_select(0, flat.flatten()).view(flat.shape)


def _grams(matrix: Tensor, index: Tensor, ridge: float) -> Tensor:
    """The Gram matrices [b, k, k] of the rows [b, m, n] at index [b, k]; indices from m on are
    orthogonal padding of length 1.
    """
    on = (index < matrix.shape[1]).unsqueeze(-1)
    place = index.clamp(max=matrix.shape[1] - 1).unsqueeze(-1)
    taken = matrix.gather(1, place.expand(-1, -1, matrix.shape[2])) * on
    gram = taken @ taken.mT
    gram.diagonal(dim1=1, dim2=2).add_(~on.squeeze(-1)).add_(ridge)
    return gram


def guess_multipliers(rows: Rows, point: Tensor, start: Tensor) -> Tensor:
    """Multipliers [B, m] near those of the nearest points, by operator splitting (Stellato et al.
    2020) in single precision.

    Starts at `start` [B, m]. All points make the same steps, each with two products with the rows
    (or one with their Gram matrix if that is smaller), until the active rows hardly change between
    two checks.
    """
    matrix, x, lower, upper, first = (
        part.to(torch.float32) for part in (rows.matrix, point, rows.lower, rows.upper, start)
    )
    count, length = matrix.shape[-2:]
    unit, stiffness = (
        torch.eye(length, dtype=x.dtype, device=x.device),
        SOFT if count < length else STIFF,
    )
    pulled = matrix @ torch.linalg.inv(unit + stiffness * (matrix.mT @ matrix))
    fixed = RELAXATION * product(pulled, x)
    pulled = RELAXATION * stiffness * pulled
    square = pulled @ matrix.mT if count <= 2 * length else None
    mixed = torch.clamp(product(matrix, x - product_back(matrix, first)), lower, upper).add_(
        first, alpha=1 / stiffness
    )
    taken = first.sign()
    for step in range(1, STEPS + 1):
        kept = torch.clamp(mixed, lower, upper)
        shift = torch.lerp(mixed, kept, 2.0)
        gained = (
            product(square, shift)
            if square is not None
            else product(pulled, product_back(matrix, shift))
        )
        mixed = gained.add_(fixed).add_(mixed).sub_(kept, alpha=RELAXATION)
        if step % LOOK == 0:
            now = torch.sub(mixed, torch.clamp(mixed, lower, upper)).sign_()
            changed = float((now != taken).sum()) / max(1, len(now))
            taken = now
            if changed < SETTLED:
                break
    return (stiffness * (mixed - torch.clamp(mixed, lower, upper))).to(point.dtype)
