"""HAVING with names that SELECT assigns: ``SELECT (MAX(?v) AS ?m) ... HAVING(?m > 2)``.

SPARQL 1.1 (section 18.2.4) evaluates HAVING before SELECT assigns its names, so ``?m`` has no value
there and the condition is an error. Some stores extend the standard and use the assigned value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from fedkg_compiler.graph.sparql_syntax.tree import Exists, Expr, Node, Query, Var

Use = tuple[Var, Expr]
"""A name in HAVING, and the expression to which SELECT gives this name."""


def without_aliases(query: Query) -> tuple[Query, list[Use]]:
    """Replace the names in HAVING by their expressions, in sub-selects too."""
    uses: list[Use] = []
    found = _without_names(query, uses)
    assert isinstance(found, Query)
    return found, uses


def _without_names(
    node: Any, uses: list[Use]
) -> Any:  # Any: a node, a tuple of them, or a plain value
    if isinstance(node, tuple):
        return tuple(_without_names(item, uses) for item in node)
    if not isinstance(node, Node):
        return node
    node = replace(
        node,
        **{
            f.name: _without_names(getattr(node, f.name), uses)
            for f in fields(node)
            if f.name != "at"
        },
    )
    if isinstance(node, Query) and node.having:
        names = {
            item.variable.name: item.expr for item in node.projection or () if item.expr is not None
        }
        return replace(node, having=tuple(_meant(item, names, uses) for item in node.having))
    return node


def _meant(node: Any, names: Mapping[str, Expr], uses: list[Use]) -> Any:  # Any: as above
    """An expression with those in place of names; one may be written with the names before it."""
    if isinstance(node, tuple):
        return tuple(_meant(item, names, uses) for item in node)
    if isinstance(node, Var) and node.name in names:
        uses.append((node, names[node.name]))
        return _meant(
            names[node.name], {name: expr for name, expr in names.items() if name != node.name}, []
        )
    if not isinstance(node, Node) or isinstance(node, Exists):
        return node
    return replace(
        node,
        **{
            f.name: _meant(getattr(node, f.name), names, uses)
            for f in fields(node)
            if f.name != "at"
        },
    )
