"""Compare an algorithm with a naive loop: a small federation as plain NumPy arrays, and as the
product's `Problem` and `Settings`. It needs the package `hypothesis`.

Write the loop from the paper alone. It reads the arrays of a `Federation` and shares with the
product only facts that no paper states: which rows make up a minibatch (`minibatches`), and the
layout of the model's parameters. The cohort of a round comes from its record.

Letters: N clients, n_k rows of client k, F features, H hidden units, O outputs, B rows of a
minibatch, P parameters end to end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedkg.federated import (
    Algorithm,
    BinaryCrossEntropy,
    Clients,
    CrossEntropy,
    Own,
    Problem,
    ServerState,
    Settings,
    SquaredError,
    WorkerPool,
    initial_state,
    train,
)
from fedkg.federated.client.batches import plan
from fedkg.federated.client.task_losses import Loss
from fedkg.federated.model.constrained_outputs import Informed
from fedkg.federated.randomness import ORDER, client_keys, server_seed
from fedkg.models import MLP

Array = NDArray[Any]
EXECUTORS = ("stacked", "sequential", *(() if "WITHOUT_WORKERS" in os.environ else ("processes",)))
"""Mutation tests run without worker processes, which take longer to start than all the rest."""
TOLERANCE = {"float64": 1e-9, "float32": 2e-3}
"""Largest difference to the loop, relative to the largest parameter.

