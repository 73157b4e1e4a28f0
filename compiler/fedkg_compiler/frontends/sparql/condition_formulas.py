"""Resolved expressions become formulas and terms, once for all rows of a part.

``holds(expr)`` is a formula that is true where the expression is true, ``fails(expr)`` one that is
true where it is false. Neither is true
where the expression is an error, as FILTER has it; where a value is missing from the table both are
unknown.

Letter: P rows of a part.
"""

from __future__ import annotations

import numpy as np

from fedkg.pack import Call, Choose, Coalesce, Known, Negate, Term
from fedkg_compiler.formulas.formula_algebra import Truth, all_of, any_of, known_formula, none
from fedkg_compiler.frontends.fkg.binding.scope import HOLDS, MIRRORED, compare, truth_compared
from fedkg_compiler.frontends.sparql import aggregates, exists_members
from fedkg_compiler.frontends.sparql.branch_tree import Never, Reduced, Seen, Within, is_static
from fedkg_compiler.frontends.sparql.if_coalesce_lifting import TRUTHS
from fedkg_compiler.frontends.sparql.numeric_terms import (
    Number,
    arithmetic,
    in_one_unit,
    unknown_term,
)
from fedkg_compiler.frontends.sparql.observed_entity_enumeration import NotTogether
from fedkg_compiler.frontends.sparql.shared_formula_rows import Part
from fedkg_compiler.frontends.sparql.slot_lowering import (
    Lowering,
    Read,
    category,
    common_categories,
    fixed_number,
    has_entities,
    has_language,
    kind_read,
    note_bare,
    property_read,
    seen_number,
    slot_of,
    text_of,
    texts_of,
    truth_value,
)
from fedkg_compiler.graph.rdf_terms import Literal, local_name
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Aggregate, Const, Exists, Expr, Op, Var
from fedkg_compiler.graph.standard_vocabularies import XSD

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "sameterm"})
_TURNED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "sameterm": "!="}
_ROUND = {"abs": "abs", "ceil": "ceil", "floor": "floor"}
_NUMERIC_CASTS = frozenset(XSD + name for name in ("double", "decimal", "float"))


def start_lowering(modes: dict[Read, str] | None = None) -> Lowering:
    """The facts of a part that is lowered; `modes` those of an earlier try."""
    return Lowering(holds=holds, bound=bound, number_term=number_term, modes=modes or {})


def holds(expr: Expr, part: Part, state: Lowering) -> Truth:
    """The formula that is true where the expression is."""
    return _truth(expr, part, state, wanted=True)


def fails(expr: Expr, part: Part, state: Lowering) -> Truth:
    """The formula that is true where the expression is false."""
    return _truth(expr, part, state, wanted=False)


def _truth(expr: Expr, part: Part, state: Lowering, *, wanted: bool) -> Truth:
    if isinstance(expr, Never):
        state.lost += 1
        return False
    if isinstance(expr, Within):
        found = exists_members.within(expr, part, state)
        return found if wanted != expr.negated else none(found)
    if isinstance(expr, Reduced) and expr.op == "any":
        found = aggregates.any_member(expr, part, state)
        return found if wanted else none(found)
    if isinstance(expr, Const) or is_static(expr):
        return _static_truth(expr, part, state, wanted=wanted)
    if isinstance(expr, Op) and expr.name in _CONNECTIVES:
        return _connective(expr, part, state, wanted=wanted)
    if isinstance(expr, Op) and expr.name in COMPARISONS:
        return _comparison(expr.name if wanted else _TURNED[expr.name], expr, part, state)
    if isinstance(expr, Seen) and kind_read(expr, part) == "text":
        return wanted and bound(expr, part, state)
    if isinstance(expr, Op) and expr.name == "isnumeric" and isinstance(expr.args[0], Seen):
        wanted = wanted != (kind_read(expr.args[0], part) == "text")
        return wanted and bound(expr.args[0], part, state)
    if isinstance(expr, Op) and expr.name in _KINDS and isinstance(expr.args[0], Seen):
        kind = "isiri" if has_entities(expr.args[0], part) else "isliteral"
        same = kind == expr.name.replace("isuri", "isiri")
        return same == wanted and bound(expr.args[0], part, state)
    if isinstance(expr, Op) and expr.name in ("bound", "isnumeric", "isliteral"):
        there = bound(expr.args[0], part, state)
        return there if wanted else none(there)
    number = number_term(expr, part, state)
    if number is None:
        return False
    zero = Number(at=expr.at, values=np.zeros(part.rows.count))
    return _compared("!=" if wanted else "=", number, zero, part, state)


