"""Mistakes in words: misspelt, out of place, from another language."""

from __future__ import annotations

import re

from fedkg._internal.name_matching import nearest_name
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit_table import ALIASES
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import keywords

PREFIX_WORDS = (
    "always",
    "eventually",
    "once",
    "historically",
    "next",
    "previous",
    "initially",
    "if",
)
OVER_TIME = ("always", "eventually", "once", "historically")
OPTION_WORDS = ("kind", "weight", "hard", "for", "scope", "allow", "require")
_AFTER_VALUE = (
    "and",
    "or",
    "then",
    "only",
    "until",
    "since",
    "within",
    "otherwise",
    "predict",
    "allow",
)
_BEFORE_CONDITION = (*PREFIX_WORDS, "not")
_WITHIN = (
    "write the time after the word that it belongs to: `eventually within 2 h ...` or `only after"
    " ... within 2 h`"
)
_WORD = re.compile(r"[^\W\d]\w*\Z")
_DURATION = re.compile(r"\d+(\.\d+)?\s*(ms|s|min|h|d|day|days|week|weeks)\b")
_COMPARES = re.compile(r"[^\n]*?(<=?|>=?|==|!=|[≤≥≠]|\bis\b|\bnever\b)")

# Words of other languages: the word, a token that must be acceptable here or "", the help.
MEANT = (
    ("else", "", "the rule language has no else: write a second rule for the other case"),
    ("elif", "", "the rule language has no else: write a second rule for the other case"),
    ("unless", "", "write: if not (...) then ...; or: a weak until b"),
    ("when", "", "in a rule write: if ... then ..."),
    ("while", "", "write: if ... then ..."),
    ("whenever", "", "write: if ... then ..."),
    ("after", "", "write: a only after b; or: if (once b) then a"),
    ("then", "", "`then` needs its `if`: if ... then ..."),
    ("implies", "", "write: if ... then ..."),
    ("between", "CMP", "write: 1 <= x <= 5"),
    ("equals", "CMP", "equality is =="),
    ("decreases", "FALLS", "write: never falls"),
    ("drops", "FALLS", "write: never falls"),
    ("sinks", "FALLS", "write: never falls"),
    ("increases", "RISES", "write: never rises"),
    ("grows", "RISES", "write: never rises"),
    ("unit", "IN", "a unit is given by `in`: in bar"),
    ("range", "SPAN", "a range is given by `span`: span 0 .. 10"),
    ("must", "REQUIRE", "write the condition of a rule after `require`"),
    ("that", "REQUIRE", "write the condition of a rule after `require`"),
    ("soft", "HARD", "a rule is soft unless it says hard: leave the word out"),
    ("tolerance", "HARD", "write the tolerance in the comparison: a == b +/- 0.5 kg/h"),
    ("forall", "FOR", "write: for ?x in class ... , or: for ?x where { ... }"),
    ("true", "", "compare a signal: valve is true"),
    ("false", "", "compare a signal: valve is false"),
)


def read_as_name(at: ParseFailure) -> Explanation | None:
    """``1 AND y``, ``not`` before a value, ``Always x``: a word that was read as a unit or a name,
    and shows itself one word later.
    """
    last = at.last
    if (
        last is None
        or last.type not in ("UNIT", "NAME")
        or at.at_end
        or not re.match(r"[\w?`(]", at.bad)
    ):
        return None
    if not any(str(token) in ("require", "when", "=") for token in at.before):
        return None
    word, start = str(last), last.start_pos
    end = start + len(word)
    if word == "not":
        return Explanation(
            "FKG019", "`not` negates a condition, not a value", "write: not (a <= b)", start, end
        )
    if word in ("until", "since") and last.type == "NAME":
        return Explanation(
            "FKG029",
            f"`{word}` joins two conditions",
            f"write: valve is on {word} pressure > 5",
            start,
            end,
        )
    if word == "within":
        return Explanation("FKG017", "`within` cannot be used here", _WITHIN, start, end)
    for known, needs, hint in MEANT:
        if word.casefold() == known and not needs and not (known == "when" and at.form != "rule"):
            return Explanation(_code(known), f"`{word}` cannot be used here", hint, start, end)
    words = _AFTER_VALUE if last.type == "UNIT" else _BEFORE_CONDITION
    near = nearest_name(word, words)
    if near is not None and word not in words:
        return Explanation(
            "FKG006", f"`{word}` is not expected here", f"did you mean `{near}`?", start, end
        )
    return None


