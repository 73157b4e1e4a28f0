"""``example of RULE holds for pressure = 7 9 9 9 bar and ...``: a trace in the units of the rule's
columns, and the row it is run on.

Letters: T steps, C columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg._internal.safe_text import list_first
from fedkg.pack import Column
from fedkg.pack.rule_example_trace import RuleExample
from fedkg.tables import truth
from fedkg.units.text import parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension
from fedkg_compiler.banks import lower
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.frontends.fkg.binding.declarations import unit_of
from fedkg_compiler.frontends.fkg.binding.missing_value_pruning import prune
from fedkg_compiler.frontends.fkg.binding.rule import bind_part
from fedkg_compiler.frontends.fkg.binding.scope import (
    Cell,
    DeclaredSignal,
    Environment,
    FileRule,
    Sources,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import VALUE, look_up
from fedkg_compiler.frontends.fkg.binding.template_examples import example_of_template
from fedkg_compiler.frontends.fkg.syntax.tree import Example, Series
from fedkg_compiler.ir import Book, BoundRows, Program
from fedkg_compiler.passes import PASSES

FOREIGN = -2.0
"""The code of a text that no rule asks for."""


def bind_example(statement: Example, sources: Sources) -> RuleExample | None:
    """The example, ready to run; None where it is wrong, or its rule is, which has been said."""
    problems, name = sources.problems, statement.rule.text
    if name in {*sources.names.left_out, *sources.names.broken_rules}:
        return None
    first = sources.firsts.get(name)
    if first is None and name in sources.names.templates:
        of_template = example_of_template(statement, sources)
        return None if of_template is None else bind_example(*of_template)
    if first is None:
        rules = [rule.rule.name.text for rule in sources.names.rules]
        if name not in rules:
            advice = did_you_mean(
                name, rules, "the rule must be in one of the files that are compiled together"
            )
            problems.error("FKG293", statement.rule.span, f"rule `{name}` does not exist", advice)
        return None
    if not _equally_long(statement, first.environment, problems):
        return None
    environment = _with_values(statement, first.environment, problems)
    bound = None if environment is None else _row(first.rule, environment, sources)
    if environment is None or bound is None:
        return None
    timing = replace(sources.names.timing, end="clip")
    program = Program(rows=(bound,), columns=sources.book.freeze(), timing=timing)
    lowered = lower(program.after(PASSES))
    contract = lowered.numbering.contract
    at = {column: i for i, column in lowered.numbering.columns.items()}
    steps = max(
        (_length(series) for series in statement.series if not _is_variable(series, environment)),
        default=1,
    )
    base = np.full((steps, len(contract.columns)), np.nan)
    given: list[str] = []
    for series in statement.series:
        if _is_variable(series, environment):
            continue
        columns = _columns(
            series,
            contract.columns,
            [at[i] for i in range(len(contract.columns))],
            first.rule,
            sources,
        )
        for i in columns or ():
            values = _values(series, contract.columns[i], sources)
            if values is None:
                return None
            base[:, i] = values
            given.append(contract.columns[i].name)
        if columns is None:
            return None
    _tell_missing(
        statement, [column for column in contract.columns if column.name not in given], problems
    )
    return RuleExample(
        rule=name,
        holds=statement.holds,
        text=sources.written(statement.span),
        file=statement.span.file,
        line=statement.span.line,
        column=statement.span.column,
        bank=lowered.banks[0],
        contract=contract,
        base=base,
        given=tuple(given),
        unit=bound.unit,
        entity=bound.entities[0],
    )


def _length(series: Series) -> int:
    return len(series.values) or len(series.texts)


def _equally_long(statement: Example, environment: Environment, problems: Problems) -> bool:
    """Whether all series of what is measured have as many values."""
    measured = [series for series in statement.series if not _is_variable(series, environment)]
    longest = max(measured, key=_length, default=None)
    other = next(
        (
            series
            for series in measured
            if longest is not None and _length(series) != _length(longest)
        ),
        None,
    )
    if longest is None or other is None:
        return True
    count = f"{_length(other)} values" if _length(other) != 1 else "one value"
    problems.error(
        "FKG294",
        other.span,
        f"`{other.head.name.text}` has {count}, and `{longest.head.name.text}` has"
        f" {_length(longest)}",
        "write a value for each step, or `unknown` for a missing one",
    )
    return False


def _is_variable(series: Series, environment: Environment) -> bool:
    """Whether a series gives a number of the rule's quantifier rather than what is measured."""
    head = series.head
    return head.variable is None and not head.quoted and head.name.text in environment.cells


