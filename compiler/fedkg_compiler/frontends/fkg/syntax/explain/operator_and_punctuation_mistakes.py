"""Mistakes in single characters: quotes, commas, operators of other languages."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise

from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import (
    Explanation,
    ParseFailure,
    spaced_values,
)


@dataclass(frozen=True, slots=True)
class Sign:
    """An operator of another language: the pattern at the failure, and its explanation.

    Attributes:
        needs: the name of a terminal that must be acceptable here, or "".
    """

    pattern: str
    code: str
    message: str
    help: str
    needs: str = ""


_QUOTED_NUMBER = re.compile(
    r"[“”„‟«»‹›‘’‚‛´\"']\s*"
    r"([-−–]?[0-9][0-9.,]*(?:\s*[^\W\d_][\w./°]*|\s*[°%‰][\w./]*)?)"
    r"\s*[“”„‟«»‹›‘’‚‛´\"']"
)

_SIGNAL = re.compile(r",\s*(?:[^\W\d]\w*|`[^`]+`)\s*=")

SIGNS = (
    Sign("[“”„‟«»]", "FKG013", "`{bad}` is a typographic quote", 'write the plain quote: "text"'),
    Sign(
        "[‘’‚‛´]",
        "FKG013",
        "`{bad}` is a typographic quote",
        "a text has plain double quotes, a column's name backquotes: `Tag 1`",
    ),
    Sign("'", "FKG013", "a text has double quotes", 'write "text"'),
    Sign("===", "FKG010", "`===` is not a comparison operator", "equality is =="),
    Sign("=<", "FKG010", "`=<` is not a comparison operator", "write <=", "CMP"),
    Sign(
        "=>",
        "FKG010",
        "`=>` is not a comparison operator",
        "write >=, or, for a consequence: if ... then ...",
        "IS",
    ),
    Sign("=(?!>)", "FKG010", "`=` is not a comparison operator", "equality is ==", "CMP"),
    Sign(":=", "FKG010", "`:=` is not part of the rule language", "equality is ==", "CMP"),
    Sign(
        "[-=]>|→|⇒|⟹",
        "FKG011",
        "`{bad}` is not part of the rule language",
        "write: if ... then ...",
    ),
    Sign("&&?|∧", "FKG012", "`{bad}` is written as a word in the rule language", "write and"),
    Sign(r"\|\|?|∨", "FKG012", "`{bad}` is written as a word in the rule language", "write or"),
    Sign("!|¬|~", "FKG012", "`{bad}` is written as a word in the rule language", "write not"),
    Sign(r"\*\*", "FKG024", "`**` is not part of the rule language", "a power is written ^: x ^ 2"),
    Sign("//|/\\*|--", "FKG024", "`{bad}` does not begin a comment", "a comment begins with #"),
    Sign("−|–|—", "FKG024", "`{bad}` is a typographic dash", "write the plain minus: -"),
    Sign(
        "[×⋅·∙]",
        "FKG024",
        "`{bad}` is a typographic sign",
        "multiply with *; inside a unit without spaces: N.m",
    ),
    Sign("÷", "FKG024", "`{bad}` is a typographic sign", "divide with /"),
    Sign(
        r";(?=[^\n\[\]]*\])",
        "FKG024",
        "the ends of a window have a comma between them",
        "write: {window}",
    ),
    Sign(
        ";",
        "FKG024",
        "a statement has no semicolon",
        "a new line at the left edge begins the next statement",
    ),
    Sign(
        r"\$\w+",
        "FKG022",
        "`{bad}` is not a variable of the rule language",
        "a variable begins with a question mark: ?{tail}",
    ),
    Sign(
        r"\?(?!\w)",
        "FKG022",
        "this variable has no name",
        "a variable is a question mark and a name: ?zone",
    ),
    Sign(
        "%",
        "FKG024",
        "`%` is a unit and follows a number",
        "write 5 %; the rule language has no remainder of a division",
    ),
    Sign(
        r"\.(?![.\d])",
        "FKG024",
        "a full stop does not end a statement",
        "remove it: a new line at the left edge begins the next statement",
    ),
    Sign(
        "@",
        "FKG024",
        "`@` is not part of the rule language",
        "write a name with other characters in backquotes: `Tag 1`",
    ),
)


def sign(at: ParseFailure) -> Explanation | None:
    """A sign of another language, or a typographic one."""
    for known in SIGNS:
        found = re.match(known.pattern, at.rest)
        if found and (not known.needs or known.needs in at.accepts):
            hint = known.help.replace("{tail}", found[0][1:])
            window = re.search(r"\[([^\[\]\n;]*)\Z", at.text[: at.start])
            if "{window}" in hint:
                ends = re.match(r";\s*([^\]]*)", at.rest)
                shown = f"[{window[1].strip()}, {ends[1].strip()}]" if window and ends else ""
                hint = hint.replace("{window}", shown or "[0 min, 10 min]")
            return Explanation(
                known.code,
                known.message.format(bad=found[0]),
                hint,
                at.start,
                at.start + len(found[0]),
            )
    return None


def quoted_number(at: ParseFailure) -> Explanation | None:
    """``x < “3.5” degC``, ``weight "2"``: a number in quotes where the grammar accepts no text."""
    found = _QUOTED_NUMBER.match(at.rest)
    if found is None or "NUMBER" not in at.accepts or "STRING" in at.accepts:
        return None
    end = at.start + found.end()
    plain = re.sub("[−–]", "-", found[1])
    hint = "write it without them, decimals with a point: 3.5"
    if not re.search(
        r"[0-9],[0-9]{3}(?![0-9])|\.[0-9]*,|,[0-9]*[.,]", plain
    ):  # what these mean is asked when the quotes are gone
        plain = plain.replace(",", ".")
        hint = f"write {plain}"
    return Explanation(
        "FKG013",
        f"`{found[0]}` is a number in quotes",
        hint,
        at.start,
        end,
        ((at.start, end, plain),),
    )


def torn_sign(at: ParseFailure) -> Explanation | None:
    """``->``, ``<>``, ``< =``, ``===``: the first half of a foreign operator is valid on its
    own.
    """
    if at.last is None or not at.rest:
        return None
    whole = f"{at.last}{at.rest[:1]}"
    start = at.last.start_pos
    end = at.start + 1
    match whole:
        case "->" | "-->":
            return Explanation(
                "FKG011",
                "`->` is not part of the rule language",
                "write: if ... then ...",
                start,
                end,
            )
        case "<>" | "><":
            return Explanation(
                "FKG010", f"`{whole}` is not a comparison operator", "not equal is !=", start, end
            )
        case "<=" | ">=":
            return Explanation(
                "FKG010", f"`{whole}` is written without a space", f"write {whole}", start, end
            )
        case "===" | "!==" | "<==" | ">==":
            said = whole.removesuffix("=")
            return Explanation(
                "FKG010", f"`{whole}` is not a comparison operator", f"write {said}", start, end
            )
        case "**":
            return Explanation(
                "FKG024",
                "`**` is not part of the rule language",
                f"a power is written ^: {_as_power(at)}",
                start,
                end,
            )
        case "//" | "--" if at.touching:
            return Explanation(
                "FKG024",
                f"`{whole}` does not begin a comment",
                "a comment begins with #",
                start,
                end,
            )
        case _:
            return None


def _as_power(at: ParseFailure) -> str:
    """The user's power with ``^``, or an example."""
    base = str(at.before[-2]) if len(at.before) > 1 else ""
    exponent = re.match(r"\*\s*([\w.]+)", at.rest)
    return f"{base} ^ {exponent[1]}" if exponent and re.match(r"\w", base) else "x ^ 2"


