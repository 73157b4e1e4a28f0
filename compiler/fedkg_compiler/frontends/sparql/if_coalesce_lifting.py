"""Moves IF and COALESCE out of operators and functions that have no formula for texts and entities.

``IF(?t > ?x, "over", "ok") = "over"`` becomes ``IF(?t > ?x, "over" = "over", "ok" = "over")``: each
alternative is then a comparison that
the graph answers, or one of an observed value with a constant.

An observed text that may be one of a few is such a choice too: ``LCASE(?g)`` becomes ``IF(?g = "A",
LCASE("A"), IF(?g = "B", LCASE("B"), an error))``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fedkg_compiler.frontends.sparql.branch_tree import Never, Seen, is_static
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Const, Expr, Op, Var

MOST_ALTERNATIVES = 64
"""More combinations of alternatives of IF and COALESCE make a formula that nobody can read."""

TRUTHS = frozenset({"&&", "||", "!", "=", "!=", "<", "<=", ">", ">=", "sameterm", "bound"})
"""Operators that give true or false."""
_STEPS = frozenset({"if", "coalesce", "bound", "&&", "||", "!"})
"""Operators that take the alternatives as they are."""
_ARITHMETIC = frozenset({"+", "-", "*", "/", "neg", "abs", "ceil", "floor", "round"})
_ORDER = frozenset({"<", "<=", ">", ">="})
_OF_ANY_KIND = (
    _STEPS
    | _ARITHMETIC
    | frozenset({"=", "!=", "sameterm", "in", "not in", "call", "str"})
    | frozenset({"isnumeric", "isliteral", "isiri", "isuri", "isblank"})
)
"""Operators that have formulas for an observed value, whatever it is."""
_NUMBERS = _ARITHMETIC | frozenset(
    {"strlen", "year", "month", "day", "hours", "minutes", "seconds"}
)


def simplified(expr: Op) -> Expr:
    """An operation over observed values with IN as comparisons, and with choices of texts or
    entities moved outwards.

    Raises:
        SparqlProblem: the choices have more than `MOST_ALTERNATIVES` combinations.
    """
    if is_static(expr):
        return expr
    if expr.name in ("in", "not in"):
        return _comparisons(expr)
    if (expr.name == "str" or expr.name not in _OF_ANY_KIND) and any(
        isinstance(arg, Never) for arg in expr.args
    ):
        return Never(at=expr.at)
    if not _moves(expr):
        return expr
    count = 1
    for arg in expr.args:
        count *= len(alternatives(arg))
    if count > MOST_ALTERNATIVES:
        raise SparqlProblem(
            "FKG352",
            expr.at,
            f"the alternatives of IF and COALESCE have more than {MOST_ALTERNATIVES} combinations"
            " here",
            "write it as several queries",
        )
    i = next(i for i, arg in enumerate(expr.args) if _is_choice(arg))
    return _map_alternatives(
        expr.args[i],
        lambda value: simplified(replace(expr, args=(*expr.args[:i], value, *expr.args[i + 1 :]))),
    )


def takes_text(expr: Op) -> bool:
    """Tell whether an operator has no formula for an observed text, but a value for each text."""
    if expr.name in _ORDER:
        return not any(map(_is_number, expr.args))
    return expr.name not in _OF_ANY_KIND


def seen_text(expr: Expr) -> str | None:
    """The name of the observed variable of which an expression is the text."""
    if isinstance(expr, Op) and expr.name == "str":
        return seen_text(expr.args[0])
    return expr.name if isinstance(expr, Seen) else None


def choice(expr: Expr, texts: Sequence[str]) -> Expr:
    """An observed text as a choice among the texts that it may be; an error where it is another."""
    found: Expr = Never(at=expr.at)
    for text in reversed(texts):
        one = Const(at=expr.at, token=-1, kind="string", text=str(ox.Literal(text)))
        same = Op(at=expr.at, name="=", args=(expr, one))
        found = Op(at=expr.at, name="if", args=(same, one, found))
    return found


def alternatives(expr: Expr) -> list[Expr]:
    """The values among which an expression chooses; itself if it does not choose."""
    if not isinstance(expr, Op) or expr.name not in ("if", "coalesce"):
        return [expr]
    values = expr.args[1:] if expr.name == "if" else expr.args
    return [found for value in values for found in alternatives(value)]


def has_value(expr: Expr) -> Expr:
    """A condition that is true where an expression has a value, and false where it is an error."""
    if isinstance(expr, Const):
        return Const(at=expr.at, token=-1, kind="boolean", text="true")
    if isinstance(expr, Var) or not is_static(expr):
        return Op(at=expr.at, name="bound", args=(expr,))
    same = Op(at=expr.at, name="sameterm", args=(expr, expr))
    no = Const(at=expr.at, token=-1, kind="boolean", text="false")
    return Op(at=expr.at, name="coalesce", args=(same, no))


def _comparisons(expr: Op) -> Expr:
    """``?v IN (1, 2)`` as comparisons."""
    inside, (value, *others) = expr.name == "in", expr.args
    each = tuple(
        simplified(Op(at=expr.at, name="=" if inside else "!=", args=(value, item)))
        for item in others
    )
    if not each:
        return Const(at=expr.at, token=-1, kind="boolean", text="false" if inside else "true")
    return Op(at=expr.at, name="||" if inside else "&&", args=each)


def _is_choice(expr: Expr) -> bool:
    return isinstance(expr, Op) and expr.name in ("if", "coalesce") and not is_static(expr)


def _map_alternatives(choice: Expr, make: Callable[[Expr], Expr]) -> Expr:
    """The same choice of what `make` gives for each alternative."""
    assert isinstance(choice, Op)
    if choice.name == "if":
        condition, then, otherwise = choice.args
        return replace(choice, args=(condition, _made(then, make), _made(otherwise, make)))
    *before, last = choice.args
    found = _made(last, make)
    for value in reversed(before):
        found = Op(at=choice.at, name="if", args=(has_value(value), _made(value, make), found))
    return found


def _made(value: Expr, make: Callable[[Expr], Expr]) -> Expr:
    return _map_alternatives(value, make) if _is_choice(value) else make(value)


def _moves(expr: Op) -> bool:
    """Whether the choices among the arguments must move outwards: numbers may stay, because they
    have terms.
    """
    if (
        expr.name in _STEPS
        or expr.name in _ARITHMETIC
        or not any(_is_choice(arg) for arg in expr.args)
    ):
        return False
    values = [value for arg in expr.args for value in alternatives(arg)]
    if expr.name in _ORDER:
        return any(_is_text(value) for value in values) or all(
            is_static(value) and not _is_number(value) for value in values
        )
    if expr.name in ("=", "!=", "sameterm", "call"):
        return not all(map(_is_number, values[expr.name == "call" :]))
    return True


def _is_number(expr: Expr) -> bool:
    if isinstance(expr, Op):
        return expr.name in _NUMBERS
    return isinstance(expr, Const) and expr.kind == "number"


def _is_text(expr: Expr) -> bool:
    """Whether a value is certainly no plain number: a text, an entity, true or false, or a function
    of such.
    """
    if isinstance(expr, Const):
        return expr.kind != "number"
    return isinstance(expr, Op) and is_static(expr) and expr.name not in (*_NUMBERS, "call")
