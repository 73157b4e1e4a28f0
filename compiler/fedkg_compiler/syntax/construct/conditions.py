"""Conditions: from lark's branches to the nodes of `tree.Condition`."""

from __future__ import annotations

from typing import Literal

from lark import Token

from fedkg_compiler.syntax.construct.comparison import comparison
from fedkg_compiler.syntax.construct.expressions import expression
from fedkg_compiler.syntax.construct.place import Statement, branches, token, tokens
from fedkg_compiler.syntax.construct.words import head, plain, quantity
from fedkg_compiler.syntax.grammar import Branch, Leaf
from fedkg_compiler.syntax.tree import AllOf, AnyOf, Condition, IfThen, IsClass, Monotone, Negation, OnlyAfter, Temporal, Until, Window


def condition(at: Statement, leaf: Leaf) -> Condition:
    """The condition that a branch stands for."""
    assert not isinstance(leaf, Token), leaf
    span = at.span(leaf)
    match str(leaf.data):
        case "formula":
            return condition(at, leaf.children[0])
        case "compare":
            return comparison(at, leaf)
        case "is_class":
            return _is_class(at, leaf)
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
            return IfThen(span=span, antecedent=condition(at, antecedent), consequent=condition(at, consequent))
        case "temporal":
            return _temporal(at, leaf)
        case "until":
            return _until(at, leaf)
        case "only_after":
            effect, cause, *within = branches(leaf)
            return OnlyAfter(
                span=span, effect=condition(at, effect), cause=condition(at, cause), within=quantity(at, within[0]) if within else None
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
    return Window(span=at.span(branch), low=bounds[0] if len(bounds) == 2 else None, high=bounds[-1])


def _temporal(at: Statement, branch: Branch) -> Temporal:
    *window, body = branches(branch)
    mode = token(branch)
    bounds = _window(at, window[0]) if window else None
    arg = condition(at, body)
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
            return Temporal(span=span, mode="next", window=bounds, arg=arg)
        case "PREVIOUS":
            return Temporal(span=span, mode="previous", window=bounds, arg=arg)
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
    )
