"""Mistakes in lists of classes, in templates that a rule follows, and in conditions over
members.
"""

from __future__ import annotations

import re
from itertools import pairwise

from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import Token

_LIST = "write the classes with commas between them: grade in A, B"
_JOINERS = ("all", "any")
_WHERE = "say which they are: over ?p where { ... }, or: over ?p in class plant:Pump"
_NAME = re.compile(r"[^\W\d]\w*\Z")
_COMPARES = re.compile(r"<=?|>=?|==|!=|[≤≥≠]|is\b|never\b|in\b")


def class_list(at: ParseFailure) -> Explanation | None:
    """``grade in {A, B}``, ``grade in 1``, ``grade in ?p``, ``grade not A``, ``grade is in A``, ``x
    + 1 in A``.
    """
    last = at.last
    if last is None or at.form in ("signal", "output"):
        return None
    listed = last.type == "IN" or (
        str(last) == "," and {"STRING", "NAME"} == at.accepts and _type_before_list(at) == "IN"
    )
    if listed and not at.at_end and "STRING" in at.accepts:
        return _listed(at)
    if listed and at.at_end and "STRING" in at.accepts:
        return Explanation("FKG003", f"the list of classes ends too early, after `{last}`", _LIST)
    if last.type == "NOT" and at.accepts == {"IN"} and not at.at_end:
        return Explanation(
            "FKG051",
            f"`not` cannot come before `{at.bad}`",
            f"write: is not {at.bad}, or for several: not in {at.bad}, ...",
        )
    if len(at.before) > 2 and last.type == "NAME" and not at.at_end:
        two = at.before[-2]
        if str(last) == "in" and two.type in ("IS", "NOT"):
            start = two.start_pos
            return Explanation(
                "FKG051", f"`{two} in` is one word too many", _LIST, start, start + len(two)
            )
        if str(last) == "class" and two.type == "IN":
            start = last.start_pos
            hint = (
                "a list names classes: grade in A, B; members of a class of the graph: for ?p in"
                " class T"
            )
            return Explanation(
                "FKG051", "`in class` cannot be used in a condition", hint, start, start + len(last)
            )
    if (
        last.type == "UNIT"
        and str(last) == "in"
        and re.match(r"[^\W\d]|\"", at.bad)
        and not _COMPARES.match(at.bad)
    ):
        start = last.start_pos
        hint = "write a name before `in` and the classes after it: grade in A, B"
        return Explanation(
            "FKG051", "a number cannot be in a list of classes", hint, start, start + len(last)
        )
    if at.bad == "in" and {"CMP", "IS"} <= at.accepts and re.match(r"\s+[^\W\d]", at.rest[2:]):
        return Explanation(
            "FKG051",
            "only a name can be in a list of classes",
            "write a name before `in`: grade in A, B",
        )
    return None


def _type_before_list(at: ParseFailure) -> str:
    """What kind of word the list began after."""
    for token in reversed(at.before):
        if token.type not in ("NAME", "STRING") and str(token) != ",":
            return str(token.type)
    return ""


def _listed(at: ParseFailure) -> Explanation | None:
    """Explain an item of a list of classes that is not a class."""
    if at.bad[:1].isdigit():
        return Explanation(
            "FKG051",
            f"`{at.bad}` is a number, a list names classes",
            f'write "{at.bad}" for a class of that name',
        )
    if at.bad in ("(", "[", "{"):
        return Explanation("FKG051", f"a list of classes has no `{at.bad}`", _LIST)
    if at.bad.startswith("?"):
        return Explanation(
            "FKG051", f"`{at.bad}` is a variable, a list names classes", f"write: is {at.bad}"
        )
    return None


def aggregate_over_time(at: ParseFailure) -> Explanation | None:
    """``sum of p over 10 min``: a time without the direction in which it lies."""
    last = at.last
    if last is None or str(last) != "over" or "VAR" not in at.accepts or not at.bad[:1].isdigit():
        return None
    if "LAST" in at.accepts:
        found = re.match(r"[\d.]+\s*[a-z]*", at.rest)
        time = found[0].rstrip() if found else at.bad_unit
        return Explanation(
            "FKG002",
            f"`last` or `next` is missing before `{at.bad_unit}`",
            f"write: over last {time}; for the time to come: over next {time}",
        )
    return Explanation(
        "FKG002",
        f"`over` is followed by members, not by a time: `{at.bad_unit}`",
        "write: all of (...) over ?p where { ... }; for conditions over a time: "
        "always within 10 min ..., eventually within 10 min ...",
    )


