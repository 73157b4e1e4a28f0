"""Splits queries with groups: one row per group of the graph, aggregates as numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, assert_never

from fedkg_compiler.frontends.sparql.branch_tree import (
    Branch,
    Gathered,
    Never,
    Reduced,
    Seen,
    conjuncts,
    is_static,
    rename_seen,
)
from fedkg_compiler.frontends.sparql.if_coalesce_lifting import simplified
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import (
    Aggregate,
    Const,
    Exists,
    Expr,
    Group,
    Op,
    Projection,
    Query,
    Resolved,
    SubSelect,
    Union,
    Values,
    Var,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import variables


class Splitter(Protocol):
    """The split of patterns and expressions, `graph_table_split.Splitter`."""

    def fresh(self) -> str:
        """A name that nobody wrote."""

    def group(self, node: Group, outer: tuple[Branch, ...]) -> list[Branch]:
        """The branches of a group."""

    def named(self, branch: Branch) -> Branch:
        """The branch with values for the entities that nothing but a reading gives."""

    def bound(self, branch: Branch, name: str, expr: Expr, outer: tuple[Branch, ...]) -> Branch:
        """A branch with a variable for an expression."""

    def resolve(self, expr: Expr, branch: Branch, outer: tuple[Branch, ...]) -> Expr:
        """The expression with its variables told apart."""


def grouped(query: Query, split: Splitter, *, top: bool) -> Branch:
    """The branch of a query with groups: one row for each group.

    Columns that a query only shows (`top`) are not requested.
    """
    branches = [split.named(branch) for branch in split.group(query.where, ())]
    keys: list[str] = []
    for item in query.group_by or ():
        if item.expr is not None:
            branches = [
                split.bound(branch, item.variable.name, item.expr, ()) for branch in branches
            ]
        branches = [_keyed(branch, item, split) for branch in branches]
        keys.append(item.variable.name)
    groups = _Groups(query=query, split=split, branches=tuple(branches), keys=tuple(keys))
    wanted = {
        item.variable.name: item.expr for item in query.projection or () if item.expr is not None
    }
    conditions = [groups.resolved(item, {}) for expr in query.having for item in conjuncts(expr)]
    defined = (
        () if top else tuple((name, groups.resolved(expr, wanted)) for name, expr in wanted.items())
    )
    if query.group_by is not None:
        over = tuple(Gathered(branch=branch, arg=None) for branch in groups.branches)
        conditions.insert(0, Reduced(at=query.at, over=over, keys=groups.keys, op="any"))
    return Branch(static=groups.static(), conditions=tuple(conditions), defined=defined)


def _keyed(branch: Branch, key: Projection, split: Splitter) -> Branch:
    """The branch in which a key of groups is a fact; an observed one where the query lists the
    values that it may have.
    """
    name = key.variable.name
    if name in branch.facts:
        return branch
    listed = next((found for item in branch.conditions if (found := _listed(item, name))), None)
    if name not in branch.seen or listed is None:
        what = (
            "an observed value"
            if name in branch.scope
            else f"?{name}, which has no value in an alternative"
        )
        advice = (
            f"say which there are: FILTER(?{name} IN (...))"
            if name in branch.seen
            else "group by what the graph knows"
        )
        raise SparqlProblem("FKG351", key.at, f"solutions are grouped by {what}", advice)
    values = Values(at=key.at, variables=(key.variable,), rows=tuple((item,) for item in listed))
    branch = rename_seen(branch, name, other := split.fresh())
    equal = Op(at=key.at, name="=", args=(key.variable, Seen(at=key.at, name=other)))
    return replace(branch, static=(values, *branch.static), conditions=(*branch.conditions, equal))


def _listed(expr: Expr, name: str) -> tuple[Const, ...]:
    """The values of an observed variable that a condition lists: ``?g = 1 || ?g = 2``, as ``?g IN
    (1, 2)`` has become.
    """
    if not isinstance(expr, Op):
        return ()
    if expr.name == "||":
        each = [_listed(arg, name) for arg in expr.args]
        return tuple(dict.fromkeys(item for found in each for item in found)) if all(each) else ()
    if expr.name != "=":
        return ()
    left, right = expr.args if isinstance(expr.args[0], Seen) else reversed(expr.args)
    return (
        (right,)
        if isinstance(left, Seen)
        and left.name == name
        and isinstance(right, Const)
        and right.kind != "boolean"
        else ()
    )


@dataclass(slots=True, kw_only=True)
class _Groups:
    """The groups of a query.

    Attributes:
        branches: the alternatives of the pattern; each of them gives every variable of `keys` a
            value from the graph.
        keys: the variables by which solutions are grouped.
        counted: the aggregates that the graph alone decides, each with the variable for its value.
    """

    query: Query
    split: Splitter
    branches: tuple[Branch, ...]
    keys: tuple[str, ...]
    counted: dict[Aggregate, str] = field(default_factory=dict)

    def static(self) -> tuple[SubSelect, ...]:
        """What the graph says of each group: that it is one, and what can be gathered without the
        table.
        """
        if not self.keys and not self.counted:
            return ()
        at = self.query.at
        alternatives = [
            Group(at=self.query.where.at, parts=branch.static) for branch in self.branches
        ]
        where = (
            alternatives[0]
            if len(alternatives) == 1
            else Group(at=at, parts=(Union(at=at, groups=tuple(alternatives)),))
        )
        keys = tuple(Projection(at=at, variable=Var(at=at, name=key)) for key in self.keys)
        counted = tuple(
            Projection(at=at, variable=Var(at=at, name=name), expr=expr)
            for expr, name in self.counted.items()
        )
        group_by = keys if self.counted and self.query.group_by is not None else None
        found = Query(
            at=at,
            form="select",
            distinct=not counted,
            projection=(*keys, *counted),
            where=where,
            group_by=group_by,
        )
        return (SubSelect(at=at, query=found),)

    def resolved(self, expr: Expr, names: dict[str, Expr]) -> Expr:
        """An expression over aggregates, keys, and the `names` that the query gives to such
        expressions.
        """
        match expr:
            case Aggregate():
                return self.aggregate(expr)
            case Var():
                if expr.name in names:
                    rest = {name: item for name, item in names.items() if name != expr.name}
                    return self.resolved(names[expr.name], rest)
                return expr if expr.name in self.keys else Never(at=expr.at)
            case Op():
                return simplified(
                    replace(expr, args=tuple(self.resolved(arg, names) for arg in expr.args))
                )
            case Exists():
                raise SparqlProblem(
                    "FKG351",
                    expr.at,
                    "EXISTS and aggregates over observed values cannot be in one condition",
                    "write two queries",
                )
            case Const() | Resolved():
                return expr
        assert_never(expr)

    def aggregate(self, expr: Aggregate) -> Expr:
        """An aggregate: a variable where the graph gives its value, else a number over the members
        of each group.
        """
        args = [
            None if expr.arg is None else self.split.resolve(expr.arg, branch, ())
            for branch in self.branches
        ]
        static = all(
            arg is None or _of_graph(arg, branch)
            for arg, branch in zip(args, self.branches, strict=True)
        )
        if (
            static
            and all(_always(branch) for branch in self.branches)
            and (expr.arg is not None or not expr.distinct)
        ):
            return Var(at=expr.at, name=self.counted.setdefault(expr, self.split.fresh()))
        _check(expr, static=static)
        over = tuple(
            Gathered(branch=branch, arg=arg)
            for branch, arg in zip(self.branches, args, strict=True)
        )
        distinct = expr.distinct and expr.op not in ("min", "max")
        return Reduced(
            at=expr.at,
            over=over,
            keys=self.keys,
            op=expr.op,
            distinct=distinct,
            total=self.query.group_by is None,
        )


def _of_graph(expr: Expr, branch: Branch) -> bool:
    return is_static(expr) and not variables(expr) - branch.facts


def _always(branch: Branch) -> bool:
    """Whether all solutions of the static parts are there, whatever the table shows."""
    return (
        not branch.conditions
        and not branch.focus
        and not any(item.required for item in branch.observed)
    )


def _check(expr: Aggregate, *, static: bool) -> None:
    """Refuse what has no formula."""
    if expr.op in ("sample", "group_concat"):
        message = f"{expr.op.upper()} has no number for observed values"
        if static:
            message = (
                f"{expr.op.upper()} depends on which of the solutions are there, and that is"
                " observed"
            )
        raise SparqlProblem(
            "FKG351", expr.at, message, "ask for MIN or MAX" if expr.op == "sample" else ""
        )
    if expr.distinct and expr.op not in ("min", "max") and (expr.arg is None or not static):
        raise SparqlProblem(
            "FKG351",
            expr.at,
            "DISTINCT inside an aggregate depends on which observed values are equal",
            "leave DISTINCT out",
        )
