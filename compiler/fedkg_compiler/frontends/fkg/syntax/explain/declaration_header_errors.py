"""Mistakes in the heads of statements: words that are left out, signs of other languages behind a
name, texts in the wrong place.
"""

from __future__ import annotations

import re

from fedkg.units import Unit, parse_unit
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import (
    Explanation,
    ParseFailure,
    spaced_values,
)
from fedkg_compiler.frontends.fkg.syntax.explain.keyword_mistakes import PREFIX_WORDS

_NAME = re.compile(r"[^\W\d]\w*\Z")


def rule_head(at: ParseFailure) -> Explanation | None:
    """``rule a: require ...``, ``rule a = x <= 1``, ``rule a if ...``, ``rule a require: ...``, and
    a text behind the condition.
    """
    if at.form != "rule" or len(at.before) < 2:
        return None
    if at.bad == ":":
        where = (
            f"`{at.last}`"
            if at.last is not None and str(at.last) == "require"
            else "the name of a rule"
        )
        return Explanation(
            "FKG021",
            f"{where} has no colon",
            "remove it",
            at.start,
            at.start + 1,
            ((at.start, at.start + 1, ""),),
        )
    if "REQUIRE" in at.accepts and at.bad in ("=", ":="):
        end = at.start + len(at.bad)
        return Explanation(
            "FKG002",
            f"`{at.bad}` is used in place of `require`",
            "write: rule NAME require ...",
            at.start,
            end,
            ((at.start, end, "require"),),
        )
    if "REQUIRE" in at.accepts and at.bad in (*PREFIX_WORDS, "not", "follows", "("):
        if re.search(r"\brequire\b", at.rest):
            return Explanation(
                "FKG015",
                "`require` comes too late",
                "write it before the whole condition: rule NAME require if ... then ...",
            )
        return Explanation(
            "FKG002", f"`require` is missing before `{at.bad}`", "write: rule NAME require ..."
        )
    if (
        at.bad[:1] == '"'
        and at.has("require")
        and not {"STRING", "NUMBER"} & at.accepts
        and re.match(r'"[^"\n]*"\s*\Z', at.rest)
    ):
        return Explanation(
            "FKG015",
            "unexpected text after the condition",
            f"put the title right after the rule name: rule {at.before[1]} {at.bad} require ...",
        )
    return None


def signal_head(at: ParseFailure) -> Explanation | None:
    """``signal q bar``, ``signal q in bar 0 .. 20``, ``signal q in bar span 0 .. 20 bar``: words
    left out, a unit twice.
    """
    if at.form not in ("signal", "output") or at.last is None:
        return None
    named = (
        re.search(r"\sin\s", at.rest) is not None
    )  # then this word is part of a name of two words
    if (
        "IN" in at.accepts
        and not named
        and at.bad != "unit"
        and at.last.type != "UNIT"
        and _is_unit(at.bad_unit)
    ):
        if at.has("span") and at.has(".."):
            return Explanation(
                "FKG002",
                "the ends of a span cannot have a separate unit",
                f"write it before: in {at.bad_unit} span ...",
            )
        return Explanation(
            "FKG002", f"`in` is missing before `{at.bad}`", f"write: in {at.bad_unit}"
        )
    if (
        "SPAN" in at.accepts
        and str(at.last) != "span"
        and re.match(r"-?\s*[0-9.]+\s*\.\.", at.rest)
    ):
        return Explanation("FKG002", f"`span` is missing before `{at.bad}`", "write: span 0 .. 20")
    return None


