"""Conditions and the values in them: from the parser's branches to the nodes of the tree."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Literal

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.frontends.fkg.syntax.construct.literal_nodes import (
    head,
    number,
    plain,
    quantity,
    signed,
    term_name,
)
from fedkg_compiler.frontends.fkg.syntax.construct.statement_clauses import distinct
from fedkg_compiler.frontends.fkg.syntax.construct.statement_context import (
    Statement,
    branches,
    group_text,
    token,
    tokens,
)
from fedkg_compiler.frontends.fkg.syntax.grammar import Branch, Leaf, Token
from fedkg_compiler.frontends.fkg.syntax.tree import (
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
    InClass,
    IsClass,
    Lasting,
    Membership,
    Monotone,
    Negation,
    OnlyAfter,
    OverMembers,
    OverTime,
    Pattern,
    Raised,
    Reference,
    Temporal,
    Until,
    Variable,
    Window,
    Word,
)
from fedkg_compiler.frontends.fkg.syntax.tree.conditions import OPERATORS

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
        (one, two)
        for one, two in pairwise(arguments)
        if text[one.meta.end_pos : two.meta.start_pos] == ","
    ]
    sides = [
        (
            _DIGITS_BEFORE.search(text[one.meta.start_pos : one.meta.end_pos]),
            _DIGITS.match(text, two.meta.start_pos),
        )
        for one, two in close
    ]
    for (one, _), (left, right) in zip(close, sides, strict=True):
        if left is None or right is None or any(None in other for other in sides):
            continue
        place = at.chunk.span(one.meta.end_pos - len(left[0]), right.end())
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


_SAME = {"≤": "<=", "≥": ">=", "≠": "!="}
_UP, _DOWN = {"<", "<="}, {">", ">="}


def comparison(at: Statement, branch: Branch) -> Comparison:
    """``a <= b < c +/- t``, its operators written the plain way."""
    *operands, last = branches(branch)
    tolerance = branches(last)[0] if last.data == "tolerance" else None
    if tolerance is None:
        operands.append(last)
    operators = tuple(
        Word(span=at.span(sign), text=_SAME.get(str(sign), str(sign)))
        for sign in tokens(branch, "CMP")
    )
    _check_direction(at, operators)
    if tolerance is not None and any(sign.text != "==" for sign in operators):
        wrong = next(sign for sign in operators if sign.text != "==")
        at.report(
            "FKG033",
            at.span(last),
            f"a tolerance belongs to ==, not to {wrong.text}",
            "move the bound itself, or write == ... +/- ...",
        )
    return Comparison(
        span=at.span(branch),
        operands=tuple(expression(at, operand) for operand in operands),
        operators=operators,
        tolerance=expression(at, tolerance) if tolerance is not None else None,
    )


def _check_direction(at: Statement, operators: tuple[Word, ...]) -> None:
    """Check a chain: all operators point one way, and ``!=`` compares two values only."""
    if len(operators) == 1:
        return
    for sign in operators:
        if sign.text == "!=":
            at.report(
                "FKG032",
                sign.span,
                "`!=` cannot be part of a chain",
                "write the two comparisons and join them by `and`",
            )
            return
    signs = [sign for sign in operators if sign.text != "=="]
    for before, sign in pairwise(signs):
        if (before.text in _UP) != (sign.text in _UP):
            at.report(
                "FKG032",
                sign.span,
                f"this chain turns round: {before.text} and then {sign.text}",
                "write the two comparisons and join them by `and`",
            )
            return


REDUCTIONS = ("sum", "mean", "min", "max", "count")

MOST_MEMBERS = 10**9
"""`at least` asks for no more members than this."""


def condition(at: Statement, leaf: Leaf) -> Condition:
    """Build the condition of a branch."""
    assert not isinstance(leaf, Token), leaf
    span = at.span(leaf)
    match leaf.data:
        case "formula":
            return condition(at, leaf.children[0])
        case "compare":
            return comparison(at, leaf)
        case "is_class":
            return _is_class(at, leaf)
        case "membership":
            return Membership(
                span=span,
                subject=expression(at, branches(leaf)[0]),
                negated=bool(tokens(leaf, "NOT")),
                values=distinct(
                    at, (plain(at, value) for value in tokens(leaf, "NAME", "STRING")), "class"
                ),
            )
        case "follows":
            return Follows(span=span, call=call(at, branches(leaf)[0]))
        case "over_members":
            return _over_members(at, leaf)
        case "monotone":
            return _monotone(at, leaf)
        case "negation":
            return Negation(span=span, arg=condition(at, leaf.children[0]))
        case "all_of":
            return AllOf(span=span, args=tuple(condition(at, child) for child in leaf.children))
        case "any_of":
            return AnyOf(span=span, args=tuple(condition(at, child) for child in leaf.children))
        case "if_then":
            antecedent, consequent = branches(leaf)
            return IfThen(
                span=span,
                antecedent=condition(at, antecedent),
                consequent=condition(at, consequent),
            )
        case "temporal":
            return _temporal(at, leaf)
        case "lasting":
            arg, duration = branches(leaf)
            return Lasting(span=span, arg=condition(at, arg), duration=expression(at, duration))
        case "becomes":
            return Becomes(span=span, arg=condition(at, leaf.children[0]))
        case "becomes_class":
            return Becomes(span=span, arg=_is_class(at, leaf))
        case "begins":
            return Begins(span=span, arg=condition(at, leaf.children[0]))
        case "at_edge":
            return AtEdge(span=span, edge="start" if tokens(leaf, "AT_START") else "end")
        case "equivalence":
            left, right = branches(leaf)
            return Equivalence(
                span=span,
                word="iff" if tokens(leaf, "IFF") else "xor",
                left=condition(at, left),
                right=condition(at, right),
            )
        case "until":
            return _until(at, leaf)
        case "only_after":
            effect, cause, *within = branches(leaf)
            return OnlyAfter(
                span=span,
                effect=condition(at, effect),
                cause=condition(at, cause),
                within=expression(at, within[0]) if within else None,
            )
        case name:
            raise AssertionError(f"the grammar makes a condition `{name}` that has no node")


def _is_class(at: Statement, branch: Branch) -> IsClass:
    value = tokens(branch, "NAME", "STRING", "VAR")[-1]
    form: Literal["name", "string", "variable"]
    match value.type:
        case "STRING":
            form = "string"
        case "VAR":
            form = "variable"
        case _:
            form = "name"
    return IsClass(
        span=at.span(branch),
        subject=expression(at, branches(branch)[0]),
        negated=bool(tokens(branch, "NOT")),
        value=plain(at, value),
        form=form,
    )


def _over_members(at: Statement, branch: Branch) -> OverMembers:
    """``all of``, ``any of``, ``at least N of``: the words before ``of`` are names to the grammar
    and are looked at here.
    """
    word = token(branch, "NAME")
    counts = tokens(branch, "NUMBER")
    variable, source = over(at, branch)
    least = 1 if word == "any" else None
    if counts:
        least = _count(at, counts[0])
        if word != "at":
            at.report(
                "FKG048",
                at.span(word),
                f"`{word} least` does not count conditions",
                "write: at least 2 of (...) over ?p ...",
            )
    elif word not in ("all", "any"):
        near = nearest_name(str(word), ("all", "any"))
        hint = (
            f"did you mean `{near} of`?"
            if near
            else "conditions over members: all of (...), any of (...), at least 2 of (...)"
        )
        what = (
            f"`{word} of` takes values, this is a condition"
            if word in REDUCTIONS
            else f"`{word} of` does not join conditions"
        )
        at.report("FKG048", at.span(word), what, hint)
    return OverMembers(
        span=at.span(branch),
        arg=condition(at, branches(branch)[0]),
        least=least,
        variable=variable,
        source=source,
    )


def _count(at: Statement, written: Token) -> int:
    """How many members: a whole number from 1 on, and no more than anybody could have."""
    value = number(at, written)
    if 1 <= value <= MOST_MEMBERS and value.is_integer():
        return int(value)
    if math.isinf(value):
        return 1  # which has been said
    hint = (
        "write how many: at least 2 of (...); `not any of (...)` says none, `all of (...)` says all"
        if value < 1 or value > MOST_MEMBERS
        else f"write: at least {max(1, math.ceil(value))} of (...)"
    )
    at.report("FKG047", at.span(written), f"{written} is not a valid number of members", hint)
    return 1


def _monotone(at: Statement, branch: Branch) -> Monotone:
    subject = branches(branch)[0]
    groups = branches(branch, "per")
    features = branches(branch, "as")
    return Monotone(
        span=at.span(branch),
        subject=expression(at, subject),
        direction="falls" if tokens(branch, "FALLS") else "rises",
        group=plain(at, token(groups[0], "NAME", "QUOTED")) if groups else None,
        feature=head(at, branches(features[0], "head")[0]) if features else None,
    )


def _window(at: Statement, branch: Branch) -> Window:
    bounds = [expression(at, child) for child in branches(branch)]
    return Window(
        span=at.span(branch), low=bounds[0] if len(bounds) == 2 else None, high=bounds[-1]
    )


def _temporal(at: Statement, branch: Branch) -> Temporal:
    *window, body = branches(branch)
    mode = tokens(branch)[-1]
    bounds = _window(at, window[0]) if window else None
    arg = condition(at, body)
    weak = bool(tokens(branch, "WEAK"))
    span = at.span(branch)
    match mode.type:
        case "ALWAYS":
            return Temporal(span=span, mode="always", window=bounds, arg=arg)
        case "EVENTUALLY":
            return Temporal(span=span, mode="eventually", window=bounds, arg=arg)
        case "ONCE":
            return Temporal(span=span, mode="once", window=bounds, arg=arg)
        case "HISTORICALLY":
            return Temporal(span=span, mode="historically", window=bounds, arg=arg)
        case "NEXT":
            return Temporal(span=span, mode="next", window=bounds, arg=arg, weak=weak)
        case "PREVIOUS":
            return Temporal(span=span, mode="previous", window=bounds, arg=arg, weak=weak)
        case _:
            return Temporal(span=span, mode="initially", window=bounds, arg=arg)


def _until(at: Statement, branch: Branch) -> Until:
    left, *window, right = branches(branch)
    return Until(
        span=at.span(branch),
        mode="until" if tokens(branch, "UNTIL") else "since",
        left=condition(at, left),
        window=_window(at, window[0]) if window else None,
        right=condition(at, right),
        closed=bool(tokens(branch, "CLOSED")),
        weak=bool(tokens(branch, "WEAK")),
    )
