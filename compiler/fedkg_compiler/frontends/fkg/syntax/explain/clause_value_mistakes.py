"""Mistakes in scopes, in the ends of a timeline, in sets, in knowledge from files, and in the
values of an example.
"""

from __future__ import annotations

import re

from fedkg_compiler.frontends.fkg.syntax.construct import ENDS, SCOPES
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import (
    Explanation,
    ParseFailure,
    spaced_values,
)

_UNKNOWN = re.compile(r"(?:nan|na|n/a|null|none|missing)\b|[?_](?!\w)", re.IGNORECASE)
_SOURCES = (
    'write: when ... allow ..., or: in table "grades.csv", or: from model "grades.safetensors"'
)


def bare_option(at: ParseFailure) -> Explanation | None:
    """``rule a client require ...``, ``timeline step 5 min clip``: the value of an option without
    its word; an option too late.
    """
    if at.bad in SCOPES and "SCOPE" in at.accepts:
        return Explanation(
            "FKG002", f"`scope` is missing before `{at.bad}`", f"write: scope {at.bad}"
        )
    if at.form == "timeline" and at.bad in ENDS and "ENDS" in at.accepts:
        return Explanation(
            "FKG002", f"`ends` is missing before `{at.bad}`", f"write: ends {at.bad}"
        )
    last = at.last
    if at.form == "timeline" and last is not None and str(last) in ENDS and last.type == "UNIT":
        start = last.start_pos
        return Explanation(
            "FKG002",
            f"`ends` is missing before `{last}`",
            f"write: ends {last}",
            start,
            start + len(last),
        )
    if at.bad == "scope" and at.form == "infer" and "SCOPE" not in at.accepts:
        return Explanation(
            "FKG015", "`scope` comes too late", "write: infer NAME scope client per client find ..."
        )
    if at.bad in ("scope", "for") and at.form == "set" and at.has("keep"):
        return Explanation(
            "FKG015",
            f"`{at.bad}` comes after `keep`",
            "options come before keep: set NAME scope client keep ...",
        )
    return None


def waiver_reason(at: ParseFailure) -> Explanation | None:
    """``allow FKG503`` without ``because "..."``."""
    if at.form != "rule" or not at.accepts <= {"BECAUSE", "STRING"} or not at.has("allow"):
        return None
    words = [str(token) for token in at.before]
    code = words[len(words) - 1 - words[::-1].index("allow") + 1 :][:1]
    if not code or code[0] == "because":
        return None
    return Explanation(
        "FKG056",
        f"`allow {code[0]}` has no reason",
        f'write why the warning does not matter: allow {code[0]} because "..."',
    )


def bare_set(at: ParseFailure) -> Explanation | None:
    """``keep parameters in monotone``: a set without its parentheses."""
    last = at.last
    if at.form != "set" or last is None or last.type != "NAME" or at.accepts != {"LPAR"}:
        return None
    start = last.start_pos
    hint = "write the numbers of the set in parentheses: nonnegative(), l1_ball(radius = 3)"
    return Explanation(
        "FKG003", f"the set `{last}` has no parentheses", hint, start, start + len(last)
    )


def late_closed(at: ParseFailure) -> Explanation | None:
    """``a until within 5 min closed b``."""
    last = at.last
    if last is None or last.type != "NAME" or str(last) != "closed" or "CMP" not in at.accepts:
        return None
    if (
        not (at.has("until") or at.has("since"))
        or at.bad in at.allowed_words
        or not re.match(r"[^\W\d]|[?`(]", at.bad)
    ):
        return None
    start = last.start_pos
    hint = "write it directly after until: a until closed within 5 min b"
    return Explanation("FKG002", "`closed` is not expected here", hint, start, start + len(last))


