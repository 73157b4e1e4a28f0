"""Feasible sets from the `set ... keep ... in ...` statements of a pack, for one client or for many
at once.

Letters: C clients, n the length of the constrained point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedkg.errors import SetError
from fedkg.pack.feasible_sets import KeptSet
from fedkg.projection.balls import L1Ball, L2Ball, LInfBall
from fedkg.projection.boxes_and_halfspaces import Affine, Box, HalfSpace
from fedkg.projection.monotone import MonotoneCone
from fedkg.projection.projection_set import ProjectionSet
from fedkg.projection.simplex import Simplex

JobNumbers = Mapping[str, float]
"""Values from the job for numbers that rules leave open, by argument name."""


def feasible_set(
    kept: KeptSet,
    clients: str | Sequence[str],
    given: JobNumbers | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> ProjectionSet:
    """The set with the numbers of one client, for points [..., n], or of many, for points [C, n] in
    their order.

    Args:
        kept: one of ``pack.manifest.sets``.
        clients: a name or node, or several.
        given: numbers that the rules leave to the job.

    Raises:
        SetError: the set has no numbers for a client, a number is missing, or there is no client.
    """
    if isinstance(clients, str):
        return _shaped(
            kept, torch.tensor(_numbers(kept, clients, given or {}), dtype=dtype).unbind(0)
        )
    if not clients:
        raise SetError(
            f"the set `{kept.name}` differs between clients, so it needs the names of clients",
            expected="at least one client",
        )
    rows = [_numbers(kept, client, given or {}) for client in clients]
    return _shaped(kept, torch.tensor(rows, dtype=dtype).reshape(len(rows), -1).unbind(1))


def _numbers(kept: KeptSet, client: str, given: JobNumbers) -> list[float]:
    found = kept.numbers_of(client)
    if found is None:
        raise SetError(
            f"the set `{kept.name}` has no numbers for the client `{client}`",
            expected=", ".join(c.client for c in kept.clients),
        )
    numbers = {
        name: given.get(name, math.nan) if number is None else number
        for name, number in found.items()
    }
    for name, number in numbers.items():
        if math.isnan(number):
            raise SetError(
                (
                    f"the rules leave `{name}` of the set `{kept.name}` to the job, which does "
                    "not give it"
                ),
                help=(
                    f"in the algorithm of a job: `agents: {{given: {{{name}: 20}}}}` or "
                    f"`sets: {{given: {{{name}: 20}}}}`; in Python: "
                    f'`feasible_set(kept, clients, {{"{name}": 20.0}})`'
                ),
            )
    return list(numbers.values())


def _shaped(kept: KeptSet, numbers: Sequence[Tensor]) -> ProjectionSet:
    """The set of a shape, from its numbers in the order of its arguments, each a number or [C]."""
    of = dict(zip(kept.arguments, numbers, strict=True))
    match kept.shape:
        case "box":
            return Box(_column(of.get("low"), -math.inf), _column(of.get("high"), math.inf))
        case "nonnegative":
            return Box(0.0)
        case "halfspace":
            return HalfSpace(torch.stack(list(numbers[:-1]), -1), numbers[-1])
        case "affine":
            return Affine(
                torch.stack(list(numbers[:-1]), -1).unsqueeze(-2), numbers[-1].unsqueeze(-1)
            )
        case "l1_ball":
            return L1Ball(of["radius"], _column(of.get("center"), 0.0))
        case "l2_ball":
            return L2Ball(of["radius"], _column(of.get("center"), 0.0))
        case "linf_ball":
            return LInfBall(of["radius"], _column(of.get("center"), 0.0))
        case "simplex":
            return Simplex(of["total"])
        case "monotone":
            return MonotoneCone()


def _column(number: Tensor | None, nothing: float) -> Tensor | float:
    return nothing if number is None else number.unsqueeze(-1)
