"""Templates, knowledge, sets, causes and examples."""

from __future__ import annotations

from fedkg_compiler.syntax.construct import options
from fedkg_compiler.syntax.construct.conditions import condition
from fedkg_compiler.syntax.construct.expressions import call, expression
from fedkg_compiler.syntax.construct.place import Statement, branches, token, tokens
from fedkg_compiler.syntax.construct.words import head, plain, signed
from fedkg_compiler.syntax.grammar import Branch
from fedkg_compiler.syntax.tree import (
    Cause,
    Choice,
    Example,
    Infer,
    KeepSet,
    PredictKnowledge,
    Quantifier,
    RangeKnowledge,
    Series,
    Template,
)


def build_knowledge(at: Statement, branch: Branch) -> Template | Infer | RangeKnowledge | PredictKnowledge | KeepSet | Cause | Example:
    """The node of a statement that is no declaration and no rule."""
    match str(branch.data):
        case "template":
            return _template(at, branch)
        case "infer":
            return _infer(at, branch)
        case "range":
            return _range(at, branch)
        case "predict":
            return _predict(at, branch)
        case "set":
            return _set(at, branch)
        case "cause":
            return _cause(at, branch)
        case "example":
            return _example(at, branch)
        case name:
            raise AssertionError(f"the grammar makes a statement `{name}` that has no node")


def _template(at: Statement, branch: Branch) -> Template:
    names, formula = branches(branch)
    return Template(
        span=at.span(branch),
        name=plain(at, token(branch, "NAME")),
        parameters=options.distinct(at, (plain(at, name) for name in tokens(names)), "parameter"),
        formula=condition(at, formula),
    )


def _infer(at: Statement, branch: Branch) -> Infer:
    name, per = tokens(branch, "NAME")
    found, application = branches(branch)
    return Infer(
        span=at.span(branch), name=plain(at, name), per=plain(at, per), variables=options.variables(at, found), call=call(at, application)
    )


def _quantified(at: Statement, branch: Branch) -> Quantifier | None:
    found = branches(branch, "quantifier")
    return options.quantifier(at, found[0]) if found else None


def _choice(at: Statement, branch: Branch) -> Choice:
    span = at.span(branch)
    names = branches(branch, "names")
    if names:
        classes = tuple(plain(at, name) for name in tokens(names[0]))
        return Choice(span=span, classes=options.distinct(at, classes, "class"))
    ends = branches(branch, "signed")
    if not ends:
        return Choice(span=span)
    units = tokens(branch, "UNIT")
    return Choice(span=span, interval=options.interval(at, ends, span), unit=plain(at, units[0]) if units else None)


def _range(at: Statement, branch: Branch) -> RangeKnowledge:
    name, output = tokens(branch, "NAME")
    clauses = []
    for clause in branches(branch, "allowed"):
        when, choice = branches(clause)
        clauses.append((condition(at, when), _choice(at, choice)))
    return RangeKnowledge(
        span=at.span(branch),
        name=plain(at, name),
        output=plain(at, output),
        quantifier=_quantified(at, branch),
        clauses=tuple(clauses),
        otherwise=_choice(at, branches(branch, "choice")[0]),
    )


def _predict(at: Statement, branch: Branch) -> PredictKnowledge:
    name, output = tokens(branch, "NAME")
    clauses = []
    for clause in branches(branch, "predicted"):
        when, value = branches(clause)
        clauses.append((condition(at, when), expression(at, value)))
    return PredictKnowledge(
        span=at.span(branch),
        name=plain(at, name),
        output=plain(at, output),
        quantifier=_quantified(at, branch),
        clauses=tuple(clauses),
        otherwise=expression(at, branches(branch)[-1]),
    )


def _set(at: Statement, branch: Branch) -> KeepSet:
    return KeepSet(
        span=at.span(branch),
        name=plain(at, token(branch, "NAME")),
        quantifier=_quantified(at, branch),
        target=plain(at, token(branch, "DOTTED")),
        call=call(at, branches(branch, "call")[0]),
    )


def _cause(at: Statement, branch: Branch) -> Cause:
    driver, driven = tokens(branch, "VAR")
    lags = branches(branch, "lag")
    return Cause(
        span=at.span(branch),
        name=plain(at, token(branch, "NAME")),
        quantifier=options.quantifier(at, branches(branch, "quantifier")[0]),
        driver=plain(at, driver),
        driven=plain(at, driven),
        lag=options.lasting(at, branches(lags[0])[0], "a lag") if lags else None,
    )


def _example(at: Statement, branch: Branch) -> Example:
    return Example(
        span=at.span(branch),
        rule=plain(at, token(branch, "NAME")),
        holds=bool(tokens(branch, "HOLDS")),
        series=tuple(_series(at, series) for series in branches(branch, "series")),
    )


def _series(at: Statement, branch: Branch) -> Series:
    units = tokens(branch, "UNIT")
    return Series(
        span=at.span(branch),
        head=head(at, branches(branch, "head")[0]),
        values=tuple(signed(at, value)[0] for value in branches(branch, "signed")),
        unit=plain(at, units[0]) if units else None,
    )
