"""What is missing of a skeleton as a program: what `engine.penalty` computes with exact minima and
maxima.
"""

from __future__ import annotations

from functools import lru_cache

from fedkg.constraints.engine.skeleton_properties import reads_output, split_guards
from fedkg.constraints.fused.program import HAIR_UP, MISSING, FusedProgram, NotFused, Op
from fedkg.constraints.fused.program_builder import Writing
from fedkg.constraints.fused.robustness_program import connected, timed, verdict
from fedkg.pack.formulas import (
    And,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Initially,
    Not,
    Or,
    Temporal,
    Until,
)


@lru_cache(maxsize=1024)
def missing_program(
    skeleton: Formula, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> FusedProgram | None:
    """The program of a skeleton that reads an output: its guards first.

    None where the engine has to do it.
    """
    writing = Writing(inputs, outputs)
    guards, rest = split_guards(skeleton)
    try:
        for guard in guards:
            writing.put(Op.GUARD, verdict(writing, guard, True, offset=True))
        return writing.program(_missing(writing, rest, True))
    except NotFused:
        return None


def _missing(writing: Writing, formula: Formula, positive: bool) -> int:
    """The register of how much is missing of a formula or of its negation, in units of its
    comparisons' scales.
    """
    if not reads_output(formula):
        return writing.put(Op.DECIDE, verdict(writing, formula, positive, offset=True))

    def inner(part: Formula, sign: bool) -> int:
        return _missing(writing, part, sign)

    match formula:
        case Compare():
            strict = (formula.op in ("lt", "ne")) == positive
            return writing.margin(
                formula, not positive, MISSING | (HAIR_UP if strict else 0), scale=formula.scale
            )
        case ClassIn():
            strict = formula.strict == positive
            return writing.class_margin(formula, not positive, MISSING | (HAIR_UP if strict else 0))
        case Not() | And() | Or() | Implies():
            return connected(writing, formula, positive, inner, least=False)
        case Temporal() | Until() | Initially():
            return timed(writing, formula, positive, inner, MISSING)
        case _:
            raise NotFused
