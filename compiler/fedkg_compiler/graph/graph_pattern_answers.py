"""Asks the graph: a rule file's pattern in, rows of plain values out, every problem at its place in
the rule file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.diagnostic_spans import inside, report
from fedkg_compiler.graph.node_values import Values
from fedkg_compiler.graph.ontologies import Vocabulary, closest_name
from fedkg_compiler.graph.query_process import Solutions
from fedkg_compiler.graph.rdf_terms import RdfTerm, order_key
from fedkg_compiler.graph.sparql_syntax.parser import find_problem
from fedkg_compiler.graph.sparql_syntax.tokens import Token, tokens

Row = tuple[RdfTerm | None, ...]

_CHANGING = frozenset({"NOW", "RAND", "UUID", "STRUUID"})
_PLACE = re.compile(r"error at (\d+):(\d+)")
_MOST_DEPTH = 64
_MOST_TRIPLES = 100
_MOST_WORDS = 5000
_MOST_NAMES = 100
"""Unknown names of a pattern that are reported; each is compared with all known ones."""
_EXAMPLE = "braces hold a SPARQL group graph pattern: `?x a plant:Pump ; plant:limit ?limit .`"


def select(
    answer: Callable[[str], list[Row]],
    vocabulary: Vocabulary,
    where: str,
    variables: Sequence[str],
    span: Span,
    given: str = "",
) -> tuple[list[Row], tuple[Diagnostic, ...]]:
    """Return the distinct rows of `variables` under the pattern `where`, sorted.

    `answer` gives the rows of a SELECT, as `sorted_rows` does; `span` is the place of `where`.
    The pattern is joined with `given`, which is one line.

    After an error the rows are empty, after warnings alone they are complete. The pattern sees the
    user's data and what it entails; `GRAPH` leads to the other statements.
    """
    words = tokens(where)
    if not words:
        return [], (report("FKG150", span, "the pattern is empty", help=_EXAMPLE),)
    if (large := too_large(words)) is not None:
        return [], (
            report(
                "FKG154",
                span,
                large,
                help="write several rules, or add a class or a property to the graph that"
                " replaces a part of the pattern",
            ),
        )
    problems = [
        *names(words, vocabulary, where, span),
        *refused(words, where, span),
        *_missing(words, variables, where, span),
    ]
    if any(problem.severity == "error" for problem in problems):
        return [], tuple(problems)
    shown = " ".join(f"?{name}" for name in variables)
    query = f"SELECT DISTINCT {shown} WHERE {{ {given}\n{where}\n}}"
    try:
        rows = answer(query)
    except SyntaxError as error:
        return [], (*problems, _syntax_problem(str(error), where, words, vocabulary, span))
    except (OSError, ValueError, RuntimeError) as error:
        return [], (
            *problems,
            report(
                "FKG154",
                span,
                f"the graph cannot answer this pattern: {error}",
                help="correct or simplify the pattern",
            ),
        )
    return rows, tuple(problems)


def sorted_rows(solutions: Solutions, names: Sequence[str], values: Values) -> list[Row]:
    """Return the distinct rows of the variables `names`, sorted: nodes occur in many rows, but each
    is looked at once.
    """
    columns = [solutions.names.index(name) for name in names]
    found = solutions.numbers
    terms = {
        number: values.term(solutions.nodes[number])
        for number in dict.fromkeys([row[i] for row in found for i in columns])
    }
    ordered = sorted(dict.fromkeys(terms.values()), key=order_key)
    rank = {term: i for i, term in enumerate(ordered)}
    ranks = {number: rank[term] for number, term in terms.items()}
    rows = {tuple([ranks[row[i]] for i in columns]) for row in found}
    return [tuple([ordered[i] for i in row]) for row in sorted(rows)]


def too_large(words: list[Token]) -> str | None:
    """Say why a pattern is refused unread: the store's parser and planner take minutes for it, or
    overflow the stack.
    """
    depth = deepest = inside_lists = triples = negations = 0
    for word in words:
        negations = negations + 1 if word.text == "!" else 0
        if word.kind != "mark":
            continue
        opened = word.text in "([{"
        depth += opened - (word.text in ")]}")
        deepest = max(deepest, depth + negations)
        inside_lists += (word.text == "(") - (word.text == ")")
        triples += word.text in ".;" or (word.text == "," and inside_lists == 0)
    if deepest > _MOST_DEPTH:
        return f"the pattern is nested {deepest} deep; at most {_MOST_DEPTH} are read"
    if triples > _MOST_TRIPLES:
        return f"the pattern has more than {_MOST_TRIPLES} triples"
    return f"the pattern has more than {_MOST_WORDS} words" if len(words) > _MOST_WORDS else None


def names(words: list[Token], vocabulary: Vocabulary, where: str, span: Span) -> list[Diagnostic]:
    """Check every prefixed name and IRI; reports each wrong one once, at its first use."""
    problems: list[Diagnostic] = []
    seen: set[str] = set()
    for before, word in zip([None, *words], words, strict=False):
        if len(problems) >= _MOST_NAMES:
            break
        if word.kind not in ("pname", "iri") or word.text in seen:
            continue
        seen.add(word.text)
        place = inside(span, where, word.start, word.end)
        if word.kind == "iri":
            iri: str | None = word.text[1:-1]
        else:
            iri, unknown = vocabulary.expand(word.text, place)
            problems += unknown
        if iri is not None and not (before is not None and before.text == "^^"):
            problems += vocabulary.check(iri, word.text, place)
    return problems


def refused(words: list[Token], where: str, span: Span) -> list[Diagnostic]:
    """Refuse what would reach beyond the graph or give other rows each time."""
    problems: list[Diagnostic] = []
    for word, after in zip(words, [*words[1:], None], strict=False):
        name = word.text.upper()
        if word.kind != "word":
            continue
        place = inside(span, where, word.start, word.end)
        if name == "SERVICE":
            problems.append(
                report(
                    "FKG152",
                    place,
                    "a pattern reads only the loaded graph; fedkg does not ask other servers "
                    "(SERVICE)",
                    help="load the data as a graph file",
                )
            )
        elif name in _CHANGING and after is not None and after.text == "(":
            problems.append(
                report(
                    "FKG153",
                    place,
                    f"{name}() gives another value each time",
                    help="remove it: the same files must give the same pack",
                )
            )
    return problems


def _missing(
    words: list[Token], variables: Sequence[str], where: str, span: Span
) -> list[Diagnostic]:
    there = {word.text for word in words if word.kind == "variable"}
    problems: list[Diagnostic] = []
    for name in variables:
        if name not in there:
            meant = closest_name(name, there)
            advice = (
                f"did you mean `?{meant}`?"
                if meant
                else "every variable after `for` or `over` needs a place in the pattern"
            )
            problems.append(
                report(
                    "FKG151",
                    inside(span, where, *_content(where)),
                    f"the variable ?{name} does not occur in the pattern",
                    help=advice,
                )
            )
    return problems


def _content(where: str) -> tuple[int, int]:
    """Return start and end of the pattern without the white space around it."""
    stripped = where.strip()
    start = where.find(stripped)
    return start, start + len(stripped)


def _syntax_problem(
    message: str, where: str, words: list[Token], vocabulary: Vocabulary, span: Span
) -> Diagnostic:
    """Return the diagnostic for a pattern that the store rejects, at the first unexpected word."""
    problem = find_problem(words)
    if problem is None:
        return _by_the_store(message, where, words, span)
    word = words[problem.at[0]]
    named = vocabulary.by_local_name(word.text) if word.kind == "word" else []
    advice = f"did you mean `{vocabulary.shorten(named[0])}`?" if named else problem.help
    return report(
        "FKG150",
        inside(span, where, word.start, word.end),
        problem.message.replace("the query", "the pattern", 1),
        help=advice or _EXAMPLE,
    )


def _by_the_store(message: str, where: str, words: list[Token], span: Span) -> Diagnostic:
    """Place a diagnostic where the store's parser stopped, which may be behind the slip."""
    found = _PLACE.match(message)
    if found is None:
        return report(
            "FKG150",
            inside(span, where, *_content(where)),
            f"the pattern is not SPARQL: {message}",
            help=_EXAMPLE,
        )
    lines = where.split("\n")
    line = min(int(found.group(1)) - 1, len(lines))
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + int(found.group(2)) - 1
    word = next((item for item in words if item.end > offset), words[-1])
    place = inside(span, where, word.start, word.end)
    return report(
        "FKG150",
        place,
        f"the pattern is not SPARQL near `{where[word.start : word.end]}`",
        help=_EXAMPLE,
    )