_KINDS = frozenset({"isiri", "isuri", "isblank", "isliteral"})
_CONNECTIVES = frozenset({"&&", "||", "!", "if", "coalesce"})


def _connective(expr: Op, part: Part, state: Lowering, *, wanted: bool) -> Truth:
    match expr.name:
        case "!":
            return _truth(expr.args[0], part, state, wanted=not wanted)
        case "&&" | "||":
            parts = [_truth(arg, part, state, wanted=wanted) for arg in expr.args]
            return all_of(parts) if (expr.name == "&&") == wanted else any_of(parts)
        case "coalesce":
            *before, last = expr.args
            truth = _truth(last, part, state, wanted=wanted)
            for value in reversed(before):
                there = bound(value, part, state)
                first = _truth(value, part, state, wanted=wanted)
                truth = any_of([all_of([there, first]), all_of([none(there), truth])])
            return truth
        case _:
            condition, then, otherwise = expr.args
            first = all_of(
                [
                    _truth(condition, part, state, wanted=True),
                    _truth(then, part, state, wanted=wanted),
                ]
            )
            second = all_of(
                [
                    _truth(condition, part, state, wanted=False),
                    _truth(otherwise, part, state, wanted=wanted),
                ]
            )
            return any_of([first, second])


def _static_truth(expr: Expr, part: Part, state: Lowering, *, wanted: bool) -> Truth:
    """What a static expression says in all rows of the part."""
    if isinstance(expr, Const):
        if expr.kind == "boolean":
            return (expr.text == "true") == wanted
        texts = texts_of(expr, part) if expr.kind == "string" else None
        if texts is not None and len(filled := {bool(text) for text in texts}) == 1:
            return filled.pop() == wanted
        name = None
    else:
        name = expr.name if isinstance(expr, Var) else part.frame.exprs.get(expr)
    number = number_term(expr, part, state) if name is None else None
    if number is not None and number.values is not None:
        if isinstance(expr, Const) and expr.token in part.frame.batch.varying:
            raise NotTogether
        return bool((number.values[0] != 0) == wanted) if number.values.size else False
    kind = ("none", "") if name is None else part.kind(name)
    if kind[0] in ("true", "false"):
        return (kind[0] == "true") == wanted
    column = None if name is None else part.answers(name)
    if kind[0] in ("number", "text") and column:
        truths = {bool(term.value) for term in column if isinstance(term, Literal)}
        if len(truths) == 1:
            return truths.pop() == wanted
        raise SparqlProblem(
            "FKG343", expr.at, "a number is used as a truth value here", "compare it: ?x != 0"
        )
    state.lost += 1
    return False


