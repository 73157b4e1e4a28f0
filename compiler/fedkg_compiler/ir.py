"""The intermediate representation: the columns that rules read, and typed formulas over rows, as
every frontend gives them to the passes and to the banks.

Ids of columns and views are positions in the order of first use.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Formula, Param, Placement, Role, RuleRecord, Slot, Source
from fedkg.pack.causes import CauseRecord
from fedkg.pack.feasible_sets import KeptSet
from fedkg.pack.knowledge_models import KnowledgeModel
from fedkg.pack.parameter_mining_tasks import Inference
from fedkg.pack.rule_example_trace import RuleExample
from fedkg.units.header import BRACKETS, header_unit
from fedkg.units.unit import Unit, same_dimension, same_scale
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Diagnostic, Related, Span

ColumnType = Literal["real", "boolean", "category", "score"]


class BookColumn(NamedTuple):
    """One column of the data contract to be.

    Attributes:
        unit: of the values in the table; None while no declaration or comparison gives one.
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
        self._unit_places: dict[int, Span] = {}
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
            column = column._replace(name=f"{column.name} ({column.source})")
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
            else self.column(entry._replace(name=f"{entry.name} (history)", role="input"))
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
        self.columns[column] = self.columns[column]._replace(unit=unit)

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
                self.columns[column] = entry._replace(unit=unit)
                self._unit_places[column] = span
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
        self.columns[column] = self.columns[column]._replace(unit=unit)
        self._unit_places[column] = self._by_sheet[column] = span

    def tell_by_header(self, column: int, span: Span) -> None:
        """Return the unit in brackets after the header of a column without a declared unit, if
        any.
        """
        entry = self.columns[column]
        if (
            entry.unit is None
            and entry.type == "real"
            and entry.source.rstrip().endswith(BRACKETS)
            and (unit := header_unit(entry.source)) is not None
        ):
            self.columns[column] = entry._replace(unit=unit)
            self._by_header[column] = span

    def headed(self, column: int) -> bool:
        """Whether the column's unit is the one behind its header."""
        return column in self._by_header

    def note_units(self, problems: Problems) -> None:
        """When all rules are bound: say which columns took their unit from their header, and which
        from a sheet of tags.
        """
        for places, why in (
            (self._by_header, "header says"),
            (self._by_sheet, "row of the sheet says"),
        ):
            by_place: dict[Span, list[int]] = {}
            for column, span in places.items():
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
                code = "FKG242" if places is self._by_header else "FKG243"
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
                known = [
                    (self.columns[column], unit)
                    for column in row
                    if (unit := self.columns[column].unit) is not None
                ]
                one, other = next(
                    ((known[0], entry) for entry in known if not same_scale(known[0][1], entry[1])),
                    (None, None),
                )
                if one is None or other is None:
                    continue
                related = tuple(
                    Related(span=at, message="concluded here")
                    for column in row
                    if (at := self._unit_places.get(column)) is not None
                )
                problems.error(
                    "FKG216",
                    span,
                    f"`{one[0].name}` and `{other[0].name}` are compared without conversion, "
                    f"but other rules read them in {_in_words(one[1])} and {_in_words(other[1])}",
                    "declare their units: `signal "
                    f"{quoted(one[0].name)} in {one[1].text or 'dimensionless'}`",
                    related,
                )
                break

    def compared_unit(self, column: int) -> Unit | None:
        """The unit that an earlier comparison gave the column."""
        return self.columns[column].unit

    def unit_place(self, column: int) -> Span | None:
        """Where a comparison gave the column its unit; None where a declaration did, or nothing
        yet.
        """
        return self._unit_places.get(column)

    def _contradiction(
        self, column: int, entry: BookColumn, unit: Unit, span: Span, problems: Problems
    ) -> None:
        first = self._unit_places.get(column)
        related = (
            (Related(span=first, message=f"taken to be in {_in_words(entry.unit)} here"),)
            if first
            else ()
        )
        problems.error(
            "FKG216",
            span,
            f"`{entry.name}` is taken to be in {_in_words(unit)} here and in"
            f" {_in_words(entry.unit)} elsewhere",
            f"declare its unit: `signal {quoted(entry.name)} in ...`",
            related,
        )


def _in_words(unit: Unit | None) -> str:
    return unit.text if unit and unit.text else "plain numbers"


