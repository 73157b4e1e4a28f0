"""Models as values: names and shapes of parameters, and pure functions over stacks of them."""

from collections.abc import Callable, Mapping
from functools import partial

from fedkg.models.convnet import ConvNet, Convolution, lenet5, small_cnn
from fedkg.models.graph_convolution import KnowledgeGraph
from fedkg.models.mlp import MLP, softmax_regression
from fedkg.models.model_protocols import (
    DifferentiatedModel,
    Gradient,
    Model,
    OuterProduct,
    Params,
    PartitionedModel,
    match_parameters,
    predict,
)
from fedkg.models.random_streams import Noise
from fedkg.models.recurrent import Recurrent
from fedkg.models.tabnet import TabNet
from fedkg.models.torch_module import TorchModule, load_torch_module
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
    "module": load_torch_module,
}
"""Constructors of models by name; a job names them in `model.kind`."""

__all__ = [
    "MLP",
    "MODELS",
    "ConvNet",
    "Convolution",
    "DifferentiatedModel",
    "Gradient",
    "KnowledgeGraph",
    "Model",
    "Noise",
    "OuterProduct",
    "Params",
    "PartitionedModel",
    "Recurrent",
    "TabNet",
    "TorchModule",
    "Transformer",
    "lenet5",
    "load_torch_module",
    "match_parameters",
    "predict",
    "small_cnn",
    "softmax_regression",
]
