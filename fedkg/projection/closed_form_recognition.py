"""Recognition of polytopes that are sets with a closed-form projection.

Letters: n the length of a point, m inequalities, q equations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedkg.errors import SetError
from fedkg.projection.boxes_and_halfspaces import Affine, Box, HalfSpace
from fedkg.projection.monotone import MonotoneCone
from fedkg.projection.projection_set import ProjectionSet
from fedkg.projection.set_arguments import convert_numbers
from fedkg.projection.simplex import Simplex


def recognise_closed_form(
    G: Tensor, h: Tensor, E: Tensor | None = None, f: Tensor | None = None
) -> ProjectionSet | None:
    """The set ``G v <= h, E v = f`` as a box, half-space, affine set, monotone cone or simplex, or
    None.

    Requires shared rows, G [m, n]; the set is differentiable in the ends.

    Raises:
        SetError: rows or ends that are not numbers.
    """
    G, h = (
        convert_numbers(part, f"recognised: {name}", "Tensor")
        for name, part in (("G", G), ("h", h))
    )
    E, f = (
        convert_numbers(part, f"recognised: {name}", "Tensor | None")
        for name, part in (("E", E), ("f", f))
    )
    if (
        G.ndim != 2
        or (E is not None and E.ndim != 2)
        or G.requires_grad
        or (E is not None and E.requires_grad)
    ):
        return None
    try:
        if E is None or f is None or not E.shape[0]:
            return _of_inequalities(G, h)
        if not G.shape[0]:
            return Affine(E, f)
        return _simplex(G, h, E, f)
    except (
        SetError,
        RuntimeError,
    ):  # empty, or inside a transform that hides numbers: the solver reports the error
        return None


def _of_inequalities(G: Tensor, h: Tensor) -> ProjectionSet | None:
    if not G.shape[0]:
        return Box()
    entries = (G != 0).sum(1)
    if bool((entries == 1).all()):
        return _box(G, h)
    if G.shape[0] == 1 and int(entries[0]) > 1:
        return HalfSpace(G[0], h[..., 0])
    return _chain(G, h)


def _box(G: Tensor, h: Tensor) -> Box:
    """The bounds from rows with one entry; the tightest of several on one side of an entry."""
    column = (G != 0).int().argmax(1)
    factor = G.gather(1, column[:, None]).squeeze(1)
    ends = h / factor
    index = column.expand(ends.shape)
    nothing = ends.new_full((*ends.shape[:-1], G.shape[1]), torch.inf)
    high = nothing.scatter_reduce(-1, index, torch.where(factor > 0, ends, torch.inf), "amin")
    low = (-nothing).scatter_reduce(-1, index, torch.where(factor < 0, ends, -torch.inf), "amax")
    return Box(low, high)


def _chain(G: Tensor, h: Tensor) -> MonotoneCone | None:
    """Rows ``c v_i - c v_{i+1} <= 0`` for every i, or all of them with the opposite sign."""
    n = G.shape[1]
    if G.shape[0] != n - 1 or h.requires_grad or bool((h != 0).any()):
        return None
    first = (G != 0).int().argmax(1).clamp(max=n - 2)
    lead = G.gather(1, first[:, None]).squeeze(1)
    steps = (
        torch.zeros_like(G)
        .scatter(1, first[:, None], lead[:, None])
        .scatter(1, first[:, None] + 1, -lead[:, None])
    )
    if not torch.equal(steps, G) or not torch.equal(
        first.sort().values, torch.arange(n - 1, device=G.device)
    ):
        return None
    return (
        MonotoneCone()
        if bool((lead > 0).all())
        else MonotoneCone(falling=True)
        if bool((lead < 0).all())
        else None
    )


def _simplex(G: Tensor, h: Tensor, E: Tensor, f: Tensor) -> Simplex | None:
    """A row ``-c v_i <= 0`` for every entry, and one equation for the sum of all."""
    n = G.shape[1]
    one = E[0] == E[0, 0]
    signs = (
        G.shape == (n, n)
        and bool(((G != 0).sum(1) == 1).all())
        and bool(((G != 0).sum(0) == 1).all())
        and bool((G <= 0).all())
    )
    if (
        E.shape[0] != 1
        or not bool(one.all())
        or not signs
        or h.requires_grad
        or bool((h != 0).any())
        or float(E[0, 0]) == 0
    ):
        return None
    return Simplex(f[..., 0] / E[0, 0])
