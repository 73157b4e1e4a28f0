"""How the rules of two packs differ in what they accept, with a value that one accepts and the
other does not; also where changes of the data contract (time steps, column contents) change rules
with equal text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import (
    Bank,
    CategoryIs,
    Column,
    DataContract,
    MemberTable,
    Pack,
    RuleRecord,
    TableRows,
    View,
    skeleton_hash,
)
from fedkg.pack.formulas import ROWS, everywhere, indices
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.requirement_text import clause
from fedkg_compiler.analysis.single_column_bounds import RowTable, find_bounds
from fedkg_compiler.analysis.verdict import RowRef, Witness
from fedkg_compiler.analysis.window_subsumption import example, wider, window_params, windows
from fedkg_compiler.analysis.z3_formulas import any_of
from fedkg_compiler.analysis.z3_solver import Solver


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The banks of both packs over one contract.

    `pack` has the rules of the first, then those of the second, and all the entities.

    Attributes:
        rules: how many rules are the first pack's.
    """

    pack: Pack
    rules: int


def join(old: Pack, new: Pack) -> Joint:
    """Both packs over the columns and views of both.

    Columns are the same where header, type, role and unit are.
    """
    packs = (old, new)
    columns: dict[tuple[object, ...], Column] = {}
    for column in (column for pack in packs for column in pack.manifest.contract.columns):
        key = _key(column)
        known = columns.get(key)
        words = tuple(sorted({*column.vocabulary, *(known.vocabulary if known else ())}))
        columns[key] = (known or column).model_copy(update={"vocabulary": words})
    position = {key: i for i, key in enumerate(columns)}
    views: dict[View, int] = {View(): 0}
    entities: dict[str, int] = {"": 0}
    units: dict[str, int] = {"": 0}
    banks: list[Bank] = []
    for pack, rules in zip(packs, (0, len(old.manifest.rules)), strict=True):
        contract = pack.manifest.contract
        where = np.array([position[_key(column)] for column in contract.columns], dtype=np.int32)
        seen = np.array(
            [views.setdefault(_moved(view, where), len(views)) for view in contract.views],
            dtype=np.int32,
        )
        names = np.array(
            [entities.setdefault(name, len(entities)) for name in pack.manifest.entities],
            dtype=np.int32,
        )
        marks = np.array(
            [units.setdefault(unit, len(units)) for unit in pack.manifest.units], dtype=np.int32
        )
        codes = [
            np.array(
                [columns[_key(column)].vocabulary.index(word) for word in column.vocabulary] or [0],
                dtype=np.int32,
            )
            for column in contract.columns
        ]
        banks += [_bank(bank, rules, where, seen, names, marks, codes) for bank in pack.banks]
    manifest = old.manifest.model_copy(
        update={
            "contract": old.manifest.contract.model_copy(
                update={"columns": tuple(columns.values()), "views": tuple(views)}
            ),
            "rules": (*old.manifest.rules, *new.manifest.rules),
            "skeletons": tuple(bank.skeleton for bank in banks),
            "entities": tuple(entities),
            "units": tuple(units),
        }
    )
    return Joint(pack=Pack(manifest=manifest, banks=tuple(banks)), rules=len(old.manifest.rules))


def _key(column: Column) -> tuple[object, ...]:
    return column.source, column.type, column.role, column.unit, column.label, column.category


def _moved(view: View, where: NDArray[np.int32]) -> View:
    return (
        view if view.column is None else view.model_copy(update={"column": int(where[view.column])})
    )


