"""What is left of a rule where a value is missing: a limit that is not given does not limit."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from fedkg_compiler.binding.lookup import names_in
from fedkg_compiler.syntax.tree import AllOf, Apply, Comparison, Condition, Head, IfThen, IsClass, Monotone, Tree, Variable


def prune(condition: Condition, missing: Set[str]) -> Condition | None:
    """The condition without the parts that need a missing variable; None where nothing is left.

    Only what is required on its own is left out: one side of ``?low <= x <= ?high``, one part of an `and`, a part of what follows `then`.
    """
    if not any(needs(node, missing) for node in names_in(condition)):
        return condition
    match condition:
        case Comparison():
            return _chain(condition, missing)
        case AllOf():
            kept = tuple(part for arg in condition.args if (part := prune(arg, missing)) is not None)
            return replace(condition, args=kept) if len(kept) > 1 else kept[0] if kept else None
        case IfThen():
            if any(needs(node, missing) for node in names_in(condition.antecedent)):
                return None
            consequent = prune(condition.consequent, missing)
            return None if consequent is None else replace(condition, consequent=consequent)
        case _:
            return None


def needs(node: Tree, missing: Set[str]) -> bool:
    """Whether a node is, or names, a missing variable."""
    match node:
        case Variable():
            return node.name in missing
        case Apply():
            return any(isinstance(arg, Variable) and arg.name in missing for arg in node.args)
        case IsClass(form="variable"):
            return node.value.text in missing
        case Monotone(feature=Head(variable=word)) if word is not None:
            return word.text in missing
        case _:
            return False


def _chain(chain: Comparison, missing: Set[str]) -> Condition | None:
    """The runs of a chain between its missing operands."""
    if chain.tolerance is not None and any(needs(node, missing) for node in names_in(chain.tolerance)):
        return None
    runs: list[list[int]] = [[]]
    for i, operand in enumerate(chain.operands):
        if any(needs(node, missing) for node in names_in(operand)):
            runs.append([])
        else:
            runs[-1].append(i)
    parts: list[Condition] = [
        replace(chain, operands=tuple(chain.operands[i] for i in run), operators=chain.operators[run[0] : run[-1]])
        for run in runs
        if len(run) > 1
    ]
    return None if not parts else parts[0] if len(parts) == 1 else AllOf(span=chain.span, args=tuple(parts))
