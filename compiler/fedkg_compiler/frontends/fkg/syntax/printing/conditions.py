"""Conditions and the values in them as text: on one line where there is room, else broken at `and`,
`or`, `then` and the words that join. Values have the parentheses that they need and no others.
"""

from __future__ import annotations

import re
from typing import assert_never

from fedkg_compiler.frontends.fkg.syntax.printing.literals import (
    class_name,
    head,
    name,
    number,
    quantity,
    text,
)
from fedkg_compiler.frontends.fkg.syntax.printing.patterns import members
from fedkg_compiler.frontends.fkg.syntax.tree import (
    OPERAND,
    POWER,
    PRODUCT,
    SUM,
    Aggregate,
    AllOf,
    AnyOf,
    Apply,
    Arithmetic,
    AtEdge,
    Becomes,
    Begins,
    Comparison,
    Condition,
    Equivalence,
    Expression,
    Follows,
    IfThen,
    IsClass,
    Lasting,
    Membership,
    Monotone,
    Negation,
    OnlyAfter,
    Operator,
    OverMembers,
    OverTime,
    Quantity,
    Raised,
    Reference,
    Temporal,
    Until,
    Variable,
    Window,
)

_LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}


def expression(node: Expression) -> str:
    """A value as text."""
    return _at(node, SUM)


def _at(node: Expression, level: int) -> str:
    """Return a value, in parentheses if its operator binds less tightly than the level."""
    own, written = _write_value(node)
    return f"({written})" if own < level else written


def _write_value(node: Expression) -> tuple[int, str]:
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


WIDTH = 100
_FORMULA, _CHAIN, _HELD, _ATOM = range(4)
# before one of these, `closed` would be read as the name of a signal
_GOES_ON = re.compile(r"[-+*/^<>=!≤≥≠]|(?:is|in|never|of|not\s+in)\b")
# after `within` and its length, one of these would belong to the whole condition
_COMES_AFTER = re.compile(
    r"(?:allow|and|becomes|ends|for|is|never|only|or|otherwise|over|predict|since|step|"
    r"then|time|trace|until|when|within)\b"
)
_LETTER = re.compile(r"[^\W\d_]|[°%‰€℃]")


def condition(node: Condition) -> str:
    """A condition on one line (its patterns may have several)."""
    return _flat(node, _FORMULA)


def fits(column: int, written: str) -> bool:
    """Whether a text that begins at `column` stays within the width."""
    first, *rest = written.split("\n")
    return column + len(first) <= WIDTH and all(len(line) <= WIDTH for line in rest)


def broken(node: Condition, column: int, indent: int, level: int = _FORMULA) -> str:
    """A condition that begins at `column`, its further lines at `indent`."""
    whole = _flat(node, level)
    if fits(column, whole):
        return whole
    if _level(node) < level:
        return f"({broken(node, column + 1, indent + 2)})"
    edge = "\n" + " " * indent
    match node:
        case AllOf() | AnyOf():
            word = "and" if isinstance(node, AllOf) else "or"
            first, *rest = node.args
            lines = [broken(first, column, indent + 2, _HELD)]
            lines += [
                f"{word} {broken(arg, indent + len(word) + 1, indent + 2, _HELD)}" for arg in rest
            ]
            return edge.join(lines)
        case IfThen():
            condition_ = broken(node.antecedent, column + 3, indent + 2, _CHAIN)
            return f"if {condition_}{edge}then {broken(node.consequent, indent + 5, indent + 2)}"
        case Temporal():
            words = _prefix(node)
            if _needs_parentheses(node):
                return f"{words} ({broken(node.arg, column + len(words) + 2, indent + 2)})"
            return f"{words} {broken(node.arg, column + len(words) + 1, indent)}"
        case Until():
            words = _joined(node)
            column_ = indent + len(words) + 1
            right = (
                f"({broken(node.right, column_ + 1, indent + 2)})"
                if _right_in_parentheses(node)
                else broken(node.right, column_, indent + 2, _CHAIN)
            )
            return f"{broken(node.left, column, indent + 2, _CHAIN)}{edge}{words} {right}"
        case OnlyAfter():
            left, right = (
                broken(node.effect, column, indent + 2, _CHAIN),
                broken(node.cause, indent + 11, indent + 2, _CHAIN),
            )
            return f"{left}{edge}only after {right}" + (
                f" within {expression(node.within)}" if node.within else ""
            )
        case Lasting():
            arg = broken(node.arg, column, indent + 2, _ATOM)
            return f"{arg}{edge}for at least {expression(node.duration)}"
        case Becomes() if not _is_edge_of_class(node):
            return f"{broken(node.arg, column, indent + 2, _ATOM)}{edge}becomes true"
        case Begins():
            return f"{broken(node.arg, column, indent + 2, _ATOM)}{edge}begins"
        case Equivalence():
            left = broken(node.left, column, indent + 2, _CHAIN)
            right = broken(node.right, indent + len(node.word) + 1, indent + 2, _CHAIN)
            return f"{left}{edge}{node.word} {right}"
        case Negation():
            return f"not {broken(node.arg, column + 4, indent + 2, _HELD)}"
        case Comparison():
            return _comparison(node, edge)
        case OverMembers():
            words = f"{_how_many(node)} ("
            return (
                f"{words}{broken(node.arg, column + len(words), indent + 2)}){edge}over"
                f" ?{node.variable.text} {members(node.source)}"
            )
        case _:
            return whole


