"""The syntax tree of a SPARQL query: what was written, with its place.

A place is the numbers of the first and last token of the part; all queries of one shape share a
tree, and each has its own tokens.
Constants are numbers of tokens too: their values are those of the query that is bound. Nodes are
frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Place = tuple[int, int]
"""First and last token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything with a place."""

    at: Place


# ---- expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class Var(Node):
    """A variable, without ``?``; blank nodes are variables with a leading ``_``."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Const(Node):
    """A constant: token number `token` of the query, after `sign`; or, with `token` -1, the text
    `text`.

    Attributes:
        token: the number of the token in the query; -1 for a constant with a `text`.
        kind: the kind of the constant.
        sign: the sign before the token, or "".
        text: the text of a constant that is not a token of the query.
        open: whether its value may differ between the queries of one batch.
    """

    token: int
    kind: Literal["iri", "number", "string", "boolean"]
    sign: str = ""
    text: str = ""
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(Node):
    """An operator or function with its arguments: ``||``, ``<=``, ``in``, ``abs``, ``if`` in lower
    case, or ``call`` of an IRI.

    The first argument of ``call`` is the function's IRI.
    """

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exists(Node):
    """``EXISTS { ... }`` or ``NOT EXISTS { ... }``."""

    group: Group
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Node):
    """``SUM(DISTINCT ?x)``; without an argument ``COUNT(*)``."""

    op: str
    distinct: bool
    arg: Expr | None
    separator: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(Node):
    """An expression that the split has found out more about than the text says: see `branches`."""


Expr = Var | Const | Op | Exists | Aggregate | Resolved


# ---- paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Path(Node):
    """A property path that is more than one IRI.

    Attributes:
        op: ``/``, ``|``, ``^`` (inverse), ``*``, ``+``, ``?``, or ``!`` (none of).
    """

    op: Literal["/", "|", "^", "*", "+", "?", "!"]
    args: tuple[Predicate, ...]


Predicate = Var | Const | Path


# ---- patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class Triple(Node):
    """Subject, predicate (or path), object."""

    subject: Var | Const
    predicate: Predicate
    object: Var | Const


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Node):
    """``FILTER expr``."""

    expr: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind(Node):
    """``BIND(expr AS ?x)``."""

    expr: Expr
    variable: Var


@dataclass(frozen=True, slots=True, kw_only=True)
class Values(Node):
    """``VALUES (?x ?y) { (1 2) (UNDEF 3) }``; None for UNDEF."""

    variables: tuple[Var, ...]
    rows: tuple[tuple[Const | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optional(Node):
    """``OPTIONAL { ... }``."""

    group: Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Minus(Node):
    """``MINUS { ... }``."""

    group: Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Node):
    """``{ ... } UNION { ... }``."""

    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere(Node):
    """``SERVICE``: facts of another server."""

    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InGraph(Node):
    """``GRAPH name { ... }``: statements of a named graph, never values of the table."""

    name: Var | Const
    group: Group


@dataclass(frozen=True, slots=True, kw_only=True)
class SubSelect(Node):
    """``{ SELECT ... }`` as a part of a group."""

    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Node):
    """``{ ... }``: its parts in order."""

    parts: tuple[Part, ...]


Part = (
    Triple
    | Filter
    | Bind
    | Values
    | Optional
    | Minus
    | Union
    | Elsewhere
    | InGraph
    | SubSelect
    | Group
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection(Node):
    """``?x`` or ``(expr AS ?x)``."""

    variable: Var
    expr: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Node):
    """A whole query, or a sub-select.

    Attributes:
        form: SELECT or ASK.
        distinct: whether the query says DISTINCT.
        projection: the selected variables; None for ``*`` and for ASK.
        where: the group graph pattern.
        group_by: the expressions of GROUP BY; None without it.
        having: the conditions of HAVING.
        orders: the expressions of ORDER BY; a descending one is inside the operator `desc`.
        limit: the number of the token after LIMIT, or None.
        offset: the number of the token after OFFSET, or None.
        dataset: the place of FROM, or None.
    """

    form: Literal["select", "ask"]
    distinct: bool = False
    projection: tuple[Projection, ...] | None = None
    where: Group
    group_by: tuple[Projection, ...] | None = None
    having: tuple[Expr, ...] = ()
    orders: tuple[Expr, ...] = ()
    limit: int | None = None
    offset: int | None = None
    dataset: Place | None = None

    @property
    def aggregates(self) -> bool:
        """Whether solutions are grouped."""
        return self.group_by is not None or any(
            isinstance(node, Aggregate)
            for part in (*(self.projection or ()), *self.having)
            for node in walk(part, into=False)
        )


def children(node: Node) -> list[Node]:
    """The nodes directly below a node."""
    found: list[Node] = []
    _gather([getattr(node, name) for name in _parts(type(node))], found)
    return found


_PARTS: dict[type[Node], tuple[str, ...]] = {}


def _parts(kind: type[Node]) -> tuple[str, ...]:
    """The names of the fields that may hold nodes."""
    if kind not in _PARTS:
        _PARTS[kind] = tuple(f.name for f in fields(kind) if f.name != "at")
    return _PARTS[kind]


def _gather(
    values: Any, found: list[Node]
) -> None:  # Any: fields of nodes, nested tuples of whatever
    for value in values:
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            _gather(value, found)


def walk(node: Node, *, into: bool = True) -> list[Node]:
    """The node and all below it; without `into`, not those of patterns below it (EXISTS,
    sub-selects).
    """
    found = [node]
    if not into and isinstance(node, Exists | SubSelect):
        return found
    for child in children(node):
        found += walk(child, into=into)
    return found


def rename(
    node: Any, names: dict[str, str]
) -> Any:  # Any: a node, a tuple of them, or a plain value
    """The tree with some variables called otherwise."""
    if isinstance(node, Var):
        return replace(node, name=names[node.name]) if node.name in names else node
    if isinstance(node, Node):
        return replace(
            node, **{name: rename(getattr(node, name), names) for name in _parts(type(node))}
        )
    if isinstance(node, tuple):
        return tuple(rename(item, names) for item in node)
    return node
