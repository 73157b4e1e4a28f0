"""Counter-based random numbers: a pure function of a key and a position, equal in every executor,
chunk and order.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014): number `i` of the stream with key `k` is ``mix(k + (i + 1) * GOLDEN)``,
all in wrapping 64-bit integers. It has no state, so resuming a run needs no stored state, and a
client's numbers do not depend on the other clients in training.

Letters: C clients of a stack, B batch, H features of a layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedkg._internal.box_muller_series_lengths import LOGARITHM, TURN

_WRAP = 1 << 64


def _signed(value: int) -> int:
    value %= _WRAP
    return value - _WRAP if value >= _WRAP >> 1 else value


GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def mix(value: Tensor) -> Tensor:
    """A new int64 tensor: each element scrambled by a bijection of the 64-bit integers."""
    out = value ^ ((value >> 30) & ((1 << 34) - 1))
    out *= _FIRST
    out ^= (out >> 27) & ((1 << 37) - 1)
    out *= _SECOND
    out ^= (out >> 31) & ((1 << 33) - 1)
    return out


def fold(key: Tensor, word: int | Tensor) -> Tensor:
    """The key of sub-stream `word` of the stream `key`; shapes broadcast. Equal to number `word` of
    the stream.
    """
    if isinstance(word, int):
        return mix(key + _signed((word + 1) * GOLDEN))
    return mix(key + (word + 1) * GOLDEN)


def root(seed: int, *words: int, device: torch.device | None = None) -> Tensor:
    """The key (int64, no dimensions) for a seed and a path of words; equal to `fold` word by
    word."""
    key = _mixed(seed * GOLDEN + 1)
    for word in words:
        key = _mixed(key + (word + 1) * GOLDEN)
    return torch.tensor(_signed(key), dtype=torch.int64, device=device)


def _mixed(value: int) -> int:
    """`mix` of one Python integer, modulo 2^64: with tensor operations it would take as long as a
    small layer.
    """
    value %= _WRAP
    value = (value ^ (value >> 30)) * _FIRST % _WRAP
    value = (value ^ (value >> 27)) * _SECOND % _WRAP
    return value ^ (value >> 31)


def uniform(key: Tensor, shape: Sequence[int], dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers in [0, 1) of this shape from one key: 53 random bits each, then rounded to
    `dtype`."""
    count = 1
    for size in shape:
        count *= size
    bits = fold(key, torch.arange(count, device=key.device))
    return (
        (((bits >> 11) & ((1 << 53) - 1)).to(torch.float64) * 2.0**-53)
        .to(dtype)
        .reshape(tuple(shape))
    )


def above_zero(keys: Tensor, count: int) -> Tensor:
    """Numbers in (0, 1], float64 [C, count], from the streams `keys` (int64 [C]), 53 random bits
    each.
    """
    bits = fold(keys.unsqueeze(1), torch.arange(count, device=keys.device))
    return ((bits >> 11) & ((1 << 53) - 1)).to(torch.float64).add_(1.0).mul_(2.0**-53)


def normal(keys: Tensor, word: int, count: int, scale: Tensor) -> Tensor:
    """Normal numbers [C, count] of standard deviation `scale` [C], in its dtype, from the
    sub-streams `word` of the streams `keys` [C].

    Box and Muller 1958: no number is more than 8.6 standard deviations from 0. The uniform numbers
    are rounded to the dtype first. Even in float32, numbers near 0 keep their relative precision,
    which determines the tails. Logarithm, sine and cosine are series (`LOGARITHM`, `TURN`), so that
    compiled loops and tensor operations give the same bits.
    """
    if scale.dtype not in (torch.float32, torch.float64):
        return normal(keys, word, count, scale.to(torch.float32)).to(scale.dtype)
    pairs = (count + 1) // 2
    radius, turn = above_zero(fold(keys, word), 2 * pairs).to(scale.dtype).chunk(2, 1)
    radius = _logarithm(radius).mul_(-2.0).clamp_(min=0.0)
    if radius.device.type == "cpu":
        np.sqrt(radius.numpy(), out=radius.numpy())  # PyTorch may round the last bit otherwise
    else:
        radius.sqrt_()
    radius.mul_(scale.unsqueeze(1))
    half = (turn - 0.5).mul_(math.pi)
    single = scale.dtype == torch.float32
    square, terms = half * half, TURN[not single] + 1
    sine = _series(square, [(-1) ** k / math.factorial(2 * k + 1) for k in range(terms - single)])
    cosine = _series(square, [(-1) ** k / math.factorial(2 * k) for k in range(terms)])
    sine.mul_(half)
    first = (1.0 - (2.0 * sine).mul_(sine)).mul_(radius)
    return torch.cat([first, radius.mul_(2.0).mul_(sine).mul_(cosine)], 1)[:, :count]


def _logarithm(x: Tensor) -> Tensor:
    """log(x) of x in 2^-53 .. 1: ``2 artanh((m - 1) / (m + 1))`` of the mantissa m in sqrt(1/2) ..
    sqrt(2), plus the exponent's share.
    """
    single = x.dtype == torch.float32
    integer, mantissa, half = (
        (torch.int32, 23, 0x3F3504F3) if single else (torch.int64, 52, 0x3FE6A09E667F3BCD)
    )
    bits = x.contiguous().view(integer)
    power = (bits - half) >> mantissa
    m = (bits - (power << mantissa)).view(x.dtype)
    ratio = (m - 1.0).div_(m + 1.0)
    series = _series(ratio * ratio, [2.0 / (2 * k + 1) for k in range(LOGARITHM[not single])])
    return series.mul_(ratio).add_(power.to(x.dtype).mul_(math.log(2)))


def _series(of: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of coefficients times powers of `of`, the lowest first, by Horner's rule."""
    total = torch.full_like(of, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total.mul_(of).add_(coefficient)
    return total


def keep_mask(key: Tensor, count: int, rate: float) -> Tensor:
    """bool [..., count], each True with probability ``1 - rate`` rounded to 1/65536, from the
    stream `key` [..., 1] (or []).

    Every number of the stream decides four neighbours, by 16 of its bits each, the lowest first.
    """
    words = mix(key + torch.arange(1, (count + 3) // 4 + 1, device=key.device) * GOLDEN)
    limit = min(round(rate * (1 << 16)), (1 << 16) - 1) - (1 << 15)
    return words.view(torch.int16)[..., :count] >= limit


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """What a model in training needs besides samples: a source of randomness (one key per client,
    and the number of the local step), which samples are padding, and a place for running
    statistics.

    Attributes:
        keys: int64 [C].
        step: the client's local step in this round, counted from 0.
        valid: bool [C, B], False for padding; None if all samples are valid.
        observed: where a model with running statistics stores their values after this minibatch,
            each [C, ...]; the executor writes them into the client's variables.
    """

    keys: Tensor
    step: int
    valid: Tensor | None = None
    observed: dict[str, Tensor] = field(default_factory=dict)

    def at(self, site: int) -> Tensor:
        """The key of each client for a site of the step, int64 [C]."""
        return fold(fold(self.keys, self.step), site)

    def keep_mask(self, site: int, shape: tuple[int, int, int], rate: float) -> Tensor:
        """The values that survive dropout at `site` of the model: bool [C, B, H], each True with
        probability ``1 - rate``.

        Element (b, h) depends only on the client's key, step, site, b and h; b is the position in
        the client's batch.
        """
        return keep_mask(self.at(site).unsqueeze(1), shape[1] * shape[2], rate).view(shape)
