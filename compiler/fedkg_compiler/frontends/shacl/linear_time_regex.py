"""Regular expressions of shapes, matched in bounded time.

Python's `re` backtracks: ``(a+)+$`` takes a time that doubles with each letter of the text.
Patterns with several choices (repetitions, optional parts, alternatives) are matched by the graph
store; its engine takes a time linear in the text. So are patterns with categories of characters
such as ``\\p{Lu}``, which `re` lacks.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fedkg_compiler.graph import oxigraph as ox

_REPEATED = r"(?:[*+]|\{\d+(?:,\d*)?\}|\{,\d+\})"
_FIXED = re.compile(r"\{\d+\}")
_WORD = re.compile(
    rf"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<repeat>{_REPEATED})|(?P<open>\(\??)|(?P<close>\))"
    r"|(?P<choice>[|?])",
    re.DOTALL,
)
_CATEGORY = re.compile(r"(?<!\\)(?:\\\\)*\\[pP]")
_LETTERS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE}
_WRONG_CATEGORY = (
    "which is not a regular expression, or has look-around or back-references beside a category "
    "such as \\p{Lu}"
)


def what_is_wrong(pattern: str) -> str:
    """Why a text cannot be a pattern; "" if it can."""
    if _CATEGORY.search(pattern):
        return _WRONG_CATEGORY if _linear(pattern, "", "") is None else ""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return "which is not a regular expression"
    if _nests(pattern) and _linear(pattern, "", "") is None:
        return (
            "which repeats a repetition or an alternative and has look-around or back-references: "
            "matching it can take unlimited time"
        )
    return ""


def matches(pattern: str, flags: str, text: str) -> bool:
    """Whether a pattern matches somewhere in a text.

    `flags`: letters of `sh:flags`, others are ignored.
    """
    has_category = _CATEGORY.search(pattern) is not None
    # `re` also finds `$` before a last line break.
    ends = "$" in pattern and text.endswith("\n")
    if has_category or ends or _choices(pattern) > 1 or _nests(pattern):
        found = _linear(pattern, "".join(letter for letter in flags if letter in _LETTERS), text)
        if has_category or found is not None:
            return bool(found)
    total = re.RegexFlag(0)
    for letter in flags:
        total |= _LETTERS.get(letter, re.RegexFlag(0))
    return re.search(pattern, text, total) is not None


@lru_cache(maxsize=1)
def _store() -> ox.Store:
    return ox.Store()


def _linear(pattern: str, flags: str, text: str) -> bool | None:
    """Whether a pattern matches, in linear time; None if it has what only backtracking finds."""
    given = ", ".join(str(ox.Literal(value)) for value in (text, pattern, flags))
    found = _store().query(f"SELECT (REGEX({given}) AS ?found) WHERE {{}}")
    assert isinstance(found, ox.QuerySolutions)
    for solution in found:
        answer = solution["found"]
        return answer.value == "true" if isinstance(answer, ox.Literal) else None
    return None


def _choices(pattern: str) -> int:
    """How many repetitions of variable length, optional parts and alternatives a pattern has."""
    words = _WORD.finditer(pattern)
    return sum(
        bool(word["choice"] or (word["repeat"] and not _FIXED.fullmatch(word["repeat"])))
        for word in words
    )


def _nests(pattern: str) -> bool:
    """Whether a repeated group has a repetition, alternatives or an optional part inside."""
    inside = [False]
    closed = False
    end = -1
    for word in _WORD.finditer(pattern):
        if word["open"]:
            inside.append(False)
        elif word["close"] and len(inside) > 1:
            closed, end = inside.pop(), word.end()
            inside[-1] = inside[-1] or closed
            continue
        elif word["choice"]:
            inside[-1] = True
        elif word["repeat"]:
            if closed and word.start() == end:
                return True
            inside[-1] = True
        closed = False
    return False
