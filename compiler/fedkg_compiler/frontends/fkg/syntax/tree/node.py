"""The base of all nodes, and the smallest of them: words and names."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from typing_extensions import override

from fedkg_compiler.diagnostics.record import Span


class Number(float):
    """A number that knows how it was written: ``1.50`` is 1.5 and prints as ``1.50``.

    In everything else it is a float.

    A float of the tree is one of these, or a plain float if the tree has no source text.
    """

    __slots__ = ("written",)
    written: str

    def __new__(cls, value: float, written: str) -> Number:
        """The number with its spelling."""
        number = super().__new__(cls, value)
        number.written = written
        return number

    @override
    def __reduce__(self) -> tuple[type[Number], tuple[float, str]]:
        return Number, (float(self), self.written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Base of all syntax nodes: the place in the file."""

    span: Span

    def parts(self) -> list[Tree]:
        """The nodes directly inside this one, in the order of the fields."""
        found: list[Tree] = []
        for name in _inner(type(self)):
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Tree):
                    found.append(item)
                elif isinstance(item, tuple):
                    found += [part for part in item if isinstance(part, Tree)]
        return found


def _inner(kind: type[Tree]) -> tuple[str, ...]:
    """The fields of a kind of nodes that may hold nodes, found out once."""
    if kind not in _INNER:
        _INNER[kind] = tuple(
            field.name
            for field in fields(kind)
            if field.type not in ("Span", "str", "bool", "float")
        )
    return _INNER[kind]


_INNER: dict[type[Tree], tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Tree):
    """A piece of text with its place: a name, a variable (without `?`), a string (unescaped), a
    unit, an IRI (without <>).
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TermName(Tree):
    """A name of the graph: ``plant:Pump`` (pname), ``<https://...>`` (iri), ``CuttingTool``
    (name).
    """

    text: str
    form: Literal["pname", "iri", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Tree):
    """``temperature(?zone)``, ``speed`` or `` `TIC-101.PV` `` (quoted) where a signal is declared
    or named.
    """

    name: Word
    variable: Word | None = None
    quoted: bool = False
