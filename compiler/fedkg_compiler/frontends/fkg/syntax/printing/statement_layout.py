"""Layout of statements: on one line if it fits, else with indented options below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from fedkg_compiler.frontends.fkg.syntax.printing.clauses import StatementParts
from fedkg_compiler.frontends.fkg.syntax.printing.conditions import WIDTH

_INDENT = "  "
DECLARATION = 120
"""The width of a line that declares a signal: a table of them is read down its columns, and seldom
to its end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A comment inside a statement.

    Attributes:
        clause: the index of the clause before it, -1 for the first words.
        own: whether it has a separate line.
    """

    clause: int
    text: str
    own: bool


@dataclass(slots=True, kw_only=True)
class Block:
    """The lines of one statement; those of one line keep their cells until they are aligned with
    their neighbours'.
    """

    lines: list[str]
    cells: tuple[str, ...] = ()
    remark: str = ""
    below: list[str] = field(default_factory=list)


def block(statement: StatementParts, remarks: Sequence[Remark] = ()) -> Block:
    """The lines of a statement."""
    flat = [clause.flat() for clause in statement.clauses]
    one = statement.gap.join([statement.first, *flat])
    room = DECLARATION if statement.columns else WIDTH
    if not remarks and not statement.tall and "\n" not in one and len(one) <= room:
        return Block(lines=[one], cells=(statement.first, *flat) if statement.columns else ())
    lines = [statement.first]
    _add(lines, remarks, -1)
    open_line = False
    for place, clause in enumerate(statement.clauses):
        shared = (
            open_line
            and clause.shares
            and len(lines[-1]) + len(statement.gap) + len(flat[place]) <= WIDTH
        )
        if shared:
            lines[-1] += statement.gap + flat[place]
        else:
            lines += (_INDENT + clause.lines()).split("\n")
        commented = _add(lines, remarks, place)
        open_line = clause.shares and not commented
    return Block(lines=lines)


def _add(lines: list[str], remarks: Sequence[Remark], place: int) -> bool:
    """Put the comments behind a clause; whether there were any."""
    found = [remark for remark in remarks if remark.clause == place]
    for remark in found:
        if remark.own or "#" in lines[-1].rpartition('"')[2]:
            lines.append(_INDENT + remark.text)
        else:
            lines[-1] += "  " + remark.text
    return bool(found)


def align(blocks: Sequence[Block]) -> None:
    """Put the clauses of neighbouring declarations below each other, where every line still has
    room.
    """
    run: list[Block] = []
    for one in [*blocks, None]:
        if one is not None and one.cells:
            run.append(one)
        if one is None or not one.cells or one.below:
            _align(run)
            run = []


def _align(run: Sequence[Block]) -> None:
    if len(run) < 2:
        return
    names = max(len(one.cells[0]) for one in run)
    widths = {
        word: _widths([one.cells for one in run if _kind(one) == word])
        for word in {_kind(one) for one in run}
    }
    rows = [_row(one.cells, [names, *widths[_kind(one)][1:]]) for one in run]
    if max(map(len, rows)) <= DECLARATION:
        for one, row in zip(run, rows, strict=True):
            one.lines = [row]


def _kind(one: Block) -> str:
    """Return the kind of a declaration, which determines its columns."""
    return one.cells[0].split(" ", 1)[0]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(map(len, column)) for column in zip_longest(*(row[:-1] for row in rows), fillvalue="")
    ]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
    return "  ".join([*padded, cells[-1]])