def misspelt_operator(at: ParseFailure) -> Explanation | None:
    """``eventualy within 10 min x > 5``, ``alwyas [0 h, 1 h] x > 5``: a word over time with a slip
    in it, and its window behind.
    """
    last = at.last
    if last is None or last.type != "NAME" or at.bad not in ("within", "["):
        return None
    near = nearest_name(str(last), OVER_TIME)
    if near is None:
        return None
    start = last.start_pos
    return Explanation(
        "FKG006",
        f"`{last}` is not expected here",
        f"did you mean `{near}`?",
        start,
        start + len(last),
    )


def second_statement(at: ParseFailure) -> Explanation | None:
    """``rule a require x <= 1 rule b ...`` on one line."""
    words = ("rule", "signal", "output", "label", "template", "example")
    if len(at.before) < 3 or at.last is None:
        return None
    if at.bad in words and re.match(r"\s+[^\W\d`]", at.rest[len(at.bad) :]):
        return Explanation(
            "FKG027",
            f"`{at.bad}` begins another statement",
            "move it to a separate line, at the left edge",
        )
    if str(at.last) in words and at.last.type == "UNIT" and re.match(r"[^\W\d]|`", at.bad):
        start = at.last.start_pos
        hint = "move it to a separate line, at the left edge"
        return Explanation(
            "FKG027", f"`{at.last}` begins another statement", hint, start, start + len(at.last)
        )
    return None


def _code(word: str) -> str:
    """The code of a word of another language: conditionals have their own."""
    return (
        "FKG020"
        if word in ("else", "elif", "unless", "when", "implies", "then", "while", "whenever")
        else "FKG006"
    )


def misspelt(at: ParseFailure) -> Explanation | None:
    """A misspelt keyword that the grammar accepts here."""
    if not _WORD.match(at.bad):
        return None
    near = nearest_name(at.bad, at.allowed_words)
    if near is None or at.bad in at.allowed_words:
        return None
    return Explanation("FKG006", f"`{at.bad}` is not expected here", f"did you mean `{near}`?")


def meant(at: ParseFailure) -> Explanation | None:
    """A word of another language."""
    for word, needs, hint in MEANT:
        if (
            at.bad.casefold() == word
            and (not needs or needs in at.accepts)
            and not (word == "when" and at.form != "rule")
        ):
            return Explanation(_code(word), f"`{at.bad}` cannot be used here", hint)
    return None


def falling_feature(at: ParseFailure) -> Explanation | None:
    """``as wear falls``: the second half of a monotone condition always rises."""
    if "RISES" in at.accepts and "FALLS" not in at.accepts and at.has("never"):
        if not _WORD.match(at.bad):
            return Explanation(
                "FKG028",
                "`as` takes one signal",
                "declare the quantity as a separate signal, or name one signal",
            )
        hint = (
            "the feature always rises: reverse the first word instead (`never rises` for `never"
            " falls`)"
        )
        return Explanation("FKG028", "`as` must be followed by `rises`", hint)
    return None


def mixed_and_or(at: ParseFailure) -> Explanation | None:
    """``a and b or c``, ``a until b until c``."""
    if (
        at.bad in ("until", "since")
        and (at.has("until") or at.has("since"))
        and not at.open_brackets
        and "CMP" in at.accepts
    ):
        return Explanation(
            "FKG016",
            f"`{at.bad}` follows another one",
            f"put one of the two in parentheses: (a until b) {at.bad} c",
        )
    if at.bad not in ("and", "or"):
        return None
    other = "or" if at.bad == "and" else "and"
    depth = 0
    for token in reversed(at.before):
        depth += str(token) in (")", "]", "}")
        depth -= str(token) in ("(", "[", "{")
        if depth < 0 or str(token) in ("then", "if", "require", "when"):
            break
        if depth == 0 and str(token) == other:
            hint = f"put one of the two in parentheses: (a {other} b) {at.bad} c"
            return Explanation("FKG009", f"`{at.bad}` is mixed with `{other}`", hint)
    return None


