"""The syntax tree back to text, in the one form that all rule files share: `print_file`,
`print_statement`, `canonical`.
"""

from __future__ import annotations

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.fkg.syntax.parser import parse
from fedkg_compiler.frontends.fkg.syntax.printing.clauses import StatementParts, laid
from fedkg_compiler.frontends.fkg.syntax.printing.comments import TextOffsets, remarks
from fedkg_compiler.frontends.fkg.syntax.printing.statement_layout import (
    Block,
    Remark,
    align,
    block,
)
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import left_edge, plain_text
from fedkg_compiler.frontends.fkg.syntax.tree import RuleFile, Statement

__all__ = ["canonical", "print_file", "print_statement"]


def canonical(text: str, file: str) -> tuple[str | None, tuple[Diagnostic, ...]]:
    """The canonical form of a rule file's text, or None with its syntax errors.

    Line ends stay what the first of them is; the byte order mark goes.
    """
    plain = plain_text(text)
    tree, problems = parse(plain.replace("\r\n", "\n"), file)
    if problems:
        return None, parse(text, file)[1]
    printed = print_file(tree)
    return (printed.replace("\n", "\r\n") if "\r\n" in plain else printed), ()


def print_statement(statement: Statement) -> str:
    """One statement as text, without the comments inside it; its lines have no line end behind the
    last.
    """
    return "\n".join(block(laid(statement)).lines)


def print_file(file: RuleFile) -> str:
    """All statements of a file that parsed, with its comments; `file.text` has the line ends
    ``\\n``.

    A comment behind a clause stays behind it. A statement with a comment in the middle of a clause
    is left as it is.
    """
    places = TextOffsets(file.text)
    edge = left_edge(file.text)
    blocks: list[Block] = []
    cut = 0
    for statement in file.statements:
        start, end = places.span_offsets(statement.span)
        _between(blocks, file.text[cut:start], edge, first=not blocks)
        blocks.append(_block(statement, file.text, places, edge))
        cut = end
    _between(blocks, file.text[cut:], edge, first=not blocks)
    align(blocks)
    lines: list[str] = []
    for one in blocks:
        shown = [*one.lines]
        if one.remark:
            shown[-1] += "  " + one.remark
        lines += [*shown, *one.below]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n" if lines else ""


def _block(statement: Statement, text: str, places: TextOffsets, edge: str) -> Block:
    """Return a statement with its comments, or unchanged if they fit nowhere in canonical form."""
    start, end = places.span_offsets(statement.span)
    written = text[start:end]
    if "#" not in written:
        return block(laid(statement))
    form = laid(statement)
    spans = [places.span_offsets(clause.span) if clause.span else None for clause in form.clauses]
    found = remarks(
        written, [(span[0] - start, span[1] - start) if span else None for span in spans]
    )
    if found is not None:
        return _with_remarks(form, found)
    return Block(lines=[line.removeprefix(edge).rstrip() for line in written.split("\n")])


def _with_remarks(form: StatementParts, found: list[Remark]) -> Block:
    """Return a statement with its inner comments; those of the last clause follow the statement."""
    last = len(form.clauses) - 1
    one = block(form, [remark for remark in found if remark.clause != last])
    one.remark = "  ".join(
        remark.text for remark in found if remark.clause == last and not remark.own
    )
    one.below = ["  " + remark.text for remark in found if remark.clause == last and remark.own]
    return one


def _between(blocks: list[Block], text: str, edge: str, *, first: bool) -> None:
    """Return the comments between two statements, with single blank lines."""
    beside, *lines = text.split("\n")
    if first:
        lines = [beside, *lines]
    if lines and not lines[-1].strip():
        lines.pop()  # the indentation of the next statement, or the end of the file
    shown: list[str] = []
    for line in lines:
        kept = line.removeprefix(edge)
        comment = kept.strip()
        if comment or (shown[-1] if shown else not first):
            shown.append("  " + comment if comment and kept[:1].isspace() else comment)
    if not first:
        blocks[-1].remark = "  ".join(filter(None, [blocks[-1].remark, beside.strip()]))
        blocks[-1].below += shown
    elif shown:
        blocks.append(Block(lines=shown[:1], below=shown[1:]))
