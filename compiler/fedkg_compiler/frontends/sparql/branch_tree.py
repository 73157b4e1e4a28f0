"""What a query comes to once it is split: static patterns for the graph, readings of the table, and
conditions over both.

A branch describes all solutions that match its static pattern, each under the condition that what
it reads is there and its conditions
hold: the conditional tables of Imielinski and Lipski (1984), with one formula for all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import (
    Const,
    Expr,
    Group,
    Node,
    Op,
    Part,
    Path,
    Predicate,
    Resolved,
    SubSelect,
    Triple,
    Union,
    Values,
    Var,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import certain, in_scope

MOST_BRANCHES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Resolved):
    """The value of an observed variable."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Never(Resolved):
    """A variable that has no value here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Within(Resolved):
    """EXISTS with observed values inside: some branch has a solution.

    Attributes:
        apart: it does not see the variables outside (MINUS).
        rest: it leaves the solutions that an OPTIONAL does not extend.
    """

    branches: tuple[Branch, ...]
    negated: bool
    apart: bool = False
    rest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """One alternative of the solutions that an aggregate ranges over, and what it takes of each;
    `arg` None counts them.
    """

    branch: Branch
    arg: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced(Resolved):
    """An aggregate over solutions, for each group; `op` ``any`` tells whether there is one.

    Attributes:
        over: the alternatives of the solutions.
        keys: the variables by which solutions are grouped.
        op: the aggregate: ``count``, ``sum`` and so on, or ``any``.
        distinct: whether equal values count once; only for values of the graph.
        total: whether one group exists even without solutions, because the query has no GROUP BY.
    """

    over: tuple[Gathered, ...]
    keys: tuple[str, ...]
    op: str
    distinct: bool = False
    total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Node):
    """``subject property ?variable`` over an observed property; without `required` it may have no
    value (OPTIONAL).
    """

    subject: Var | Const
    property: Var | Const
    variable: str
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One alternative of a group.

    Attributes:
        static: the parts that the graph answers.
        observed: the values that are read from the table.
        conditions: the expressions that must be true.
        defined: the variables that BIND gives an expression over observed values, each with the
            expression.
        focus: the variables that stand for the table row.
    """

    static: tuple[Part, ...] = ()
    observed: tuple[Observed, ...] = ()
    conditions: tuple[Expr, ...] = ()
    defined: tuple[tuple[str, Expr], ...] = ()
    focus: frozenset[str] = frozenset()

    @property
    def facts(self) -> frozenset[str]:
        """Variables that the graph gives values."""
        return in_scope(self.static) | self._read_of

    @property
    def certain(self) -> frozenset[str]:
        """Those of them that always have one."""
        return certain(self.static) | self._read_of

    @property
    def _read_of(self) -> frozenset[str]:
        """Variables for what is read: entities and properties, which are enumerated where no static
        part names them.
        """
        nodes = [
            node
            for item in self.observed
            if item.required
            for node in (item.subject, item.property)
        ]
        return frozenset(node.name for node in nodes if isinstance(node, Var)) - self.focus

    @property
    def seen(self) -> frozenset[str]:
        """Variables that are read from the table."""
        return frozenset(item.variable for item in self.observed)

    @property
    def scope(self) -> frozenset[str]:
        """All its variables."""
        return self.facts | self.seen | self.focus | {name for name, _ in self.defined}

    @property
    def is_static(self) -> bool:
        """Whether the graph alone answers it."""
        return not self.observed and not self.conditions and not self.defined and not self.focus


def join(
    left: list[Branch], right: list[Branch], at: tuple[int, int], fresh: Callable[[], str]
) -> list[Branch]:
    """Combine every branch of `left` with every branch of `right`."""
    if len(left) * len(right) > MOST_BRANCHES:
        raise SparqlProblem(
            "FKG352",
            at,
            f"the query has more than {MOST_BRANCHES} alternatives around observed values",
            "write it as several queries",
        )
    return [_join(one, other, at, fresh) for one in left for other in right]


def _join(one: Branch, other: Branch, at: tuple[int, int], fresh: Callable[[], str]) -> Branch:
    equal: list[Expr] = []
    both = (one.seen & other.scope) | (other.seen & (one.scope - {name for name, _ in one.defined}))
    if clash := {name for name, _ in one.defined} & other.facts | {
        name for name, _ in other.defined
    } & (one.scope - one.seen):
        raise SparqlProblem(
            "FKG343",
            at,
            f"?{min(clash)} is calculated from observed values and bound here again",
            "use another name",
        )
    for name, expr in one.defined:
        if name in other.seen:
            other = rename_seen(other, name, other_name := fresh())
            equal.append(Op(at=at, name="=", args=(expr, Seen(at=at, name=other_name))))
    for name in sorted(both):
        missing = any(
            item.variable == name and not item.required for item in (*one.observed, *other.observed)
        )
        if missing or any(name in branch.facts - branch.certain for branch in (one, other)):
            raise SparqlProblem(
                "FKG343",
                at,
                f"?{name} may have no value, and is bound here again",
                "use another name, and compare",
            )
        other_name = fresh()
        if name in other.seen:
            other = rename_seen(other, name, other_name)
        else:
            one = rename_seen(one, name, other_name)
        kept: Expr = (
            Seen(at=at, name=name)
            if name in one.seen or name in other.seen
            else Var(at=at, name=name)
        )
        equal.append(Op(at=at, name="=", args=(kept, Seen(at=at, name=other_name))))
    return Branch(
        static=(*one.static, *other.static),
        observed=(*one.observed, *other.observed),
        conditions=(*one.conditions, *other.conditions, *equal),
        defined=(*one.defined, *other.defined),
        focus=one.focus | other.focus,
    )