def dashed_comment(at: ParseFailure) -> Explanation | None:
    """``a >= 1 -- a remark``: two minus signs that touch, and words behind them."""
    for first, second in pairwise(at.before):
        if str(first) == str(second) == "-" and first.end_pos == second.start_pos:
            start = first.start_pos
            return Explanation(
                "FKG024",
                "`--` does not begin a comment",
                "a comment begins with #",
                start,
                start + 2,
            )
    return None


def unclosed_text(at: ParseFailure) -> Explanation | None:
    """A quote or a backquote that has no partner on its line."""
    line = at.rest.split("\n", 1)[0].rstrip("\r")
    for quote, what in (('"', "text"), ("`", "name in backquotes")):
        if line.startswith(quote) and not re.match(rf"{quote}(?:[^{quote}\\]|\\.)*{quote}", line):
            if line[1:].strip():
                return Explanation(
                    "FKG014",
                    f"this {what} is never closed",
                    f"close it with {quote} on the same line",
                    at.start,
                    at.start + len(line),
                )
            return Explanation(
                "FKG014",
                f"this {quote} opens nothing",
                "remove it, or write the text and its second quote",
                at.start,
                at.start + 1,
            )
    if line.startswith("``"):
        return Explanation(
            "FKG014",
            "these backquotes contain no name",
            "write the column's name: `Tag 1`",
            at.start,
            at.start + 2,
        )
    if line.startswith("<") and ">" in line and "IRI" in at.accepts:
        end = at.start + line.index(">") + 1
        hint = "leave out spaces, quotes, braces and backslashes; a space is written %20"
        return Explanation(
            "FKG014", "this IRI contains characters that IRIs cannot contain", hint, at.start, end
        )
    if line.startswith("<") and "IRI" in at.accepts:
        hint = (
            "write an IRI between < and >, without spaces or quotes: <https://example.org/plant#>"
        )
        return Explanation(
            "FKG014", "this IRI is never closed", hint, at.start, at.start + len(line)
        )
    return None


