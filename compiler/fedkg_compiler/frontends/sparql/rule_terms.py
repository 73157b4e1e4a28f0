"""The names in rules and queries, as far as they tell which triples of a graph can matter."""

from __future__ import annotations

from collections.abc import Iterable

from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.sparql_syntax.tree import Const, Path, Triple, Var, walk
from fedkg_compiler.graph.stores.relevant_terms import RuleTerms


def rule_terms(texts: Iterable[str], patterns: Iterable[str]) -> RuleTerms | None:
    """Return what rules name; None if a pattern asks for any property, or cannot be read.

    Args:
        texts: the texts of rule files and queries.
        patterns: the group graph patterns and queries among them.
    """
    types = False
    for pattern in patterns:
        words = tuple(tokens(pattern))
        try:
            nodes = walk(parse_query(words))
        except SparqlProblem:
            return None
        for node in nodes:
            if isinstance(node, Path) and node.op == "!":
                return None
            if isinstance(node, Triple):
                if isinstance(node.predicate, Var):
                    return None
                names = [
                    part.text if part.token < 0 else words[part.token].text
                    for part in walk(node.predicate)
                    if isinstance(part, Const)
                ]
                asks_class = any(name.rstrip(">").endswith("type") for name in names)
                types |= isinstance(node.object, Var) and asks_class
    return RuleTerms(text="\n".join(texts).replace("\\", ""), types=types)
