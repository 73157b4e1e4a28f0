"""Splits a query along the line between what the graph knows and what the table shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import assert_never

from fedkg_compiler.frontends.sparql.branch_tree import (
    Branch,
    Never,
    Observed,
    Seen,
    Within,
    conjuncts,
    enclosed,
    is_static,
    join,
    meaning,
    one_reading,
    rename_seen,
    steps,
    unknown_to_graph,
)
from fedkg_compiler.frontends.sparql.group_by_queries import grouped
from fedkg_compiler.frontends.sparql.if_coalesce_lifting import (
    choice,
    seen_text,
    simplified,
    takes_text,
)
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.frontends.sparql.observed_entity_enumeration import NotTogether, enumerated
from fedkg_compiler.frontends.sparql.optional_scope_check import Design
from fedkg_compiler.frontends.sparql.sosa_observations import without_observations
from fedkg_compiler.graph.rdf_terms import Literal
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText, SparqlProblem
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
    Node,
    Op,
    Optional,
    Part,
    Path,
    Place,
    Projection,
    Query,
    Resolved,
    SubSelect,
    Triple,
    Union,
    Values,
    Var,
    rename,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import Names, in_scope, projected, variables
from fedkg_compiler.graph.standard_vocabularies import XSD

CHANGING = frozenset({"now", "rand", "uuid", "struuid", "bnode"})
Outer = tuple[Branch, ...]
"""The outer branches that give variables to the filters of a group, the nearest first."""
EMPTY = Branch()


class Splitter:
    """The split of one shape; `query` is any query of it, for its constants.

    `varying`: tokens of constants in which the queries differ (`Batch.varying`).
    """

    def __init__(
        self, query: QueryText, observations: Observations, varying: Sequence[int] = ()
    ) -> None:
        self.query = query
        self.observations = observations
        self.varying = varying
        self._count = count(1)

    def fresh(self) -> str:
        """A name that nobody wrote."""
        return f"_o{next(self._count)}"

    def split(self, query: Query, fixed: Names = frozenset()) -> list[Branch]:
        """The branches of a whole query; `fixed`: variables that have their values before it
        begins.

        Raises:
            SparqlProblem: something in it cannot be split, with the place and the reason.
            NotTogether: the split depends on one of the `varying` constants.
        """
        if query.dataset is not None:
            raise SparqlProblem(
                "FKG354",
                query.dataset,
                "FROM replaces the graph that rules read",
                "name a graph in the pattern: GRAPH <iri> { ... }",
            )
        for node in walk(query):
            if isinstance(node, Elsewhere):
                raise SparqlProblem(
                    "FKG354",
                    node.at,
                    f"{node.word} asks another server",
                    "load the facts as a graph",
                )
            if isinstance(node, Op) and node.name in CHANGING:
                raise SparqlProblem(
                    "FKG353",
                    node.at,
                    f"{node.name.upper()}() gives another value each time",
                    "write the value itself",
                )
        query = replace(query, where=without_observations(query.where, self.iri))
        return self._branches(query, fixed)

    def _branches(self, query: Query, fixed: Names) -> list[Branch]:
        if self.static(query):
            if not query.aggregates:
                kept = (Filter(at=expr.at, expr=expr) for expr in query.having)
                return [Branch(static=(*query.where.parts, *kept))]
            whole = replace(query, form="select", orders=(), limit=None, offset=None)
            if query.form == "ask":  # SELECT shows something of each group
                count = Aggregate(at=query.at, op="count", distinct=False, arg=None)
                shown = Projection(
                    at=query.at, variable=Var(at=query.at, name=self.fresh()), expr=count
                )
                whole = replace(whole, projection=(shown,))
            return [Branch(static=(SubSelect(at=query.at, query=whole),))]
        if query.offset is not None:
            raise SparqlProblem(
                "FKG353",
                (query.offset - 1, query.offset),
                "OFFSET leaves out solutions by their order, and table rows have no order",
                "remove OFFSET",
            )
        Design(static=self.static, fixed=fixed).check(query.where)
        return self.select(query, top=True)

    # ---- what is static

    def iri(self, node: Node) -> str | None:
        """The IRI of a constant predicate, without brackets."""
        if isinstance(node, Const) and node.kind == "iri":
            return self.query.value(node)[1:-1]
        return None

    def own_property(self, node: Const) -> str:
        """The IRI of a property that must be the same in all queries.

        Raises NotTogether.
        """
        if node.token in self.varying:
            raise NotTogether
        return self.query.value(node)[1:-1]

    def is_observed(self, node: Node) -> bool:
        """Whether a constant is an observed property."""
        iri = self.iri(node)
        return iri is not None and self.observations.signal(iri) is not None

    def static(self, node: Node) -> bool:
        """Whether the graph alone can answer a part: it reads no observed property, and none could
        be meant. Inside GRAPH, properties are those of the graph.
        """
        inside = [one for one in walk(node) if isinstance(one, InGraph)]
        skipped = {id(item) for one in inside for item in walk(one)}
        for item in walk(node):
            if not isinstance(item, Triple) or id(item) in skipped:
                continue
            if isinstance(item.predicate, Var):
                if self.observations.every():
                    return False
            elif any(
                self.is_observed(part) or self.may_be_observed(part)
                for part in walk(item.predicate)
            ) or self.of_rows(item):
                return False
        return True

    def may_be_observed(self, node: Node) -> bool:
        """Whether a path goes over all properties but some."""
        return isinstance(node, Path) and node.op == "!" and bool(self.observations.every())

    def of_rows(self, triple: Triple) -> bool:
        """Whether a triple says that something is a table row."""
        predicate, target = self.iri(triple.predicate), self.iri(triple.object)
        is_type = predicate is not None and predicate.endswith("#type") and target is not None
        return is_type and target is not None and self.observations.is_rows(target)

    # ---- groups

    def group(self, node: Group, outer: Outer, given: Outer = ()) -> list[Branch]:
        """The branches of a group; `given`: the branches around the EXISTS that it is in, which
        give values to conditions at every depth (SPARQL 1.1, section 18.6).
        """
        found = [EMPTY]
        for part in node.parts:
            if not isinstance(part, Filter):
                found = self.part(part, found, outer, given)
        for part in node.parts:
            if isinstance(part, Filter):
                found = [self.filtered(branch, part.expr, outer) for branch in found]
        return found

    def part(self, part: Part, found: list[Branch], outer: Outer, given: Outer) -> list[Branch]:
        """The branches with one more part of the group."""
        if isinstance(part, InGraph | SubSelect) and (unseen := _substituted(part, given)):
            word = "GRAPH" if isinstance(part, InGraph) else "sub-select"
            raise SparqlProblem(
                "FKG343",
                part.at,
                f"?{min(unseen)} has its value outside EXISTS; a condition in this {word} cannot"
                " read it",
                f"repeat the pattern with ?{min(unseen)} in the same braces",
            )
        match part:
            case Triple():
                return join(found, self.triple(part), part.at, self.fresh)
            case Values() | InGraph():
                return join(found, [Branch(static=(part,))], part.at, self.fresh)
            case Group() | Union():
                return join(found, self.nested(part, given), part.at, self.fresh)
            case SubSelect():
                inner = (
                    [Branch(static=(part,))]
                    if self.static(part)
                    else [enclosed(item) for item in self.select(part.query)]
                )
                return join(found, inner, part.at, self.fresh)
            case Optional():
                return [
                    item for branch in found for item in self.optional(branch, part, outer, given)
                ]
            case Minus():
                return [item for branch in found for item in self.minus(branch, part, given)]
            case Bind():
                return [
                    self.bound(branch, part.variable.name, part.expr, outer) for branch in found
                ]
            case Filter() | Elsewhere():
                return found
        assert_never(part)

    def nested(self, part: Group | Union, given: Outer) -> list[Branch]:
        """The branches of a group in braces, or of alternatives."""
        if self.static(part) and not _substituted(part, given):
            return [Branch(static=(part,))]
        groups = part.groups if isinstance(part, Union) else (part,)
        return [enclosed(branch) for group in groups for branch in self.group(group, given, given)]

    # ---- triples

    def triple(self, triple: Triple) -> list[Branch]:
        """The branches of a triple."""
        predicate = triple.predicate
        if self.static(triple):
            return [Branch(static=(triple,))]
        if isinstance(predicate, Path):
            return self.path(triple, predicate)
        if self.of_rows(triple):
            if not isinstance(triple.subject, Var):
                raise SparqlProblem(
                    "FKG344",
                    triple.at,
                    "this class describes table rows; an entity of the graph is not a table row",
                    "write a variable as the subject",
                )
            return [Branch(focus=frozenset({triple.subject.name}))]
        if isinstance(predicate, Var):
            every = tuple(
                (Const(at=predicate.at, token=-1, kind="iri", text=f"<{iri}>"),)
                for iri in self.observations.every()
            )
            among = Values(at=predicate.at, variables=(predicate,), rows=every)
            observed = self.reading(triple)
            return [Branch(static=(triple,)), replace(observed, static=(among, *observed.static))]
        return [self.reading(triple)]

    def path(self, triple: Triple, path: Path) -> list[Branch]:
        """The branches of a triple with a path through an observed property."""
        ways = steps(triple, path, lambda: Var(at=triple.at, name=self.fresh()))
        if ways == [[triple]]:
            shown = self.query.written(path.at)
            raise SparqlProblem(
                "FKG344",
                path.at,
                f"the path `{shown}` may pass an observed property",
                "write that property as a separate triple",
            )
        found: list[Branch] = []
        for way in ways:
            branches = [EMPTY]
            for part in way:
                branches = join(branches, self.triple(part), triple.at, self.fresh)
            found += branches
        return found

    def reading(self, triple: Triple) -> Branch:
        """``?s :observed ?v``; an object that is a constant is compared with what is read."""
        predicate = triple.predicate
        assert isinstance(predicate, Var | Const)
        if isinstance(triple.object, Var):
            return Branch(
                observed=(
                    Observed(
                        at=triple.at,
                        subject=triple.subject,
                        property=predicate,
                        variable=triple.object.name,
                    ),
                )
            )
        name = self.fresh()
        equal = Op(at=triple.at, name="=", args=(Seen(at=triple.at, name=name), triple.object))
        return Branch(
            observed=(
                Observed(at=triple.at, subject=triple.subject, property=predicate, variable=name),
            ),
            conditions=(equal,),
        )

    # ---- what the order of parts matters to

    def named(self, branch: Branch, among: Names | None = None, outer: Outer = ()) -> Branch:
        """The branch with values for the entities (those `among` some names) that nothing but a
        reading gives.
        """
        rows = frozenset().union(*(item.focus for item in outer))
        static = enumerated(branch, self.observations, self.own_property, rows, among)
        return branch if static == branch.static else replace(branch, static=static)

    def with_static(self, branch: Branch, part: Part, outer: Outer = ()) -> Branch:
        """Add a static part that sees the parts before it, including entities that are read."""
        branch = self.named(branch, variables(part), outer)
        return replace(branch, static=(*branch.static, part))

    def optional(self, branch: Branch, part: Optional, outer: Outer, given: Outer) -> list[Branch]:
        """A branch with an optional part: with it, and without where it is not there."""
        unknown = unknown_to_graph(branch, outer) | _substituted(part, given)
        if self.static(part) and not variables(part) & unknown:
            return [self.with_static(branch, part, outer)]
        inner = self.group(part.group, (branch, *outer), given)
        if len(inner) == 1 and one_reading(inner[0], branch):
            (observed,) = inner[0].observed
            return [replace(branch, observed=(*branch.observed, replace(observed, required=False)))]
        there = join([branch], inner, part.at, self.fresh)
        branches = self.tied(inner, (branch, *outer), part.at)
        absent = Within(at=part.at, branches=branches, negated=True, rest=True)
        return [*there, replace(branch, conditions=(*branch.conditions, absent))]

    def minus(self, branch: Branch, part: Minus, given: Outer) -> list[Branch]:
        """A branch without the solutions that a group takes away."""
        shared = branch.scope & in_scope(part.group.parts)
        if self.static(part) and not _substituted(part, given):
            if shared - branch.facts:
                self.refuse_minus(part.at, shared - branch.facts)
            return [self.with_static(branch, part)]
        inner = self.group(part.group, given, given)
        inner = [other for other in inner if shared & other.scope]
        if not inner:
            return [branch]
        inner = [self.compatible(branch, other, shared & other.scope, part.at) for other in inner]
        away = Within(at=part.at, branches=tuple(inner), negated=True, apart=True)
        return [replace(branch, conditions=(*branch.conditions, away))]

    def compatible(self, branch: Branch, other: Branch, shared: Names, at: Place) -> Branch:
        """A branch of MINUS; a value that is read there and outside under one name must be equal,
        where both are there.

        Some shared variable has to have a value in both for certain, since MINUS removes only
        solutions that have a variable in common.
        """
        both = shared & branch.seen & other.seen
        mixed = ((shared - branch.facts) | (shared - other.facts)) - both
        if mixed:
            self.refuse_minus(at, mixed)
        if both and not (shared & _valued(branch) & _valued(other)):
            self.refuse_minus(at, both)
        for name in sorted(both):
            fresh = self.fresh()
            other = rename_seen(other, name, fresh)
            sides = (Seen(at=at, name=name), Seen(at=at, name=fresh))
            equal = Op(at=at, name="=", args=sides)
            for side, where in zip(sides, (branch, other), strict=True):
                if side.name not in _valued(where):
                    gone = Op(at=at, name="!", args=(Op(at=at, name="bound", args=(side,)),))
                    equal = Op(at=at, name="||", args=(gone, equal))
            other = replace(other, conditions=(*other.conditions, equal))
        return other

    def refuse_minus(self, at: Place, names: frozenset[str]) -> None:
        """Say that what MINUS compares is observed."""
        raise SparqlProblem(
            "FKG343",
            at,
            f"MINUS compares ?{min(names)}, which is observed",
            "write FILTER NOT EXISTS with a comparison in it",
        )

    # ---- expressions

    def bound(self, branch: Branch, name: str, expr: Expr, outer: Outer) -> Branch:
        """A branch with a variable for an expression."""
        resolved = self.resolve(expr, branch, outer)
        if is_static(resolved) and not variables(resolved) - branch.facts:
            return self.with_static(
                branch, Bind(at=expr.at, expr=resolved, variable=Var(at=expr.at, name=name)), outer
            )
        return replace(branch, defined=(*branch.defined, (name, resolved)))

    def filtered(self, branch: Branch, expr: Expr, outer: Outer) -> Branch:
        """A branch with a condition more; what is static in it goes to the graph."""
        for item in conjuncts(expr):
            resolved = self.resolve(item, branch, outer)
            if is_static(resolved) and not variables(resolved) - branch.facts:
                branch = self.with_static(branch, Filter(at=item.at, expr=resolved), outer)
            else:
                branch = replace(branch, conditions=(*branch.conditions, resolved))
        return branch

    def resolve(self, expr: Expr, branch: Branch, outer: Outer) -> Expr:
        """The expression with its variables told apart: static, observed, calculated, or without a
        value.
        """
        match expr:
            case Var():
                return next(
                    (
                        found
                        for item in (branch, *outer)
                        if (found := meaning(item, expr)) is not None
                    ),
                    Never(at=expr.at),
                )
            case Exists():
                return self.exists(expr, branch, outer)
            case Op():
                args = tuple(self.resolve(arg, branch, outer) for arg in expr.args)
                if takes_text(replace(expr, args=args)):
                    args = tuple(self._by_category(arg, (branch, *outer)) for arg in args)
                return simplified(replace(expr, args=args))
            case Aggregate():
                raise SparqlProblem(
                    "FKG351",
                    expr.at,
                    "an aggregate cannot be used here",
                    "use it after SELECT or in HAVING",
                )
            case Const() | Resolved():
                return expr
        assert_never(expr)

    def _by_category(self, expr: Expr, around: Outer) -> Expr:
        """An observed text as a choice among the texts that `fkg:category` lists for its property,
        so that the graph can compute a function of each. Other values stay as they are.
        """
        if isinstance(expr, Op) and expr.name in ("if", "coalesce"):
            condition = expr.args[:1] if expr.name == "if" else ()
            values = [self._by_category(arg, around) for arg in expr.args[len(condition) :]]
            return replace(expr, args=(*condition, *values))
        name = seen_text(expr)
        read = next(
            (item for one in around for item in one.observed if item.variable == name), None
        )
        iri = None if name is None or read is None else self.iri(read.property)
        if iri is None:
            return expr
        terms = self.observations.categories(iri)
        texts = [
            term.lexical
            for term in terms
            if isinstance(term, Literal) and term.datatype == XSD + "string"
        ]
        return choice(expr, texts) if texts and len(texts) == len(terms) else expr

    def exists(self, expr: Exists, branch: Branch, outer: Outer) -> Expr:
        """EXISTS, answered by the graph where it can."""
        if self.static(expr) and not variables(expr) & unknown_to_graph(branch, outer):
            return expr
        around = (branch, *outer)
        inner = self.group(without_observations(expr.group, self.iri), around, around)
        return Within(at=expr.at, branches=self.tied(inner, around, expr.at), negated=expr.negated)

    def tied(self, inner: list[Branch], outer: Outer, at: Place) -> tuple[Branch, ...]:
        """The branches inside EXISTS; a value that is read there under the name of one outside must
        equal it.
        """
        found: list[Branch] = []
        for branch in inner:
            for name in sorted(branch.scope):
                around = next(
                    (
                        value
                        for item in outer
                        if (value := meaning(item, Var(at=at, name=name))) is not None
                    ),
                    None,
                )
                if around is None:
                    continue
                if name in branch.seen:
                    other = self.fresh()
                    branch = rename_seen(branch, name, other)
                    equal = Op(at=at, name="=", args=(around, Seen(at=at, name=other)))
                    branch = replace(branch, conditions=(*branch.conditions, equal))
                elif not isinstance(around, Var):
                    raise SparqlProblem(
                        "FKG343",
                        at,
                        f"?{name} is observed outside and a fact inside",
                        "use two names, and compare them",
                    )
            found.append(branch)
        return tuple(found)

    # ---- sub-selects and aggregates

    def select(self, query: Query, *, top: bool = False) -> list[Branch]:
        """The branches of a query or sub-select."""
        if not top:
            for token in (query.limit, query.offset):
                if token is not None:
                    raise SparqlProblem(
                        "FKG353",
                        (token - 1, token),
                        "solutions with observed values have no order in which to count them",
                        "remove LIMIT and OFFSET from the inner SELECT",
                    )
            hidden = variables(query) - projected(query)
            query = rename(query, {name: f"{name}_{self.fresh()}" for name in sorted(hidden)})
        if query.aggregates:
            return [grouped(query, self, top=top)]
        found = self.group(query.where, ())
        for item in query.projection or ():
            if item.expr is not None and not top:
                found = [self.bound(branch, item.variable.name, item.expr, ()) for branch in found]
        for expr in query.having:
            found = [self.filtered(branch, expr, ()) for branch in found]
        return found


def _valued(branch: Branch) -> Names:
    """The variables that have a value in every solution of a branch."""
    return branch.certain | {item.variable for item in branch.observed if item.required}


def _substituted(part: Part, given: Outer) -> Names:
    """The variables that a condition in a part takes from outside EXISTS: its braces do not give
    them a value.
    """
    read = (
        variables(item.expr) - in_scope(group.parts)
        for group in walk(part)
        if isinstance(group, Group)
        for item in group.parts
        if isinstance(item, Filter | Bind)
    )
    return frozenset().union(*read) & frozenset().union(*(item.scope for item in given))
