"""Models as values: names and shapes of parameters, and pure functions over stacks of them."""

from collections.abc import Callable

from fedkg.models.mlp import MLP
from fedkg.models.model import Differentiated, Gradient, Model, Outer, Params, predict
from fedkg.models.noise import Noise

MODELS: dict[str, Callable[..., Model]] = {"mlp": MLP}
"""Models that a job may name, with what makes them; the keyword arguments are the job's model options."""

__all__ = ["MLP", "MODELS", "Differentiated", "Gradient", "Model", "Noise", "Outer", "Params", "predict"]
