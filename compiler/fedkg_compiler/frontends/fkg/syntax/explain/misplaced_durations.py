"""Durations where the language has none: ``for 10 min``, ``x <= 5 bar within 10 min``, ``until 10
min``, ``within 10 pressure``.
"""

from __future__ import annotations

import re
from fractions import Fraction

from fedkg.units import Unit, parse_unit
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure
from fedkg_compiler.frontends.fkg.syntax.explain.keyword_mistakes import OVER_TIME

_LASTING = re.compile(
    r"(?:for|during|over|throughout)\s+(?:(?:at\s+(?:least|most)|the\s+(?:last|next))\s+)?"
    r"(?P<time>[0-9][0-9.,]*\s*[^\W\d]\w*)"
)
_BEHIND = re.compile(
    r"(?P<word>after|before|at\s+(?:least|most))\s+(?P<time>[0-9][0-9.,]*\s*[^\W\d]\w*)"
)
_WITHIN = re.compile(r"within\s+(?P<number>[0-9][0-9.,]*)\s*(?P<unit>[^\W\d]\w*)?")
_COMPARES = re.compile(r"<=?|>=?|==|!=|[≤≥≠]|is\b|never\b")
_BEFORE = "write the time before its condition"
_BAND = (
    "a band around a value is written `== 5 bar +/- 1 bar`, a range `2 bar <= pressure <= 8 bar`"
)


def lasting(at: ParseFailure) -> Explanation | None:
    """``require x <= 5 bar for 10 min``, ``require for 10 min x <= 5 bar``: English durations."""
    for start in _possible_starts(at):
        found = _LASTING.match(at.text, start)
        if found is not None and _is_time(found["time"]):
            word, time = found[0].split()[0], " ".join(found["time"].split())
            hint = _lasting(at, time)
            if at.last is not None and at.last.type == "FOR":
                return Explanation(
                    "FKG017",
                    "`for` is followed by `at least` here",
                    f"if the condition has held that long, write `for at least {time}`; {hint}",
                    start,
                    start + len(word),
                )
            return Explanation(
                "FKG017",
                f"`{word}` cannot state here how long a condition lasts",
                hint,
                start,
                start + len(word),
            )
    return None


def time_behind(at: ParseFailure) -> Explanation | None:
    """``x <= 5 bar after 10 min``, ``x <= 5 bar at least 10 min``: a time next to its condition."""
    for start in _possible_starts(at):
        found = _BEHIND.match(at.text, start)
        if found is not None and _is_time(found["time"]):
            word, time = " ".join(found["word"].split()), " ".join(found["time"].split())
            hints = {
                "after": (
                    f"{_BEFORE}: `always [{time}, {time}] ...` (then), `always [{time}, end] ...`"
                    " (from then on)"
                ),
                "before": f"{_BEFORE}: `eventually within {time} ...`",
                "at least": _lasting(at, time),
                "at most": f"{_BEFORE}: `not (always within {time} ...)`",
            }
            return Explanation(
                "FKG017",
                f"`{word} {time}` cannot be used here",
                hints[word],
                start,
                start + len(found[0]),
            )
    return None


def time_as_condition(at: ParseFailure) -> Explanation | None:
    """``x <= 5 bar until 10 min``, ``x <= 5 bar since 10 min``: a time where a condition
    belongs.
    """
    words = [str(token) for token in at.before[-3:]]
    if (
        len(words) < 3
        or words[0] not in ("until", "since", "after")
        or not _is_time(" ".join(words[1:]))
    ):
        return None
    time, start = " ".join(words[1:]), at.before[-2].start_pos
    window = f"[0 {words[2]}, {time}]"
    hints = {
        "until": (
            f"for the next {time}: `always within {time} ...`; until something happens within them:"
            f" `... until {window} ...`"
        ),
        "since": (
            f"for the last {time}: `historically within {time} ...`; since something that happened"
            f" in them: `... since {window} ...`"
        ),
        "after": (
            f"from then on: `always [{time}, end] ...`; `only after` names what must have happened"
            " before"
        ),
    }
    return Explanation(
        "FKG017",
        f"`{words[0]}` expects a condition, but {time} is a time",
        hints[words[0]],
        start,
        at.before[-1].end_pos,
    )


def within_behind(at: ParseFailure) -> Explanation | None:
    """``x <= 5 bar within 10 min``: a time after its condition; ``pressure within 10 bar``: a
    band.
    """
    found = _WITHIN.match(at.rest)
    if found is None:
        return None
    time = f"{found['number']} {found['unit']}" if found["unit"] else ""
    if time and _is_time(time) and "OVER" in at.accepts:
        return Explanation(
            "FKG017",
            "`within` goes with a condition, not with a number over time",
            f"write: over last {time}; for the time to come: over next {time}",
        )
    if time and _is_time(time):
        hint = (
            f"{_BEFORE}: `eventually within {time} ...` (at some time), `always within {time} ...`"
            " (all the time)"
        )
        return Explanation("FKG017", "`within` comes after the condition", hint)
    if "CMP" in at.accepts and not at.allows("+/-"):
        return Explanation("FKG017", "`within` expects a time", _BAND)
    return None


