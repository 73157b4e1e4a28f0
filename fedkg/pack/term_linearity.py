"""Which terms are linear in some of their leaves, and with which coefficients."""

from __future__ import annotations

from fedkg.pack.formulas import (
    Negate,
    Param,
    Product,
    Quotient,
    Slot,
    Sum,
    Term,
    everywhere,
    term_children,
)


def reads_slots(term: Term) -> bool:
    """Whether a term reads data."""
    return any(isinstance(part, Slot) for _, part in everywhere(term))


def reads_param(term: Term, param: int) -> bool:
    """Whether a term reads a parameter."""
    return any(isinstance(part, Param) and part.index == param for _, part in everywhere(term))


def linear_in_slots(term: Term) -> bool:
    """Whether a term is linear in its slots; the coefficients are made of parameters."""
    return _linear(term, None)


def linear_in_param(term: Term, param: int) -> bool:
    """Whether a term is linear in a parameter, with a coefficient that is the same for all data."""
    return _linear(term, param)


def _linear(term: Term, param: int | None) -> bool:
    """Whether a term is linear in its slots (None) or in a parameter, with coefficients that read
    no slots.
    """

    def inside(part: Term) -> bool:
        return reads_slots(part) if param is None else reads_param(part, param)

    if not inside(term):
        return True
    match term:
        case Slot() | Param():
            return True
        case Sum() | Negate():
            return all(_linear(part, param) for part in term_children(term))
        case Product():
            varying = [part for part in term.args if inside(part)]
            return (
                len(varying) == 1
                and _linear(varying[0], param)
                and not any(reads_slots(part) for part in term.args if not inside(part))
            )
        case Quotient():
            return (
                _linear(term.numerator, param)
                and not inside(term.denominator)
                and not reads_slots(term.denominator)
            )
        case _:
            return False
