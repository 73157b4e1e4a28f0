"""Mistakes in the shape of a statement: brackets, missing names and marks, values where conditions
belong.
"""

from __future__ import annotations

import re
import unicodedata

from fedkg.units import Unit, parse_unit
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure

_NAMED = ("rule", "signal", "output", "label", "constant", "template", "infer", "set", "cause")
_CLAUSES = (
    "require",
    "in",
    "is",
    "span",
    "column",
    "kind",
    "weight",
    "for",
    "classes",
    "keep",
    "hard",
    "per",
    "allow",
)
_ENDS_CONDITION = (
    "and",
    "or",
    "then",
    ")",
    "until",
    "since",
    "only",
    "allow",
    "predict",
    "within",
    "over",
    "where",
)
_QUOTES = tuple("“”„‟«»‘’‚‛´'")
_WORD = re.compile(r"[^\W\d]\w*\Z")


def unclosed_brace(at: ParseFailure) -> Explanation | None:
    """``{`` without ``}``."""
    braces = [token for token in at.open_brackets if str(token) == "{"]
    if not braces:
        return None
    start = braces[-1].start_pos
    if at.at_end:
        return Explanation(
            "FKG004",
            "`{` is never closed",
            "close it with }; the lines inside braces are indented",
            start,
            start + 1,
        )
    what = "a text" if at.bad[:1] in "\"'" else f"`{at.bad}`"
    return Explanation(
        "FKG004",
        f"{what} in the graph pattern is never closed",
        "close it on its line; the braces end with }",
    )


def unclosed_bracket(at: ParseFailure) -> Explanation | None:
    """``(`` or ``[`` without its partner."""
    stack = [token for token in at.open_brackets if str(token) in "(["]
    if not stack:
        return None
    inner = stack[-1]
    closing = {"(": ")", "[": "]"}[str(inner)]
    start = inner.start_pos
    if at.at_end and at.last is not inner and {"RPAR", "RSQB"} & at.accepts:
        return Explanation(
            "FKG005", f"`{inner}` is never closed", f"close it with {closing}", start, start + 1
        )
    if inner == "[" and "RSQB" in at.accepts and re.match(r"[^\W\d]|[?`]", at.bad):
        return Explanation("FKG005", "`[` is never closed", "close it with ]", start, start + 1)
    if "RPAR" in at.accepts and at.bad in (
        "then",
        "require",
        "allow",
        "predict",
        "otherwise",
        "when",
    ):
        return Explanation(
            "FKG005", "`(` is never closed", f"close it with ) before `{at.bad}`", start, start + 1
        )
    if at.bad in (")", "]", "}") and at.bad != closing and {"RPAR", "RSQB"} & at.accepts:
        return Explanation(
            "FKG005", f"`{inner}` is closed by `{at.bad}`", f"close it with {closing}"
        )
    return None


def closing_nothing(at: ParseFailure) -> Explanation | None:
    """``)`` without ``(``."""
    if at.bad not in (")", "]", "}") or at.open_brackets:
        return None
    return Explanation(
        "FKG025", f"`{at.bad}` closes nothing", "remove it, or open it further to the left"
    )


def missing_then(at: ParseFailure) -> Explanation | None:
    """``if a`` without ``then``."""
    if "THEN" not in at.accepts or "IS" in at.accepts:
        return None
    if at.at_end:
        return Explanation("FKG020", "this `if` has no `then`", "write: if ... then ...")
    last = at.last
    if (
        last is not None
        and last.type == "UNIT"
        and not isinstance(parse_unit(str(last)), Unit)
        and re.match(r"[<>=!≤≥]|is\b|never\b", at.bad)
    ):
        start = last.start_pos
        return Explanation(
            "FKG020",
            "this `if` has no `then`",
            f"write: if ... then {last} {at.bad} ...",
            start,
            start + len(last),
        )
    if at.bad == ",":
        return Explanation(
            "FKG020", "this `if` has no `then`", "write: if ... then ..., without a comma"
        )
    return None


def missing_name(at: ParseFailure) -> Explanation | None:
    """``rule require x <= 1``: a declaration without a name, or with a name that is none."""
    form = at.form
    if form not in _NAMED:
        return None
    if len(at.before) == 2 and str(at.before[1]) in _CLAUSES and at.before[1].type == "NAME":
        word = at.before[1]
        start = word.start_pos
        return Explanation(
            "FKG021",
            f"this {form} has no name",
            f"write: {form} NAME {word} ...",
            start,
            start + len(word),
        )
    if len(at.before) == 2 and at.touching and re.match(r"[^\s(,:=]", at.bad):
        start = at.before[1].start_pos
        found = re.match(r"[^\s\"(]+", at.text[start:])
        written = found[0] if found else at.bad
        return Explanation(
            "FKG021",
            f"`{written}` is not a valid name",
            _name_help(form, written),
            start,
            start + len(written),
        )
    if len(at.before) == 2 and at.bad == ":":
        return Explanation("FKG021", f"the name of a {form} has no colon", "remove it")
    if len(at.before) == 1 and not at.at_end and not _WORD.match(at.bad) and at.bad not in _QUOTES:
        found = re.match(r"[^\s\"(]+", at.rest)
        written = found[0] if found and at.bad[:1] not in '"`' else at.bad
        if re.match(r"[0-9]", written):
            return Explanation(
                "FKG021",
                f"`{written}` is not a valid name",
                _name_help(form, written),
                at.start,
                at.start + len(written),
            )
        return Explanation("FKG021", f"this {form} has no name", f"write: {form} NAME ...")
    return None


