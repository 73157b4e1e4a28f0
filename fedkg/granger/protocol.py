"""The learning as two parties carry it out, message by message: the reference of the fast loops,
and what privacy is put on.

A client holds its measurements and never hands out an array of their size: what leaves it are two
states a step, what comes back is one gradient. The server keeps the last states of all, as many
steps as the longest equation has lags: further lags are sent nowhere, and cost no privacy beyond
that of each step, for they are made of what was sent. A cover is for a change of a client's whole
record, see `fedkg.granger.differential_privacy`. A_mm of each client goes to the server before, in
clear: a cover is over the messages of the steps, not over what dynamics (and a gain) that were
fitted to the measurements say of them. Letters: P states, D measurements of a client, L lags.
Source: Mohanty et al. 2025, algorithm 2, with the corrected equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.differential_privacy import Cover, clip, clipped_rows, projected, response
from fedkg.granger.kalman import Client, estimated
from fedkg.granger.learn import Learnt, Rates
from fedkg.granger.moments import Series

F64 = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class ClientSide:
    """What runs at a client."""

    client: Client
    rates: Rates
    cover: Cover | None = None
    stream: np.random.Generator = field(default_factory=np.random.default_rng)
    theta: F64 = field(init=False)
    _y: F64 = field(init=False)
    _states: F64 = field(init=False)

    def __post_init__(self) -> None:
        client = self.client
        if self.cover is not None:
            far = response(
                client.transition, client.emission, client.gain, len(client.measurements)
            )
            if far > self.cover.response * (1 + 1e-9):  # rounding of sums and powers
                raise UsageError(
                    f"{client.name}: a change of the whole recording can move the filtered "
                    "states farther than `response`",
                    expected=f"at most {self.cover.response:g}",
                    received=f"{far:.4g} over {len(client.measurements)} steps",
                    help=(
                        "use a larger `response`, which needs more noise, or a filter with a"
                        " shorter memory"
                    ),
                )
            kept = clipped_rows(client.measurements, self.cover.measurement)
            client = Client(
                name=client.name,
                transition=client.transition,
                emission=client.emission,
                gain=client.gain,
                measurements=kept,
            )
        self._y, self._states = client.measurements, estimated(client)
        self.theta = np.zeros(client.gain.shape)

    def send(self, t: int) -> tuple[F64, F64]:
        """h_a and h_c of step t - 1: 2 P numbers."""
        plain = self._states[t - 1]
        moved = plain + self.theta @ self._y[t - 1]
        if self.cover is None:
            return moved, plain
        noise = self.stream.standard_normal((2, len(plain)))
        return (
            moved + self.cover.sigma_augmented * noise[0],
            plain + self.cover.sigma_filtered * noise[1],
        )

    def receive(self, t: int, gradient: F64) -> float:
        """Learn from the server's gradient, P numbers, and the client's own next measurement; its
        loss before that.
        """
        client, before = self.client, self._y[t - 1]
        lift = client.emission @ client.transition
        miss = self._y[t] - lift @ (self._states[t - 1] + self.theta @ before)
        push = 2 * self.rates.client * lift.T @ miss - self.rates.server * gradient
        size = (
            1.0 if self.rates.normalised is None else self.rates.normalised + float(before @ before)
        )
        self.theta = (
            self.theta
            + (np.outer(push, before) - 2 * self.rates.client * self.rates.ridge * self.theta)
            / size
        )
        if self.cover is not None:
            self.theta = projected(self.theta, self.cover.augmentation)
        return float(miss @ miss)


@dataclass(slots=True, eq=False)
class ServerSide:
    """What runs at the server: it knows every A_mm, and sees states alone; `drivers`: which of the
    states of L steps drive each client.
    """

    transitions: Sequence[F64]
    places: Sequence[slice]
    drivers: Sequence[NDArray[np.bool_]]
    rates: Rates
    cover: Cover | None = None
    stream: np.random.Generator = field(default_factory=np.random.default_rng)
    causes: F64 = field(init=False)
    _kept: F64 = field(init=False)

    def __post_init__(self) -> None:
        self.causes = np.zeros((self.places[-1].stop, len(self.drivers[0])))
        self._kept = np.zeros(len(self.drivers[0]))

    def keep(self, messages: Sequence[tuple[F64, F64]]) -> F64:
        """The states of the last L steps, the newest first: [L S]."""
        states = np.concatenate([plain for _, plain in messages])
        self._kept = np.concatenate([states, self._kept[: len(self._kept) - len(states)]])
        return self._kept

    def step(self, messages: Sequence[tuple[F64, F64]]) -> tuple[list[F64], float]:
        """The gradient for each client, and the loss; the causes are learnt from the old values (a
        Jacobi step).
        """
        states = self.keep(messages)
        gradients, loss = [], 0.0
        for m, (moved, plain) in enumerate(messages):
            place, drivers, own = self.places[m], self.drivers[m], self.transitions[m]
            seen = states * drivers
            miss = own @ (moved - plain) - self.causes[place] @ seen
            loss += float(miss @ miss)
            gradient = 2 * own.T @ miss
            if self.cover is not None:
                gradient = clip(
                    gradient, self.cover.gradient
                ) + self.cover.sigma_returned * self.stream.standard_normal(len(gradient))
            gradients.append(gradient)
            self.causes[place] += (
                2
                * self.rates.causes
                * (np.outer(miss, seen) - self.rates.ridge * self.causes[place])
                / self._sizes(seen)
            )
        return gradients, loss

    def _sizes(self, seen: F64) -> F64:
        """What a step along the states of a client's drivers is divided by, column by column:
        [S].
        """
        eps = self.rates.normalised
        if eps is None:
            return np.ones_like(seen)
        if self.rates.together:
            return np.full_like(seen, eps + seen @ seen)
        parts = [
            seen[start:][place]
            for start in range(0, len(seen), self.places[-1].stop)
            for place in self.places
        ]
        return eps + np.concatenate([np.full(len(part), part @ part) for part in parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Numbers sent in one step, and what sending all measurements would take; `once`: what is sent
    before the first step.
    """

    up: int
    down: int
    centralised: int
    once: int

    @property
    def saved(self) -> int:
        """Bytes saved a step on the way up, at 8 bytes a number, as the paper counts it."""
        return 8 * (self.centralised - self.up)


