"""Pieces of rule files as text: strings, comments, names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


def quoted(text: str) -> str:
    """A string of the rule language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def remark(text: str) -> str:
    """A text that stays inside a comment line."""
    return " ".join(text.split())


def slug(text: str) -> str:
    """A name made of a text: lower case, letters, digits and underscores."""
    word = re.sub(r"\W+", "_", text.casefold()).strip("_") or "column"
    return word if word[0].isalpha() else f"c_{word}"


@dataclass(frozen=True, slots=True)
class Names:
    """Names already given; a name that is taken gets a number."""

    taken: set[str] = field(default_factory=set)

    def give(self, wanted: str) -> str:
        """The wanted name, or the first one with a number that is free."""
        name, count = wanted, 2
        while name in self.taken:
            name, count = f"{wanted}_{count}", count + 1
        self.taken.add(name)
        return name


def reference(header: str, name: str) -> tuple[str, list[str]]:
    """The text by which a rule refers to a column, and the statements that it needs before: none,
    unless the header contains a backtick.
    """
    if "`" in header:
        return name, [f"signal {name} column {quoted(header)}"]
    return f"`{header}`", []
