"""Named constants: ``constant NAME = value`` puts the value in the place of the name.

A constant is made of numbers, functions and constants that are declared before it. It is replaced
on the syntax tree, so it may stand wherever a number may: in comparisons, tolerances, windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedkg._internal.name_matching import did_you_mean
from fedkg_compiler.diagnostics.problems import Problems
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS
from fedkg_compiler.frontends.fkg.binding.name_lookup import trees_in
from fedkg_compiler.frontends.fkg.binding.symbol_table import Names
from fedkg_compiler.frontends.fkg.syntax.parser import MAX_TERMS
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Apply,
    Arithmetic,
    Constant,
    Expression,
    Label,
    Negative,
    Quantity,
    Raised,
    Reference,
    RuleFile,
    Signal,
    Template,
    Tree,
    Word,
)


def with_constants(
    files: Sequence[RuleFile], names: Names, problems: Problems
) -> Sequence[RuleFile]:
    """The files with each constant replaced by its value; wrong constants are reported."""
    values: dict[str, Expression] = {}
    columns = {
        statement.head.name.text if isinstance(statement, Signal) else statement.name.text
        for file in files
        for statement in file.statements
        if isinstance(statement, Signal | Label)
    }
    for file in files:
        for statement in file.statements:
            if (
                not isinstance(statement, Constant)
                or statement.name.text in columns | values.keys()
            ):
                continue
            value = _value(statement, values, problems)
            if value is None:
                names.broken.add(statement.name.text)
            else:
                values[statement.name.text] = value
    if not values:
        return files
    return [
        replace(file, statements=tuple(_replaced(one, values) for one in file.statements))
        for file in files
    ]


def _value(
    statement: Constant, earlier: Mapping[str, Expression], problems: Problems
) -> Expression | None:
    """The value of a constant without names; None if it is wrong, which is reported."""
    value: Expression = _replaced(statement.value, earlier)
    name = statement.name.text
    parts = trees_in(value)
    for part in parts:
        match part:
            case Quantity() | Negative() | Arithmetic() | Raised() | Word():
                continue
            case Reference(name="pi", quoted=False):
                continue
            case Apply(name=function) if function.text in FUNCTIONS:
                continue
            case Reference(name=other, quoted=False):
                message = f"`{other}` is not a constant that is declared before `{name}`"
                advice = did_you_mean(
                    other, earlier, "use numbers and earlier constants; a rule can read signals"
                )
            case _:
                message = f"the constant `{name}` is not made of numbers alone"
                advice = "use numbers and earlier constants: constant NAME = 2.5 bar"
        problems.error("FKG296", part.span, message, advice)
        return None
    if len(parts) > MAX_TERMS:
        message = (
            f"the constant `{name}` has more than {MAX_TERMS} parts when earlier constants are"
            " written out"
        )
        problems.error("FKG261", statement.value.span, message, "write its value as a number")
        return None
    return value


def _replaced(node: Any, values: Mapping[str, Expression]) -> Any:
    """A node, a tuple of nodes or a plain value (`Any`), with the values of constants in place of
    their names.

    The parameters of a template hide constants with the same name.
    """
    if isinstance(node, tuple):
        return tuple(_replaced(item, values) for item in node)
    if not isinstance(node, Tree):
        return node
    match node:
        case Reference(name=name, quoted=False) if name in values:
            return replace(values[name], span=node.span)
        case Template():
            parameters = {word.text for word in node.parameters}
            values = {name: value for name, value in values.items() if name not in parameters}
        case _:
            pass
    changed = {
        name: _replaced(value, values)
        for name in node.__dataclass_fields__
        if isinstance(value := getattr(node, name), Tree | tuple) and name != "span"
    }
    return replace(node, **changed)