def rename_seen(branch: Branch, name: str, other: str) -> Branch:
    """The branch with the value of an observed variable called otherwise."""
    return replace(
        branch,
        observed=tuple(
            replace(item, variable=other) if item.variable == name else item
            for item in branch.observed
        ),
        conditions=tuple(_renamed(item, name, other) for item in branch.conditions),
        defined=tuple((key, _renamed(item, name, other)) for key, item in branch.defined),
    )


def _renamed(
    node: Any, name: str, other: str
) -> Any:  # Any: a node, a branch, a tuple of them or a plain value
    if isinstance(node, Seen):
        return replace(node, name=other) if node.name == name else node
    if isinstance(node, Node | Branch):
        return replace(
            node,
            **{
                f.name: _renamed(getattr(node, f.name), name, other)
                for f in fields(node)
                if f.name != "at"
            },
        )
    if isinstance(node, tuple):
        return tuple(_renamed(item, name, other) for item in node)
    return node


def conjuncts(expr: Expr) -> list[Expr]:
    """The expressions that must all be true for a filter to let a solution pass."""
    if isinstance(expr, Op) and expr.name == "&&":
        return [item for arg in expr.args for item in conjuncts(arg)]
    return [expr]


def steps(triple: Triple, path: Predicate, fresh: Callable[[], Var]) -> list[list[Triple]]:
    """A triple with a path as alternatives of triples, as far as sequence, alternative and inverse
    go.
    """
    subject, target = triple.subject, triple.object
    match path:
        case Path(op="^", args=(inner,)):
            return steps(replace(triple, subject=target, object=subject), inner, fresh)
        case Path(op="|"):
            return [found for arg in path.args for found in steps(triple, arg, fresh)]
        case Path(op="/"):
            ways: list[list[Triple]] = [[]]
            here = subject
            for i, arg in enumerate(path.args):
                there = target if i == len(path.args) - 1 else fresh()
                part = replace(triple, subject=here, predicate=arg, object=there)
                ways = [[*way, *found] for way in ways for found in steps(part, arg, fresh)]
                here = there
            return ways
        case _:
            return [[replace(triple, predicate=path)]]


def static_names(expr: Expr) -> frozenset[str]:
    """The static variables that a resolved expression reads, those of branches inside left out."""
    if isinstance(expr, Var):
        return frozenset({expr.name})
    if isinstance(expr, Within | Reduced):
        return frozenset()
    return frozenset(node.name for node in walk(expr) if isinstance(node, Var))


def enclosed(branch: Branch) -> Branch:
    """The branch of a group in braces: its static parts keep their own scope."""
    if all(isinstance(part, Triple | Values | SubSelect | Group | Union) for part in branch.static):
        return branch
    at = branch.static[0].at[0], branch.static[-1].at[1]
    return replace(branch, static=(Group(at=at, parts=branch.static),))


def meaning(branch: Branch, name: Var) -> Expr | None:
    """What a variable is in a branch."""
    defined = dict(branch.defined)
    if name.name in defined:
        return defined[name.name]
    if name.name in branch.seen:
        return Seen(at=name.at, name=name.name)
    return name if name.name in branch.facts or name.name in branch.focus else None


def is_static(expr: Expr) -> bool:
    """Whether a resolved expression depends on static facts alone."""
    if isinstance(expr, Seen | Within | Reduced | Never):
        return False
    if isinstance(expr, Op):
        return all(is_static(arg) for arg in expr.args)
    return True


def unknown_to_graph(branch: Branch, outer: tuple[Branch, ...]) -> frozenset[str]:
    """The variables around a part that the graph does not give values in the same pattern."""
    return frozenset().union(branch.scope, *(item.scope for item in outer)) - branch.facts


def one_reading(inner: Branch, outer: Branch) -> bool:
    """Whether an OPTIONAL does nothing but read one value of an entity that is there."""
    if inner.static or inner.conditions or inner.defined or inner.focus or len(inner.observed) != 1:
        return False
    (observed,) = inner.observed
    fixed = (
        outer.certain
        | outer.focus
        | {
            item.subject.name
            for item in outer.observed
            if item.required and isinstance(item.subject, Var)
        }
    )
    known = (
        not isinstance(item, Var) or item.name in fixed
        for item in (observed.subject, observed.property)
    )
    return all(known) and observed.variable not in outer.scope
