"""Decision tables: one clause in each row of a sheet.

A column under a signal's name (or its header) holds conditions, the column under the output's name
holds the answer:

| ash [%]  | sulphur | grade |
|----------|---------|-------|
| > 12.5   |         | C, D  |
| 8 .. 12  | <= 1    | B     |
| any      | -       | any   |

An empty cell, ``any`` and ``-`` ask nothing; ``x`` alone is equality; classes are separated by
commas. Numbers without a unit have that of the header, else that of the signal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fedkg._internal.name_matching import did_you_mean
from fedkg.errors import FedkgError
from fedkg.tables import Table
from fedkg.tables.numerals import DecimalMark, decimal_marks, number
from fedkg.units import Unit, parse_unit
from fedkg.units.header import split_header
from fedkg.units.unit import same_dimension
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.scope import Names, Sources
from fedkg_compiler.frontends.fkg.syntax.tree import (
    AllOf,
    Choice,
    Comparison,
    Condition,
    DecisionTable,
    Expression,
    Membership,
    Negative,
    Quantity,
    RangeKnowledge,
    Reference,
    Word,
)
from fedkg_compiler.frontends.knowledge.output_name_resolution import Answer, Statement
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets
from fedkg_compiler.frontends.sheets.sheet_quantifiers import sheet_advice, unreadable

ANYTHING = frozenset({"", "-", "–", "any", "*"})
_CELL = re.compile(r"^(?P<op><=|>=|<|>|==?|!=|≤|≥|≠)?\s*(?P<rest>.*)$", re.DOTALL)
_RANGE = re.compile(r"^(?P<low>[-+−]?\S+)\s*\.\.\s*(?P<high>[-+−]?\d\S*)\s*(?P<unit>.*)$")
_QUANTITY = re.compile(r"^(?P<number>[-+−]?[\d.,' ]*\d(?:[eE][-+]?\d+)?)\s*(?P<unit>(?!\.)\S*)$")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_SHOWN = 5
_SIGNS = {"≤": "<=", "≥": ">=", "≠": "!=", "=": "=="}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """A sheet with its decimal mark, its span, and the mistakes in its cells."""

    table: Table
    decimal: DecimalMark
    place: Span
    sources: Sources
    found: list[tuple[str, str]] = field(default_factory=list)

    def wrong(self, row: int, header: str, problem: str, advice: str) -> None:
        """Keep in mind that a cell is wrong."""
        line = f"line {self.table.lines[row]}" if len(self.table.lines) else f"row {row + 1}"
        self.found.append((f"{line}, column `{header}`: {problem}", advice))

    def tell(self) -> None:
        """Say at once which cells are wrong: the first few, and how many there are besides."""
        if self.found:
            shown = "; ".join(problem for problem, _ in self.found[:_SHOWN])
            more = len(self.found) - _SHOWN
            message = f"{self.table.name}, {shown}{f'; and {more} more' if more > 0 else ''}"
            self.sources.problems.error("FKG375", self.place, message, self.found[0][1])


def table_clauses(
    source: DecisionTable, statement: Statement, answer: Answer, sources: Sources, sheets: Sheets
) -> list[tuple[Condition, Choice | Expression]]:
    """The rows of a decision table as clauses; [] with problems where it is wrong."""
    place = source.path.span
    folder = sources.names.folders[place.file]
    table = sheets.read(folder / source.path.text)
    if isinstance(table, FedkgError):
        message = unreadable(table, folder / source.path.text, source.path.text, "decision table")
        sources.problems.error("FKG170", place, message, sheet_advice(folder, source.path.text))
        return []
    sheet = _Sheet(table=table, decimal=_decimal(table), place=place, sources=sources)
    columns = _columns(sheet, answer, sources.names)
    if columns is None:
        return []
    conditions, answer_header = columns
    clauses: list[tuple[Condition, Choice | Expression]] = []
    for row in range(table.rows):
        known = len(sheet.found)
        parts = [
            part
            for header, name in conditions
            if (part := _condition(sheet, header, name, row)) is not None
        ]
        text = table.texts(answer_header)[row].strip()
        result = (
            _choice(sheet, answer, answer_header, row, text)
            if isinstance(statement, RangeKnowledge)
            else _value(sheet, answer, answer_header, row, text)
        )
        if result is None:
            continue
        if not parts and known < len(sheet.found):
            continue
        if not parts:
            message = "every cell of a condition is empty: it would hold always"
            sheet.wrong(
                row,
                conditions[0][0] if conditions else answer_header,
                message,
                "write `otherwise` behind the table in the rule file",
            )
            continue
        clauses.append(
            (parts[0] if len(parts) == 1 else AllOf(span=place, args=tuple(parts)), result)
        )
    sheet.tell()
    return clauses


def _decimal(table: Table) -> DecimalMark:
    """The decimal mark of the numbers inside the cells, as far as their form shows it.

    Else as those of the whole table.
    """
    numbers = [
        found
        for cells in table.headers
        for text in table.texts(cells)
        for found in _NUMBER.findall(text)
    ]
    marks = decimal_marks(numbers)
    return next(iter(marks)) if len(marks) == 1 else table.found.decimal


def _columns(
    sheet: _Sheet, answer: Answer, names: Names
) -> tuple[list[tuple[str, str]], str] | None:
    """Headers with the names that rules have for them, and the header of the answer."""
    conditions: list[tuple[str, str]] = []
    answer_header = ""
    for header in sheet.table.headers:
        bare = split_header(header)[0]
        column = (
            answer.label.column
            if answer.label is not None
            else answer.number.column
            if answer.number is not None
            else None
        )
        if answer.name.text in (header, bare) or column == header:
            answer_header = header
            continue
        signal = (
            names.signals.get(header)
            or names.signals.get(bare)
            or names.by_header(header)
            or names.by_header(bare)
        )
        if signal is not None and not signal.family:
            conditions.append((header, signal.name))
        elif header in names.labels or bare in names.labels:
            conditions.append((header, header if header in names.labels else bare))
        elif signal is not None:
            sheet.sources.problems.error(
                "FKG376",
                sheet.place,
                f"{sheet.table.name}: `{header}` is the signal `{signal.name}(?{signal.family})`,"
                " which has one value for each entity; a decision table reads signals without"
                " entities",
                f"declare the column as a signal without entities: signal NAME column"
                f' "{header}"; or call the column `note`',
                (Related(span=signal.place, message="declared here"),),
            )
            return None
        elif bare.casefold() not in ("note", "notes", "comment", "remark"):
            advice = (
                did_you_mean(bare, names.known_names())
                or f"declare it: signal {bare} in ...; or call the column `note`"
            )
            sheet.sources.problems.error(
                "FKG376",
                sheet.place,
                f"{sheet.table.name}: `{header}` is neither a signal, a label nor"
                f" `{answer.name.text}`",
                advice,
            )
            return None
    if not answer_header:
        message = f"{sheet.table.name} has no column `{answer.name.text}` with the answers"
        sheet.sources.problems.error(
            "FKG376",
            sheet.place,
            message,
            f"rename the column with the answers to `{answer.name.text}`; the columns are"
            f" {', '.join(sheet.table.headers)}",
        )
        return None
    return conditions, answer_header


def _condition(sheet: _Sheet, header: str, name: str, row: int) -> Condition | None:
    """The condition of a cell on a signal; None if it has none, or after an error."""
    text = sheet.table.texts(header)[row].strip()
    if text.casefold() in ANYTHING:
        return None
    subject = Reference(span=sheet.place, name=name)
    unit = split_header(header)[1]
    signal = sheet.sources.names.signals.get(name)
    found = _RANGE.match(text)
    if found is not None:
        ends = [
            _quantity(sheet, found[end], found["unit"].strip() or unit) for end in ("low", "high")
        ]
        if _foreign(
            sheet, row, header, found["unit"].strip(), None if signal is None else signal.unit
        ):
            return None
        if ends[0] is not None and ends[1] is not None:
            return _compare(sheet, (ends[0], subject, ends[1]), ("<=", "<="))
    match = _CELL.match(text)
    assert match is not None
    sign, rest = match["op"], match["rest"].strip()
    operator = _SIGNS.get(sign, sign) if sign else "=="
    parts = _QUANTITY.match(rest)
    quantity = None if parts is None else _quantity(sheet, parts["number"], parts["unit"] or unit)
    if quantity is not None and parts is not None:
        if not _foreign(sheet, row, header, parts["unit"], None if signal is None else signal.unit):
            return _compare(sheet, (subject, quantity), (operator,))
        return None
    if (
        operator in ("==", "!=")
        and rest
        and not re.search("[<>=]", rest)
        and (signal is None or signal.unit is None)
    ):
        values = tuple(Word(span=sheet.place, text=value.strip()) for value in rest.split(","))
        return Membership(
            span=sheet.place, subject=subject, negated=operator == "!=", values=values
        )
    sheet.wrong(
        row,
        header,
        f"`{text}` is not a condition",
        "write > 12.5, 8 .. 12, = 3, a class, or leave it empty",
    )
    return None


def _foreign(sheet: _Sheet, row: int, header: str, text: str, unit: Unit | None) -> bool:
    """Whether the unit after a number is unknown or incompatible with `unit`; reports the cell."""
    found = parse_unit(text) if text else None
    if found is None or (isinstance(found, Unit) and (unit is None or same_dimension(found, unit))):
        return False
    problem = (
        f"`{text}` cannot be compared with `{unit.text}`"
        if isinstance(found, Unit) and unit is not None
        else f"`{text}` is not a unit"
    )
    sheet.wrong(
        row,
        header,
        problem,
        "write the number in the unit of the column, or in another one of its kind",
    )
    return True


def _compare(sheet: _Sheet, operands: tuple[Expression, ...], signs: tuple[str, ...]) -> Comparison:
    return Comparison(
        span=sheet.place,
        operands=operands,
        operators=tuple(Word(span=sheet.place, text=sign) for sign in signs),
    )


def _quantity(sheet: _Sheet, text: str, unit: str | None) -> Expression | None:
    value = number(text.replace("−", "-").replace(" ", ""), sheet.decimal)
    if value is None or value != value:
        return None
    quantity = Quantity(
        span=sheet.place, value=abs(value), unit=Word(span=sheet.place, text=unit) if unit else None
    )
    return Negative(span=sheet.place, arg=quantity) if value < 0 else quantity


def _choice(sheet: _Sheet, answer: Answer, header: str, row: int, text: str) -> Choice | None:
    """The interval or classes that an answer cell allows."""
    if text.casefold() in ANYTHING:
        return Choice(span=sheet.place)
    if answer.label is not None:
        classes = [value.strip() for value in text.split(",")]
        wrong = next((value for value in classes if value not in answer.classes), None)
        if wrong is None:
            return Choice(
                span=sheet.place,
                classes=tuple(Word(span=sheet.place, text=value) for value in classes),
            )
        message = f"`{wrong}` is not a class of `{answer.name.text}`"
        sheet.wrong(
            row,
            header,
            message,
            did_you_mean(wrong, answer.classes) or f"its classes are {', '.join(answer.classes)}",
        )
        return None
    found, unit = _RANGE.match(text), split_header(header)[1]
    if found is not None:
        low, high = (
            _quantity(sheet, found[end], found["unit"].strip() or unit) for end in ("low", "high")
        )
        if low is not None and high is not None:
            return Choice(span=sheet.place, ends=(low, high))
    sheet.wrong(row, header, f"`{text}` is not an interval", "write 0 .. 3, or any")
    return None


def _value(sheet: _Sheet, answer: Answer, header: str, row: int, text: str) -> Expression | None:
    """The prediction of an answer cell."""
    if answer.label is not None:
        if text in answer.classes:
            return Reference(span=sheet.place, name=text)
        advice = (
            did_you_mean(text, answer.classes) or f"its classes are {', '.join(answer.classes)}"
        )
        sheet.wrong(row, header, f"`{text}` is not a class of `{answer.name.text}`", advice)
        return None
    parts = _QUANTITY.match(text)
    value = (
        None
        if parts is None
        else _quantity(sheet, parts["number"], parts["unit"] or split_header(header)[1])
    )
    if value is None:
        sheet.wrong(row, header, f"`{text}` is not a number", "write the number that is predicted")
    return value