def _name_help(form: str, written: str) -> str:
    marks = [letter for letter in written if unicodedata.combining(letter)]
    if marks:
        name = unicodedata.name(marks[0], "without a name").lower()
        return f"remove the combining mark U+{ord(marks[0]):04X}, {name}"
    plain = re.sub(r"\W+", "_", written).strip("_")
    plain = f"_{plain}" if plain[:1].isdigit() else plain
    hint = f"a name has letters, digits and _, and does not begin with a digit: {plain}"
    return hint + (
        f"; write any other name in backquotes: `{written}`" if form in ("signal", "output") else ""
    )


def missing_mark(at: ParseFailure) -> Explanation | None:
    """A variable without ``?``, a file name without quotes, a pattern without braces, an IRI
    without its brackets.
    """
    accepts = at.accepts
    word = _WORD.match(at.bad) is not None
    if "VAR" in accepts and "NAME" not in accepts and word and at.bad not in at.allowed_words:
        return Explanation(
            "FKG022",
            f"`{at.bad}` is not a variable",
            f"a variable begins with a question mark: ?{at.bad}",
        )
    if "LBRACE" in accepts and at.follows("where"):
        return Explanation(
            "FKG022", "a graph pattern needs braces", "write: where { ?pump a plant:Pump }"
        )
    if accepts == {"STRING"} and not at.at_end:
        found = re.match(r"[“”„‟«»‘’‚‛´'][^\n]*?[“”„‟«»‘’‚‛´']|[^\s#]+", at.rest)
        written = found[0] if found else at.bad
        inner = written.strip("".join(_QUOTES)).strip()
        if written[0] in _QUOTES:
            return Explanation(
                "FKG013",
                f"`{written[0]}` is not a quote of the rule language",
                f'write "{inner}"',
                at.start,
                at.start + len(written),
            )
        return Explanation(
            "FKG022",
            f"`{written}` needs quotes",
            f'write "{inner}"',
            at.start,
            at.start + len(written),
        )
    if accepts == {"IRI"} and not at.at_end:
        found = re.match(r"[^\s]+", at.rest)
        written = found[0] if found else at.bad
        inner = written.strip("\"'")
        return Explanation(
            "FKG022",
            f"`{written}` is not an IRI",
            f"write an IRI in angle brackets: <{inner}>",
            at.start,
            at.start + len(written),
        )
    if accepts == {"COLON"} and at.form == "prefix":
        return Explanation(
            "FKG022",
            "a prefix ends with a colon",
            f"write: prefix {at.last}: <https://example.org/{at.last}#>",
        )
    if {"CLASS", "TABLE", "QUERY"} <= accepts and at.bad not in at.allowed_words:
        if at.bad[:1] == '"':
            return Explanation(
                "FKG022",
                "what kind of file is this?",
                f"write: in table {at.bad}, or: in query {at.bad}",
            )
        if not at.at_end:
            return Explanation(
                "FKG022", f"what kind of thing is `{at.bad}`?", f"write: in class {at.bad}"
            )
    return None


def value_not_condition(at: ParseFailure) -> Explanation | None:
    """``require torque``: a value where a condition belongs."""
    if not {"CMP", "IS"} <= at.accepts or at.value is None or at.last is None:
        return None
    if not at.at_end and at.bad not in _ENDS_CONDITION:
        return None
    end = at.last.end_pos
    written = at.text[at.value : end]
    if (
        at.has("is")
        and at.before[-2:-1]
        and str(at.before[-2]) in ("or", "and")
        and _WORD.match(written)
    ):
        hint = f"repeat the left side: grade is A {at.before[-2]} grade is {written}"
    elif written.casefold() in ("true", "false"):
        hint = f"compare a signal: valve is {written.casefold()}"
    else:
        hint = f"compare it with something: {_shortened(written)} <= ..."
        if _WORD.match(written):
            hint += f"; if it is true or false: {written} is true"
        called = re.match(r"([^\W\d]\w*)\s*\(.*,.*\)\Z", written, re.DOTALL)
        if called and called[1] not in ("min", "max"):
            hint += f"; a template is followed: follows {_shortened(written)}"
    return Explanation(
        "FKG018", f"`{_shortened(written)}` is a value, not a condition", hint, at.value, end
    )


