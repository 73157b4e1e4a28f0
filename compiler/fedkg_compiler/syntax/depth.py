"""How deep a statement is nested: measured without recursion, before anything walks its tree."""

from __future__ import annotations

from fedkg_compiler.syntax.construct.condition_nodes import SIGNS
from fedkg_compiler.syntax.parse_tree_nodes import Branch, Token

MAX_NESTING = 60
MAX_TERMS = 200
MAX_CHAIN = 5_000
"""Sides of one chain of comparisons and their operators."""


def too_deep(tree: Branch) -> tuple[Branch, str] | None:
    """The first branch that is nested deeper than `MAX_NESTING`, or that joins more than
    `MAX_TERMS` terms or `MAX_CHAIN` comparisons, and which of the two.
    """
    waiting: list[tuple[Branch, int, int]] = [(tree, 0, 0)]
    while waiting:
        branch, depth, terms = waiting.pop()
        if depth > MAX_NESTING:
            return branch, "nesting"
        if terms > MAX_TERMS or (branch.data == "compare" and len(branch.children) > MAX_CHAIN):
            return branch, "terms"
        chained = branch.data in SIGNS
        for position, child in enumerate(branch.children):
            if isinstance(child, Token):
                continue
            if chained and position == 0 and child.data in SIGNS:
                waiting.append((child, depth, terms + 1))
            else:
                waiting.append((child, depth + 1, 0))
    return None
