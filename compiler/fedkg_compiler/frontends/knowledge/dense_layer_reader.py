"""Dense layers out of model files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.knowledge_models import Layer

Decision = Literal["largest", "probability", "logit", "number"]
ACTIVATIONS = ("none", "relu", "tanh", "sigmoid", "leaky_relu", "gelu")
DECISIONS = ("largest", "probability", "logit", "number")
_ONNX_ACTIVATIONS = {
    "Relu": "relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "LeakyRelu": "leaky_relu",
    "Gelu": "gelu",
}
_IGNORED = frozenset(
    {
        "Identity",
        "Dropout",
        "Cast",
        "Flatten",
        "Softmax",
        "LogSoftmax",
        "ArgMax",
        "Squeeze",
        "ZipMap",
    }
)
"""ONNX steps without effect on the order or the meaning of the answers."""


class Unreadable(Exception):
    """A model file that cannot be used: why, and what to do."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read:
    """A model file.

    Attributes:
        layers: the dense layers in order, with the names of their arrays.
        arrays: float64 arrays by name: weights [out, in] and biases [out], where ``in`` and ``out``
            are the numbers of inputs and outputs of the layer.
        metadata: the metadata of the file, as text.
        decision: how the output of the last layer is read; None if the file does not state it.
    """

    layers: tuple[Layer, ...]
    arrays: dict[str, NDArray[np.float64]]
    metadata: Mapping[str, str] = field(default_factory=dict)
    decision: Decision | None = None

    @property
    def inputs(self) -> int:
        """The number of inputs of the first layer."""
        return int(self.arrays[self.layers[0].weight].shape[1])

    @property
    def answers(self) -> int:
        """The number of outputs of the last layer."""
        return int(self.arrays[self.layers[-1].weight].shape[0])