def _bank(
    bank: Bank,
    rules: int,
    where: NDArray[np.int32],
    views: NDArray[np.int32],
    names: NDArray[np.int32],
    units: NDArray[np.int32],
    codes: Sequence[NDArray[np.int32]],
) -> Bank:
    keys, selected = _keys(bank, where, codes)
    params = {
        ROWS: bank.params.copy(),
        **{i: table.params.copy() for i, table in enumerate(bank.members)},
    }
    for table, part in everywhere(bank.skeleton):
        if isinstance(part, CategoryIs):
            slots = bank.slots if table == ROWS else bank.members[table].slots
            old = params[table][:, part.param].astype(np.int64)
            params[table][:, part.param] = [
                codes[column][code]
                for column, code in zip(slots[:, part.slot].tolist(), old.tolist(), strict=True)
            ]
    members: tuple[MemberTable, ...] = tuple(
        replace(
            table,
            slots=where[table.slots],
            views=views[table.views],
            params=params[i],
            table_rows=_table_rows(table.table_rows, where, codes),
        )
        for i, table in enumerate(bank.members)
    )
    return replace(
        bank,
        slots=where[bank.slots],
        views=views[bank.views],
        keys=keys,
        codes=selected,
        params=params[ROWS],
        rule=(bank.rule + rules).astype(np.int32),
        entity=names[bank.entity],
        unit=units[bank.unit],
        members=members,
    )


