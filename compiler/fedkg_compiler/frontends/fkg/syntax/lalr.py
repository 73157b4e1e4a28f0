"""Parses one statement: an LALR(1) automaton with a lexer that knows the tokens of each state.

Lark makes the table (`parse_table_generator.py`) and has such an automaton too; this one does no
more than the rule files need, keeps offsets only, and steps over rules that pass their one part on,
which is most of what a chain of precedences does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedkg_compiler.frontends.fkg.syntax.parse_table import Production, Table, table
from fedkg_compiler.frontends.fkg.syntax.parse_tree_nodes import Branch, Leaf, Token

END = "$END"
"""The terminal at the end of a statement."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """How far a statement was read.

    Attributes:
        tree: the tree of the whole statement; None if it does not parse.
        tokens: the tokens that could be read.
        stopped: the offset of the first text that the grammar does not accept; None if all
            characters were read.
    """

    tree: Branch | None
    tokens: tuple[Token, ...]
    stopped: int | None


def read(text: str) -> Reading:
    """Read a statement to its end, or to where it stops to make sense."""
    rules = table()
    automaton = Automaton(rules)
    tokens: list[Token] = []
    states, words, ignored, end = automaton.states, rules.words, rules.ignored, len(text)
    position = 0
    while position < end:
        state = states[-1]
        found = _WORD.match(text, position)
        kind = None if found is None else words.get(found[0])
        if found is None or kind is None or kind not in rules.states[state]:
            found = rules.scanner(state).match(text, position)
            if found is None:
                return Reading(tree=None, tokens=tuple(tokens), stopped=position)
            kind = found.lastgroup
            assert kind is not None
            if kind in ignored:
                position = found.end()
                continue
        token = Token(kind, found[0], position)
        if not automaton.feed(token):
            return Reading(tree=None, tokens=tuple(tokens), stopped=position)
        tokens.append(token)
        position = token.end_pos
    tree = automaton.tree() if automaton.finish() else None
    return Reading(tree=tree, tokens=tuple(tokens), stopped=None)


class Automaton:
    """The stacks of a statement that is being read."""

    def __init__(self, rules: Table, tokens: tuple[Token, ...] = ()) -> None:
        """The automaton after these tokens."""
        self.rules = rules
        self.states = [0]
        self.leaves: list[Leaf] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        for token in tokens:
            self.feed(token)

    def feed(self, token: Token) -> bool:
        """Take the next token; return whether the grammar accepts it.

        If it does not, the stacks are no longer valid.
        """
        if not self._reduce(token.type):
            return False
        self.states.append(self.rules.states[self.states[-1]][token.type])
        self.leaves.append(token)
        self.starts.append(token.start_pos)
        self.ends.append(token.end_pos)
        return True

    def finish(self) -> bool:
        """Whether the statement may end here."""
        return self._reduce(END)

    def tree(self) -> Branch:
        """The tree of a finished statement."""
        (whole,) = self.leaves
        assert isinstance(whole, Branch), whole
        return whole

    def accepts(self) -> frozenset[str]:
        """The terminals that may come next."""
        return frozenset(
            name
            for name in self.rules.states[self.states[-1]]
            if name.isupper() and self._may_come(name)
        )

    def _reduce(self, kind: str) -> bool:
        """Reduce all branches that end before a terminal; return whether it is accepted."""
        rules, states = self.rules, self.states
        while True:
            action = rules.states[states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                return True
            production = rules.productions[~action]
            if not production.passes:
                self._make(production)
            del states[len(states) - production.size :]
            states.append(rules.states[states[-1]][production.origin])
            if kind == END and states[-1] == rules.end:
                return True

    def _make(self, production: Production) -> None:
        """Put one leaf in the place of the parts of a rule."""
        first = len(self.leaves) - production.size
        parts = self.leaves[first:]
        start, end = self.starts[first], self.ends[-1]
        children: list[Leaf] = []
        for i in production.kept:
            part = parts[i if i >= 0 else ~i]
            if i < 0:
                assert isinstance(part, Branch), part
                if children:
                    children += part.children
                else:  # nobody else has it: a long list is not copied for each entry
                    children = part.children
            else:
                children.append(part)
        whole = (
            children[0]
            if production.single and len(children) == 1
            else Branch(production.name, children, start, end)
        )
        self.leaves[first:], self.starts[first:], self.ends[first:] = [whole], [start], [end]

    def _may_come(self, kind: str) -> bool:
        """Whether a terminal may come next, tried on the states alone."""
        rules, states = self.rules, list(self.states)
        while (action := rules.states[states[-1]].get(kind)) is not None:
            if action >= 0:
                return True
            production = rules.productions[~action]
            del states[len(states) - production.size :]
            states.append(rules.states[states[-1]][production.origin])
            if kind == END and states[-1] == rules.end:
                return True
        return False
