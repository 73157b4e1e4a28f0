"""A small federation as plain NumPy arrays, and the same one as the product's `Problem` and `Settings`.

The loops of the conformance tests read the arrays and this module alone. What they share with the product are facts that no paper states:
which rows make up a minibatch (`minibatches`), and the layout of the model's parameters. The cohort of a round comes from its record.

Letters: N clients, n_k rows of client k, F features, H hidden units, O outputs, B rows of a minibatch, P parameters end to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedkg.federated import (
    Algorithm,
    Clients,
    Crew,
    CrossEntropy,
    Own,
    Problem,
    ServerState,
    Settings,
    SquaredError,
    initial_state,
    train,
)
from fedkg.federated.client.batches import plan
from fedkg.federated.randomness import ORDER, client_keys, server_seed
from fedkg.models import MLP

Array = NDArray[Any]
TOLERANCE = {"float64": 1e-9, "float32": 2e-3}
"""Largest difference to the loop, relative to the largest parameter. Loops compute in float64; adaptive server steps and control
variates divide rounding errors of float32 by numbers down to 1e-3."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one round leads to.

    Attributes:
        models: the server's models [G, P]. alpha: weight of each client in the aggregate, by position.
        own: what a client uses where that is not the server's model [P], by position.
    """

    models: Array
    alpha: Mapping[int, float]
    own: Mapping[int, Array] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Data and settings. The model is a tanh network with one hidden layer.

    Attributes:
        x: of each client [n_k, F]. y: [n_k, O], or class numbers [n_k]. server: the same of the server.
        hidden, outputs: H and O. own: (rate, epochs, batch) of single clients, None for as all do.
        dtype, executor, chunk: how the product computes.
    """

    x: tuple[Array, ...]
    y: tuple[Array, ...]
    server: tuple[Array, Array]
    loss: Literal["squared", "cross_entropy"] = "squared"
    hidden: int = 2
    outputs: int = 1
    rounds: int = 2
    participation: float = 1.0
    epochs: int | None = 1
    steps: int | None = None
    batch: int = 8
    rate: float = 0.1
    cosine: bool = False
    seed: int = 0
    own: Mapping[int, tuple[float | None, int | None, int | None]] = field(default_factory=dict)
    dtype: Literal["float64", "float32"] = "float64"
    executor: Literal["stacked", "sequential", "processes"] = "stacked"
    chunk: int | None = None

    @property
    def sizes(self) -> list[int]:
        """n_k of every client."""
        return [len(x) for x in self.x]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the model's parameters, in the order in which they stand end to end."""
        features = self.x[0].shape[1]
        return {
            "layers.0.weight": (self.hidden, features),
            "layers.0.bias": (self.hidden,),
            "layers.1.weight": (self.outputs, self.hidden),
            "layers.1.bias": (self.outputs,),
        }

    @property
    def head(self) -> Array:
        """Which parameters belong to the last layer, bool [P]."""
        body = self.hidden * (self.x[0].shape[1] + 1)
        return np.arange(self.parameters) >= body

    @property
    def parameters(self) -> int:
        """P."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def parts(self, w: Array) -> list[Array]:
        """The parameters [P] in their shapes."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        return [
            part.reshape(shape)
            for part, shape in zip(np.split(w, ends), self.shapes.values(), strict=True)
        ]

    def outputs_at(self, w: Array, x: Array) -> Array:
        """The model's answers [B, O]."""
        w0, b0, w1, b1 = self.parts(w)
        return np.tanh(x @ w0.T + b0) @ w1.T + b1

    def losses(self, w: Array, x: Array, y: Array) -> Array:
        """The loss of each row [B]."""
        z = self.outputs_at(w, x)
        if self.loss == "squared":
            return ((z - y) ** 2).mean(1)
        largest = z.max(1, keepdims=True)
        log_sum = np.log(np.exp(z - largest).sum(1)) + largest[:, 0]
        return log_sum - z[np.arange(len(y)), y]

    def slope(self, w: Array, x: Array, y: Array) -> Array:
        """The derivative of each row's loss by the outputs, [B, O]."""
        z = self.outputs_at(w, x)
        if self.loss == "squared":
            return 2 * (z - y) / self.outputs
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        return p

    def gradient(self, w: Array, x: Array, y: Array, extra: Array | float = 0.0) -> Array:
        """The gradient of the mean loss, [P]; extra: what is added to each row's derivative by the outputs, [B, O]."""
        w0, b0, w1, _ = self.parts(w)
        h = np.tanh(x @ w0.T + b0)
        by_output = (self.slope(w, x, y) + extra) / len(x)
        by_hidden = by_output @ w1 * (1 - h**2)
        return np.concatenate(
            [
                (by_hidden.T @ x).ravel(),
                by_hidden.sum(0),
                (by_output.T @ h).ravel(),
                by_output.sum(0),
            ]
        )

    def rate_of(self, number: int, client: int) -> float:
        """The learning rate of a client in round 1, 2, ..."""
        rate = self.own.get(client, (None, None, None))[0] or self.rate
        fall = (1 + np.cos(np.pi * (number - 1) / self.rounds)) / 2 if self.cosine else 1.0
        return float(rate * fall)

    def minibatches(self, number: int, client: int) -> list[tuple[Array, Array]]:
        """The rows x and y of each local step of a client in round 1, 2, ..."""
        _, epochs, batch = self.own.get(client, (None, None, None))
        rows = self._drawn(
            self.seed, number, client, self.sizes[client], epochs or self.epochs, batch
        )
        return [(self.x[client][index], self.y[client][index]) for index in rows]

    def server_minibatches(self, number: int) -> list[tuple[Array, Array]]:
        """The same of what the server trains on its own rows."""
        x, y = self.server
        rows = self._drawn(server_seed(self.seed), number, 0, len(x), self.epochs, None)
        return [(x[index], y[index]) for index in rows]

    def cluster_minibatches(
        self, number: int, place: int, size: int, epochs: int
    ) -> Iterator[Array]:
        """Which of so many rows the cluster at a place among those with members trains on in each step after a round."""
        return replace(self, steps=None)._drawn(self.seed, number + 1, place, size, epochs, None)

    def _drawn(
        self, seed: int, number: int, client: int, size: int, epochs: int | None, batch: int | None
    ) -> Iterator[Array]:
        batch = min(batch or self.batch, size)
        per_epoch = -(-size // batch)
        count = self.steps or per_epoch * (epochs or 1)
        drawn = plan(
            client_keys(seed, number, ORDER, torch.tensor([client])),
            torch.tensor([size]),
            torch.tensor([0]),
            torch.tensor([count]),
            batch,
            passes=self.steps is None,
            padding=-1,
        )
        rows = [drawn.index[step, 0, : int(drawn.counts[0, step])].numpy() for step in range(count)]
        if self.steps is None:  # each epoch sees every row once
            for first in range(0, count, per_epoch):
                epoch = np.concatenate(rows[first : first + per_epoch])
                assert sorted(epoch.tolist()) == list(range(size))
        else:  # each step draws without replacement
            assert all(len(set(one.tolist())) == batch for one in rows)
        return iter(rows)

    # The product's side.

    def problem(self, **changes: Any) -> Problem:
        """The same as a problem; changes: fields of `Problem`."""
        kind = torch.float64 if self.dtype == "float64" else torch.float32

        def targets(y: Array) -> torch.Tensor:
            return torch.from_numpy(y) if self.loss == "cross_entropy" else torch.tensor(y).to(kind)

        def clients(
            names: tuple[str, ...], xs: tuple[Array, ...], ys: tuple[Array, ...]
        ) -> Clients:
            return Clients(
                names=names,
                x=tuple(torch.tensor(x).to(kind) for x in xs),
                y=tuple(targets(y) for y in ys),
            )

        model = MLP(
            inputs=self.x[0].shape[1],
            hidden=(self.hidden,),
            outputs=self.outputs,
            activation="tanh",
        )
        whole = Problem(
            model=model,
            loss=SquaredError() if self.loss == "squared" else CrossEntropy(),
            clients=clients(self.names, self.x, self.y),
            root=clients(("server",), (self.server[0],), (self.server[1],)),
        )
        return replace(whole, **changes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients."""
        return tuple(f"site_{k}" for k in range(len(self.x)))

    def settings(self) -> Settings:
        """The same as settings."""
        own = {
            f"site_{k}": Own(learning_rate=rate, local_epochs=epochs, batch=batch)
            for k, (rate, epochs, batch) in self.own.items()
        }
        return Settings(
            rounds=self.rounds,
            participation=self.participation,
            local_epochs=self.epochs,
            local_steps=self.steps,
            batch=self.batch,
            learning_rate=self.rate,
            schedule="cosine" if self.cosine else "constant",
            seed=self.seed,
            own=own,
            executor=self.executor,
            chunk=self.chunk,
        )

    def stacked(self, models: Array) -> dict[str, torch.Tensor]:
        """Models [G, P] as the product's parameters, each [G, ...]."""
        kind = torch.float64 if self.dtype == "float64" else torch.float32
        each = [self.parts(w) for w in models]
        return {
            name: torch.tensor(np.stack([parts[place] for parts in each])).to(kind)
            for place, name in enumerate(self.shapes)
        }

    def flat(self, params: Mapping[str, torch.Tensor], prefix: str = "") -> Array:
        """The product's parameters, each [G, ...], as models [G, P]."""
        parts = [params[prefix + name].double().flatten(1).numpy() for name in self.shapes]
        return np.concatenate(parts, 1)


def begin(
    federation: Federation, problem: Problem, algorithm: Algorithm, models: Array
) -> ServerState:
    """The state before the first round, with these models [G, P] and what clients remember of the first one."""
    state = initial_state(
        problem,
        algorithm,
        federation.settings(),
        {name: value[0] for name, value in federation.stacked(models).items()},
    )
    return replace(state, models=federation.stacked(models))


def run(
    federation: Federation,
    algorithm: Algorithm,
    models: Array,
    crew: Crew | None = None,
    **changes: Any,
) -> tuple[list[ServerState], list[list[int]], list[dict[int, float]]]:
    """What `fedkg.federated.train` does from these models [G, P]: the states, the cohorts and the weights of all rounds."""
    problem = federation.problem(**changes)
    states, cohorts, weights = [], [], []
    for state, record in train(
        problem,
        algorithm,
        federation.settings(),
        begin(federation, problem, algorithm, models),
        crew=crew,
    ):
        cohort = [federation.names.index(name) for name in record.clients]
        expected = max(1, int(federation.participation * len(federation.x) + 0.5))
        assert len(set(cohort)) == len(cohort) == expected
        states.append(state)
        cohorts.append(cohort)
        weights.append(dict(zip(cohort, record.alpha, strict=True)))
    assert len(states) == federation.rounds
    return states, cohorts, weights


def close(found: Array, expected: Array, federation: Federation) -> None:
    """Assert that the product's numbers are the loop's, as far as the type of the numbers goes."""
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[federation.dtype] * size)


def same_rounds(
    federation: Federation,
    states: list[ServerState],
    weights: list[dict[int, float]],
    expected: list[Round],
) -> None:
    """Assert that all rounds lead to the same models and weights."""
    for state, weight, wanted in zip(states, weights, expected, strict=True):
        close(federation.flat(state.models), wanted.models, federation)
        assert weight.keys() == wanted.alpha.keys()
        tolerance = 1e-12 if federation.dtype == "float64" else 1e-5
        for client, alpha in wanted.alpha.items():
            assert abs(weight[client] - alpha) <= tolerance


@st.composite
def federations(
    draw: st.DrawFn,
    *,
    least: int = 1,
    most: int = 5,
    loss: Literal["squared", "cross_entropy"] | None = None,
    whole: bool = False,
    own: bool = True,
    counted_steps: bool = False,
    executors: tuple[str, ...] = ("stacked", "sequential", "processes"),
    **fixed: Any,
) -> Federation:
    """Federations that differ in everything the runtime lets differ.

    Args:
        least, most: number of clients. whole: all clients take part in every round. own: single clients may have settings of their own.
        counted_steps: all clients make equally many steps. fixed: fields that do not vary.
    """
    dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 9), min_size=least, max_size=most))
    chosen = loss or draw(st.sampled_from(["squared", "cross_entropy"]))
    features, outputs = 2, int(dice.integers(1, 3)) if chosen == "squared" else 3

    def rows(count: int) -> tuple[Array, Array]:
        x = dice.normal(size=(count, features))
        if chosen == "squared":
            return x, dice.normal(size=(count, outputs))
        return x, dice.integers(0, outputs, count)

    data = [rows(size) for size in sizes]
    epochs = None if counted_steps else draw(st.sampled_from([None, 1, 2]))
    single: dict[int, tuple[float | None, int | None, int | None]] = {}
    if own:
        for client in draw(st.sets(st.integers(0, len(sizes) - 1), max_size=2)):
            single[client] = (
                draw(st.sampled_from([None, 0.03, 0.3])),
                None if epochs is None else draw(st.sampled_from([None, 1, 3])),
                draw(st.sampled_from([None, 1, 4])),
            )
    fields: dict[str, Any] = {
        "x": tuple(x for x, _ in data),
        "y": tuple(y for _, y in data),
        "server": rows(4),
        "loss": chosen,
        "outputs": outputs,
        "rounds": draw(st.integers(1, 3)),
        "participation": 1.0 if whole else draw(st.sampled_from([0.3, 0.5, 0.6, 1.0])),
        "epochs": epochs,
        "steps": None if epochs is not None else draw(st.integers(1, 4)),
        "batch": draw(st.sampled_from([1, 2, 3, 16])),
        "rate": draw(st.sampled_from([0.05, 0.2])),
        "cosine": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
        "own": single,
        "dtype": draw(st.sampled_from(["float64", "float32"])),
        "executor": draw(st.sampled_from(executors)),
        "chunk": draw(st.sampled_from([None, 1, 2])),
    }
    return Federation(**(fields | fixed))


def start_of(federation: Federation, models: int = 1, seed: int = 0) -> Array:
    """Models to begin with, [G, P], all different."""
    return np.random.default_rng(seed).normal(size=(models, federation.parameters)) * 0.7