def _with_values(
    statement: Example, environment: Environment, problems: Problems
) -> Environment | None:
    """The row with the numbers that the example gives in place of the graph's: ``low = 10
    degC``.
    """
    cells = dict(environment.cells)
    for series in statement.series:
        if not _is_variable(series, environment):
            continue
        name = series.head.name.text
        old = cells[name][0]
        if old is not None and old.number is None:
            shown = "the table row" if old.row else f"`{old.text}`"
            message = (
                f"`{name}` is a variable of the quantifier that stands for {shown}: an example can"
                " replace numbers only"
            )
            advice = f"leave `{name}` out: the example runs with {shown}"
            problems.error("FKG294", series.span, message, advice)
            return None
        if len(series.values) != 1 or series.values[0] != series.values[0]:
            message = f"`{name}` is a value of the rule's quantifier: it has one number"
            problems.error("FKG294", series.span, message, f"write: {name} = 10")
            return None
        unit = unit_of(series.unit, problems)
        if series.unit is not None and unit is None:
            return None
        text = unit.text if unit is not None else old.unit if old is not None else ""
        cells[name] = (Cell(text=f"{series.values[0]:g}", number=series.values[0], unit=text),)
    return replace(environment, cells=cells)


def _row(rule: FileRule, environment: Environment, sources: Sources) -> BoundRows | None:
    missing = frozenset(name for name, column in environment.cells.items() if column[0] is None)
    formula = prune(rule.rule.formula, missing)
    if formula is None:
        return None
    readings = look_up(formula, environment, sources)
    if not readings.complete(sources.names.labels):
        return None
    bound = bind_part(rule, formula, environment, readings, sources)
    return None if bound is None else replace(bound, keys=((),))


def _columns(
    series: Series, columns: Sequence[Column], ids: Sequence[int], rule: FileRule, sources: Sources
) -> list[int] | None:
    """Positions of the columns that a series fills: that of a plain name, or those of every entity
    of a family; None: no such name.
    """
    head, names, book = series.head, sources.names, sources.book
    name = head.name.text
    signal = names.signals.get(name)
    wanted = [i for i, column in enumerate(columns) if _is_of(column, book, ids[i], name, signal)]
    if name == VALUE and head.variable is not None and signal is None:
        wanted = _valued(head.variable.text, columns, ids, rule, sources)
    if wanted:
        return wanted
    if signal is not None or name in names.labels or names.by_header(name) is not None:
        message = f"the rule `{rule.rule.name.text}` does not read `{name}`"
        sources.problems.warning(
            "FKG295", head.span, message, "remove the series, or correct its name"
        )
        return []
    if name in names.broken:
        return None
    known = [*names.signals, *names.labels, *(column.source for column in columns)]
    read = dict.fromkeys(f"`{column.label or column.source}`" for column in columns)
    sources.problems.error(
        "FKG293",
        head.span,
        f"the rule `{rule.rule.name.text}` does not read `{name}`",
        did_you_mean(name, known, f"the rule reads {', '.join(read)}"),
    )
    return None


def _valued(
    variable: str, columns: Sequence[Column], ids: Sequence[int], rule: FileRule, sources: Sources
) -> list[int]:
    """Return the positions that ``value(?variable)`` reads.

    Members have separate places: theirs are the positions that no other name reads.
    """
    first = sources.firsts[rule.rule.name.text]
    read = look_up(first.rule.rule.formula, first.environment, sources).found.items()
    places = {
        key: reading.places[0].column
        for key, reading in read
        if reading is not None and reading.places[0].column >= 0
    }
    mine = {
        column
        for (name, variables), column in places.items()
        if name == VALUE and variables.split()[0] == variable
    }
    if mine:
        headers = {sources.book.columns[column].source for column in mine}
        return [i for i, number in enumerate(ids) if number in mine or columns[i].source in headers]
    others = {sources.book.columns[column].source for column in places.values()}
    return [
        i
        for i, column in enumerate(columns)
        if column.type == "real" and column.source not in _declared(sources) | others
    ]


def _declared(sources: Sources) -> set[str]:
    return {signal.column or signal.name for signal in sources.names.signals.values()}


def _is_of(
    column: Column, book: Book, number: int, name: str, signal: DeclaredSignal | None
) -> bool:
    """Whether a column is that of a name: its signal's, its label's, or the header itself."""
    if column.label:
        return column.label == name
    entry = book.columns[number]
    if signal is not None and entry.name.partition(" (")[0].partition("[")[0] == name:
        return True
    return entry.source == name or (signal is not None and signal.column == entry.source)


