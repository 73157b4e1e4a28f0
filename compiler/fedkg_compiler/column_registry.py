"""The columns and views that rules read, gathered over the whole compilation; ids are positions in
the order of first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Role
from fedkg.units.header import header_unit
from fedkg.units.unit import Unit, same_dimension, same_scale
from fedkg_compiler.diagnostics.problems import Problems
from fedkg_compiler.diagnostics.record import Related, Span

ColumnType = Literal["real", "boolean", "category", "score"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookColumn:
    """One column of the data contract to be.

    Attributes:
        unit: of the values in the table; None while nothing has told it.
        span: in `unit`.
        declared: whether a statement or the graph declares it; else a rule reads the header
            directly.
        mined: no column, but a parameter that is found in data, which takes a unit as a column
            does.
    """

    name: str
    source: str
    type: ColumnType = "real"
    role: Role = "input"
    unit: Unit | None = None
    span: tuple[float, float] | None = None
    label: str = ""
    category: str = ""
    declared: bool = True
    mined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BookView:
    """A reading other than the base: the row before in its group (with `steps` on the timeline), or
    with a column raised.
    """

    kind: Literal["base", "previous", "raised"]
    groups: tuple[str, ...] = ()
    steps: bool = False
    column: int | None = None
    delta: float = 0.0


BASE = BookView(kind="base")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns and views of a compilation, by number.

    Attributes:
        vocabulary: the texts that rules compare a category column with, by the column's number.
        keys: the numbers of the columns whose texts select table rows, by header; filled in by a
            pass.
    """

    columns: tuple[BookColumn, ...] = ()
    views: tuple[BookView, ...] = (BASE,)
    vocabulary: Mapping[int, frozenset[str]] = field(default_factory=dict)
    keys: Mapping[str, int] = field(default_factory=dict)


