"""Temporal formulas over traces in memory: robustness and truth at one step or at all, and how far
a formula looks.

Letters: S traces, T steps, s slots of the formula, p its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.errors import HorizonError
from fedkg.pack.bank import Bank, MemberTable
from fedkg.pack.formulas import Formula, Reach, Temporal, Until, reach

__all__ = [
    "Reach",
    "TraceValues",
    "horizon",
    "reach",
    "trace_robustness",
    "trace_satisfaction",
    "trace_values",
    "window_at",
]

End = Literal["strict", "clip"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceValues:
    """Verdicts at every step of every trace: robustness float64 [S, T] (NaN where unknown),
    satisfied and violated bool [S, T].
    """

    robustness: NDArray[np.float64]
    satisfied: NDArray[np.bool_]
    violated: NDArray[np.bool_]


def window_at(
    formula: Temporal | Until, params: Sequence[float], step: int, steps: int
) -> tuple[int, int]:
    """The first and last step of a window as seen from a step of a trace of `steps` steps.

    Beyond the trace where the window is.

    A window without an end ends with the trace.
    """
    low, high = int(params[formula.low]), int(params[formula.high])
    if formula.op in ("always", "eventually", "until"):
        return step + low, (steps - 1 if high < 0 else step + high)
    return (0 if high < 0 else step - high), step - low


def horizon(formula: Formula, params: Sequence[float] = ()) -> float:
    """The number of future steps that a formula reads: hrz of An, Johnson and Ma 2024 (section 2);
    0 for an atom, b more for a window [a, b].

    A window without an end ends with the trace and adds 0. If its argument reads future steps, the
    horizon is infinite.
    """
    return reach(formula, params).ahead


def trace_values(
    formula: Formula,
    traces: ArrayLike,
    params: Sequence[float] = (),
    *,
    end: End = "strict",
    members: Sequence[MemberTable] = (),
) -> TraceValues:
    """The verdict at every step of every trace.

    Args:
        formula: slot i reads channel i, parameter i is ``params[i]``.
        traces: float64 [S, T, s] or [T, s] (then S = 1), NaN where unknown.
        end: the steps beyond the trace are unknown (``strict``), or windows end with the trace
            (``clip``).
        members: the channels and numbers that sums and counts over members read; owned by one row.
    """
    channels = np.asarray(traces, dtype=np.float64)
    channels = channels[None] if channels.ndim == 2 else channels
    samples, steps, slots = channels.shape
    nothing = np.zeros(1, dtype=np.int32)
    bank = Bank(
        skeleton=formula,
        slots=np.arange(slots, dtype=np.int32)[None],
        views=np.zeros((1, slots), dtype=np.int32),
        params=np.array([params], dtype=np.float64).reshape(1, -1),
        keys=np.zeros((1, 0), dtype=np.int32),
        codes=np.zeros((1, 0), dtype=np.int32),
        weight=np.ones(1),
        rule=nothing,
        entity=nothing,
        unit=nothing,
        members=tuple(members),
    )
    timing = Timing(
        trace=np.repeat(np.arange(samples), steps), step=np.tile(np.arange(steps), samples), end=end
    )
    found = evaluate_bank(bank, channels.reshape(1, samples * steps, slots), timing)
    shape = (samples, steps)
    return TraceValues(
        robustness=found.robustness.reshape(shape),
        satisfied=found.satisfied.reshape(shape),
        violated=found.violated.reshape(shape),
    )


def trace_robustness(
    formula: Formula,
    trace: ArrayLike,
    params: Sequence[float] = (),
    *,
    at: int = 0,
    end: End = "strict",
    members: Sequence[MemberTable] = (),
) -> float:
    """The robustness of one trace [T, s] at step `at`; NaN where unknown.

    Raises:
        HorizonError: ``strict``, and the formula looks beyond the trace; or step `at` does not
            exist.
    """
    _check(formula, params, len(np.asarray(trace)), at, end)
    return float(trace_values(formula, trace, params, end=end, members=members).robustness[0, at])


def trace_satisfaction(
    formula: Formula,
    trace: ArrayLike,
    params: Sequence[float] = (),
    *,
    at: int = 0,
    end: End = "strict",
    members: Sequence[MemberTable] = (),
) -> bool | None:
    """Whether one trace [T, s] satisfies the formula at step `at`; None where unknown.

    Robustness 0 does not determine satisfaction; this function does.

    Raises:
        HorizonError: see `trace_robustness`.
    """
    _check(formula, params, len(np.asarray(trace)), at, end)
    found = trace_values(formula, trace, params, end=end, members=members)
    return True if found.satisfied[0, at] else False if found.violated[0, at] else None


def _check(formula: Formula, params: Sequence[float], steps: int, at: int, end: End) -> None:
    if not 0 <= at < steps:
        raise HorizonError(
            f"step {at} does not exist in a trace of {steps} steps",
            expected=f"a step from 0 to {steps - 1}" if steps else "a trace with at least one step",
            help="correct `at`" if steps else "pass a trace with steps",
        )
    if end == "clip":
        return
    far = reach(formula, params)
    if at + far.ahead >= steps:
        raise HorizonError(
            f"the formula looks {_steps(far.ahead)} ahead: at step {at} it looks beyond the trace",
            expected=f"a trace of at least {at + int(far.ahead) + 1} steps"
            if math.isfinite(far.ahead)
            else "windows with an end",
            received=f"{steps} steps",
            help='end="clip" lets windows end with the trace',
        )
    if far.back > at:
        raise HorizonError(
            f"the formula looks {_steps(far.back)} back: at step {at} it looks before the trace",
            expected=f"a step from {int(far.back)} on"
            if math.isfinite(far.back)
            else "windows with an end",
            help='end="clip" lets windows end with the trace',
        )


def _steps(count: float) -> str:
    if math.isinf(count):
        return "without limit"
    return f"{int(count)} step{'s' * (count != 1)}"