def _values(series: Series, column: Column, sources: Sources) -> NDArray[np.float64] | None:
    """The values of a series in the unit of a column, or as its codes: float64 [T], or [1] for one
    that stays.
    """
    problems = sources.problems
    texts = [word.text for word in series.texts]
    unknown = [text == "unknown" for text in texts]
    match column.type:
        case "score":
            classes = (
                sources.names.labels[column.label].classes
                if column.label in sources.names.labels
                else ()
            )
            wrong = next(
                (word for word in series.texts if word.text not in (*classes, "unknown")), None
            )
            if wrong is not None or not texts:
                at = series.span if wrong is None else wrong.span
                message = (
                    f"`{column.label}` is a label: its values are classes, not numbers"
                    if wrong is None
                    else f"the label `{column.label}` has no class `{wrong.text}`"
                )
                advice = f"its classes are {', '.join(classes)}"
                near = did_you_mean("" if wrong is None else wrong.text, classes, advice)
                problems.error("FKG210", at, message, near)
                return None
            return np.array(
                [
                    np.nan if gone else float(text == column.category)
                    for text, gone in zip(texts, unknown, strict=True)
                ]
            )
        case "category":
            words = texts or [f"{value:g}" for value in series.values]
            codes = {word: float(i) for i, word in enumerate(column.vocabulary)}
            return np.array(
                [
                    np.nan if word in ("unknown", "nan") else codes.get(word, FOREIGN)
                    for word in words
                ]
            )
        case "boolean" if texts:
            said = [
                None if gone else truth(text) for text, gone in zip(texts, unknown, strict=True)
            ]
            wrong = next(
                (
                    word
                    for word, value, gone in zip(series.texts, said, unknown, strict=True)
                    if value is None and not gone
                ),
                None,
            )
            if wrong is not None:
                message = (
                    f"`{series.head.name.text}` is true or false, and `{wrong.text}` is neither"
                )
                problems.error("FKG281", wrong.span, message, "write true or false, or unknown")
                return None
            return np.array([np.nan if value is None else float(value) for value in said])
        case "boolean" if strange := [
            value for value in series.values if not np.isnan(value) and value not in (0.0, 1.0)
        ]:
            message = f"`{series.head.name.text}` is true or false, and `{strange[0]:g}` is neither"
            problems.error("FKG281", series.span, message, "write true or false, or unknown")
            return None
        case _ if texts and not all(unknown):
            message = (
                f"`{series.head.name.text}` is a number, and `{texts[unknown.index(False)]}` is not"
            )
            problems.error(
                "FKG209", series.span, message, "write numbers, or `unknown` for a missing one"
            )
            return None
        case _:
            numbers = series.values or tuple(float("nan") for _ in texts)
            return _in_unit(series, np.array(numbers, dtype=np.float64), column, sources)


def _in_unit(
    series: Series, numbers: NDArray[np.float64], column: Column, sources: Sources
) -> NDArray[np.float64] | None:
    signal = sources.names.signals.get(series.head.name.text)
    unit = unit_of(series.unit, sources.problems)
    if series.unit is not None and unit is None:
        return None
    written = unit or (signal.unit if signal is not None else None)
    stored = parse_unit(column.unit) if column.unit else None
    if written is None or not isinstance(stored, Unit):
        if unit is not None and unit.dimension and (signal is None or signal.unit is not None):
            message = f"`{series.head.name.text}` has no unit, and here it is in `{unit.text}`"
            advice = f"remove the unit, or declare `{series.head.name.text}` in `{unit.text}`"
            sources.problems.error("FKG213", series.span, message, advice)
            return None
        return numbers
    if not same_dimension(written, stored):
        at = series.unit.span if series.unit is not None else series.span
        message = f"`{series.head.name.text}` is in `{stored.text}`, and here in `{written.text}`"
        sources.problems.error(
            "FKG213",
            at,
            message,
            f"write the values in {stored.text}, or in a unit of the same kind",
        )
        return None
    return conversion(written, stored).apply(numbers)


def _tell_missing(statement: Example, columns: Sequence[Column], problems: Problems) -> None:
    names = list(dict.fromkeys(column.label or column.name for column in columns))
    if names:
        shown = list_first([f"`{name}`" for name in names], 3)
        message = f"the example gives no values of {shown}: unknown at every step"
        problems.info(
            "FKG295",
            statement.rule.span,
            message,
            "add `and NAME = ...` if the verdict of the rule depends on them",
        )
