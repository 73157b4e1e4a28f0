"""Conditions over time: always, eventually, once, historically, next, previous, initially, until,
since, only after, becomes, begins, at the start, at the end.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Literal

import numpy as np

from fedkg.pack import And, Formula, Implies, Initially, Not, Or
from fedkg.pack import Temporal as Held
from fedkg.pack import Until as Reached
from fedkg.pack.formulas import everywhere
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.durations_in_steps import (
    lasting_params,
    other_step,
    window_params,
)
from fedkg_compiler.frontends.fkg.binding.scope import Scope, in_time
from fedkg_compiler.frontends.fkg.binding.templates import LARGEST
from fedkg_compiler.frontends.fkg.syntax.tree import (
    AtEdge,
    Lasting,
    OnlyAfter,
    Temporal,
    Until,
    Window,
)


def temporal(node: Temporal, scope: Scope) -> Formula | None:
    """A prefix word with its body."""
    in_time(node.span, scope)
    if node.mode in ("next", "previous", "initially"):
        return _one_step(node, scope)
    ends = window_params(node.window, scope)
    arg = scope.bind_condition(node.arg, scope)
    if ends is None or arg is None:
        return None
    match node.mode:
        case "always" | "eventually" | "historically" | "once":
            return Held(op=node.mode, low=ends[0], high=ends[1], arg=arg)
        case _:
            raise AssertionError(node.mode)


def _one_step(node: Temporal, scope: Scope) -> Formula | None:
    """`next`, `previous` and `initially`, which have no window."""
    arg = scope.bind_condition(node.arg, scope)
    if node.window is not None:
        wider = "once" if node.mode == "previous" else "eventually"
        advice = (
            "remove it"
            if node.mode == "initially"
            else f"remove it, or write {wider} with the window"
        )
        step = {"initially": "first", "previous": "previous"}.get(node.mode, "next")
        scope.problems.error(
            "FKG259",
            node.window.span,
            f"`{node.mode}` takes no window, because it always means the {step} step",
            advice,
        )
        return None
    if arg is None:
        return None
    if node.mode == "initially":
        return Initially(arg=arg)
    operator: Literal["once", "eventually"] = "eventually" if node.mode == "next" else "once"
    there = _at(1.0, operator, arg, scope)
    return Or(args=(Not(arg=other_step(operator, 1.0, scope)), there)) if node.weak else there


def _at(step: float, op: str, arg: Formula, scope: Scope) -> Held:
    low, high = scope.rows.param(np.array(step)).index, scope.rows.param(np.array(step)).index
    return Held(op="once" if op == "once" else "eventually", low=low, high=high, arg=arg)


def until(node: Until, scope: Scope) -> Formula | None:
    """``a until b`` and ``a since b``; weak: or `a` holds at every step of the window."""
    in_time(node.span, scope)
    left = scope.bind_condition(node.left, scope)
    ends = window_params(node.window, scope)
    right = scope.bind_condition(node.right, scope)
    if left is None or right is None or ends is None:
        return None
    reached = Reached(
        op=node.mode, low=ends[0], high=ends[1], left=left, right=right, closed=node.closed
    )
    if not node.weak:
        return reached
    if not may_repeat(left, node.span, scope):
        return None
    now = scope.rows.param(np.array(0.0)).index
    always = Held(
        op="always" if node.mode == "until" else "historically", low=now, high=ends[1], arg=left
    )
    return Or(args=(reached, always))


def lasting(node: Lasting, scope: Scope) -> Formula | None:
    """``c for at least t``: c holds now and at every step back to t ago.

    Near the beginning of a trace nothing shows that it has held that long. The window reaches
    beyond the trace there, which makes it unknown; where windows end with the trace, it would be
    true, so that c must also have held at the step t ago.
    """
    arg = scope.bind_condition(node.arg, scope)
    ends = lasting_params(node.duration, node.span, scope)
    if arg is None or ends is None:
        return None
    held = Held(op="historically", low=ends[0], high=ends[1], arg=arg)
    if scope.names.timing.end != "clip":
        return held
    if not may_repeat(arg, node.span, scope):
        return None
    return And(args=(held, Held(op="once", low=ends[1], high=ends[1], arg=arg)))


def becomes(arg: Formula, span: Span, scope: Scope) -> Formula | None:
    """``c becomes true``: c holds, and did not hold in the step before.

    At the first step of a trace nothing shows that it did not: it is unknown there, and false where
    windows end with the trace.
    """
    in_time(span, scope)
    if not may_repeat(arg, span, scope):
        return None
    return And(args=(arg, _at(1.0, "once", Not(arg=arg), scope)))


def begins(arg: Formula, span: Span, scope: Scope) -> Formula | None:
    """``c begins``: c holds, and did not hold in the step before; at the first step of a trace
    there is none before.
    """
    in_time(span, scope)
    if not may_repeat(arg, span, scope):
        return None
    before = And(args=(other_step("once", 1.0, scope), _at(1.0, "once", arg, scope)))
    return And(args=(arg, Not(arg=before)))


def at_edge(node: AtEdge, scope: Scope) -> Formula:
    """``at the start`` and ``at the end``: the trace has no step before, or after, this one."""
    in_time(node.span, scope)
    return Not(arg=other_step("once" if node.edge == "start" else "eventually", 1.0, scope))


def only_after(node: OnlyAfter, scope: Scope) -> Formula | None:
    """``effect only after cause within t``: where the effect begins, the cause holds or held at
    most t ago.
    """
    in_time(node.span, scope)
    effect, cause = (
        scope.bind_condition(node.effect, replace(scope, permits=not scope.permits)),
        scope.bind_condition(node.cause, scope),
    )
    window = (
        None if node.within is None else Window(span=node.within.span, low=None, high=node.within)
    )
    ends = window_params(window, scope)
    if effect is None or cause is None or ends is None:
        return None
    beginning = begins(effect, node.span, scope)
    if beginning is None:
        return None
    return Implies(
        antecedent=beginning, consequent=Held(op="once", low=ends[0], high=ends[1], arg=cause)
    )


def may_repeat(arg: Formula, span: Span, scope: Scope) -> bool:
    """Whether a formula is small enough to occur twice; nested edges double it each time."""
    if sum(1 for _ in islice(everywhere(arg), LARGEST)) < LARGEST:
        return True
    message = (
        "this condition is too large: fedkg writes some of its parts twice, and nesting doubles "
        "them each time"
    )
    scope.problems.error("FKG261", span, message, "split the rule into several")
    return False
