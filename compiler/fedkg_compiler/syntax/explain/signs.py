"""Mistakes that the signs themselves give away: quotes, commas, operators of other languages."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise

from fedkg_compiler.syntax.explain.offence import Found, Offence


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that belongs to another language: the pattern at the offence, and what to say.

    Attributes:
        needs: the name of a terminal that must be acceptable here, or "".
    """

    pattern: str
    code: str
    message: str
    help: str
    needs: str = ""


_QUOTED_NUMBER = re.compile(
    r"[“”„‟«»‹›‘’‚‛´\"']\s*([-−–]?[0-9][0-9.,]*(?:\s*[^\W\d_][\w./°]*|\s*[°%‰][\w./]*)?)\s*[“”„‟«»‹›‘’‚‛´\"']"
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
    Sign("===", "FKG010", "`===` is no comparison", "equality is =="),
    Sign("=<", "FKG010", "`=<` is no comparison", "write <=", "CMP"),
    Sign(
        "=>",
        "FKG010",
        "`=>` is no comparison",
        "write >=, or, for a consequence: if ... then ...",
        "IS",
    ),
    Sign("=(?!>)", "FKG010", "`=` is no comparison", "equality is ==", "CMP"),
    Sign(":=", "FKG010", "`:=` is no sign of the language", "equality is ==", "CMP"),
    Sign("[-=]>|→|⇒|⟹", "FKG011", "`{bad}` is no sign of the language", "write: if ... then ..."),
    Sign("&&?|∧", "FKG012", "`{bad}` is written as a word here", "write and"),
    Sign(r"\|\|?|∨", "FKG012", "`{bad}` is written as a word here", "write or"),
    Sign("!|¬|~", "FKG012", "`{bad}` is written as a word here", "write not"),
    Sign(r"\*\*", "FKG024", "`**` is no sign of the language", "a power is written ^: x ^ 2"),
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
        "write: [0 min, 10 min]",
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
        "`{bad}` is no variable of the language",
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
        "`%` is a unit and stands behind a number",
        "write 5 %; there is no remainder of a division",
    ),
    Sign(
        r"\.(?![.\d])",
        "FKG024",
        "a full stop ends nothing here",
        "take it away: a new line at the left edge begins the next statement",
    ),
    Sign(
        "@",
        "FKG024",
        "`@` is no sign of the language",
        "a name with such signs stands in backquotes: `Tag 1`",
    ),
)


def sign(at: Offence) -> Found | None:
    """A sign of another language, or a typographic one."""
    for known in SIGNS:
        found = re.match(known.pattern, at.rest)
        if found and (not known.needs or known.needs in at.accepts):
            hint = known.help.replace("{tail}", found[0][1:])
            return Found(
                known.code,
                known.message.format(bad=found[0]),
                hint,
                at.start,
                at.start + len(found[0]),
            )
    return None


def quoted_number(at: Offence) -> Found | None:
    """``x < “3.5” degC``, ``weight "2"``: a number in quotes where a text cannot stand."""
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
    return Found(
        "FKG013",
        f"`{found[0]}` is a number in quotes",
        hint,
        at.start,
        end,
        ((at.start, end, plain),),
    )


def torn_sign(at: Offence) -> Found | None:
    """An operator of another language whose first half reads as one of ours: ``->``, ``<>``, ``< =``, ``===``."""
    if at.last is None or not at.rest:
        return None
    whole = f"{at.last}{at.rest[:1]}"
    start = at.last.start_pos
    end = at.start + 1
    match whole:
        case "->" | "-->":
            return Found(
                "FKG011", "`->` is no sign of the language", "write: if ... then ...", start, end
            )
        case "<>" | "><":
            return Found("FKG010", f"`{whole}` is no comparison", "not equal is !=", start, end)
        case "<=" | ">=":
            return Found(
                "FKG010", f"`{whole}` is written without a space", f"write {whole}", start, end
            )
        case "===" | "!==" | "<==" | ">==":
            said = whole.removesuffix("=")
            return Found("FKG010", f"`{whole}` is no comparison", f"write {said}", start, end)
        case "**":
            return Found(
                "FKG024",
                "`**` is no sign of the language",
                "a power is written ^: x ^ 2",
                start,
                end,
            )
        case "//" | "--" if at.touching:
            return Found(
                "FKG024",
                f"`{whole}` does not begin a comment",
                "a comment begins with #",
                start,
                end,
            )
        case _:
            return None


def dashed_comment(at: Offence) -> Found | None:
    """``a >= 1 -- a remark``: two minus signs that touch, and words behind them."""
    for first, second in pairwise(at.before):
        if str(first) == str(second) == "-" and first.end_pos == second.start_pos:
            start = first.start_pos
            return Found(
                "FKG024",
                "`--` does not begin a comment",
                "a comment begins with #",
                start,
                start + 2,
            )
    return None


