"""Recognises graphs and ontologies by the beginning of their text, because none of them is a
table.
"""

from __future__ import annotations

import re

XML = re.compile(
    r"\s*<(\?xml|!DOCTYPE|!--|([A-Za-z_][\w.-]*:)?RDF\b|[A-Za-z_][\w.:-]*\s[^<>]*\bxmlns)"
)
FUNCTIONAL = re.compile(
    r"\s*+(#[^\n]*\n\s*+)*"
    r"(Prefix\s*\(\s*[\w.-]*:\s*=|Ontology\s*\(\s*(<|\)|[\w.-]*:|[A-Z]\w+\s*\())"
)
MANCHESTER = re.compile(r"\s*+(#[^\n]*\n\s*+)*(Prefix:\s+\S*:\s*<|Ontology:\s+(<|\S*:))")
OBO = re.compile(r"\s*+(![^\n]*\n\s*+)*format-version:\s")
_JSON = re.compile(r"\s*+(?:\[\s*+)?\{\s*+[\"}]")
_SPACE = r"(?:\s|\#[^\n]*+(?:\n|$))"
_IRI = r"<(?:[A-Za-z][\w+.-]*+://|urn:)[^<>\s]*+>"
_TERM = r"(?:<|[\w.-]*+:)"
_TURTLE = re.compile(
    # Headers such as `<DATE>`, `<t>,<m/s>`, `p:max` or `[bar]` begin tables, and `prefix p: <...>`
    # begins rule files too: without a directive of Turtle, a statement has to follow.
    rf"""{_SPACE}*+(?:
        @(?:prefix|base|version)\s
        | (?i:(?:prefix\s+[^\s:]*:|base)\s*<[^<>\s]*>{_SPACE}*+)++
          (?:$|[<\[({{]|[^\s:<]*:|(?i:graph)\s)
        | (?:(?i:graph)\s+)?<[^<>\s]*>\s*\{{
        | (?:<[^<>\s]*>|_:\S+|\[\s*\])\s*(?:\sa\s+(?:{_TERM}|\[)|{_IRI})
        | \[\s*(?:a\s+<|{_IRI})
        | \{{\s*<
        | <<\s*(?:<|[\w.-]*+:[^<>\s]*+\s))""",
    re.VERBOSE,
)
_SYNTAXES = {
    "XML": XML,
    "OWL in functional syntax": FUNCTIONAL,
    "OWL in Manchester syntax": MANCHESTER,
    "an OBO ontology": OBO,
    "JSON": _JSON,
    "a graph in Turtle or a similar syntax": _TURTLE,
}


def graph_syntax(text: str) -> str | None:
    """The syntax of a graph, or a syntax that graphs can have; None for any other text."""
    return next((name for name, pattern in _SYNTAXES.items() if pattern.match(text)), None)
