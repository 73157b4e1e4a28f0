"""Values as text, with the parentheses that they need and no others."""

from __future__ import annotations

from typing import assert_never

from fedkg_compiler.syntax.printing.literals import name, number, quantity
from fedkg_compiler.syntax.printing.patterns import members
from fedkg_compiler.syntax.tree import (
    Aggregate,
    Apply,
    Arithmetic,
    Expression,
    Negative,
    Past,
    Quantity,
    Raised,
    Reference,
    Variable,
)

_SUM, _PRODUCT, _FACTOR, _POWER, _OPERAND = range(5)
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}


def expression(node: Expression) -> str:
    """A value as text."""
    return _at(node, _SUM)


def _at(node: Expression, level: int) -> str:
    """Return a value, in parentheses if its operator binds less tightly than the level."""
    own, written = _written(node)
    return f"({written})" if own < level else written


def _written(node: Expression) -> tuple[int, str]:
    match node:
        case Quantity():
            return _OPERAND, quantity(node)
        case Reference():
            return _OPERAND, name(node.name, node.quoted)
        case Variable():
            return _OPERAND, f"?{node.name}"
        case Apply():
            return _OPERAND, apply(node)
        case Arithmetic():
            return _arithmetic(node)
        case Negative():
            return _FACTOR, f"-{_at(node.arg, _POWER)}"
        case Raised():
            return _POWER, f"{_at(node.base, _OPERAND)} ^ {number(node.exponent)}"
        case Past():
            return _OPERAND, f"past {_at(node.arg, _OPERAND)}"
        case Aggregate():
            return (
                _OPERAND,
                f"{node.function.text} of {_at(node.body, _PRODUCT)} over ?{node.variable.text} {members(node.source)}",
            )
        case _:
            assert_never(node)


def apply(node: Apply) -> str:
    """``operational_range(volume, low = 10)``."""
    named = (f"{word.text} = {expression(value)}" for word, value in node.named)
    return f"{node.name.text}({', '.join([*map(expression, node.args), *named])})"


def _arithmetic(node: Arithmetic) -> tuple[int, str]:
    """A chain of operators, which leans to the left: unrolled, so that a sum of many terms needs no recursion."""
    level = _LEVELS[node.op]
    parts: list[str] = []
    link: Expression = node
    while isinstance(link, Arithmetic) and _LEVELS[link.op] == level:
        parts += [_at(link.right, level + 1), link.op]
        link = link.left
    parts.append(_at(link, level))
    return level, " ".join(reversed(parts))
