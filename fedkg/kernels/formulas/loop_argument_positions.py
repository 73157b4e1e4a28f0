"""What compiled loops find where, in the int64 arrays by which Python tells them of a bank and of a
batch; and the constants.

Addresses are stored there as numbers, see `bank_loop_arguments` and `batch_loop_arguments`.
Letters: R rows of a bank, O operations, Q numbers of a row, S slots, W windows, k conditions of a
row; B places of a batch, T steps of a trace, D conditions.
"""

from __future__ import annotations

from fedkg.constraints.fused.program import Op

(
    CODE,
    OPERATIONS,
    OPERANDS,
    NUMBERS,
    ROWS,
    WINDOWS,
    INDEX,
    SLOTS,
    FROM_INPUTS,
    CONDITIONS,
    ASKED,
    CONSTANTS,
) = range(12)
"""Of a bank: int64 [O, 8]; O; int64; [Q, R]; R; int64 [W, 3, R] (first, last, whether it ends with
the trace); int64 [S, R], which row of the input or output numbers each slot is; S; how many are
inputs; int64 [k, R]; k; the constants."""

REGISTERS, RESULT, REFUTED, WIDTH, STEPS, PIECE, INITIAL = range(12, 19)
"""Of a bank: how many registers, the formula's, the refutation's (-1: none); places of a run; T;
places that all rows go through before the next (0: all); whether rows apply at the first step of a
trace alone."""

INPUTS, OUTPUTS, PLACES, MET, STARTS, SAMPLES, LENGTHS, CLIP = range(8)
"""Of a batch: [N, B]; [N', B]; B; bool [D, B]; int64 [D, 2] and int64, see `batch.Places`; int64
[traces], how many of their T places are steps (0: all are); whether windows end with traces."""

ZERO, HAIR, HAIR_OFF, STEP, MARK, MARK_MISSING, INF, MINUS_INF, NAN, FAR, FAR_OFF, LARGEST = range(
    12
)
"""Positions of the constants (`bank_loop_arguments.constants`)."""

ADD, SUB, MUL, DIV, LEAST, MOST = (
    int(op) for op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.LEAST, Op.MOST)
)
ADD_S, SUB_S, S_SUB, MUL_S = int(Op.ADD_S), int(Op.SUB_S), int(Op.S_SUB), int(Op.MUL_S)
DIV_S, S_DIV, NEG, ABS, SQRT = int(Op.DIV_S), int(Op.S_DIV), int(Op.NEG), int(Op.ABS), int(Op.SQRT)
FLOOR, CEIL, ROUND, FILL, COALESCE = (
    int(Op.FLOOR),
    int(Op.CEIL),
    int(Op.ROUND),
    int(Op.FILL),
    int(Op.COALESCE),
)
MARGIN, MARGIN_S, S_MARGIN, SCALED = (
    int(Op.MARGIN),
    int(Op.MARGIN_S),
    int(Op.S_MARGIN),
    int(Op.SCALED),
)
KNOWN, CATEGORY, MIN, MAX = int(Op.KNOWN), int(Op.CATEGORY), int(Op.MIN), int(Op.MAX)
WINDOW_MIN, WINDOW_MAX, UNTIL, RELEASE = (
    int(Op.WINDOW_MIN),
    int(Op.WINDOW_MAX),
    int(Op.UNTIL),
    int(Op.RELEASE),
)
FIRST, ENDS_MIN, ENDS_MAX, DECIDE, GUARD = (
    int(Op.FIRST),
    int(Op.ENDS_MIN),
    int(Op.ENDS_MAX),
    int(Op.DECIDE),
    int(Op.GUARD),
)
