"""What one rule asks for: in words, with its formula, where its numbers come from, and values that
keep and break it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import UsageError
from fedkg.pack import Bank, Compare, Pack
from fedkg.pack.formula_text import row_text
from fedkg.pack.formulas import ROWS, everywhere, is_temporal
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.evidence_comment_reader import read_evidence
from fedkg_compiler.analysis.pack_difference import values_text
from fedkg_compiler.analysis.requirement_text import plain_number, sentence
from fedkg_compiler.analysis.single_column_bounds import (
    Bounds,
    RowTable,
    between,
    find_bounds,
    point_of,
)
from fedkg_compiler.analysis.verdict import Reading, RowRef, Witness
from fedkg_compiler.formulas.formula_algebra import implications
from fedkg_compiler.frontends.fkg.binding.signal_columns import variables_in
from fedkg_compiler.frontends.fkg.syntax.parser import parse
from fedkg_compiler.frontends.fkg.syntax.tree import InClass, InQuery, InTable, Pattern, Rule

OWN = "its numbers are written in the rule itself"
Replay = Callable[[RowRef, Witness], str]
"""What the interpreter says of a row at a witness: ``satisfied``, ``violated`` or ``unknown``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Values that a rule accepts or refuses, as text and as numbers.

    `replayed`: the interpreter says so too.
    """

    text: str
    values: Witness
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What one rule asks for.

    Attributes:
        rule: the name of the rule.
        title: the title of the rule.
        words: a sentence that says what the rule requires of `entity`.
        formula: the compiled constraint for `entity`, as text.
        entity: the name of the entity that the description is about.
        entities: the names of all entities of the rule.
        rows: the number of bound rows of the rule.
        about: whether the rule is about the data or about the predictions of the model, as text.
        numbers: sentences that say where the numbers of the rule come from.
        keeps: values that satisfy the rule; None if none were found.
        breaks: values that violate the rule; None if none were found.
        evidence: labels and texts of an accepted suggestion: its evidence, data, run and reviewer.
    """

    rule: str
    title: str
    words: str
    formula: str
    entity: str
    entities: tuple[str, ...]
    rows: int
    about: str
    numbers: tuple[str, ...]
    keeps: Example | None
    breaks: Example | None
    evidence: tuple[tuple[str, str], ...] = ()

    def lines(self) -> Iterator[str]:
        """The description as `fedkg explain` prints it."""
        yield f"{self.rule}: {self.title}" if self.title else self.rule
        where = f" (here {self.entity})" if self.entity else ""
        rows = f"{self.rows:,} bound row{'' if self.rows == 1 else 's'}"
        yield f"  about     {self.about}, {rows}{where}"
        yield f"  requires  {self.words}"
        yield f"  formula   {self.formula}"
        for line in self.numbers:
            yield f"  numbers   {line}"
        for label, text in self.evidence:
            yield f"  {label:<9} {text}"
        for kind, example in (("satisfied", self.keeps), ("violated", self.breaks)):
            yield f"  {kind:<9} {example.text if example else 'no example was found'}"


def describe(pack: Pack, rule: str, entity: str = "", replay: Replay | None = None) -> Description:
    """What a rule asks for, of one entity: the named one, else the first.

    Raises UsageError for a rule or entity that is not there.
    """
    names = [record.name for record in pack.manifest.rules]
    if rule not in names:
        raise UsageError(f"rule `{rule}` does not exist", help=_meant(rule, names, "rules"))
    table = RowTable(pack)
    rows = np.flatnonzero(table.rule == names.index(rule)).tolist()
    entities = list(dict.fromkeys(name for row in rows if (name := table.entity_name(row))))
    chosen = [row for row in rows if not entity or _is_about(entity, table.entity_name(row))]
    if not chosen:
        raise UsageError(
            f"rule `{rule}` is not about `{entity}`",
            help=_meant(entity, entities, "entities of the rule")
            if entities
            else "leave the entity out: the rule is not about single entities",
        )
    row, record = chosen[0], pack.manifest.rules[names.index(rule)]
    ref = table.ref(row)
    bank = pack.banks[ref.bank]
    bounds = find_bounds(table)
    keeps, breaks = (None, None) if bounds.dead[row] else _examples(table, bounds, row, replay)
    return Description(
        rule=rule,
        title=record.title,
        words=sentence(pack, bank, ref.row),
        formula=row_text(pack, bank, ref.row),
        entity=table.entity_name(row),
        entities=tuple(entities),
        rows=len(rows),
        about="what the model predicts" if record.output else "the data",
        numbers=tuple(
            _origins(table, rows, record.text)
            if record.file.endswith(".fkg") or not record.file
            else [f"its numbers are written in {record.file} or come from the graph"]
        ),
        keeps=keeps,
        breaks=breaks,
        evidence=read_evidence(record.text),
    )


