"""A table of common mistakes in knowledge, sets and inferences, each with its correction."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import Explanation, ParseFailure


@dataclass(frozen=True, slots=True)
class Slip:
    """A common mistake in a clause.

    Attributes:
        forms: the first words of the statements in which it occurs.
        needs: a keyword or operator that the grammar accepts here.
        pattern: matches the mistake.
        put: the text that replaces it; None if no correction is certain.
    """

    forms: tuple[str, ...]
    needs: str
    pattern: str
    message: str
    help: str
    put: str | None = None


_KNOWLEDGE = ("range", "predict")
_RANGE, _PREDICT, _SET, _INFER = ("range",), ("predict",), ("set",), ("infer",)
_ONE_END = "write both ends of the interval, such as the end of the span: allow 3 .. 100 %"
SLIPS = (
    Slip(
        _RANGE,
        "allow",
        r"then\b",
        "`then` is written `allow` in range knowledge",
        "write: when ... allow ...",
        "allow",
    ),
    Slip(
        _PREDICT,
        "predict",
        r"then\b",
        "`then` is written `predict` in prediction knowledge",
        "write: when ... predict ...",
        "predict",
    ),
    Slip(
        _KNOWLEDGE,
        "when",
        r"(?:if|where|while)\b",
        "`{0}` is written `when` in knowledge",
        "write: when ...",
        "when",
    ),
    Slip(
        _KNOWLEDGE,
        "otherwise",
        r"else\b",
        "`else` is written `otherwise` in knowledge",
        "write: otherwise ...",
        "otherwise",
    ),
    Slip(_RANGE, "otherwise", r"or\b", "`or` separates classes", "write a comma: allow A, B", ","),
    Slip(_RANGE, "any", r"(?:<=|>=|<|>|≤|≥)", "`{0}` cannot follow `allow`", _ONE_END),
    Slip(
        _RANGE,
        "..",
        r"(?:to|bis|-|–|…)(?!\w)",
        "`{0}` does not join two ends",
        "write two points: allow 0.2 .. 0.4",
        "..",
    ),
    Slip(
        _RANGE,
        "..",
        r"and\b",
        "`and` does not join two ends",
        "for all between them write two points: allow 0.2 .. 0.4",
    ),
    Slip(
        _RANGE,
        "..",
        r"[^\W\d]\w*|[°%]",
        "the lower end has a separate unit",
        "write the unit once, at the end: allow 3 .. 5 %",
    ),
    Slip(
        _PREDICT,
        "predict",
        r"allow\b",
        "prediction knowledge says what it predicts",
        "write predict in place of allow",
        "predict",
    ),
    Slip(
        _RANGE,
        "allow",
        r"predict\b",
        "range knowledge says what it allows",
        "write allow in place of predict",
        "allow",
    ),
    Slip(
        _RANGE, "allow", r"any\b", "`allow` is missing before `any`", "write: otherwise allow any"
    ),
    Slip(
        _PREDICT,
        "otherwise",
        r",",
        "a prediction is one class, or one number",
        "several are allowed by: range knowledge ...",
    ),
    Slip(
        _KNOWLEDGE,
        "of",
        r"(?:when|for|in|from)\b",
        "the knowledge does not say which output it describes",
        "name an output or a label: range knowledge NAME of grade",
    ),
    Slip(_SET, "=", r":", "`:` is used in place of `=`", "write: radius = 3", "="),
    Slip(
        (*_KNOWLEDGE, *_SET, *_INFER),
        "",
        r":(?!\w)",
        "clauses do not contain colons",
        "remove it",
        "",
    ),
    Slip(
        _SET,
        "in",
        r"between\b|[<>≤≥]=?|=",
        "a comparison cannot describe a set",
        "write: keep yield in box(low = 0, high = 100), or: in nonnegative()",
    ),
    Slip(
        _SET,
        "keep",
        r"(?:parameters|predictions)\b",
        "`keep` is missing before `{0}`",
        "write: set NAME keep {0} in ...",
    ),
    Slip(
        _SET,
        "keep",
        r"in\b",
        "the set does not say what it constrains",
        "write: set NAME keep parameters in ...",
    ),
    Slip(
        _SET,
        "in",
        r"\w+(?=\s*\()",
        "`in` is missing before `{0}`",
        "write: keep parameters in {0}(...)",
    ),
    Slip(_SET, ")", r"\.\.", "the ends of a set are named", "write: box(low = 0, high = 100)"),
    Slip(
        _INFER,
        "find",
        r"\?\w+",
        "`find` is missing before `{0}`",
        "write: infer NAME per client find {0} in ...",
    ),
    Slip(
        _INFER,
        "per",
        r"for\s+(?:each|every)\b",
        "`{0}` is written `per` in an inference",
        "write: per client",
        "per",
    ),
    Slip(
        _INFER,
        "per",
        r"find\b",
        "the inference does not say for whom it finds values",
        "write: infer NAME per client find ..., or per cluster, or per run",
    ),
    Slip(
        _INFER,
        "in",
        r"(?:from|such\s+that|with|where|so\s+that)\b",
        "`{0}` is written `in` in an inference",
        "write `in` and a declared template: find ?low in TEMPLATE(?low)",
        "in",
    ),
)


def clause(at: ParseFailure) -> Explanation | None:
    """Recognise the mistakes of `SLIPS`."""
    for slip in SLIPS:
        found = re.match(slip.pattern, at.rest) if at.form in slip.forms else None
        if found is None or (slip.needs and not at.allows(slip.needs)):
            continue
        start, end = at.start, at.start + found.end()
        fix = ((start, end, slip.put),) if slip.put is not None else ()
        if slip.put == ",":
            fix = ((len(at.text[:start].rstrip()), end, ","),)
        words = " ".join(found[0].split())
        return Explanation(
            "FKG002", slip.message.format(words), slip.help.format(words), start, end, fix
        )
    return _unnamed_set(at)


def _unnamed_set(at: ParseFailure) -> Explanation | None:
    """``in [0, 100]``, ``in l1-ball(...)``, ``keep all parameters``, ``allow above 3 %``."""
    last = at.last
    if last is None:
        return None
    if at.form == "range" and (
        (str(last) in ("above", "below", "over", "under") and re.match(r"[-+.\d]", at.rest))
        or (str(last) == "at" and at.bad in ("least", "most"))
    ):
        start, end = last.start_pos, at.start + (len(at.bad) if str(last) == "at" else 0)
        words = " ".join(at.text[start:end].split())
        return Explanation(
            "FKG002", f"`{words}` cannot follow `allow`", _ONE_END, start, start + len(words)
        )
    if at.form == "set" and last.type == "IN" and at.bad in ("[", "("):
        return Explanation(
            "FKG002", "the kind of set is missing", "write: keep yield in box(low = 0, high = 100)"
        )
    if at.form == "set" and at.accepts == {"LPAR"} and (ball := re.match(r"-ball\b", at.rest)):
        start, end = last.start_pos, at.start + ball.end()
        return Explanation(
            "FKG002",
            f"`{at.text[start:end]}` is not a valid name",
            f"write {last}_ball",
            start,
            end,
            ((start, end, f"{last}_ball"),),
        )
    if at.form == "set" and str(last) in ("all", "every", "the") and at.allows("in"):
        start = last.start_pos
        return Explanation(
            "FKG002",
            f"`{last}` is one word too many",
            f"write: keep {at.bad} in ...",
            start,
            start + len(last),
            ((start, at.start, ""),),
        )
    if (
        at.form == "range"
        and str(last) == "otherwise"
        and last.type == "NAME"
        and at.bad == "allow"
        and str(at.before[-2]) == ","
    ):
        start = at.before[-2].start_pos
        return Explanation(
            "FKG002",
            "a comma is too many before `otherwise`",
            "remove it",
            start,
            start + 1,
            ((start, start + 1, ""),),
        )
    return None