def read_safetensors(body: bytes) -> Read:
    """The layers of a safetensors file. Raises Unreadable."""
    from safetensors import SafetensorError  # absent in a browser
    from safetensors.numpy import load

    try:
        tensors = load(body)
        length = int.from_bytes(body[:8], "little")
        metadata = json.loads(body[8 : 8 + length]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise Unreadable(
            f"is not a safetensors file: {error}",
            "export it with safetensors.torch.save_file(model.state_dict(), ...)",
        ) from None
    weights = sorted((name for name in tensors if name.endswith("weight")), key=_natural)
    activation = metadata.get("activation", "relu")
    if activation not in ACTIVATIONS:
        raise Unreadable(
            f"has the activation `{activation}`", f"use one of {', '.join(ACTIVATIONS)}"
        )
    layers, arrays = [], {}
    for i, name in enumerate(weights):
        bias = name.removesuffix("weight") + "bias"
        arrays[name] = tensors[name].astype(np.float64)
        if arrays[name].ndim != 2:
            raise Unreadable(
                f"has a tensor `{name}` that is not a dense layer",
                "export a model of dense layers only",
            )
        arrays[bias] = (
            tensors[bias].astype(np.float64) if bias in tensors else np.zeros(arrays[name].shape[0])
        )
        layers.append(
            Layer.model_validate(
                {
                    "weight": name,
                    "bias": bias,
                    "activation": activation if i + 1 < len(weights) else "none",
                }
            )
        )
    return _checked(
        Read(layers=tuple(layers), arrays=arrays, metadata=metadata, decision=_decision(metadata))
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Layers in the order in which people count: 2 before 10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _decision(metadata: Mapping[str, str]) -> Decision | None:
    decision = metadata.get("decision")
    if decision is not None and decision not in DECISIONS:
        raise Unreadable(f"has the decision `{decision}`", f"use one of {', '.join(DECISIONS)}")
    return cast("Decision | None", decision)


def read_onnx(body: bytes) -> Read:
    """The layers of an ONNX file that is a chain of dense layers and activations.

    Raises Unreadable.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper
    from onnx.checker import ValidationError

    try:
        model = onnx.load_from_string(body)
    except (DecodeError, ValueError) as error:
        raise Unreadable(
            f"is not an ONNX file: {error}", "export it with torch.onnx.export"
        ) from None
    numbers: dict[str, NDArray[np.float64]] = {}
    for tensor in model.graph.initializer:
        try:
            numbers[tensor.name] = numpy_helper.to_array(tensor).astype(np.float64)
        except (ValueError, TypeError, LookupError, OSError, ValidationError) as error:
            raise Unreadable(
                f"has a tensor `{tensor.name}` that cannot be read as numbers: {error}",
                "export it with all weights in the one file",
            ) from None
    chain = _Chain()
    for node in model.graph.node:
        chain.take(node, numbers)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return _checked(
        Read(
            layers=tuple(chain.layers),
            arrays=chain.arrays,
            metadata=metadata,
            decision=_decision(metadata) or chain.decision,
        )
    )


class _Chain:
    """Dense layers, as the nodes of a graph add them one after the other."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.arrays: dict[str, NDArray[np.float64]] = {}
        self.decision: Decision | None = None

    def take(self, node: Any, numbers: Mapping[str, NDArray[np.float64]]) -> None:
        """Add one node of the graph. `Any`: onnx has no types. Raises Unreadable."""
        known = [numbers[name] for name in node.input if name in numbers]
        if node.op_type == "Gemm" and known and known[0].ndim == 2:
            settings = {item.name: item for item in node.attribute}
            scale = [settings[name].f if name in settings else 1.0 for name in ("alpha", "beta")]
            turned = "transB" in settings and settings["transB"].i == 1
            weight = scale[0] * (known[0] if turned else known[0].T)
            self._dense(
                weight, scale[1] * known[1].ravel() if len(known) > 1 else np.zeros(weight.shape[0])
            )
        elif node.op_type == "MatMul" and len(known) == 1 and known[0].ndim == 2:
            self._dense(known[0].T, np.zeros(known[0].shape[1]))
        elif (
            node.op_type == "Add"
            and len(known) == 1
            and self.layers
            and self.layers[-1].activation == "none"
        ):
            bias = self.arrays[self.layers[-1].bias]
            if known[0].size not in (1, bias.size):
                raise Unreadable(
                    f"adds {known[0].size} numbers to a layer with {bias.size} outputs",
                    "export a chain of dense layers only",
                )
            self.arrays[self.layers[-1].bias] = bias + known[0].ravel()
        elif (
            node.op_type == "Sigmoid"
            and self.layers
            and self.arrays[self.layers[-1].weight].shape[0] == 1
        ):
            self.decision = "logit"
        elif (
            node.op_type in _ONNX_ACTIVATIONS
            and self.layers
            and self.layers[-1].activation == "none"
        ):
            self.layers[-1] = self.layers[-1].model_copy(
                update={"activation": _ONNX_ACTIVATIONS[node.op_type]}
            )
        elif node.op_type not in _IGNORED:
            raise Unreadable(
                f"has a step `{node.op_type}` that is not a dense layer",
                "export a chain of dense layers only",
            )

    def _dense(self, weight: NDArray[np.float64], bias: NDArray[np.float64]) -> None:
        names = f"{len(self.layers)}.weight", f"{len(self.layers)}.bias"
        self.arrays[names[0]], self.arrays[names[1]] = np.ascontiguousarray(weight), bias
        self.layers.append(Layer(weight=names[0], bias=names[1]))


def _checked(read: Read) -> Read:
    if not read.layers:
        raise Unreadable("has no dense layer", "export a model of dense layers")
    for earlier, later in zip(read.layers, read.layers[1:], strict=False):
        if read.arrays[earlier.weight].shape[0] != read.arrays[later.weight].shape[1]:
            raise Unreadable(
                f"has layers that do not fit, `{earlier.weight}` and `{later.weight}`",
                "number them in their order: 0.weight",
            )
    for layer in read.layers:
        weight, bias = read.arrays[layer.weight], read.arrays[layer.bias]
        if (
            bias.shape != (weight.shape[0],)
            or not np.isfinite(weight).all()
            or not np.isfinite(bias).all()
        ):
            raise Unreadable(
                f"has a layer `{layer.weight}` that does not fit its bias or is not finite",
                "export it again",
            )
    return read