class Book:
    """Grows while rules are bound; `freeze` gives the columns to passes and banks."""

    def __init__(self, known: Columns | None = None) -> None:
        """An empty registry, or one that continues `known`."""
        known = Columns() if known is None else known
        self.columns = [*known.columns]
        self.views = [*known.views]
        self.vocabulary = {column: {*texts} for column, texts in known.vocabulary.items()}
        self._by_name = {(column.name, column.type): i for i, column in enumerate(self.columns)}
        self._by_view = {view: i for i, view in enumerate(self.views)}
        self._told: dict[int, Span] = {}
        self._by_header: dict[int, Span] = {}
        self._by_sheet: dict[int, Span] = {}
        self._bare: list[tuple[NDArray[np.int64], Span]] = []

    def column(self, column: BookColumn) -> int:
        """The id of a column; one of that name and type that is there already is kept as it is.

        Two table columns never share a name: the header distinguishes the second one.
        """
        known = self._by_name.get((column.name, column.type))
        if (
            known is not None
            and self.columns[known].source != column.source
            and column.type != "score"
        ):
            column = replace(column, name=f"{column.name} ({column.source})")
            known = self._by_name.get((column.name, column.type))
        if known is None:
            known = len(self.columns)
            self.columns.append(column)
            self._by_name[column.name, column.type] = known
        return known

    def freeze(self) -> Columns:
        """The columns, views and texts so far."""
        return Columns(
            columns=tuple(self.columns),
            views=tuple(self.views),
            vocabulary={column: frozenset(texts) for column, texts in self.vocabulary.items()},
        )

    def history(self, column: int) -> int:
        """The id of the data column with the earlier values of an output."""
        entry = self.columns[column]
        return (
            column
            if entry.role == "input"
            else self.column(replace(entry, name=f"{entry.name} (history)", role="input"))
        )

    def view(self, view: BookView) -> int:
        """The id of a view."""
        if view not in self._by_view:
            self._by_view[view] = len(self.views)
            self.views.append(view)
        return self._by_view[view]

    def measure(self, column: int, unit: Unit) -> None:
        """The numbers of a column are in a unit: scores of classes that a rule reads as
        probabilities.
        """
        self.columns[column] = replace(self.columns[column], unit=unit)

    def say(self, column: int, text: str) -> None:
        """A text that a rule compares a category column with."""
        self.vocabulary.setdefault(column, set()).add(text)

    def tell_unit(
        self, readings: Sequence[NDArray[np.int64]], unit: Unit, span: Span, problems: Problems
    ) -> None:
        """Columns without a unit are now compared with something in `unit`: that is theirs.

        The first place that tells a unit settles it; another unit elsewhere is an error, since
        nothing says how the table means it.
        """
        new: list[str] = []
        for column in sorted({column for columns in readings for column in columns.tolist()}):
            entry = self.columns[column]
            if entry.unit is None:
                self.columns[column] = replace(entry, unit=unit)
                self._told[column] = span
                if not entry.mined:
                    new.append(entry.name)
            elif not same_dimension(entry.unit, unit):
                self._contradiction(column, entry, unit, span, problems)
        if new:
            second = {1: "", 2: f" and `{new[-1]}`"}.get(len(new), f" and {len(new) - 1} more")
            has, be = ("has", "is") if len(new) == 1 else ("have", "are")
            kind = (
                f"in {unit.text}"
                if unit.text
                else "a plain number"
                if len(new) == 1
                else "plain numbers"
            )
            problems.info(
                "FKG217",
                span,
                f"`{new[0]}`{second} {has} no declared unit and {be} taken to be {kind}",
                f"write `signal {quoted(new[0])} in {unit.text}` to say so"
                if unit.text
                else f"if it has a unit, declare it: `signal {quoted(new[0])} in bar`",
            )

    def tell_by_sheet(self, column: int, unit: Unit, span: Span) -> None:
        """A column without a unit is in the one that a sheet of tags gives it."""
        self.columns[column] = replace(self.columns[column], unit=unit)
        self._told[column] = self._by_sheet[column] = span

    def tell_by_header(self, column: int, span: Span) -> None:
        """Return the unit in brackets after the header of a column without a declared unit, if
        any.
        """
        entry = self.columns[column]
        if (
            entry.unit is None
            and entry.type == "real"
            and (unit := header_unit(entry.source)) is not None
        ):
            self.columns[column] = replace(entry, unit=unit)
            self._by_header[column] = span

    def headed(self, column: int) -> bool:
        """Whether the column's unit is the one behind its header."""
        return column in self._by_header

    def note_units(self, problems: Problems) -> None:
        """When all rules are bound: say which columns took their unit from their header, and which
        from a sheet of tags.
        """
        for told, why in (
            (self._by_header, "header says"),
            (self._by_sheet, "row of the sheet says"),
        ):
            by_place: dict[Span, list[int]] = {}
            for column, span in told.items():
                by_place.setdefault(span, []).append(column)
            for span, (first, *others) in by_place.items():
                name, unit = self.columns[first].name, self.columns[first].unit
                text = unit.text if unit else ""
                more = (
                    f"; so {'is' if len(others) == 1 else 'are'} {len(others)} more, each as its"
                    " own says"
                    if others
                    else ""
                )
                code = "FKG242" if told is self._by_header else "FKG243"
                message = f"`{name}` is taken to be in {text}, as its {why}{more}"
                problems.info(
                    code,
                    span,
                    message,
                    f"write `signal {quoted(name)} in {text}` to say so, or the unit that it is in",
                )

    def compare_bare(self, readings: Sequence[NDArray[np.int64]], span: Span) -> None:
        """Record that columns without units are compared: units declared later must be equal."""
        some = [columns for columns in readings if columns.size]
        if len(some) > 1:
            self._bare.append((np.unique(np.stack(some, axis=1), axis=0), span))

    def settle(self, problems: Problems) -> None:
        """After all rules are bound, report columns that were compared and have different units."""
        for rows, span in self._bare:
            for row in rows.tolist():
                told = [
                    (self.columns[column], unit)
                    for column in row
                    if (unit := self.columns[column].unit) is not None
                ]
                one, other = next(
                    ((told[0], entry) for entry in told if not same_scale(told[0][1], entry[1])),
                    (None, None),
                )
                if one is None or other is None:
                    continue
                related = tuple(
                    Related(span=at, message="concluded here")
                    for column in row
                    if (at := self._told.get(column)) is not None
                )
                problems.error(
                    "FKG216",
                    span,
                    f"`{one[0].name}` and `{other[0].name}` are compared without conversion, "
                    f"but other rules read them in {one[1].text} and {other[1].text}",
                    f"declare their units: `signal {quoted(one[0].name)} in {one[1].text}`",
                    related,
                )
                break

    def compared_unit(self, column: int) -> Unit | None:
        """The unit that an earlier comparison gave the column."""
        return self.columns[column].unit

    def told_at(self, column: int) -> Span | None:
        """Where a comparison gave the column its unit; None where a declaration did, or nothing
        yet.
        """
        return self._told.get(column)

    def _contradiction(
        self, column: int, entry: BookColumn, unit: Unit, span: Span, problems: Problems
    ) -> None:
        first = self._told.get(column)
        related = (
            (
                Related(
                    span=first,
                    message=f"taken to be in {entry.unit.text if entry.unit else ''} here",
                ),
            )
            if first
            else ()
        )
        problems.error(
            "FKG216",
            span,
            f"`{entry.name}` is compared with {unit.text} here and with"
            f" {entry.unit.text if entry.unit else ''} elsewhere",
            f"declare its unit: `signal {quoted(entry.name)} in ...`",
            related,
        )


def quoted(name: str) -> str:
    """A column's name as a rule file writes it."""
    return name if name.isidentifier() else f"`{name}`"
