"""The base of all nodes, and the smallest of them: words and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedkg_compiler.diagnostics.record import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Base of all syntax nodes: the place in the file."""

    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Tree):
    """A piece of text with its place: a name, a variable (without `?`), a string (unescaped), a unit, an IRI (without <>)."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TermName(Tree):
    """A name of the graph: ``plant:Pump`` (pname), ``<https://...>`` (iri), ``CuttingTool`` (name)."""

    text: str
    form: Literal["pname", "iri", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Tree):
    """``temperature(?zone)``, ``speed`` or `` `TIC-101.PV` `` (quoted) where a signal is declared or named."""

    name: Word
    variable: Word | None = None
    quoted: bool = False
