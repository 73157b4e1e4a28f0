"""The nearest points of polytopes, exactly: a guess of the rows taken, made right by pivoting.

Letters: B points, n their length, m rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.projection.polytope_rows import RIDGE, Rows, guess, take

SLACK = 1e-10
"""How far a row may be missed, relative to the numbers of its point."""
BLOCKS = 5
"""How often many rows of a point are exchanged at once, before one at a time."""
GROUP = 512
"""Points for which rows are exchanged together."""
PROBE = 8
"""Points looked at first one row at a time: what proves one polytope empty often proves the others so."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Multipliers [B, m] of the nearest points, above 0 at upper ends and below 0 at lower ones; which polytopes are empty, bool [B].

    Of an empty one they are Farkas' multipliers: their combination of the rows is 0, of the ends below 0.
    """

    multiplier: Tensor
    empty: Tensor


def solve(rows: Rows, point: Tensor, start: Tensor | None = None) -> Found:
    """The multipliers of the nearest points to [B, n]."""
    if not rows.lower.numel():
        return Found(torch.zeros_like(rows.lower), torch.zeros(len(point), dtype=torch.bool, device=point.device))
    near = guess(rows, point, torch.zeros_like(rows.lower) if start is None else start)
    multiplier, right = torch.zeros_like(near), torch.zeros(len(point), dtype=torch.bool, device=point.device)
    for group in torch.split(torch.argsort((near != 0).sum(1)), GROUP):  # of about as many rows taken each, small enough for a cache
        multiplier[group], right[group] = _pivoted(rows.of(group), point[group], near[group])
    todo = (~right).nonzero().squeeze(1)
    empty = torch.zeros(point.shape[0], dtype=torch.bool, device=point.device)
    for group in (todo[:PROBE], todo[PROBE:]):
        left = group[~empty[group]]
        if len(left):
            multiplier[left], empty[left] = one_by_one(rows.of(left), point[left], near[left])
            if rows.gram is not None:
                _share_proofs(rows, multiplier, empty, left, todo)
    return Found(multiplier, empty)


def scale(lower: Tensor, upper: Tensor, point: Tensor) -> Tensor:
    """What counts as large for each point, [B, 1]: its numbers and those of its rows' ends [B, m], of rows of length 1."""
    ends = torch.maximum(lower.nan_to_num(posinf=0, neginf=0).abs(), upper.nan_to_num(posinf=0, neginf=0).abs())
    largest = point.abs().amax(1, keepdim=True)
    return 1 + (torch.maximum(largest, ends.amax(1, keepdim=True)) if ends.shape[1] else largest)