def _is_about(entity: str, name: str) -> bool:
    return entity.casefold() in (name.casefold(), *(part.casefold() for part in name.split(", ")))


def _meant(name: str, known: Sequence[str], what: str) -> str:
    near = nearest_name(name, list(known))
    if near:
        return f"did you mean `{near}`?"
    shown = ", ".join(known[:8]) + (" ..." if len(known) > 8 else "")
    return f"the {what} are: {shown}" if known else f"there are no {what}"


def _origins(table: RowTable, rows: Sequence[int], text: str) -> list[str]:
    """Where a rule's numbers come from, as far as its text tells."""
    [*statements] = parse(text, "")[0].statements if text else ()
    rule = statements[0] if len(statements) == 1 else None
    if not isinstance(rule, Rule) or rule.quantifier is None:
        return _without_variables(table, rows, text)
    body = _body(text, rule)
    names = ["?" + word.text.removeprefix("?") for word in rule.quantifier.variables]
    numbers = {"?" + name.removeprefix("?") for name in variables_in(rule.formula)[0]}
    used = [
        name
        for name in names
        if name in numbers or re.search(rf"(?<!\(){re.escape(name)}(?!\w)", body)
    ]
    if not used:
        return []
    source = f"{', '.join(used)}: from {_source(rule.quantifier.source)}, for each of its entities"
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(_units(table, row), []).append(row)
    return [
        source,
        *(
            f"in {units}: {line}" if len(groups) > 1 and units else line
            for units, mine in groups.items()
            if (line := _ranges(table, mine, body, used))
        ),
    ]


def _units(table: RowTable, row: int) -> str:
    """The units of the columns that a row reads, in which its numbers are."""
    ref, columns = table.ref(row), table.pack.manifest.contract.columns
    slots = table.banks[ref.bank].slots[ref.row].tolist()
    return ", ".join(dict.fromkeys(unit for slot in slots if (unit := columns[slot].unit)))


def _ranges(table: RowTable, rows: Sequence[int], body: str, used: Sequence[str]) -> str:
    """What numbers rows in the same units have for the used variables; "" where it is not told."""
    found = _values(table, rows)
    moving = [values for values in found if len(values) > 1]
    alone = all(
        re.search(rf"[-+*/^(]\s*{re.escape(name)}(?!\w)|{re.escape(name)}\s*[-+*/^)]", body) is None
        for name in used
    )
    own = _values_of(table, rows, body, used) if alone and len(used) > 1 else {}
    if own:
        ranges = [
            f"{name} {'ranges over' if len(values) > 1 else 'is'} {_range(values)}"
            for name, values in own.items()
        ]
        return "; ".join(ranges)
    if moving:
        ranges = [_range(values) for values in moving[:4]]
        return (
            f"{'they range' if alone else 'the numbers made from them range'} over "
            f"{'; '.join(ranges)}"
        )
    if alone and len(used) == len(found) == 1:
        return f"{used[0]} is {plain_number(found[0][0])}"
    return ""


def _range(values: Sequence[float]) -> str:
    return " .. ".join(dict.fromkeys(plain_number(value) for value in (values[0], values[-1])))


def _values_of(
    table: RowTable, rows: Sequence[int], body: str, used: Sequence[str]
) -> dict[str, list[float]]:
    """The distinct numbers of each variable, where a formula's text names one number for each
    parameter, in order; {} where it does not.
    """
    said = re.findall(r"\?\w+|(?<![\w.])\d[\d.]*(?:[eE][+-]?\d+)?", re.sub(r'"[^"]*"', "", body))
    found: dict[str, set[float]] = {name: set() for name in used}
    for bank, params in _params(table, rows):
        if len(params) != len(said) or bank.members:
            return {}
        for word, values in zip(said, params, strict=True):
            if word in found:
                found[word].update(values)
            elif len(set(values)) > 1:
                return {}
    if not all(values and all(map(math.isfinite, values)) for values in found.values()):
        return {}
    return {name: sorted(values) for name, values in found.items()}


