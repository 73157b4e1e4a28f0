"""What the parser makes of a statement, before anything is known of its meaning: tokens, and
branches named by the rules of the grammar.
"""

from __future__ import annotations


class Token(str):
    """A piece of the text, and which terminal of the grammar it is.

    Attributes:
        type: the name of the terminal.
        start_pos: the offset in the statement at which the token begins.
        end_pos: the offset in the statement at which the token ends.
    """

    __slots__ = ("end_pos", "start_pos", "type")
    type: str
    start_pos: int
    end_pos: int

    def __new__(cls, kind: str, text: str, start: int) -> Token:
        """The token of the terminal `kind` that begins at `start`."""
        token = super().__new__(cls, text)
        token.type, token.start_pos, token.end_pos = kind, start, start + len(text)
        return token


class Branch:
    """A rule of the grammar as it was met: its name (or alias), what it is made of, and where it
    begins and ends in the statement.
    """

    __slots__ = ("children", "data", "end_pos", "start_pos")

    def __init__(self, data: str, children: list[Leaf], start: int, end: int) -> None:
        self.data = data
        self.children = children
        self.start_pos = start
        self.end_pos = end


Leaf = Token | Branch
