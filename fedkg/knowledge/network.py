"""Earlier models as knowledge: dense layers, run in NumPy.

Letters: V views, B samples, C columns of the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np

from fedkg.knowledge.conditions import Float
from fedkg.pack import Pack
from fedkg.pack.knowledge import KnowledgeModel


def _sigmoid(x: Float) -> Float:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


ACTIVATIONS: dict[str, Callable[[Float], Float]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "gelu": lambda x: 0.5 * x * (1.0 + np.vectorize(erf, otypes=[np.float64])(x / np.sqrt(2.0))),
}


def answers(pack: Pack, model: KnowledgeModel, values: Float) -> Float:
    """The class position or number that the model's network gives, [B]; NaN where one of its inputs is unknown.

    Args:
        values: float64 [V, B, C] in source units.
    """
    network = model.network
    assert network is not None
    bank = pack.conditions[network.bank]
    x = (values[bank.views[0], :, bank.slots[0]].T - np.array(network.mean)) / np.array(network.std)
    for layer in network.layers:
        x = ACTIVATIONS[layer.activation](x @ pack.arrays[layer.weight].T + pack.arrays[layer.bias])
    match network.decision:
        case "largest":
            result = np.argmax(x, axis=1).astype(np.float64)
        case "probability":
            result = (x[:, 0] >= 0.5).astype(np.float64)
        case "logit":
            result = (x[:, 0] >= 0.0).astype(np.float64)
        case "number":
            result = x[:, 0] * network.scale + network.offset
    return np.where(np.isfinite(x).all(axis=1), result, np.nan)
