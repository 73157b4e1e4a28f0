"""The files of the grammar and of the parser's table that is made from it."""

from __future__ import annotations

import hashlib
from pathlib import Path

GRAMMAR = Path(__file__).with_name("fkg.lark")
FILE = Path(__file__).with_name("fkg.table.json")
WORD_ENDS = r"\b"


def grammar_text() -> str:
    """The text of the reference grammar."""
    return GRAMMAR.read_text(encoding="utf-8")


def fingerprint() -> str:
    """What a table is made from: the grammar, and the code that makes it."""
    made_by = Path(__file__).with_name("parse_table_generator.py").read_bytes()
    return hashlib.sha256(
        GRAMMAR.read_bytes().replace(b"\r\n", b"\n") + made_by.replace(b"\r\n", b"\n")
    ).hexdigest()