def _comparison(op: str, expr: Op, part: Part, state: Lowering) -> Truth:
    op = "=" if op == "sameterm" else op
    left, right = expr.args
    one, two = text_of(left), text_of(right)
    if one is not None and two is not None:
        found = _two_columns(op, one, two, expr, part, state)
        if found is not None:
            return found
    for seen, other in ((left, right), (right, left)):
        truth = truth_value(seen, part)
        if truth is not None:
            if op not in ("=", "!="):
                raise SparqlProblem(
                    "FKG343",
                    expr.at,
                    "true and false have no order here",
                    "compare them with = or !=",
                )
            return _truth(other, part, state, wanted=truth == (op == "="))
        target = text_of(seen)
        if target is not None and op in ("=", "!=") and has_language(other, part):
            if op == "!=":
                return bound(target, part, state)
            return _never(other, part, state, "a cell and a text with a language are compared")
        texts = texts_of(other, part)
        if texts is not None and target is not None and not _only_numbers(target, part):
            if op not in ("=", "!="):
                if kind_read(target, part) == "number":
                    state.lost += 1
                    state.never.append((other.at, "a number is expected here, not a text"))
                    return False
                raise SparqlProblem(
                    "FKG343",
                    expr.at,
                    "texts of a column have no order here",
                    "compare them with = or !=",
                )
            return category(target, texts, part, state, negated=op == "!=")
        if isinstance(seen, Never):
            state.lost += 1
            return False
        if texts is not None and op in ("=", "!=") and not _is_truth(seen):
            if op == "!=":
                return bound(seen, part, state)
            if isinstance(seen, Op) and not is_static(seen):
                number_term(seen, part, state)  # rejects a function that may give a text
            return _never(other, part, state)
        if target is not None and kind_read(target, part) == "text" and op in ("=", "!="):
            number = number_term(other, part, state)
            if number is None or op == "=":
                return _never(target, part, state)
            return all_of([bound(target, part, state), bound(other, part, state)])
    if _is_truth(left) and _is_truth(right) and op in ("=", "!="):
        return _same_truth(left, right, part, state, wanted=op == "=")
    a, b = number_term(left, part, state), number_term(right, part, state)
    if a is None or b is None:
        return False
    return _compared(op, a, b, part, state)


def _never(
    expr: Expr, part: Part, state: Lowering, what: str = "a number and a text are compared"
) -> bool:
    """A comparison of values of different kinds, which are never equal; where one is missing it is
    an error, not false.
    """
    state.lost += 1
    state.never.append((expr.at, f"{what}, which are never equal"))
    return False


def _only_numbers(seen: Seen, part: Part) -> bool:
    """Whether `?m ?p ?v` reads a column of numbers here, beside others."""
    return kind_read(seen, part) == "number" and isinstance(property_read(seen, part), Var)


def _two_columns(
    op: str, left: Seen, right: Seen, expr: Op, part: Part, state: Lowering
) -> Truth | None:
    """Compare two observed values category by category if they are texts; None for numbers."""
    kinds = {kind_read(left, part), kind_read(right, part)}
    if left.name == right.name and op in ("=", "!="):
        state.lost += op == "!="
        return bound(left, part, state) if op == "=" else False
    if "text" not in kinds:
        return None
    if op not in ("=", "!="):
        raise SparqlProblem(
            "FKG343", expr.at, "texts of columns have no order here", "compare them with = or !="
        )
    both = [bound(left, part, state), bound(right, part, state)]
    if "number" in kinds:
        return all_of(both) if op == "!=" else _never(expr, part, state)
    texts = common_categories(left, right, part)
    if texts is None:
        raise SparqlProblem(
            "FKG343",
            expr.at,
            "the texts of two columns are compared, and the graph does not say which they may be",
            "give their properties `fkg:category`",
        )
    alike = any_of(
        all_of(
            category(seen, (text,) * part.at.shape[0], part, state, negated=False)
            for seen in (left, right)
        )
        for text in texts
    )
    return alike if op == "=" else all_of([*both, none(alike)])


def _is_truth(expr: Expr) -> bool:
    return isinstance(expr, Within) or (isinstance(expr, Op) and expr.name in TRUTHS)


def _same_truth(left: Expr, right: Expr, part: Part, state: Lowering, *, wanted: bool) -> Truth:
    """Whether two conditions are both true or both false; with `wanted` False, whether they
    differ.
    """
    return any_of(
        all_of(
            [
                _truth(left, part, state, wanted=value),
                _truth(right, part, state, wanted=value == wanted),
            ]
        )
        for value in (True, False)
    )


