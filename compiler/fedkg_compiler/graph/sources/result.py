"""The results of the readers of sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox


class Awaited(NamedTuple):
    """A node of another OPC UA node set that this one refers to.

    Attributes:
        space: the namespace of the node.
        line: the line of the first reference.
        column: the column of the first reference.
        written: the NodeId as the file writes it.
    """

    space: str
    line: int
    column: int
    written: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNames:
    """The names of the nodes of an OPC UA node set.

    Attributes:
        named: the IRI of each of its nodes, by the IRI with the node's number, which other files
            use.
        awaited: the nodes of other files that it refers to, by their IRI.
        places: line and column of each node, by IRI; the text does not contain these IRIs.
        spaces: the namespaces of its nodes.
    """

    named: Mapping[str, str]
    awaited: Mapping[str, Awaited]
    places: Mapping[str, tuple[int, int]]
    spaces: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The triples and diagnostics of one source.

    Attributes:
        triples: in the order of the source; the labels of blank nodes are valid in this source
            only.
        prefixes: the prefixes that the source declares, with their namespaces.
        problems: the diagnostics of the source.
        usable: False if the source yields no triples.
        parts: name and sha256 of each file that the source includes.
        nodes: the names of the nodes of an OPC UA node set; None for anything else.
    """

    triples: list[ox.Quad]
    prefixes: dict[str, str]
    problems: tuple[Diagnostic, ...]
    usable: bool = True
    parts: tuple[tuple[str, str], ...] = ()
    nodes: NodeNames | None = None
