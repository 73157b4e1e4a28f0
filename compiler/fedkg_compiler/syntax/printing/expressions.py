"""Values as text, with the parentheses that they need and no others."""

from __future__ import annotations

from fedkg_compiler.syntax.printing.literals import name, number, quantity
from fedkg_compiler.syntax.printing.patterns import members
from fedkg_compiler.syntax.tree import (
    Aggregate,
    Apply,
    Arithmetic,
    Expression,
    OverTime,
    Quantity,
    Raised,
    Reference,
    Variable,
)
from fedkg_compiler.syntax.tree.conditions import OPERAND, POWER, PRODUCT, SUM, Operator

_LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}


def expression(node: Expression) -> str:
    """A value as text."""
    return _at(node, SUM)


def _at(node: Expression, level: int) -> str:
    """Return a value, in parentheses if its operator binds less tightly than the level."""
    own, written = _written(node)
    return f"({written})" if own < level else written


def _written(node: Expression) -> tuple[int, str]:
    match node:
        case Quantity():
            return OPERAND, quantity(node)
        case Reference():
            return OPERAND, name(node.name, node.quoted)
        case Variable():
            return OPERAND, f"?{node.name}"
        case Apply():
            return OPERAND, apply(node)
        case Arithmetic():
            return _arithmetic(node)
        case Raised():
            return POWER, f"{_at(node.base, OPERAND)} ^ {number(node.exponent)}"
        case Aggregate():
            return (
                OPERAND,
                (
                    f"{node.function.text} of {_at(node.body, PRODUCT)} over ?{node.variable.text}"
                    f" {members(node.source)}"
                ),
            )
        case OverTime():
            return OPERAND, _over_time(node)
        case Operator():
            return node.written(_at)


def apply(node: Apply) -> str:
    """``operational_range(volume, low = 10)``."""
    named = (f"{word.text} = {expression(value)}" for word, value in node.named)
    return f"{node.name.text}({', '.join([*map(expression, node.args), *named])})"


def _over_time(node: OverTime) -> str:
    # A condition contains values and a value may contain conditions.
    from fedkg_compiler.syntax.printing.conditions import condition

    body = (
        _at(node.body, PRODUCT)
        if isinstance(node.body, Expression)
        else f"({condition(node.body)})"
    )
    if node.event is not None:
        return f"{node.function.text} of {body} since ({condition(node.event)})"
    assert node.lasting is not None, "it has a duration or an event"
    duration = expression(node.lasting)
    return f"{node.function.text} of {body} over {node.direction} {duration}"


def _arithmetic(node: Arithmetic) -> tuple[int, str]:
    """A chain of operators, which leans to the left: unrolled, so that a sum of many terms needs no
    recursion.
    """
    level = _LEVELS[node.op]
    parts: list[str] = []
    link: Expression = node
    while isinstance(link, Arithmetic) and _LEVELS[link.op] == level:
        parts += [_at(link.right, level + 1), link.op]
        link = link.left
    parts.append(_at(link, level))
    return level, " ".join(reversed(parts))
