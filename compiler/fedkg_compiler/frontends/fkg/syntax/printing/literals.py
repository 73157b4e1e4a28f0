"""Names, texts, numbers and quantities as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fedkg_compiler.frontends.fkg.syntax.tree import Head, Number, Quantity, TermName, Word

_NAME = re.compile(r"[^\W\d]\w*\Z")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_WHOLE = 1e15


def text(value: str) -> str:
    """A text in quotes; what cannot be printed is escaped."""
    return '"' + "".join(_letter(letter) for letter in value) + '"'


def _letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter == " " or letter.isprintable() or ord(letter) > 0xFFFF:
        return letter
    return f"\\u{ord(letter):04x}"


def is_name(value: str) -> bool:
    """Return whether a text is a valid plain name."""
    return _NAME.match(value) is not None


def class_name(value: str, taken: Iterable[str] = ()) -> str:
    """Return a class as a plain name if possible, else in quotes.

    Args:
        taken: words with another meaning at this position.
    """
    return value if is_name(value) and value not in taken else text(value)


def name(value: str, quoted: bool = False) -> str:
    """A name, or a column's header in backquotes."""
    return f"`{value}`" if quoted or not is_name(value) else value


def number(value: float) -> str:
    """Return a number as written, or its shortest exact form if the tree has no source text."""
    if isinstance(value, Number):
        return value.written
    return str(int(value)) if value.is_integer() and abs(value) < _WHOLE else repr(value)


def quantity(node: Quantity) -> str:
    """``30 min``."""
    return f"{number(node.value)} {node.unit.text}" if node.unit else number(node.value)


def head(node: Head) -> str:
    """``temperature(?zone)``."""
    written = name(node.name.text, node.quoted)
    return f"{written}(?{node.variable.text})" if node.variable else written


def term(node: TermName) -> str:
    """``plant:Pump``, ``<iri>`` or ``Pump``."""
    return f"<{node.text}>" if node.form == "iri" else node.text


def variables(words: Iterable[Word]) -> str:
    """``?a, ?b``."""
    return ", ".join(f"?{word.text}" for word in words)
