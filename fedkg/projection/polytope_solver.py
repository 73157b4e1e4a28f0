"""Exact nearest points of polytopes: a guess of the active rows, corrected by pivoting.

Letters: B points, n their length, m rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkg.projection.polytope_row_operations import (
    RIDGE,
    Rows,
    guess_multipliers,
    solve_taken_rows,
)

SLACK = 1e-10
"""Tolerated violation of a row, relative to the numbers of its point."""
BLOCKS = 5
"""Number of exchanges of many rows at once, before single exchanges."""
FAR = 4.0
"""Ratio of a point's numbers to those of its nearest point above which it is moved closer."""
PROBE = 8
"""Number of points that are solved first with single exchanges: a proof that one polytope is empty
often applies to the others.
"""


@dataclass(frozen=True, slots=True, eq=False)
class NearestPoints:
    """Nearest points.

    Attributes:
        point: [B, n]; the original point if the polytope is empty.
        multiplier: [B, m], positive at upper and negative at lower ends. For an empty polytope,
            Farkas multipliers: their combination of the rows is 0, and of the ends negative.
        empty: bool [B].
    """

    point: Tensor
    multiplier: Tensor
    empty: Tensor


def solve(
    rows: Rows, point: Tensor, start: Tensor | None = None, *, exact: bool = True
) -> NearestPoints:
    """The points nearest to [B, n].

    Args:
        start: multipliers [B, m] of nearby points.
        exact: solve to the last digits, not only within the slack of the rows.
    """
    empty = torch.zeros(len(point), dtype=torch.bool, device=point.device)
    near = guess_multipliers(rows, point, torch.zeros_like(rows.lower) if start is None else start)
    multiplier, right = _pivoted(rows, point, near, exact)
    todo = (~right).nonzero().squeeze(1)
    for group in (todo[:PROBE], todo[PROBE:]):
        left = group[~empty[group]]
        if len(left):
            multiplier[left], empty[left] = active_set_method(
                rows.select(left), point[left], near[left]
            )
            if rows.gram is not None:
                _share_proofs(rows, multiplier, empty, left, todo)
    nearest = point - rows.back(multiplier)
    if len(todo):
        nearest = torch.where(empty.unsqueeze(1), point, nearest)
    return _closer(rows, point, NearestPoints(nearest, multiplier, empty), exact)


def _closer(rows: Rows, point: Tensor, found: NearestPoints, exact: bool) -> NearestPoints:
    """Solve again from near the set, for points so far away that digits were lost.

    All points on the ray from the nearest point through the original one have the same nearest
    point, with proportional multipliers.
    """
    far, least = (part.abs().amax(1) for part in (point, found.point))
    chosen = ((far > FAR * (1 + least)) & ~found.empty).nonzero().squeeze(1)
    if len(chosen):
        near = point_scale(rows.lower[chosen], rows.upper[chosen], found.point[chosen])
        kept = far[chosen, None] > FAR * near
        chosen, near = chosen[kept.squeeze(1)], near[kept]
    if not len(chosen):
        return found
    own, given, here, multiplier = (
        rows.select(chosen),
        point[chosen],
        found.point[chosen],
        found.multiplier[chosen],
    )
    share = (near / far[chosen]).unsqueeze(1)
    for _ in range(2):  # the first ray is only as exact as the first nearest point
        moved = here + share * (given - here)
        again = solve(
            replace(own, slack=SLACK * point_scale(own.lower, own.upper, moved)),
            moved,
            share * multiplier,
            exact=exact,
        )
        here, multiplier = again.point, again.multiplier / share
    found.point[chosen] = torch.where(again.empty.unsqueeze(1), given, here)
    found.multiplier[chosen], found.empty[chosen] = multiplier, again.empty
    return found


def point_scale(lower: Tensor, upper: Tensor, point: Tensor) -> Tensor:
    """The magnitude of each point, [B, 1]: its numbers and the ends [B, m] of its rows of length
    1."""
    sizes = [point, *(end.nan_to_num(posinf=0, neginf=0) for end in (lower, upper))]
    return 1 + torch.stack([part.abs().amax(1) for part in sizes]).amax(0).unsqueeze(1)


