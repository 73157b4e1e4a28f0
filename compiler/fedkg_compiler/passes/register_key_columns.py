"""Registers the columns whose texts select table rows."""

from __future__ import annotations

from dataclasses import replace

from fedkg_compiler.ir import Book, BookColumn, Program


def register_key_columns(program: Program) -> Program:
    """Add the key columns of all rows and members to the columns, and the texts that select rows to
    their vocabulary.
    """
    book = Book(program.columns)
    parts = (*program.rows, *program.conditions)
    of_members = (
        table.keys for part in parts for table in part.rows.members if table.keys is not None
    )
    selections = (*(part.keys for part in parts), *of_members)
    rows = {row for keys in selections for row in keys}
    pairs = {pair for row in rows for pair in row}
    names = {column.source: column.name for column in book.columns if column.type == "category"}
    keys: dict[str, int] = {}
    for header, text in sorted(pairs):
        if header not in keys:
            name = names.get(header, header)
            keys[header] = book.column(BookColumn(name=name, source=header, type="category"))
        book.say(keys[header], text)
    return replace(program, columns=replace(book.freeze(), keys=keys))