def _params(table: RowTable, rows: Sequence[int]) -> Iterator[tuple[Bank, list[list[float]]]]:
    """Each bank of these rows, and the rows' numbers for each of its parameters but scales, in
    order.
    """
    of_bank: dict[int, list[int]] = {}
    for ref in map(table.ref, rows):
        of_bank.setdefault(ref.bank, []).append(ref.row)
    for number, mine in of_bank.items():
        bank = table.banks[number]
        scales = {
            part.scale
            for where, part in everywhere(bank.skeleton)
            if where == ROWS and isinstance(part, Compare)
        }
        yield (
            bank,
            [bank.params[mine, i].tolist() for i in range(bank.params.shape[1]) if i not in scales],
        )


def _without_variables(table: RowTable, rows: Sequence[int], text: str) -> list[str]:
    """The same of a rule without a quantifier: its numbers are in its text, unless it ranges over
    members.
    """
    if not text:
        return []
    inner = any(table.banks[table.ref(row).bank].members for row in rows) or re.search(
        r"\bover\s+\?\w", text
    )
    return (
        ["its numbers are written in the rule itself or come from the graph with the members"]
        if inner
        else [OWN]
    )


def _body(text: str, rule: Rule) -> str:
    """The text of a rule's formula, without comments."""
    span = rule.formula.span
    lines = text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(line.split("#")[0] for line in lines)


def _source(source: Pattern | InClass | InTable | InQuery) -> str:
    match source:
        case InTable():
            return f"the sheet {source.path.text}"
        case InQuery():
            return f"the query {source.path.text}"
        case _:
            return "the graph"


def _values(table: RowTable, rows: Sequence[int]) -> list[list[float]]:
    """The distinct numbers of rows, for each of their parameters in order.

    Of those that are all finite.
    """
    values: dict[int, set[float]] = {}
    for _, params in _params(table, rows):
        for i, numbers in enumerate(params):
            values.setdefault(i, set()).update(numbers)
    return [
        sorted(found) for found in values.values() if all(math.isfinite(value) for value in found)
    ]


def _examples(
    table: RowTable, bounds: Bounds, row: int, replay: Replay | None
) -> tuple[Example | None, Example | None]:
    keeps, breaks = (
        _near_the_bounds(table, bounds, row)
        if bounds.plain[row] and not is_temporal(table.skeleton(row))
        else _solved(table, row)
    )
    kept = (
        _example(table, row, witness, "satisfied", replay, note)
        for witness, note in _candidates(table, bounds, row, keeps, holds=True)
    )
    broken = (
        _example(table, row, witness, "violated", replay, note)
        for witness, note in _candidates(table, bounds, row, breaks, holds=False)
    )
    return next(filter(None, kept), None), next(filter(None, broken), None)


def _example(
    table: RowTable, row: int, witness: Witness, expected: str, replay: Replay | None, note: str
) -> Example | None:
    """The witness as an example; None where the interpreter does not confirm it."""
    witness = _yes_or_no(table, witness)
    said = replay(table.ref(row), witness) if replay else ""
    text = values_text(table, witness, sorted(table.reads(row)))
    if not text or said not in ("", expected):
        return None
    return Example(text=text + note, values=witness, replayed=said == expected)


def _candidates(
    table: RowTable, bounds: Bounds, row: int, first: Witness | None, *, holds: bool
) -> Iterator[tuple[Witness, str]]:
    """Values that may keep or break a row, the simplest first, each with a note on them."""
    if first is not None:
        yield first, ""
    if (found := _sought(table, bounds, row, holds=holds)) is not None:
        yield found, ""
    if (beyond := _solved(table, row, spans=False)[0 if holds else 1]) is not None:
        yield beyond, " (outside the declared spans)"


