"""Normal numbers in float32 as compiled loops, short enough for the compiler to run eight at a time.

The logarithm is ``2 artanh((m - 1) / (m + 1))`` of the mantissa m in sqrt(1/2) .. sqrt(2), by its series to the ninth power (error below
1e-9); sine and cosine are those of half the angle, by their series (error below 6e-8), doubled.

Letters: C streams, P pairs of each.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.kernels import inner, kernel
from fedkg.models.noise_kernels import FIRST, GOLDEN, LEAST, SECOND, U64
from fedkg.parts import in_parts

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]


def normals(keys: Tensor, word: int, count: int, scale: Tensor) -> Tensor:
    """See `fedkg.models.noise.normal`."""
    pairs = (count + 1) // 2
    out = torch.empty(keys.shape[0], 2 * pairs, dtype=torch.float32)
    begins, into = keys.contiguous().numpy().view(np.uint64), out.numpy()
    sizes, place = scale.contiguous().numpy(), np.uint64(word + 1)

    def part(start: int, stop: int) -> None:
        _normals(begins[start:stop], place, sizes[start:stop], into[start:stop], np.empty(pairs, np.float32), np.empty(pairs, np.int32))

    in_parts(keys.shape[0], max(1, LEAST // max(1, count)), part)
    return out[:, :count]


@inner
def _mixed(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@inner
def _fractions(key: np.uint64, first: int, out: F32) -> None:
    """Numbers first, first + 1, ... of a stream as fractions in (0, 1]."""
    for i in range(out.shape[0]):
        z = _mixed(key + np.uint64(first + i + 1) * GOLDEN)
        out[i] = np.float32((np.float64(np.int64(z >> np.uint64(11))) + 1.0) * 1.1102230246251565e-16)


@inner
def _exponents(bits: I32, out: I32) -> None:
    """Of positive numbers, by their bits, the power of two that leaves a mantissa in sqrt(1/2) .. sqrt(2); the mantissa stays in `bits`."""
    for i in range(bits.shape[0]):
        power = (bits[i] - np.int32(0x3F3504F3)) >> np.int32(23)
        bits[i] = bits[i] - (power << np.int32(23))
        out[i] = power


@inner
def _radii(mantissa: F32, power: I32, scale: np.float32) -> None:
    """``scale * sqrt(-2 log(mantissa * 2^power))`` in place of the mantissa."""
    for i in range(mantissa.shape[0]):
        s = (mantissa[i] - np.float32(1)) / (mantissa[i] + np.float32(1))
        q = s * s
        tail = np.float32(2 / 3) + q * (np.float32(2 / 5) + q * (np.float32(2 / 7) + q * np.float32(2 / 9)))
        log = np.float32(power[i]) * np.float32(0.6931471805599453) + s * (np.float32(2) + q * tail)
        mantissa[i] = scale * np.sqrt(max(np.float32(-2) * log, np.float32(0)))


@inner
def _turned(radius: F32, turn: F32) -> None:
    """``radius * cos`` and ``radius * sin`` of the angle, 2 pi times the fraction `turn` minus a half turn, in place of both."""
    for i in range(radius.shape[0]):
        x = np.float32(3.141592653589793) * (turn[i] - np.float32(0.5))
        q = x * x
        sine = np.float32(-1 / 5040) + q * (np.float32(1 / 362880) - q * np.float32(1 / 39916800))
        sine = x * (np.float32(1) + q * (np.float32(-1 / 6) + q * (np.float32(1 / 120) + q * sine)))
        cosine = np.float32(1 / 40320) + q * (np.float32(-1 / 3628800) + q * np.float32(1 / 479001600))
        cosine = np.float32(1 / 24) + q * (np.float32(-1 / 720) + q * cosine)
        cosine = np.float32(1) + q * (np.float32(-0.5) + q * cosine)
        turn[i] = radius[i] * np.float32(2) * sine * cosine
        radius[i] = radius[i] * (np.float32(1) - np.float32(2) * sine * sine)


@kernel
def _normals(keys: U64, word: np.uint64, scale: F32, out: F32, numbers: F32, powers: I32) -> None:
    pairs = numbers.shape[0]
    for place in range(keys.shape[0]):
        key = _mixed(keys[place] + word * GOLDEN)
        radius, turn = out[place, :pairs], out[place, pairs:]
        _fractions(key, 0, radius)
        _fractions(key, pairs, turn)
        _exponents(radius.view(np.int32), powers)
        _radii(radius, powers, scale[place])
        _turned(radius, turn)