def _compared(op: str, a: Number, b: Number, part: Part, state: Lowering) -> Truth:
    _tell_units(a, b, part)
    note_bare(a, b, part, state)
    a, b = in_one_unit(a, b, "compared with", part.rows)
    unit, operator = a.unit or b.unit, {"=": "=="}.get(op, op)
    if a.values is not None and b.values is not None:
        same = HOLDS[operator](a.values, b.values)
        if same.all() or not same.any():
            return bool(same.all())
    book = part.frame.batch.observations.sources.book
    for one, other, way in ((a, b, operator), (b, a, MIRRORED[operator])):
        if one.term is not None and other.values is not None:
            asked = truth_compared(way, one.term, other.values, part.rows, book)
            if asked is not None:
                return asked
    state.compared.add(unit.step().text if unit is not None else "")
    return compare(operator, a.as_term(part.rows), b.as_term(part.rows), None, part.rows)


def _tell_units(a: Number, b: Number, part: Part) -> None:
    """Give a column without a declared unit the unit of the compared quantity."""
    for one, other in ((a, b), (b, a)):
        if (
            one.columns is not None
            and one.unit is None
            and other.unit is not None
            and other.values is not None
        ):
            batch = part.frame.batch
            sources = batch.observations.sources
            for first, at in batch.groups(part.frame.query[part.at]):
                sources.book.tell_unit(
                    [one.columns[at]], other.unit, first.span(one.at), sources.problems
                )


def bound(expr: Expr, part: Part, state: Lowering) -> Truth:
    """Whether an expression has a value."""
    if isinstance(expr, Never):
        return False
    if is_static(expr):
        name = expr.name if isinstance(expr, Var) else part.frame.exprs.get(expr)
        return isinstance(expr, Const) or name is None or part.kind(name)[0] != "none"
    if isinstance(expr, Seen):
        slot = slot_of(expr, part, state, mode=None)
        return False if slot is None else Known(slot=slot.index)
    if isinstance(expr, Within) or (isinstance(expr, Op) and expr.name == "bound"):
        return True
    if _is_truth(expr):
        return any_of(_truth(expr, part, state, wanted=wanted) for wanted in (True, False))
    if isinstance(expr, Op) and expr.name == "if":
        return any_of(
            all_of([_truth(expr.args[0], part, state, wanted=wanted), bound(value, part, state)])
            for wanted, value in zip((True, False), expr.args[1:], strict=True)
        )
    if isinstance(expr, Op) and expr.name == "coalesce":
        return any_of(bound(value, part, state) for value in expr.args)
    number = number_term(expr, part, state)
    if number is None:
        return False
    return True if number.term is None else known_formula(number.term)


# ---- numbers


def number_term(expr: Expr, part: Part, state: Lowering) -> Number | None:
    """The numeric value of an expression; None where it never has one."""
    if isinstance(expr, Never):
        state.lost += 1
        return None
    if isinstance(expr, Seen):
        found = seen_number(expr, part, state)
        state.lost += found is None
        return found
    if isinstance(expr, Reduced):
        return aggregates.aggregate_number(expr, part, state)
    if isinstance(expr, Const) or is_static(expr):
        return fixed_number(expr, part, state)
    if isinstance(expr, Within | Exists | Aggregate | Var):
        raise SparqlProblem(
            "FKG343",
            expr.at,
            "this is true or false; a number is expected",
            "write a number, or a calculation",
        )
    assert isinstance(expr, Op)
    return _operation(expr, part, state)


def _operation(expr: Op, part: Part, state: Lowering) -> Number | None:
    name = expr.name
    if name == "if":
        return _choose(expr, part, state)
    if name == "call":
        return _cast(expr, part, state)
    values = [number_term(arg, part, state) for arg in expr.args if name in _NUMERIC]
    if name == "coalesce":
        return _coalesce([value for value in values if value is not None], expr, part)
    if name not in _NUMERIC:
        shown = (
            "a comparison"
            if name in COMPARISONS
            else f"{name.upper()}()"
            if name.isalpha()
            else f"`{name}`"
        )
        raise SparqlProblem(
            "FKG343",
            expr.at,
            f"a rule cannot compute {shown} of an observed value",
            "compute it in the data, as a column",
        )
    known_values = [value for value in values if value is not None]
    if len(known_values) < len(values):
        return None
    first = known_values[0]
    if name in ("+", "-"):
        note_bare(first, known_values[1], part, state)
    if name in ("+", "-", "*", "/"):
        return arithmetic(name, first, known_values[1], expr.at, part.rows)
    term = first.as_term(part.rows)
    if name == "neg":
        return Number(at=expr.at, term=Negate(arg=term), unit=first.unit)
    if name == "round":
        return Number(at=expr.at, term=_round(term, part), unit=first.unit)
    call = Call.model_validate({"function": _ROUND[name], "args": (term,)})
    return Number(at=expr.at, term=call, unit=first.unit)


