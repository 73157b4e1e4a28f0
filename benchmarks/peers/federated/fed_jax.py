"""FedJAX's simulation and its federated averaging on the workload: `python fed_jax.py FOLDER`.

Source: Google; Ro, Suresh and Wu, 2021. Clients run one after the other, each step compiled for a
whole minibatch, as its backend for CPUs does. It runs on two processors. Its last release calls a
JAX function by a name that JAX has since removed; this module restores that name.

Letters: B samples, F values of a step, T steps of time, U width of the cells.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # before it counts them

import fedjax  # noqa: E402  # it counts the processors
import jax  # noqa: E402  # it counts the processors
import jax.numpy as jnp  # noqa: E402  # it counts the processors
import numpy as np  # noqa: E402  # it counts the processors
from contender_protocol import Asked, Given  # noqa: E402  # it counts the processors

jax.tree_map = jax.tree_util.tree_map

Answer = Callable[[dict[str, Any], Any], Any]
"""The outputs from the parameters and samples."""


def affine(params: dict[str, Any], name: str, x: Any) -> Any:
    return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]


def mlp(params: dict[str, Any], x: Any) -> Any:
    return affine(
        params, "4", jax.nn.relu(affine(params, "2", jax.nn.relu(affine(params, "0", x))))
    )


def lstm(shape: dict[str, int]) -> Answer:
    """The forecaster over a series [B, T, F], or over the windows that end at its last steps."""
    window = shape["window"]

    def layer(params: dict[str, Any], place: int, x: Any) -> Any:
        """The states [T, B, U] of one layer for x [T, B, F]."""
        bias = params[f"cells.bias_ih_l{place}"] + params[f"cells.bias_hh_l{place}"]
        read, inner = (
            x @ params[f"cells.weight_ih_l{place}"].T + bias,
            params[f"cells.weight_hh_l{place}"].T,
        )

        def step(state: Any, now: Any) -> Any:
            hidden, cell = state
            enter, forget, new, leave = jnp.split(now + hidden @ inner, 4, axis=1)
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zero = jnp.zeros((x.shape[1], shape["hidden"]), x.dtype)
        return jax.lax.scan(step, (zero, zero), read)[1]

    def answer(params: dict[str, Any], x: Any) -> Any:
        if window:
            first = shape["history"] - window - shape["horizon"] + 1
            places = first + np.arange(x.shape[1] - first - window + 1)[:, None] + np.arange(window)
            x = x[:, places].reshape(len(x), len(places), -1)
        states = x.swapaxes(0, 1)
        for place in range(shape["layers"]):
            states = layer(params, place, states)
        if window:
            return affine(params, "head", states.swapaxes(0, 1)).reshape(len(x), -1)
        return affine(params, "head", states[-1])

    return answer


def main() -> None:
    work = Given(sys.argv[1])
    answer: Answer = mlp if work.kind == "mlp" else lstm(work.shape)

    def losses(params: dict[str, Any], batch: Any, key: Any) -> Any:
        """The loss of each sample, [B]; the key is unused, because the models have no dropout."""
        output = answer(params, batch["x"])
        if work.kind.startswith("lstm"):
            return jnp.square(output - batch["y"]).mean(1)
        return -jnp.take_along_axis(jax.nn.log_softmax(output), batch["y"][:, None], axis=1)[:, 0]

    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        grad_fn=fedjax.grad(losses),
        client_optimizer=fedjax.optimizers.sgd(work.rate),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=work.batch, num_epochs=1, seed=0
        ),
    )
    federation = fedjax.InMemoryFederatedData(
        {
            client: {"x": np.asarray(x), "y": np.asarray(y)}
            for client, (x, y) in enumerate(zip(work.x, work.y, strict=True))
        }
    )
    state = algorithm.init({name: jnp.asarray(value) for name, value in work.start().items()})
    x, y = work.probed()
    asked = Asked(work.folder, lambda: float(losses(state.params, {"x": x, "y": y}, None).mean()))
    for number, cohort in enumerate(work.cohorts):
        asked.wait()
        keys = jax.random.split(jax.random.PRNGKey(number), len(cohort))
        members = federation.get_clients(cohort.tolist())
        state, _ = algorithm.apply(
            state, [(client, rows, key) for (client, rows), key in zip(members, keys, strict=True)]
        )
        jax.block_until_ready(state.params)
        asked.done()
    asked.wait()


if __name__ == "__main__":
    main()