Loops compute in float64; adaptive server steps and control variates divide rounding errors of
float32 by numbers down to 1e-3.
"""


@dataclass(frozen=True, kw_only=True)
class Round:
    """The result of one round.

    Attributes:
        models: the server's models [G, P].
        alpha: weight of each client in the aggregate, by position.
        own: what a client uses instead of the server's model [P], by position.
    """

    models: Array
    alpha: Mapping[int, float]
    own: Mapping[int, Array] = field(default_factory=dict)


Losses = Literal["squared", "cross_entropy", "logistic"]


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """Prior knowledge about the classes of rows [B, F] (Fan et al. 2022, definition 5.1).

    Attributes:
        allowed: bool [B, O], at least one class of each row.
        predicted: the predicted class [B], one that is allowed, or -1.
        trust: lambda.
    """

    allowed: Callable[[Array], Array]
    predicted: Callable[[Array], Array]
    trust: float


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Data and settings. The model is a network with one hidden layer, or linear.

    Attributes:
        x: of each client [n_k, F].
        y: [n_k, O], class numbers [n_k], or 0 and 1 [n_k] for `logistic`.
        server: the same of the server.
        hidden, outputs: H (0: a linear model) and O.
        activation: of the hidden layer.
        known: knowledge to inject into a classifier.
        own: (rate, epochs, batch) of single clients, None for the common ones.
        dtype, executor, chunk: how the product computes.
    """

    x: tuple[Array, ...]
    y: tuple[Array, ...]
    server: tuple[Array, Array]
    loss: Losses = "squared"
    hidden: int = 2
    activation: Literal["tanh", "relu"] = "tanh"
    known: Knowledge | None = None
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
        """Names and shapes of the model's parameters, in the order of the flat vector."""
        features = self.x[0].shape[1]
        widths = [features, *([self.hidden] if self.hidden else []), self.outputs]
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (before, after) in enumerate(pairwise(widths)):
            shapes |= {f"layers.{layer}.weight": (after, before), f"layers.{layer}.bias": (after,)}
        return shapes

    @property
    def head(self) -> Array:
        """Which parameters belong to the last layer, bool [P]."""
        body = self.hidden * (self.x[0].shape[1] + 1)
        return np.asarray(np.arange(self.parameters) >= body)

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

    def hidden_at(self, w: Array, x: Array) -> tuple[Array, Array]:
        """What the last layer reads [B, H], and the derivative of the activation there."""
        w0, b0, *_ = self.parts(w)
        z = x @ w0.T + b0
        if self.activation == "relu":
            return np.maximum(z, 0), (z > 0).astype(float)
        return np.tanh(z), 1 - np.tanh(z) ** 2

    def outputs_at(self, w: Array, x: Array) -> Array:
        """The model's answers [B, O]."""
        *_, weight, bias = self.parts(w)
        return (self.hidden_at(w, x)[0] if self.hidden else x) @ weight.T + bias

    def probabilities(self, z: Array, x: Array) -> Array:
        """The probabilities of the classes [B, O].

        The softmax combined with the knowledge about rows x (equations 2 and 3).
        """
        allowed = np.ones(z.shape, dtype=bool) if self.known is None else self.known.allowed(x)
        s = np.where(allowed, np.exp(z - np.where(allowed, z, -np.inf).max(1, keepdims=True)), 0)
        s /= s.sum(1, keepdims=True)
        if self.known is None:
            return s
        predicted = self.known.predicted(x)
        one_hot = np.eye(self.outputs)[predicted]
        mixed = (1 - self.known.trust) * s + self.known.trust * one_hot
        return np.where((predicted >= 0)[:, None], mixed, s)

    def losses(self, w: Array, x: Array, y: Array) -> Array:
        """The loss of each row [B]."""
        z = self.outputs_at(w, x)
        if self.loss == "squared":
            return np.asarray(((z - y) ** 2).mean(1))
        if self.loss == "logistic":
            return np.asarray(np.logaddexp(0, z[:, 0]) - y * z[:, 0])
        return -np.log(self.probabilities(z, x)[np.arange(len(y)), y])

    def slope(self, w: Array, x: Array, y: Array) -> Array:
        """The derivative of each row's loss with respect to the outputs, [B, O]."""
        z = self.outputs_at(w, x)
        if self.loss == "squared":
            return 2 * (z - y) / self.outputs
        if self.loss == "logistic":
            return 1 / (1 + np.exp(-z)) - y[:, None]
        rows, answer = np.arange(len(y)), self.probabilities(z, x)
        if self.known is None:
            answer[rows, y] -= 1
            return answer
        # Specification, section 3: -(1 - lambda) s_c / f_c (e_c - s), where a class is predicted.
        s = replace(self, known=replace(self.known, trust=0.0)).probabilities(z, x)
        trust = np.where(self.known.predicted(x) >= 0, self.known.trust, 0.0)
        scale = -(1 - trust) * s[rows, y] / answer[rows, y]
        return scale[:, None] * (np.eye(self.outputs)[y] - s)

    def gradient(self, w: Array, x: Array, y: Array, extra: Array | float = 0.0) -> Array:
        """The gradient of the mean loss, [P].

        extra: a term to add to each row's derivative with respect to the outputs, [B, O].
        """
        by_output = (self.slope(w, x, y) + extra) / len(x)
        if not self.hidden:
            return np.concatenate([(by_output.T @ x).ravel(), by_output.sum(0)])
        h, inner = self.hidden_at(w, x)
        by_hidden = by_output @ self.parts(w)[2] * inner
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
        """The same for the server's own rows."""
        x, y = self.server
        rows = self._drawn(server_seed(self.seed), number, 0, len(x), self.epochs, None)
        return [(x[index], y[index]) for index in rows]

    def cluster_minibatches(
        self, number: int, place: int, size: int, epochs: int
    ) -> Iterator[Array]:
        """Which of `size` rows a cluster trains on in each step after a round.

        `place` is its position among the clusters with members.
        """
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
        """The federation as a problem; changes: fields of `Problem`."""
        kind = torch.float64 if self.dtype == "float64" else torch.float32

        def targets(y: Array) -> torch.Tensor:
            return torch.from_numpy(y) if self.loss == "cross_entropy" else torch.tensor(y).to(kind)

        losses: dict[str, Loss] = {
            "squared": SquaredError(),
            "cross_entropy": CrossEntropy(),
            "logistic": BinaryCrossEntropy(),
        }

        def clients(
            names: tuple[str, ...], xs: tuple[Array, ...], ys: tuple[Array, ...]
        ) -> Clients:
            return Clients(
                names=names,
                x=tuple(torch.tensor(x).to(kind) for x in xs),
                y=tuple(targets(y) for y in ys),
            )

        whole = Problem(
            model=self.model if self.known is None else self._informed(self.known),
            loss=losses[self.loss],
            clients=clients(self.names, self.x, self.y),
            server_data=clients(("server",), (self.server[0],), (self.server[1],)),
        )
        return replace(whole, **changes)

    @property
    def model(self) -> MLP:
        """The model without knowledge."""
        return MLP(
            inputs=self.x[0].shape[1],
            hidden=(self.hidden,) if self.hidden else (),
            outputs=self.outputs,
            activation=self.activation,
        )

    def _informed(self, known: Knowledge) -> Informed:
        return Informed(
            model=self.model,
            range=lambda rows: torch.from_numpy(known.allowed(rows.numpy())),
            prediction=lambda rows: torch.from_numpy(known.predicted(rows.numpy())),
            trust=known.trust,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients."""
        return tuple(f"site_{k}" for k in range(len(self.x)))

    def settings(self) -> Settings:
        """The federation as settings."""
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
    """The state before the first round, with these models [G, P].

    It includes what clients store about the first one.
    """
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
    crew: WorkerPool | None = None,
    **changes: Any,
) -> tuple[list[ServerState], list[list[int]], list[dict[int, float]]]:
    """Run `fedkg.federated.train` from these models [G, P].

    Returns the states, the cohorts and the weights of all rounds.
    """
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
    """Assert that the product's numbers equal the loop's up to the precision of their type."""
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[federation.dtype] * size)


def same_rounds(
    federation: Federation,
    states: list[ServerState],
    weights: list[dict[int, float]],
    expected: list[Round],
) -> None:
    """Assert that all rounds give the same models and weights."""
    for state, weight, wanted in zip(states, weights, expected, strict=True):
        close(federation.flat(state.models), wanted.models, federation)
        assert weight.keys() == wanted.alpha.keys()
        tolerance = 1e-12 if federation.dtype == "float64" else 1e-5
        for client, alpha in wanted.alpha.items():
            assert abs(weight[client] - alpha) <= tolerance


@st.composite
def federations(
    draw: st.DrawFn,
    /,
    *,
    least: int = 1,
    most: int = 5,
    losses: tuple[Losses, ...] = ("squared", "cross_entropy", "logistic"),
    most_outputs: int = 2,
    whole: bool = False,
    own: bool = True,
    counted_steps: bool = False,
    executors: tuple[str, ...] = EXECUTORS,
    **fixed: Any,
) -> Federation:
    """Federations that differ in every option of the runtime.

    Args:
        least, most: number of clients.
        losses: one of these.
        most_outputs: of a model of numbers.
        whole: all clients take part in every round.
        own: single clients may have individual settings.
        counted_steps: all clients make equally many steps.
        fixed: fields that do not vary.
    """
    dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = dice.integers(1, 10, draw(st.integers(least, most))).tolist()
    chosen, features = draw(st.sampled_from(losses)), 2
    numbers = int(dice.integers(1, most_outputs + 1))
    outputs = {"squared": numbers, "cross_entropy": 3, "logistic": 1}[chosen]

    def rows(count: int) -> tuple[Array, Array]:
        x = dice.normal(size=(count, features))
        if chosen == "squared":
            return x, dice.normal(size=(count, outputs))
        if chosen == "logistic":
            return x, dice.integers(0, 2, count).astype(float)
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
        "hidden": draw(st.sampled_from([0, 2])),
        "activation": draw(st.sampled_from(["tanh", "relu"])),
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
    """Initial models, [G, P], all different."""
    return np.random.default_rng(seed).normal(size=(models, federation.parameters)) * 0.7
