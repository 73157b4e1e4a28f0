"""The results of the readers of sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic


class Awaited(NamedTuple):
    """A node of another OPC UA node set that this one refers to.

    Attributes:
        space: its namespace. line, column: of the first reference. written: its NodeId as the file
            writes it.
    """

    space: str
    line: int
    column: int
    written: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNames:
    """The names of the nodes of an OPC UA node set.

    Attributes:
        named: the IRI of each of its nodes, by the one with its number that other files use.
            awaited: nodes of other files by that IRI.
        places: line and column of the node of an IRI, which the text does not spell. spaces: the
            namespaces of its nodes.
    """

    named: Mapping[str, str]
    awaited: Mapping[str, Awaited]
    places: Mapping[str, tuple[int, int]]
    spaces: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The triples and diagnostics of one source.

    Attributes:
        triples: in the order of the source; blank nodes have labels of this source's own. prefixes:
            as it declares them.
        problems: what is wrong with it. usable: False if it yields no triples.
        parts: sha256 of the files that it includes, by their names; empty if it includes none.
            nodes: of a node set; else None.
    """

    triples: list[ox.Quad]
    prefixes: dict[str, str]
    problems: tuple[Diagnostic, ...]
    usable: bool = True
    parts: tuple[tuple[str, str], ...] = ()
    nodes: NodeNames | None = None