def _keys(
    of: Bank | TableRows, where: NDArray[np.int32], codes: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The key columns and codes of rows or members in the joint contract."""
    keyed, selected = of.keys >= 0, of.codes.copy()
    for row, place in np.argwhere(keyed).tolist():
        selected[row, place] = codes[int(of.keys[row, place])][int(of.codes[row, place])]
    return np.where(keyed, where[of.keys], -1).astype(np.int32), selected


def _table_rows(
    of: TableRows | None, where: NDArray[np.int32], codes: Sequence[NDArray[np.int32]]
) -> TableRows | None:
    if of is None:
        return None
    keys, selected = _keys(of, where, codes)
    return replace(of, keys=keys, codes=selected)


class Changes:
    """The differences of two contracts that matter, and the rules that they matter to."""

    def __init__(self, old: DataContract, new: DataContract) -> None:
        self.end = f"timeline ends {old.end} -> {new.end}" if old.end != new.end else ""
        self.step = (
            f"timeline step {_seconds(old.step)} -> {_seconds(new.step)}"
            if old.step != new.step
            else ""
        )
        pairs = (("trace column", old.trace, new.trace), ("time column", old.time, new.time))
        self.order = tuple(
            f"{what} {_named(before)} -> {_named(after)}"
            for what, before, after in pairs
            if before != after
        )
        before, after = (
            {_column_key(column): column for column in contract.columns} for contract in (old, new)
        )
        self.columns = {
            key: _column(before[key], after[key])
            for key in before
            if key in after and _column(before[key], after[key])
        }

    def concerning(
        self, table: RowTable, old: Iterable[int], new: Iterable[int]
    ) -> tuple[str, ...]:
        """What changed the meaning of a rule, given its rows in both packs."""
        contract = table.pack.manifest.contract
        rows = {"old": list(old), "new": list(new)}
        both = [*rows["old"], *rows["new"]]
        read = {name: self._columns(table, of) for name, of in rows.items()}
        found: dict[str, None] = {
            self.columns[key]: None
            for key in self.columns
            if key in read["old"] and key in read["new"]
        }
        parts = [
            part for row in self._models(table, both) for _, part in everywhere(table.skeleton(row))
        ]
        seen = {
            view
            for row in both
            for number in table.reads(row)
            for view, _, _ in table.variables.items[number].readings
        }
        views = [contract.views[view] for view in seen if contract.views[view].kind == "previous"]
        windowed = any(part.step_params() for part in parts)
        if self.end and any(self._reaches_on(table, row) for row in both):
            found[self.end] = None
        if self.step and (windowed or any(view.steps for view in views)):
            found[self.step] = None
        if views or any(part.over_time for part in parts):
            found.update(dict.fromkeys(self.order))
        return tuple(found)

    def _models(self, table: RowTable, rows: Iterable[int]) -> list[int]:
        """One row of each bank."""
        return list({int(table.bank[row]): row for row in rows}.values())

    def _columns(self, table: RowTable, rows: Iterable[int]) -> set[tuple[str, ...]]:
        columns = table.pack.manifest.contract.columns
        numbers = {number for row in rows for number in table.reads(row)}
        return {
            _column_key(columns[column])
            for number in numbers
            for _, column, _ in table.variables.items[number].readings
        }

    def _reaches_on(self, table: RowTable, row: int) -> bool:
        """Whether a row has a window with an end, beyond the step itself: one that the end of a
        trace can cut.
        """
        bank = int(table.bank[row])
        return any(
            (table.readers[bank][window.table].params[:, window.part.high] > 0).any()
            for window in windows(table.skeleton(row))
        )


def _column_key(column: Column) -> tuple[str, ...]:
    return column.source, column.role, column.label, column.category


def _column(old: Column, new: Column) -> str:
    """What changed of a column: "" where nothing did."""
    if old.type != new.type:
        return f"column `{new.source}` {old.type} -> {new.type}"
    return (
        f"column `{new.source}` in {old.unit or 'no unit'} -> {new.unit or 'no unit'}"
        if old.unit != new.unit
        else ""
    )


def _named(name: str | None) -> str:
    return f"`{name}`" if name else "none"


def _seconds(step: float | None) -> str:
    return "none" if step is None else f"{step:g} s"


Status = Literal["same", "stricter", "looser", "changed", "undecided"]
Change = Literal[
    "added", "removed", "renamed", "same", "stricter", "looser", "changed", "undecided"
]
SETTINGS = ("kind", "weight", "hard", "output", "scope")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDifference:
    """What became of one rule.

    Attributes:
        name: the name of the rule in the new pack; in the old pack if the rule was removed.
        change: how the meaning of the rule changed.
        was: the old name of a renamed rule, else "".
        entities: the number of entities of the rule whose meaning changed.
        of: the number of entities of the rule.
        entity: the name of an entity whose meaning changed, or "".
        before: the old requirement, as text: that for `entity`, or for the first entity if `entity`
            is ""; "" if there is nothing to show.
        after: the new requirement, likewise.
        witness: values that only one of the two packs accepts, as text.
        accepted_by: the pack that accepts `witness`, or "".
        values: the same values as numbers; None if there is no witness.
        settings: the changed settings, such as ``weight 1 -> 2``.
        text: whether the text of the rule changed.
        because: the changes other than limits that changed the meaning:
            ``timeline ends strict -> clip``, ``window 0 .. 20 -> 0 .. 30 steps``.
    """

    name: str
    change: Change
    was: str = ""
    entities: int = 0
    of: int = 0
    entity: str = ""
    before: str = ""
    after: str = ""
    witness: str = ""
    accepted_by: Literal["old", "new", ""] = ""
    values: Witness | None = None
    settings: tuple[str, ...] = ()
    text: bool = False
    because: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing changed but words."""
        return self.change == "same" and not self.settings

    def lines(self) -> list[str]:
        """The rule in words, as `fedkg diff` prints it; nothing if nothing changed."""
        reasons = [*self.because, *self.settings]
        about = f" ({', '.join(reasons)})" if reasons else ""
        match self.change:
            case "same":
                if self.settings:
                    return [f"{self.name}: means the same{about}"]
                return [f"{self.name}: means the same, in other words"] if self.text else []
            case "added" | "removed":
                return [f"{self.name}: {self.change}: {self.after or self.before}"]
            case "renamed":
                return [f"{self.name}: renamed, was {self.was}{about}"]
            case "undecided":
                first = f"{self.name}: undecided whether the meaning changed{about}"
                return [first, *self._versions()]
            case _:
                change = "changed its meaning" if self.change == "changed" else self.change
                where = f" for {self.entities:,} of {self.of:,} entities" if self.of > 1 else ""
                first = f"{self.name}: {change}{where}{about}"
                return [first, *self._versions(), *self._witness()]

    def _versions(self) -> list[str]:
        place = f"{self.entity}: " if self.entity else ""
        if self.before == self.after:
            return [f"  {place}{self.after}"]
        return [f"  {place}{self.before or 'nothing'} -> {self.after or 'nothing'}"]

    def _witness(self) -> list[str]:
        if not self.witness:
            return []
        said = (
            "was accepted and is now rejected"
            if self.accepted_by == "old"
            else "was rejected and is now accepted"
        )
        return [f"  {self.witness} {said}"]


@dataclass(frozen=True, slots=True)
class _Compared:
    status: Status
    witness: Witness | None = None
    accepted_by: Literal["old", "new", ""] = ""
    because: str = ""


def differences(old: Pack, new: Pack, budget: Budget | None = None) -> tuple[RuleDifference, ...]:
    """What became of every rule, in the order of the new pack, removed ones last."""
    return _Comparison(old, new, budget or Budget(total=20_000_000)).all()


class _Comparison:
    def __init__(self, old: Pack, new: Pack, budget: Budget) -> None:
        self.joint = join(old, new)
        self.pack, self.budget = self.joint.pack, budget
        self.changes = Changes(old.manifest.contract, new.manifest.contract)
        self.table = RowTable(self.pack)
        self.places: dict[int, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
        dead = find_bounds(self.table).dead
        for row in np.flatnonzero(~dead).tolist():
            key = (int(self.table.entity[row]), self.table.keysets[int(self.table.keyset[row])])
            self.places[int(self.table.rule[row])][key].append(row)
        self.known: dict[Hashable, _Compared] = {}

    def all(self) -> tuple[RuleDifference, ...]:
        rules = self.pack.manifest.rules
        old = {rules[i].name: i for i in range(self.joint.rules)}
        new = {rules[i].name: i for i in range(self.joint.rules, len(rules))}
        gone = {name: i for name, i in old.items() if name not in new}
        texts: dict[Hashable, str] = {self._text(i): name for name, i in reversed(gone.items())}
        found: list[RuleDifference] = []
        for name, i in new.items():
            if name in old:
                found.append(self._compared(name, old[name], i))
                continue
            was = texts.pop(self._text(i), "")
            if was and was in gone:
                gone.pop(was)
                change: Change = "renamed"
            else:
                was, change = "", "added"
            because = self._because(old[was], i) if was else ()
            found.append(
                RuleDifference(
                    name=name,
                    change=change,
                    was=was,
                    of=len(self.places[i]),
                    after=self._clause(i),
                    because=because,
                )
            )
        found += [
            RuleDifference(
                name=name, change="removed", of=len(self.places[i]), before=self._clause(i)
            )
            for name, i in gone.items()
        ]
        return tuple(found)

    def _clause(self, rule: int) -> str:
        first = next(iter(self.places[rule].values()), [])
        return self._format_rows(first[:1])

    def _format_rows(self, rows: Sequence[int]) -> str:
        texts = [
            clause(self.pack, self.pack.banks[ref.bank], ref.row)
            for ref in map(self.table.ref, rows)
        ]
        return "; ".join(dict.fromkeys(texts))

    def _text(self, rule: int) -> Hashable:
        """Equal for rules that ask for the same of the same entities, to the letter."""
        return frozenset((key, self._letters(rows)) for key, rows in self.places[rule].items())

    def _letters(self, rows: Sequence[int]) -> Hashable:
        return frozenset(Counter(self._letter(row) for row in rows).items())

    def _letter(self, row: int, *, timeless: bool = False) -> Hashable:
        """Equal for rows that say the same, `timeless`: but for their windows."""
        bank = int(self.table.bank[row])
        skeleton = self.pack.banks[bank].skeleton
        index = int(row - self.table.starts[bank])
        parts: list[Hashable] = []
        numbers = indices(skeleton)[1]
        left_out = window_params(skeleton) if timeless else {}
        for number, readers in self.table.readers[bank].items():
            where = (
                slice(index, index + 1) if number < 0 else self.table.members(bank, number, index)
            )
            used, params = (
                list(readers.used),
                sorted(numbers.get(number, frozenset()) - left_out.get(number, set())),
            )
            parts.append(
                (
                    readers.variables[where][:, used].tobytes(),
                    readers.shifts[where][:, used].tobytes(),
                )
            )
            rows = self.pack.banks[bank].members[number].table_rows if number >= 0 else None
            if rows is not None:
                parts.append((rows.depths.tobytes(), rows.own))
                parts += [part[where].tobytes() for part in (rows.keys, rows.codes)]
            sizes = self.table.member_sizes(bank, number, index) if number >= 0 else ()
            parts.append((readers.params[where][:, params].tobytes(), sizes))
        return skeleton_hash(skeleton), tuple(parts)

    def _compared(self, name: str, old: int, new: int) -> RuleDifference:
        rules = self.pack.manifest.rules
        places = {**self.places[old], **self.places[new]}
        settings = _settings(rules[old], rules[new])
        text = rules[old].text != rules[new].text
        if because := self._because(old, new):
            return RuleDifference(
                name=name,
                change="changed",
                entities=len(places),
                of=len(places),
                before=self._clause(old),
                after=self._clause(new),
                settings=settings,
                text=text,
                because=because,
            )
        counted: Counter[Status] = Counter()
        shown: tuple[Hashable, _Compared] | None = None
        for key in places:
            before, after = self.places[old].get(key, []), self.places[new].get(key, [])
            compared = self._at(before, after)
            counted[compared.status] += 1
            if compared.status != "same" and (
                shown is None or (shown[1].witness is None and compared.witness is not None)
            ):
                shown = (key, compared)
        if shown is None:
            return RuleDifference(
                name=name, change="same", of=len(places), settings=settings, text=text
            )
        key, compared = shown
        before, after = self.places[old].get(key, []), self.places[new].get(key, [])
        return RuleDifference(
            name=name,
            change=_combined_change(counted),
            entities=len(places) - counted["same"],
            of=len(places),
            entity=self.table.entity_name((before or after)[0]),
            before=self._format_rows(before),
            after=self._format_rows(after),
            witness=self._values(compared.witness, [*before, *after]),
            accepted_by=compared.accepted_by,
            values=compared.witness,
            settings=settings,
            text=text,
            because=(compared.because,) if compared.because else (),
        )

    def _because(self, old: int, new: int) -> tuple[str, ...]:
        """What of the contract changed the meaning of a rule that is in both packs."""
        before, after = (
            [row for rows in self.places[rule].values() for row in rows] for rule in (old, new)
        )
        return self.changes.concerning(self.table, before, after)

    def _at(self, before: Sequence[int], after: Sequence[int]) -> _Compared:
        """How what is asked for at one place changed."""
        if self._letters(before) == self._letters(after):
            return _Compared("same")
        rows = [*before, *after]
        if any(self.pack.banks[int(self.table.bank[row])].reads_other_rows for row in rows):
            return _Compared("undecided")
        keys = self.table.keysets[int(self.table.keyset[rows[0]])]
        answers: dict[str, tuple[str, Witness | None]] = {}
        for accepted_by, kept, broken in (("old", before, after), ("new", after, before)):
            answers[accepted_by] = self._accepts(rows, kept, broken, keys)
        old, new = answers["old"], answers["new"]
        if "unknown" in (old[0], new[0]):
            return self._by_windows(before, after) or _Compared("undecided")
        if old[0] == "yes":
            return _Compared("changed" if new[0] == "yes" else "stricter", old[1], "old")
        return _Compared("looser", new[1], "new") if new[0] == "yes" else _Compared("same")

    def _by_windows(self, before: Sequence[int], after: Sequence[int]) -> _Compared | None:
        """How rows that differ in their windows alone changed; None where that does not tell."""
        old, new = (
            {self._letter(row, timeless=True): row for row in rows} for rows in (before, after)
        )
        if old.keys() != new.keys() or len(old) < len(before) or len(new) < len(after):
            return None
        pairs = [
            (row, new[letter], wider(self.table, row, new[letter])) for letter, row in old.items()
        ]
        ways = {found.way if found else None for _, _, found in pairs} - {0}
        if len(ways) != 1 or None in ways:
            return None
        one, other, found = next(pair for pair in pairs if pair[2] and pair[2].way)
        assert found is not None
        lenient: Literal["old", "new"] = "new" if found.way > 0 else "old"
        shown = example(self.table, one, other, found, self.budget) if len(pairs) == 1 else None
        return _Compared(
            "looser" if found.way > 0 else "stricter", shown, lenient if shown else "", found.text
        )

    def _accepts(
        self,
        rows: Sequence[int],
        kept: Sequence[int],
        broken: Sequence[int],
        keys: tuple[tuple[int, int], ...],
    ) -> tuple[str, Witness | None]:
        """Whether something keeps these rows and breaks one of those.

        Inside the spans if possible.
        """
        if not broken:
            return "no", None
        for spans in (True, False):
            solver = Solver(self.table, rows, self.budget, keys=keys, spans=spans, whole=True)
            fails = [solver.violated(row) for row in broken]
            answer = "unknown" if None in fails else solver.ask(kept, any_of(fails))
            if answer == "yes":
                return (
                    ("unknown", None)
                    if solver.weakened
                    else ("yes", solver.witness() if solver.replayable else None)
                )
            if answer == "unknown":
                return answer, None
        return "no", None

    def _values(self, witness: Witness | None, rows: Sequence[int]) -> str:
        if witness is None:
            return ""
        read = [variable for row in rows for variable in sorted(self.table.reads(row))]
        return values_text(self.table, witness, list(dict.fromkeys(read)))


def values_text(table: RowTable, witness: Witness, variables: Sequence[int]) -> str:
    """The values of some variables in a witness: ``torque = 57.5 N.m, grade = A``.

    Of several steps each with its step.
    """
    by_place = {
        (reading.step, reading.view, reading.column): reading.value for reading in witness.readings
    }
    steps = sorted({step for step, _, _ in by_place})
    texts: list[tuple[list[str], int, int]] = []
    for step in steps:
        said = [
            text for number in variables if (text := _value_text(table, by_place, step, number))
        ]
        if said and texts and texts[-1][0] == said and texts[-1][2] == step - 1:
            texts[-1] = (said, texts[-1][1], step)
        elif said:
            texts.append((said, step, step))
    return ", ".join(
        f"{text}{_when(first, last, len(steps))}" for said, first, last in texts for text in said
    )


def _value_text(
    table: RowTable, by_place: Mapping[tuple[int, int, int], float], step: int, number: int
) -> str:
    entry = table.variables.items[number]
    view, column, shift = entry.readings[0]
    if (step, view, column) not in by_place:
        return ""
    value = by_place[step, view, column] - shift
    words = table.pack.manifest.contract.columns[column].vocabulary
    if table.pack.manifest.contract.columns[column].type == "boolean":
        return f"{entry.name} = {'true' if value >= 0.5 else 'false'}"
    said = (
        (words[int(value)] if 0 <= value < len(words) else "another")
        if entry.type == "category"
        else f"{value:.12g}"
    )
    unit = f" {entry.unit}" if entry.unit and entry.unit != "probability" else ""
    return f"{entry.name} = {said}{unit}"


def _when(first: int, last: int, steps: int) -> str:
    if first != last:
        return f" at steps {first} .. {last}"
    return f" at step {first:+d}" if steps > 1 and first else ""


def _settings(old: RuleRecord, new: RuleRecord) -> tuple[str, ...]:
    pairs = [(name, getattr(old, name), getattr(new, name)) for name in SETTINGS]
    return tuple(
        f"{name} {_plain(before)} -> {_plain(after)}"
        for name, before, after in pairs
        if before != after
    )


def _plain(value: object) -> str:
    return (
        f"{value:g}"
        if isinstance(value, float)
        else ("yes" if value else "no")
        if isinstance(value, bool)
        else str(value)
    )


def _combined_change(counted: Counter[Status]) -> Change:
    kinds = {status for status, count in counted.items() if count and status != "same"}
    if len(kinds) == 1:
        return next(iter(kinds))
    return "undecided" if kinds == {"undecided"} else "changed"


__all__ = ["Change", "RowRef", "RuleDifference", "differences", "values_text"]
