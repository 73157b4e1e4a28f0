"""Values: from the parser's branches to the nodes of `tree.Expression`."""

from __future__ import annotations

import re
from itertools import pairwise

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.syntax.construct.literal_nodes import plain, quantity, signed, term_name
from fedkg_compiler.syntax.construct.statement_context import Statement, branches, token, tokens
from fedkg_compiler.syntax.parse_tree_nodes import Branch, Leaf, Token
from fedkg_compiler.syntax.tree import (
    Aggregate,
    Apply,
    Arithmetic,
    Expression,
    InClass,
    OverTime,
    Pattern,
    Raised,
    Reference,
    Variable,
    Word,
)
from fedkg_compiler.syntax.tree.conditions import OPERATORS

_DIGITS_BEFORE = re.compile(r"(?<![\w.])[0-9]+\Z")
_DIGITS = re.compile(r"[0-9]+(?![\w.])")
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def expression(at: Statement, leaf: Leaf) -> Expression:
    """Build the value of a branch."""
    assert not isinstance(leaf, Token), leaf
    span = at.span(leaf)
    match leaf.data:
        case "add" | "subtract" | "multiply" | "divide":
            return _arithmetic(at, leaf)
        case "quantity":
            return quantity(at, leaf)
        case "reference":
            return Reference(span=span, name=plain(at, token(leaf)).text)
        case "quoted":
            return Reference(span=span, name=plain(at, token(leaf)).text, quoted=True)
        case "variable":
            return Variable(span=span, name=plain(at, token(leaf)).text)
        case "raised":
            base, exponent = branches(leaf)
            return Raised(span=span, base=expression(at, base), exponent=signed(at, exponent)[0])
        case "call":
            return call(at, leaf)
        case "aggregate":
            return _aggregate(at, leaf)
        case "value_over_time" | "condition_over_time":
            return _over_time(at, leaf)
        case name:
            parts = [expression(at, branch) for branch in branches(leaf)]
            return OPERATORS[name].of(span, parts)


def call(at: Statement, branch: Branch) -> Apply:
    """``max(a, b)`` or ``l1_ball(radius = ?r)``."""
    args: list[Expression] = []
    named: dict[str, tuple[Word, Expression]] = {}
    _doubt_commas(at, branches(branch))
    for argument in branches(branch):
        if argument.data != "named":
            args.append(expression(at, argument))
            continue
        name = at.word(token(argument, "NAME"))
        if name.text in named:
            at.report("FKG030", name.span, f"`{name.text}` is given twice", "keep one of them")
        named[name.text] = name, expression(at, branches(argument)[0])
    return Apply(
        span=at.span(branch),
        name=at.word(token(branch, "NAME")),
        args=tuple(args),
        named=tuple(named.values()),
    )


def _doubt_commas(at: Statement, arguments: list[Branch]) -> None:
    """Warn of ``max(x, 3,5)``: digits on both sides of a comma are two arguments, and may be meant
    as one number.

    Not of ``max(x,3,5)``: who writes no space behind another comma needs none behind this one.
    """
    text = at.chunk.text
    close = [
        (one, two) for one, two in pairwise(arguments) if text[one.end_pos : two.start_pos] == ","
    ]
    sides = [
        (
            _DIGITS_BEFORE.search(text[one.start_pos : one.end_pos]),
            _DIGITS.match(text, two.start_pos),
        )
        for one, two in close
    ]
    for (one, _), (left, right) in zip(close, sides, strict=True):
        if left is None or right is None or any(None in other for other in sides):
            continue
        place = at.chunk.span(one.end_pos - len(left[0]), right.end())
        message = f"`{left[0]},{right[0]}` is read as two numbers, {left[0]} and {right[0]}"
        at.doubt(
            "FKG008",
            place,
            message,
            f"for one number write {left[0]}.{right[0]}; for two put a space behind the comma",
        )


def over(at: Statement, branch: Branch) -> tuple[Word, Pattern | InClass]:
    """``over ?p where { ... }`` or ``over ?p in class T``, from the end of an aggregate or a
    condition over members.
    """
    source = branches(branch, "group", "in_class")[-1]
    variable = plain(at, token(branch, "VAR"))
    if source.data == "in_class":
        return variable, InClass(span=at.span(source), term=term_name(at, source))
    span, text = group_text(at, source)
    return variable, Pattern(span=span, text=text)


def group_text(at: Statement, group: Branch) -> tuple[Span, str]:
    """Return the text between the braces of a graph pattern, unchanged, with its span."""
    start, end = group.start_pos + 1, group.end_pos - 1
    return at.chunk.span(start, end), at.chunk.text[start:end]


def _arithmetic(at: Statement, branch: Branch) -> Expression:
    """A chain of operators, which leans to the left: unrolled, so that a sum of many terms needs no
    recursion.
    """
    chain = []
    left: Leaf = branch
    while not isinstance(left, Token) and left.data in SIGNS:
        chain.append(left)
        left = left.children[0]
    value = expression(at, left)
    for link in reversed(chain):
        right = expression(at, link.children[1])
        match link.data:
            case "add":
                value = Arithmetic(span=at.span(link), op="+", left=value, right=right)
            case "subtract":
                value = Arithmetic(span=at.span(link), op="-", left=value, right=right)
            case "multiply":
                value = Arithmetic(span=at.span(link), op="*", left=value, right=right)
            case _:
                value = Arithmetic(span=at.span(link), op="/", left=value, right=right)
    return value


def _aggregate(at: Statement, branch: Branch) -> Aggregate:
    variable, source = over(at, branch)
    return Aggregate(
        span=at.span(branch),
        function=at.word(token(branch, "NAME")),
        body=expression(at, branches(branch)[0]),
        variable=variable,
        source=source,
    )


def _over_time(at: Statement, branch: Branch) -> OverTime:
    # A condition contains values and a value may contain conditions.
    from fedkg_compiler.syntax.construct.condition_nodes import condition

    body, bound = branches(branch)
    build = expression if branch.data == "value_over_time" else condition
    since = bool(tokens(branch, "SINCE"))
    return OverTime(
        span=at.span(branch),
        function=at.word(token(branch, "NAME")),
        body=build(at, body),
        direction="since" if since else "last" if tokens(branch, "LAST") else "next",
        lasting=None if since else expression(at, bound),
        event=condition(at, bound) if since else None,
    )
