"""Registers the columns whose texts select table rows."""

from __future__ import annotations

from dataclasses import replace

from fedkg_compiler.column_registry import Book, BookColumn
from fedkg_compiler.ir import Program


def register_keys(program: Program) -> Program:
    """Add the key columns of all rows to the columns, and the texts that select rows to their
    vocabulary.
    """
    book = Book(program.columns)
    pairs = {
        pair for part in (*program.rows, *program.conditions) for row in part.keys for pair in row
    }
    names = {column.source: column.name for column in book.columns if column.type == "category"}
    keys: dict[str, int] = {}
    for header, text in sorted(pairs):
        if header not in keys:
            name = names.get(header, header)
            keys[header] = book.column(BookColumn(name=name, source=header, type="category"))
        book.say(keys[header], text)
    return replace(program, columns=replace(book.freeze(), keys=keys))
