"""What a statement ranges over."""

from __future__ import annotations

from dataclasses import dataclass

from fedkg_compiler.frontends.fkg.syntax.tree.node import TermName, Tree, Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Tree):
    """``where { ... }``: the text between the braces (a SPARQL group graph pattern); its span is
    that of the text.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InClass(Tree):
    """``in class fkg-mason:CuttingTool``."""

    term: TermName


@dataclass(frozen=True, slots=True, kw_only=True)
class InTable(Tree):
    """``in table "limits.csv"``."""

    path: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class InQuery(Tree):
    """``in query "machines.rq"``."""

    path: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantifier(Tree):
    """``for ?a, ?b`` over a pattern, a class, a sheet or a query file."""

    variables: tuple[Word, ...]
    source: Pattern | InClass | InTable | InQuery
