"""The names that a broken statement would have declared, so that nobody complains of them a second
time.
"""

from __future__ import annotations

import re

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.syntax.keywords import STATEMENT_WORDS
from fedkg_compiler.frontends.fkg.syntax.split import Chunk
from fedkg_compiler.frontends.fkg.syntax.tree import Lost

_NAME = re.compile(r"\s*(?:knowledge\s+|of\s+)?(?:`([^`\n]+)`|([^\W\d]\w*))")
_NAMES = re.compile(r"[^\W\d][\w.]*")


def find_lost_names(chunk: Chunk) -> Lost | None:
    """What a statement that did not parse would have been, as far as its first line tells; None
    where that is not to be seen.
    """
    first = chunk.first_word
    word = first if first in STATEMENT_WORDS else nearest_name(first.lstrip("@"), STATEMENT_WORDS)
    if word is None:
        return None
    line = chunk.text[chunk.indent + len(first) :].split("\n", 1)[0]
    if word == "use":
        names = tuple(_NAMES.findall(line.split("#")[0]))
    else:
        found = _NAME.match(line)
        names = (found[1] or found[2],) if found else ()
    start = chunk.indent + 1
    span = Span(
        file=chunk.file,
        line=chunk.line,
        column=start,
        end_line=chunk.line,
        end_column=start + len(first),
    )
    return Lost(span=span, word=word, names=names)