def _sought(table: RowTable, bounds: Bounds, row: int, *, holds: bool) -> Witness | None:
    """Values or a trace that keep or break a row where the solver alone shows none."""
    from fedkg_compiler.analysis.branch_and_prune_search import WitnessSearch
    from fedkg_compiler.analysis.verdict import Condition

    keys, skeleton = table.keysets[int(table.keyset[row])], table.skeleton(row)
    asked = (
        [[Condition(row, part.antecedent, True)] for part in implications(skeleton)] + [[]]
        if holds
        else [[Condition(row, skeleton, False)]]
    )
    rows = [row] if holds else []
    for conditions in asked:
        search = WitnessSearch(table, bounds, Budget(), keys)
        found = search.find_witness(rows, conditions)
        if found is not None:
            return found
    return None


def _yes_or_no(table: RowTable, witness: Witness) -> Witness:
    """The witness with 0 or 1 for what is true or false: a solver and bounds may give any number on
    the same side of 0.5.
    """
    columns = table.pack.manifest.contract.columns
    return Witness(
        tuple(
            replace(one, value=float(one.value >= 0.5))
            if columns[one.column].type == "boolean"
            else one
            for one in witness.readings
        )
    )


def _near_the_bounds(
    table: RowTable, bounds: Bounds, row: int
) -> tuple[Witness | None, Witness | None]:
    """Values a plain step inside and outside one of the row's bounds: 59 and 61 where 60 is the
    limit.
    """
    keeping = point_of(table, bounds, [row])
    if keeping is None:
        return None, None
    ends = bounds.ends
    at = bounds.of(row)
    for i in at:
        number, sign = int(ends.variable[i]), int(ends.sign[i])
        limit = sign * float(ends.value[i]) + 0.0
        low, high = table.variables.items[number].span
        room = (high - limit) if sign > 0 else (limit - low)
        if room < 0 or (room == 0 and not ends.strict[i]):
            continue
        step = _step(limit, min(high - low, 4 * room) if room else high - low)
        inside, outside = _moved(limit, -sign, step), _moved(limit, sign, step) if room else limit
        asked = [
            (int(ends.sign[j]), float(ends.value[j]), bool(ends.strict[j]))
            for j in at
            if int(ends.variable[j]) == number
        ]
        floors = [(-end, strict) for way, end, strict in asked if way < 0] + [
            (max(low, inside), False)
        ]
        tops = [(end, strict) for way, end, strict in asked if way > 0] + [
            (min(high, inside), False)
        ]
        if not low <= outside <= high:
            continue
        better = between(floors, tops)
        return _put(table, keeping, number, inside if better is not None else None), _put(
            table, keeping, number, outside
        )
    return keeping, None


def _step(value: float, width: float) -> float:
    """A plain step beside a bound: a tenth of its leading digit's place (1 beside 60, 0.1 beside
    5), smaller than the span.
    """
    size = abs(value) or (width if math.isfinite(width) else 1.0)
    step = 10.0 ** (math.floor(math.log10(size)) - 1) if size > 0 else 1.0
    while math.isfinite(width) and width > 0 and step > width / 4:
        step /= 10
    return step


def _moved(value: float, way: int, step: float) -> float:
    digits = max(0, 2 - math.floor(math.log10(step))) if step > 0 else 0
    return round(value + way * step, min(digits, 15))


def _put(table: RowTable, witness: Witness, number: int, value: float | None) -> Witness:
    """The witness with another value of one variable."""
    if value is None:
        return witness
    places = {
        (view, column): shift for view, column, shift in table.variables.items[number].readings
    }
    return Witness(
        tuple(
            Reading(one.step, one.view, one.column, value + places[one.view, one.column])
            if (one.view, one.column) in places
            else one
            for one in witness.readings
        )
    )


def _solved(
    table: RowTable, row: int, *, spans: bool = True
) -> tuple[Witness | None, Witness | None]:
    """Values that keep a row, where it applies if it can, and values that break it.

    Inside the spans or anywhere.
    """
    from fedkg_compiler.analysis.z3_solver import Solver

    keys = table.keysets[int(table.keyset[row])]
    solver = Solver(table, [row], Budget(), keys=keys, spans=spans, whole=True)
    parts = implications(table.banks[int(table.bank[row])].skeleton)
    applies = [
        condition for part in parts if (condition := solver.part(row, part.antecedent)) is not None
    ]
    fails = solver.violated(row)
    keeps = breaks = None
    if solver.ask([row], *applies) == "yes" or solver.ask([row]) == "yes":
        keeps = solver.witness()
    if fails is not None and solver.ask([], fails) == "yes":
        breaks = solver.witness()
    return keeps, breaks
