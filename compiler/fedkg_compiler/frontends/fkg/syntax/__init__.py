"""The text of rule files to typed syntax trees: `parse`, `parse_bytes` and the nodes of `tree`."""

from __future__ import annotations

from fedkg_compiler.frontends.fkg.syntax.construct import KINDS
from fedkg_compiler.frontends.fkg.syntax.parser import parse, parse_bytes, statement_count
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import STATEMENT_WORDS
from fedkg_compiler.frontends.fkg.syntax.tree import RuleFile, Statement

__all__ = [
    "KINDS",
    "STATEMENT_WORDS",
    "RuleFile",
    "Statement",
    "parse",
    "parse_bytes",
    "statement_count",
]
