"""What an evaluation of rules over a table found: counts of verdicts by rule, entity and case,
added up over banks and chunks of the table, and the result, with its table and text for people.

A case of a shape is a focus node on a table row, however many bound rows check it. A constraint of
a shape is a conjunction, and each conjunct becomes a separate bound row. A case is violated when
one of its bound rows is, else unknown when one is, else satisfied. In a table from a graph an empty
cell means that there is no such value: a case with a satisfied bound row is satisfied, whatever is
unknown beside it, because a node may have fewer values than another.

With `rows are CLASS` the table row is a focus node itself; entities of the graph that are one too
have these very rows, so that a table row is one case there.

Letters: B table rows, R rows of a bank, N rules, P pairs of rule and entity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.notebook_html import notebook_html
from fedkg._internal.safe_text import count_noun
from fedkg.constraints.meaning.interpreter import BankValues
from fedkg.errors import MissingExtra
from fedkg.evaluation.row_explanation import PURE_NUMBERS
from fedkg.evaluation.table_readings import Readings
from fedkg.knowledge.knowledge_data_agreement import Agreement
from fedkg.pack import (
    Bank,
    CategoryIs,
    Formula,
    Implies,
    Known,
    Pack,
    atoms,
    is_temporal,
    used_slots,
)
from fedkg.pack.formulas import BEYOND, subformulas
from fedkg.units import Unit, conversion, parse_unit, same_dimension

if TYPE_CHECKING:
    import pandas
    import polars
    from rich.table import Table as RichTable
    from rich.text import Text

    from fedkg.evaluation.earlier_evaluation_comparison import Comparison


MOST = 100
"""At most this number of entities per rule is named in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityCounts:
    """One entity under one rule; counts are of evaluations."""

    entity: str
    satisfied: int
    violated: int
    unknown: int

    def to_json(self) -> dict[str, Any]:
        """The entity as plain data. `Any`: a text and numbers."""
        return {
            "entity": self.entity,
            "satisfied": self.satisfied,
            "violated": self.violated,
            "unknown": self.unknown,
        }


@dataclass(frozen=True, slots=True, eq=False)
class EntityTally:
    """Counts by rule and entity, filled bank by bank.

    Attributes:
        pairs: int64 [P], ``rule * entities + entity`` for each pair, in ascending order.
        entities: number of entities in the pack.
        counts: int64 [3, P], number of satisfied, violated and unknown evaluations of each pair;
            `add` writes into it.
    """

    pairs: NDArray[np.int64]
    entities: int
    counts: NDArray[np.int64]

    @staticmethod
    def empty(pack: Pack) -> EntityTally:
        """No evaluation yet of any of the pack's bound rows."""
        entities = len(pack.manifest.entities)
        pairs = np.unique(
            np.concatenate(
                [np.zeros(0, dtype=np.int64), *(_pairs(bank, entities) for bank in pack.banks)]
            )
        )
        return EntityTally(pairs, entities, np.zeros((3, pairs.shape[0]), dtype=np.int64))

    def add(self, bank: Bank, values: BankValues) -> None:
        """Add the verdicts of a bank."""
        at = np.searchsorted(self.pairs, _pairs(bank, self.entities))
        for counts, verdicts in zip(
            self.counts, (values.satisfied, values.violated, values.unknown), strict=True
        ):
            np.add.at(counts, at, verdicts.sum(axis=0, dtype=np.int64))

    def place(self, rule: int, entity: int) -> int:
        """The position of the counts of a rule's entity."""
        return int(np.searchsorted(self.pairs, rule * self.entities + entity))

    def broken(self, rule: int, names: tuple[str, ...]) -> tuple[EntityCounts, ...]:
        """The named entities that violate a rule, most violations first.

        `names` are the pack's entities.
        """
        low, high = np.searchsorted(self.pairs, [rule * self.entities, (rule + 1) * self.entities])
        pairs, counts = self.pairs[low:high].tolist(), self.counts[:, low:high].T.tolist()
        found = [
            EntityCounts(entity=name, satisfied=satisfied, violated=violated, unknown=unknown)
            for pair, (satisfied, violated, unknown) in zip(pairs, counts, strict=True)
            if violated and (name := names[pair % self.entities])
        ]
        return tuple(sorted(found, key=lambda one: -one.violated))


