"""Characters that word processors and web pages insert: fractions, dashes, quotes, ellipses."""

from __future__ import annotations

import re
import unicodedata

from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure

_QUOTED_NAME = re.compile(r"[“”„‟«»‘’‚‛´\"']([^\W\d][^“”„‟«»‘’‚‛´\"'\n]*)[“”„‟«»‘’‚‛´\"']")
_LIKE = {
    "⩽": "<=",
    "≦": "<=",
    "⩾": ">=",
    "≧": ">=",
    "＜": "<",
    "＞": ">",
    "＝": "==",
    "≈": "",
    "≅": "",
    "~=": "",
}


def like_sign(at: ParseFailure) -> Explanation | None:
    """``x ⩽ 3``, ``x ≈ 3``: signs that look like ours, or mean nearly the same."""
    sign = next((sign for sign in _LIKE if at.rest.startswith(sign)), None)
    if sign is None or "CMP" not in at.accepts:
        return None
    end = at.start + len(sign)
    meant = _LIKE[sign]
    if not meant:
        return Explanation(
            "FKG010",
            f"`{sign}` does not say how near",
            "say it: x == 5 bar +/- 0.5 bar",
            at.start,
            end,
        )
    return Explanation(
        "FKG010",
        f"`{sign}` is not a comparison operator",
        f"write {meant}",
        at.start,
        end,
        ((at.start, end, meant),),
    )


def early_tolerance(at: ParseFailure) -> Explanation | None:
    """``pressure ± 0.5 bar <= 3 bar``: a tolerance before the comparison."""
    if at.bad[:1] != "±" and not re.match(r"\+\s*/\s*-|\+-", at.rest):
        return None
    if "CMP" not in at.accepts:
        return None
    if at.allows("+/-"):
        return None
    return Explanation(
        "FKG002",
        f"`{at.bad}` comes before the comparison",
        "a tolerance ends an equality: pressure == 3 bar +/- 0.5 bar",
    )


def fraction(at: ParseFailure) -> Explanation | None:
    """``3½ bar``, ``½ bar``, ``3² bar``: a fraction that is one sign, a raised digit behind a
    number.
    """
    last = at.last
    if last is not None and last.type == "UNIT" and str(last) in ("²", "³") and len(at.before) > 1:
        number, power = str(at.before[-2]), "2" if str(last) == "²" else "3"
        return Explanation(
            "FKG024",
            f"`{last}` is not part of the rule language here",
            f"write {number} ^ {power}",
            last.start_pos,
            last.end_pos,
        )
    for token in reversed(at.before[-2:]):
        if token.type in ("UNIT", "NAME") and unicodedata.decomposition(str(token)[0]).startswith(
            "<fraction>"
        ):
            whole = next(
                (
                    one
                    for one in at.before
                    if one.type == "NUMBER" and one.end_pos == token.start_pos
                ),
                None,
            )
            start = token.start_pos if whole is None else whole.start_pos
            value = (0.0 if whole is None else float(str(whole))) + unicodedata.numeric(
                str(token)[0]
            )
            end = token.start_pos + 1
            exact = round(value, 12) == round(value, 4)
            fix = ((start, end, f"{value:g}"),) if exact else ()
            return Explanation(
                "FKG023",
                f"`{at.text[start:end]}` is not a number",
                f"write {value:.6g}",
                start,
                end,
                fix,
            )
    return None


def dashed_range(at: ParseFailure) -> Explanation | None:
    """``1–3 bar``: a dash between two numbers, as ranges are printed; a difference has spaces."""
    last = at.last
    if (
        last is None
        or last.type not in ("NUMBER", "UNIT")
        or not at.touching
        or not re.match(r"[–—][0-9]", at.rest)
    ):
        return None
    start = at.before[-2].start_pos if last.type == "UNIT" else last.start_pos
    number = re.match(r"[–—][0-9.]+", at.rest)
    end = at.start + (number.end() if number else 1)
    hint = (
        "a range is a chain: 1 bar <= x <= 3 bar; a difference is written with the plain minus:"
        " 3 - 1"
    )
    return Explanation(
        "FKG024", f"`{at.text[start:end]}` may be a range or a difference", hint, start, end
    )


def quoted_name(at: ParseFailure) -> Explanation | None:
    """``require "pressure" <= 3``: a name in quotes in place of a value."""
    found = _QUOTED_NAME.match(at.rest)
    if found is None or "STRING" in at.accepts or not {"NAME", "NUMBER"} <= at.accepts:
        return None
    name = found[1]
    plain = (
        f"write {name}"
        if re.fullmatch(r"\w+", name)
        else f'declare it: signal NAME in ... column "{name}"'
    )
    hint = f"{plain}, or the header of its column in backquotes: `{name}`"
    return Explanation(
        "FKG013",
        f"`{found[0]}` is a text, and a value is expected",
        hint,
        at.start,
        at.start + found.end(),
    )


def ellipsis(at: ParseFailure) -> Explanation | None:
    """``span 0 … 20``, ``3 bar…``: three dots that are one sign."""
    if not at.rest.startswith("…"):
        return None
    if at.allows(".."):
        return Explanation(
            "FKG024",
            "`…` is one sign",
            "write two points: span 0 .. 20",
            at.start,
            at.start + 1,
            ((at.start, at.start + 1, ".."),),
        )
    return Explanation(
        "FKG024", "`…` is not part of the rule language", "remove it", at.start, at.start + 1
    )
