"""Comparisons and ranges in everyday English: ``is greater than 3``, ``between 3 and 5``."""

from __future__ import annotations

import re
from fractions import Fraction

from fedkg.units import Unit, parse_unit
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import Token

_VERBS = (
    r"(?:(?:must|should|shall|will|may|can|do|does|has\s+to"
    r"|is|be|stays?|remains?|lies?|keeps?|equals?)\s+)*"
)
_NEVER = r"(?P<never>(?:not|never|cannot|no)\s+)?(?:(?:be|stay|lie)\s+)?"
_MORE, _LESS = r"(?:greater|bigger|larger|higher|more)", r"(?:less|smaller|lower|fewer)"
_OPERATORS = (
    (
        (
            rf"(?:{_MORE}(?:\s+than)?|above|over)\s+or\s+equal(?:\s+(?:to|than))?"
            rf"|equal\s+(?:to\s+)?or\s+{_MORE}\s+than|at\s+least"
        ),
        ">=",
        "<",
    ),
    (
        (
            rf"(?:{_LESS}(?:\s+than)?|below|under)\s+or\s+equal(?:\s+(?:to|than))?"
            rf"|equal\s+(?:to\s+)?or\s+{_LESS}\s+than|at\s+most|up\s+to"
        ),
        "<=",
        ">",
    ),
    (rf"{_MORE}\s+than|above|over(?=\s+-?\d)|exceeds?", ">", "<="),
    (rf"{_LESS}\s+than|below|under", "<", ">="),
    (r"equal\s+to|the\s+same\s+as", "==", "!="),
)
_NEXT = r"(?:and|or|then|until|since|only|otherwise|allow|predict)"
_PHRASES = tuple(
    (re.compile(rf"{_VERBS}{_NEVER}(?:{words})(?=\s+(?!{_NEXT}\b)[-\d?`\w(])"), sign, other)
    for words, sign, other in _OPERATORS
)
_SIGN = re.compile(r"(?:is\s+)?not\s+(?P<sign><=|>=|==|!=|[<>≤≥])")
_TURNED = {"<": ">=", "<=": ">", "≤": ">", ">": "<=", ">=": "<", "≥": "<", "==": "!=", "!=": "=="}
_NUMBER, _UNIT = (
    r"-?\d+(?:[.,]\d+)?",
    r"(?!(?:and|to|bis|or|then)\b)[^\W\d_°%][^\s,;\])–…-]*|[°%][^\s,;\])]*",
)
_LOW = rf"(?P<low>{_NUMBER})\s*(?P<first>{_UNIT})?"
_RANGE = re.compile(
    rf"{_VERBS}{_NEVER}(?P<word>between|from|inside|within|in|is|===?|==?|)"
    rf"\s*(?:the\s+range\s+|range\s+)?(?P<bracket>[\[(]?)\s*{_LOW}"
    rf"\s*(?P<join>and\b|to\b|bis\b|\.\.+|…|–|—|-|,|;)"
    rf"\s*(?P<high>{_NUMBER})(?:\s*(?P<closed>[\])\[]))?(?:["
    rf" \t]*(?P<second>{_UNIT}))?(?:\s*(?P<closing>[\])\[]))?"
)
_THOUSANDS = re.compile(r",\d{3}(?!\d)")
_VALUE = ("NAME", "UNIT", "NUMBER", "QUOTED", "VAR", "RPAR")


def comparison_in_words(at: ParseFailure) -> Explanation | None:
    """``pressure is greater than 3``, ``pressure must stay below 5``: a comparison in words."""
    for start in _possible_starts(at):
        for pattern, sign, other in _PHRASES:
            found = pattern.match(at.text, start)
            if found is not None and found.end() >= len(at.text[: at.start].rstrip()) and found[0]:
                meant = other if found["never"] else sign
                words = " ".join(found[0].split())
                return Explanation(
                    "FKG006",
                    f"`{words}` is written as an operator in the rule language",
                    f"write {meant}",
                    start,
                    found.end(),
                    ((start, found.end(), meant),),
                )
        turned = _SIGN.match(at.text, start)
        if turned is not None:
            meant = _TURNED[turned["sign"]]
            message = f"`{' '.join(turned[0].split())}` is not a comparison operator"
            return Explanation(
                "FKG010",
                message,
                f"write {meant}",
                start,
                turned.end(),
                ((start, turned.end(), meant),),
            )
    return None


