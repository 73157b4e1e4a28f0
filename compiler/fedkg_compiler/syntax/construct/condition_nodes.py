"""Conditions: from the parser's branches to the nodes of `tree.Condition`."""

from __future__ import annotations

import math
from typing import Literal

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.syntax.construct.comparison import comparison
from fedkg_compiler.syntax.construct.expression_nodes import call, expression, over
from fedkg_compiler.syntax.construct.literal_nodes import head, number, plain
from fedkg_compiler.syntax.construct.statement_clauses import distinct
from fedkg_compiler.syntax.construct.statement_context import Statement, branches, token, tokens
from fedkg_compiler.syntax.parse_tree_nodes import Branch, Leaf, Token
from fedkg_compiler.syntax.tree import (
    AllOf,
    AnyOf,
    AtEdge,
    Becomes,
    Begins,
    Condition,
    Equivalence,
    Follows,
    IfThen,
    IsClass,
    Lasting,
    Membership,
    Monotone,
    Negation,
    OnlyAfter,
    OverMembers,
    Temporal,
    Until,
    Window,
)

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
