"""Templates, knowledge, sets, causes and examples."""

from __future__ import annotations

import math

from fedkg_compiler.frontends.fkg.syntax.construct import statement_clauses
from fedkg_compiler.frontends.fkg.syntax.construct.condition_nodes import (
    call,
    condition,
    expression,
)
from fedkg_compiler.frontends.fkg.syntax.construct.literal_nodes import head, plain, signed, string
from fedkg_compiler.frontends.fkg.syntax.construct.statement_context import (
    Statement,
    branches,
    token,
    tokens,
)
from fedkg_compiler.frontends.fkg.syntax.grammar import Branch, Token
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Cause,
    Choice,
    DecisionTable,
    EarlierModel,
    Example,
    Expression,
    Infer,
    KeepSet,
    PredictKnowledge,
    RangeKnowledge,
    Series,
    Template,
    Word,
)


def build_knowledge(
    at: Statement, branch: Branch
) -> Template | Infer | RangeKnowledge | PredictKnowledge | KeepSet | Cause | Example:
    """Build the node of a statement that is neither a declaration nor a rule."""
    match branch.data:
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
        parameters=statement_clauses.distinct(
            at, (plain(at, name) for name in tokens(names)), "parameter"
        ),
        formula=condition(at, formula),
    )


def _infer(at: Statement, branch: Branch) -> Infer:
    name, per = tokens(branch, "NAME")
    return Infer(
        span=at.span(branch),
        name=plain(at, name),
        scope=statement_clauses.scope(at, statement_clauses.clauses(at, branch, "scope")),
        per=plain(at, per),
        variables=statement_clauses.variables(at, branches(branch, "variables")[0]),
        call=call(at, branches(branch, "call")[0]),
    )


def _choice(at: Statement, branch: Branch) -> Choice:
    span = at.span(branch)
    classes = tokens(branch, "NAME", "STRING")
    if classes:
        return Choice(
            span=span,
            classes=statement_clauses.distinct(at, (plain(at, name) for name in classes), "class"),
        )
    between = branches(branch, "between")
    if between:
        low, high = branches(between[0])
        return Choice(span=span, ends=(expression(at, low), expression(at, high)))
    ends = branches(branch, "signed")
    if not ends:
        return Choice(span=span)
    units = tokens(branch, "UNIT")
    return Choice(
        span=span,
        interval=statement_clauses.interval(at, ends, span),
        unit=plain(at, units[0]) if units else None,
    )


def _source(at: Statement, branch: Branch) -> DecisionTable | EarlierModel | None:
    """``in table "x.csv"`` or ``from model "m.safetensors"`` in place of clauses."""
    sources = branches(branch, "in_table", "in_model")
    if not sources:
        return None
    span, path = at.span(sources[0]), string(at, token(sources[0], "STRING"))
    quantifiers = branches(branch, "quantifier")
    if quantifiers:
        hint = "remove `for ...`: the file already has a row, and a model an answer, for each case"
        at.report(
            "FKG050", at.span(quantifiers[0]), "knowledge from a file takes no variables", hint
        )
    return (
        DecisionTable(span=span, path=path)
        if sources[0].data == "in_table"
        else EarlierModel(span=span, path=path)
    )


def _range(at: Statement, branch: Branch) -> RangeKnowledge:
    name, output = tokens(branch, "NAME")
    found = statement_clauses.clauses(at, branch, "quantifier", "scope")
    clauses = []
    for clause in branches(branch, "allowed"):
        when, choice = branches(clause)
        clauses.append((condition(at, when), _choice(at, choice)))
    others = branches(branch, "choice")
    return RangeKnowledge(
        span=at.span(branch),
        name=plain(at, name),
        output=plain(at, output),
        quantifier=statement_clauses.quantifier(at, found["quantifier"])
        if "quantifier" in found
        else None,
        clauses=tuple(clauses),
        otherwise=_choice(at, others[0]) if others else None,
        scope=statement_clauses.scope(at, found),
        source=_source(at, branch),
    )


def _predict(at: Statement, branch: Branch) -> PredictKnowledge:
    name, output = tokens(branch, "NAME")
    found = statement_clauses.clauses(at, branch, "quantifier", "scope")
    clauses = []
    for clause in branches(branch, "predicted"):
        when, value = branches(clause)
        clauses.append((condition(at, when), _answer(at, value)))
    last = branches(branch)[-1] if branches(branch) else None
    others = [
        branch
        for branch in [last]
        if branch is not None and branch.data not in ("predicted", "in_table", "in_model")
    ]
    return PredictKnowledge(
        span=at.span(branch),
        name=plain(at, name),
        output=plain(at, output),
        quantifier=statement_clauses.quantifier(at, found["quantifier"])
        if "quantifier" in found
        else None,
        clauses=tuple(clauses),
        otherwise=_answer(at, others[0]) if others else None,
        scope=statement_clauses.scope(at, found),
        source=_source(at, branch),
    )


def _answer(at: Statement, branch: Branch) -> Expression | Word:
    """What a clause predicts: a value, or a class in quotes."""
    if branch.data == "quoted_class":
        return string(at, token(branch, "STRING"))
    return expression(at, branch)


def _set(at: Statement, branch: Branch) -> KeepSet:
    found = statement_clauses.clauses(at, branch, "quantifier", "scope")
    return KeepSet(
        span=at.span(branch),
        name=plain(at, token(branch, "NAME")),
        quantifier=statement_clauses.quantifier(at, found["quantifier"])
        if "quantifier" in found
        else None,
        target=plain(at, token(branch, "DOTTED")),
        call=call(at, (*branches(branch, "call"), *branches(branch, "bare"))[0]),
        scope=statement_clauses.scope(at, found),
    )


def _cause(at: Statement, branch: Branch) -> Cause:
    driver, driven = tokens(branch, "VAR")
    lags = branches(branch, "lag")
    return Cause(
        span=at.span(branch),
        name=plain(at, token(branch, "NAME")),
        quantifier=statement_clauses.quantifier(at, branches(branch, "quantifier")[0]),
        driver=plain(at, driver),
        driven=plain(at, driven),
        lag=statement_clauses.lasting(at, branches(lags[0])[0], "a lag") if lags else None,
    )


def _example(at: Statement, branch: Branch) -> Example:
    return Example(
        span=at.span(branch),
        rule=plain(at, token(branch, "NAME")),
        holds=bool(tokens(branch, "HOLDS")),
        series=tuple(_series(at, series) for series in branches(branch, "series")),
    )


def _series(at: Statement, branch: Branch) -> Series:
    """Numbers, or classes; ``unknown`` is NaN among numbers and "" among classes."""
    name, listed = branches(branch)
    span, signal = at.span(branch), head(at, name)
    if listed.data == "texts" and tokens(listed, "NAME", "STRING"):
        texts = (
            Word(span=at.span(word), text="") if word.type == "UNKNOWN" else plain(at, word)
            for word in tokens(listed)
        )
        return Series(span=span, head=signal, values=(), texts=tuple(texts))
    units = tokens(listed, "UNIT")
    values = (
        math.nan if isinstance(value, Token) else signed(at, value)[0]
        for value in listed.children
        if value not in units
    )
    return Series(
        span=span, head=signal, values=tuple(values), unit=plain(at, units[0]) if units else None
    )
