"""From a table to the value matrix that formulas are evaluated on; then bound rows with keys that
match no table row, and table rows that no key selects. Both point to missing rows of the table or
to typing mistakes.

Letters: V views, B table rows, C columns of the contract, R rows of a bank, k key columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import nearest_header
from fedkg._internal.safe_text import list_first
from fedkg.constraints.meaning.interpreter import Timing
from fedkg.errors import TableError
from fedkg.evaluation.category_codes import codes, foreign_classes, list_some, one_hot, truths
from fedkg.evaluation.table_time_steps import steps_before, table_timing
from fedkg.pack import Column, DataContract, Pack, View
from fedkg.tables import Table, is_unknown

Needs = Mapping[int, tuple[str, ...]]
"""Which rules read a column: rule names by position in the contract."""

_NUMBERED = re.compile(r"column \d+")
"""The header of a column in a table without headers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readings:
    """A table as the contract's columns and views see it.

    Attributes:
        contract: the contract that defines these columns and views.
        base: float64 [B, C]: numbers in the table's unit, categories as codes (-2: a text that the
            vocabulary lacks), Booleans as 0 and 1, scores as 1 for the class in the cell and 0 for
            the others; NaN where unknown.
        before: for each view int64 [B], the row before each row in its group (-1: none), or None
            for views that do not look back.
        times: the texts of the time column, or None.
        missing: positions of the contract's columns that the table lacks (or that nobody needs);
            NaN throughout.
        notes: sentences about columns that a person should know.
    """

    contract: DataContract
    base: NDArray[np.float64]
    before: tuple[NDArray[np.int64] | None, ...]
    times: list[str] | None
    missing: frozenset[int]
    notes: tuple[str, ...]

    @property
    def values(self) -> NDArray[np.float64]:
        """All rows in all views: float64 [V, B, C]."""
        return self.part(np.arange(self.base.shape[0]))

    def part(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Some rows in all views: float64 [V, len(rows), C].

        In a raised view outputs are unknown: only a model can say what it would predict.
        """
        out = np.empty(
            (len(self.contract.views), rows.shape[0], self.base.shape[1]), dtype=np.float64
        )
        outputs = [i for i, column in enumerate(self.contract.columns) if column.role == "output"]
        for v, (view, before) in enumerate(zip(self.contract.views, self.before, strict=True)):
            if before is not None:
                source = before[rows]
                out[v] = self.base[source]
                out[v, source < 0] = np.nan
                continue
            out[v] = self.base[rows]
            if view.kind == "raised":
                out[v][:, outputs] = np.nan
                if view.column is not None:
                    out[v, :, view.column] += view.delta
        return out


def table_values(
    contract: DataContract,
    table: Table,
    *,
    needs: Needs | None = None,
    missing: Literal["error", "skip"] = "error",
    timing: Timing | None = None,
) -> Readings:
    """The table's rows as the contract's columns and views see them.

    Args:
        contract: what the rules read.
        table: the rows.
        needs: the columns that are read, with the rules that do; all of them when None.
        missing: what to do about an input column that the table lacks. A missing output is never an
            error: then only the checks of data are possible.
        timing: the position of each row in time; None: as `table_timing` reads it.

    Raises:
        TableError: when an input column is missing (names file, header, rules and the nearest
            header), holds text instead of numbers, or occurs twice with different contents.
    """
    wanted = dict.fromkeys(range(len(contract.columns)), ()) if needs is None else dict(needs)
    absent = {i for i in wanted if contract.columns[i].source not in table}
    lacking = [i for i in sorted(absent) if contract.columns[i].role == "input"]
    groups = _groups(contract)
    if missing == "error":
        _refuse_missing(
            contract, table, lacking, wanted, [group for group in groups if group not in table]
        )
    base = np.full(
        (table.rows, len(contract.columns)), np.nan, order="F"
    )  # columns are read one by one
    notes: list[str] = []
    read: dict[tuple[str, str], NDArray[np.float64]] = {}
    for i in sorted(set(wanted) - absent):
        column = contract.columns[i]
        _refuse_twofold(table, column.source)
        key = (column.source, column.type)
        if column.type in ("real", "boolean") and key in read:
            base[:, i] = read[key]
            continue
        base[:, i], said = _column(contract, column, table, wanted[i])
        read[key] = base[:, i]
        notes += said
    times, said = _times(contract, table)
    if timing is None and (
        any(view.steps for view in contract.views)
        and contract.time is not None
        and contract.time in table
    ):
        timing, timing_notes = table_timing(contract, table, missing)
        said += timing_notes
    return Readings(
        contract=contract,
        base=base,
        before=tuple(_before(view, contract, table, timing, base) for view in contract.views),
        times=times,
        missing=frozenset(absent | (set(range(len(contract.columns))) - set(wanted))),
        notes=tuple(dict.fromkeys(notes + said)),
    )


def rules_text(rules: Sequence[str]) -> str:
    """``rule `a` needs`` or ``rules `a`, `b` and 3 more need``."""
    return f"rule `{rules[0]}` needs" if len(rules) == 1 else f"rules {list_some(rules)} need"


def _refuse_missing(
    contract: DataContract,
    table: Table,
    lacking: Sequence[int],
    needs: Needs,
    groups: Sequence[str],
) -> None:
    rules: dict[str, dict[str, None]] = {group: {} for group in groups}
    for i in lacking:
        rules.setdefault(contract.columns[i].source, {}).update(dict.fromkeys(needs[i]))
    if not rules:
        return
    if len(rules) == 1:
        [(header, names)] = rules.items()
        others = next((c.alternatives for c in contract.columns if c.source == header), ())
        raise table.missing(
            header,
            needed=rules_text(list(names)) if names else "the rules need",
            alternatives=others,
        )
    close = {header: nearest_header(header, table.headers) for header in rules}
    parts = [
        f"`{header}`" + (f" (did you mean `{close[header]}`?)" if close[header] else "")
        for header in rules
    ]
    everyone = list(dict.fromkeys(name for names in rules.values() for name in names))
    raise TableError(
        f"{table.name}: {len(rules)} columns are missing"
        + (f", which {rules_text(everyone)}" if everyone else ""),
        expected=list_first(parts, 10),
        received="columns " + list_some(table.headers, 12),
        help="fedkg found no headers; write a first row with one header for each column"
        if all(_NUMBERED.fullmatch(header) for header in table.headers)
        else "",
    )


def _refuse_twofold(table: Table, header: str) -> None:
    """A header that occurs twice is unambiguous if both columns have the same contents."""
    if header not in table.found.duplicates:
        return
    first, second = (
        table.texts(header),
        table.texts(f"{header} (2)") if f"{header} (2)" in table else None,
    )
    if second is not None and first != second:
        raise TableError(
            f"{table.name}: column `{header}` occurs more than once, with different contents",
            help="give each column a unique header",
        )


def _column(
    contract: DataContract, column: Column, table: Table, rules: Sequence[str]
) -> tuple[NDArray[np.float64], list[str]]:
    """One column's values and the notes about them."""
    header = column.source
    if column.type == "category":
        return codes(table.texts(header), column.vocabulary, header)
    if column.type == "score":
        classes = tuple(
            other.category
            for other in contract.columns
            if other.type == "score" and other.label == column.label
        )
        return one_hot(table.texts(header), column.category, classes), foreign_classes(
            table, header, classes
        )
    try:
        values = table.truths(header) if column.type == "boolean" else table.numbers(header)
    except TableError as error:
        needed = f", which {rules_text(rules)}" if rules else ""
        raise TableError(
            error.message + needed,
            expected=error.expected,
            received=error.received,
            help=error.help,
        ) from error
    if column.type == "boolean":
        values, said = truths(values, header)
        if said:
            return values, said
    known = values[~np.isnan(values)]
    if not known.size:
        return values, ([f"column `{header}` has no known value in any row"] if table.rows else [])
    if column.span is not None:
        low, high = column.span
        outside = float(np.mean((known < low) | (known > high)))
        if outside > 0.5:
            unit = f" {column.unit}" if column.unit else ""
            return values, [
                (
                    f"{outside:.0%} of column `{header}` lies outside its span {low:g} .. "
                    f"{high:g}{unit}: is the unit right?"
                )
            ]
    return values, []


def _groups(contract: DataContract) -> list[str]:
    """Headers that tell groups apart in views that look back."""
    looks_back = [view for view in contract.views if view.kind == "previous"]
    headers = [group for view in looks_back for group in view.groups] + (
        [contract.trace] if looks_back and contract.trace else []
    )
    return list(dict.fromkeys(headers))


def _before(
    view: View,
    contract: DataContract,
    table: Table,
    timing: Timing | None,
    base: NDArray[np.float64],
) -> NDArray[np.int64] | None:
    """For each row the row before it in its group, and in its trace; -1 for the first ones and
    where the group is unknown.

    Views that count steps follow `timing`, where the table has times.
    """
    if view.kind != "previous":
        return None
    rows = np.arange(table.rows, dtype=np.int64)
    headers = list(
        dict.fromkeys(
            header for header in (*view.groups, contract.trace) if header and header in table
        )
    )
    if any(group not in table for group in view.groups):
        return np.full(table.rows, -1, dtype=np.int64)
    on_timeline = timing if view.steps else None
    if not headers and on_timeline is None:
        return rows - 1
    group = np.zeros(table.rows, dtype=np.int64)
    known = np.ones(table.rows, dtype=np.bool_)
    for header in headers:
        texts = table.texts(header)
        numbers = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        group = group * (len(numbers) + 1) + np.array(
            [numbers[text] for text in texts], dtype=np.int64
        )
        known &= np.array([not is_unknown(text) for text in texts], dtype=np.bool_)
    if on_timeline is not None:
        return steps_before(on_timeline, np.where(known, group, -1), base)
    order = np.argsort(group, kind="stable")
    before = np.full(table.rows, -1, dtype=np.int64)
    same = group[order[1:]] == group[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    before[~known] = -1
    return before


def _times(contract: DataContract, table: Table) -> tuple[list[str] | None, list[str]]:
    if contract.time is None:
        return None, []
    if contract.time not in table:
        close = nearest_header(contract.time, table.headers)
        return None, [
            f"time column `{contract.time}` is missing"
            + (f"; did you mean `{close}`?" if close else "")
        ]
    texts = table.texts(contract.time)
    if contract.trace is None and any(
        view.kind == "previous" and not view.groups and not view.steps for view in contract.views
    ):
        try:
            read, said = table.times(contract.time)
        except TableError:
            # an ambiguous date is not fatal: the times only tell whether rows follow each other
            return texts, []
        moments = [moment for moment in read if moment is not None]
        back = sum(1 for earlier, later in pairwise(moments) if later < earlier)
        if back:
            stepped = (
                f"the times in `{contract.time}` step back {back} "
                f"time{'s' * (back > 1)}: `previous` means the row before"
            )
            return texts, [*([said] if said else []), stepped]
    return texts, []


TOLD = 3
"""Unmatched keys are reported one by one up to this number; of more, this number of names follows.
"""

MEANT = 20
"""Limits on keys and on texts of the table for the search of similar spellings."""


@dataclass(frozen=True, slots=True)
class Key:
    """What selects table rows for a bound row: positions of columns in the contract, and the code
    each must have.
    """

    columns: tuple[int, ...]
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one rule, or of all: by key the entities that it selects for, and whether any
    table row has it.
    """

    entities: dict[Key, tuple[str, ...]]
    found: dict[Key, bool]

    def without(self) -> list[Key]:
        """The keys that no table row has."""
        return [key for key in self.entities if not self.found[key]]


def keys_by_rule(pack: Pack, readings: Readings) -> dict[int, Keys]:
    """The keys of each rule's bound rows, without those that read a column which the table
    lacks.
    """
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    found: dict[Key, bool] = {}
    named: dict[int, dict[Key, dict[str, None]]] = {}
    for bank in pack.banks:
        rows = np.column_stack([bank.rule, bank.entity, bank.keys, bank.codes])
        width = bank.keys.shape[1]
        for rule, entity, *pairs in np.unique(rows, axis=0).tolist():
            both = [
                (column, code)
                for column, code in zip(pairs[:width], pairs[width:], strict=True)
                if column >= 0
            ]
            key = Key(tuple(column for column, _ in both), tuple(code for _, code in both))
            if not both or readings.missing.intersection(key.columns):
                continue
            if key.columns not in seen:
                seen[key.columns] = _present(readings, key.columns)
            found[key] = key.codes in seen[key.columns]
            named.setdefault(rule, {}).setdefault(key, {})[pack.manifest.entities[entity]] = None
    return {
        rule: Keys({key: tuple(names) for key, names in keys.items()}, found)
        for rule, keys in named.items()
    }


def _present(readings: Readings, columns: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The codes that table rows have in these columns together."""
    codes = readings.base[:, list(columns)]
    known = codes[~np.isnan(codes).any(axis=1)].astype(np.int64)
    return set(map(tuple, np.unique(known, axis=0).tolist()))


def all_keys(parts: Iterable[Keys]) -> Keys:
    """The keys of several rules together."""
    entities: dict[Key, dict[str, None]] = {}
    found: dict[Key, bool] = {}
    for part in parts:
        found |= part.found
        for key, names in part.entities.items():
            entities.setdefault(key, {}).update(dict.fromkeys(names))
    return Keys({key: tuple(names) for key, names in entities.items()}, found)


class Meant:
    """The text in a table that a key of one column probably means: one that no rule knows, since a
    known one is another entity.
    """

    def __init__(self, readings: Readings, table: Table) -> None:
        self._readings, self._table = readings, table
        self._foreign: dict[int, list[str]] = {}
        self._known: dict[Key, str | None] = {}

    def __call__(self, key: Key) -> str | None:
        """The text, or None."""
        if len(key.columns) != 1:
            return None
        if key not in self._known:
            self._known[key] = nearest_header(
                text_of(key, self._readings), self._texts(key.columns[0])
            )
        return self._known[key]

    def _texts(self, column: int) -> list[str]:
        if column not in self._foreign:
            entry = self._readings.contract.columns[column]
            texts = dict.fromkeys(self._table.texts(entry.source))
            self._foreign[column] = [
                text for text in texts if text not in entry.vocabulary and not is_unknown(text)
            ][:MEANT]
        return self._foreign[column]


def keys_notes(keys: Keys, readings: Readings, meant: Meant) -> tuple[str, ...]:
    """Notes about keys without a table row: each with similar texts, or a count and the first
    names.
    """
    lost = keys.without()
    if not readings.base.shape[0] or not lost:
        return ()
    if len(lost) <= TOLD:
        return tuple(_sentence(key, keys.entities[key], readings, meant) for key in lost)
    names = list(
        dict.fromkeys(name for key in lost for name in _names(key, keys.entities[key], readings))
    )
    text = (
        f"no row is about {list_first(names, TOLD)}: {len(lost)} of the "
        f"{len(keys.entities)} keys that the rules have"
    )
    near = next(((key, other) for key in lost[:MEANT] if (other := meant(key))), None)
    return (
        text
        if near is None
        else f"{text}; did you mean `{near[1]}` by `{text_of(near[0], readings)}`?",
    )


def strangers_notes(keys: Keys, readings: Readings, table: Table) -> tuple[str, ...]:
    """Notes about table rows that no key selects: their number for each set of key columns, and
    some names.

    Another note covers a column without any known text.
    """
    known: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for key in keys.entities:
        known.setdefault(key.columns, set()).add(key.codes)
    notes = []
    for columns, wanted in known.items():
        codes, row_of = np.unique(
            readings.base[:, list(columns)], axis=0, return_inverse=True, equal_nan=False
        )
        met = np.array([tuple(code) in wanted for code in codes.tolist()], dtype=np.bool_)[
            row_of.ravel()
        ]
        if met.any() and not met.all():
            notes.append(
                _strangers(
                    [readings.contract.columns[column].source for column in columns], ~met, table
                )
            )
    return tuple(notes)


def _strangers(headers: Sequence[str], strange: NDArray[np.bool_], table: Table) -> str:
    """``40 of 120 rows have a `Maschine` that no rule is bound to (K8, K9 and 3 more): rules for
    each `Maschine` do not check them``.
    """
    cells = zip(*(table.texts(header) for header in headers), strict=True)
    texts = [row for row, is_strange in zip(cells, strange.tolist(), strict=True) if is_strange]
    empty = sum(any(is_unknown(text) for text in row) for row in texts)
    names = list(dict.fromkeys(" ".join(row) for row in texts if not any(map(is_unknown, row))))
    what = " and ".join(f"`{header}`" for header in headers)
    about = (
        [
            (
                f"{_count_text(len(texts) - empty, table)} a {what} that no rule is bound to "
                f"({list_first(names, TOLD)})"
            )
        ]
        if names
        else []
    )
    lacking = [f"{_count_text(empty, table)} no value in {what}"] if empty else []
    return f"{'; '.join([*about, *lacking])}: rules for each {what} do not check them"


def _count_text(rows: int, table: Table) -> str:
    """``3 of 120 rows have``."""
    return f"{rows:,} of {table.rows:,} rows {'has' if rows == 1 else 'have'}"


def _sentence(key: Key, entities: Sequence[str], readings: Readings, meant: Meant) -> str:
    """``K1: no row has Maschine = Kessel1; did you mean `Kessel 1`?``"""
    named = [name for name in entities if name]
    who = list_first(named, TOLD)
    columns = readings.contract.columns
    pairs = zip(key.columns, key.codes, strict=True)
    wanted = " and ".join(
        f"{columns[column].source} = {columns[column].vocabulary[code]}" for column, code in pairs
    )
    near = meant(key)
    return (
        (f"{who}: " if who else "")
        + f"no row has {wanted}"
        + (f"; did you mean `{near}`?" if near else "")
    )


def _names(key: Key, entities: Sequence[str], readings: Readings) -> list[str]:
    return [name for name in entities if name] or [text_of(key, readings)]


def text_of(key: Key, readings: Readings) -> str:
    """The texts that a key asks for: ``Kessel1``, or several with blanks between."""
    columns = readings.contract.columns
    return " ".join(
        columns[column].vocabulary[code]
        for column, code in zip(key.columns, key.codes, strict=True)
    )
