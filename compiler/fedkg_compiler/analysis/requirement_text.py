"""What a bound row requires, in words: short with signs (``torque >= 70 N.m``), or as a sentence
(``torque is at least 70 N.m``).

This is for authors: numbers have units, members are named one by one, and nobody reads it back.
`fedkg.pack.formula_text` prints for those who look into a pack, with every digit and as near to the
rule language as it can, skeletons without rows among it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from fedkg.pack import (
    And,
    AtLeast,
    Bank,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    MemberTable,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
    formula_writer_protocol,
)
from fedkg.pack.formula_writer_protocol import Writer, duration_text
from fedkg.pack.formulas import ROWS, everywhere
from fedkg.pack.term_scale import scale_unit

SIGNS = {"le": ("<=", ">="), "lt": ("<", ">"), "eq": ("==", "=="), "ne": ("!=", "!=")}
COMPARISON_WORDS = {
    "le": ("is at most", "is at least"),
    "lt": ("is below", "is above"),
    "eq": ("equals", "equals"),
    "ne": ("differs from", "differs from"),
}
COUNTED = {
    "le": ("at most", "at least"),
    "lt": ("fewer than", "more than"),
    "eq": ("exactly", "exactly"),
    "ne": ("any number but", "any number but"),
}
LOOSE, PRODUCT, TIGHT = range(3)
HIDDEN_UNITS = ("probability", "1")
"""Units that say nothing behind a number."""
FEW = 3
"""At most this number of members is named."""


def clause(pack: Pack, bank: Bank, row: int, part: Formula | None = None) -> str:
    """What a bound row, or a part of its formula, asks for, with signs: ``if speed > 2000 rpm then
    failure >= 0.5``.
    """
    return _at(pack, bank, row, as_sentence=False).formula(
        bank.skeleton if part is None else part, outer=True
    )


def sentence(pack: Pack, bank: Bank, row: int, part: Formula | None = None) -> str:
    """The same as a sentence without its end: ``whenever speed is above 2000 rpm, failure is at
    least 0.5``.
    """
    return _at(pack, bank, row, as_sentence=True).formula(
        bank.skeleton if part is None else part, outer=True
    )


def plain_number(value: float) -> str:
    """A number without the noise of conversions: ``70``, ``0.1``."""
    return f"{value:.12g}"


def _at(pack: Pack, bank: Bank, row: int, *, as_sentence: bool) -> _RowText:
    return _RowText(
        pack=pack,
        bank=bank,
        table=ROWS,
        row=row,
        unit=pack.manifest.units[int(bank.unit[row])],
        as_sentence=as_sentence,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowText:
    """Formats one row of a bank or of a member table."""

    pack: Pack
    bank: Bank
    table: int
    row: int
    unit: str
    as_sentence: bool

    @property
    def readers(self) -> Bank | MemberTable:
        return self.bank if self.table == ROWS else self.bank.members[self.table]

    def number(self, param: int) -> float:
        return float(self.readers.params[self.row, param])

    def slot(self, index: int) -> str:
        contract = self.pack.manifest.contract
        name = contract.columns[int(self.readers.slots[self.row, index])].name
        view = contract.views[int(self.readers.views[self.row, index])]
        if view.kind == "previous":
            return f"previous {name}"
        if view.kind == "raised" and view.column is not None:
            raised = contract.columns[view.column]
            return (
                f"{name} (with {raised.name} higher by "
                f"{plain_number(view.delta)}{' ' + raised.unit if raised.unit else ''})"
            )
        return name

    def members(self, table: int) -> list[_RowText]:
        offsets = self.bank.members[table].offsets
        return [
            replace(self, table=table, row=member)
            for member in range(int(offsets[self.row]), int(offsets[self.row + 1]))
        ]

    def constant(self, formula: Formula) -> bool | None:
        """Whether a formula that reads nothing holds: some have such parts, for members that are
        only counted; None of others.
        """
        match formula:
            case Compare(op="le", left=Param() as left, right=Param() as right, tolerance=None):
                return self.number(left.index) <= self.number(right.index)
            case Not():
                found = self.constant(formula.arg)
                return None if found is None else not found
            case AtLeast():
                parts = [member.constant(formula.arg) for member in self.members(formula.members)]
                wanted = len(parts) if formula.count is None else self.number(formula.count)
                return None if None in parts else parts.count(True) >= wanted
            case And() | Or():
                truths = [self.constant(arg) for arg in formula.args]
                decides = isinstance(formula, Or)
                return decides if decides in truths else None if None in truths else not decides
            case _:
                return None

    def formula(self, formula: Formula, *, outer: bool = False) -> str:
        match formula:
            case Compare():
                return self._compare(formula)
            case ClassIn():
                return self._class_in(formula)
            case CategoryIs():
                column = self.pack.manifest.contract.columns[
                    int(self.readers.slots[self.row, formula.slot])
                ]
                code = int(self.number(formula.param))
                return (
                    f"{self.slot(formula.slot)} is "
                    f"{column.vocabulary[code] if 0 <= code < len(column.vocabulary) else code}"
                )
            case Known():
                return f"{self.slot(formula.slot)} is known"
            case Not():
                return self._denied(formula)
            case And() | Or():
                word = " and " if isinstance(formula, And) else " or "
                parts = [arg for arg in formula.args if self.constant(arg) is None] or formula.args
                text = word.join(self.formula(arg, outer=len(parts) == 1) for arg in parts)
                return text if outer or len(parts) == 1 else f"({text})"
            case Implies():
                first, then = (
                    self.formula(formula.antecedent, outer=True),
                    self.formula(formula.consequent, outer=True),
                )
                text = (
                    f"whenever {first}, then {then}"
                    if self.as_sentence
                    else f"if {first} then {then}"
                )
                return text if outer else f"({text})"
            case AtLeast():
                return self._at_least(formula)
            case Temporal():
                return self._temporal(formula)
            case Until():
                return self._until(formula)
            case Initially():
                return f"at the first step {self.formula(formula.arg)}"
            case _:
                return formula.text(_AsWriter(self), outer=outer)

    def _denied(self, formula: Not) -> str:
        arg = formula.arg
        if isinstance(arg, CategoryIs):
            return self.formula(arg).replace(" is ", " is not ", 1)
        if isinstance(arg, Known):
            return f"{self.slot(arg.slot)} is not known"
        if isinstance(arg, And) and len(arg.args) == 2 and self._asks_for_step(arg.args[0]):
            return f"not ({self.formula(arg.args[1], outer=True)})"
        if isinstance(arg, Temporal) and self._asks_for_step(arg) and self.number(arg.low) == 1:
            return f"this is the {'first' if arg.op == 'once' else 'last'} step"
        return f"not ({self.formula(arg, outer=True)})"

    def _asks_for_step(self, formula: Formula) -> bool:
        """Whether a formula says no more than that there is an earlier or a later step, as `begins`
        and `at the end` do.
        """
        return (
            isinstance(formula, Temporal)
            and formula.op in ("once", "eventually")
            and self.number(formula.high) < 0
            and self.constant(formula.arg) is True
        )

    def _compare(self, atom: Compare) -> str:
        left, right, way = self._without_nothing(atom.left), self._without_nothing(atom.right), 0
        if _fixed(left) and not _fixed(right):
            left, right, way = right, left, 1
        if _counts(left) and isinstance(right, Param) and atom.tolerance is None:
            return self._count(left, COUNTED[atom.op][way], plain_number(self.number(right.index)))
        unit = self._unit(left, right)
        sign = (COMPARISON_WORDS if self.as_sentence else SIGNS)[atom.op][way]
        text = f"{self.term(left, unit)} {sign} {self.term(right, unit)}"
        if atom.tolerance is None:
            return text
        tolerance = self.term(atom.tolerance, self.unit or unit)
        return (
            f"{text}, give or take {tolerance}" if self.as_sentence else f"{text} +/- {tolerance}"
        )

    def _conditions(self, term: Reduce) -> list[str]:
        """What is counted, member by member."""
        assert isinstance(term.arg, Choose)
        return [
            member.formula(term.arg.condition, outer=True) for member in self.members(term.members)
        ]

    def _count(self, term: Reduce, much: str, number: str) -> str:
        """``at least 1 of 2 of these hold: p[A] is known; p[B] is known``."""
        texts = self._conditions(term)
        if len(texts) == 1 and (much, number) in (("at least", "1"), ("more than", "0")):
            return texts[0]
        return f"{much} {number} of {len(texts)} of these hold: {_list_some(texts, '; ')}"

    def _unit(self, *sides: Term) -> str:
        """The unit of bare numbers in a comparison: of the column beside them, else of the scale
        of a side, else of the row's margin.
        """
        columns = self.pack.manifest.contract.columns
        bare = [
            columns[int(self.readers.slots[self.row, side.index])].unit
            for side in sides
            if isinstance(side, Slot)
        ]
        scales = (
            unit
            for side in sides
            if (unit := scale_unit(columns, self.bank, self.row, side, self.table))
        )
        unit = bare[0] if bare else next(scales, self.unit)
        return "" if unit in HIDDEN_UNITS else unit

    def _class_in(self, atom: ClassIn) -> str:
        columns = self.pack.manifest.contract.columns
        inside = [columns[int(self.readers.slots[self.row, i])] for i in atom.inside]
        anyone = [
            columns[int(self.readers.slots[self.row, i])] for i in (*atom.inside, *atom.outside)
        ]
        label = anyone[0].label if anyone else "the class"
        return (
            f"{label} is "
            f"{' or '.join(column.category for column in inside) or 'none of its classes'}"
        )

    def _at_least(self, formula: AtLeast) -> str:
        members = self.members(formula.members)
        if not members:
            return (
                "nothing is required, because the set has no members"
                if formula.count is None
                else "members are asked for, and there are none"
            )
        texts = _list_some([member.formula(formula.arg, outer=True) for member in members], "; ")
        size = len(members)
        much = (
            f"all {size}"
            if formula.count is None
            else f"at least {int(self.number(formula.count))} of {size}"
        )
        return f"{much} of these hold: {texts}" if size > 1 else texts

    def _steps(self, low: int, high: int, *, back: bool) -> str:
        """``within the next 24 steps (2 h)``."""
        step = self.pack.manifest.contract.step
        first, last = (_duration(steps, step) for steps in (low, high))
        way = "ago" if back else "from now"
        if high < 0 and low == 0:
            return f"any time {'before' if back else 'later'}"
        if high < 0:
            return f"{first} {'or longer ago' if back else 'from now or later'}"
        if low == high:
            return f"{first} {way}" if low else "now"
        past = "the last" if back else "the next"
        return f"{past} {last}" if low == 0 else f"{first} to {last} {way}"

    def _temporal(self, formula: Temporal) -> str:
        back = formula.op in ("historically", "once")
        low, high = int(self.number(formula.low)), int(self.number(formula.high))
        when = self._steps(low, high, back=back)
        if self._asks_for_step(formula):
            return f"the trace has a step {when}"
        arg = self.formula(formula.arg)
        if low == high:
            return f"{when} {arg}"
        if formula.op in ("always", "historically"):
            return (
                f"at every step of {when} {arg}" if high >= 0 else f"at every step, {when}, {arg}"
            )
        return f"at some step of {when} {arg}" if high >= 0 else f"at some step, {when}, {arg}"

    def _until(self, formula: Until) -> str:
        back = formula.op == "since"
        when = self._steps(int(self.number(formula.low)), int(self.number(formula.high)), back=back)
        word = "ever since" if back else "until"
        return (
            f"{self.formula(formula.left)} {word} {self.formula(formula.right)}, which "
            f"is so within {when}"
        )

    def term(self, term: Term, unit: str = "", around: int = LOOSE) -> str:
        """Format a term; a bare number is followed by `unit`."""
        match term:
            case Slot():
                return self.slot(term.index)
            case Param():
                return plain_number(self.number(term.index)) + (f" {unit}" if unit else "")
            case Sum():
                plain = self._without_nothing(term)
                if not isinstance(plain, Sum):
                    return self.term(plain, unit, around)
                first, *rest = plain.args
                added = " ".join(self._added(arg) for arg in rest)
                return _within(f"{self.term(first)} {added}", LOOSE, around)
            case Product():
                return _within(
                    " * ".join(self.term(arg, "", PRODUCT) for arg in term.args), PRODUCT, around
                )
            case Quotient():
                return _within(
                    f"{self.term(term.numerator, '', PRODUCT)} / "
                    f"{self.term(term.denominator, '', TIGHT)}",
                    PRODUCT,
                    around,
                )
            case Negate():
                return f"-{self.term(term.arg, '', TIGHT)}"
            case Power():
                return _within(
                    f"{self.term(term.base, '', TIGHT)}^{plain_number(term.exponent)}",
                    PRODUCT,
                    around,
                )
            case Call():
                return f"{term.function}({', '.join(self.term(arg) for arg in term.args)})"
            case Reduce():
                return self._reduce(term)
            case Choose():
                parts = [
                    self.formula(term.condition, outer=True),
                    self.term(term.then),
                    self.term(term.otherwise),
                ]
                return f"({parts[1]} where {parts[0]}, else {parts[2]})"
            case Coalesce():
                args = [arg for arg in term.args if not self._never_known(arg)] or term.args
                return (
                    self.term(args[0], unit, around)
                    if len(args) == 1
                    else f"the first known of ({', '.join(map(self.term, args))})"
                )
            case _:
                text, level = term.text(_AsWriter(self))
                own = LOOSE if level < formula_writer_protocol.PRODUCT else PRODUCT
                return _within(
                    text, TIGHT if level > formula_writer_protocol.PRODUCT else own, around
                )

    def _without_nothing(self, term: Term) -> Term:
        """A sum without the sums and counts of no members, which are 0."""
        if not isinstance(term, Sum):
            return term
        kept = tuple(
            arg
            for arg in term.args
            if not (
                isinstance(arg, Reduce)
                and arg.op in ("sum", "count")
                and not self.members(arg.members)
            )
        )
        return Sum(args=kept) if len(kept) > 1 else (kept or term.args)[0]

    def _never_known(self, term: Term) -> bool:
        """Whether a term is the least, the greatest or the mean of no members, or made of such."""
        if isinstance(term, Call):
            return any(self._never_known(arg) for arg in term.args)
        return (
            isinstance(term, Reduce)
            and term.op in ("min", "max", "mean")
            and not self.members(term.members)
        )

    def _added(self, term: Term) -> str:
        """A further summand with its sign."""
        if isinstance(term, Negate):
            return f"- {self.term(term.arg, '', PRODUCT)}"
        if isinstance(term, Param) and self.number(term.index) < 0:
            return f"- {plain_number(-self.number(term.index))}"
        return f"+ {self.term(term)}"

    def _reduce(self, term: Reduce) -> str:
        if _counts(term):
            return f"the number that hold of ({_list_some(self._conditions(term), '; ')})"
        arg = term.arg
        if (
            isinstance(arg, Choose)
            and isinstance(arg.otherwise, Quotient)
            and _fixed(arg.otherwise)
        ):  # left out where it does not hold
            members = self.members(term.members)
            texts = [
                f"{member.term(arg.then)} where {member.formula(arg.condition, outer=True)}"
                for member in members
            ]
        else:
            texts = [member.term(arg) for member in self.members(term.members)]
        what = {
            "sum": "the sum",
            "mean": "the mean",
            "min": "the least",
            "max": "the greatest",
            "count": "the number",
        }[term.op]
        return f"{what} of ({_list_some(texts, ', ')})" if texts else f"{what} of nothing"


@dataclass(frozen=True, slots=True)
class _AsWriter:
    """Formats a node without words of its own here, with the names of `row_text`."""

    row_text: _RowText

    def slot(self, index: int, letter: str = "x") -> str:
        return self.row_text.slot(index)

    def param(self, index: int) -> str:
        return plain_number(self.row_text.number(index))

    def category(self, slot: int, param: int) -> str:
        words = self.row_text.formula(CategoryIs(slot=slot, param=param))
        return words.removeprefix(f"{self.row_text.slot(slot)} is ")

    def window(self, low: int, high: int) -> str:
        ends = (int(self.row_text.number(end)) for end in (low, high))
        return self.row_text._steps(*ends, back=False)

    def duration(self, steps: int) -> str:
        step = self.row_text.pack.manifest.contract.step
        return _duration(int(self.row_text.number(steps)), step)

    def over(self, table: int) -> str:
        return f"over {len(self.row_text.members(table))} members"

    def inside(self, table: int) -> Writer:
        return _AsWriter(replace(self.row_text, table=table, row=0))

    def term(self, term: Term, around: int = formula_writer_protocol.OPEN) -> str:
        loose = LOOSE if around < formula_writer_protocol.PRODUCT else PRODUCT
        return self.row_text.term(
            term, "", TIGHT if around > formula_writer_protocol.PRODUCT else loose
        )

    def formula(self, formula: Formula, *, outer: bool = False) -> str:
        return self.row_text.formula(formula, outer=outer)


def _within(text: str, level: int, around: int) -> str:
    return text if level >= around else f"({text})"


def _counts(term: Term) -> TypeGuard[Reduce]:
    """Whether a term counts the members that satisfy a condition: 1 per such member, else no
    value.
    """
    if not isinstance(term, Reduce) or term.op != "count" or not isinstance(term.arg, Choose):
        return False
    return (
        _fixed(term.arg.then)
        and isinstance(term.arg.otherwise, Quotient)
        and _fixed(term.arg.otherwise)
    )


def _fixed(term: Term) -> bool:
    return not any(
        isinstance(part, Slot | Known | CategoryIs | ClassIn) for _, part in everywhere(term)
    )


def _list_some(texts: Sequence[str], between: str) -> str:
    more = len(texts) - FEW
    return between.join(texts[:FEW]) + (f"{between}and {more} more" if more > 0 else "")


def _duration(steps: int, step: float | None) -> str:
    """``2 h (24 steps)``; without the time where it is not known."""
    plain = f"{steps} step{'' if steps == 1 else 's'}"
    return f"{duration_text(steps * step)} ({plain})" if step and steps else plain
