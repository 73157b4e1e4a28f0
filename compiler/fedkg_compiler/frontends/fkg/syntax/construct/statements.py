"""Declarations, rules and what is loaded from other files."""

from __future__ import annotations

from fedkg_compiler.frontends.fkg.syntax.construct import statement_clauses
from fedkg_compiler.frontends.fkg.syntax.construct.condition_nodes import condition, expression
from fedkg_compiler.frontends.fkg.syntax.construct.literal_nodes import (
    head,
    plain,
    string,
    term_name,
)
from fedkg_compiler.frontends.fkg.syntax.construct.statement_context import (
    Statement,
    branches,
    token,
    tokens,
)
from fedkg_compiler.frontends.fkg.syntax.grammar import Branch
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Constant,
    Label,
    Load,
    Prefix,
    RowsAre,
    Rule,
    Signal,
    Timeline,
    Use,
)


def build_declaration(
    at: Statement, branch: Branch
) -> Use | Prefix | Timeline | RowsAre | Signal | Label | Constant | Rule | Load | None:
    """The node of a declaration or a rule; None for the other statements."""
    span = at.span(branch)
    match branch.data:
        case "use":
            names = tuple(plain(at, name) for name in tokens(branch, "DOTTED"))
            return Use(
                span=span,
                names=statement_clauses.distinct(at, names, "name"),
                rules=bool(tokens(branch, "RULES")),
            )
        case "prefix":
            return Prefix(
                span=span,
                name=plain(at, token(branch, "NAME")),
                iri=plain(at, token(branch, "IRI")),
            )
        case "timeline":
            return _timeline(at, branch)
        case "rows":
            return RowsAre(span=span, term=term_name(at, branch))
        case "signal":
            return _signal(at, branch)
        case "label":
            return _label(at, branch)
        case "constant":
            return Constant(
                span=span,
                name=plain(at, token(branch, "NAME")),
                value=expression(at, branches(branch)[0]),
            )
        case "rule":
            return _rule(at, branch)
        case "load":
            path = string(at, token(branch, "STRING"))
            return Load(
                span=span, what="shapes" if tokens(branch, "SHAPES") else "queries", path=path
            )
        case _:
            return None


def _timeline(at: Statement, branch: Branch) -> Timeline:
    found = statement_clauses.clauses(at, branch)
    columns = {
        name: string(at, token(branches(found[name], "column")[0], "STRING"))
        if name in found
        else None
        for name in ("time", "trace")
    }
    step = (
        statement_clauses.lasting(at, branches(found["step"])[0], "a step")
        if "step" in found
        else None
    )
    return Timeline(
        span=at.span(branch),
        step=step,
        ends=statement_clauses.ends(at, found),
        time=columns["time"],
        trace=columns["trace"],
    )


def _signal(at: Statement, branch: Branch) -> Signal:
    name, *_ = branches(branch)
    found = statement_clauses.clauses(at, branch, "meaning", "unit", "bounds", "column")
    return Signal(
        span=at.span(branch),
        role="input" if tokens(branch, "SIGNAL") else "output",
        head=head(at, name),
        term=term_name(at, found["meaning"]) if "meaning" in found else None,
        unit=plain(at, token(found["unit"], "UNIT")) if "unit" in found else None,
        bounds=statement_clauses.bounds(at, found),
        column=statement_clauses.column(at, found),
    )


def _label(at: Statement, branch: Branch) -> Label:
    found = statement_clauses.clauses(at, branch)
    name = plain(at, token(branch, "NAME"))
    if "classes" not in found:
        at.report(
            "FKG040",
            name.span,
            f"the label `{name.text}` has no classes",
            "name them: classes A, B, C",
        )
    classes = (
        tuple(plain(at, word) for word in tokens(found["classes"])) if "classes" in found else ()
    )
    return Label(
        span=at.span(branch),
        name=name,
        classes=statement_clauses.distinct(at, classes, "class"),
        column=statement_clauses.column(at, found),
    )


def _rule(at: Statement, branch: Branch) -> Rule:
    *_, formula = branches(branch)
    found = statement_clauses.clauses(at, branch, "quantifier", "kind", "weight", "hard", "scope")
    titles = tokens(branch, "STRING")
    return Rule(
        span=at.span(branch),
        name=plain(at, token(branch, "NAME")),
        title=string(at, titles[0]) if titles else None,
        quantifier=statement_clauses.quantifier(at, found["quantifier"])
        if "quantifier" in found
        else None,
        kind=statement_clauses.kind(at, found),
        weight=statement_clauses.weight(at, found),
        hard="hard" in found,
        scope=statement_clauses.scope(at, found),
        waivers=statement_clauses.waivers(at, branch),
        formula=condition(at, formula),
        text=at.chunk.text[branch.meta.start_pos : branch.meta.end_pos],
    )
