"""Programs on words of bits, run for many clients: loops compiled by Numba.

Letters: C cores, of which N' are numbers that clients predict, K clients, P samples: B windows of T steps; S places of samples in the order
of the bits, L words of 64 of them; V runs of the model, H outputs; G results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg.constraints.specialised.bits import ones, reaching, reaching_number
from fedkg.constraints.specialised.programs import EVERY, REACH, WORD, Ints, Programs
from fedkg.kernels import inner, kernel
from fedkg.parts import in_parts

Numbers = NDArray[Any]  # float32 or float64
Flags = NDArray[np.bool_]

LEAST = 1 << 20
"""Comparisons that a thread of its own is worth."""
NEAR = 1 << 20
"""Bytes of words that are kept at once for all sets that use them: about a second cache."""
MOST = 1 << 14
"""Numbers of a core that are compared at once."""


def lay_out(answers: Numbers, rows: Ints, known: Flags, limit: float, steps: int, values: Numbers) -> Flags:
    """Put what clients predict in the order of the bits into the first of `values` [C, K, S]; 0 for what is no number within the limit.

    Args:
        answers: in the rules' units, [K, V, P, H]. rows: int64 [N'], of V * H outputs the one that each number is.
        known: bool [N', P], which are known whatever a model answers. steps: T.

    Returns:
        Bool [K], the clients whose numbers are all within the limit, of those that can be known.
    """
    covered = np.ones(answers.shape[0], dtype=np.bool_)
    least = max(1, LEAST // max(1, 8 * rows.shape[0] * answers.shape[2]))
    in_parts(answers.shape[0], least, lambda first, last: _lay_out(answers, rows, known, limit, steps, values, covered, first, last))
    return covered


def count(programs: Programs, values: Numbers, constant: Ints, counts: Ints) -> None:
    """Put how many samples (or windows) of each client are in the set of each row into `counts` [G, K].

    Args:
        values: of each core, all known, in the order of the bits: [C, K, S]. constant: [G], the counts that are the same for all clients.
    """
    clients, samples = values.shape[1:]
    tables = (programs.code, programs.starts, programs.rows, programs.firsts, programs.reaches, programs.levels, programs.masks)
    sets = programs.starts.shape[0] - 1
    of_one = programs.kept * samples // 8
    keeps = 0 < of_one <= NEAR
    block = max(1, min(clients, MOST // samples, NEAR // of_one if keeps else clients))
    rest = (programs.steps, programs.depth, programs.kept if keeps else 0, block, constant, programs.fixed, counts)
    flat = values.reshape(values.shape[0], -1)

    def of_clients(first: int, last: int) -> None:
        _count(flat, samples, *tables, *rest, first, last, 0, sets)

    def of_sets(first: int, last: int) -> None:
        _count(flat, samples, *tables, *rest, 0, clients, first, last)

    if clients >= torch.get_num_threads():
        in_parts(clients, LEAST // (samples * sets), of_clients)
    else:
        in_parts(sets, LEAST // max(1, samples * clients), of_sets)


@kernel
def _lay_out(
    answers: Numbers, rows: Ints, known: Flags, limit: float, steps: int, values: Numbers, covered: Flags, first: int, last: int
) -> None:
    outputs, windows = answers.shape[3], answers.shape[2] // steps
    room = values.shape[2] // steps
    nothing = values.dtype.type(0)
    for k in range(first, last):
        fine = True
        for i in range(rows.shape[0]):
            source, entry, to = answers[k, rows[i] // outputs], rows[i] % outputs, values[i, k]
            for t in range(steps):
                for j in range(windows):
                    at = j * steps + t
                    number, seen = source[at, entry], known[i, at]
                    within = abs(number) <= limit
                    fine &= within | ~seen
                    to[t * room + j] = number if within & seen else nothing
                for j in range(windows, room):
                    to[t * room + j] = nothing
        covered[k] = fine


@inner
def _compare(values: Numbers, start: int, levels: Numbers, at: int, below: Ints, words: Ints, size: int) -> None:
    """Words of the values of some clients that reach their levels; where `below`, of those that do not."""
    length = below.shape[0]
    for k in range(size):
        for i in range(length):
            words[k * length + i] = reaching(values, start + WORD * (k * length + i), levels, at + WORD * i) ^ below[i]


@inner
def _compare_number(values: Numbers, start: int, level: Any, below: Ints, words: Ints, size: int) -> None:
    length = below.shape[0]
    for k in range(size):
        for i in range(length):
            words[k * length + i] = reaching_number(values, start + WORD * (k * length + i), level) ^ below[i]


@inner
def _join(words: Ints, others: Ints, every: bool, size: int) -> None:
    """Words of some clients with others, which may be those of one client for all."""
    length = others.shape[0]
    for k in range(size):
        for i in range(length):
            if every:
                words[k * length + i] &= others[i]
            else:
                words[k * length + i] |= others[i]


@inner
def _put(words: Ints, mask: Ints, steps: int, into: Ints) -> None:
    """How many bits of each client's words are in the mask too; of several steps, how many are at some step."""
    length = mask.shape[0] // steps
    for k in range(into.shape[0]):
        found = np.int64(0)
        for i in range(length):
            word = words[k * steps * length + i] & mask[i]
            for t in range(1, steps):
                word |= words[(k * steps + t) * length + i] & mask[t * length + i]
            found += ones(word)
        into[k] = found


@kernel
def _count(
    values: Numbers, samples: int, code: Ints, starts: Ints, rows: Ints, firsts: Ints, reaches: Ints, levels: Numbers, masks: Ints,
    steps: int, depth: int, kept: int, block: int, constant: Ints, fixed: Ints, counts: Ints,
    first_client: int, last_client: int, first: int, last: int,
) -> None:  # fmt: skip
    """The counts of some clients and sets; what is the same for all clients with the first of the sets."""
    length = samples // WORD
    stack = np.empty((depth, block * length), np.int64)
    store, stored = np.empty((kept, block * length), np.int64), np.empty(kept, np.int64)
    for i in range(kept):
        stored[i] = -1
    for i in range(fixed.shape[0] if first == 0 else 0):
        for k in range(first_client, last_client):
            counts[fixed[i], k] = constant[fixed[i]]
    for begin in range(first_client, last_client, block):
        size = min(block, last_client - begin)
        used = size * length
        for one in range(first, last):
            top = -1
            for i in range(starts[one], starts[one + 1]):
                kind, operand = code[i, 0], code[i, 1]
                if kind == REACH:
                    top += 1
                    at, place = reaches[operand, 1], reaches[operand, 4]
                    keeps = 0 <= place < kept
                    if keeps and stored[place] == begin:
                        _copied(store[place], stack[top], used)
                        continue
                    own, below = values[reaches[operand, 0]], masks[reaches[operand, 3]]
                    if reaches[operand, 2] > 1:
                        _compare(own, begin * samples, levels, at, below, stack[top], size)
                    else:
                        _compare_number(own, begin * samples, levels[at], below, stack[top], size)
                    if keeps:
                        stored[place] = begin
                        _copied(stack[top], store[place], used)
                elif operand >= 0:
                    _join(stack[top], masks[operand], kind == EVERY, size)
                else:
                    top -= 1
                    _join(stack[top], stack[top + 1, :used], kind == EVERY, 1)
            for row in range(firsts[one], firsts[one + 1]):
                _put(stack[0], masks[rows[row, 0]], steps, counts[rows[row, 1], begin : begin + size])


@inner
def _copied(source: Ints, result: Ints, size: int) -> None:
    for i in range(size):
        result[i] = source[i]
