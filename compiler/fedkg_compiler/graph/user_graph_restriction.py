"""Ties every part of a pattern to the user's data.

The store holds the user's graphs and the vocabularies that fedkg loads. A pattern may join both:
the unit of a limit
has a label in a vocabulary. But the parts of a pattern that share no variable are independent of
each other, and a
solution of such a part must have at least one subject that belongs to the user's data. Otherwise
the terms of a
vocabulary would be solutions of `?x rdfs:label ?l`.

OPTIONAL, EXISTS and MINUS need a separate tie only if they share no variable with the parts around
them.
A part that names a node itself, as a constant or in VALUES, asks for that node, and needs no tie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.printer import query_text
from fedkg_compiler.graph.sparql_syntax.query_forms import Reader
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import (
    Bind,
    Const,
    Elsewhere,
    Exists,
    Expr,
    Filter,
    Group,
    Minus,
    Node,
    Op,
    Optional,
    Part,
    Path,
    Place,
    Predicate,
    SubSelect,
    Triple,
    Union,
    Values,
    Var,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import Names, in_scope, projected, variables
from fedkg_compiler.graph.user_data_nodes import IS_OWN


@dataclass(slots=True)
class _Component:
    """Parts of a pattern that share variables.

    Attributes:
        names: the variables of the component.
        at: the place of its first part.
        subjects: the variables in subject position, in order of appearance.
        literals: those of `subjects` that a path without steps can bind to a literal.
        named: the variables that VALUES binds to nodes.
        tied: whether the component needs no filter, because it has a node of the user's data or an
            observed value, or is a sub-select.
    """

    names: set[str]
    at: Place
    subjects: dict[str, None] = field(default_factory=dict)
    literals: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    tied: bool = False

    def take(self, other: _Component) -> None:
        self.names |= other.names
        self.subjects |= other.subjects
        self.literals |= other.literals
        self.named |= other.named
        self.tied |= other.tied

    @property
    def needs_tie(self) -> bool:
        """Whether only vocabularies might be what its solutions are about."""
        return bool(self.subjects) and not self.tied and self.named.isdisjoint(self.subjects)


def tied_parts(parts: Sequence[Part], tied: Names = frozenset()) -> tuple[Part, ...]:
    """Return the parts of a group with filters that tie it to the user's data.

    Args:
        tied: variables for nodes of the user's data, or for observed values.
    """
    components = _components(parts, tied)
    seen = tied.union(*(one.names for one in components))
    inner = tuple(_inside(part, seen) for part in parts)
    may_lack = any(isinstance(node, Union) for part in parts for node in walk(part))
    return (
        *inner,
        *(
            Filter(at=one.at, expr=_tie(one, may_lack=may_lack))
            for one in components
            if one.needs_tie
        ),
    )


def tied_query(text: str, prefixes: Mapping[str, str]) -> str | None:
    """Return a SELECT, tied to the user's data, without prefixes; None where nothing is to be tied
    or the text cannot be read.
    """
    query = Reader(prefixes).read(text)
    try:
        tree = parse_query(query.tokens)
        if tree.dataset is not None or any(isinstance(node, Elsewhere) for node in walk(tree)):
            return None
        parts = tied_parts(tree.where.parts)
        if parts == tree.where.parts:
            return None
        return query_text(replace(tree, where=replace(tree.where, parts=parts)), query.value)
    except SparqlProblem:
        return None


def _tie(component: _Component, *, may_lack: bool) -> Expr:
    """At least one of the subjects is a node of the user's data, or none of them has a value (in
    another alternative).
    """
    at = component.at
    function = Const(at=at, token=-1, kind="iri", text=f"<{IS_OWN}>")
    names = [Var(at=at, name=name) for name in component.subjects]
    asked: list[Expr] = [Op(at=at, name="call", args=(function, name)) for name in names]
    asked += [_is_value_of_own(name, function) for name in names if name.name in component.literals]
    if may_lack:
        lacking = [
            Op(at=at, name="!", args=(Op(at=at, name="bound", args=(name,)),)) for name in names
        ]
        asked.append(_joined("&&", lacking, at))
    return _joined("||", asked, at)


def _is_value_of_own(name: Var, function: Const) -> Expr:
    """A literal is part of the user's data as a value of one of its nodes."""
    at = name.at
    owner, predicate = (Var(at=at, name=f"_{role}_of_{name.name}") for role in ("owner", "path"))
    is_own = Filter(at=at, expr=Op(at=at, name="call", args=(function, owner)))
    value = Triple(at=at, subject=owner, predicate=predicate, object=name)
    is_literal = Op(at=at, name="isliteral", args=(name,))
    has_owner = Exists(at=at, group=Group(at=at, parts=(value, is_own)), negated=False)
    return _joined("&&", [is_literal, has_owner], at)