def traffic(series: Series) -> Traffic:
    """What one step sends: 2 P up and P down for each client, against D; before it A_mm and, for
    the tests in noise, K C: 2 P x P.
    """
    sizes = [len(client.transition) for client in series.clients]
    return Traffic(
        up=2 * sum(sizes),
        down=sum(sizes),
        centralised=sum(len(client.emission) for client in series.clients),
        once=sum(2 * size**2 for size in sizes),
    )


def exchanged(
    series: Series, rates: Rates, *, epochs: int = 1, cover: Cover | None = None, seed: int = 0
) -> Learnt:
    """The learning carried out message by message; without a cover what `learn` gives in the mode
    `sequential`, to rounding.
    """
    streams = np.random.default_rng(seed).spawn(len(series.clients) + 1)
    sides = [
        ClientSide(client, rates, cover, stream)
        for client, stream in zip(series.clients, streams, strict=False)
    ]
    drivers = [series.drivers(m) for m in range(len(sides))]
    server = ServerSide(
        [client.transition for client in series.clients],
        series.places,
        drivers,
        rates,
        cover,
        streams[-1],
    )
    steps, lags = len(series.states), series.lags
    own, shared = np.zeros((epochs, len(sides))), np.zeros(epochs)
    for number in range(epochs):
        for t in range(1, lags):
            server.keep([side.send(t) for side in sides])
        for t in range(lags, steps):
            gradients, loss = server.step([side.send(t) for side in sides])
            shared[number] += loss
            own[number] += [
                side.receive(t, gradient) for side, gradient in zip(sides, gradients, strict=True)
            ]
    return Learnt(
        causes=server.causes,
        augmentations=tuple(side.theta for side in sides),
        client_loss=own / (steps - lags),
        server_loss=shared / (steps - lags),
    )
