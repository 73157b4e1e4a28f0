"""Kernels that run programs on words of bits; importing them does not import torch.

Letters: as in `bit_program_execution`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fedkg.kernels.kernel_compilation import kernel, kernel_part
from fedkg.kernels.scoring.bit_program_constants import ANY, EVERY, EVERY_MASK, WORD
from fedkg.kernels.scoring.simd_bit_intrinsics import ones, reaching, reaching_number, shared

Ints = NDArray[np.int64]
Numbers = NDArray[Any]  # float32 or float64
Flags = NDArray[np.bool_]


def compile_kernels(dtype: str) -> None:
    """Compile the kernels for float32 or float64 and store them in the cache."""
    types: Any = numba.types
    number, whole = getattr(types, dtype), types.int64
    numbers, ints, table, places = number[::1], whole[::1], whole[:, ::1], types.int32[::1]
    flags = types.boolean
    lay_out: Any = lay_out_words
    lay_out.compile(
        (
            *(number[:, :, :, ::1], ints, flags[:, ::1], types.float64, whole),
            *(number[:, :, ::1], flags[::1], whole, whole),
        )
    )
    count: Any = count_words
    count.compile(
        (
            *(numbers, table, ints, numbers, table, numbers, table, table, numbers),
            *(table, table, table, whole, whole, whole, table, ints, ints, places, places),
            *(ints, table, whole, whole, whole, whole),
        )
    )


@kernel
def lay_out_words(
    answers: Numbers,
    rows: Ints,
    known: Flags,
    limit: float,
    steps: int,
    values: Numbers,
    covered: Flags,
    first: int,
    last: int,
) -> None:
    """As `bit_program_execution.lay_out`, of clients first .. last - 1."""
    outputs, windows = answers.shape[3], answers.shape[2] // steps
    groups = values.shape[2] // (steps * WORD)
    nothing = values.dtype.type(0)
    for k in range(first, last):
        fine = True
        for i in range(rows.shape[0]):
            source, entry, to = answers[k, rows[i] // outputs], rows[i] % outputs, values[i, k]
            for group in range(groups):
                for t in range(steps):
                    for bit in range(WORD):
                        j = group * WORD + bit
                        place = (group * steps + t) * WORD + bit
                        if j >= windows:
                            to[place] = nothing
                            continue
                        number, seen = source[j * steps + t, entry], known[i, j * steps + t]
                        within = abs(number) <= limit
                        fine &= within | ~seen
                        to[place] = number if within & seen else nothing
        covered[k] = fine


# The loops over thresholds, joins and rows are in the functions that have work for each: a call
# with tables costs more than that work.


@kernel_part
def _compare(
    values: Numbers, start: int, stride: int, core: int, reaches: Ints, first: int, levels: Numbers,
    masks: Ints, low: int, size: int, length: int, store: Ints,
) -> None:  # fmt: skip
    """Words of values that reach the levels of each threshold from `first` on.

    Where a mask says so, of those that do not.
    """
    for one in range(first, reaches.shape[0]):
        own, at, many, below = (
            start + reaches[one, 0] * core,
            reaches[one, 1],
            reaches[one, 2] > 1,
            reaches[one, 3],
        )
        for k in range(size):
            for i in range(length):
                place = own + k * stride + WORD * i
                word = (
                    reaching(values, place, levels, at + WORD * (low + i))
                    if many
                    else reaching_number(values, place, levels[at])
                )
                store[one, k * length + i] = word ^ masks[below, low + i]


@kernel_part
def _climb(
    values: Numbers, start: int, rungs: Numbers, first: int, count: int, ranks: Ints, samples: int
) -> None:
    """How many of some rising numbers each of some values reaches."""
    for i in range(samples):
        ranks[i] = first
    left = count
    while left > 0:
        half = (left + 1) // 2
        for i in range(samples):
            ranks[i] += half if rungs[ranks[i] + half - 1] <= values[start + i] else 0
        left -= half


@kernel_part
def _sort_in(
    values: Numbers,
    start: int,
    stride: int,
    rungs: Numbers,
    flips: Ints,
    first: int,
    count: int,
    size: int,
    length: int,
    store: Ints,
    ranks: Ints,
    above: Ints,
) -> None:
    """Words of the values of some clients that reach each number of a ladder.

    Flipped, of those that do not.

    A value is marked at the highest number that it reaches. Those that reach one are all that are
    marked there or further up.
    """
    used = size * length
    for i in range(first, first + count):
        for j in range(used):
            store[i, j] = 0
    for k in range(size):
        _climb(values, start + k * stride, rungs, first, count, ranks, WORD * length)
        for i in range(WORD * length):
            if ranks[i] > first:
                store[ranks[i] - 1, k * length + i // WORD] |= np.int64(1) << (i % WORD)
    for j in range(used):
        above[j] = 0
    for i in range(first + count - 1, first - 1, -1):
        flip = flips[i]
        for j in range(used):
            word = above[j] | store[i, j]
            above[j] = word
            store[i, j] = word ^ flip


@kernel_part
def _tally(
    values: Numbers, start: int, notches: Numbers, scale: Ints, notched: Ints, masks: Ints,
    low: int, length: int, ranks: Ints, heads: NDArray[np.int32], following: NDArray[np.int32],
    above: Ints, counts: Ints,
) -> None:  # fmt: skip
    """Add what the rows on a scale count of one client.

    Each sample hangs at the highest notch that it reaches, behind those that hang there already.
    From the highest notch down the word of those that reach it grows; nothing is written down but
    the counts.
    """
    first, many = scale[1], scale[2]
    _climb(values, start, notches, first, many, ranks, WORD * length)
    for notch in range(many):
        heads[notch] = -1
    for i in range(WORD * length):
        if ranks[i] > first:
            following[i] = heads[ranks[i] - first - 1]
            heads[ranks[i] - first - 1] = i
    for j in range(length):
        above[j] = 0
    notch = many
    for one in range(scale[3], scale[4]):
        flip, mask = notched[one, 1], notched[one, 2]
        while notch > notched[one, 0]:
            notch -= 1
            i = heads[notch]
            while i >= 0:
                above[i // WORD] |= np.int64(1) << (i % WORD)
                i = following[i]
        found, at = np.int64(0), mask * masks.shape[1] + low
        for j in range(length):
            found += shared(above, j, flip, masks, at + j)
        counts[notched[one, 3]] += found


@kernel_part
def _join(
    joins: Ints, masks: Ints, low: int, size: int, length: int, store: Ints, first: int
) -> None:
    """Sets of clients with others, or with a mask that is one for all.

    The results from place `first` on.
    """
    for one in range(joins.shape[0]):
        how, words, other, into = joins[one, 0], joins[one, 1], joins[one, 2], first + one
        if how <= ANY:
            for i in range(size * length):
                store[into, i] = (
                    store[words, i] & store[other, i]
                    if how == EVERY
                    else store[words, i] | store[other, i]
                )
            continue
        for k in range(0, size * length, length):
            for i in range(length):
                word, mask = store[words, k + i], masks[other, low + i]
                store[into, k + i] = word & mask if how == EVERY_MASK else word | mask


@kernel_part
def _put(
    rows: Ints,
    masks: Ints,
    low: int,
    size: int,
    length: int,
    steps: int,
    store: Ints,
    counts: Ints,
    begin: int,
) -> None:
    """Add how many bits of each client's words are in the mask too.

    Of several steps, how many are at some step.
    """
    for one in range(rows.shape[0]):
        words, mask, place = rows[one, 0], rows[one, 1], rows[one, 2]
        for k in range(size):
            found = np.int64(0)
            if steps == 1:
                for i in range(length):
                    found += ones(store[words, k * length + i] & masks[mask, low + i])
            else:
                for i in range(0, length, steps):
                    word = np.int64(0)
                    for t in range(i, i + steps):
                        word |= store[words, k * length + t] & masks[mask, low + t]
                    found += ones(word)
            counts[begin + k, place] += found


@kernel
def count_words(
    values: Numbers, ladders: Ints, flips: Ints, rungs: Numbers, scales: Ints, notches: Numbers,
    notched: Ints, reaches: Ints, levels: Numbers, joins: Ints, rows: Ints, masks: Ints, steps: int,
    block: int, most: int, store: Ints, ranks: Ints, above: Ints, heads: NDArray[np.int32],
    following: NDArray[np.int32], constant: Ints, counts: Ints, first_client: int, last_client: int,
    first_word: int, last_word: int,
) -> None:  # fmt: skip
    """Add the counts of some clients on some words.

    `store` has room for those of all sets, of a block of clients on `most` words.

    `ranks` and `following` have room for as many samples, `above` for as many words, `heads` for
    the notches: arrays made, or assigned to each other, in here would take seconds to compile.
    """
    free, stride = reaches.shape[0], WORD * masks.shape[1]
    core = counts.shape[0] * stride
    for begin in range(first_client, last_client, block):
        size = min(block, last_client - begin)
        for k in range(begin, begin + size):
            for place in range(constant.shape[0]):
                counts[k, place] = constant[place]
        for low in range(first_word, last_word, most):
            length = min(most, last_word - low)
            start = begin * stride + WORD * low
            for i in range(ladders.shape[0]):
                own = start + ladders[i, 0] * core
                _sort_in(
                    values,
                    own,
                    stride,
                    rungs,
                    flips,
                    ladders[i, 1],
                    ladders[i, 2],
                    size,
                    length,
                    store,
                    ranks,
                    above,
                )
            for i in range(scales.shape[0]):
                for k in range(size):
                    own = start + k * stride + scales[i, 0] * core
                    _tally(
                        values,
                        own,
                        notches,
                        scales[i],
                        notched,
                        masks,
                        low,
                        length,
                        ranks,
                        heads,
                        following,
                        above,
                        counts[begin + k],
                    )
            _compare(
                values,
                start,
                stride,
                core,
                reaches,
                flips.shape[0],
                levels,
                masks,
                low,
                size,
                length,
                store,
            )
            _join(joins, masks, low, size, length, store, free)
            _put(rows, masks, low, size, length, steps, store, counts, begin)
