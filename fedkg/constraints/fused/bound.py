"""A bank's program with the numbers of its rows, kept with the bank.

Letters: R rows, Q numbers of a row, W windows, S slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg.constraints.engine.banks import BankTensors
from fedkg.constraints.engine.evaluation import HAIR, evaluate_term
from fedkg.constraints.engine.penalty import UNREACHABLE
from fedkg.constraints.engine.reading import Reading
from fedkg.constraints.engine.unknown import between, strict_step
from fedkg.constraints.fused.missing import missing_program
from fedkg.constraints.fused.program import Program, Window
from fedkg.constraints.fused.robustness import robustness_program
from fedkg.pack.terms import Term

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """A bank as its loops read it.

    Attributes:
        numbers: [Q, R]. index: int64 [S, R], rows of the input numbers, then of the output numbers. conditions: int64 [k, R].
        constants: see `forward`. windows: by the steps of a trace, as `windows` has them.
    """

    program: Program
    numbers: Floats
    index: Integers
    conditions: Integers
    constants: Floats
    windows: dict[int, Integers] = field(default_factory=dict)


def fused(bank: BankTensors, dtype: torch.dtype, *, missing: bool) -> Fused | None:
    """A bank for its robustness, or for what is missing of it, in float32 or float64; None where the engine has to do it."""
    key = (dtype, missing)
    if key not in bank.kept:
        bank.kept[key] = _fused(bank, dtype, missing)
    found: Fused | None = bank.kept[key]
    return found


def _fused(bank: BankTensors, dtype: torch.dtype, missing: bool) -> Fused | None:
    if bank.members:
        return None
    write = missing_program if missing else robustness_program
    program = write(bank.formula if bank.temporal else bank.skeleton, bank.inputs, bank.outputs)
    if program is None:
        return None
    index = torch.cat([bank.input_index, bank.output_index]).numpy()
    return Fused(
        program=program,
        numbers=_numbers(program.scalars, bank, dtype),
        index=np.ascontiguousarray(index),
        conditions=np.ascontiguousarray(bank.asked),
        constants=constants(dtype),
    )


def _numbers(scalars: Sequence[Term | float], bank: BankTensors, dtype: torch.dtype) -> Floats:
    """The numbers of each row, computed in the dtype; NaN for what is no finite number. One row of zeros where there are none."""
    reading = Reading(slots={}, params=bank.params.to(dtype))
    found = torch.zeros(max(1, len(scalars)), bank.rows, dtype=dtype)
    for i, scalar in enumerate(scalars):
        found[i] = scalar if isinstance(scalar, float) else evaluate_term(scalar, reading)[:, 0]
    array: Floats = found.numpy()
    return array


def windows(program: Program, numbers: NDArray[np.float64], steps: int) -> Integers:
    """First and last step of each window and whether it ends with the trace, int64 [W, 3, R]; on traces of so many steps.

    Windows beyond the trace altogether are one step beyond it; those of no step have their last before their first.

    Args:
        numbers: the bank's parameters, float64 [p, R].
    """
    found = np.zeros((max(1, len(program.windows)), 3, numbers.shape[1]), dtype=np.int64)
    for i, window in enumerate(program.windows):
        found[i] = _window(window, numbers[window.low].astype(np.int64), numbers[window.high].astype(np.int64), steps)
    return found


def _window(window: Window, low: Integers, high: Integers, steps: int) -> Integers:
    ends = high < 0
    match window.part:
        case "all":
            first, last = low, np.where(ends, steps - 1, high)
        case "before":
            return np.stack([np.zeros_like(low), np.minimum(low, steps + 1) - 1, ends])
        case "at":
            first, last = low, low
        case "length":
            first, last = np.zeros_like(low), np.where(ends, steps - 1, high - low)
    first = np.minimum(first, steps)
    return np.stack([first, np.maximum(first, np.minimum(last, steps)), ends])


@lru_cache(maxsize=2)
def constants(dtype: torch.dtype) -> Floats:
    """The constants of `forward` in a dtype."""
    mark, limits = between(dtype), torch.finfo(dtype)
    numbers = [0.0, HAIR, -HAIR, -strict_step(dtype), -mark, mark, math.inf, -math.inf, math.nan, UNREACHABLE, -UNREACHABLE, limits.max]
    array: Floats = torch.tensor(numbers, dtype=dtype).numpy()
    return array
