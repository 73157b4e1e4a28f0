"""Models as values: names and shapes of parameters, and pure functions over stacks of them."""

from collections.abc import Callable, Mapping
from functools import partial

from fedkg.models.convnet import ConvNet, Convolution, lenet5, small_cnn
from fedkg.models.graph_convolution import KnowledgeGraph
from fedkg.models.mlp import MLP, softmax_regression
from fedkg.models.model_protocols import (
    Differentiated,
    Gradient,
    Model,
    Outer,
    Params,
    Parted,
    names_of,
    predict,
)
from fedkg.models.noise import Noise
from fedkg.models.recurrent import Recurrent
from fedkg.models.tabnet import TabNet
from fedkg.models.torch_module import Module, module_at
from fedkg.models.transformer import Transformer

MODELS: Mapping[str, Callable[..., Model]] = {
    "softmax": softmax_regression,
    "mlp": MLP,
    "lenet5": lenet5,
    "cnn": small_cnn,
    "rnn": partial(Recurrent, cell="rnn"),
    "gru": partial(Recurrent, cell="gru"),
    "lstm": partial(Recurrent, cell="lstm"),
    "transformer": Transformer,
    "tabnet": TabNet,
    "module": module_at,
}
"""Models by name, with what makes them; a job names them in `model.kind`."""

__all__ = [
    "MLP",
    "MODELS",
    "ConvNet",
    "Convolution",
    "Differentiated",
    "Gradient",
    "KnowledgeGraph",
    "Model",
    "Module",
    "Noise",
    "Outer",
    "Params",
    "Parted",
    "Recurrent",
    "TabNet",
    "Transformer",
    "lenet5",
    "module_at",
    "names_of",
    "predict",
    "small_cnn",
    "softmax_regression",
]
