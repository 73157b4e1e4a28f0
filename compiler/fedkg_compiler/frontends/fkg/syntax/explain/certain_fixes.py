"""Fixes of syntax errors that have only one plausible correction."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fedkg._internal.name_matching import distance
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure
from fedkg_compiler.frontends.fkg.syntax.explain.keyword_mistakes import PREFIX_WORDS

Changes = tuple[tuple[int, int, str], ...]

# For each code: the text as written, and its correction.
SIGNS: dict[str, dict[str, str]] = {
    "FKG010": {
        "===": "==",
        "=<": "<=",
        "=": "==",
        ":=": "==",
        "<>": "!=",
        "!==": "!=",
        "<==": "<=",
        ">==": ">=",
    },
    "FKG024": {
        "**": "^",
        "−": "-",
        "–": "-",
        "—": "-",
        "×": "*",
        "⋅": "*",
        "·": "*",
        "∙": "*",
        "÷": "/",
    },
}
WORDS = {
    "&&": "and",
    "&": "and",
    "∧": "and",
    "||": "or",
    "|": "or",
    "∨": "or",
    "!": "not",
    "¬": "not",
    "~": "not",
}
MEANT = {
    "equals": "==",
    "decreases": "falls",
    "drops": "falls",
    "sinks": "falls",
    "increases": "rises",
    "grows": "rises",
    "unit": "in",
    "range": "span",
}
_QUOTED = re.compile(r"[“”„‟«»]([^“”„‟«»\"\\\n]*)[“”„‟«»]|'([^'\"\\\n]*)'")
_MISSING = re.compile(r"`(\w+)` is missing(?: before `[^`]+`| behind `from`)?\Z")
_THOUSANDS = re.compile(
    r"[0-9]{1,3}(?:(?:['’_ \u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?|(?:\.[0-9]{3}){2,})"
)
_LIST = re.compile(r"[(\[{]([^()\[\]{}\n]*)[)\]}]")
_SHORT = 3


def certain_fix(at: ParseFailure, found: Explanation) -> Changes:
    """Return the edits that correct a mistake, or () if several corrections are plausible."""
    start = at.start if found.start is None else found.start
    end = start + len(at.bad) if found.start is None else (found.end or start)
    written = at.text[start:end]
    match found.code:
        case "FKG010" | "FKG024":
            return _sign(at, found, start, end)
        case "FKG011":
            return _arrow(at, start, end)
        case "FKG012" if written in WORDS:
            before = (
                ""
                if at.text[start - 1 : start].isspace() or at.text[start - 1 : start] == "("
                else " "
            )
            after = "" if at.text[end : end + 1].isspace() else " "
            return ((start, end, f"{before}{WORDS[written]}{after}"),)
        case "FKG008" | "FKG023":
            return _number(found, start, end, written)
        case "FKG013" | "FKG022":
            return _marks(at, found, start, end)
        case "FKG006":
            return _word(at, found, start, end)
        case "FKG002" | "FKG022" | "FKG053" if missing := _MISSING.match(found.message):
            return ((start, start, f"{missing[1]} "),)
        case "FKG020" if at.bad == ",":
            return ((start, end, "" if re.match(r"\s*then\b", at.text[end:]) else " then"),)
        case "FKG043":
            return ((start, end, ""),)
        case "FKG051":
            return _class_list(at, found, start)
        case "FKG054" if found.help.endswith("as: unknown"):
            return ((start, end, "unknown"),)
        case _:
            return ()


def is_typo(word: str, meant: str, known: Iterable[str]) -> bool:
    """Return whether a word differs from a keyword by one edit, and from all others by more."""
    others = {other for other in known if other not in (word, meant)}
    if word.casefold() == meant.casefold():
        return True
    return (
        len(word) >= _SHORT
        and distance(word, meant, 1) <= 1
        and all(distance(word, other, 1) > 1 for other in others)
    )


def _sign(at: ParseFailure, found: Explanation, start: int, end: int) -> Changes:
    written = at.text[start:end]
    meant = SIGNS[found.code].get(written)
    if meant is None and re.fullmatch(r"[<>]\s+=", written):
        meant = written[0] + "="
    rest = at.text[end:].split("\n", 1)[0].strip()
    if written in (";", ".") and (not rest or rest.startswith("#")):
        meant = ""
    if written == "," and at.form == "example":
        meant = ""
    in_unit = written in "×⋅·∙÷" and at.last is not None and at.last.type == "UNIT" and at.touching
    return () if meant is None or in_unit else ((start, end, meant),)


def _arrow(at: ParseFailure, start: int, end: int) -> Changes:
    """Rewrite ``require a -> b`` as ``require if a then b``.

    After a prefix word, or in parentheses, the arrow has two readings: there is no fix.
    """
    if at.text[start:end] not in ("->", "=>", "→", "⇒", "⟹", "-->"):
        return ()
    opened = [token for token in at.before if str(token) in ("require", "when")]
    if at.open_brackets or not opened:
        return ()
    first = opened[-1].end_pos
    words = [str(token) for token in at.before if token.start_pos >= first]
    if words[:1] == ["if"] and "then" not in words and not {*PREFIX_WORDS[:-1]} & {*words}:
        return ((start, end, "then"),)
    if {*PREFIX_WORDS, "then", "until", "since", "only"} & {*words}:
        return ()
    return ((first, first, " if"), (start, end, "then"))


def _number(found: Explanation, start: int, end: int, written: str) -> Changes:
    """Correct decimal commas, separated digits and signs; ``1,000`` is ambiguous."""
    meant = re.search(r"(?:: |write )([0-9.]+)\Z", found.help)
    if meant is None:
        return ()
    if found.code == "FKG008" and (
        re.fullmatch(r"[0-9]+,[0-9]{3}", written) or found.help.startswith("a number has one point")
    ):
        return ()
    if found.code == "FKG023" and not (written[:1] in ".+" or _THOUSANDS.fullmatch(written)):
        return ()
    return ((start, end, meant[1]),)


def _marks(at: ParseFailure, found: Explanation, start: int, end: int) -> Changes:
    """Quotes, question marks of variables, brackets of IRIs."""
    written = at.text[start:end]
    if at.accepts == {"STRING"} and found.help.startswith('write "'):
        return ((start, end, found.help.removeprefix("write ")),)
    quoted = _QUOTED.match(at.text, start)
    if found.code == "FKG013" and quoted and "STRING" in at.accepts:
        return ((start, quoted.end(), f'"{quoted[1] or quoted[2] or ""}"'),)
    if found.message.endswith("is not a variable") or written.startswith("$"):
        return ((start, end, "?" + written.lstrip("$")),)
    if found.message.endswith("is not a variable of the rule language"):
        return ((start, end, "?" + written[1:]),)
    if at.accepts == {"IRI"} and re.match(r"[\"']?https?://", written):
        return ((start, end, "<" + written.strip("\"'") + ">"),)
    if (
        at.accepts == {"COLON"}
        and at.form == "prefix"
        and at.bad.startswith("<")
        and at.last is not None
    ):
        return ((at.last.end_pos, at.last.end_pos, ":"),)
    missing = _MISSING.match(found.message)
    return ((start, start, f"{missing[1]} "),) if missing else ()


def _word(at: ParseFailure, found: Explanation, start: int, end: int) -> Changes:
    written = at.text[start:end]
    if written.casefold() in MEANT:
        return ((start, end, MEANT[written.casefold()]),)
    near = re.fullmatch(r"did you mean `([^`]+)`\?", found.help)
    return ((start, end, near[1]),) if near and is_typo(written, near[1], at.allowed_words) else ()


def _class_list(at: ParseFailure, found: Explanation, start: int) -> Changes:
    """``is in A``, ``not A``, ``in (A, B)``."""
    if found.message == "`is in` is one word too many":
        return ((start, at.last.start_pos, ""),) if at.last else ()
    if found.message == "`not in` is one word too many":
        verb = at.before[-3]
        return ((verb.start_pos, start, ""),) if verb.type == "IS" else ()
    if found.message.startswith("`not` cannot come before") and at.last is not None:
        return ((at.last.start_pos, at.last.start_pos, "is "),)
    whole = _LIST.match(at.text, start)
    if found.message.startswith("a list of classes has no") and whole and whole[1].strip():
        return ((start, whole.end(), whole[1].strip()),)
    return ()
