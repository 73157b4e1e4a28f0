"""Trained models as knowledge: dense layers, evaluated in NumPy.

Letters: B samples, I inputs of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf

import numpy as np
from numpy.typing import NDArray

from fedkg.knowledge.clause_conditions import Float
from fedkg.pack.knowledge_models import Network


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


def run_network(
    network: Network, arrays: Mapping[str, NDArray[np.generic]], inputs: Float
) -> Float:
    """The class position or number that a network returns, [B]; NaN if one of its inputs is
    unknown.

    Args:
        arrays: the pack's, with the layers' weights.
        inputs: float64 [B, I] in source units.
    """
    x = (inputs - np.array(network.mean)) / np.array(network.std)
    for layer in network.layers:
        x = ACTIVATIONS[layer.activation](x @ arrays[layer.weight].T + arrays[layer.bias])
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