def template_head(at: ParseFailure) -> Explanation | None:
    """``template t(x): ...``, ``template t(?x) = ...``, ``template t x, low = ...``, ``template t(x
    in bar) = ...``.
    """
    if at.form != "template" or at.has("="):
        return None
    if (
        at.last is not None
        and str(at.last) == ")"
        and at.bad in (":", "require", ":=", "==", "->", "=>")
    ):
        end = at.start + len(at.bad)
        return Explanation(
            "FKG002",
            f"`{at.bad}` is used in place of `=`",
            "write: template NAME(x, high) = x <= high",
            at.start,
            end,
            ((at.start, end, "="),),
        )
    if at.bad.startswith("?") and at.open_brackets:
        return Explanation(
            "FKG022",
            f"the parameter `{at.bad}` is not a variable",
            f"write it without the question mark, here and behind `=`: {at.bad[1:]}",
        )
    if len(at.before) == 2 and _NAME.match(at.bad):
        names = re.match(r"[\w\s,]*", at.rest)
        listed = ", ".join(re.findall(r"\w+", names[0])) if names else at.bad
        return Explanation(
            "FKG002",
            "the parameters of a template need parentheses",
            f"write: template {at.last}({listed}) = ...",
        )
    if at.open_brackets and at.bad in ("in", "is", ":", "="):
        return Explanation(
            "FKG002",
            "a parameter is a name alone",
            "its unit comes with the argument: template NAME(x, high) = x <= high",
        )
    return None


def example_head(at: ParseFailure) -> Explanation | None:
    """``example i holds ...``, ``example of i is true ...``, ``holds pressure = 3``, ``for pressure
    3 4 bar``, ``= 3 / 4 bar``.
    """
    if at.form != "example" or at.last is None:
        return None
    if at.accepts == {"OF"} and _NAME.match(at.bad):
        return Explanation(
            "FKG002",
            f"`of` is missing before `{at.bad}`",
            f"write: example of {at.bad} holds for ...",
        )
    if {"HOLDS", "FAILS"} == at.accepts:
        return Explanation(
            "FKG002",
            f"`{at.bad}` does not say what the example shows"
            if at.bad
            else "what does the example show?",
            "write holds or fails: example of NAME holds for ...",
        )
    if at.accepts == {"FOR"} and at.bad:
        return Explanation(
            "FKG002",
            f"`for` is missing before `{at.bad}`",
            "write: example of NAME holds for pressure = 7 9 9 bar",
        )
    if (
        at.last.type in ("NAME", "QUOTED")
        and at.allows("=")
        and re.match(r"-?[0-9]|unknown", at.bad)
    ):
        return Explanation(
            "FKG002",
            f"`=` is missing before `{at.bad}`",
            f"write: {at.last} = {at.bad} ...",
            fix=((at.start, at.start, "= "),),
        )
    if at.has("=") and at.bad in ("/", ";", "|", "->"):
        return Explanation(
            "FKG024",
            f"`{at.bad}` cannot separate the values of an example",
            spaced_values(at),
            fix=()
            if at.bad == "/"
            else ((at.start, at.start + len(at.bad), ""),),  # 3/4 may be one value
        )
    if at.last.type == "AND" and at.bad[:1].isdigit():
        return Explanation(
            "FKG054",
            "`and` begins the values of another signal",
            "write all values of one signal side by side: pressure = 3 4 bar",
        )
    return None


def quantifier_head(at: ParseFailure) -> Explanation | None:
    """``for each ?m``, ``for ?m ?max``: a word too many, a comma too few."""
    extra = re.match(r"(?:each|every|all|any)\s+(?=\?\w)", at.rest)
    if str(at.last) == "for" and extra is not None:
        return Explanation(
            "FKG002",
            f"`{at.bad}` is one word too many",
            "`for` says it already: for ?m where { ... }",
            at.start,
            at.start + len(at.bad),
            ((at.start, at.start + extra.end(), ""),),
        )
    if at.last is not None and at.last.type == "VAR" and at.bad.startswith("?") and at.allows(","):
        end = at.last.end_pos
        return Explanation(
            "FKG002",
            f"a comma is missing before `{at.bad}`",
            f"write: {at.last}, {at.bad}",
            fix=((end, end, ","),),
        )
    return None


def _is_unit(text: str) -> bool:
    return bool(text) and isinstance(parse_unit(text), Unit)
