"""The pass through time in chunks of steps, as matrix products of all clients at once: for devices
on which single steps cost a launch.

Letters: M clients, T steps, G steps of a chunk, N columns of regressors (all clients, all lags), P
states and D measurements, the most of
any client: smaller ones are filled with zeros, which stay zeros.
Source: Mohanty et al. 2025, algorithm 2 with the corrected equations. Within a chunk that begins
with theta and A, what step t reads is

    d_t = p_t theta y_t + sum_{s < t} (p_t / p_{s+1}) u_s (y_s . y_t)
    e_t = A_mm d_t - A (q_t h_t) - sum_{s < t} e_s (c_s h_s / q_{s+1}) . (q_t h_t)

with u_s what step s pushes theta by, linear in d_s and e_s, c_s the server's rates, and p, q the
products of the ridge's shrinking. All d
and e of a chunk therefore solve one triangular system of 2 P G unknowns, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg.granger.learn import Learnt, Products, Rates, diverged, products_of
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]
STEPS = 64
"""Steps of a chunk: a triangle of 256 unknowns for clients of two states."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stacked:
    """All clients side by side on a device, float64.

    Attributes:
        seen: y, the measurements, [M, T, D].
        aligned: as in `fedkg.granger.learn.Products`, [M, T, P].
        surprise: as in `fedkg.granger.learn.Products`, [M, T].
        own: A_mm, [M, P, P].
        square: as in `fedkg.granger.learn.Products`, [M, P, P].
        before: h, the regressors, [T, N].
        learnt: [M, N], 1 for each column of the regressors that may drive the client, else 0.
        sizes: divisors of the server's steps, [1 or M, T, N or 1]; 1 without normalised steps.
        shift: factors of the steps of theta, [M, T]: 1 / (epsilon + |y|^2) with normalised steps,
            else 1.
    """

    seen: torch.Tensor
    aligned: torch.Tensor
    surprise: torch.Tensor
    own: torch.Tensor
    square: torch.Tensor
    before: torch.Tensor
    learnt: torch.Tensor
    sizes: torch.Tensor
    shift: torch.Tensor


def learn_in_chunks(
    series: Series,
    rates: Rates | None = None,
    *,
    epochs: int = 8,
    tolerance: float = 0.0,
    start: Learnt | None = None,
    device: torch.device | str = "cpu",
    chunk: int = STEPS,
) -> Learnt:
    """Learn what `fedkg.granger.learn.learn` learns one sample at a time, up to rounding errors, on
    any device with float64.

    Args:
        series: the states of all clients.
        rates: the learning rates; None: the default `Rates`.
        epochs: maximum number of passes over the steps.
        tolerance: stop once an epoch changes the parameters by no more than this share of their
            size, as `learn` does.
        start: initial parameters; None: zeros.
        device: the device to compute on.
        chunk: G.

    Raises:
        FedkgError: the learning diverges because the rates are too large; the message names the
            client and a possible rate.
    """
    chosen = Rates() if rates is None else rates
    known = _stacked(series, chosen, products_of(series), torch.device(device))
    row, theta = _initial(series, start, known)
    losses = []
    moved = 0.0
    for _ in range(epochs):
        old = row, theta
        client, server = [], []
        for begin in range(series.lags, len(series.states), chunk):
            row, theta, own, gap = _chunk(
                known, chosen, row, theta, begin, min(begin + chunk, len(series.states))
            )
            client.append(own)
            server.append(gap)
        both = torch.stack([torch.cat(client, 1), torch.cat(server, 1)])
        _check(series, chosen, both)
        losses.append(both.mean(2).cpu().numpy())
        change = sum(
            float(((new - was) ** 2).sum()) for new, was in zip((row, theta), old, strict=True)
        )
        moved = (change / max(float((row**2).sum() + (theta**2).sum()), 1e-300)) ** 0.5
        if moved <= tolerance:
            break
    found = np.array(losses)
    causes = np.concatenate(
        [
            own[: place.stop - place.start]
            for own, place in zip(row.cpu().numpy(), series.places, strict=True)
        ]
    )
    thetas = tuple(
        np.ascontiguousarray(own[: one.gain.shape[0], : one.gain.shape[1]])
        for own, one in zip(theta.cpu().numpy(), series.clients, strict=True)
    )
    return Learnt(
        causes=causes,
        augmentations=thetas,
        client_loss=found[:, 0],
        server_loss=found[:, 1].sum(1),
        moved=moved,
    )


def _stacked(series: Series, rates: Rates, products: Products, device: torch.device) -> _Stacked:
    most = max(len(client.transition) for client in series.clients)
    wide = max(client.measurements.shape[1] for client in series.clients)

    def filled(each: list[F64], shape: tuple[int, ...]) -> torch.Tensor:
        whole = np.zeros((len(each), *shape))
        for place, own in enumerate(each):
            part: tuple[int | slice, ...] = (place, *(slice(size) for size in own.shape))
            whole[part] = own
        return torch.from_numpy(whole).to(device)

    steps = len(series.states)
    seen = filled([client.measurements for client in series.clients], (steps, wide))
    eps = rates.normalised
    before = torch.from_numpy(products.regressors).to(device)
    learnt = torch.from_numpy(
        np.stack([series.drivers(m) for m in range(len(series.clients))]).astype(np.float64)
    ).to(device)
    sizes = torch.ones(1, steps, 1, dtype=before.dtype, device=device)
    if eps is not None:
        sizes = eps + (
            (learnt @ (before**2).mT)[..., None]
            if rates.together
            else torch.from_numpy(products.sizes).to(device)[None]
        )
    return _Stacked(
        seen=seen,
        aligned=filled(list(products.aligned), (steps, most)),
        surprise=filled(list(products.surprise), (steps,)),
        own=filled([client.transition for client in series.clients], (most, most)),
        square=filled(list(products.square), (most, most)),
        before=before,
        learnt=learnt,
        sizes=sizes,
        shift=torch.ones_like(seen[..., 0]) if eps is None else 1.0 / (eps + (seen**2).sum(-1)),
    )


