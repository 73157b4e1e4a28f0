"""Which variables a pattern has, and which of them always have a value (SPARQL 1.1, section
18.2.1).
"""

from __future__ import annotations

from collections.abc import Iterable

from fedkg_compiler.graph.sparql_syntax.tree import (
    Bind,
    Group,
    InGraph,
    Node,
    Op,
    Optional,
    Part,
    Projection,
    Query,
    SubSelect,
    Triple,
    Union,
    Values,
    Var,
    children,
    walk,
)

Names = frozenset[str]


def variables(node: Node) -> Names:
    """All variables that are written anywhere in a tree."""
    return frozenset(item.name for item in walk(node) if isinstance(item, Var))


def visible(node: Node) -> Names:
    """The variables of a part that others may share: those that a sub-select does not give are its
    own.
    """
    if isinstance(node, SubSelect):
        return projected(node.query)
    own = frozenset({node.name}) if isinstance(node, Var) else frozenset()
    return own.union(*(visible(child) for child in children(node)))


def in_scope(parts: Iterable[Part]) -> Names:
    """The variables to which a group may give values."""
    return frozenset().union(*(_scope_of(part) for part in parts))


def _scope_of(part: Part) -> Names:
    match part:
        case Triple():
            return variables(part)
        case Bind():
            return frozenset({part.variable.name})
        case Values():
            return frozenset(item.name for item in part.variables)
        case Optional():
            return in_scope(part.group.parts)
        case Union():
            return frozenset().union(*(in_scope(group.parts) for group in part.groups))
        case SubSelect():
            return projected(part.query)
        case Group():
            return in_scope(part.parts)
        case InGraph():
            return variables(part.name) | in_scope(part.group.parts)
        case _:
            return frozenset()


def projected(query: Query) -> Names:
    """The variables that a query gives."""
    if query.projection is not None:
        return frozenset(item.variable.name for item in query.projection)
    return frozenset(name for name in in_scope(query.where.parts) if not name.startswith("_"))


def unbound(query: Query) -> Var | None:
    """The first variable that is read in a condition, and that nothing anywhere gives a value; None
    where there is none.
    """
    nodes = walk(query)
    given = frozenset().union(
        *(
            in_scope((node,))
            for node in nodes
            if isinstance(node, Triple | Bind | Values | InGraph)
        ),
        *(frozenset({node.variable.name}) for node in nodes if isinstance(node, Projection)),
    )
    read = (
        item
        for node in nodes
        if isinstance(node, Op)
        for item in walk(node)
        if isinstance(item, Var)
    )
    return next(
        (item for item in read if item.name not in given and not item.name.startswith("_")), None
    )


def shown(query: Query) -> Names:
    """The variables of its pattern that a query shows: what solutions are about."""
    if query.form == "ask":
        return frozenset()
    if query.projection is None:
        return projected(query)
    return frozenset(item.variable.name for item in query.projection if item.expr is None)


def certain(parts: Iterable[Part]) -> Names:
    """The variables that have a value in every solution of a group."""
    return frozenset().union(*(_certain(part) for part in parts))


def _certain(part: Part) -> Names:
    match part:
        case Triple():
            return variables(part)
        case Values():
            full = [
                i
                for i in range(len(part.variables))
                if all(row[i] is not None for row in part.rows)
            ]
            return frozenset(part.variables[i].name for i in full)
        case Union():
            sets = [certain(group.parts) for group in part.groups]
            return frozenset.intersection(*sets) if sets else frozenset()
        case SubSelect():
            keys = (
                None
                if part.query.group_by is None
                else {item.variable.name for item in part.query.group_by}
            )
            inner = certain(part.query.where.parts)
            return projected(part.query) & (inner if keys is None else inner & keys)
        case Group():
            return certain(part.parts)
        case InGraph():
            return variables(part.name) | certain(part.group.parts)
        case _:
            return frozenset()
