"""Federated Granger learning as naive loops over steps and clients, with and without privacy.

Source: Mohanty et al. 2025, algorithm 2 with regressors at t - 1 everywhere, and section 7;
measurements are clipped to B_y, theta is projected to a spectral norm of B_theta. The loops and the
product draw noise in the same order.

Letters: M clients, T steps, P_m states and D_m measurements of client m, L lags, E epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.granger.kalman import Client

F64 = NDArray[np.float64]
Blocks = dict[tuple[int, int, int], F64]
SENT = 1.25
"""Constant of the formula of the Gaussian mechanism."""


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The learned parameters and losses.

    The blocks A_mn at each lag, theta of each client, and the losses [E, M] of the clients and [E]
    of the server.
    """

    causes: Blocks
    theta: list[F64]
    client_loss: F64
    server_loss: F64


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Step sizes and their normalisation.

    eta_1, eta_2, gamma and lambda; epsilon of normalised steps; whether the server divides by the
    norm of all drivers together.
    """

    client: float
    server: float
    causes: float
    ridge: float = 0.0
    normalised: float | None = None
    together: bool = False


def filtered(one: Client, y: F64) -> F64:
    """The states [T, P] of a client's filter: predict, then add the gain times the residual."""
    h = np.zeros(len(one.transition))
    found = []
    for row in y:
        predicted = one.transition @ h
        h = predicted + one.gain @ (row - one.emission @ predicted)
        found.append(h)
    return np.array(found)


def spread(bound: float, epsilon: float, delta: float) -> float:
    """The standard deviation of the Gaussian mechanism for a sensitivity."""
    return bound * np.sqrt(2 * np.log(SENT / delta)) / epsilon


def zeros(
    clients: Sequence[Client], allowed: NDArray[np.bool_], orders: Sequence[int]
) -> tuple[Blocks, list[F64]]:
    """Initial values: A_mn at each lag of client m's equation, and theta."""
    number = range(len(clients))
    sizes = [len(one.transition) for one in clients]
    blocks = {
        (m, n, lag): np.zeros((sizes[m], sizes[n]))
        for m in number
        for n in number
        if m != n and allowed[m, n]
        for lag in range(1, orders[m] + 1)
    }
    return blocks, [np.zeros_like(one.gain) for one in clients]