def _pivoted(rows: Rows, point: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Multipliers [B, m] after a few exchanges that begin with the rows of multipliers near to them, and which are right, bool [B]."""
    sides = torch.where(rows.equal, 1, near.sign()).to(point.dtype)
    multiplier, right = torch.zeros_like(near), torch.zeros(len(point), dtype=torch.bool, device=point.device)
    todo = torch.arange(len(point), device=point.device)
    for _ in range(BLOCKS):
        if len(todo) == len(point):
            multiplier, sides, done = _exchange(rows, point, sides)
        else:
            multiplier[todo], sides[todo], done = _exchange(rows.of(todo), point[todo], sides[todo])
        right[todo] = done
        todo = todo[~done]
        if not len(todo):
            break
    return multiplier, right


def _exchange(rows: Rows, point: Tensor, sides: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One step of block principal pivoting (Kim and Park 2011): solve for the rows taken, let go those of wrong sign, take those missed.

    Where that would be more rows than a point has entries, only the one missed the most is taken.

    Returns:
        multipliers [B, m], the sides on which rows are to be taken next, and which points are done, bool [B].
    """
    level = rows.at(point)
    chosen = sides != 0
    multiplier, _ = take(rows, chosen).solve(level - rows.ends(sides))
    missed = rows.missed(level - _seen(rows, multiplier))
    out = missed.abs() > rows.slack
    free = chosen & ~rows.equal
    wrong = free & (sides * multiplier < -rows.slack)
    done = ~(out | wrong).any(1)
    multiplier = torch.where(free & (sides * multiplier < 0), 0, multiplier)
    if bool(done.all()):
        return multiplier, sides, done
    many = (chosen & ~wrong).sum(1, keepdim=True) + (out & ~chosen).sum(1, keepdim=True) > point.shape[1]
    worst = torch.where(chosen, 0, missed.abs()).amax(1, keepdim=True)
    new = out & ~chosen & (~many | (missed.abs() >= worst))
    return multiplier, torch.where(new, missed.sign(), torch.where(wrong, 0, sides)), done


def _seen(rows: Rows, multiplier: Tensor) -> Tensor:
    """What multipliers move the rows' values by, [B, m]."""
    return (
        multiplier @ rows.gram if rows.gram is not None and len(rows.gram) <= 2 * rows.matrix.shape[-1] else rows.at(rows.back(multiplier))
    )


def one_by_one(rows: Rows, point: Tensor, start: Tensor, ridge: float = RIDGE) -> tuple[Tensor, Tensor]:
    """The same by a dual active set method (Lawson and Hanson 1974, chapter 23; Goldfarb and Idnani 1983): ends after finitely many steps.

    The multipliers always have the right signs. They move towards the solution for the rows taken until one of them reaches 0 and is let
    go; arrived, the row missed the most is taken. Rows that contradict each other, with multipliers that may all grow, prove that there is
    no point; with a `ridge` that counts, the rows give way instead.

    Returns:
        multipliers [B, m] and bool [B], whether they are such a proof.
    """
    slack, equal = rows.slack, rows.equal
    result, empty = torch.zeros_like(start), torch.zeros(len(point), dtype=torch.bool, device=point.device)
    sides = torch.where(equal, 1, start.sign()).to(point.dtype)
    at, barred = start * (sides != 0), torch.zeros_like(equal)
    newest = torch.full((len(point),), -1, device=point.device)
    todo = torch.arange(len(point), device=point.device)
    for _ in range(20 * (rows.matrix.shape[-1] + 10) + rows.lower.shape[1]):
        own = rows.of(todo)
        level, chosen, tight = own.at(point[todo]), sides[todo] != 0, slack[todo]
        goal, growth = take(own, chosen, ridge).solve(level - own.ends(sides[todo]))
        signs, here = sides[todo], at[todo]
        blocked = chosen & ~equal[todo] & (signs * goal <= 0)
        room = torch.where(blocked, (signs * here).clamp(min=0) / (signs * (here - goal)).clamp(min=1e-300), 1)
        share = room.amin(1, keepdim=True).clamp(max=1)
        stopped = blocked.any(1)
        at[todo] = moved = torch.where(stopped[:, None], here + share * (goal - here), goal)
        gone = blocked & (room <= share)
        at[todo] = moved = torch.where(gone, 0, moved)
        fell = newest[todo]
        progress = (moved - here).abs().amax(1) > 1e-12 * (1 + here.abs().amax(1))
        bars = barred[todo] & ~progress[:, None]
        at_once = (fell >= 0) & gone.gather(1, fell.clamp(min=0)[:, None]).squeeze(1) & (share.squeeze(1) <= 0)
        bars[at_once, fell[at_once]] = True
        missed = own.missed(level - _seen(own, moved)) - (ridge * moved if ridge > RIDGE else 0)
        missed = torch.where(missed.abs() > tight, missed, 0)
        contradict = ~stopped & (torch.where(chosen, missed, 0).abs() > 1e3 * tight).any(1) & (ridge <= RIDGE)
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


def _share_proofs(rows: Rows, multiplier: Tensor, empty: Tensor, proven: Tensor, todo: Tensor) -> None:
    """Where a proof that one polytope is empty holds for another of the same rows, it is that one's too."""
    for proof in multiplier[proven[empty[proven]]]:
        left = todo[~empty[todo]]
        own = rows.of(left)
        ends = torch.where(proof > 0, own.upper, own.lower)
        value = torch.where(proof != 0, proof * ends, 0).sum(1)
        holds = value < -1e3 * own.slack.squeeze(1)
        multiplier[left[holds]], empty[left[holds]] = proof, True
