"""Finds shapes in the texts of several documents that were read together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from rdflib.term import Node

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.shacl.shapes_graph_reader import SPACE, ShapesFile
from fedkg_compiler.frontends.shacl.validation_report import Place
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.graph.rdf_reader import Document


class JoinedTexts:
    """Documents that `shapes_of` reads as one text, one after the other."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._names = [document.name for document in documents]
        sizes = [document.text.count("\n") + 1 for document in documents]
        self._starts = [0, *accumulate(sizes[:-1])]

    def located(self, line: int, column: int = 1, width: int = 1) -> Span:
        """The span in the file to which a line of the joined text belongs."""
        number = max(bisect_right(self._starts, line - 1) - 1, 0)
        return point(self._names[number], line - self._starts[number], column, width=width)

    def span(self, shapes: ShapesFile, node: Node | None, word: str) -> Span:
        """The span of a word of SHACL in a shape; of the shape itself without a word."""
        line = 1 if node is None else shapes.lines.get(node, 1)
        return self.located(*(shapes.locate(line, word, SPACE) if word else (line, 1, 1)))

    def place(self, shapes: ShapesFile, node: Node) -> Place | None:
        """The file and line of a shape."""
        line = shapes.lines.get(node)
        if line is None:
            return None
        span = self.located(line)
        return Place(file=span.file, line=span.line)
