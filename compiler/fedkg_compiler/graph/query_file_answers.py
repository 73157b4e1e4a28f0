"""Asks the graph what a query file asks: a SELECT in, rows of plain values out, every problem at
its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.diagnostic_spans import inside, point, report
from fedkg_compiler.graph.graph_pattern_answers import Row, names, refused, sorted_rows, too_large
from fedkg_compiler.graph.node_values import Values
from fedkg_compiler.graph.ontologies import Vocabulary, closest_name
from fedkg_compiler.graph.query_process import QueryProcess
from fedkg_compiler.graph.sparql_syntax.query_text import read_prologue
from fedkg_compiler.graph.sparql_syntax.tokens import Token, tokens

_PLACE = re.compile(r"error at (\d+):(\d+)")
_FORMS = (
    "SELECT",
    "ASK",
    "CONSTRUCT",
    "DESCRIBE",
    "INSERT",
    "DELETE",
    "LOAD",
    "CLEAR",
    "DROP",
    "CREATE",
)
_TABLES = (".csv", ".tsv", ".xlsx", ".parquet")

_EXAMPLE = (
    "write one SPARQL SELECT, for example SELECT ?machine ?limit WHERE { ?machine "
    "plant:limit ?limit }"
)


def select_file(
    process: QueryProcess,
    values: Values,
    vocabulary: Vocabulary,
    text: str,
    file: str,
    variables: Sequence[tuple[str, Span]],
) -> tuple[list[Row], tuple[Diagnostic, ...]]:
    """Return the distinct rows of `variables` that a SELECT gives, sorted.

    Args:
        process: runs the query.
        values: converts the nodes of the answer.
        vocabulary: its prefixes are available in the query; those that the query declares itself
            take precedence.
        text: the query.
        file: the name of the file in diagnostics.
        variables: the names that are wanted, each with the place where it is asked for.

    After an error the rows are empty, after warnings alone they are complete.
    """
    whole = point(file)
    words = tokens(text)
    if not words:
        return [], (report("FKG284", whole, "this file contains no query", help=_EXAMPLE),)
    if (large := too_large(words)) is not None:
        return [], (
            report(
                "FKG154",
                whole,
                large.replace("pattern", "query"),
                help="add a class or a property to the graph that replaces a part of the query",
            ),
        )
    form = next(
        (word for word in words if word.kind == "word" and word.text.upper() in _FORMS), None
    )
    if form is None or form.text.upper() != "SELECT":
        place = whole if form is None else inside(whole, text, form.start, form.end)
        said = (
            f"`{form.text}` gives no rows of values"
            if form is not None
            else f"{file} has no SELECT: it is not a query"
        )
        is_table = form is None and PurePath(file).suffix.lower() in _TABLES
        advice = f'for a table write: in table "{file}"' if is_table else _EXAMPLE
        return [], (report("FKG284", place, said, help=advice),)
    prologue, start = read_prologue(words, vocabulary.prefixes)
    known, body = replace(vocabulary, prefixes=dict(prologue.prefixes)), words[start:]
    problems = [*names(body, known, text, whole), *refused(body, text, whole)]
    if any(problem.severity == "error" for problem in problems):
        return [], tuple(problems)
    try:
        found = process.select(text, prefixes=known.prefixes)
        missing = [
            _not_given(name, span, found.names, file)
            for name, span in variables
            if name not in found.names
        ]
        if missing:
            return [], (*problems, *missing)
        rows = sorted_rows(found, [name for name, _ in variables], values)
    except SyntaxError as error:
        return [], (*problems, _slip(str(error), text, words, file))
    except (OSError, ValueError, RuntimeError) as error:
        return [], (
            *problems,
            report(
                "FKG154",
                whole,
                f"the graph cannot answer this query: {error}",
                help="correct or simplify the query",
            ),
        )
    return rows, tuple(problems)


def _not_given(name: str, span: Span, given: Sequence[str], file: str) -> Diagnostic:
    meant = closest_name(name, given)
    shown = ", ".join(f"?{item}" for item in given)
    advice = (
        f"did you mean `?{meant}`?"
        if meant
        else f"it gives {shown}"
        if shown
        else "name it after SELECT"
    )
    return report("FKG285", span, f"the query in {file} does not give ?{name}", help=advice)


def _slip(message: str, text: str, words: Sequence[Token], file: str) -> Diagnostic:
    found = _PLACE.search(message)
    if found is None:
        return report("FKG150", point(file), f"this is not SPARQL: {message}", help=_EXAMPLE)
    line, column = int(found[1]), int(found[2])
    offset = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column - 1
    word = next((item for item in words if item.end > offset), None)
    if word is None:
        return report(
            "FKG150", point(file, line, column), "the query ends too early", help=_EXAMPLE
        )
    place = inside(point(file), text, word.start, word.end)
    return report(
        "FKG150",
        place,
        f"the query is not SPARQL at `{text[word.start : word.end]}`",
        help=_EXAMPLE,
    )
