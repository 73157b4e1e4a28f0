"""The clauses of a statement: each at most once, each in its form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedkg._internal.name_matching import did_you_mean
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.syntax.construct.literal_nodes import (
    number,
    plain,
    quantity,
    signed,
    string,
    term_name,
)
from fedkg_compiler.frontends.fkg.syntax.construct.statement_context import (
    Statement,
    branches,
    group_text,
    token,
    tokens,
)
from fedkg_compiler.frontends.fkg.syntax.grammar import Branch
from fedkg_compiler.frontends.fkg.syntax.tree import (
    InClass,
    InQuery,
    InTable,
    Pattern,
    Quantifier,
    Quantity,
    Waiver,
    Word,
)

KINDS = ("temporal", "causal", "capacity", "physical", "other")
SCOPES = ("public", "server", "client")
ENDS = ("strict", "clip")
_CLAUSES = {
    "meaning": "is",
    "unit": "in",
    "bounds": "span",
    "quantifier": "for",
    "trace": "trace column",
    "time": "time column",
}


def clauses(at: Statement, branch: Branch, *names: str) -> dict[str, Branch]:
    """The clauses of a statement by name: the first of each, a second one is a problem."""
    found: dict[str, Branch] = {}
    for clause in branches(branch, *names):
        name = clause.data
        if name in found:
            said = _CLAUSES.get(name, name)
            first = Related(span=at.span(found[name]), message="first written here")
            at.report(
                "FKG030",
                at.span(clause),
                f"`{said}` is written twice",
                "keep one of them",
                related=(first,),
            )
        else:
            found[name] = clause
    return found


def distinct(at: Statement, words: Iterable[Word], what: str) -> tuple[Word, ...]:
    """The words as they are; one that comes twice is a problem."""
    seen: dict[str, Word] = {}
    kept = tuple(words)
    for word in kept:
        first = seen.setdefault(word.text, word)
        if first is not word:
            related = Related(span=first.span, message="first written here")
            at.report(
                "FKG039",
                word.span,
                f"the {what} `{word.text}` is named twice",
                "remove one of them, or give it another name",
                related=(related,),
            )
    return kept


def variables(at: Statement, branch: Branch) -> tuple[Word, ...]:
    """``?a, ?b``."""
    return distinct(at, (plain(at, variable) for variable in tokens(branch, "VAR")), "variable")


def quantifier(at: Statement, branch: Branch) -> Quantifier:
    """``for ?a, ?b`` over a pattern, a class, a sheet or a query file."""
    names, source = branches(branch)
    span = at.span(source)
    over: Pattern | InClass | InTable | InQuery
    match source.data:
        case "group":
            place, text = group_text(at, source)
            over = Pattern(span=place, text=text)
        case "in_class":
            over = InClass(span=span, term=term_name(at, source))
        case "in_table":
            over = InTable(span=span, path=string(at, token(source, "STRING")))
        case _:
            over = InQuery(span=span, path=string(at, token(source, "STRING")))
    return Quantifier(span=at.span(branch), variables=variables(at, names), source=over)


def column(at: Statement, found: dict[str, Branch]) -> Word | None:
    """``column "Torque [Nm]"``."""
    if "column" not in found:
        return None
    word = string(at, token(found["column"], "STRING"))
    if not word.text.strip():
        at.report(
            "FKG014",
            word.span,
            "this column has no name",
            'write the header as in the table: column "Torque [Nm]"',
        )
    return word


def interval(at: Statement, ends: Sequence[Branch], whole: Span) -> tuple[float, float]:
    """``0 .. 1200``, its lower end first."""
    (low, _), (high, _) = (signed(at, end) for end in ends)
    if not low < high:
        at.report(
            "FKG038",
            whole,
            f"the span {low:g} .. {high:g} is empty",
            f"write the lower end first: {high:g} .. {low:g}"
            if high < low
            else "write two different ends, the lower one first",
        )
    return low, high


def bounds(at: Statement, found: dict[str, Branch]) -> tuple[float, float] | None:
    """``span 0 .. 1200``."""
    if "bounds" not in found:
        return None
    return interval(at, branches(found["bounds"], "signed"), at.span(found["bounds"]))


def kind(at: Statement, found: dict[str, Branch]) -> Word | None:
    """``kind capacity``, one of `KINDS`."""
    if "kind" not in found:
        return None
    word = plain(at, token(found["kind"], "NAME"))
    if word.text not in KINDS:
        hint = did_you_mean(word.text, KINDS, f"the kinds are {', '.join(KINDS)}")
        at.report("FKG031", word.span, f"`{word.text}` is not a kind of rule", hint)
    return word


def scope(at: Statement, found: dict[str, Branch]) -> Word | None:
    """``scope client``, one of `SCOPES`."""
    return _one_of(
        at, found, "scope", SCOPES, "FKG046", "not a scope", f"the scopes are {', '.join(SCOPES)}"
    )


def waivers(at: Statement, branch: Branch) -> tuple[Waiver, ...]:
    """Each ``allow FKG503 because "it is an alarm"`` of a rule."""
    found = tuple(
        Waiver(
            span=at.span(clause),
            code=plain(at, token(clause, "NAME")),
            reason=string(at, token(clause, "STRING")),
        )
        for clause in branches(branch, "waiver")
    )
    distinct(at, (waiver.code for waiver in found), "code")
    for waiver in found:
        if not waiver.reason.text.strip():
            at.report(
                "FKG056",
                waiver.reason.span,
                f"`allow {waiver.code.text}` has an empty reason",
                f'say why the warning does not matter: allow {waiver.code.text} because "..."',
            )
    return found


def ends(at: Statement, found: dict[str, Branch]) -> Word | None:
    """``ends clip``, one of `ENDS`."""
    return _one_of(
        at,
        found,
        "ends",
        ENDS,
        "FKG049",
        "not a way to end a timeline",
        "write: ends strict, or: ends clip",
    )


def _one_of(
    at: Statement,
    found: dict[str, Branch],
    clause: str,
    words: tuple[str, ...],
    code: str,
    what: str,
    known: str,
) -> Word | None:
    """The name in a clause, which must be one of a few words."""
    if clause not in found:
        return None
    word = plain(at, token(found[clause], "NAME"))
    if word.text not in words:
        at.report(
            code, word.span, f"`{word.text}` is {what}", did_you_mean(word.text, words, known)
        )
    return word


def weight(at: Statement, found: dict[str, Branch]) -> Quantity | None:
    """``weight 2``."""
    if "weight" not in found:
        return None
    written = token(found["weight"], "NUMBER")
    return Quantity(span=at.span(written), value=number(at, written))


def lasting(at: Statement, branch: Branch, what: str) -> Quantity:
    """A length of time that must not be zero."""
    time = quantity(at, branch)
    if time.value == 0:
        at.report("FKG041", time.span, f"{what} of 0 goes nowhere", "write how long it is: 5 min")
    return time
