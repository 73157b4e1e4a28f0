"""Programs on words of bits, run for many clients by the kernels of `bit_program_kernels`.

Letters: C cores, N' of them numbers that clients predict, K clients, P samples: B windows of T
steps; S places of samples in the order of the bits, L words of 64 of them; V runs of the model, H
outputs; G results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg._internal.threads import run_in_parts
from fedkg.constraints.specialised.bit_programs import Ints, Programs
from fedkg.kernels.scoring.bit_program_constants import WORD
from fedkg.kernels.scoring.bit_program_kernels import count_words, lay_out_words
from fedkg.kernels.scratch import scratch_space

Numbers = NDArray[Any]  # float32 or float64
Flags = NDArray[np.bool_]

LEAST = 1 << 20
"""Comparisons per thread; below this a further thread costs more than it saves."""
NEAR = 1 << 20
"""Bytes of words that are kept at once, of all sets on some samples of some clients: about a second
cache."""
MOST = 16
"""Clients that are counted at once, at most."""


def lay_out(
    answers: Numbers, rows: Ints, known: Flags, limit: float, steps: int, values: Numbers
) -> Flags:
    """Store the predicted numbers in the order of the bits.

    Args:
        answers: [K, V, P, H], the answers of the models, in the rules' units.
        rows: int64 [N'], the position of each predicted number among the V * H outputs.
        known: bool [N', P], where each number is known if the model's answer is finite.
        limit: the largest absolute value; a number above it is stored as 0.
        steps: T.
        values: [C, K, S], where the numbers are stored: in the first N' cores.

    Returns:
        Bool [K], the clients with numbers that are all within the limit, of those that can be
            known.
    """
    covered = np.ones(answers.shape[0], dtype=np.bool_)
    least = max(1, LEAST // max(1, 8 * rows.shape[0] * answers.shape[2]))
    run_in_parts(
        answers.shape[0],
        least,
        lambda first, last: lay_out_words(
            answers, rows, known, limit, steps, values, covered, first, last
        ),
    )
    return covered


def count(programs: Programs, values: Numbers, constant: Ints, counts: Ints) -> None:
    """Count the samples (or windows) of each client in the set of each row.

    Args:
        programs: the sets and the rows that count them.
        values: [C, K, S], the numbers of each core, all known, in the order of the bits.
        constant: int64 [G], which is added to the counts of each client.
        counts: int64 [K, G], where the counts are stored.
    """
    clients, samples = values.shape[1:]
    tables = (
        programs.ladders,
        programs.flips,
        programs.rungs,
        programs.scales,
        programs.notches,
        programs.notched,
        programs.reaches,
        programs.levels,
        programs.joins,
        programs.rows,
        programs.masks,
    )
    words, steps = samples // WORD, programs.steps
    most = max(1, NEAR // (8 * max(1, programs.places)))
    compared = samples * (programs.places + len(programs.notched))
    length = min(words, max(1, most // steps) * steps)
    block = max(1, min(MOST, clients, most // length))

    def of_some(into: Ints, clients: tuple[int, int], words: tuple[int, int]) -> None:
        own = scratch_space(8 * programs.places * block * length) if programs.places else None
        store = (
            np.empty((0, 0), np.int64)
            if own is None
            else own.int64_rows(programs.places, block * length)
        )
        start = constant if words[0] == 0 else np.zeros_like(constant)
        spare = np.empty(WORD * length, np.int64), np.empty(block * length, np.int64)
        hung = np.empty(programs.notches.shape[0], np.int32), np.empty(WORD * length, np.int32)
        count_words(
            values.reshape(-1),
            *tables,
            steps,
            block,
            length,
            store,
            *spare,
            *hung,
            start,
            into,
            *clients,
            *words,
        )

    def of_words(first: int, last: int) -> None:
        parts.append(np.empty_like(counts))
        of_some(parts[-1], (0, clients), (first * steps, last * steps))

    if clients >= torch.get_num_threads():
        run_in_parts(
            clients,
            LEAST // compared,
            lambda first, last: of_some(counts, (first, last), (0, words)),
        )
    else:
        parts: list[Ints] = []
        run_in_parts(
            words // steps, words // steps * LEAST // (compared * max(1, clients)), of_words
        )
        np.sum(parts, axis=0, out=counts)