def _pivoted(rows: Rows, point: Tensor, near: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    """Multipliers [B, m] after a few exchanges, starting at the active rows of `near`, and whether
    they are right, bool [B].
    """
    sides = near.sign().masked_fill_(rows.equal, 1)
    multiplier, right, sides = _exchanged(rows, point, sides, exact=exact)
    for _ in range(1, BLOCKS):
        todo = (~right).nonzero().squeeze(1)
        if not len(todo):
            break
        multiplier[todo], right[todo], sides[todo] = _exchanged(
            rows.select(todo), point[todo], sides[todo], exact=True
        )
    return multiplier, right


def _exchanged(
    rows: Rows, point: Tensor, sides: Tensor, *, exact: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of block principal pivoting (Kim and Park 2011): solve for the active rows,
    deactivate wrong signs, activate violated rows.

    If that would activate more rows than a point has entries, activate only the one with the
    largest violation.

    Args:
        exact: solve the equations with refinement.

    Returns:
        multipliers [B, m], which points are done, bool [B], and the next active sides.
    """
    level = rows.at(point)
    goal, _ = solve_taken_rows(rows, sides != 0, level - rows.ends(sides), exact=exact)
    missed = rows.missed(level.sub_(rows.moved(goal)))
    short = (sides * goal).clamp_(max=0).masked_fill_(rows.equal, 0)
    multiplier = torch.addcmul(goal, sides, short, value=-1)
    done = torch.maximum(missed.abs(), -short).amax(1) <= rows.slack.squeeze(1)
    left = (~done).nonzero().squeeze(1)
    if len(left):
        sides[left] = _next(
            sides[left], missed[left], short[left], rows.slack[left], point.shape[1]
        )
    return multiplier, done, sides


def _next(sides: Tensor, missed: Tensor, short: Tensor, slack: Tensor, length: int) -> Tensor:
    """The next active sides of the rows, [B, m]; `short`: size of multipliers with wrong sign,
    below 0.
    """
    chosen, wrong, out = sides != 0, short < -slack, missed.abs() > slack
    many = (chosen & ~wrong).sum(1, keepdim=True) + (out & ~chosen).sum(1, keepdim=True) > length
    worst = torch.where(chosen, 0, missed.abs()).amax(1, keepdim=True)
    new = out & ~chosen & (~many | (missed.abs() >= worst))
    return torch.where(new, missed.sign(), torch.where(wrong, 0, sides))


def active_set_method(
    rows: Rows, point: Tensor, start: Tensor, ridge: float = RIDGE
) -> tuple[Tensor, Tensor]:
    """Solve by a dual active set method, which ends after finitely many steps.

    Source: Lawson and Hanson 1974, chapter 23; Goldfarb and Idnani 1983. The multipliers always
    have the right signs. They move towards the solution for the active rows until one of them
    reaches 0 and is deactivated; at the solution, the row with the largest violation becomes
    active. Contradicting rows, with multipliers that may all grow, prove that the polytope is
    empty; with a large `ridge`, the rows are soft instead.

    Returns:
        multipliers [B, m] and bool [B], whether they are such a proof.
    """
    slack, equal = rows.slack, rows.equal
    result, empty = (
        torch.zeros_like(start),
        torch.zeros(len(point), dtype=torch.bool, device=point.device),
    )
    sides = torch.where(equal, 1, start.sign()).to(point.dtype)
    at, barred = start * (sides != 0), torch.zeros_like(equal)
    newest = torch.full((len(point),), -1, device=point.device)
    todo = torch.arange(len(point), device=point.device)
    for _ in range(20 * (rows.matrix.shape[-1] + 10) + rows.lower.shape[1]):
        own = rows.select(todo)
        level, chosen, tight = own.at(point[todo]), sides[todo] != 0, slack[todo]
        goal, growth = solve_taken_rows(own, chosen, level - own.ends(sides[todo]), ridge)
        signs, here = sides[todo], at[todo]
        blocked = chosen & ~equal[todo] & (signs * goal <= 0)
        room = torch.where(
            blocked, (signs * here).clamp(min=0) / (signs * (here - goal)).clamp(min=1e-300), 1
        )
        share = room.amin(1, keepdim=True).clamp(max=1)
        stopped = blocked.any(1)
        at[todo] = moved = torch.where(stopped[:, None], here + share * (goal - here), goal)
        gone = blocked & (room <= share)
        at[todo] = moved = torch.where(gone, 0, moved)
        fell = newest[todo]
        progress = (moved - here).abs().amax(1) > 1e-12 * (1 + here.abs().amax(1))
        bars = barred[todo] & ~progress[:, None]
        at_once = (
            (fell >= 0)
            & gone.gather(1, fell.clamp(min=0)[:, None]).squeeze(1)
            & (share.squeeze(1) <= 0)
        )
        bars[at_once, fell[at_once]] = True
        missed = own.missed(level - own.moved(moved)) - (ridge * moved if ridge > RIDGE else 0)
        missed = torch.where(missed.abs() > tight, missed, 0)
        contradict = (
            ~stopped
            & (torch.where(chosen, missed, 0).abs() > 1e3 * tight).any(1)
            & (ridge <= RIDGE)
        )
        free = torch.where(chosen | bars, 0, missed)
        worst = free.abs().argmax(1)
        side = free.gather(1, worst[:, None]).squeeze(1).sign()
        ended = ~stopped & ((side == 0) | contradict)
        next_sides = torch.where(gone, 0, signs)
        grow = ~stopped & ~ended
        next_sides[grow, worst[grow]] = side[grow]
        sides[todo], barred[todo] = next_sides, bars
        newest[todo] = torch.where(grow, worst, torch.where(stopped, fell, -1))
        proof = growth / growth.abs().sum(1, keepdim=True).clamp(min=1e-300)
        result[todo[ended]] = torch.where(contradict[:, None], proof, moved)[ended]
        empty[todo[ended]] = contradict[ended]
        todo = todo[~ended]
        if not len(todo):
            break
    result[todo] = at[todo]
    return result, empty


def _share_proofs(
    rows: Rows, multiplier: Tensor, empty: Tensor, proven: Tensor, todo: Tensor
) -> None:
    """Apply a proof of emptiness to other polytopes with the same rows."""
    for proof in multiplier[proven[empty[proven]]]:
        left = todo[~empty[todo]]
        own = rows.select(left)
        ends = torch.where(proof > 0, own.upper, own.lower)
        value = torch.where(proof != 0, proof * ends, 0).sum(1)
        holds = value < -1e3 * own.slack.squeeze(1)
        multiplier[left[holds]], empty[left[holds]] = proof, True