def late_option(at: ParseFailure) -> Explanation | None:
    """``require x <= 3 kind physical``: an option after the formula."""
    if at.form != "rule" or not at.has("require"):
        return None
    hint = "options come before require: rule NAME kind capacity weight 2 require ..."
    if at.bad in OPTION_WORDS:
        return Explanation("FKG015", f"`{at.bad}` comes after the condition", hint)
    if at.last is not None and str(at.last) in OPTION_WORDS and at.last.type in ("UNIT", "FOR"):
        start = at.last.start_pos
        return Explanation(
            "FKG015", f"`{at.last}` comes after the condition", hint, start, start + len(at.last)
        )
    return None


def inner_prefix(at: ParseFailure) -> Explanation | None:
    """``a and always b``: a prefix word in the middle."""
    word, start = at.bad, at.start
    if (
        at.last is not None
        and at.last.type in ("NAME", "UNIT")
        and str(at.last) in PREFIX_WORDS
        and word not in PREFIX_WORDS
    ):
        word, start = str(at.last), at.last.start_pos
    if (
        word not in PREFIX_WORDS
        or word.upper() in at.accepts
        or not any(str(token) in ("require", "when", "=") for token in at.before)
    ):
        return None
    hint = f"`{word}` reaches to the end or to a closing parenthesis: write ({word} ...)"
    before = [token for token in at.before if token.end_pos <= start][-1:]
    if (
        word == "previous"
        and before
        and (before[0].type == "CMP" or str(before[0]) in ("+", "-", "*", "/", "("))
    ):
        place = (start, start + len(word))
        return Explanation(
            "FKG016",
            "`previous` shifts a condition, not a value",
            "write the value one step before as: past x",
            *place,
            ((*place, "past"),),
        )
    if (
        word == "next"
        and before
        and (before[0].type == "CMP" or str(before[0]) in ("+", "-", "*", "/"))
    ):
        return Explanation(
            "FKG016",
            "`next` shifts a condition, not a value",
            "write it before the condition: next (x >= 1)",
            start,
            start + len(word),
        )
    if word == "if" and before and str(before[0]) == "only":
        start = before[0].start_pos
        return Explanation(
            "FKG020",
            "`only if` has the opposite order",
            "`a only if b` is: if a then b",
            start,
            at.start + len(word),
        )
    if word == "if" and not at.has("if") and not re.search(r"\bthen\b", at.text):
        return Explanation(
            "FKG020",
            "`if` comes after its consequence",
            "reverse it: if ... then ...",
            start,
            start + len(word),
        )
    return Explanation(
        "FKG016", f"`{word}` in the middle needs parentheses", hint, start, start + len(word)
    )


def tolerance_as_within(at: ParseFailure) -> Explanation | None:
    """``a == b within 0.5 kg/h``."""
    if at.bad != "within":
        return None
    if at.allows("+/-"):
        hint = (
            "`within` is a time, as in `only after ... within 30 min`; a tolerance is written +/-"
            " 0.5 kg/h"
        )
        return Explanation("FKG017", "`within` is not a tolerance", hint)
    return Explanation("FKG017", "`within` cannot be used here", _WITHIN)


_HEADER_UNITS = {**ALIASES, "bar(g)": "barg"}
"""Spellings of table headers, which are not all one word, and the unit to write in a rule file."""


def header_spelling(at: ParseFailure) -> Explanation | None:
    """``6 bar ü``, ``psi(g)``: a unit that is read in headers and sites files alone."""
    last = at.last
    if last is None or last.type != "UNIT" or last.start_pos is None:
        return None
    rest = at.text[last.start_pos :]
    spelt = [
        text
        for text in _HEADER_UNITS
        if len(text) > len(last) and re.match(re.escape(text) + r"(?!\w)", rest)
    ]
    if not spelt:
        return None
    text = max(spelt, key=len)
    start, end = last.start_pos, last.start_pos + len(text)
    unit = _HEADER_UNITS[text]
    return Explanation(
        "FKG007",
        f"`{text}` is read in table headers and sites files, not in rule files",
        f"write {unit}",
        start,
        end,
        ((start, end, unit),),
    )