def quoted(name: str) -> str:
    """A column's name as a rule file writes it."""
    return name if name.isidentifier() else f"`{name}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What `timeline` says: seconds between rows, headers of the time column and of the column that
    tells traces apart.

    Attributes:
        step: seconds between two rows; None if it is not declared.
        time: header of the time column, or None.
        trace: header of the column that tells traces apart, or None.
        end: how a window is read beyond its trace: as unknown steps (`strict`), or as no steps
            (`clip`).
        declared: whether there is a `timeline` statement.
        step_broken: the declared step is wrong; a diagnostic has been reported.
        ordered: a rule is about time, so the rows have an order even if no timeline is declared.
    """

    step: float | None = None
    time: str | None = None
    trace: str | None = None
    end: Literal["strict", "clip"] = "strict"
    declared: bool = False
    step_broken: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotColumn:
    """The contents of one slot: ids [R] of columns and of views.

    `depth`: in which table row it is read, as in `fedkg.pack.TableRows`.
    """

    columns: NDArray[np.int64]
    views: NDArray[np.int64]
    role: Role
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codes:
    """A parameter that is the code of a text, known when all texts are: column ids [R] and texts
    [R].
    """

    columns: NDArray[np.int64]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberRows:
    """Sets of members, one for each owner (a row of the table `parent`, or with -1 of the rule),
    and the columns of their M members.

    Attributes:
        offsets: int64 [P + 1], as in `fedkg.pack.MemberTable`.
        keys: for members that are read from other table rows than their owner: for each of M
            members, the headers and texts that select its table rows; else None.
    """

    parent: int
    offsets: NDArray[np.int64]
    rows: Rows
    keys: tuple[RowKeys, ...] | None = None


RowKeys = tuple[tuple[str, str], ...]
"""Headers and texts that select table rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The contents of the slots and parameters of a formula in R rows, and of its sets of members.

    Attributes:
        count: R.
        members: the sets of members of all levels, numbered as formulas number them; the rows of
            members have none themselves.
    """

    count: int
    slots: tuple[SlotColumn, ...] = ()
    params: tuple[NDArray[np.float64] | Codes, ...] = ()
    members: tuple[MemberRows, ...] = ()

    def slots_read(self) -> list[SlotColumn]:
        """All slots, those of members included."""
        return [*self.slots, *(slot for table in self.members for slot in table.rows.slots)]


class RowBuilder:
    """Collects slots, parameters and sets of members while a frontend binds one formula; `build`
    gives the rows. Slots and parameters are numbered in the order of their first use.

    Sets of members have builders too, with a `number` among the sets of the rule's own rows, which
    are their `root`.
    """

    def __init__(self, count: int, *, root: RowBuilder | None = None, number: int = -1) -> None:
        self.count = count
        self.root: RowBuilder = self if root is None else root
        self.number = number
        self.slots: list[SlotColumn] = []
        self.params: list[NDArray[np.float64] | Codes] = []
        self.members: list[MemberBuilder] = []
        self._known: dict[Hashable, Slot] = {}

    def slot(
        self,
        key: Hashable,
        columns: NDArray[np.int64],
        views: NDArray[np.int64],
        role: Role,
        depth: int = 0,
    ) -> Slot:
        """The slot for a reading; the same `key` (what is read, in which view) gives the same
        slot.
        """
        if key not in self._known:
            self._known[key] = Slot(index=len(self.slots), role=role)
            self.slots.append(SlotColumn(columns=columns, views=views, role=role, depth=depth))
        return self._known[key]

    def param(self, values: NDArray[np.float64]) -> Param:
        """A new parameter with one number for each row."""
        values = np.asarray(values, dtype=np.float64)
        self.params.append(
            values if values.shape == (self.count,) else np.broadcast_to(values, (self.count,))
        )
        return Param(index=len(self.params) - 1)

    def codes(self, columns: NDArray[np.int64], texts: tuple[str, ...]) -> int:
        """A new parameter that becomes the code of a text; its index."""
        self.params.append(Codes(columns=columns, texts=texts))
        return len(self.params) - 1

    def set_of_members(
        self,
        offsets: NDArray[np.int64],
        parent: int | None = None,
        keys: tuple[RowKeys, ...] | None = None,
    ) -> tuple[int, RowBuilder]:
        """A new table of members, which these rows own; its number, and the rows of its members."""
        tables = self.root.members
        rows = RowBuilder(int(offsets[-1]), root=self.root, number=len(tables))
        owner = self.number if parent is None else parent
        tables.append(MemberBuilder(parent=owner, offsets=offsets, rows=rows, keys=keys))
        return rows.number, rows

    def forget(self) -> None:
        """Remove the newest table of members, which contains these rows: nothing refers to it."""
        if self.root.members and self.root.members[-1].rows is self:
            self.root.members.pop()

    def build(self) -> Rows:
        """The rows as collected so far."""
        return Rows(
            count=self.count,
            slots=tuple(self.slots),
            params=tuple(self.params),
            members=tuple(
                MemberRows(
                    parent=table.parent,
                    offsets=table.offsets,
                    rows=table.rows.build(),
                    keys=table.keys,
                )
                for table in self.members
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberBuilder:
    """A set of members that is being collected; see `MemberRows`."""

    parent: int
    offsets: NDArray[np.int64]
    rows: RowBuilder
    keys: tuple[RowKeys, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundRows:
    """Rows of one rule that share a formula.

    Attributes:
        rule: what the pack will say of it; `output` is found out when all rows are bound.
        keys: for each of R rows, the headers and texts that select its table rows.
        entities: [R], what each row is about, for people.
        unit: of the robustness; "" where comparisons in several units meet.
        span: where the formula is written, for diagnostics of passes; None if it is not in a text.
        conclusion: what a clause of knowledge says of the output where `formula` holds. Its terms
            are in the record of the knowledge model, so it has no bank.
    """

    rule: RuleRecord
    formula: Formula
    rows: Rows
    keys: tuple[RowKeys, ...]
    entities: tuple[str, ...]
    unit: str
    span: Span | None = None
    conclusion: Formula | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """The bound statements of a compilation, or of one frontend. Passes map a program to a program.

    Attributes:
        rows: the constraints, in the order of their rules.
        conditions: formulas other than constraints; the n-th becomes the pack's n-th condition
            bank, row for row.
        inferences: the templates with parameters to be found in data, each with the position of its
            condition.
        knowledge: range and prediction models, each with the positions of its conditions.
        arrays: the weights of earlier models, by name.
        sets: the sets that keep parameters and predictions.
        causes: the statements about which client may drive which.
        placements: where each part of a shape or query went.
        examples: the examples of rules, in source order.
        sources: files that went into the pack.
        places: the locations of rules that are not in a rule file, by name.
        columns: the columns, views and texts that the rows refer to by number.
        timing: the timeline of the table rows.
        diagnostics: what the passes report.
    """

    rows: tuple[BoundRows, ...] = ()
    conditions: tuple[BoundRows, ...] = ()
    inferences: tuple[Inference, ...] = ()
    knowledge: tuple[KnowledgeModel, ...] = ()
    arrays: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    sets: tuple[KeptSet, ...] = ()
    causes: tuple[CauseRecord, ...] = ()
    placements: tuple[Placement, ...] = ()
    examples: tuple[RuleExample, ...] = ()
    sources: tuple[Source, ...] = ()
    places: Mapping[str, Span] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    timing: Timing = field(default_factory=Timing)
    diagnostics: tuple[Diagnostic, ...] = ()

    def joined_with(self, other: Program) -> Program:
        """This program followed by the statements of another one, with the columns and the
        timeline of this one.
        """
        joined: dict[str, Any] = {
            item.name: own + getattr(other, item.name)
            for item in fields(self)
            if isinstance(own := getattr(self, item.name), tuple)
        }
        return replace(
            self,
            **joined,
            arrays={**self.arrays, **other.arrays},
            places={**self.places, **other.places},
        )

    def after(self, passes: Iterable[Callable[[Program], Program]]) -> Program:
        """The program after these passes, which run in their order."""
        program = self
        for run in passes:
            program = run(program)
        return program


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRows:
    """A part that is checked on data.

    Attributes:
        part: the constraint component of the shape, or the query.
        rows: its constraints, at least one.
        graph_violates: whether the graph alone violates it too.
        reason: why it is placed so; "" for none.

    Raises:
        ValueError: there are no rows.
    """

    part: str
    rows: tuple[BoundRows, ...] = field(compare=False, repr=False)
    graph_violates: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"{self.part} has no rows; expected rows, a verdict or a refusal")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphVerdict:
    """A part that the graph decides when it is compiled.

    Attributes:
        part: the constraint component of the shape, or the query.
        conforms: whether the graph conforms to it.
        reason: why it is decided so; "" for none.
        is_on: whether the part applies at all. A deactivated part, and one that no target leads to,
            is off: every graph conforms to it.

    Raises:
        ValueError: a part that is off is violated, or has no reason.
    """

    part: str
    conforms: bool
    reason: str = ""
    is_on: bool = True

    def __post_init__(self) -> None:
        if not self.is_on and not (self.conforms and self.reason):
            raise ValueError(f"{self.part} is off: expected a reason, and that the graph conforms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A part that fedkg does not check; a diagnostic reports it.

    Attributes:
        part: the constraint component of the shape, or the query.
        span: the place of the construct that fedkg does not support.
        reason: why it is not checked.

    Raises:
        ValueError: there is no reason.
    """

    part: str
    span: Span
    reason: str

    def __post_init__(self) -> None:
        if not self.reason:
            raise ValueError(f"{self.part} is refused without a reason")


PartOutcome = BankRows | GraphVerdict | Refusal
"""What becomes of a part of a shape or query. There is no fourth outcome, and none is empty: rows
have a rule and are at least one, a verdict says whether the graph conforms, and a refusal has a
place and a reason.
"""

NO_CONSTRAINTS = "it has no constraints"
"""The reason of a shape without components; a compilation of such shapes alone is an error."""


def placement_of(outcome: PartOutcome, source: str) -> Placement:
    """Return the record of an outcome in the pack.

    Args:
        outcome: the outcome of one part.
        source: the name of its file without folders.
    """
    match outcome:
        case BankRows():
            return Placement(
                source=source,
                part=outcome.part,
                where="rows",
                rule=outcome.rows[0].rule.name,
                reason=outcome.reason,
                conforms=False if outcome.graph_violates else None,
            )
        case GraphVerdict():
            return Placement(
                source=source,
                part=outcome.part,
                where="graph" if outcome.is_on else "off",
                reason=outcome.reason,
                conforms=outcome.conforms if outcome.is_on else None,
            )
        case Refusal():
            return Placement(
                source=source, part=outcome.part, where="refused", reason=outcome.reason
            )
        case _:
            assert_never(outcome)