def sequential(  # one page, in the order of the paper's algorithm
    clients: Sequence[Client],
    allowed: NDArray[np.bool_],
    orders: Sequence[int],
    rates: Steps,
    epochs: int,
    cover: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Learned:
    """Algorithm 2, one sample per step."""
    number, lags = range(len(clients)), max(orders)
    streams = np.random.default_rng(seed).spawn(len(clients) + 1)
    ys = [one.measurements.copy() for one in clients]
    if cover is not None:
        for y in ys:
            for row in y:
                row *= min(1.0, cover["measurement"] / np.sqrt((row**2).sum()))
    own = [filtered(one, y) for one, y in zip(clients, ys, strict=True)]
    cause, theta = zeros(clients, allowed, orders)
    losses, total = np.zeros((epochs, len(clients))), np.zeros(epochs)
    for epoch in range(epochs):
        sent: list[list[F64]] = []  # h_c of all clients, one entry for each step
        for t in range(1, len(ys[0])):
            plain_states, augmented = [], []
            for m in number:
                h, a = own[m][t - 1], own[m][t - 1] + theta[m] @ ys[m][t - 1]
                if cover is not None:
                    noise = streams[m].standard_normal((2, len(h)))
                    far = 2 * cover["measurement"] * cover["response"]
                    further = 2 * cover["measurement"] * cover["augmentation"]
                    a = a + spread(far + further, cover["augmented"], cover["delta"]) * noise[0]
                    h = h + spread(far, cover["filtered"], cover["delta"]) * noise[1]
                plain_states.append(h)
                augmented.append(a)
            sent.append(plain_states)
            if t < lags:
                continue
            old = {key: block.copy() for key, block in cause.items()}
            gradients = []
            for m in number:
                a_mm = clients[m].transition
                e = a_mm @ (augmented[m] - plain_states[m])
                for (to, n, lag), block in old.items():
                    if to == m:
                        e = e - block @ sent[-lag][n]
                total[epoch] += e @ e
                u = 2 * a_mm.T @ e
                if cover is not None:
                    u = u * min(1.0, cover["gradient"] / np.sqrt(u @ u))
                    deviation = spread(2 * cover["gradient"], cover["returned"], cover["delta"])
                    u = u + deviation * streams[-1].standard_normal(len(u))
                gradients.append(u)
                drivers = [sent[-lag][n] for to, n, lag in old if to == m]
                whole = sum(h @ h for h in drivers)
                for (to, n, lag), block in old.items():
                    if to == m:
                        h, size = sent[-lag][n], 1.0
                        if rates.normalised is not None:
                            size = rates.normalised + (whole if rates.together else h @ h)
                        step = np.outer(e, h) - rates.ridge * block
                        cause[m, n, lag] = block + 2 * rates.causes * step / size
            for m in number:
                y, lift = ys[m][t - 1], clients[m].emission @ clients[m].transition
                r = ys[m][t] - lift @ (own[m][t - 1] + theta[m] @ y)
                losses[epoch, m] += r @ r
                step = 2 * rates.client * np.outer(lift.T @ r, y) - rates.server * np.outer(
                    gradients[m], y
                )
                step = step - 2 * rates.client * rates.ridge * theta[m]
                size = 1.0 if rates.normalised is None else rates.normalised + y @ y
                theta[m] = theta[m] + step / size
                if cover is not None:
                    u, s, v = np.linalg.svd(theta[m], full_matrices=False)
                    theta[m] = u @ np.diag(np.minimum(s, cover["augmentation"])) @ v
    counted = len(ys[0]) - lags
    return Learned(
        causes=cause, theta=theta, client_loss=losses / counted, server_loss=total / counted
    )


@dataclass(frozen=True, kw_only=True)
class Averages:
    """Gradients and losses of one client, averaged over the steps t = L + 1 .. T.

    The parameters stay the same during these steps.

    Attributes:
        up: <B^T r_a y^T>, [P, D].
        down: <A^T e y^T>, [P, D].
        pushes: <e h_n^T> of each driver and lag.
        own, server: <|r_a|^2> and <|e|^2>.
        size: <|y|^2>.
        sizes: <|h_n|^2> of each driver and lag.
    """

    up: F64
    down: F64
    pushes: Mapping[tuple[int, int, int], F64]
    own: float
    server: float
    size: float
    sizes: Mapping[tuple[int, int, int], float]


def averages(
    clients: Sequence[Client], m: int, states: Sequence[F64], causes: Blocks, theta: F64, lags: int
) -> Averages:
    """The averages of client m."""
    one, keys = clients[m], [key for key in causes if key[0] == m]
    lift, steps = one.emission @ one.transition, range(lags, len(one.measurements))
    up = down = np.zeros_like(theta)
    pushes = {key: np.zeros_like(causes[key]) for key in keys}
    sizes = dict.fromkeys(keys, 0.0)
    own = server = size = 0.0
    for t in steps:
        y = one.measurements[t - 1]
        r = one.measurements[t] - lift @ (states[m][t - 1] + theta @ y)
        drivers = {key: states[key[1]][t - key[2]] for key in keys}
        e = one.transition @ theta @ y - sum(causes[key] @ h for key, h in drivers.items())
        up, down = up + np.outer(lift.T @ r, y), down + np.outer(one.transition.T @ e, y)
        for key, h in drivers.items():
            pushes[key] = pushes[key] + np.outer(e, h)
            sizes[key] += float(h @ h)
        own, server, size = own + r @ r, server + e @ e, size + y @ y
    count = len(steps)
    return Averages(
        up=up / count,
        down=down / count,
        pushes={key: push / count for key, push in pushes.items()},
        own=float(own / count),
        server=float(server / count),
        size=float(size / count),
        sizes={key: total / count for key, total in sizes.items()},
    )


def on_averages(
    clients: Sequence[Client],
    allowed: NDArray[np.bool_],
    orders: Sequence[int],
    rates: Steps,
    epochs: int,
) -> Learned:
    """One step per epoch along averaged gradients (specification, section 3, mode `batch`)."""
    states = [filtered(one, one.measurements) for one in clients]
    causes, theta = zeros(clients, allowed, orders)
    losses, total = np.zeros((epochs, len(clients))), np.zeros(epochs)
    for epoch in range(epochs):
        known = [
            averages(clients, m, states, causes, theta[m], max(orders)) for m in range(len(clients))
        ]
        for m, one in enumerate(known):
            eps = rates.normalised
            push = (
                2 * rates.client * (one.up - rates.ridge * theta[m]) - 2 * rates.server * one.down
            )
            theta[m] = theta[m] + push / (1.0 if eps is None else eps + one.size)
            for key, block in one.pushes.items():
                size = 1.0 if eps is None else eps + one.sizes[key]
                step = block - rates.ridge * causes[key]
                causes[key] = causes[key] + 2 * rates.causes * step / size
            losses[epoch, m] = one.own
            total[epoch] += one.server
    return Learned(causes=causes, theta=theta, client_loss=losses, server_loss=total)


def at_rest(
    clients: Sequence[Client], allowed: NDArray[np.bool_], orders: Sequence[int], rates: Steps
) -> Learned:
    """The point where the averaged gradients vanish.

    They are affine in the parameters, so one linear system gives the point.
    """
    states = [filtered(one, one.measurements) for one in clients]
    causes, theta = zeros(clients, allowed, orders)
    own, total, lags = np.zeros((1, len(clients))), np.zeros(1), max(orders)
    for m in range(len(clients)):
        keys = [key for key in causes if key[0] == m]

        def gradient(flat: F64, m: int = m, keys: Sequence[tuple[int, int, int]] = keys) -> F64:
            part, blocks = flat[: theta[m].size].reshape(theta[m].shape), dict(causes)
            first = theta[m].size
            for key in keys:
                blocks[key] = flat[first : first + causes[key].size].reshape(causes[key].shape)
                first += causes[key].size
            known = averages(clients, m, states, blocks, part, lags)
            found = rates.client * (known.up - rates.ridge * part) - rates.server * known.down
            pushes = [known.pushes[key] - rates.ridge * blocks[key] for key in keys]
            return np.concatenate([found.ravel(), *(push.ravel() for push in pushes)])

        size = theta[m].size + sum(causes[key].size for key in keys)
        push = gradient(np.zeros(size))
        matrix = np.stack([push - gradient(one) for one in np.eye(size)], 1)
        solved = np.linalg.lstsq(matrix, push, rcond=None)[0]
        first = theta[m].size
        theta[m] = solved[:first].reshape(theta[m].shape)
        for key in keys:
            causes[key] = solved[first : first + causes[key].size].reshape(causes[key].shape)
            first += causes[key].size
        known = averages(clients, m, states, causes, theta[m], lags)
        own[0, m] = known.own
        total[0] += known.server
    return Learned(causes=causes, theta=theta, client_loss=own, server_loss=total)
