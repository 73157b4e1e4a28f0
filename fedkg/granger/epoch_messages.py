"""The batch mode as clients and a server carry it out, one message each way in an epoch.

A client sends the augmented states of all steps; the server returns the gradients of its loss with
respect to them. These are the messages of Mohanty et al. 2025, algorithm 2, for all steps of an
epoch at once, because parameters stay the same during an epoch of the batch mode. The parameters
equal those of `fedkg.granger.learn` in this mode up to rounding.

Letters: M clients, N steps of an epoch, S states of all clients, L lags, P states and D
measurements of a client, O states of the clients that may drive a client, at all lags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import FedkgError
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, Rates
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]

GROWTH = 1e-9
"""Share by which rounding may make the objective grow."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientEpochs:
    """The part of a client: it has the client's measurements, and returns states and sums.

    Attributes:
        client: the client.
        states: of its filter, [T, P].
        begin: the first step that is predicted, at least 1.
        end: one more than the last.
        rates: step sizes.
    """

    client: Client
    states: F64
    begin: int
    end: int
    rates: Rates

    @property
    def _before(self) -> slice:
        return slice(self.begin - 1, self.end - 1)

    def learn(self, theta: F64, gradients: F64) -> F64:
        """Theta [P, D] after a step along the client's loss and the server's gradients [N, P]."""
        y, rates = self.client.measurements[self._before], self.rates
        push = self._errors(theta) @ self._lift
        step = 2 * rates.client * (push.T @ y / len(y) - rates.ridge * theta)
        step -= rates.server * (gradients.T @ y / len(y))
        size = 1.0
        if rates.normalised is not None:
            size = rates.normalised + float((y**2).sum() / len(y))
        return np.asarray(theta + step / size, dtype=np.float64)

    def augment(self, theta: F64) -> F64:
        """The augmented states h_c + theta y before each step that is predicted, [N, P]."""
        before = self._before
        return np.asarray(self.states[before] + self.client.measurements[before] @ theta.T)

    def measure(self, theta: F64) -> float:
        """The client's loss (L_m)_a: the mean squared error of the next measurements."""
        errors = self._errors(theta)
        return float((errors**2).sum() / len(errors))

    @property
    def _lift(self) -> F64:
        return self.client.emission @ self.client.transition

    def _errors(self, theta: F64) -> F64:
        """What the augmented states miss of the next measurements, [N, D]."""
        return self.client.measurements[self.begin : self.end] - self.augment(theta) @ self._lift.T


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """What a client sends in an epoch.

    Attributes:
        augmented: its augmented states, [N, P].
        loss: (L_m)_a, a mean over the steps.
        size: the squared norm of theta.
        change: the squared norm of the last change of theta.
    """

    augmented: F64
    loss: float
    size: float
    change: float


Ask = Callable[[int, Sequence[F64] | None], Sequence[Estimates]]
"""Asks all clients for their estimates: the number of the epoch that begins, from 0, and the
gradients [N, P] for each client of the epoch before; None before the first."""


@dataclass(slots=True, kw_only=True, eq=False)
class Progress:
    """What the server remembers between epochs.

    Attributes:
        causes: the blocks A_mn, [S, L S].
        gradients: for each client, [N, P]; none before the first epoch.
        epochs: epochs that are finished.
        client_loss, server_loss: losses of each epoch, [M] each.
        change: the squared norm of the last change of `causes`.
    """

    causes: F64
    gradients: tuple[F64, ...] = ()
    epochs: int = 0
    client_loss: tuple[tuple[float, ...], ...] = ()
    server_loss: tuple[tuple[float, ...], ...] = ()
    change: float = 0.0

    @classmethod
    def of(cls, series: Series) -> Progress:
        """The progress before the first epoch."""
        total = series.states.shape[1]
        return cls(causes=np.zeros((total, series.lags * total)))