def number_form(at: ParseFailure) -> Explanation | None:
    """Numbers as other countries and other programs write them: ``0,5``, ``1.``, ``.5``, ``1 000``,
    ``+5``.
    """
    before = at.last
    rest = at.rest
    if before is not None and before.type == "NUMBER":
        start = before.start_pos
        written = str(before)
        if found := re.match(r"(?:,[0-9]+)+(?:\.[0-9]+)?", rest):
            hint = _without_commas(written, found[0])
            return Explanation(
                "FKG008",
                f"`{written}{found[0]}` has a comma",
                hint,
                start,
                at.start + len(found[0]),
            )
        if found := re.match(r"\.[0-9]{3}(?:\.[0-9]{3})*(?![0-9.])", rest):
            whole = written + found[0]
            if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{3}){2,}", whole):
                hint = f"write the digits together: {whole.replace('.', '')}"
                return Explanation(
                    "FKG023", f"`{whole}` has several points", hint, start, at.start + len(found[0])
                )
        if found := re.match(
            r"['’_ \u00a0\u202f]?([0-9]+(?:['’_ \u00a0\u202f][0-9]+)*)([.,][0-9]+)?", rest
        ):
            gap = at.text[before.end_pos : at.start]
            if "\n" not in gap:
                decimals = (found[2] or "").replace(",", ".")
                meant = (
                    written
                    + re.sub(r"\D", "", found[0][: found.start(2)] if found[2] else found[0])
                    + decimals
                )
                message = f"`{at.text[start : at.start + len(found[0])]}` is not a number"
                return Explanation(
                    "FKG023",
                    message,
                    f"write the digits together: {meant}",
                    start,
                    at.start + len(found[0]),
                )
        if at.touching and re.match(r"\.(?!\.)\s*[^\s#]", rest):
            hint = f"write {written} or {written}.0"
            return Explanation("FKG023", "a point without digits", hint)
    if found := re.match(r"\.([0-9]+)", rest):
        return Explanation(
            "FKG023",
            f"`{found[0]}` is not a number",
            f"write 0{found[0]}",
            at.start,
            at.start + len(found[0]),
        )
    if at.form == "example" and before is not None and rest.startswith(","):
        if _SIGNAL.match(rest):
            hint = "write: pressure = 7 9 9 bar and valve = on off on"
            return Explanation(
                "FKG024",
                "join the signals of an example with `and`",
                hint,
                fix=((at.start, at.start + 1, " and"),),
            )
        return Explanation("FKG024", "the values of an example have no commas", spaced_values(at))
    if at.accepts == {"NUMBER"} and rest.startswith("-"):
        return Explanation(
            "FKG023", f"a number after `{before}` cannot be negative", "write it without the sign"
        )
    found = re.match(r"\+\s*([0-9][\w.]*)", rest)
    if found and "NUMBER" in at.accepts:
        return Explanation(
            "FKG023",
            "a number has no plus sign",
            f"write {found[1]}",
            at.start,
            at.start + len(found[0]),
        )
    return None


def _without_commas(written: str, rest: str) -> str:
    """Return how to write ``1,5``, ``1,000,000``, ``1.000,5`` and ``1,000.5``.

    The last kind of mark is the decimal point if it occurs once.
    """
    whole = written + rest
    if "." in rest:
        return f"write the digits together: {whole.replace(',', '')}"
    if "." in written:
        thousands = re.fullmatch(r"[0-9]{1,3}\.[0-9]{3},[0-9]+", whole)
        meant = whole.replace(".", "").replace(",", ".") if thousands else whole.split(",", 1)[0]
        return (
            f"use a decimal point and write the digits together: {meant}"
            if thousands
            else f"a number has one point: {meant}"
        )
    groups = re.fullmatch(r"(?:,[0-9]{3}){2,}", rest)
    meant = whole.replace(",", "" if groups else ".")
    return f"write the digits together: {meant}" if groups else f"use a decimal point: {meant}"


def stranger(at: ParseFailure) -> Explanation | None:
    """An invisible character, or one that the rule language does not use."""
    letter = at.rest[:1]
    if not letter or letter.isascii():
        return None
    if unicodedata.category(letter) in ("Cf", "Cc", "Co", "Cn", "Cs"):
        name = unicodedata.name(letter, "a control character").lower()
        return Explanation(
            "FKG043",
            f"invisible character: U+{ord(letter):04X}, {name}",
            "remove it",
            at.start,
            at.start + 1,
        )
    if unicodedata.combining(letter):
        joined = unicodedata.normalize("NFC", at.text[at.start - 1 : at.start + 1])
        if len(joined) == 1:
            return Explanation(
                "FKG024",
                f"`{joined}` is written as two characters, a letter and an accent",
                f"write it as one character, `{joined}`: save the file in Unicode form NFC",
                at.start - 1,
                at.start + 1,
            )
        return Explanation(
            "FKG024",
            f"a combining mark stands between letters: U+{ord(letter):04X},"
            f" {unicodedata.name(letter, 'without a name').lower()}",
            "remove it, or write the whole name in backquotes: `Tag 1`",
        )
    if letter == "⁄":
        return Explanation("FKG024", "`⁄` is a typographic sign", "divide with /")
    if unicodedata.category(letter)[0] in "SPM" and letter not in "≤≥≠±°‰€":
        return Explanation(
            "FKG024",
            f"`{letter}` is not part of the rule language",
            "write a name with other characters in backquotes: `Tag 1`",
        )
    return None