def unclosed_text(at: Offence) -> Found | None:
    """A quote or a backquote that has no partner on its line."""
    line = at.rest.split("\n", 1)[0].rstrip("\r")
    for quote, what in (('"', "text"), ("`", "name in backquotes")):
        if line.startswith(quote) and not re.match(rf"{quote}(?:[^{quote}\\]|\\.)*{quote}", line):
            if line[1:].strip():
                return Found(
                    "FKG014",
                    f"this {what} is never closed",
                    f"close it with {quote} on the same line",
                    at.start,
                    at.start + len(line),
                )
            return Found(
                "FKG014",
                f"this {quote} opens nothing",
                "take it away, or write the text and its second quote",
                at.start,
                at.start + 1,
            )
    if line.startswith("``"):
        return Found(
            "FKG014",
            "there is no name between these backquotes",
            "write the column's name: `Tag 1`",
            at.start,
            at.start + 2,
        )
    if line.startswith("<") and ">" in line and "IRI" in at.accepts:
        end = at.start + line.index(">") + 1
        hint = "leave out spaces, quotes, braces and backslashes; a space is written %20"
        return Found("FKG014", "this IRI has characters that no IRI has", hint, at.start, end)
    if line.startswith("<") and "IRI" in at.accepts:
        hint = (
            "an IRI stands between < and >, without spaces or quotes: <https://example.org/plant#>"
        )
        return Found("FKG014", "this IRI is never closed", hint, at.start, at.start + len(line))
    return None


def number_form(at: Offence) -> Found | None:
    """Numbers as other countries and other programs write them: ``0,5``, ``1.``, ``.5``, ``1 000``, ``+5``."""
    before = at.last
    rest = at.rest
    if before is not None and before.type == "NUMBER":
        start = before.start_pos
        written = str(before)
        if found := re.match(r"(?:,[0-9]+)+(?:\.[0-9]+)?", rest):
            hint = _without_commas(written, found[0])
            return Found(
                "FKG008",
                f"`{written}{found[0]}` has a comma",
                hint,
                start,
                at.start + len(found[0]),
            )
        if found := re.match(r"\.[0-9]{3}(?:\.[0-9]{3})*(?![0-9.])", rest):
            whole = written + found[0]
            if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{3}){2,}", whole):
                hint = f"digits stand together: {whole.replace('.', '')}"
                return Found(
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
                message = f"`{at.text[start : at.start + len(found[0])]}` is no number"
                return Found(
                    "FKG023",
                    message,
                    f"digits stand together: {meant}",
                    start,
                    at.start + len(found[0]),
                )
        if at.touching and re.match(r"\.(?!\.)\s*[^\s#]", rest):
            hint = f"write {written} or {written}.0"
            return Found("FKG023", "a point without digits", hint)
    if found := re.match(r"\.([0-9]+)", rest):
        return Found(
            "FKG023",
            f"`{found[0]}` is no number",
            f"write 0{found[0]}",
            at.start,
            at.start + len(found[0]),
        )
    if at.form == "example" and before is not None and rest.startswith(","):
        if _SIGNAL.match(rest):
            hint = "write: pressure = 7 9 9 bar and valve = on off on"
            return Found(
                "FKG024",
                "`and` stands between the signals of an example",
                hint,
                fix=((at.start, at.start + 1, " and"),),
            )
        return Found(
            "FKG024",
            "the values of an example have no commas",
            "write spaces between them: 7 9 9 bar",
        )
    if at.accepts == {"NUMBER"} and rest.startswith("-"):
        return Found(
            "FKG023", f"a number behind `{before}` has no minus", "write it without the sign"
        )
    found = re.match(r"\+\s*([0-9][\w.]*)", rest)
    if found and "NUMBER" in at.accepts:
        return Found(
            "FKG023",
            "a number has no plus sign",
            f"write {found[1]}",
            at.start,
            at.start + len(found[0]),
        )
    return None


def _without_commas(written: str, rest: str) -> str:
    """What ``1,5``, ``1,000,000``, ``1.000,5`` and ``1,000.5`` are here: the last kind of mark, standing once, is the decimal one."""
    whole = written + rest
    if "." in rest:
        return f"digits stand together: {whole.replace(',', '')}"
    if "." in written:
        thousands = re.fullmatch(r"[0-9]{1,3}\.[0-9]{3},[0-9]+", whole)
        meant = whole.replace(".", "").replace(",", ".") if thousands else whole.split(",", 1)[0]
        return (
            f"decimals take a point, and digits stand together: {meant}"
            if thousands
            else f"a number has one point: {meant}"
        )
    groups = re.fullmatch(r"(?:,[0-9]{3}){2,}", rest)
    meant = whole.replace(",", "" if groups else ".")
    return f"digits stand together: {meant}" if groups else f"decimals take a point: {meant}"


def stranger(at: Offence) -> Found | None:
    """A character that nobody sees, or that no part of the language has."""
    letter = at.rest[:1]
    if not letter or letter.isascii():
        return None
    if unicodedata.category(letter) in ("Cf", "Cc", "Co", "Cn", "Cs"):
        name = unicodedata.name(letter, "a control character").lower()
        return Found(
            "FKG043",
            f"an invisible character stands here: U+{ord(letter):04X}, {name}",
            "take it away",
            at.start,
            at.start + 1,
        )
    if unicodedata.category(letter)[0] in "SPM" and letter not in "≤≥≠±°‰€":
        return Found(
            "FKG024",
            f"`{letter}` is no sign of the language",
            "a name with such signs stands in backquotes: `Tag 1`",
        )
    return None