def follows_call(at: ParseFailure) -> Explanation | None:
    """``follows band`` without the values of the template."""
    last = at.last
    if (
        last is not None
        and str(last) == "follows"
        and last.type == "NAME"
        and _NAME.match(at.bad)
        and at.bad not in at.allowed_words
    ):
        return Explanation(
            "FKG052",
            f"the template `{at.bad}` has no values",
            f"write: follows {at.bad}(x, 10, 90)",
        )
    if at.bad == "follows" and "CMP" not in at.accepts and not at.at_end:
        return Explanation(
            "FKG052",
            "`follows` cannot be used here",
            "it is a condition: require follows band(x, 10, 90)",
        )
    if last is not None and last.type == "NAME" and str(last) == "follow" and _NAME.match(at.bad):
        start = last.start_pos
        return Explanation(
            "FKG006",
            "`follow` is not expected here",
            "did you mean `follows`?",
            start,
            start + len(last),
        )
    return None


def over_members(at: ParseFailure) -> Explanation | None:
    """``all of x >= 1 over ...``, ``all (x >= 1)``, ``at most 2 of``, ``over ?p`` without a
    source.
    """
    last = at.last
    if last is None:
        return None
    if last.type == "LEAST" and at.accepts == {"NUMBER"}:
        return Explanation(
            "FKG053", "how many at least?", "write the number: at least 2 of (...) over ?p ..."
        )
    if last.type == "NAME" and str(last) == "at" and at.bad == "most":
        return Explanation(
            "FKG053",
            "`at most` is not counted",
            "reverse it: for at most 2 write not at least 3 of (...)",
        )
    if last.type == "NUMBER" and at.accepts == {"OF"}:
        return Explanation(
            "FKG053", "`of` is missing", f"write: at least {last} of (...) over ?p ..."
        )
    if last.type == "OF" and at.accepts == {"LPAR"}:
        return Explanation(
            "FKG053",
            "the condition needs parentheses",
            "write: at least 2 of (flow(?p) > 0) over ?p ...",
        )
    if at.accepts == {"OVER"}:
        return Explanation("FKG053", "over which members?", _WHERE)
    if last.type == "VAR" and at.accepts == {"IN", "WHERE"}:
        return Explanation("FKG053", f"which members does {last} range over?", _WHERE)
    if last.type == "IN" and at.accepts == {"CLASS"} and at.form not in ("range", "predict"):
        what = (
            "members come from the graph"
            if at.bad in ("table", "query")
            else f"what kind of thing is `{at.bad}`?"
        )
        return Explanation("FKG053", "this class has no name" if at.at_end else what, _WHERE)
    return _bare_condition(at)


def _bare_condition(at: ParseFailure) -> Explanation | None:
    """A comparison inside ``all of`` or ``all`` that lacks its parentheses, or is called like a
    function.
    """
    if not _COMPARES.match(at.bad) or not at.bad:
        return None
    opened = at.open_brackets[-1].start_pos if at.open_brackets else -1
    inner = (
        [token for token in at.before if token.start_pos > (opened or 0)]
        if at.open_brackets
        else list(at.before)
    )
    for first, second in pairwise(inner):
        if second.type == "OF" and str(first) in _JOINERS and "OVER" in at.accepts:
            start = first.start_pos
            message = f"the condition after `{first} of` needs parentheses"
            return Explanation(
                "FKG053", message, f"write: {first} of (...) over ?p ...", start, at.start
            )
    called = _called(at)
    if called is not None and str(called) in _JOINERS:
        start = called.start_pos
        return Explanation(
            "FKG053",
            f"`{called}` takes no condition",
            f"write: {called} of (...) over ?p ...",
            start,
            start + len(called),
        )
    return None


def _called(at: ParseFailure) -> Token | None:
    """The name before the innermost open parenthesis."""
    if not at.open_brackets:
        return None
    place = at.before.index(at.open_brackets[-1])
    return at.before[place - 1] if place and at.before[place - 1].type == "NAME" else None


def members_of_values(at: ParseFailure) -> Explanation | None:
    """``all of (x) over ?p ...``: a value where ``all of`` takes a condition."""
    if not {"CMP", "IS"} <= at.accepts or at.value is None or at.last is None:
        return None
    found = re.match(r"(all|any)\s+of\b", at.text[at.value :])
    if found is None or (not at.at_end and _COMPARES.match(at.bad)):
        return None
    hint = f"compare the value inside: {found[1]} of (x > 0) over ?p ..."
    return Explanation(
        "FKG053", f"`{found[1]} of` takes a condition", hint, at.value, at.value + len(found[0])
    )
