"""Learning who drives whom: step by step as the paper has it, on averages, or at once.

Letters: M clients, T steps, S states of all clients, L lags, P states of a client, D measurements
of a client, E epochs.
Source: Mohanty et al. 2025, algorithm 2 and section 5, with the corrected equations (16) - (24).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.threads import run_in_parts
from fedkg.errors import FedkgError, UsageError
from fedkg.granger.learning_fixed_point import curvature, recursion, resting
from fedkg.granger.moments import Moments, Series, moments, surprises
from fedkg.granger.scans import epoch

F64 = NDArray[np.float64]
Mode = Literal["sequential", "batch", "closed_form"]

MOST_UNKNOWNS = 600
"""Unknowns of a client up to which the eigenvalues of its recursion are computed: a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Step sizes.

    Attributes:
        client: eta_1, by which a client follows its own loss.
        server: eta_2, by which it follows the server's gradient; 0: not at all.
        causes: gamma, by which the server learns.
        ridge: lambda, the weight of squared parameters.
        normalised: epsilon, where steps are divided by it and the squared norm of what they are
            taken along, for each driver its own; None: they are not.
        together: the server's normalised steps of one sample are divided by the norm of all drivers
            of a client instead. Drivers that go with each other make <h_n h_p^T / (epsilon +
            |h_n|^2)> a matrix that may have eigenvalues below 0, along which small steps of any
            size run away slowly; one divisor for all keeps it positive. With one driver both are
            the same.
    """

    client: float = 5e-4
    server: float = 5e-5
    causes: float = 1e-4
    ridge: float = 0.0
    normalised: float | None = None
    together: bool = False

    def __post_init__(self) -> None:
        if min(self.client, self.server, self.causes, self.ridge) < 0 or self.client == 0:
            raise UsageError(
                "rates must be at least 0, and the rate of the clients above 0",
                received=f"client {self.client:g}, server {self.server:g}, causes "
                f"{self.causes:g}, ridge {self.ridge:g}",
            )
        if self.normalised is not None and not self.normalised > 0:
            raise UsageError(
                "`normalised` must be above 0: each step is divided by this number "
                "plus the size of the drivers",
                received=f"normalised={self.normalised}",
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learnt:
    """The result of causal learning.

    Attributes:
        causes: the blocks A_mn, [S, L S], lag after lag. The blocks of a client on itself, those
            that the prior rules out, and those of more lags than the driven client has are 0.
        augmentations: theta of each client, [P, D].
        client_loss: mean of each client's loss (L_m)_a over the steps, [E, M].
        server_loss: mean of the server's loss L_s over the steps, [E].
        moved: change of all parameters in the last epoch as a share of their size; 0 at the fixed
            point.
    """

    causes: F64
    augmentations: tuple[F64, ...]
    client_loss: F64
    server_loss: F64
    moved: float = 0.0

    def block(self, series: Series, m: int, n: int, lag: int = 1) -> F64:
        """A_mn, [P_m, P_n]: the effect of client n on client m after `lag` steps."""
        total = series.states.shape[1]
        return self.causes[:, (lag - 1) * total : lag * total][series.places[m], series.places[n]]

    def strengths(self, series: Series) -> F64:
        """The Frobenius norm of every block, [L, M, M]: the score of a cause; row m, column n: n
        drives m.
        """
        clients, lags = range(len(series.clients)), range(1, series.lags + 1)
        return np.array(
            [
                [[np.linalg.norm(self.block(series, m, n, lag)) for n in clients] for m in clients]
                for lag in lags
            ]
        )

    def strength(self, series: Series) -> F64:
        """The norm of every block over all lags together, [M, M]."""
        return np.asarray(np.sqrt((self.strengths(series) ** 2).sum(0)))


def learn(
    series: Series,
    rates: Rates | None = None,
    *,
    mode: Mode = "sequential",
    epochs: int = 8,
    tolerance: float = 0.0,
    enough: float = 0.0,
    start: Learnt | None = None,
    products: Products | None = None,
) -> Learnt:
    """Learn which clients drive which, from the states of all clients.

    Args:
        mode: ``sequential``: one sample per step, as published; ``batch``: gradients averaged over
            time, one step per epoch; ``closed_form``: the fixed point of both, directly.
        epochs: maximum number.
        tolerance: stop once an epoch changes the parameters by no more than this share of their
            size.
        enough: stop once the server's loss is at most this, after the first epoch. The loss starts
            at zero, and does not show convergence if the causes are weak.
        start: initial parameters; None: zeros. From zeros, directions without excitation stay at
            zero (erratum E13).
        products: precomputed products of the series, to learn from it several times; None: compute
            them.

    Raises:
        FedkgError: the learning diverges because the rates are too large; the message names the
            client and a possible rate.
    """
    chosen = Rates() if rates is None else rates
    if mode == "closed_form":
        return at_rest(series, chosen)
    total = series.states.shape[1]
    row = np.zeros((total, series.lags * total)) if start is None else start.causes.copy()
    thetas = [
        np.zeros(client.gain.shape) if start is None else start.augmentations[m].copy()
        for m, client in enumerate(series.clients)
    ]
    passes = (
        _Sequential(series, chosen, products or products_of(series))
        if mode == "sequential"
        else _Batch(series, chosen)
    )
    losses: list[F64] = []
    moved = 0.0
    for number in range(epochs):
        before = np.concatenate([row.ravel(), *(theta.ravel() for theta in thetas)])
        losses.append(passes.step(row, thetas))
        after = np.concatenate([row.ravel(), *(theta.ravel() for theta in thetas)])
        moved = float(np.linalg.norm(after - before)) / max(float(np.linalg.norm(after)), 1e-300)
        if moved <= tolerance or (number and losses[-1][:, 1].sum() <= enough):
            break
    found = np.array(losses)
    return Learnt(
        causes=row,
        augmentations=tuple(thetas),
        client_loss=found[..., 0],
        server_loss=found[..., 1].sum(1),
        moved=moved,
    )


def course_of(found: Learnt, mode: Mode, tolerance: float) -> str:
    """Whether the learning came to rest, in a sentence that can be believed: steps that are small
    are called small, not zero.
    """
    epochs = len(found.server_loss)
    if mode == "closed_form":
        return "the learning is at its point of rest"
    if found.moved <= tolerance:
        return (
            f"the learning settled: epoch {epochs} changed the parameters by {found.moved:.2g} of"
            " their size"
        )
    return (
        f"the learning has not settled: epoch {epochs} still changed the parameters by"
        f" {found.moved:.2g} of their size (`learning.tolerance` {tolerance:g}); more `epochs`, or"
        " `mode: closed_form`"
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Products:
    """Products of the data that the steps of one sample read and never change.

    B = C A is the product of a client's emission and transition, r_c its surprise (see `surprises`
    in `fedkg.granger.moments`).

    Attributes:
        aligned: B^T r_c of each client, [T, P].
        surprise: |r_c|^2 of each client, [T].
        square: B^T B of each client, [P, P].
        regressors: the states of all clients at all lags, [T, L S].
        sizes: [T, L S], for each column of `regressors` the squared norm of the states of its
            driver.
    """

    aligned: tuple[F64, ...]
    surprise: tuple[F64, ...]
    square: tuple[F64, ...]
    regressors: F64
    sizes: F64


def products_of(series: Series) -> Products:
    """The products of a series, once for all epochs."""
    lifts = [client.emission @ client.transition for client in series.clients]
    found = [surprises(series, m) for m in range(len(series.clients))]
    norms = [
        np.repeat((series.states[:, place] ** 2).sum(1, keepdims=True), place.stop - place.start, 1)
        for place in series.places
    ]
    return Products(
        aligned=tuple(
            np.ascontiguousarray(one @ lift) for one, lift in zip(found, lifts, strict=True)
        ),
        surprise=tuple(np.ascontiguousarray((one**2).sum(1)) for one in found),
        square=tuple(np.ascontiguousarray(lift.T @ lift) for lift in lifts),
        regressors=np.ascontiguousarray(series.regressors),
        sizes=np.ascontiguousarray(replace(series, states=np.concatenate(norms, 1)).regressors),
    )


class _Sequential:
    """Epochs of one sample a step.

    Clients do not read each other's parameters, so each processes all steps separately.
    """

    def __init__(self, series: Series, rates: Rates, products: Products) -> None:
        self.series, self.rates, self.products = series, rates, products

    def step(self, row: F64, thetas: Sequence[F64]) -> F64:
        """One epoch, in place; the losses [M, 2] of clients and server, means over the steps.

        Raises FedkgError.
        """
        series, rates, known = self.series, self.rates, self.products
        eps = -1.0 if rates.normalised is None else rates.normalised
        steps = np.array(
            [rates.client, rates.server, rates.causes, rates.ridge, eps, float(rates.together)]
        )
        losses, broken = (
            np.zeros((len(series.clients), 2)),
            np.zeros(len(series.clients), dtype=np.int64),
        )

        def work(start: int, stop: int) -> None:
            for m in range(start, stop):
                client, place = series.clients[m], series.places[m]
                broken[m] = epoch(
                    client.measurements,
                    known.regressors,
                    series.lags,
                    known.aligned[m],
                    known.surprise[m],
                    client.transition,
                    known.square[m],
                    thetas[m],
                    row[place],
                    series.drivers(m)[: series.order(m) * len(row)].astype(np.float64),
                    known.sizes,
                    steps,
                    losses[m],
                )

        run_in_parts(len(series.clients), 1, work)
        for m in np.flatnonzero(broken).tolist():
            raise diverged(series, rates, m, f"at step {int(broken[m])}")
        return losses / (len(series.states) - series.lags)


class _Batch:
    """Epochs of one step on averages.

    Normalised, a client's steps are divided by its mean |y|^2, the server's by the driver's |h|^2.
    """

    def __init__(self, series: Series, rates: Rates) -> None:
        self.series, self.rates = series, rates
        self.known = [moments(series, m) for m in range(len(series.clients))]
        self.losses: list[tuple[float, float]] = []
        self.sums: list[list[float]] = []  # Phi of each client at the start, and at last
        self.sizes = [step_sizes(series, rates, m, known) for m, known in enumerate(self.known)]

    def step(self, row: F64, thetas: Sequence[F64]) -> F64:
        """One step, in place; the losses [M, 2] before it. Raises FedkgError."""
        rates, before = self.rates, self.losses or self._losses(row, thetas)
        for m, known in enumerate(self.known):
            place, drivers = self.series.places[m], self.series.drivers(m)
            own, theta = row[place][:, drivers], thetas[m]
            ahead = known.transition @ theta
            miss = ahead @ known.joint - own @ known.driving  # <e h^T>
            client = known.surprise - known.square @ theta @ known.measured  # <B^T r_a y^T>
            server = known.transition.T @ (ahead @ known.measured - own @ known.joint.T)
            size, sizes = self.sizes[m]
            row[place, drivers] = own + 2 * rates.causes * (miss - rates.ridge * own) / sizes
            theta += (
                2 * rates.client * (client - rates.ridge * theta) - 2 * rates.server * server
            ) / size
        self.losses = self._losses(row, thetas)
        return np.array(before)

    def _losses(self, row: F64, thetas: Sequence[F64]) -> list[tuple[float, float]]:
        """The losses of clients and server.

        Raises:
            FedkgError: two steps or more have made Phi = eta_1 L_a + eta_2 L_s larger than it was,
                which they never do with rho(H) < 1.
        """
        rates, losses, sums = self.rates, [], []
        for m, known in enumerate(self.known):
            own = row[self.series.places[m]][:, self.series.drivers(m)]
            client, server = losses_of(known, thetas[m], own)
            losses.append((client, server))
            sums.append(rates.client * (client + rates.ridge * float((thetas[m] ** 2).sum())))
            sums[m] += rates.server * (server + rates.ridge * float((own**2).sum()))
            grown = (
                len(self.sums) > 1
                and sums[m] > self.sums[0][m] + 1e-9 * abs(self.sums[0][m]) + 1e-12
            )
            if grown or not np.isfinite(sums[m]):
                raise diverged(self.series, rates, m, "on averages")
        self.sums = [*self.sums[:1], sums]
        return losses


def losses_of(known: Moments, theta: F64, row: F64) -> tuple[float, float]:
    """The means of (L_m)_a and of |e_m|^2 for parameters that stay; theta: [P, D], row: [P, O]."""
    ahead = known.transition @ theta
    client = (
        known.loss
        - 2 * float((theta * known.surprise).sum())
        + float((theta * (known.square @ theta @ known.measured)).sum())
    )
    server = float((ahead * (ahead @ known.measured)).sum()) - 2 * float(
        (row * (ahead @ known.joint)).sum()
    )
    return client, server + float((row * (row @ known.driving)).sum())


def at_rest(series: Series, rates: Rates) -> Learnt:
    """Where the learning comes to rest, of all such points that of the least norm: what `learn`
    reaches from zero.
    """
    return at_rest_by(series, [moments(series, m) for m in range(len(series.clients))], rates)


def at_rest_by(series: Series, known: Sequence[Moments], rates: Rates) -> Learnt:
    """The same from averages of each client; `series` says who the clients are and who may drive
    whom.
    """

    total = sum(len(client.transition) for client in series.clients)
    row, thetas, losses = np.zeros((total, series.lags * total)), [], []
    for m, own in enumerate(known):
        theta, causes = resting(own, rates.client, rates.server, rates.ridge)
        row[series.places[m], series.drivers(m)] = causes
        thetas.append(theta)
        losses.append(losses_of(own, theta, causes))
    found = np.array(losses)[None]
    return Learnt(
        causes=row,
        augmentations=tuple(thetas),
        client_loss=found[..., 0],
        server_loss=found[..., 1].sum(1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """How fast the batch learning of one client converges (Mohanty et al. 2025, section 5).

    Attributes:
        radius: rho(H); the learning converges below 1.
        distance: the spectral norm of I - H.
        convexity: mu, the least curvature of the common objective; 0 without strong convexity.
        smoothness: L, its greatest curvature.
    """

    radius: float
    distance: float
    convexity: float
    smoothness: float


def convergence_of(series: Series, rates: Rates, m: int) -> Convergence | None:
    """The convergence of client m with the rates of `mode: batch`.

    None with more than `MOST_UNKNOWNS` unknowns, which would take minutes.
    """
    known = moments(series, m)
    states, seen = known.surprise.shape
    if states * (seen + len(known.driving)) > MOST_UNKNOWNS:
        return None
    size, sizes = step_sizes(series, rates, m, known)
    matrix = recursion(
        known,
        client=rates.client / size,
        server=rates.server / size,
        causes=rates.causes / sizes,
        ridge=rates.ridge,
    )
    least, most = curvature(
        known, client=rates.client / size, server=rates.server / size, ridge=rates.ridge
    )
    return Convergence(
        radius=matrix.radius, distance=matrix.distance, convexity=max(0.0, least), smoothness=most
    )


def step_sizes(series: Series, rates: Rates, m: int, known: Moments) -> tuple[float, F64]:
    """What the batch steps of client m and, [O], of the server for it are divided by."""
    eps = rates.normalised
    if eps is None:
        return 1.0, np.ones(len(known.driving))
    norms = np.zeros(series.lags * series.states.shape[1])
    norms[series.drivers(m)] = np.diag(known.driving)
    total = series.states.shape[1]
    for lag in range(series.lags):
        for place in series.places:
            own = slice(lag * total + place.start, lag * total + place.stop)
            norms[own] = norms[own].sum()
    return eps + float(np.trace(known.measured)), eps + norms[series.drivers(m)]


def stability(series: Series, rates: Rates, m: int) -> float:
    """max_t (2 eta_1 |C A|^2 + 2 eta_2 |A|^2) |y^t|^2 of client m: single-sample steps are stable
    below 2 (section 5).
    """
    client = series.clients[m]
    lift = float(np.linalg.norm(client.emission @ client.transition, 2)) ** 2
    own = float(np.linalg.norm(client.transition, 2)) ** 2
    return (2 * rates.client * lift + 2 * rates.server * own) * float(
        (client.measurements**2).sum(1).max()
    )


def drive_stability(series: Series, rates: Rates, m: int) -> float:
    """max_t 2 gamma |h^t|^2 over the states that may drive client m, the same for the server's
    steps.
    """
    return (
        2
        * rates.causes
        * float((series.regressors[:, series.drivers(m)] ** 2).sum(1).max(initial=0.0))
    )


def diverged(series: Series, rates: Rates, m: int, where: str) -> FedkgError:
    """Return the message for diverging parameters of client m: the responsible rate, and its
    limit.
    """
    client, causes = stability(series, rates, m), drive_stability(series, rates, m)
    if (
        rates.normalised is not None
    ):  # divided by no less than the squared norms, of each driver or of all together
        client /= float((series.clients[m].measurements ** 2).sum(1).max()) or 1.0
        causes = (
            2
            * rates.causes
            * (
                1
                if rates.together
                else series.order(m) * int(np.delete(series.allowed[m], m).sum())
            )
        )
    if causes > client:
        number, used, advice = (
            causes,
            f"`causes` {rates.causes:g}",
            f"`causes` of at most {rates.causes / causes:.2g}",
        )
    else:
        usable = rates.client * min(1.0, 1.0 / client) if client > 0 else rates.client
        number, used = client, f"`client` {rates.client:g} and `server` {rates.server:g}"
        advice = (
            f"`client` and `server` rates of at most {usable:.2g} and "
            f"{rates.server * usable / rates.client:.2g}"
        )
    return FedkgError(
        f"{series.clients[m].name}: the learning diverges {where}",
        expected="rate times curvature of the loss below 2",
        received=f"{number:.3g} with {used}",
        help=(
            f"use {advice}"
            if rates.normalised is not None
            else f"use {advice}, or normalised steps, one sample at a time"
        ),
    )