def learn_in_epochs(
    series: Series,
    rates: Rates,
    ask: Ask,
    *,
    epochs: int,
    tolerance: float = 0.0,
    progress: Progress | None = None,
    save: Callable[[Progress], None] = lambda progress: None,
) -> Learnt:
    """Learn which clients drive which, as the server of clients that keep their measurements.

    Args:
        series: the states of all clients. Measurements in it are not read.
        rates: step sizes.
        ask: asks the clients.
        epochs: maximum number.
        tolerance: stop once an epoch changes the parameters by no more than this share of their
            size.
        progress: where an earlier call stopped; None: begin.
        save: is called after every epoch.

    Returns:
        The result, without augmentations: these stay at the clients.

    Raises:
        FedkgError: the learning diverges; the message names the client.
    """
    now = Progress.of(series) if progress is None else progress
    server = ServerEpochs.of(series, rates)
    while True:
        estimates = ask(now.epochs, now.gradients or None)
        size = float((now.causes**2).sum()) + sum(one.size for one in estimates)
        change = now.change + sum(one.change for one in estimates)
        moved = (change / max(size, 1e-300)) ** 0.5
        if now.epochs and (moved <= tolerance or now.epochs >= epochs):
            break
        now = server.learn(now, estimates)
        save(now)
    return Learnt(
        causes=now.causes,
        augmentations=(),
        client_loss=np.array(now.client_loss),
        server_loss=np.array(now.server_loss).sum(1),
        moved=moved,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerEpochs:
    """The part of the server: it has the states of all clients.

    Attributes:
        series: the states of all clients.
        rates: step sizes.
        before: the states at all lags before each step that is predicted, [N, L S].
        sizes: for each column of `before` the mean squared states of its driver, [L S].
    """

    series: Series
    rates: Rates
    before: F64
    sizes: F64

    @classmethod
    def of(cls, series: Series, rates: Rates) -> ServerEpochs:
        """The server of a series, whose first L steps are not predicted."""
        before = series.regressors[series.lags - 1 : -1]
        sizes, total = (before**2).mean(0), series.states.shape[1]
        for lag in range(series.lags):
            for place in series.places:
                own = slice(lag * total + place.start, lag * total + place.stop)
                sizes[own] = sizes[own].sum()
        return cls(series=series, rates=rates, before=before, sizes=sizes)

    def learn(self, now: Progress, estimates: Sequence[Estimates]) -> Progress:
        """One epoch: gradients for the clients, and a step of the causes.

        Raises:
            FedkgError: the learning diverges.
        """
        series, rates = self.series, self.rates
        causes, gradients, losses = now.causes.copy(), [], []
        for m, (place, one) in enumerate(zip(series.places, estimates, strict=True)):
            drivers = series.drivers(m)
            row = now.causes[place][:, drivers]
            errors = self.predict_errors(m, one.augmented, now.causes)
            gradients.append(np.ascontiguousarray(2 * errors @ series.clients[m].transition))
            losses.append(float((errors**2).sum() / len(errors)))
            step = errors.T @ self.before[:, drivers] / len(errors) - rates.ridge * row
            size = 1.0 if rates.normalised is None else rates.normalised + self.sizes[drivers]
            causes[place, drivers] = row + 2 * rates.causes * step / size
        after = Progress(
            causes=causes,
            gradients=tuple(gradients),
            epochs=now.epochs + 1,
            client_loss=(*now.client_loss, tuple(one.loss for one in estimates)),
            server_loss=(*now.server_loss, tuple(losses)),
            change=float(((causes - now.causes) ** 2).sum()),
        )
        self._reject_divergence(after, now.causes, [one.size for one in estimates])
        return after

    def predict_errors(self, m: int, augmented: F64, causes: F64) -> F64:
        """e_m of every step: the next state from the client's augmented states, less that from the
        states of all clients, [N, P].

        Args:
            m: position of the client.
            augmented: its augmented states, [N, P].
            causes: the blocks A_mn, [S, L S].
        """
        series, place = self.series, self.series.places[m]
        drivers = series.drivers(m)
        added = augmented - self.before[:, place]  # the columns of the last step come first
        ahead = added @ series.clients[m].transition.T
        known = self.before[:, drivers] @ causes[place][:, drivers].T
        return np.asarray(ahead - known, dtype=np.float64)

    def _reject_divergence(self, after: Progress, causes: F64, sizes: Sequence[float]) -> None:
        """Raise FedkgError if two steps or more have made eta_1 L_a + eta_2 L_s of a client larger
        than it was, which they never do if the recursion converges.

        Args:
            after: the losses so far.
            causes: the blocks before the step.
            sizes: the squared norm of each client's theta before the step.
        """
        rates = self.rates
        for m, place in enumerate(self.series.places):
            first, last = (
                rates.client * after.client_loss[epoch][m]
                + rates.server * after.server_loss[epoch][m]
                for epoch in (0, -1)
            )
            last += rates.ridge * (
                rates.client * sizes[m] + rates.server * float((causes[place] ** 2).sum())
            )
            grown = after.epochs > 2 and last > first + GROWTH * abs(first) + 1e-12
            if grown or not np.isfinite(last):
                raise FedkgError(
                    f"{self.series.clients[m].name}: the learning diverges in epoch {after.epochs}",
                    received=f"an objective of {last:.3g} after {first:.3g}",
                    help="use smaller rates in `learning`: client, server and causes",
                )


def ask_here(sides: Sequence[ClientEpochs], thetas: list[F64]) -> Ask:
    """Clients in this process.

    Args:
        sides: their parts.
        thetas: theta of each client, which is replaced after every epoch.
    """

    def ask(epoch: int, gradients: Sequence[F64] | None) -> list[Estimates]:
        found = []
        for m, side in enumerate(sides):
            before = thetas[m]
            if gradients is not None:
                thetas[m] = side.learn(before, gradients[m])
            found.append(estimate(side, thetas[m], before))
        return found

    return ask


def estimate(side: ClientEpochs, theta: F64, before: F64) -> Estimates:
    """What a client sends with a theta, after the one before."""
    return Estimates(
        augmented=side.augment(theta),
        loss=side.measure(theta),
        size=float((theta**2).sum()),
        change=float(((theta - before) ** 2).sum()),
    )


def known_to_server(
    name: str, transition: F64, filtered: F64, *, measurements: int, steps: int
) -> Client:
    """A client as the server knows it: its own dynamics and its filter, and no measurements.

    Args:
        name: name of the client.
        transition: A, [P, P].
        filtered: K C, [P, P], which tests of edges in noise read.
        measurements: D, at least P.
        steps: T.

    Raises:
        UsageError: the matrices are of no stable filter.
    """
    states = len(transition)
    emission, gain = np.zeros((measurements, states)), np.zeros((states, measurements))
    emission[:states], gain[:, :states] = np.eye(states), filtered
    unknown = np.broadcast_to(np.zeros(measurements), (steps, measurements))
    return Client(
        name=name, transition=transition, emission=emission, gain=gain, measurements=unknown
    )