def missing_require(at: ParseFailure) -> Explanation | None:
    """``rule a x <= 1``."""
    if at.form != "rule" or "REQUIRE" not in at.accepts:
        return None
    if re.search(r"\brequire\b", at.rest):
        return None
    if at.at_end:
        return Explanation(
            "FKG003", "the rule ends without a condition", "end it with: require ..."
        )
    if re.match(r"[^\n]*?(<|>|==|!=|[≤≥≠]|\bis\b|\bnever\b)", at.rest):
        return Explanation(
            "FKG002", f"`require` is missing before `{at.bad}`", "write: rule NAME require ..."
        )
    return None


def span_form(at: ParseFailure) -> Explanation | None:
    """``span 0 - 5``, ``span 0 ... 5``, ``span 0 degC .. 5 degC``."""
    behind = at.accepts == {"NUMBER", "MINUS"} and at.follows("..")
    if at.at_end or not (at.accepts and ((at.allows("..") and len(at.accepts) == 1) or behind)):
        return None
    if re.match(r"[^\W\d]|[°%]", at.bad) and at.bad not in ("to", "bis", "and"):
        return Explanation(
            "FKG002",
            f"the ends of a span cannot have a separate unit: `{at.bad}`",
            "write the unit after `in`: in degC span 0 .. 100",
        )
    return Explanation(
        "FKG002", f"`{at.bad}` does not join the ends of a span", "write two points: span 0 .. 100"
    )


def half_window(at: ParseFailure) -> Explanation | None:
    """``always [2 h] x``."""
    if (
        at.bad != "]"
        or "COMMA" not in at.accepts
        or not at.open_brackets
        or str(at.open_brackets[-1]) != "["
    ):
        return None
    return Explanation("FKG002", "a window has two ends", "write: [0 h, 2 h], or: within 2 h")


def missing_unit(at: ParseFailure) -> Explanation | None:
    """``signal t in span 0 .. 5``."""
    last = at.last
    if (
        at.form not in ("signal", "output")
        or last is None
        or last.type != "UNIT"
        or str(last) not in ("span", "column", "is", "in")
    ):
        return None
    start = last.start_pos
    return Explanation(
        "FKG002", "`in` has no unit", f"write: in bar {last} ...", start, start + len(last)
    )


def missing_otherwise(at: ParseFailure) -> Explanation | None:
    """Range or prediction knowledge without its last clause."""
    if not at.at_end or "OTHERWISE" not in at.accepts or "WHEN" not in at.accepts:
        return None
    last = "otherwise predict ..." if at.form == "predict" else "otherwise allow any"
    return Explanation("FKG003", "the statement ends without `otherwise`", f"end it with: {last}")


def condition_not_value(at: ParseFailure) -> Explanation | None:
    """``max(a >= 1, b)``: a comparison where a value belongs; a second comparison after ``is``."""
    if not re.match(r"<=?|>=?|==|!=|[≤≥≠]", at.bad) or at.last is None or at.last.type in ("CMP",):
        return None
    if {"PLUS", "UNIT"} & at.accepts:
        inner = at.open_brackets[-1:]
        if inner and str(inner[0]) == "(":
            return Explanation(
                "FKG019",
                f"a comparison (`{at.bad}`) cannot be an argument here",
                "a function takes values; compare its result: max(a, b) >= 1",
            )
        return Explanation(
            "FKG019",
            f"a comparison (`{at.bad}`) cannot be used here",
            "a value is expected, not a condition",
        )
    if "AND" in at.accepts:
        return Explanation(
            "FKG019", f"the condition before `{at.bad}` is complete", "join two conditions by `and`"
        )
    return None


def window_without_word(at: ParseFailure) -> Explanation | None:
    """``[0, 2 h]`` without a prefix word, or a header in square brackets."""
    if at.bad != "[":
        return None
    hint = (
        "a window follows a word such as always: always [0 h, 2 h] ...; write the name of a column"
        " in backquotes: `Torque [Nm]`"
    )
    return Explanation("FKG024", "`[` cannot be used here", hint)


def brace_elsewhere(at: ParseFailure) -> Explanation | None:
    """``{`` outside a quantifier."""
    if at.bad != "{" or "LBRACE" in at.accepts:
        return None
    hint = "braces contain a graph pattern and follow `where`: for ?pump where { ... }"
    return Explanation("FKG022", "`{` cannot be used here", hint)


def number_as_class(at: ParseFailure) -> Explanation | None:
    """``grade is 1``."""
    if (
        at.last is None
        or str(at.last) not in ("is", "not")
        or "STRING" not in at.accepts
        or not re.match(r"[0-9]", at.bad)
    ):
        return None
    return Explanation(
        "FKG022",
        f"`{at.bad}` is a number, `is` compares classes",
        f'write == {at.bad} for a number, or is "{at.bad}" for a class of that name',
    )


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 40 else words[:37] + "..."
