"""Layers over a stack of clients: pure functions of parameters [C, ...] and values [C, B, ...], and
initial parameters.

Letters: C clients of a stack, B batch, O and I output and input width of a layer, J further
dimensions of a value (time steps).
"""

from __future__ import annotations

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.model_protocols import Params
from fedkg.models.random_streams import Noise, fold, uniform

INIT = 0x696E6974
"""The word under which models derive the random numbers of initial parameters from a seed."""


def require_positive(model: object, *names: str) -> None:
    """Raise JobError for the first of these attributes of a model that is, or has, a size below 1.

    None, for a size that follows from others, is allowed.
    """
    for name in names:
        value = getattr(model, name)
        sizes = value if isinstance(value, tuple) else (1 if value is None else value,)
        if min(sizes, default=1) < 1:
            raise JobError(
                f"`{name}` of the model has a size below 1",
                expected="1 or more",
                received=", ".join(map(str, sizes)),
                help=f"correct `{name}`",
            )


def uniform_start(key: Tensor, shape: tuple[int, ...], bound: float, dtype: torch.dtype) -> Tensor:
    """Numbers uniform in plus/minus `bound`, drawn in float64 and then rounded, so that all dtypes
    start equal.
    """
    return (uniform(key, shape) * (2 * bound) - bound).to(dtype)


def start_affine(
    key: Tensor, name: str, shape: tuple[int, ...], dtype: torch.dtype, *, bias: bool = True
) -> Params:
    """``name.weight`` of a shape [O, I, ...] and ``name.bias`` [O], uniform in plus/minus 1/sqrt(I
    ...), like PyTorch's layers.
    """
    bound = prod(shape[1:]) ** -0.5
    params = {f"{name}.weight": uniform_start(fold(key, 0), shape, bound, dtype)}
    if bias:
        params[f"{name}.bias"] = uniform_start(fold(key, 1), shape[:1], bound, dtype)
    return params


def start_norm(name: str, width: int, dtype: torch.dtype) -> Params:
    """``name.weight`` and ``name.bias`` of a normalisation, 1 and 0."""
    return {
        f"{name}.weight": torch.ones(width, dtype=dtype),
        f"{name}.bias": torch.zeros(width, dtype=dtype),
    }


def broadcast_samples(x: Tensor, clients: int, dims: int) -> Tensor:
    """Samples of `dims` dimensions as [C, B, ...]: unchanged, or shared ones [B, ...] expanded to
    every client (a view).
    """
    return x if x.dim() == dims + 2 else x.expand(clients, *x.shape)


def dense(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """x @ weight^T + bias for a stack: weight [C, O, I], bias [C, O], x [C, B, I] or [B, I]; result
    [C, B, O].
    """
    clients, outputs, inputs = weight.shape
    if x.dim() == 2:
        # All models read the same rows: one wide product instead of C narrow ones.
        flat = F.linear(
            x, weight.reshape(clients * outputs, inputs), None if bias is None else bias.reshape(-1)
        )
        return flat.view(x.shape[0], clients, outputs).transpose(0, 1)
    if clients == 1:
        return F.linear(
            x.squeeze(0), weight.squeeze(0), None if bias is None else bias.squeeze(0)
        ).unsqueeze(0)
    if bias is None:
        return torch.bmm(x, weight.transpose(1, 2))
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


def dense_along(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """`dense` on the last dimension of x [C, B, J..., I]; result [C, B, J..., O]."""
    return dense(weight, bias, x.flatten(1, -2)).view(*x.shape[:-1], weight.shape[1])


def convolve(weight: Tensor, bias: Tensor, x: Tensor, padding: int) -> Tensor:
    """Two-dimensional convolutions of a stack, [C, B, O, h', w'].

    weight [C, O, I, k, k], bias [C, O], x [C, B, I, h, w].

    The clients are the groups of one grouped convolution, their channels side by side.
    """
    clients, outputs, inputs = weight.shape[:3]
    batch = x.shape[1]
    side = x.transpose(0, 1).reshape(batch, clients * inputs, *x.shape[3:])
    out = F.conv2d(side, weight.flatten(0, 1), bias.flatten(), padding=padding, groups=clients)
    return out.view(batch, clients, outputs, *out.shape[2:]).transpose(0, 1)


def normalise(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """Layer normalisation (Ba, Kiros and Hinton, 2016) over the last dimension of x [C, B, J...,
    I]; weight, bias [C, I].
    """
    shape = (weight.shape[0], *(1,) * (x.dim() - 2), weight.shape[1])
    return F.layer_norm(x, x.shape[-1:]) * weight.view(shape) + bias.view(shape)


def apply_dropout(x: Tensor, noise: Noise | None, site: int, rate: float) -> Tensor:
    """x [C, B, ...] with a share `rate` of its values zeroed and the rest scaled by 1 / (1 - rate);
    unchanged without noise.
    """
    if noise is None or not rate:
        return x
    keep = noise.keep_mask(site, (x.shape[0], x.shape[1], x[0, 0].numel()), rate).view(x.shape)
    return x * (keep.to(x.dtype) * (1.0 / (1.0 - rate)))
