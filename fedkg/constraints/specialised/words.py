"""Programs on words of bits, run for many clients: loops compiled by Numba.

Letters: C cores, K clients, L words of 64 samples each (of all T steps), S sets, G results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.specialised.programs import EVERY, REACH, WORD, Ints, Programs
from fedkg.kernels import in_parts, kernel

Numbers = NDArray[Any]  # float32 or float64
Halves = NDArray[np.int32]

LEAST = 1 << 20
"""Comparisons that a thread of its own is worth."""
BITS = np.left_shift(1, np.arange(32, dtype=np.uint32), dtype=np.uint32).view(np.int32)
EACH_2ND, TWO_OF_4, FOUR_OF_8, EACH_8TH = (np.uint64(0xFFFFFFFFFFFFFFFF // n) for n in (3, 5, 17, 255))


def count(programs: Programs, values: Numbers, counts: Ints) -> None:
    """Put how many samples (or windows) of each client are in the set of each row into `counts` [G, K].

    Args:
        values: of each core, all known, in the order of the bits: [C, K, 64 * L].
    """
    tables = (programs.code, programs.starts, programs.rows, programs.firsts, programs.reaches, programs.levels, programs.masks)
    least = LEAST // max(1, values.shape[1] * values.shape[2])

    def part(first: int, last: int) -> None:
        _count(values, *tables, programs.steps, programs.depth, counts, first, last)

    in_parts(programs.starts.shape[0] - 1, least, part)


@kernel
def _reached(values: Numbers, levels: Numbers, bits: Halves) -> np.int32:
    """Bits where 32 values reach their levels."""
    word = np.int32(0)
    for i in range(bits.shape[0]):
        word = np.int32(word | (bits[i] & -np.int32(values[i] >= levels[i])))
    return word


@kernel
def _compare(values: Numbers, levels: Numbers, bits: Halves, below: Halves, words: Halves) -> None:
    """Words of the values that reach their levels; where `below`, of those that do not."""
    for i in range(words.shape[0]):
        words[i] = _reached(values[32 * i : 32 * i + 32], levels[32 * i : 32 * i + 32], bits) ^ below[i]


@kernel
def _join(words: Ints, others: Ints, every: bool) -> None:
    if every:
        for i in range(words.shape[0]):
            words[i] &= others[i]
    else:
        for i in range(words.shape[0]):
            words[i] |= others[i]


@kernel
def _some_step(words: Ints, mask: Ints, found: Ints) -> None:
    """The bits that are in both at some step."""
    length = found.shape[0]
    for i in range(length):
        found[i] = words[i] & mask[i]
    for j in range(length, words.shape[0]):
        found[j % length] |= words[j] & mask[j]


@kernel
def _ones(words: Ints, mask: Ints) -> np.int64:
    """How many bits are in both."""
    found = np.int64(0)
    for i in range(words.shape[0]):
        rest = np.uint64(words[i] & mask[i])
        rest = rest - ((rest >> np.uint64(1)) & EACH_2ND)
        rest = (rest & TWO_OF_4) + ((rest >> np.uint64(2)) & TWO_OF_4)
        rest = (rest + (rest >> np.uint64(4))) & FOUR_OF_8
        found += np.int64((rest * EACH_8TH) >> np.uint64(56))
    return found


@kernel
def _count(
    values: Numbers,
    code: Ints,
    starts: Ints,
    rows: Ints,
    firsts: Ints,
    reaches: Ints,
    levels: Numbers,
    masks: Ints,
    steps: int,
    depth: int,
    counts: Ints,
    first: int,
    last: int,
) -> None:
    clients, samples = values.shape[1], values.shape[2]
    length = samples // WORD
    stack = np.empty((depth, clients * length), np.int64)
    halves, below = stack.view(np.int32), masks.view(np.int32)
    level, step = np.empty(samples, values.dtype), np.empty(length // steps, np.int64)
    bits = BITS.copy()  # an array of the loop's own, of known length: comparisons take half the time of those with a number or an argument
    for one in range(first, last):
        top = -1
        for i in range(starts[one], starts[one + 1]):
            kind, operand = code[i, 0], code[i, 1]
            if kind == REACH:
                top += 1
                core, at, size, flipped = reaches[operand, 0], reaches[operand, 1], reaches[operand, 2], reaches[operand, 3]
                each = 1 if size > 1 else 0
                for j in range(samples):
                    level[j] = levels[at + j * each]
                for k in range(clients):
                    _compare(values[core, k], level, bits, below[flipped], halves[top, 2 * k * length : 2 * (k + 1) * length])
            elif operand >= 0:
                for k in range(clients):
                    _join(stack[top, k * length : (k + 1) * length], masks[operand], kind == EVERY)
            else:
                top -= 1
                _join(stack[top], stack[top + 1], kind == EVERY)
        for row in range(firsts[one], firsts[one + 1]):
            mask, place = rows[row, 0], rows[row, 1]
            for k in range(clients):
                words = stack[0, k * length : (k + 1) * length]
                if steps == 1:
                    counts[place, k] = _ones(words, masks[mask])
                else:
                    _some_step(words, masks[mask], step)
                    counts[place, k] = _ones(step, step)