def split_unit(at: ParseFailure) -> Explanation | None:
    """``60 N m``: a unit of two words."""
    last = at.last
    if (
        last is None
        or last.type != "UNIT"
        or not re.match(r"[^\W\d_]|[°%]", at.bad)
        or (at.bad in keywords().values() and at.bad != "of")
    ):
        return None
    after = at.rest[len(at.bad) :]
    if at.form == "rule" and _COMPARES.match(after) and not re.match(r"\s*(and|or|then)\b", after):
        return None
    hint = "a unit is one word"
    if not any(isinstance(parse_unit(text), UnitProblem) for text in (str(last), at.bad)):
        hint += f": {last}.{at.bad} or {last}/{at.bad}"
    if str(last) in ("°", "deg") and at.bad in ("C", "F", "K"):
        meant = "K" if at.bad == "K" else f"{last}{at.bad}"
        start, end = last.start_pos, at.start + len(at.bad)
        return Explanation(
            "FKG007",
            f"`{at.bad}` is separated from `{last}`",
            f"write {meant}",
            last.start_pos,
            end,
            ((start, end, meant),),
        )
    if at.bad in ("to", "bis"):
        return Explanation(
            "FKG002",
            f"`{at.bad}` does not join two limits",
            "a range is written as a chain: 3 bar <= x <= 5 bar",
        )
    if at.bad == "of" and str(last) in ("%", "percent"):
        hint = "a share is written as a product: 0.05 * pressure for 5 % of the pressure"
        return Explanation("FKG007", f"`of` cannot follow `{last}`", hint)
    return Explanation("FKG007", f"`{at.bad}` is separated from the unit `{last}`", hint)


def side_by_side(at: ParseFailure) -> Explanation | None:
    """Two values or two conditions with nothing between them."""
    last = at.last
    if (
        last is None
        or not {"PLUS", "AND"} & at.accepts
        or not re.match(r"[^\W\d]|[?`(0-9]", at.bad)
    ):
        return None
    if at.bad in keywords().values() and at.bad != "(":
        return None
    left = str(last).strip("`")
    gauge = (
        re.match(r"\(\s*([ag])[a-z]*\.?\s*\)", at.rest)
        if last.type == "UNIT" and left in ("bar", "psi", "mbar", "kPa")
        else None
    )
    if gauge is not None:
        start, end = last.start_pos, at.start + gauge.end()
        return Explanation(
            "FKG007",
            f"`{at.text[start:end]}` is not a valid spelling of the unit",
            f"write {left}{gauge[1]}",
            start,
            end,
        )
    if at.bad == "(" and last.type in ("QUOTED", "VAR"):
        return Explanation(
            "FKG029",
            f"`{left}` takes no arguments: a column or variable has no parentheses after it",
            "remove them, or write the missing operator: and, or, +, *",
        )
    if left in ("and", "or") and len(at.before) > 1 and str(at.before[-2]) == left:
        return Explanation(
            "FKG029", f"`{left}` is written twice", "remove one", last.start_pos, last.end_pos
        )
    message = f"missing operator between `{left}` and `{at.bad}`"
    if (
        "COMMA" in at.accepts
        and at.open_brackets
        and re.search(r"\w\s*\Z", at.text[: at.open_brackets[-1].start_pos])
    ):
        return Explanation(
            "FKG029", message, f"arguments have commas between them: {left}, {at.bad}"
        )
    if last.type == "NAME" and _WORD.match(at.bad):
        hint = (
            f"a name is one word: {left}_{at.bad}, or the column in backquotes: `{left} {at.bad}`;"
            " two values are joined by +, *, <="
        )
        return Explanation("FKG029", message, hint)
    lag = _DURATION.match(at.rest)
    if last.type == "NAME" and lag is not None:
        hint = f"for an earlier value write: {left} {lag[0]} ago; else join the two: +, -, *, <="
        return Explanation("FKG029", message, hint)
    two = (
        "two conditions: and, or"
        if "AND" in at.accepts and "CMP" not in at.accepts
        else "the two: and, or, +, *, <="
    )
    return Explanation("FKG029", message, f"join {two}")
