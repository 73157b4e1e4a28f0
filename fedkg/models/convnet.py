"""Convolutional image classifiers: convolutions with pooling, then dense layers; LeNet-5 and a
small network.

Letters: C clients of a stack, B batch, I input channels, h and w height and width of an image, H
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.layers import (
    INIT,
    apply_dropout,
    broadcast_samples,
    convolve,
    dense,
    require_positive,
    start_affine,
)
from fedkg.models.model_protocols import Params
from fedkg.models.random_streams import Noise, fold, root


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """One convolution, with pooling.

    Attributes:
        channels: of its result.
        kernel: side of the square window.
        padding: zeros around the image.
        pool: side of the pooling squares; 1 for no pooling.
    """

    channels: int
    kernel: int
    padding: int = 0
    pool: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvNet:
    """Convolutions, then dense layers, with an activation after each except the last; the outputs
    are class scores (logits).

    Parameters are named ``convolutions.0.weight`` [O, I, k, k], ``convolutions.0.bias`` [O],
    ``dense.0.weight`` and so on. They start uniform in plus/minus 1/sqrt(fan-in), like PyTorch's
    layers. The last dense layer is the head, the rest the body (see `PartitionedModel`).

    Args:
        image: channels, height and width of a sample.
        convolutions: in order.
        hidden: widths of the dense layers before the last.
        outputs: H, the number of classes.
        activation: after every layer except the last.
        pooling: reduction of a square to one value.
        dropout: shares of values zeroed in training after the convolutions, and after each hidden
            dense layer.

    Raises:
        JobError: the image is empty after some convolution, or a share is outside 0 .. 1.
    """

    image: tuple[int, int, int]
    convolutions: tuple[Convolution, ...]
    hidden: tuple[int, ...]
    outputs: int
    activation: Literal["relu", "tanh"] = "relu"
    pooling: Literal["max", "mean"] = "max"
    dropout: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        require_positive(self, "image", "hidden", "outputs")
        if not all(0.0 <= share < 1.0 for share in self.dropout):
            raise JobError(
                "the model's dropout is out of range",
                expected="0 <= dropout < 1",
                received=str(self.dropout),
            )
        for number, (_, high, wide) in enumerate(self.shapes[1:], 1):
            if min(high, wide) < 1:
                raise JobError(
                    (
                        f"a {self.image[1]} x {self.image[2]} image is empty after convolution "
                        f"{number}"
                    ),
                    help="use more padding or less pooling",
                )

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, height and width of the image and after each convolution with its pooling."""
        found = [self.image]
        for layer in self.convolutions:
            _, high, wide = found[-1]
            rim = 2 * layer.padding - layer.kernel + 1
            found.append((layer.channels, (high + rim) // layer.pool, (wide + rim) // layer.pool))
        return tuple(found)

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the dense layers' input and of their outputs."""
        channels, high, wide = self.shapes[-1]
        return (channels * high * wide, *self.hidden, self.outputs)

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`: the last dense layer is the head."""
        body = (f"dense.{layer}." for layer in range(len(self.hidden)))
        return {"body": ("convolutions.", *body), "head": (f"dense.{len(self.hidden)}.",)}

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        key = root(seed, INIT)
        params: Params = {}
        for place, (layer, (inputs, _, _)) in enumerate(
            zip(self.convolutions, self.shapes[:-1], strict=True)
        ):
            shape = (layer.channels, inputs, layer.kernel, layer.kernel)
            params |= start_affine(fold(key, place), f"convolutions.{place}", shape, dtype)
        for place, (fan_in, fan_out) in enumerate(
            zip(self.widths[:-1], self.widths[1:], strict=True)
        ):
            params |= start_affine(
                fold(key, len(self.convolutions) + place),
                f"dense.{place}",
                (fan_out, fan_in),
                dtype,
            )
        return params

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, I, h, w] or [B, I, h, w]."""
        act = torch.relu if self.activation == "relu" else torch.tanh
        x = broadcast_samples(x, params["dense.0.bias"].shape[0], 3)
        for place, layer in enumerate(self.convolutions):
            x = convolve(
                params[f"convolutions.{place}.weight"],
                params[f"convolutions.{place}.bias"],
                x,
                layer.padding,
            )
            x = self._pooled(act(x), layer.pool)
        x = apply_dropout(x.flatten(2), noise, 0, self.dropout[0])
        for place in range(len(self.hidden) + 1):
            x = dense(params[f"dense.{place}.weight"], params[f"dense.{place}.bias"], x)
            if place < len(self.hidden):
                x = apply_dropout(act(x), noise, 1 + place, self.dropout[1])
        return x

    def _pooled(self, x: Tensor, side: int) -> Tensor:
        """x [C, B, O, h, w] with squares of `side` pooled; incomplete squares at the far edges are
        dropped.
        """
        if side == 1:
            return x
        flat = x.flatten(0, 1)
        pooled = F.max_pool2d(flat, side) if self.pooling == "max" else F.avg_pool2d(flat, side)
        return pooled.view(*x.shape[:2], *pooled.shape[1:])


def lenet5(image: tuple[int, int, int] = (1, 28, 28), outputs: int = 10) -> ConvNet:
    """LeNet-5 (LeCun, Bottou, Bengio and Haffner, 1998): 5 x 5 convolutions with 6 and 16 channels,
    dense layers of 120, 84 and H.

    Uses rectifiers and max pooling instead of the original's scaled tangent and trained means, as
    is usual today. Images of 28 x 28 get a padding of two zeros, images of 32 x 32 none.

    Examples:
        >>> sum(p.numel() for p in lenet5().init(seed=0).values())
        61706
    """
    first = Convolution(channels=6, kernel=5, padding=max(0, (32 - image[1]) // 2), pool=2)
    return ConvNet(
        image=image,
        convolutions=(first, Convolution(channels=16, kernel=5, pool=2)),
        hidden=(120, 84),
        outputs=outputs,
    )


def small_cnn(
    image: tuple[int, int, int] = (3, 32, 32),
    outputs: int = 10,
    *,
    dropout: tuple[float, float] = (0.25, 0.5),
) -> ConvNet:
    """Two 3 x 3 convolutions with 32 and 64 channels, one pooling, a dense layer of 128: common in
    federated benchmarks.

    Examples:
        >>> sum(p.numel() for p in small_cnn().init(seed=0).values())
        1626442
    """
    layers = (Convolution(channels=32, kernel=3), Convolution(channels=64, kernel=3, pool=2))
    return ConvNet(
        image=image, convolutions=layers, hidden=(128,), outputs=outputs, dropout=dropout
    )