def _may_be_empty(path: Predicate) -> bool:
    """Whether a path has a form without steps, which leads from every term to itself."""
    if not isinstance(path, Path):
        return False
    match path.op:
        case "*" | "?":
            return True
        case "!":
            return False
        case "|":
            return any(map(_may_be_empty, path.args))
        case _:
            return all(map(_may_be_empty, path.args))


def _joined(word: str, parts: Sequence[Expr], at: Place) -> Expr:
    return parts[0] if len(parts) == 1 else Op(at=at, name=word, args=tuple(parts))


def _components(parts: Iterable[Part], tied: Names) -> list[_Component]:
    """The components of a group, alternatives and nested groups included."""
    found: list[_Component] = []
    for item in _atoms(parts):
        item.tied |= not tied.isdisjoint(item.names)
        apart = []
        for other in found:
            if other.names.isdisjoint(item.names):
                apart.append(other)
            else:
                other.take(item)
                item = other
        found = [*apart, item]
    return found


def _atoms(parts: Iterable[Part]) -> list[_Component]:
    found: list[_Component] = []
    for part in parts:
        match part:
            case Triple():
                backwards = any(
                    isinstance(node, Path) and node.op == "^" for node in walk(part.predicate)
                )
                ends = (part.subject, part.object) if backwards else (part.subject,)
                names = {node.name: None for node in ends if isinstance(node, Var)}
                literals = {*names} if _may_be_empty(part.predicate) else set[str]()
                found.append(_Component({*variables(part)}, part.at, names, literals))
            case Group():
                found += _atoms(part.parts)
            case Union():
                found += [item for group in part.groups for item in _atoms(group.parts)]
            case Values():
                named = {
                    variable.name
                    for i, variable in enumerate(part.variables)
                    if any((cell := row[i]) is not None and cell.kind == "iri" for row in part.rows)
                }
                found.append(_Component({*in_scope((part,))}, part.at, named=named))
            case Bind():
                found.append(_Component({part.variable.name, *variables(part.expr)}, part.at))
            case SubSelect():
                found.append(_Component({*projected(part.query)}, part.at, tied=True))
            case Optional():
                found.append(_Component({*in_scope((part,))}, part.at))
            case _:
                pass
    return [item for item in found if item.names]


def _inside(part: Part, seen: Names) -> Part:
    """A part with its nested groups tied; `seen`: the variables of the groups around them, which
    are tied already.
    """
    match part:
        case Group():
            return replace(part, parts=tuple(_inside(item, seen) for item in part.parts))
        case Union():
            groups = (
                replace(group, parts=tuple(_inside(item, seen) for item in group.parts))
                for group in part.groups
            )
            return replace(part, groups=tuple(groups))
        case SubSelect():
            where = part.query.where
            return replace(
                part, query=replace(part.query, where=replace(where, parts=tied_parts(where.parts)))
            )
        case Optional() | Minus():
            return replace(
                part, group=replace(part.group, parts=tied_parts(part.group.parts, seen))
            )
        case Filter():
            return replace(part, expr=_expression(part.expr, seen))
        case Bind():
            return replace(part, expr=_expression(part.expr, seen))
        case _:
            return part


def _expression(node: Any, seen: Names) -> Any:  # Any: a node, a tuple of them, or a plain value
    """An expression in which the groups of EXISTS are tied."""
    match node:
        case Exists():
            return replace(
                node, group=replace(node.group, parts=tied_parts(node.group.parts, seen))
            )
        case Node():
            changed = {
                f.name: _expression(getattr(node, f.name), seen)
                for f in fields(node)
                if f.name != "at"
            }
            return replace(node, **changed)
        case tuple():
            return tuple(_expression(item, seen) for item in node)
        case _:
            return node