def _pairs(bank: Bank, entities: int) -> NDArray[np.int64]:
    return bank.rule.astype(np.int64) * entities + bank.entity


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule is worst: its robustness there, the same in the common unit of the rule, whether
    that is a violation, the table row (from 0), the bank and its row.
    """

    robustness: float
    compared: float
    violated: bool
    row: int
    bank: Bank
    at: int

    def rank(self) -> tuple[bool, bool, float, int]:
        """Smaller is worse: a violation is worse than none, then a margin than none, then the
        smaller margin, then the earlier row.
        """
        return (not self.violated, math.isinf(self.compared), self.compared, self.row)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """Counts by rule.

    Attributes:
        satisfied: int64 [N], number of evaluations that satisfy each rule.
        violated: int64 [N], number of evaluations that violate each rule.
        unknown: int64 [N], number of evaluations without a verdict.
        fired: int64 [N], number of evaluations in which the antecedent of an ``if ... then`` holds;
            for other rules, all evaluations.
        worst: for each rule, where it is nearest to, or farthest into, violation; None as long as
            there is no verdict.
    """

    satisfied: NDArray[np.int64]
    violated: NDArray[np.int64]
    unknown: NDArray[np.int64]
    fired: NDArray[np.int64]
    worst: tuple[Place | None, ...]

    @staticmethod
    def empty(rules: int) -> Tally:
        """No evaluation yet of any of the `rules` rules."""
        return Tally(
            satisfied=np.zeros(rules, dtype=np.int64),
            violated=np.zeros(rules, dtype=np.int64),
            unknown=np.zeros(rules, dtype=np.int64),
            fired=np.zeros(rules, dtype=np.int64),
            worst=(None,) * rules,
        )

    def evaluations(self, rule: int) -> int:
        """How often a rule was evaluated."""
        return int(self.satisfied[rule] + self.violated[rule] + self.unknown[rule])

    def with_bank(
        self, bank: Bank, values: BankValues, at: NDArray[np.int64], scales: NDArray[np.float64]
    ) -> Tally:
        """This tally with the verdicts of a bank added.

        `at` int64 [B] says which table rows they are about; `scales` are the pack's
        `margin_scales`.
        """
        worst = list(self.worst)
        for rule, place in _worst_places(bank, values, at, scales[bank.rule, bank.unit]):
            known = worst[rule]
            if known is None or place.rank() < known.rank():
                worst[rule] = place
        return Tally(
            satisfied=self.satisfied + _by_rule(bank, values.satisfied, len(worst)),
            violated=self.violated + _by_rule(bank, values.violated, len(worst)),
            unknown=self.unknown + _by_rule(bank, values.unknown, len(worst)),
            fired=self.fired + _by_rule(bank, values.fired, len(worst)),
            worst=tuple(worst),
        )


def margin_scales(pack: Pack) -> NDArray[np.float64]:
    """Factors, float64 [N, U], that bring the margins of a rule in each unit to one unit.

    1 for a rule whose units measure different things.
    """
    texts = pack.manifest.units
    scales = np.ones((len(pack.manifest.rules), len(texts)))
    used = np.zeros(scales.shape, dtype=np.bool_)
    for bank in pack.banks:
        used[bank.rule, bank.unit] = True
    for rule in np.flatnonzero(used.sum(axis=1) > 1).tolist():
        own = np.flatnonzero(used[rule])
        units = [unit for i in own.tolist() if isinstance(unit := parse_unit(texts[i]), Unit)]
        if len(units) == len(own) and all(same_dimension(unit, units[0]) for unit in units):
            scales[rule, own] = [conversion(unit, units[0]).scale for unit in units]
    return scales


def without_constants(robustness: NDArray[np.float64]) -> NDArray[np.float64]:
    """The robustness, infinite where a constant condition decides: whether a row has a next one."""
    below = np.where(robustness <= -BEYOND, -np.inf, robustness)
    return np.where(robustness >= BEYOND, np.inf, below)


def least_margin(robustness: NDArray[np.float64], among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The places, int64 [R], of the least finite robustness [B, R] among those marked.

    Of the first marked one where none is finite.

    An infinite robustness is that of a yes/no decision, which no number measures: a case with a
    number tells more.
    """
    finite = among & np.isfinite(without_constants(robustness))
    first, least = among.argmax(axis=0), np.where(finite, robustness, np.inf).argmin(axis=0)
    return np.asarray(np.where(finite.any(axis=0), least, first))


