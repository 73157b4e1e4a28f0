"""Rejects OPTIONAL parts that depend on SPARQL's bottom-up order of evaluation.

In SPARQL 1.1 (sections 18.2.2 and 18.5) an OPTIONAL sees only the patterns before it in the same
braces; rows know all that is
around them. Both agree where the pattern is well designed: each variable of an OPTIONAL that occurs
around it occurs before it too (Perez,
Arenas and Gutierrez, Semantics and complexity of SPARQL, ACM TODS 34, 2009, section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import (
    Bind,
    Exists,
    Filter,
    Group,
    Minus,
    Node,
    Optional,
    SubSelect,
    Union,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import Names, in_scope, visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Rejects variables that an OPTIONAL or BIND in braces sees in rows, but not in SPARQL.

    Attributes:
        static: returns whether the store answers a part unchanged.
        fixed: the variables that have their values everywhere.
    """

    static: Callable[[Node], bool]
    fixed: Names = frozenset()

    def check(self, group: Group, left: Names = frozenset(), right: Names = frozenset()) -> None:
        """Look through a group; `left`, `right`: the variables before and after the braces around
        it.

        Raises:
            SparqlProblem: a variable is read that has no value yet at that place.
        """
        for i, part in enumerate(group.parts):
            before, after = in_scope(group.parts[:i]), in_scope(group.parts[i + 1 :]) | right
            match part:
                case Optional():
                    whole = self.static(part)
                    self._must_see(
                        part,
                        "OPTIONAL",
                        (visible(part) & (left if whole else left | after)) - before,
                    )
                    if not whole:
                        self.check(part.group, left | before, after)
                case Bind():
                    self._must_see(part, "BIND", (visible(part.expr) & left) - before)
                case Group() | Union() if not self.static(part):
                    for one in part.groups if isinstance(part, Union) else (part,):
                        self.check(one, left | before, after)
                case SubSelect():
                    self.check(part.query.where)
                case Minus():
                    self.check(part.group)
                case Filter():
                    given = replace(
                        self, fixed=self.fixed | left | in_scope(group.parts)
                    )  # EXISTS is asked with their values put in
                    for node in walk(part.expr):
                        if isinstance(node, Exists):
                            given.check(node.group)

    def _must_see(self, part: Node, word: str, unseen: Names) -> None:
        if unseen - self.fixed:
            name = min(unseen - self.fixed)
            message = (
                f"?{name} has no value yet in this {word}: by the standard it sees only the"
                " patterns before it in the same braces"
            )
            raise SparqlProblem(
                "FKG358",
                part.at,
                message,
                f"repeat the pattern with ?{name} before it, in the same braces",
            )