def within_nothing(at: ParseFailure) -> Explanation | None:
    """``always within pressure <= 5 bar``, ``eventually within -5 min ...``: no time behind
    `within`, or one that lies in the past.
    """
    last = at.last
    if (
        last is not None
        and len(at.before) > 1
        and str(at.before[-2]) == "within"
        and last.type == "NAME"
        and _COMPARES.match(at.bad)
    ):
        start = at.before[-2].start_pos
        hint = (
            f"write how long: within 10 min {last} {at.bad} ...; or leave `within` out: at every"
            " step from here on"
        )
        return Explanation("FKG017", "`within` has no time", hint, start, start + len("within"))
    if last is not None and str(last) == "within" and at.bad == "-":
        hint = (
            "write it without the sign: `eventually within 5 min ...`; for the time before: `once"
            " within 5 min ...`"
        )
        return Explanation("FKG017", "the time behind `within` is not negative", hint)
    return None


def bare_window(at: ParseFailure) -> Explanation | None:
    """``eventually 5 min x > 5``, ``always [0..5 min] x``, ``always [0, 5] min x``: a window that
    lacks a word, a comma, its unit.
    """
    last, before = at.last, at.before
    if last is None or len(before) < 3:
        return None
    if (
        at.bad == ".."
        and last.type in ("NUMBER", "UNIT")
        and at.open_brackets
        and str(at.open_brackets[-1]) == "["
    ):
        end = at.start + 2
        return Explanation(
            "FKG002",
            "the ends of a window have a comma between them",
            "write: [0 min, 5 min]",
            at.start,
            end,
            ((at.start, end, ", "),),
        )
    if last.type == "NAME" and str(before[-2]) == "]" and _is_time(f"1 {last}"):
        start = last.start_pos
        return Explanation(
            "FKG017",
            f"the unit `{last}` comes after the window",
            f"write it inside: [0 {last}, 5 {last}]",
            start,
            start + len(last),
        )
    if (
        last.type == "UNIT"
        and str(before[-3]) in OVER_TIME
        and _is_time(f"1 {last}")
        and re.match(r"[^\W\d]|[`?(]", at.bad)
    ):
        start = before[-2].start_pos
        time = f"{before[-2]} {last}"
        return Explanation(
            "FKG017",
            f"`within` is missing before `{time}`",
            f"write: {before[-3]} within {time} ...",
            start,
            last.end_pos,
            ((start, start, "within "),),
        )
    return None


def signal_as_unit(at: ParseFailure) -> Explanation | None:
    """``eventually within 10 pressure <= 5 bar``: the signal is read as the unit of the time."""
    last = at.last
    if (
        last is None
        or last.type != "UNIT"
        or len(at.before) < 3
        or str(at.before[-3]) != "within"
        or isinstance(parse_unit(str(last)), Unit)
    ):
        return None
    number, start = str(at.before[-2]), last.start_pos
    hint = (
        f"write the unit of the time: within {number} min {last} ...; write a bare number of steps"
        f" in brackets: [0, {number}] {last} ..."
    )
    return Explanation(
        "FKG017",
        f"`{last}` is read as the unit of {number}, but it is not a unit of time",
        hint,
        start,
        start + len(last),
    )


def _possible_starts(at: ParseFailure) -> list[int]:
    """Return the offsets where a misplaced duration may start.

    This is the failure, or an earlier token that was read as a name or a count.
    """
    if not any(str(token) in ("require", "when", "=") for token in at.before):
        return []
    tokens = (*at.before[-1:], *at.before[-3:-2])
    return [
        at.start,
        *(
            token.start_pos
            for token in tokens
            if token.type in ("NAME", "UNIT") or str(token) in ("at", "for")
        ),
    ]


def _lasting(at: ParseFailure, time: str) -> str:
    """Return how to write that a condition lasts for a time."""
    if at.has("if") and not at.has("then"):
        return f"{_BEFORE}: `if (historically within {time} ...) then ...`"
    return (
        f"{_BEFORE}: `always within {time} ...` for the next {time}, `historically within {time}"
        " ...` for the last"
    )


def _is_time(text: str) -> bool:
    """Whether a number with a word is a duration: ``10 min``."""
    unit = parse_unit(re.sub(r"^[0-9.,\s]+", "", text))
    return isinstance(unit, Unit) and unit.dimension == (("time", Fraction(1)),)
