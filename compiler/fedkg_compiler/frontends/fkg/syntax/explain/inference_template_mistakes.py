"""Mistakes in the template of an inference: a formula, or nothing, in place of its name."""

from __future__ import annotations

import re

from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import parse_statement

_COMMENT = re.compile(r"#[^\n]*")
_CALL = re.compile(r"[^\W\d]\w*\s*\([^()]*\)\Z")
_WORD = re.compile(r"[^\W\d]\w*\Z")
_LONG = 100
_STRAY = tuple(";.,)]}")


def template_of_inference(at: ParseFailure) -> Explanation | None:
    """``find ?low in volume >= ?low``, ``find ?low in inside``, ``find ?low in``: no declared
    template with its arguments behind `in`.
    """
    opening = (
        next((token for token in at.before if token.type == "IN"), None)
        if at.form == "infer"
        else None
    )
    if opening is None or at.open_brackets or (at.follows(")") and at.bad in _STRAY):
        return None  # the mistake is in the arguments, or after them
    written = _COMMENT.sub("", at.text[opening.end_pos :]).rstrip()
    start = opening.end_pos + len(written) - len(written.lstrip())
    end = opening.end_pos + len(written)
    written = " ".join(written.split())
    variables = [
        str(token)[1:]
        for token in at.before
        if token.type == "VAR" and token.start_pos < opening.start_pos
    ]
    call = f"NAME({', '.join(f'?{name}' for name in variables)})"
    if not written:
        return Explanation(
            "FKG055", "the template to look into is missing", f"name a declared template: in {call}"
        )
    if _WORD.match(written):
        arguments = ", ".join(["signal", *(f"?{name}" for name in variables)])
        return Explanation(
            "FKG055",
            f"the template `{written}` has no arguments",
            f"write: in {written}({arguments})",
            start,
            end,
        )
    if written.startswith("follows ") and _CALL.match(written.removeprefix("follows ")):
        word = start + len("follows")
        hint = f"write: in {written.removeprefix('follows ')}"
        return Explanation(
            "FKG055", "`follows` is one word too many", hint, start, word, ((start, word + 1, ""),)
        )
    hint = (
        f"declare it on a separate line: {_declared(written, variables)}; then write here: in"
        f" {call}"
    )
    return Explanation(
        "FKG055", "this is a formula; the name of a declared template is expected", hint, start, end
    )


def _declared(formula: str, variables: list[str]) -> str:
    """The template that a formula is for certain, or how one looks."""
    plain = re.sub(
        r"\?(\w+)", lambda found: found[1] if found[1] in variables else found[0], formula
    )
    whole = f"template NAME({', '.join(variables)}) = {plain}"
    known = {found[1] for found in re.finditer(r"(?<![?\w])([^\W\d]\w*)", formula)}
    if (
        len(formula) <= _LONG
        and not known & set(variables)
        and "?" not in plain
        and parse_statement(whole) is not None
    ):
        return whole
    return f"template NAME({', '.join(variables)}) = ..., its parameters without question marks"