def knowledge_source(at: ParseFailure) -> Explanation | None:
    """Knowledge without clauses, or with a file that is not named as it should be."""
    if at.form not in ("range", "predict") or at.last is None:
        return None
    clause = "predict" if at.form == "predict" else "allow"
    hint = _SOURCES.replace("allow", clause)
    if {"WHEN", "FROM", "IN"} <= at.accepts and at.at_end:
        return Explanation("FKG003", f"this {at.form} knowledge says nothing", hint)
    if {"WHEN", "FROM", "IN"} <= at.accepts and at.bad == "model":
        return Explanation(
            "FKG002", "`from` is missing before `model`", 'write: from model "grades.safetensors"'
        )
    if {"WHEN", "FROM", "IN"} <= at.accepts and at.bad[:1] == '"':
        return Explanation(
            "FKG022",
            "what kind of file is this?",
            f"write: in table {at.bad}, or: from model {at.bad}",
        )
    if at.accepts == {"TABLE"} and at.last.type == "IN":
        return Explanation("FKG022", "knowledge comes from a table, or from a model", hint)
    if at.accepts == {"MODEL"}:
        return Explanation(
            "FKG022",
            "`model` is missing behind `from`",
            f"write: from model {at.bad if at.bad[:1] == chr(34) else 'FILE'}",
        )
    if (
        at.bad == "when"
        and "OTHERWISE" in at.accepts
        and "WHEN" not in at.accepts
        and "AND" not in at.accepts
    ):
        return Explanation(
            "FKG002",
            "clauses are given both in the file and here",
            "remove the file or the clauses",
        )
    return None


def range_ends(at: ParseFailure) -> Explanation | None:
    """``allow between 1 .. 2``, ``allow 0.9 * x .. 1.1 * x``."""
    if at.form != "range" or at.last is None:
        return None
    if (
        at.has("between")
        and at.bad in ("..", "to", ",", "bis")
        and "AND" in at.accepts
        and "CMP" not in at.accepts
    ):
        return Explanation(
            "FKG002",
            f"`{at.bad}` does not join the two ends",
            "write: allow between 0.9 * x and 1.1 * x",
        )
    if at.bad in ("*", "+", "-", "/", "(") and ("DOTDOT" in at.accepts or at.allows("..")):
        return Explanation(
            "FKG002",
            "the ends of `..` are numbers",
            "for values write: allow between 0.9 * x and 1.1 * x",
        )
    if (
        at.bad in ("*", "+", "/", "(", "..")
        and {"COMMA", "OTHERWISE"} <= at.accepts
        and "CMP" not in at.accepts
    ):
        return Explanation(
            "FKG002", "a range of values has two ends", "write: allow between 0.9 * x and 1.1 * x"
        )
    return None


def example_values(at: ParseFailure) -> Explanation | None:
    """Numbers among classes, ``nan`` and the like, classes with commas."""
    last = at.last
    if at.form != "example" or last is None or not at.has("="):
        return None
    if _UNKNOWN.match(at.rest) and {"UNKNOWN"} & at.accepts:
        return Explanation(
            "FKG054", f"`{at.bad}` is not a value", "write an unknown value as: unknown"
        )
    if at.bad[:1].isdigit() or at.bad in ("-", "?", "unknown") or at.bad[:1] in ("?", '"'):
        if _UNKNOWN.fullmatch(str(last)) and last.type in ("NAME", "UNIT"):
            start = last.start_pos
            return Explanation(
                "FKG054",
                f"`{last}` is not a value",
                "write an unknown value as: unknown",
                start,
                start + len(last),
            )
        hint = (
            "all values are numbers, the unit behind the last: 7 unknown 9 bar; or all are"
            f' classes: A "{at.bad}" unknown'
        )
        if last.type in ("NAME", "STRING", "UNIT"):
            hint = hint.replace('""', '"').replace('"unknown"', '"7"')
            return Explanation("FKG054", f"`{at.bad}` follows `{last}`", hint)
    if at.bad == "," and last.type in ("NAME", "STRING"):
        return Explanation("FKG024", "the values of an example have no commas", spaced_values(at))
    return None
