"""Prints parts of a query as SPARQL without prefixes, open constants as variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from fedkg_compiler.graph.sparql_syntax.tree import (
    Aggregate,
    Bind,
    Const,
    Elsewhere,
    Exists,
    Expr,
    Filter,
    Group,
    InGraph,
    Minus,
    Op,
    Optional,
    Part,
    Path,
    Predicate,
    Projection,
    Query,
    Resolved,
    SubSelect,
    Triple,
    Union,
    Values,
    Var,
)

Show = Callable[[Const], str]
"""How a constant is written."""

_INFIX = frozenset({"||", "&&", "=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/"})
_NAMES = {"iri": "IRI", "neg": "-", "!": "!"}


def parts_text(parts: tuple[Part, ...], show: Show) -> str:
    """Return the text between the braces of a group."""
    return "\n".join(part_text(part, show) for part in parts)


def part_text(part: Part, show: Show) -> str:
    """One part of a group."""
    match part:
        case Triple():
            return (
                f"{node_text(part.subject, show)} {path_text(part.predicate, show)}"
                f" {node_text(part.object, show)} ."
            )
        case Filter():
            return f"FILTER({expr_text(part.expr, show)})"
        case Bind():
            return f"BIND({expr_text(part.expr, show)} AS ?{part.variable.name})"
        case Values():
            rows = " ".join(
                "(" + " ".join("UNDEF" if item is None else show(item) for item in row) + ")"
                for row in part.rows
            )
            return f"VALUES ({' '.join('?' + item.name for item in part.variables)}) {{ {rows} }}"
        case Optional():
            return f"OPTIONAL {group_text(part.group, show)}"
        case Minus():
            return f"MINUS {group_text(part.group, show)}"
        case Union():
            return " UNION ".join(group_text(group, show) for group in part.groups)
        case SubSelect():
            return f"{{ {query_text(part.query, show)} }}"
        case Group():
            return group_text(part, show)
        case InGraph():
            return f"GRAPH {node_text(part.name, show)} {group_text(part.group, show)}"
        case Elsewhere():
            raise AssertionError("refused before anything is printed")
    assert_never(part)


def group_text(group: Group, show: Show) -> str:
    """A group in its braces."""
    return f"{{ {parts_text(group.parts, show)} }}"


def node_text(node: Var | Const, show: Show) -> str:
    """A subject or object."""
    return f"?{node.name}" if isinstance(node, Var) else show(node)


def path_text(path: Predicate, show: Show) -> str:
    """A property or path."""
    match path:
        case Var() | Const():
            return node_text(path, show)
        case Path(op="/" | "|"):
            return "(" + path.op.join(path_text(arg, show) for arg in path.args) + ")"
        case Path(op="^"):
            inner = path_text(path.args[0], show)
            return f"^{inner}" if isinstance(path.args[0], Const) else f"^({inner})"
        case Path(op="!"):
            inner = path_text(path.args[0], show)
            return f"!{inner}" if inner.startswith("(") else f"!({inner})"
        case Path():
            return f"({path_text(path.args[0], show)}){path.op}"
    assert_never(path)


def expr_text(expr: Expr, show: Show) -> str:
    """An expression, in brackets wherever that could matter."""
    match expr:
        case Var() | Const():
            return node_text(expr, show)
        case Exists():
            return f"{'NOT ' if expr.negated else ''}EXISTS {group_text(expr.group, show)}"
        case Aggregate():
            inner = "*" if expr.arg is None else expr_text(expr.arg, show)
            end = (
                ""
                if expr.separator is None
                else (
                    f" ; SEPARATOR = {show(Const(at=expr.at, token=expr.separator, kind='string'))}"
                )
            )
            return f"{expr.op.upper()}({'DISTINCT ' if expr.distinct else ''}{inner}{end})"
        case Op():
            return _operation(expr, [expr_text(arg, show) for arg in expr.args])
        case Resolved():
            raise AssertionError("what is observed is never asked of the graph")
    assert_never(expr)


def _operation(expr: Op, args: list[str]) -> str:
    if expr.name in _INFIX:
        return "(" + f" {expr.name} ".join(args) + ")"
    if expr.name in ("!", "neg"):
        return f"({_NAMES[expr.name]} {args[0]})"
    if expr.name in ("in", "not in"):
        return f"({args[0]} {expr.name.upper()} ({', '.join(args[1:])}))"
    if expr.name == "call":
        return f"{args[0]}({', '.join(args[1:])})"
    return f"{expr.name.upper()}({', '.join(args)})"


def query_text(query: Query, show: Show) -> str:
    """A sub-select, without braces."""
    shown = (
        "*"
        if query.projection is None
        else " ".join(_projection(item, show) for item in query.projection)
    )
    text = (
        f"SELECT {'DISTINCT ' if query.distinct else ''}{shown} WHERE"
        f" {group_text(query.where, show)}"
    )
    if query.group_by is not None:
        text += " GROUP BY " + " ".join(_projection(item, show) for item in query.group_by)
    if query.having:
        text += " HAVING " + " ".join(f"({expr_text(item, show)})" for item in query.having)
    if query.orders:
        text += " ORDER BY " + " ".join(_order(item, show) for item in query.orders)
    for word, token in (("LIMIT", query.limit), ("OFFSET", query.offset)):
        if token is not None:
            text += f" {word} {show(Const(at=(token, token), token=token, kind='number'))}"
    return text


def _order(expr: Expr, show: Show) -> str:
    falling = isinstance(expr, Op) and expr.name == "desc"
    return expr_text(expr, show) if falling else f"({expr_text(expr, show)})"


def _projection(item: Projection, show: Show) -> str:
    if item.expr is None:
        return f"?{item.variable.name}"
    return f"({expr_text(item.expr, show)} AS ?{item.variable.name})"
