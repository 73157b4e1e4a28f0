"""A pack bound to layouts: the position of every number that the rules read.

Letters: R rows of a bank, M members of their sets, N distinct numbers that the rules read of one
sample (inputs and outputs apart), D conditions, F features, H outputs. Nothing here needs torch;
the module turns the arrays into buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import nearest_name
from fedkg.constraints.binding.layout import NO_UNIT, InputLayout, Output, OutputLayout
from fedkg.constraints.binding.reads import Cell, Index, TableReads, bank_reads
from fedkg.constraints.binding.redundant_entity_rows import covered
from fedkg.constraints.engine.precomputed_subformula import InputFormula
from fedkg.constraints.engine.skeleton_properties import is_temporal, largest, reads_output
from fedkg.errors import LayoutError
from fedkg.pack.bank import Bank, MemberTable
from fedkg.pack.contract import Column, DataContract
from fedkg.pack.formulas import Compare, Formula, everywhere
from fedkg.pack.pack import Pack


@dataclass(frozen=True, slots=True, order=True)
class InputRead:
    """A contract column of the batch as it is, raised by `delta`, or in the row before (`previous`
    is that view; -1: not before).

    With `verdict`: the verdict number so many of the rules that read other rows of the table, and
    no column (-1).
    """

    column: int
    delta: float = 0.0
    previous: int = -1
    verdict: int = -1


@dataclass(frozen=True, slots=True, order=True)
class OutputRead:
    """Entry `entry` of the model's output when it runs on its `run`-th view."""

    run: int
    entry: int


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """What a sample must fulfil for a bank row to apply: column `column` has code `code`.

    With code -1: the column, or view, is at hand.

    The view `STEPS` is available if the call assigns samples to the steps of traces.
    """

    column: int = -1
    code: int = -1
    view: int = -1


