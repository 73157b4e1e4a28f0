"""What is left of a rule where a value is missing: a limit that is not given does not limit.

The rest is what the rule requires for every value of the missing part: the strongest condition of
the written parts that follows from the rule for every value. So a part that needs the value is
taken to hold where it is required, and to fail where it would only permit: under a `not`, behind an
`if`.

| written, where ?b is missing | what is left |
|---|---|
| ``?a <= x <= ?b`` | ``?a <= x`` |
| ``c and x <= ?b`` | ``c`` |
| ``c or x <= ?b`` | nothing: a large ?b would permit everything |
| ``not (x <= ?b)`` | nothing |
| ``not (c or x <= ?b)`` | ``not c``: it follows, whatever ?b is |
| ``not (c and x <= ?b)`` | nothing |
| ``if x <= ?b then c`` | nothing: nobody knows when it applies |
| ``if c or x <= ?b then d`` | ``if c then d`` |
| ``if c then x <= ?b`` | nothing |
| ``always c and x <= ?b`` | ``always c``; the same for other temporal words |
| ``always c`` in a window with ?b | nothing: a window is not a limit |
| a sum, mean, ... of members that needs ?b | the comparison around it is left out |
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    body_of,
    names_in,
    pattern_variables,
    variables_in,
)
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Aggregate,
    AllOf,
    AnyOf,
    Apply,
    Comparison,
    Condition,
    Head,
    IfThen,
    IsClass,
    Lasting,
    Monotone,
    Negation,
    OnlyAfter,
    OverMembers,
    Temporal,
    Tree,
    Variable,
)


def prune(condition: Condition, missing: Set[str], *, permits: bool = False) -> Condition | None:
    """The condition without the parts that need a missing variable; None where nothing is left of
    it.

    Args:
        missing: variables that have no value here.
        permits: whether the condition loosens a rule (under `not`, after `if`) instead of being
            required.
    """
    if not missing or not any(needs(node, missing) for node in names_in(condition)):
        return condition
    match condition:
        case Comparison():
            return None if permits else _chain(condition, missing)
        case AllOf() | AnyOf():
            parts = [prune(arg, missing, permits=permits) for arg in condition.args]
            kept = tuple(part for part in parts if part is not None)
            if len(kept) < len(parts) and isinstance(condition, AnyOf) is not permits:
                # whatever the value is, `a or (unknown)` may hold, and `a and (unknown)` may fail
                return None
            return replace(condition, args=kept) if len(kept) > 1 else kept[0] if kept else None
        case Negation():
            arg = prune(condition.arg, missing, permits=not permits)
            return None if arg is None else replace(condition, arg=arg)
        case IfThen():
            return _if_then(condition, missing, permits)
        case Temporal():
            if condition.window is not None and any(
                needs(node, missing) for node in names_in(condition.window)
            ):
                return None
            arg = prune(condition.arg, missing, permits=permits)
            return None if arg is None else replace(condition, arg=arg)
        case Lasting():
            if any(needs(node, missing) for node in names_in(condition.duration)):
                return None
            arg = prune(condition.arg, missing, permits=permits)
            return None if arg is None else replace(condition, arg=arg)
        case OnlyAfter() if not permits:
            if any(
                needs(node, missing)
                for part in (condition.effect, condition.within)
                if part is not None
                for node in names_in(part)
            ):
                return None
            cause = prune(condition.cause, missing)
            return None if cause is None else replace(condition, cause=cause)
        case _:
            return None


def _if_then(condition: IfThen, missing: Set[str], permits: bool) -> Condition | None:
    antecedent = prune(condition.antecedent, missing, permits=not permits)
    consequent = prune(condition.consequent, missing, permits=permits)
    if antecedent is not None and consequent is not None:
        return replace(condition, antecedent=antecedent, consequent=consequent)
    if not permits:
        return None
    if antecedent is None:
        return consequent
    return Negation(span=condition.span, arg=antecedent)


def needs(node: Tree, missing: Set[str]) -> bool:
    """Whether a node is, or names, a missing variable."""
    match node:
        case Variable():
            return node.name in missing
        case Apply():
            return any(isinstance(arg, Variable) and arg.name in missing for arg in node.args)
        case Aggregate() | OverMembers():
            return not missing.isdisjoint(
                variables_in(body_of(node))[1]
                | pattern_variables(node.source) - {node.variable.text}
            )
        case IsClass(form="variable"):
            return node.value.text in missing
        case Monotone(feature=Head(variable=word)) if word is not None:
            return word.text in missing
        case _:
            return False


def _chain(chain: Comparison, missing: Set[str]) -> Condition | None:
    """The runs of a chain between its missing operands."""
    if chain.tolerance is not None and any(
        needs(node, missing) for node in names_in(chain.tolerance)
    ):
        return None
    runs: list[list[int]] = [[]]
    for i, operand in enumerate(chain.operands):
        if any(needs(node, missing) for node in names_in(operand)):
            runs.append([])
        else:
            runs[-1].append(i)
    parts: list[Condition] = [
        replace(
            chain,
            operands=tuple(chain.operands[i] for i in run),
            operators=chain.operators[run[0] : run[-1]],
        )
        for run in runs
        if len(run) > 1
    ]
    return (
        None
        if not parts
        else parts[0]
        if len(parts) == 1
        else AllOf(span=chain.span, args=tuple(parts))
    )