_NUMERIC = frozenset({"+", "-", "*", "/", "neg", "abs", "ceil", "floor", "round", "coalesce"})


def _round(term: Term, part: Part) -> Term:
    """Halves go up, as XPath has it: 2.5 to 3, and -2.5 to -2."""
    floor = Call(function="floor", args=(term,))
    half = part.rows.param(np.array(0.5))
    rest = Number(at=(0, 0), term=floor)
    gap = arithmetic("-", Number(at=(0, 0), term=term), rest, (0, 0), part.rows).as_term(part.rows)
    up = compare(">=", gap, half, None, part.rows)
    return Choose(condition=up, then=Call(function="ceil", args=(term,)), otherwise=floor)


def _choose(expr: Op, part: Part, state: Lowering) -> Number | None:
    before = state.lost
    yes = holds(expr.args[0], part, state)
    whole = state.lost == before
    then = None if yes is False else number_term(expr.args[1], part, state)
    no: Truth = not yes if isinstance(yes, bool) and whole else fails(expr.args[0], part, state)
    otherwise = None if no is False else number_term(expr.args[2], part, state)
    if yes is True:
        return then
    if no is True:
        return otherwise
    one = unknown_term(part.rows) if then is None else then.as_term(part.rows)
    other = unknown_term(part.rows) if otherwise is None else otherwise.as_term(part.rows)
    unit = then.unit if then is not None else otherwise.unit if otherwise is not None else None
    if isinstance(yes, bool):
        if isinstance(no, bool):
            return None
        return Number(
            at=expr.at,
            term=Choose(condition=no, then=other, otherwise=unknown_term(part.rows)),
            unit=unit,
        )
    if not whole:
        other = (
            unknown_term(part.rows)
            if isinstance(no, bool)
            else Choose(condition=no, then=other, otherwise=unknown_term(part.rows))
        )
    return Number(at=expr.at, term=Choose(condition=yes, then=one, otherwise=other), unit=unit)


def _coalesce(values: list[Number], expr: Op, part: Part) -> Number | None:
    if not values:
        return None
    for i, value in enumerate(values):
        if value.values is not None:
            values = values[: i + 1]
            break
    if len(values) == 1:
        return values[0]
    for i in range(1, len(values)):
        values[i] = in_one_unit(values[0], values[i], "put in place of", part.rows)[1]
    unit = next((value.unit for value in values if value.unit is not None), None)
    return Number(
        at=expr.at,
        term=Coalesce(args=tuple(value.as_term(part.rows) for value in values)),
        unit=unit,
    )


def _cast(expr: Op, part: Part, state: Lowering) -> Number | None:
    function = expr.args[0]
    iri = part.frame.batch.queries[0].value(function)[1:-1] if isinstance(function, Const) else ""
    if iri in _NUMERIC_CASTS and len(expr.args) == 2:
        return number_term(expr.args[1], part, state)
    if iri == XSD + "integer" and len(expr.args) == 2:
        value = number_term(expr.args[1], part, state)
        if value is None:
            return None
        term = value.as_term(part.rows)
        up = compare(">=", term, part.rows.param(np.array(0.0)), None, part.rows)
        cut = Choose(
            condition=up,
            then=Call(function="floor", args=(term,)),
            otherwise=Call(function="ceil", args=(term,)),
        )
        return Number(at=expr.at, term=cut, unit=value.unit)
    raise SparqlProblem(
        "FKG343",
        expr.at,
        f"a rule cannot compute {local_name(iri)}() of an observed value",
        "compute it in the data, as a column",
    )