def range_in_words(at: ParseFailure) -> Explanation | None:
    """``pressure between 3 bar and 5 bar``, ``pressure in [3, 5] bar``, ``= 3..5 bar``: a range
    said in words or brackets.
    """
    for start in _possible_starts(at):
        found = _RANGE.match(at.text, start)
        if found is None or found.end() <= at.start or not _is_range(found):
            continue
        left = _name_alone(at, start)
        written, ordered = _chain(found, "x" if left is None else str(left))
        hint = f"write: {written}" if ordered else f"write the smaller end first: {written}"
        whole = " ".join(found[0].split())
        certain = ordered and found["low"] != found["high"] and _brackets(found) in ("", "[]")
        fix = ((left.start_pos, found.end(), written),) if left is not None and certain else ()
        return Explanation(
            "FKG006",
            f"the range `{whole}` is written as a chain of comparisons",
            hint,
            start,
            found.end(),
            fix,
        )
    return None


def _name_alone(at: ParseFailure, start: int) -> Token | None:
    """The name before a place, where nothing else is compared with the range; None for more than a
    name.
    """
    before = [token for token in at.before if token.end_pos <= start]
    alone = bool(before) and before[-1].type in ("NAME", "QUOTED")
    return (
        before[-1]
        if alone and (len(before) < 2 or str(before[-2]) in ("require", "if", "then", "when"))
        else None
    )


def _chain(found: re.Match[str], left: str) -> tuple[str, bool]:
    """Return a range as a chain of comparisons, and whether its ends were in this order.

    The smaller end comes first if both ends have the same unit.
    """
    unit = found["second"] or found["first"] or ""
    low, high = (text.replace(",", ".") for text in (found["low"], found["high"]))
    first, second = f"{low} {found['first'] or unit}".strip(), f"{high} {unit}".strip()
    ordered = float(low) <= float(high) or first.split(" ")[1:] != second.split(" ")[1:]
    chain = f"{first} <= {left} <= {second}" if ordered else f"{second} <= {left} <= {first}"
    return f"not ({chain})" if found["never"] else chain, ordered


def _brackets(found: re.Match[str]) -> str:
    """Those around a range: of ``[ ]`` both ends belong to it, of ``( )`` and ``[ [`` opinions
    differ.
    """
    return found["bracket"] + (found["closed"] or found["closing"] or "")


def _is_range(found: re.Match[str]) -> bool:
    """Whether what looks like one is a range, and no list, time or difference, and its numbers can
    be read in one way alone.
    """
    word, join = found["word"], found["join"]
    if _THOUSANDS.search(found["low"]) or _THOUSANDS.search(found["high"]):
        return False
    if join in (",", ";") and not found["bracket"]:
        return False
    if join == "and" and word not in ("between", "from", "in", "inside"):
        return False
    if join == "-" and word in ("is", "==", "=", "===", ""):
        return False
    if not word and join not in ("..", "...", "…"):
        return False
    unit = parse_unit(found["second"] or found["first"] or "1")
    return word != "within" or not (
        isinstance(unit, Unit) and unit.dimension == (("time", Fraction(1)),)
    )


def _possible_starts(at: ParseFailure) -> list[int]:
    """Return the offsets where words that follow a value may start.

    This is the failure, or an earlier token that was read as something else.
    """
    if not any(str(token) in ("require", "when", "=") for token in at.before):
        return []
    starts = [token.start_pos for token in at.before[-5:]]
    known = [*at.before]
    return [
        start
        for start in (*starts, at.start)
        if any(token.end_pos <= start for token in known)
        and next(
            token.type in _VALUE and str(token) != "not"
            for token in reversed(known)
            if token.end_pos <= start
        )
    ]