def _level(node: Condition) -> int:
    match node:
        case IfThen() | Temporal() | Until() | OnlyAfter() | Equivalence():
            return _FORMULA
        case AllOf() | AnyOf():
            return _CHAIN
        case Negation():
            return _HELD
        case _:
            return _ATOM


def _is_edge_of_class(node: Becomes) -> bool:
    """Whether it is written ``valve becomes on``."""
    return isinstance(node.arg, IsClass) and not node.arg.negated


def _flat(node: Condition, level: int) -> str:
    """Return a condition, in parentheses if its operator binds less tightly than the level."""
    written = _written(node)
    return f"({written})" if _level(node) < level else written


def _written(node: Condition) -> str:
    match node:
        case Comparison():
            return _comparison(node)
        case IsClass():
            return _is_class(node, "is not" if node.negated else "is")
        case Becomes(arg=IsClass(negated=False) as arg):
            return _is_class(arg, "becomes")
        case Becomes():
            return f"{_flat(node.arg, _ATOM)} becomes true"
        case Begins():
            return f"{_flat(node.arg, _ATOM)} begins"
        case Equivalence():
            return f"{_flat(node.left, _CHAIN)} {node.word} {_flat(node.right, _CHAIN)}"
        case AtEdge():
            return f"at the {node.edge}"
        case Lasting():
            return f"{_flat(node.arg, _ATOM)} for at least {expression(node.duration)}"
        case Membership():
            return (
                f"{expression(node.subject)} {'not ' if node.negated else ''}in"
                f" {', '.join(class_name(word.text) for word in node.values)}"
            )
        case Monotone():
            group = f" per {name(node.group.text)}" if node.group else ""
            feature = f" as {head(node.feature)} rises" if node.feature else ""
            return f"{expression(node.subject)} never {node.direction}{group}{feature}"
        case Negation():
            return f"not {_flat(node.arg, _HELD)}"
        case AllOf():
            return " and ".join(_flat(arg, _HELD) for arg in node.args)
        case AnyOf():
            return " or ".join(_flat(arg, _HELD) for arg in node.args)
        case IfThen():
            return f"if {_flat(node.antecedent, _CHAIN)} then {_flat(node.consequent, _FORMULA)}"
        case Temporal():
            body = _written(node.arg)
            return f"{_prefix(node)} {f'({body})' if _needs_parentheses(node) else body}"
        case Until():
            right = (
                f"({condition(node.right)})"
                if _right_in_parentheses(node)
                else _flat(node.right, _CHAIN)
            )
            return f"{_flat(node.left, _CHAIN)} {_joined(node)} {right}"
        case OnlyAfter():
            within = f" within {expression(node.within)}" if node.within else ""
            return f"{_flat(node.effect, _CHAIN)} only after {_flat(node.cause, _CHAIN)}{within}"
        case Follows():
            return f"follows {apply(node.call)}"
        case OverMembers():
            return (
                f"{_how_many(node)} ({condition(node.arg)}) over ?{node.variable.text}"
                f" {members(node.source)}"
            )
        case _:
            assert_never(node)


def _is_class(node: IsClass, word: str) -> str:
    value = {
        "name": node.value.text,
        "string": text(node.value.text),
        "variable": f"?{node.value.text}",
    }[node.form]
    return f"{expression(node.subject)} {word} {value}"


def _comparison(node: Comparison, gap: str = " ") -> str:
    parts = [expression(node.operands[0])]
    parts += [
        f"{sign.text} {expression(operand)}"
        for sign, operand in zip(node.operators, node.operands[1:], strict=True)
    ]
    if node.tolerance is not None:
        parts.append(f"+/- {expression(node.tolerance)}")
    return gap.join(parts)


def _how_many(node: OverMembers) -> str:
    match node.least:
        case None:
            return "all of"
        case 1:
            return "any of"
        case least:
            return f"at least {least} of"


def _window(node: Window) -> str:
    high = expression(node.high)
    return f"within {high}" if node.low is None else f"[{expression(node.low)}, {high}]"


def _prefix(node: Temporal) -> str:
    mode = f"weak {node.mode}" if node.weak else node.mode
    return f"{mode} {_window(node.window)}" if node.window else mode


def _joined(node: Until) -> str:
    return " ".join(
        [
            *(["weak"] if node.weak else []),
            node.mode,
            *(["closed"] if node.closed else []),
            *([_window(node.window)] if node.window else []),
        ]
    )


def _reads_on(window: Window | None, body: str) -> bool:
    """Return whether the body would be read as part of the text before it.

    Examples: a unit after a bare number, a word that continues a `within`.
    """
    if window is None:
        return re.match(r"within\b", body) is not None
    if window.low is not None:
        return False
    bare = not re.search(r"\s", expression(window.high))
    return _COMES_AFTER.match(body) is not None or (bare and _LETTER.match(body) is not None)


def _needs_parentheses(node: Temporal) -> bool:
    return _reads_on(node.window, _written(node.arg))


def _closed_goes_on(node: Until) -> bool:
    return (
        node.closed
        and node.window is None
        and _GOES_ON.match(_flat(node.right, _CHAIN)) is not None
    )


def _right_in_parentheses(node: Until) -> bool:
    return _closed_goes_on(node) or _reads_on(node.window, _flat(node.right, _CHAIN))
