"""The parser's table, which ships with the package: building it takes lark half a second, reading
it a few thousandths.

A table tells from what it was made. One that does not belong to the grammar beside it (somebody is
changing the grammar) is not used:
then lark builds it in memory. It is plain JSON: numbers and texts, nothing that could run.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fedkg_compiler.frontends.fkg.syntax.grammar import FILE, WORD_ENDS, fingerprint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Production:
    """A rule of the grammar.

    Attributes:
        origin: the rule of the grammar that this is an alternative of.
        name: the name of the branch that it makes in the tree.
        size: the number of its parts.
        kept: the positions of the parts that stay in the tree; ~i if the children of part i replace
            it.
        single: whether a branch with a single remaining part is replaced by that part.
        passes: whether its only part always replaces the branch.
    """

    origin: str
    name: str
    size: int
    kept: tuple[int, ...]
    single: bool
    passes: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """An LALR(1) parser and its contextual lexer.

    The first state is 0; `end` is the one that a whole statement leads to.

    Attributes:
        states: for each state the actions by the name of a terminal or rule: the next state, or ~i
            to reduce by production i.
        end: the state that a whole statement leads to.
        productions: the alternatives of the grammar's rules.
        patterns: the regular expression of each terminal except keywords, in the order in which
            they are tried.
        words: the terminal of each keyword, by the keyword.
        signs: the sign of each terminal that matches a fixed sign, by the terminal.
        ignored: the terminals that separate others.
    """

    states: tuple[dict[str, int], ...]
    end: int
    productions: tuple[Production, ...]
    patterns: dict[str, str]
    words: dict[str, str]
    signs: dict[str, str]
    ignored: frozenset[str]
    _scanners: dict[int, re.Pattern[str]] = field(default_factory=dict)

    def scanner(self, state: int) -> re.Pattern[str]:
        """What is matched in a state, words of the language apart; the group that matches is the
        terminal.

        Made when first needed.
        """
        found = self._scanners.get(state)
        if found is None:
            here = self.states[state]
            parts = [
                f"(?P<{name}>{pattern})"
                for name, pattern in self.patterns.items()
                if name in here or name in self.ignored
            ]
            found = self._scanners[state] = re.compile(
                "|".join(parts)
            )  # which keeps patterns: states that take the same share one
        return found


@cache
def table() -> Table:
    """The table of the grammar; read once."""
    found = _shipped()
    if found is None or found["made_from"] != fingerprint():
        from fedkg_compiler.frontends.fkg.syntax.parse_table_generator import make_table

        found = make_table()
    return _table(found)


def _shipped() -> dict[str, Any] | None:
    """What the file holds (`Any`: JSON); None where there is none, or it is not whole."""
    try:
        found: dict[str, Any] = json.loads(FILE.read_bytes())
    except (OSError, ValueError):
        return None
    return found


def _table(found: dict[str, Any]) -> Table:
    words = {
        name: pattern.removesuffix(WORD_ENDS)
        for name, pattern, _ in found["terminals"]
        if _is_word(pattern)
    }
    return Table(
        states=tuple(found["states"]),
        end=found["end"],
        productions=tuple(_production(*rule) for rule in found["rules"]),
        patterns={name: pattern for name, pattern, _ in found["terminals"] if name not in words},
        words={word: name for name, word in words.items()},
        signs={
            name: re.sub(r"\\(.)", r"\1", pattern)
            for name, pattern, literal in found["terminals"]
            if literal
        },
        ignored=frozenset(found["ignored"]),
    )


def _is_word(pattern: str) -> bool:
    return pattern.endswith(WORD_ENDS) and pattern.removesuffix(WORD_ENDS).isalpha()


def _production(origin: str, name: str, size: int, kept: list[int], single: bool) -> Production:
    passes = single and size == 1 and kept == [0]
    return Production(
        origin=origin, name=name, size=size, kept=tuple(kept), single=single, passes=passes
    )