def _by_rule(bank: Bank, verdicts: NDArray[np.bool_], rules: int) -> NDArray[np.int64]:
    counts = np.zeros(rules, dtype=np.int64)
    np.add.at(counts, bank.rule, verdicts.sum(axis=0, dtype=np.int64))
    return counts


def _worst_places(
    bank: Bank, values: BankValues, at: NDArray[np.int64], scale: NDArray[np.float64]
) -> list[tuple[int, Place]]:
    """For each rule with a known verdict, where it is worst in this bank, whose margins have a
    scale each, [R].
    """
    broken: NDArray[np.bool_] = np.asarray(values.violated.any(axis=0))
    fired = values.satisfied & values.fired
    held = np.where(
        fired.any(axis=0), fired, values.satisfied
    )  # an `if` that is false or unknown does not count as close
    looked = np.where(
        broken, values.violated, held
    )  # [B, R]: among these each bank row's worst is sought
    known = np.flatnonzero(looked.any(axis=0))
    if not known.size:
        return []
    lowest = least_margin(values.robustness[:, known], looked[:, known])
    least = without_constants(values.robustness[lowest, known])
    compared = least * scale[known]
    order = np.lexsort((at[lowest], compared, np.isinf(least), ~broken[known], bank.rule[known]))
    rules, first = np.unique(bank.rule[known][order], return_index=True)
    found = []
    for rule, position in zip(rules.tolist(), order[first].tolist(), strict=True):
        row = int(known[position])
        place = Place(
            float(least[position]),
            float(compared[position]),
            bool(broken[row]),
            int(at[lowest[position]]),
            bank,
            row,
        )
        found.append((int(rule), place))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """Where a rule is nearest to, or farthest into, violation.

    Attributes:
        robustness: distance to violation in `unit`; negative if the rule is violated, infinite if
            no number measures the distance.
        unit: unit of the robustness; "" for none.
        entity: the entity that the bound row is about; None for none.
        row: the data row, counted from 1 below the header.
        time: text of the time column in this row; None without one.
        read: the values that the rule read, if the robustness is infinite or means little to users
            (an ``if ... then`` with an ``if`` that compares numbers, or comparisons in several
            units); else "".
        fault: for a rule over time, the data row in its window that violates it, if that is
            another row than `row`; else None. `read` has the values of that row.
    """

    robustness: float
    unit: str
    entity: str | None
    row: int
    time: str | None
    read: str = ""
    fault: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """One rule over a table; counts are of evaluations (bound row x table row that it is about).

    The bound rows that a shape has for one focus node are one evaluation together: violated when
    one of them is, else unknown when one is.

    Attributes:
        rule: name of the rule, as the author wrote it.
        title: the sentence that the author gave it; "" for none.
        kind: its SCFA family.
        output: whether the rule touches a prediction.
        bound_rows: number of constraints that the rule became.
        satisfied: number of evaluations that satisfy the rule.
        violated: number of evaluations that violate it.
        unknown: number of evaluations without a verdict.
        fired: number of evaluations in which the antecedent of an ``if ... then`` holds; for other
            rules, all evaluations.
        worst: where the rule is nearest to, or farthest into, violation; None without a verdict.
        severity: severity of a violation.
        needs_model: whether the rule compares predictions for changed inputs, so that a table
            cannot answer it.
        bound_to: number of things that the rule is bound to, where the bound rows of one focus node
            count once; None if it equals `bound_rows`.
        missing: headers that the rule needs and the table lacks.
        notes: remarks about the rule, as sentences.
        by_entity: the entities with violations, most violations first.
        no_rows: sentences about keys that no table row has.
    """

    rule: str
    title: str
    kind: str
    output: bool
    bound_rows: int
    satisfied: int
    violated: int
    unknown: int
    fired: int
    worst: Worst | None
    severity: Literal["violation", "warning", "info"] = "violation"
    needs_model: bool = False
    bound_to: int | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    by_entity: tuple[EntityCounts, ...] = ()
    no_rows: tuple[str, ...] = ()

    @property
    def evaluations(self) -> int:
        """Satisfied, violated and unknown together."""
        return self.satisfied + self.violated + self.unknown

    @property
    def violation_rate(self) -> float | None:
        """Violated among those with a verdict; None when there is none."""
        return rate(self.satisfied, self.violated)

    def to_json(self) -> dict[str, Any]:
        """The rule's entry; robustness is null where it is not a finite number, and `infinite` says
        which it is.
        """
        worst = self.worst
        return {
            "rule": self.rule,
            "bound_rows": self.bound_rows,
            "satisfied": self.satisfied,
            "violated": self.violated,
            "unknown": self.unknown,
            "worst": None
            if worst is None
            else {
                "robustness": worst.robustness if math.isfinite(worst.robustness) else None,
                "unit": worst.unit,
                "entity": worst.entity,
                "row": worst.row,
                "time": worst.time,
            }
            | ({} if math.isfinite(worst.robustness) else {"infinite": f"{worst.robustness:+}"})
            | ({} if worst.fault is None else {"fault_row": worst.fault}),
            "bound_to": self.bound_rows if self.bound_to is None else self.bound_to,
            "title": self.title,
            "kind": self.kind,
            "severity": self.severity,
            "fired": self.fired,
            "needs_model": self.needs_model,
            "missing": list(self.missing),
            "notes": [*self.notes, *self.no_rows],
            "by_entity": [one.to_json() for one in self.by_entity[:MOST]],
            "more_entities": max(0, len(self.by_entity) - MOST),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All rules over a table.

    Attributes:
        table: name of the table's file.
        rows: number of its data rows.
        found: the format of the file, in one line.
        rules: the result of each rule, in the pack's order.
        knowledge: how far each knowledge model of the pack agrees with the others and with the
            answers in the table.
        notes: sentences about columns, and about keys that no row has.
    """

    table: str
    rows: int
    found: str
    rules: tuple[RuleResult, ...]
    knowledge: tuple[Agreement, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def violation_rate(self) -> float | None:
        """Violated among all evaluations with a verdict, over all rules.

        None when there is none.
        """
        return rate(
            sum(rule.satisfied for rule in self.rules), sum(rule.violated for rule in self.rules)
        )

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each rule: its counts, rate and worst place; missing values are NA.

        Raises MissingExtra: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("an evaluation as a pandas data frame", "frames") from error
        names = {str: "object", bool: "bool", int: "Int64", float: "Float64"}
        return pandas.DataFrame(
            {
                name: pandas.Series(values, dtype=names[kind])
                for name, (kind, values) in self._columns().items()
            }
        )

    def to_polars(self) -> polars.DataFrame:
        """One row for each rule, with the columns of `to_pandas`; missing values are null.

        Raises MissingExtra: polars is not installed.
        """
        try:
            import polars
        except ModuleNotFoundError as error:
            raise MissingExtra("an evaluation as a polars data frame", "frames") from error
        kinds = {
            str: polars.String(),
            bool: polars.Boolean(),
            int: polars.Int64(),
            float: polars.Float64(),
        }
        columns = self._columns()
        return polars.DataFrame(
            {name: values for name, (_, values) in columns.items()},
            schema={name: kinds[kind] for name, (kind, _) in columns.items()},
        )

    def _columns(self) -> dict[str, tuple[type, list[Any]]]:
        """Columns of a data frame: type of the values, and the values. `Any`: that type or None."""
        texts = ("rule", "title", "kind", "severity")
        counts = ("bound_rows", "satisfied", "violated", "unknown", "fired")
        rules, worst = self.rules, [rule.worst for rule in self.rules]
        return {
            **{name: (str, [getattr(rule, name) for rule in rules]) for name in texts},
            "output": (bool, [rule.output for rule in rules]),
            **{name: (int, [getattr(rule, name) for rule in rules]) for name in counts},
            "violation_rate": (float, [rule.violation_rate for rule in rules]),
            "worst_robustness": (float, [one and one.robustness for one in worst]),
            "worst_unit": (str, [one and one.unit for one in worst]),
            "worst_entity": (str, [one and one.entity for one in worst]),
            "worst_row": (int, [one and one.row for one in worst]),
            "worst_time": (str, [one and one.time for one in worst]),
            "notes": (str, ["; ".join((*rule.notes, *rule.no_rows)) for rule in rules]),
        }

    def _repr_html_(self) -> str:
        """The verdicts as a notebook shows them."""

        rate = self.violation_rate
        said = "no verdicts" if rate is None else f"{share_text(rate)} of the verdicts violated"
        return notebook_html(
            "Evaluation",
            f"of {self.rows:,} rows in {self.table}: {said}",
            ("rule", "bound rows", "satisfied", "violated", "unknown", "worst"),
            (
                (
                    rule.rule,
                    rule.bound_rows,
                    rule.satisfied,
                    rule.violated,
                    rule.unknown,
                    worst_text(rule.worst) or "; ".join(rule.notes[:1]),
                )
                for rule in self.rules
            ),
            len(self.rules),
        )

    def to_json(self) -> dict[str, Any]:
        """The evaluation as plain data."""
        return {
            "rules": [rule.to_json() for rule in self.rules],
            "violation_rate": self.violation_rate,
            "table": self.table,
            "rows": self.rows,
            "found": self.found,
            "knowledge": [asdict(one) for one in self.knowledge],
            "notes": list(self.notes),
        }


def rate(satisfied: int, violated: int) -> float | None:
    """violated / (satisfied + violated), None for no verdict at all."""
    return violated / (satisfied + violated) if satisfied + violated else None


SATISFIED, UNKNOWN, VIOLATED, FIRED = 1, 2, 4, 8
"""What the bound rows of a case say, as bits."""

Key = tuple[tuple[int, int], ...]
"""Key columns and the code that each must have, by column."""

Group = tuple[int, int, Key]
"""A rule, an entity, and the key that selects the entity's table rows."""


class Cases:
    """Joint verdicts of the bound rows of shapes, filled bank by bank.

    Other bound rows are not changed.

    Attributes:
        sizes: for each rule that came from a shape, how many bound rows each of its groups has.
        whole: of these the rules that are about the table row itself, and about entities that a key
            selects rows for.

    Memory is one byte for each case.
    """

    def __init__(self, pack: Pack, readings: Readings, *, from_graph: bool = False) -> None:
        self._from_graph = from_graph
        self.sizes: dict[int, Counter[Group]] = {rule: Counter() for rule in _of_shapes(pack)}
        for bank in pack.banks if self.sizes else ():
            for group in _groups(bank):
                if group[0] in self.sizes:
                    self.sizes[group[0]][group] += 1
        self.names, self.base = pack.manifest.entities, readings.base
        self.whole = {
            rule
            for rule, own in self.sizes.items()
            if any(key for _, _, key in own) and any(map(self._is_row, own))
        }
        self.rows: dict[Key, NDArray[np.int64]] = {}
        self.said: dict[Group, NDArray[np.uint8]] = {}
        self.raw: dict[Group, NDArray[np.int64]] = {}

    def add(self, bank: Bank, values: BankValues, at: NDArray[np.int64]) -> None:
        """Add the verdicts [B, R] of a bank.

        `at` int64 [B] says which table rows they are about, in rising order.
        """
        if not any(rule in self.sizes for rule in np.unique(bank.rule).tolist()):
            return
        bits = [
            (SATISFIED, values.satisfied),
            (VIOLATED, values.violated),
            (UNKNOWN, values.unknown),
            (FIRED, values.fired),
        ]
        for row, group in enumerate(_groups(bank)):
            own = self.sizes.get(group[0])
            if own is None or (own[group] < 2 and group[0] not in self.whole):
                continue
            selected = self._rows(group[2])
            said = self.said.setdefault(group, np.zeros(selected.size, dtype=np.uint8))
            raw = self.raw.setdefault(group, np.zeros(4, dtype=np.int64))
            raw += [int(verdicts[:, row].sum()) for _, verdicts in bits]
            here = values.applicable[:, row]
            said[np.searchsorted(selected, at[here])] |= sum(
                verdicts[here, row].astype(np.uint8) * np.uint8(bit) for bit, verdicts in bits
            )

    def settle(self, tally: Tally, entities: EntityTally) -> None:
        """Let counts that were made bound row by bound row be of cases instead.

        Writes into them.
        """
        for group, said in self.said.items():
            entities.counts[:, entities.place(group[0], group[1])] += (
                self._counts(said) - self.raw[group]
            )[:3]
        for rule in {group[0] for group in self.said}:
            own = [group for group in self.said if group[0] == rule]
            together = [group for group in own if rule in self.whole and self._is_one(group)]
            change = sum(
                self._counts(self.said[group]) for group in own if group not in together
            ) - sum(self.raw[group] for group in own)
            change = change + self._counts(self._merged(together))
            for counts, more in zip(
                (tally.satisfied, tally.violated, tally.unknown, tally.fired),
                change.tolist(),
                strict=True,
            ):
                counts[rule] += more

    def bound_to(self, rule: int, bound_rows: int) -> int:
        """How many things a rule is bound to, where the bound rows of one focus node count once."""
        if rule not in self.sizes:
            return bound_rows
        own = self.sizes[rule]
        return (
            len(own)
            if rule not in self.whole
            else 1 + sum(not self._is_one(group) for group in own)
        )

    def _is_row(self, group: Group) -> bool:
        """Whether a group is about the table row itself."""
        return not self.names[group[1]] and not group[2]

    def _is_one(self, group: Group) -> bool:
        """Whether a group's cases are table rows: those of the table row itself, and those of an
        entity with a key.
        """
        return self._is_row(group) or bool(group[2])

    def _merged(self, groups: list[Group]) -> NDArray[np.uint8]:
        """What groups say together of each table row, uint8 [all table rows]."""
        found = np.zeros(self.base.shape[0], dtype=np.uint8)
        for group in groups:
            found[self._rows(group[2])] |= self.said[group]
        return found

    def _counts(self, said: NDArray[np.uint8]) -> NDArray[np.int64]:
        """How many cases are satisfied, violated, unknown and fired, int64 [4]."""
        violated, unknown, satisfied = ((said & bit) > 0 for bit in (VIOLATED, UNKNOWN, SATISFIED))
        if self._from_graph:
            unknown &= ~satisfied
        verdicts = (
            satisfied & ~unknown & ~violated,
            violated,
            unknown & ~violated,
            (said & FIRED) > 0,
        )
        return np.array([int(verdict.sum()) for verdict in verdicts], dtype=np.int64)

    def _rows(self, key: Key) -> NDArray[np.int64]:
        """The table rows that have a key."""
        if key not in self.rows:
            columns, codes = [column for column, _ in key], [code for _, code in key]
            self.rows[key] = np.flatnonzero((self.base[:, columns] == codes).all(axis=1))
        return self.rows[key]


def _of_shapes(pack: Pack) -> set[int]:
    """The rules that constraints of shapes became."""
    files = {source.name for source in pack.manifest.provenance.sources if source.kind == "shapes"}
    names = {
        placement.rule
        for placement in pack.manifest.placements
        if placement.source in files and placement.where == "rows"
    }
    return {place for place, rule in enumerate(pack.manifest.rules) if rule.name in names}


def _groups(bank: Bank) -> Iterator[Group]:
    """The group of each bound row."""
    for rule, entity, columns, codes in zip(
        bank.rule.tolist(),
        bank.entity.tolist(),
        bank.keys.tolist(),
        bank.codes.tolist(),
        strict=True,
    ):
        yield (
            rule,
            entity,
            tuple(
                sorted(
                    (column, code)
                    for column, code in zip(columns, codes, strict=True)
                    if column >= 0
                )
            ),
        )


def is_telling(pack: Pack, bank: Bank, row: int) -> bool:
    """Whether the constraint's robustness, where it is finite, is a number that says something.

    None for an ``if ... then`` with an `if` that compares numbers, and for mixed units.
    """
    columns, skeleton = pack.manifest.contract.columns, bank.skeleton
    asked = subformulas(skeleton) if is_temporal(skeleton) else (skeleton,)
    if any(isinstance(part, Implies) and _atoms_with_margin(part.antecedent) for part in asked):
        return False
    units = {
        columns[int(bank.slots[row, i])].unit
        for atom in _atoms_with_margin(skeleton)
        for i in used_slots(atom)
    }
    return (
        bool(pack.manifest.units[int(bank.unit[row])])
        or len(units) < 2
        or len(_atoms_with_margin(skeleton)) < 2
    )


def _atoms_with_margin(formula: Formula) -> list[Formula]:
    """The atomic formulas that have a margin."""
    return [atom for atom in atoms(formula) if not isinstance(atom, CategoryIs | Known)]


# The result for people: a table with one line per rule, and the outcome in words.

BOUND = (
    "* how many limits the rule became: one for each machine, tag or row of a sheet "
    "that it is bound to"
)

TOGETHER = "; those of one focus node of a shape count as one evaluation"
"""Suffix for a shape that became several bound rows for one focus node."""

YES_NO = "yes/no"
"""Placeholder without a margin: for a category, a presence check, a window beyond the table."""

LISTED = 10
"""Entities named under a rule that they break."""

ALIKE = 5
"""A sentence that applies to more than this share of the rules is printed once."""


def rules_table(evaluation: Evaluation) -> RichTable:
    """A rich table: per rule its bound rows, satisfied, violated and unknown evaluations, and where
    it is worst.

    Below a violated rule of several bound rows the entities with most violations follow. Texts of
    users are escaped.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    together = any(
        rule.bound_to is not None and rule.bound_to < rule.bound_rows for rule in evaluation.rules
    )
    table = RichTable(
        header_style="bold",
        caption=Text(BOUND + TOGETHER * together),
        caption_justify="left",
        caption_style="dim",
    )
    table.add_column("rule", overflow="fold")
    for header in ("bound *", "satisfied", "violated", "unknown"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("worst", overflow="fold")
    for rule in evaluation.rules:
        remark = worst_text(rule.worst) or _first_note((*rule.notes, *rule.no_rows))
        table.add_row(_name(rule), f"{rule.bound_rows:,}", *_counts(rule), Text(remark))
        for cells in _entities(rule):
            table.add_row(*(Text(cell, style="dim") for cell in cells))
    return table


def _entities(rule: RuleResult) -> Iterator[tuple[str, str, str, str, str]]:
    """The entities that violate a rule of several bound rows, the first of them with their
    counts.
    """
    if rule.bound_rows < 2:
        return
    for one in rule.by_entity[:LISTED]:
        share = one.violated / (one.satisfied + one.violated)
        yield (
            f"  {one.entity}",
            "",
            f"{one.satisfied:,}",
            f"{one.violated:,} ({share_text(share)})",
            f"{one.unknown:,}",
        )
    if len(rule.by_entity) > LISTED:
        yield (
            f"  and {len(rule.by_entity) - LISTED:,} more",
            "",
            "",
            f"{sum(one.violated for one in rule.by_entity[LISTED:]):,}",
            "",
        )


def share_text(share: float) -> str:
    """A share in per cent, ``37.50%``; little is never shown as nothing, nor nearly all as all."""
    if 0 < share < 5e-5:
        return "< 0.01%"
    return "> 99.99%" if 1 - 5e-5 < share < 1 else f"{share:.2%}"


def _name(rule: RuleResult) -> Text:
    from rich.text import Text

    grave = rule.severity == "violation"
    style = (
        "green"
        if rule.evaluations and not rule.violated
        else "red"
        if rule.violated and grave
        else "yellow"
    )
    return Text(rule.rule if grave else f"{rule.rule} ({rule.severity})", style=style)


def _counts(rule: RuleResult) -> Iterator[str]:
    if not rule.evaluations:
        yield from ("-", "-", "-")
        return
    yield f"{rule.satisfied:,}"
    rate = rule.violation_rate
    yield f"{rule.violated:,}" + (f" ({share_text(rate)})" if rate else "")
    yield f"{rule.unknown:,}"


def worst_text(worst: Worst | None) -> str:
    """Format the worst row: ``-0.2 bar: pump_7, row 17, 09.03.2020 10:14``.

    If the margin is not meaningful, the values follow: ``row 17: torque 57.3 N.m``.

    For verdicts without a number: ``yes/no: row 17: grade D`` if violated, ``yes/no`` if satisfied.
    "" for None.
    """
    if worst is None:
        return ""
    if worst.robustness == math.inf:
        return YES_NO
    unit = f" {worst.unit}" if worst.unit and worst.unit not in PURE_NUMBERS else ""
    fault = f"violated in row {worst.fault}" if worst.fault is not None else None
    places = ", ".join(filter(None, (worst.entity, f"row {worst.row}", worst.time, fault)))
    if worst.robustness == -math.inf:
        return ": ".join(filter(None, (YES_NO, places, worst.read)))
    return f"{places}: {worst.read}" if worst.read else f"{worst.robustness:+.4g}{unit}: {places}"


def _first_note(notes: tuple[str, ...]) -> str:
    return notes[0] if notes else ""


def outcome(evaluation: Evaluation) -> list[str]:
    """Sentences about the table, the number and rate of violated rules, and rules not evaluated."""
    rules = evaluation.rules
    lines = [f"{evaluation.table}: {count_noun(evaluation.rows, 'row')}; {evaluation.found}"]
    lines += [f"note: {note}" for note in evaluation.notes]
    decided = [rule for rule in rules if rule.satisfied or rule.violated]
    undecided = [
        rule.rule for rule in rules if rule.evaluations and not (rule.satisfied or rule.violated)
    ]
    violated = [rule for rule in decided if rule.violated]
    rate = evaluation.violation_rate
    if rate is None:
        lines += (
            ["No rule could be evaluated on this table." if rules else "The pack has no rules."]
            if rules or not evaluation.knowledge
            else []
        )
    elif violated:
        verb = "is" if len(violated) == 1 else "are"
        lines.append(
            f"{len(violated)} of {len(decided)} rules {verb} violated "
            f"somewhere{_milder(violated)}; violation rate {share_text(rate)}."
        )
    else:
        lines.append(_all_satisfied(len(decided), len(rules)))
    if undecided:
        lines.append(f"{len(undecided)} could not be decided in any row: {', '.join(undecided)}")
    lines += _rules_notes(rules)
    return [*lines, *(line for one in evaluation.knowledge for line in knowledge_lines(one))]


def _all_satisfied(decided: int, rules: int) -> str:
    """The result if no rule is violated: of all rules, or of those with a verdict."""
    if decided < rules:
        return (
            f"{decided} of {rules} rules {'holds' if decided == 1 else 'hold'}; none is violated."
        )
    return "The one rule holds." if decided == 1 else f"All {decided} rules hold."


def _milder(violated: Sequence[RuleResult]) -> str:
    """`` (1 warning, 2 info)``: the number of violated rules below severity violation; "" for
    none.
    """
    counts = Counter[str](rule.severity for rule in violated)
    plural = "s" if counts["warning"] > 1 else ""
    parts = [
        f"{counts[kind]:,} {word}"
        for kind, word in (("warning", f"warning{plural}"), ("info", "info"))
        if counts[kind]
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _rules_notes(rules: Sequence[RuleResult]) -> Iterator[str]:
    """``RULE: sentence``; one line with count and three names if more than `ALIKE` rules share
    it.
    """
    names: dict[str, list[str]] = {}
    for rule in rules:
        for note in dict.fromkeys(rule.notes):
            names.setdefault(note, []).append(rule.rule)
    printed: set[str] = set()
    for rule in rules:
        for note in rule.notes:
            sharing = names[note]
            if len(sharing) <= ALIKE:
                yield f"{rule.rule}: {note}"
            elif note not in printed:
                printed.add(note)
                yield f"each of {len(sharing):,} rules ({', '.join(sharing[:3])}, ...): {note}"


def knowledge_lines(model: Agreement) -> list[str]:
    """What a knowledge model says of the table, and where it contradicts itself, others or the
    truth.
    """
    says = "restricts" if model.kind == "range" else "predicts"
    lines = [f"{model.model}: {says} {model.restricted:,} of {model.samples:,} rows"]
    if model.labelled:
        what = "the answer lies in the range" if model.kind == "range" else "it is right"
        lines[0] += (
            f"; {what} in {model.right:,} of {model.labelled:,} of them that have one "
            f"({model.right / model.labelled:.1%})"
        )
    if model.empty and model.first_empty is not None:
        where = f"{count_noun(model.empty, 'row')}, first in row {model.first_empty + 1}"
        lines.append(f"{model.model}: allows nothing in {where}: its clauses contradict")
    if model.disjoint and model.first_disjoint is not None:
        where = f"{count_noun(model.disjoint, 'row')}, first in row {model.first_disjoint + 1}"
        lines.append(
            f"{model.model}: the ranges of `{model.output}` together allow nothing in "
            f"{where}: they contradict it"
        )
    if model.outside and model.first_outside is not None:
        lie = f"{count_noun(model.outside, 'prediction')} {'lies' if model.outside == 1 else 'lie'}"
        lines.append(
            f"{model.model}: {lie} outside of the range, first in row {model.first_outside + 1}"
        )
    return lines


def comparison_lines(comparison: Comparison) -> list[str]:
    """Sentences on what changed since the baseline, worse ones first.

    Rules that stayed the same are counted only.
    """
    order = ("worse", "untold", "removed", "new", "better")
    lines = [
        change.sentence()
        for state in order
        for change in comparison.changes
        if change.state == state
    ]
    same = sum(1 for change in comparison.changes if change.state == "same")
    if same:
        lines.append(
            f"{same} rule{'' if same == 1 else 's'} as before"
            + (f" (at most {comparison.allow:.2%} worse)" if comparison.allow else "")
        )
    return lines
