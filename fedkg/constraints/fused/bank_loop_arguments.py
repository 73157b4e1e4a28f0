"""A bank's program with the numbers of its rows, kept with the bank.

Letters: R rows, Q numbers of a row, W windows, S slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.engine.evaluation import HAIR, evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.penalty import UNREACHABLE
from fedkg.constraints.engine.unknown_value_encoding import between, strict_step
from fedkg.constraints.fused.missing_amount_program import missing_program
from fedkg.constraints.fused.program import FusedProgram, Window
from fedkg.constraints.fused.robustness_program import robustness_program
from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.formulas.bank_execution import ENTRIES
from fedkg.kernels.loop_library import Library
from fedkg.pack.formulas import Term

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]


CACHED, CACHED_TOO = 24 << 10, 48 << 10
"""Bytes of a run's registers: most of a first-level cache; more with gradients, not all in use at
once."""

SHORTEST, LONGEST = 64, 2048
"""Places of a run, at least and at most."""


@cache
def loops(dtype: torch.dtype) -> Library:
    """The loops in float32 or float64; compiled when this machine has never had them."""
    return Library(ENTRIES, single=dtype == torch.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """A bank in the form that its loops read.

    The bank has k conditions per row and p parameters.

    Attributes:
        program: the skeleton as a list of operations.
        numbers: [Q, R], the numbers of each row.
        index: int64 [S, R], the row of the input numbers that each input slot reads, then the row
            of the output numbers that each output slot reads.
        conditions: int64 [k, R], the positions of each row's conditions.
        constants: the constants of the loops, see `loop_argument_positions`.
        of_rows: float64 [p, R], the parameters of each row.
        initial: whether rows apply only at the first step of a trace.
        frames: the results of `frame` so far, by its arguments.
    """

    program: FusedProgram
    numbers: Floats
    index: Integers
    conditions: Integers
    constants: Floats
    of_rows: NDArray[np.float64]
    initial: bool
    frames: dict[tuple[int, bool, bool], Frame] = field(default_factory=dict)

    @override
    def __reduce__(self) -> tuple[object, ...]:
        """Copy with separate frames, because frames contain addresses."""
        return Fused._of, (
            self.program,
            self.numbers,
            self.index,
            self.conditions,
            self.constants,
            self.of_rows,
            self.initial,
        )

    @staticmethod
    def _of(
        program: FusedProgram,
        numbers: Floats,
        index: Integers,
        conditions: Integers,
        constants: Floats,
        of_rows: NDArray[np.float64],
        initial: bool,
    ) -> Fused:
        return Fused(
            program=program,
            numbers=numbers,
            index=index,
            conditions=conditions,
            constants=constants,
            of_rows=of_rows,
            initial=initial,
        )

    @property
    def rows(self) -> int:
        """R."""
        return int(self.numbers.shape[1])

    def frame(self, steps: int, in_time: bool, slopes: bool = False) -> Frame:
        """The loop arguments of the bank on a batch of traces of `steps` steps, or (1) of rows.

        With room for gradients too.
        """
        key = steps, in_time, slopes
        if key not in self.frames:
            self.frames[key] = self._frame(*key)
        return self.frames[key]

    def _frame(self, steps: int, in_time: bool, slopes: bool) -> Frame:
        program, over = self.program, windows(self.program, self.of_rows, steps)
        levels = 2 + (steps + 1).bit_length() if slopes else 2
        each = (2 * program.registers + 3 if slopes else program.registers + 1) + 2 * levels
        used = 2 * program.registers + 3 if slopes else program.registers
        width = min(
            max((CACHED_TOO if slopes else CACHED) // (used * self.numbers.itemsize), SHORTEST),
            LONGEST,
        )
        if in_time:
            width = max(1, width // steps) * steps
        piece = (
            0 if self.conditions.shape[0] and not in_time else width
        )  # few samples of each row: all at once
        code, operands, numbers, windows_at, index, conditions, constants_at = (
            address(part)
            for part in (
                program.code,
                program.operands,
                self.numbers,
                over,
                self.index,
                self.conditions,
                self.constants,
            )
        )
        loop_arguments = (
            code, len(program.code), operands, numbers, self.numbers.shape[1], windows_at, index,
            len(self.index), program.inputs, conditions, len(self.conditions), constants_at,
            program.registers, program.result, program.refuted, width, steps, piece, self.initial,
        )  # fmt: skip
        frame = np.array(loop_arguments, dtype=np.int64)
        return Frame(
            address(frame), frame, over, piece, each * width + levels, self.numbers.itemsize
        )


class Frame(NamedTuple):
    """The loop arguments that describe a bank.

    Attributes:
        at: the address of `loop_arguments`.
        loop_arguments: sizes and addresses, in the order of `loop_argument_positions`.
        windows: int64 [W, 3, R], the windows of each row, to which `loop_arguments` points.
        piece: the places that all rows go through before the next ones; 0: all places.
        room: how many numbers of scratch memory a run of places needs, for registers and everything
            else.
        itemsize: the bytes of each of these numbers.
    """

    at: int
    loop_arguments: Integers
    windows: Integers
    piece: int
    room: int
    itemsize: int


def fused(bank: BankTensors, dtype: torch.dtype, *, missing: bool) -> Fused | None:
    """A bank for its robustness, or for what is missing of it, in float32 or float64.

    None where the engine has to do it.
    """
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
        of_rows=bank.numbers,
        initial=bank.initial,
    )


def _numbers(scalars: Sequence[Term | float], bank: BankTensors, dtype: torch.dtype) -> Floats:
    """The numbers of each row, computed in the dtype; NaN if not finite.

    One row of zeros if there are none.
    """
    reading = Reading(slots={}, params=bank.params.to(dtype))
    found = bank.params.new_zeros(max(1, len(scalars)), bank.rows, dtype=dtype)
    for i, scalar in enumerate(scalars):
        found[i] = scalar if isinstance(scalar, float) else evaluate_term(scalar, reading)[:, 0]
    array: Floats = found.numpy()
    return array


def windows(program: FusedProgram, numbers: NDArray[np.float64], steps: int) -> Integers:
    """First and last step of each window and whether it ends with the trace, int64 [W, 3, R].

    For traces of `steps` steps.

    Windows beyond the trace altogether are one step beyond it; those of no step have their last
    before their first.

    Args:
        numbers: the bank's parameters, float64 [p, R].
    """
    found = np.zeros((max(1, len(program.windows)), 3, numbers.shape[1]), dtype=np.int64)
    for i, window in enumerate(program.windows):
        found[i] = _window(
            window,
            numbers[window.low].astype(np.int64),
            numbers[window.high].astype(np.int64),
            steps,
        )
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
    """The constants of `loop_argument_positions` in a dtype."""
    mark, limits = between(dtype), torch.finfo(dtype)
    numbers = [
        0.0,
        HAIR,
        -HAIR,
        -strict_step(dtype),
        -mark,
        mark,
        math.inf,
        -math.inf,
        math.nan,
        UNREACHABLE,
        -UNREACHABLE,
        limits.max,
    ]
    array: Floats = torch.tensor(numbers, dtype=dtype, device="cpu").numpy()
    return array
