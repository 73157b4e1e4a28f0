"""The names in rules and queries, as far as they tell which triples of a graph can matter."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.query_form_and_constants import Reader
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.sparql_syntax.tree import Const, Group, Path, Predicate, Triple, Var, walk
from fedkg_compiler.graph.stores.relevant_terms import RuleTerms

_IRI = re.compile(r"<([^<>\s]+)>")


def rule_terms(texts: Iterable[str], patterns: Iterable[str]) -> RuleTerms | None:
    """Return what rules name; None if a pattern asks for any property or any node, or cannot be
    read.

    Args:
        texts: the texts of rule files and queries.
        patterns: the group graph patterns and queries among them.
    """
    types = False
    written = "\n".join(texts)
    if "\\u" in written.lower():  # a name may be written in any way
        return None
    implied: set[str] = set()  # what lists in parentheses are made of
    reader, shapes = Reader({}), set()
    for pattern in patterns:
        query = reader.read(pattern)
        if query.form.shape in shapes and not any(map(_is_type, query.constants)):
            continue
        shapes.add(query.form.shape)
        words = tuple(tokens(pattern[query.body :]))
        try:
            nodes = walk(parse_query(words))
        except SparqlProblem:
            return None
        for node in nodes:
            if isinstance(node, Path) and node.op == "!":
                return None
            if isinstance(node, Group) and _asks_any_node(node):
                return None
            if isinstance(node, Triple):
                if isinstance(node.predicate, Var):
                    return None
                names = [
                    part.text if part.token < 0 else words[part.token].text
                    for part in walk(node.predicate)
                    if isinstance(part, Const)
                ]
                implied.update(name for name in names if name.endswith(("first>", "rest>")))
                types |= isinstance(node.object, Var) and any(map(_is_type, names))
    words_of_all = dict.fromkeys(written.replace("\\", "").split())  # queries are much alike
    text = "\n".join([*words_of_all, *sorted(implied)])
    return RuleTerms(text=text, types=types, spaces=frozenset(_IRI.findall(text)))


def _is_type(name: str) -> bool:
    """Whether a name may be that of ``rdf:type``."""
    return name.rstrip(">").endswith("type")


def _asks_any_node(group: Group) -> bool:
    """Whether a path without steps may join any node to itself: nothing else in the group gives
    either of its ends a value.
    """
    triples = [part for part in group.parts if isinstance(part, Triple)]
    empty = [triple for triple in triples if _may_be_empty(triple.predicate)]
    given = {
        node.name
        for triple in triples
        if triple not in empty
        for node in (triple.subject, triple.object)
        if isinstance(node, Var)
    }
    ends = [(triple.subject, triple.object) for triple in empty]
    return any(all(isinstance(end, Var) and end.name not in given for end in two) for two in ends)


def _may_be_empty(predicate: Predicate) -> bool:
    if not isinstance(predicate, Path):
        return False
    if predicate.op == "/":
        return all(map(_may_be_empty, predicate.args))
    return predicate.op in ("*", "?") or any(map(_may_be_empty, predicate.args))
