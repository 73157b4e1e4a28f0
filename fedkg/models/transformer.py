"""A Transformer forecaster over a stack of clients, after Vaswani and others (2017), in FedSTL's
settings.

Letters: C clients of a stack, B batch, T steps of the history, F features of a step, P steps of the
forecast, O values of each, D width of the model, J steps of an input, A attention heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.layers import (
    INIT,
    apply_dropout,
    broadcast_samples,
    dense_along,
    normalise,
    require_positive,
    start_affine,
    start_norm,
    uniform_start,
)
from fedkg.models.model_protocols import Params
from fedkg.models.random_streams import Noise, fold, root


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Encoder and decoder layers over a window [B, T, F] that forecast P steps of O values.

    The decoder layers read the last P steps and attend to the encoder's result; a linear map turns
    each of the P steps into O values. The outputs are [C, B, P * O], step by step.

    The decoder reads the end of the history, not its own forecasts: all P steps are computed at
    once, equally in training and in use, and no mask is needed. (FedSTL's code feeds the targets,
    shifted by one, in training.) Layers are PyTorch's (normalisation after each sum, rectifier),
    and so are the names below ``encoder.layers.0.`` and ``decoder.layers.0.``.

    As in FedSTL, clients share ``encoder_input_layer``, ``decoder_input_layer`` and
    ``linear_mapping``; the layers of attention are the head (`PartitionedModel`).

    Args:
        features: F.
        history: T.
        horizon: P, at most T.
        outputs: O.
        width: D, even and a multiple of `heads`.
        encoders: number of encoder layers.
        decoders: number of decoder layers.
        heads: A.
        feed: width inside the dense blocks.
        dropout: share of values that are zeroed in training inside the layers.
        position_dropout: share of values that are zeroed in training after positions are added.

    Raises:
        JobError: for widths below 1 or that do not divide, a horizon beyond the history, a dropout
            outside 0 .. 1.
    """

    features: int = 1
    history: int = 120
    horizon: int = 24
    outputs: int = 1
    width: int = 120
    encoders: int = 2
    decoders: int = 2
    heads: int = 2
    feed: int = 200
    dropout: float = 0.2
    position_dropout: float = 0.1

    def __post_init__(self) -> None:
        lengths = ("features", "history", "horizon", "outputs")
        require_positive(self, *lengths, "width", "encoders", "decoders", "heads", "feed")
        if self.width % 2 or self.width % self.heads:
            raise JobError(
                "the Transformer's width must be even and a multiple of its heads",
                received=f"width {self.width}, {self.heads} heads",
            )
        if self.horizon > self.history:
            raise JobError(
                "the horizon is longer than the history",
                expected=f"at most {self.history} steps",
                received=f"{self.horizon} steps",
            )
        if not (0.0 <= self.dropout < 1.0 and 0.0 <= self.position_dropout < 1.0):
            raise JobError(
                "the model's dropout is out of range",
                expected="0 <= dropout < 1",
                received=f"{self.dropout}, {self.position_dropout}",
            )

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`."""
        return {
            "body": ("encoder_input_layer.", "decoder_input_layer.", "linear_mapping."),
            "head": ("encoder.", "decoder."),
        }

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`: dense layers start like PyTorch's, the joint projection of attention
        after Glorot, its biases at 0.
        """
        keys = _keys(root(seed, INIT))
        params = start_affine(next(keys), "encoder_input_layer", (self.width, self.features), dtype)
        params |= start_affine(
            next(keys), "decoder_input_layer", (self.width, self.features), dtype
        )
        for side, count in (("encoder", self.encoders), ("decoder", self.decoders)):
            for layer in range(count):
                name = f"{side}.layers.{layer}"
                attentions = (
                    ("self_attn",) if side == "encoder" else ("self_attn", "multihead_attn")
                )
                for attention in attentions:
                    params |= _start_attention(next(keys), f"{name}.{attention}", self.width, dtype)
                params |= start_affine(
                    next(keys), f"{name}.linear1", (self.feed, self.width), dtype
                )
                params |= start_affine(
                    next(keys), f"{name}.linear2", (self.width, self.feed), dtype
                )
                for norm in range(1, len(attentions) + 2):
                    params |= start_norm(f"{name}.norm{norm}", self.width, dtype)
        return params | start_affine(
            next(keys), "linear_mapping", (self.outputs, self.width), dtype
        )

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, T, F] or [B, T, F]."""
        x = broadcast_samples(x, params["linear_mapping.bias"].shape[0], 2)
        sites = iter(range(1 << 20))
        seen = self._entered(params, "encoder", x, noise, next(sites))
        for layer in range(self.encoders):
            seen = self._layer(params, f"encoder.layers.{layer}", seen, None, noise, sites)
        value = self._entered(params, "decoder", x[:, :, -self.horizon :], noise, next(sites))
        for layer in range(self.decoders):
            value = self._layer(params, f"decoder.layers.{layer}", value, seen, noise, sites)
        return dense_along(
            params["linear_mapping.weight"], params["linear_mapping.bias"], value
        ).flatten(2)

    def _entered(
        self, params: Mapping[str, Tensor], side: str, x: Tensor, noise: Noise | None, site: int
    ) -> Tensor:
        """Input steps [C, B, J, F] of the layers, as [C, B, J, D]."""
        value = dense_along(
            params[f"{side}_input_layer.weight"], params[f"{side}_input_layer.bias"], x
        )
        return apply_dropout(
            value + positions(x.shape[2], self.width).to(x), noise, site, self.position_dropout
        )

    def _layer(
        self,
        params: Mapping[str, Tensor],
        name: str,
        x: Tensor,
        seen: Tensor | None,
        noise: Noise | None,
        sites: Iterator[int],
    ) -> Tensor:
        """One layer on [C, B, J, D]: self-attention, then attention to `seen` if it exists, then
        the dense block.
        """

        def summed(part: Tensor, norm: int) -> Tensor:
            weight, bias = params[f"{name}.norm{norm}.weight"], params[f"{name}.norm{norm}.bias"]
            return normalise(
                weight, bias, x + apply_dropout(part, noise, next(sites), self.dropout)
            )

        x = summed(self._attend(params, f"{name}.self_attn", x, x, noise, next(sites)), 1)
        if seen is not None:
            x = summed(
                self._attend(params, f"{name}.multihead_attn", x, seen, noise, next(sites)), 2
            )
        inner = torch.relu(
            dense_along(params[f"{name}.linear1.weight"], params[f"{name}.linear1.bias"], x)
        )
        inner = apply_dropout(inner, noise, next(sites), self.dropout)
        outer = dense_along(params[f"{name}.linear2.weight"], params[f"{name}.linear2.bias"], inner)
        return summed(outer, 2 if seen is None else 3)

    def _attend(
        self,
        params: Mapping[str, Tensor],
        name: str,
        x: Tensor,
        seen: Tensor,
        noise: Noise | None,
        site: int,
    ) -> Tensor:
        """Attention of A heads from x [C, B, J, D] to `seen` [C, B, J', D]."""
        weight, bias = params[f"{name}.in_proj_weight"], params[f"{name}.in_proj_bias"]
        width = self.width
        if seen is x:
            query, key, value = dense_along(weight, bias, x).chunk(3, -1)
        else:
            query = dense_along(weight[:, :width], bias[:, :width], x)
            key, value = dense_along(weight[:, width:], bias[:, width:], seen).chunk(2, -1)
        query, key, value = (
            part.view(*part.shape[:-1], self.heads, -1).transpose(2, 3)
            for part in (query, key, value)
        )
        share = torch.softmax(query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        joined = (
            (apply_dropout(share, noise, site, self.dropout) @ value).transpose(2, 3).flatten(3)
        )
        return dense_along(
            params[f"{name}.out_proj.weight"], params[f"{name}.out_proj.bias"], joined
        )


def positions(steps: int, width: int) -> Tensor:
    """Position encodings, float64 [J, D]: sines and cosines of wavelengths from 2 pi to 10000 times
    2 pi (Vaswani, section 3.5).
    """
    angle = torch.arange(steps, dtype=torch.float64).unsqueeze(1) * torch.exp(
        torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width)
    )
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


def _keys(key: Tensor) -> Iterator[Tensor]:
    """One key per layer, in the order of the layers."""
    word = 0
    while True:
        yield fold(key, word)
        word += 1


def _start_attention(key: Tensor, name: str, width: int, dtype: torch.dtype) -> Params:
    joint = uniform_start(fold(key, 0), (3 * width, width), math.sqrt(6.0 / (4 * width)), dtype)
    out = start_affine(fold(key, 1), f"{name}.out_proj", (width, width), dtype)
    return {
        f"{name}.in_proj_weight": joint,
        f"{name}.in_proj_bias": torch.zeros(3 * width, dtype=dtype),
        f"{name}.out_proj.weight": out[f"{name}.out_proj.weight"],
        f"{name}.out_proj.bias": torch.zeros(width, dtype=dtype),
    }