ALWAYS = Condition()
STEPS = -2
"""Placeholder for a view in rules that need traces."""
COVERED = Condition(view=-3)
"""What no sample fulfils: other bound rows say all that these do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberPlan:
    """The sets of one member table of a bank, its M members pointing into the numbers read.

    Fields as in `BankPlan` and `MemberTable`.
    """

    parent: int
    offsets: Index
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_index: Index
    output_index: Index
    params: NDArray[np.float64]
    wild: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BankPlan:
    """One bank, with the positions of the numbers that its rows read.

    Attributes:
        skeleton: the formula that all rows share.
        inputs: the slots of the skeleton that read inputs.
        outputs: the slots of the skeleton that read outputs.
        input_index: int64 [s, R], which of the N input numbers each of the s input slots reads.
        output_index: int64 [s, R], which of the N output numbers each of the s output slots reads.
        conditions: int64 [k, R], the positions of k conditions among the plan's D conditions. A row
            applies where all its conditions are met; if k is 0, all rows always apply.
        params: float64 [p, R], the p parameters of each row.
        quick: if no number that the rows read exceeds this absolute value, nothing can be unknown
            or overflow; -1: something always may.
        wild: whether a parameter is not a finite number.
        first: the position of the bank's first row among all rows of the pack.
        touches_output: whether the skeleton reads an output.
        temporal: whether verdicts depend on other steps of a trace.
        members: the sets over which the skeleton ranges.
    """

    skeleton: Formula
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_index: Index
    output_index: Index
    conditions: Index
    params: NDArray[np.float64]
    quick: float
    wild: bool
    first: int
    touches_output: bool
    temporal: bool
    members: tuple[MemberPlan, ...]

    @property
    def rows(self) -> int:
        """R."""
        return int(self.params.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableVerdicts:
    """The verdicts of a bank that reads other rows of the table: they become input numbers.

    Attributes:
        bank: the position of the bank in the pack.
        numbers: int64 [R], the positions of the verdicts among the N input numbers.
        reads: what the bank reads of the table: view, column and position among the input numbers.
    """

    bank: int
    numbers: Index
    reads: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """Everything of a pack and two layouts that evaluation needs.

    Attributes:
        runs: the contract views on which the model must run, base first.
        raised_features: for each run the feature that it raises, or -1.
        features: for each contract column that inputs read or conditions ask for, its position
            among the F features; -1 for a category that comes as a key instead, and for an output
            without a feature that holds its past.
        needs: per (column, -1) that may be missing, (-1, view of kind "previous") and (-1, STEPS),
            the rules (positions) with rows that need it to be at hand.
        groups: for each view of kind "previous" that is read, the headers of its group (none: the
            whole table is one group).
        verdicts: for each bank that reads other rows of the table, where its verdicts are.
    """

    pack: Pack
    x: InputLayout
    y: OutputLayout
    runs: tuple[int, ...]
    raised_features: tuple[int, ...]
    input_reads: tuple[InputRead, ...]
    output_reads: tuple[OutputRead, ...]
    conditions: tuple[Condition, ...]
    banks: tuple[BankPlan, ...]
    features: dict[int, int]
    needs: dict[tuple[int, int], tuple[int, ...]]
    groups: dict[int, tuple[str, ...]]
    verdicts: tuple[TableVerdicts, ...]

    @property
    def across_rows(self) -> frozenset[int]:
        """Rules (positions) that read another row or step than the one they are about."""
        views = {
            view
            for view, reading in enumerate(self.pack.manifest.contract.views)
            if reading.kind == "previous"
        }
        return frozenset(
            rule
            for (_, view), rules in self.needs.items()
            if view == STEPS or view in views
            for rule in rules
        )


def make_plan(pack: Pack, x: InputLayout, y: OutputLayout) -> Plan:
    """The plan of a pack under two layouts.

    Raises LayoutError when something that the rules read has no place in them.
    """
    contract = pack.manifest.contract
    reads = [bank_reads(bank, contract) for bank in pack.banks]
    cells = sorted({cell for bank in reads for table in bank for cell in table.cells()})
    runs = (0, *sorted({view for view, _, output in cells if output and view != 0}))
    keys = {int(key) for bank in pack.banks for key in np.unique(bank.keys) if key >= 0}
    input_columns = {column for _, column, output in cells if not output}
    features = _find_features(contract, input_columns | keys, x)
    entries = _find_outputs(contract, {column for _, column, output in cells if output}, y)
    conditions_of = _conditions_of_banks(pack, reads, features)
    numbered = _number_reads(pack, cells, runs, entries)
    verdicts = _table_verdicts(reads, numbered)
    conditions = tuple(
        sorted({one for rows in conditions_of for row in rows for one in row} | {ALWAYS})
    )
    return Plan(
        pack=pack,
        x=x,
        y=y,
        runs=runs,
        raised_features=tuple(_raised_feature(pack, view, x) for view in runs),
        input_reads=numbered.input_reads,
        output_reads=numbered.output_reads,
        conditions=conditions,
        banks=_bank_plans(pack, reads, numbered, verdicts, conditions_of, conditions),
        features=features,
        needs=_needs(pack, conditions_of),
        groups={
            view: _groups(contract, view)
            for view in sorted({view for view, _, _ in cells})
            if contract.views[view].kind == "previous"
        },
        verdicts=verdicts,
    )


def _conditions_of_banks(
    pack: Pack, reads: Sequence[Sequence[TableReads]], features: dict[int, int]
) -> list[list[list[Condition]]]:
    """For each bank and bank row, what a sample must fulfil; `COVERED` where other rows say all
    that the row does.
    """
    contract = pack.manifest.contract
    missing = {
        column
        for column, place in features.items()
        if place < 0 or contract.columns[column].type == "category"
    }
    found = []
    for bank, read in zip(pack.banks, reads, strict=True):
        rows = _conditions(bank, read, contract, missing)
        for row in np.flatnonzero(covered(bank, pack.manifest.entities)).tolist():
            rows[row] = [COVERED]
        found.append(rows)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _NumberedReads:
    """The distinct numbers that the rules read of one sample, in their order.

    Attributes:
        positions: for each cell, its position among the input or output reads.
        verdicts: for each bank that reads other rows of the table, int64 [R], the positions of its
            verdicts among the input reads.
    """

    input_reads: tuple[InputRead, ...]
    output_reads: tuple[OutputRead, ...]
    positions: dict[Cell, int]
    verdicts: dict[int, Index]


def _number_reads(
    pack: Pack, cells: Sequence[Cell], runs: Sequence[int], entries: dict[int, int]
) -> _NumberedReads:
    contract = pack.manifest.contract
    inputs = {cell: _input_read(contract, *cell[:2]) for cell in cells if not cell[2]}
    outputs = {cell: OutputRead(runs.index(cell[0]), entries[cell[1]]) for cell in cells if cell[2]}
    verdicts: dict[int, list[InputRead]] = {}
    count = 0
    for i, bank in enumerate(pack.banks):
        if bank.reads_other_rows:
            verdicts[i] = [InputRead(-1, verdict=count + row) for row in range(bank.rows)]
            count += bank.rows
    input_reads = tuple(sorted({*inputs.values(), *chain.from_iterable(verdicts.values())}))
    output_reads = tuple(sorted(set(outputs.values())))
    positions = {cell: input_reads.index(read) for cell, read in inputs.items()}
    positions |= {cell: output_reads.index(read) for cell, read in outputs.items()}
    return _NumberedReads(
        input_reads=input_reads,
        output_reads=output_reads,
        positions=positions,
        verdicts={
            i: np.array([input_reads.index(read) for read in own], dtype=np.int64)
            for i, own in verdicts.items()
        },
    )


def _table_verdicts(
    reads: Sequence[Sequence[TableReads]], numbered: _NumberedReads
) -> tuple[TableVerdicts, ...]:
    """The verdicts of the banks that read other rows of the table, which read inputs only."""
    return tuple(
        TableVerdicts(
            bank=i,
            numbers=numbers,
            reads=tuple(
                (view, column, numbered.positions[view, column, False])
                for view, column, _ in sorted({c for table in reads[i] for c in table.cells()})
            ),
        )
        for i, numbers in numbered.verdicts.items()
    )


def _bank_plans(
    pack: Pack,
    reads: Sequence[Sequence[TableReads]],
    numbered: _NumberedReads,
    verdicts: Sequence[TableVerdicts],
    conditions_of: Sequence[Sequence[Sequence[Condition]]],
    conditions: Sequence[Condition],
) -> tuple[BankPlan, ...]:
    across_rows = {one.bank: one for one in verdicts}
    banks: list[BankPlan] = []
    first = 0
    for i, (bank, read, rows) in enumerate(zip(pack.banks, reads, conditions_of, strict=True)):
        index = _condition_index(rows, conditions)
        banks.append(
            _verdict_plan(across_rows[i], index, first)
            if i in across_rows
            else _bank_plan(bank, read, numbered.positions, index, first)
        )
        first += banks[-1].rows
    return tuple(banks)


def _groups(contract: DataContract, view: int) -> tuple[str, ...]:
    """The headers that tell groups apart in a view that looks back: its own, and that of the
    trace.
    """
    return tuple(dict.fromkeys((*contract.views[view].groups, *trace_groups(contract))))


def trace_groups(contract: DataContract) -> tuple[str, ...]:
    """The headers that tell traces apart."""
    return () if contract.trace is None else (contract.trace,)


def _input_read(contract: DataContract, view: int, column: int) -> InputRead:
    reading = contract.views[view]
    if reading.kind == "previous":
        return InputRead(column, previous=view)
    return InputRead(
        column,
        delta=reading.delta if reading.kind == "raised" and reading.column == column else 0.0,
    )


def _conditions(
    bank: Bank, reads: Sequence[TableReads], contract: DataContract, missing: set[int]
) -> list[list[Condition]]:
    """Per bank row, what a sample must fulfil: its keys, and that what it and its members read
    beyond plain features is at hand.

    `missing` are the columns that may not be.
    """
    looks_back = np.array([view.kind == "previous" for view in contract.views], dtype=np.bool_)
    uncertain = np.zeros(len(contract.columns), dtype=np.bool_)
    uncertain[sorted(missing)] = True
    rows: list[list[Condition]] = [[] for _ in range(bank.rows)]
    for keys, codes in zip(bank.keys.T.tolist(), bank.codes.T.tolist(), strict=True):
        for row, key, code in zip(rows, keys, codes, strict=True):
            if key >= 0:
                row.append(Condition(column=key, code=code))
    for read in reads:
        data = ~np.array(read.output, dtype=np.bool_)[:, None]
        for which, of_view in (
            (looks_back[read.views], True),
            (uncertain[read.columns] & data, False),
        ):
            for slot, member in np.argwhere(which).tolist():
                view, column = int(read.views[slot, member]), int(read.columns[slot, member])
                condition = Condition(view=view) if of_view else Condition(column=column)
                row = rows[int(read.root[member])]
                if condition not in row:
                    row.append(condition)
    if is_temporal(bank.skeleton):
        for row in rows:
            row.append(Condition(view=STEPS))
    return rows


def _needs(
    pack: Pack, conditions_of: Sequence[Sequence[Sequence[Condition]]]
) -> dict[tuple[int, int], tuple[int, ...]]:
    found: dict[tuple[int, int], set[int]] = {}
    for bank, rows in zip(pack.banks, conditions_of, strict=True):
        for rule, row in zip(bank.rule.tolist(), rows, strict=True):
            for condition in row if row != [COVERED] else ():
                found.setdefault((condition.column, condition.view), set()).add(rule)
    return {need: tuple(sorted(rules)) for need, rules in found.items()}


def _condition_index(rows: Sequence[Sequence[Condition]], conditions: Sequence[Condition]) -> Index:
    position = {condition: i for i, condition in enumerate(conditions)}
    width = max((len(row) for row in rows), default=0)
    index = np.full((width, len(rows)), position[ALWAYS], dtype=np.int64)
    for r, row in enumerate(rows):
        index[: len(row), r] = [position[condition] for condition in row]
    return index


def _bank_plan(
    bank: Bank, reads: Sequence[TableReads], where: dict[Cell, int], conditions: Index, first: int
) -> BankPlan:
    inputs, outputs = reads[0].slots
    input_index, output_index = reads[0].index(where)
    params, wild = _numbers(bank.params)
    return BankPlan(
        skeleton=bank.skeleton,
        inputs=inputs,
        outputs=outputs,
        input_index=input_index,
        output_index=output_index,
        conditions=conditions,
        params=params,
        quick=-1.0 if wild else quick_limit(bank.skeleton, bank.params),
        wild=wild,
        first=first,
        touches_output=reads_output(bank.skeleton),
        temporal=is_temporal(bank.skeleton),
        members=tuple(
            _member_plan(table, read, where)
            for table, read in zip(bank.members, reads[1:], strict=True)
        ),
    )


def _verdict_plan(verdicts: TableVerdicts, conditions: Index, first: int) -> BankPlan:
    """The plan of a bank with verdicts that are known before the model answers."""
    return BankPlan(
        skeleton=InputFormula(slot=0, strict=True),
        inputs=(0,),
        outputs=(),
        input_index=verdicts.numbers[None, :],
        output_index=np.zeros((0, verdicts.numbers.size), dtype=np.int64),
        conditions=conditions,
        params=np.zeros((0, verdicts.numbers.size)),
        quick=-1.0,
        wild=False,
        first=first,
        touches_output=False,
        temporal=False,
        members=(),
    )


def _member_plan(table: MemberTable, read: TableReads, where: dict[Cell, int]) -> MemberPlan:
    inputs, outputs = read.slots
    input_index, output_index = read.index(where)
    params, wild = _numbers(table.params)
    return MemberPlan(
        parent=table.parent,
        offsets=table.offsets.astype(np.int64),
        inputs=inputs,
        outputs=outputs,
        input_index=input_index,
        output_index=output_index,
        params=params,
        wild=wild,
    )


def _numbers(params: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """Parameters [R, p] as [p, R], NaN for numbers that are not finite.

    And whether any is not finite.
    """
    turned = np.ascontiguousarray(params.T, dtype=np.float64)
    wild = not bool(np.isfinite(turned).all())
    return np.where(np.isfinite(turned), turned, np.nan), wild


def quick_limit(skeleton: Formula, params: NDArray[np.float64]) -> float:
    """The largest power of ten that all slots may have, so that no number met stays not far below
    the largest of float32; -1: none.

    Args:
        params: of the bank's rows, [R, p].
    """
    bounds = dict(enumerate(np.abs(params).max(axis=0, initial=0.0).tolist()))
    scales = [
        part.scale
        for table, part in everywhere(skeleton)
        if table < 0 and isinstance(part, Compare)
    ]
    smallest_scale = min((params[:, scale].min(initial=1.0) for scale in scales), default=1.0)
    limit = 1e28 * min(1.0, float(smallest_scale))
    return next(
        (
            m
            for m in (1e15, 1e12, 1e9, 1e7, 1e6, 1e5, 1e4, 1e3)
            if largest(skeleton, m, bounds) < limit
        ),
        -1.0,
    )


def _find_features(contract: DataContract, wanted: Iterable[int], x: InputLayout) -> dict[int, int]:
    """Position among the features of each wanted column: by its name, else by its table header.

    Categories may be missing (they may come as keys), and so may outputs (then nobody knows their
    past).
    """
    places = {name: i for i, name in enumerate(x.names)}
    found: dict[int, int] = {}
    missing: list[Column] = []
    for column in sorted(wanted):
        entry = contract.columns[column]
        place = places.get(entry.name, places.get(entry.source, -1))
        found[column] = place
        if place < 0 and entry.type != "category" and entry.role == "input":
            missing.append(entry)
    if missing:
        raise LayoutError(
            "the rules read columns that x= does not name",
            expected=", ".join(
                _hint(
                    f"`{c.name}`" + (f" (header `{c.source}`)" if c.source != c.name else ""),
                    c.name,
                    x.names,
                )
                for c in missing
            ),
            received=", ".join(x.names) or "no names",
            help="x=fedkg.columns([...]) takes one name per feature, in the order of the "
            "tensor: a signal's name or a table header",
        )
    return found


def _find_outputs(contract: DataContract, wanted: Iterable[int], y: OutputLayout) -> dict[int, int]:
    """Position in the model's output of each wanted output column.

    A model may have outputs that no rule reads.
    """
    known = [column for column in contract.columns if column.role == "output"]
    whole = all(
        any(_is_output(contract.columns[column], entry) for entry in y.entries) for column in wanted
    )
    for entry in y.entries:
        if not any(_is_output(column, entry) for column in known) and not (
            whole and entry.kind != "score"
        ):
            names = sorted({column.label or column.name for column in known})
            what = (
                f"class `{entry.category}` of `{entry.name}`"
                if entry.kind == "score"
                else f"`{entry.name}`"
            )
            raise LayoutError(
                f"y= names {_hint(what, entry.name, names)}, which is not an output of the rules",
                expected=", ".join(_call(column) for column in known) or "no outputs",
                help="correct the name, or leave this output out of y=",
            )
    found = {}
    for column in sorted(wanted):
        places = [
            i for i, entry in enumerate(y.entries) if _is_output(contract.columns[column], entry)
        ]
        if len(places) != 1:
            raise LayoutError(
                f"the rules read the output `{contract.columns[column].name}`, but y= "
                f"{'names it twice' if places else 'does not name it'}",
                expected=_call(contract.columns[column]),
                received=", ".join(
                    f"{entry.kind} {entry.name} {entry.category}".strip() for entry in y.entries
                )
                or "nothing",
                help="name the output once in y="
                if places
                else "add the output to y=, at its place in the answers of the model",
            )
        found[column] = places[0]
        entry = y.entries[places[0]]
        if entry.kind in ("probability", "logit") and contract.columns[column].unit not in NO_UNIT:
            name, unit = contract.columns[column].name, contract.columns[column].unit
            raise LayoutError(
                f"output `{name}` is in {unit}, and y= says that it is a probability",
                expected=_call(contract.columns[column]),
                received=f"{entry.kind} {entry.name}",
                help="give y= the output with its kind, as expected above",
            )
    return found


def _is_output(column: Column, entry: Output) -> bool:
    if (column.type == "score") != (entry.kind == "score"):
        return False
    if entry.kind == "score":
        return column.label == entry.name and column.category == entry.category
    return entry.name in (column.name, column.source)


def _call(column: Column) -> str:
    if column.type == "score":
        return f"fedkg.scores({column.label!r}, [..., {column.category!r}, ...])"
    if column.unit not in NO_UNIT:
        return f"fedkg.columns([{column.name!r}])"
    return (
        f"fedkg.probability({column.name!r}), fedkg.logit({column.name!r}) or "
        f"fedkg.columns([{column.name!r}])"
    )


def _hint(text: str, name: str, known: Iterable[str]) -> str:
    near = nearest_name(name, known)
    return f"{text} (did you mean `{near}`?)" if near and near != name else text


def _raised_feature(pack: Pack, view: int, x: InputLayout) -> int:
    """The feature that a raised view raises; -1 for views of other kinds.

    Raises LayoutError when the model does not see it.
    """
    reading = pack.manifest.contract.views[view]
    if reading.kind != "raised" or reading.column is None:
        return -1
    found = _find_features(pack.manifest.contract, [reading.column], x)[reading.column]
    if found < 0:
        name = pack.manifest.contract.columns[reading.column].name
        raise LayoutError(
            f"a rule compares the model's answers as `{name}` rises, but x= has no such feature",
            received=", ".join(x.names),
            help=f"add `{name}` to the names of x=fedkg.columns([...]), or remove the rule",
        )
    return found