def _initial(
    series: Series, start: Learnt | None, known: _Stacked
) -> tuple[torch.Tensor, torch.Tensor]:
    """The causes [M, P, N] and theta [M, P, D] that are begun with."""
    count, most, wide = len(series.clients), known.own.shape[1], known.seen.shape[2]
    row, theta = np.zeros((count, most, known.before.shape[1])), np.zeros((count, most, wide))
    if start is not None:
        for m, (place, own) in enumerate(zip(series.places, start.augmentations, strict=True)):
            row[m, : place.stop - place.start] = start.causes[place]
            theta[m, : own.shape[0], : own.shape[1]] = own
    return torch.from_numpy(row).to(known.own.device), torch.from_numpy(theta).to(known.own.device)


def _chunk(
    known: _Stacked, rates: Rates, row: torch.Tensor, theta: torch.Tensor, begin: int, end: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The causes and theta after the steps begin .. end - 1, and the losses [M, G] of client and
    server at each.
    """
    y, h = known.seen[:, begin - 1 : end - 1], known.before[begin - 1 : end - 1]
    aligned, shift = known.aligned[:, begin:end], known.shift[:, begin - 1 : end - 1]
    count, steps, most = aligned.shape
    pace = (
        2 * rates.causes * known.learnt[:, None] / known.sizes[:, begin - 1 : end - 1]
    )  # [M, G, N]
    shrink = torch.cumprod(1 - 2 * rates.client * rates.ridge * shift, 1)  # p_{s+1}, [M, G]
    fade = torch.cumprod(1 - rates.ridge * pace, 1)  # q_{s+1}, [M, G, N]
    reads = torch.cat([torch.ones_like(shrink[:, :1]), shrink[:, :-1]], 1)  # p_t
    faded = torch.cat([torch.ones_like(fade[:, :1]), fade[:, :-1]], 1) * h  # q_t h_t
    writes = pace * h / fade  # c_s h_s / q_{s+1}
    before = torch.ones(steps, steps, dtype=y.dtype, device=y.device).tril(-1)
    alike = before * (y @ y.mT) * reads[:, :, None] / shrink[:, None]  # [M, t, s]
    near = before * (faded @ writes.mT)
    push_d = (
        -2 * rates.client * known.square
    )  # what d_s and e_s push theta by, before it is divided
    push_e = -2 * rates.server * known.own.mT
    gain = 2 * rates.client * aligned * shift[..., None]
    scaled = alike * shift[:, None]  # of s
    eye = torch.eye(most, dtype=y.dtype, device=y.device)
    same = torch.eye(steps, dtype=y.dtype, device=y.device)
    first = (reads[..., None] * (y @ theta.mT)) + alike @ gain
    second = -(faded @ row.mT)

    def spread(over: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
        """Every entry of [M, t, s] times a block [M or 1, P, P]: [M, t, P, s, P]."""
        return over[:, :, None, :, None] * block[:, None, :, None, :]

    system = torch.zeros(count, steps, 2, most, steps, 2, most, dtype=y.dtype, device=y.device)
    system[:, :, 0, :, :, 0] = spread(same[None], eye[None]) - spread(scaled, push_d)
    system[:, :, 0, :, :, 1] = -spread(scaled, push_e)
    system[:, :, 1, :, :, 0] = -spread(same[None].expand(count, -1, -1), known.own)
    system[:, :, 1, :, :, 1] = spread(same[None], eye[None]) + spread(near, eye[None])
    size = 2 * most * steps
    right = torch.stack([first, second], 2).reshape(count, size, 1)
    solved = torch.linalg.solve_triangular(
        system.reshape(count, size, size), right, upper=False, unitriangular=True
    )
    d, e = solved.reshape(count, steps, 2, most).unbind(2)
    push = gain + (d @ push_d.mT + e @ push_e.mT) * shift[..., None]
    curved = d @ known.square.mT
    client = known.surprise[:, begin:end] + (d * (curved - 2 * aligned)).sum(-1)
    theta = shrink[:, -1, None, None] * (theta + (push / shrink[..., None]).mT @ y)
    row = fade[:, -1, None] * (row + e.mT @ writes)
    return row, theta, client, (e**2).sum(-1)


def _check(series: Series, rates: Rates, losses: torch.Tensor) -> None:
    """Raises FedkgError if a loss [2, M, T - L] is not finite."""
    broken = ~torch.isfinite(losses).all(0)
    if bool(broken.any()):
        m = int(broken.any(1).nonzero()[0])
        raise diverged(series, rates, m, f"at step {int(broken[m].nonzero()[0]) + series.lags}")
