"""Finds what is wrong with the syntax of a query in shapes, in the text that the user wrote.

The store only sees rewritten queries, so the places in its messages are not places in the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedkg_compiler.frontends.shacl.constraint_queries import with_variable_as
from fedkg_compiler.frontends.shacl.shapes_graph_reader import SH, ShapesFile
from fedkg_compiler.graph.sparql_syntax.parser import find_query_problem
from fedkg_compiler.graph.sparql_syntax.query_text import read_prologue
from fedkg_compiler.graph.sparql_syntax.tokens import tokens

_ANY_PATH = "<a:b>"
"""Stands for `$PATH`, which may be in a path; as wide, so that places stay the same."""


@dataclass(frozen=True, slots=True)
class QuerySyntaxProblem:
    """A word in a query that does not fit.

    Attributes:
        help: advice, or "". place: line, column and width in the shapes file; None if the query is
            written there in another way, such as with escapes.
    """

    sentence: str
    help: str
    place: tuple[int, int, int] | None


def find_syntax_problem(shapes: ShapesFile, queries: Iterable[str]) -> QuerySyntaxProblem | None:
    """The first problem in some queries; None if all are SPARQL.

    Args:
        queries: each as the shapes have it, behind its prefixes.
    """
    # Only needed after a failure, and the import takes longer than a validation.
    from fedkg_compiler.graph.select_query_execution import sparql_problem

    for query in queries:
        found = sparql_problem(query, {})
        if found is not None:  # elsewhere `?PATH` may be an ordinary variable
            found = sparql_problem(with_variable_as(query, "PATH", _ANY_PATH), {})
        if found is not None:
            _, line, column = found
            offset = sum(len(row) + 1 for row in query.split("\n")[: line - 1]) + column - 1
            return _explained(shapes, query, offset)
    return None


def _explained(shapes: ShapesFile, query: str, offset: int) -> QuerySyntaxProblem:
    """The problem in a query that the store read up to an offset, often far behind it."""
    words = tokens(with_variable_as(query, "PATH", _ANY_PATH))
    prologue, start = read_prologue(words, {})
    words = words[start:]
    if not words:
        return QuerySyntaxProblem("the query is empty", "", None)
    word = next((word for word in words if word.end > offset), words[-1])
    sentence, advice = f"the query is not SPARQL near `{query[word.start : word.end]}`", ""
    for name in words:
        prefix = name.text.partition(":")[0]
        if name.kind == "pname" and prefix not in prologue.prefixes:
            word, sentence = name, f"the prefix `{prefix}:` is not known"
            advice = f"add `PREFIX {prefix}: <...>` to the query, or `sh:prefixes`"
            break
    else:
        if (problem := find_query_problem(words)) is not None:
            word, advice = words[problem.at[0]], problem.help
            sentence = problem.message.replace(_ANY_PATH, "$PATH")
    return QuerySyntaxProblem(sentence, advice, _place(shapes, query, word.start, word.end))


def _place(shapes: ShapesFile, query: str, start: int, end: int) -> tuple[int, int, int] | None:
    written = max(
        (
            str(value)
            for name in (SH.select, SH.ask, SH.construct)
            for value in shapes.graph.objects(None, name)
            if query.endswith(str(value))
        ),
        key=len,
        default="",
    )
    first, head = shapes.text.find(written), len(query) - len(written)
    if not written or first < 0 or start < head:
        return None
    at = first + start - head
    line_start = shapes.text.rfind("\n", 0, at) + 1
    return shapes.text.count("\n", 0, at) + 1, at - line_start + 1, end - start
