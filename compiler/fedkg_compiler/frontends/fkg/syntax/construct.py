"""From the parser's tree of a statement to the typed nodes of `tree`.

In this order: the text of a statement, literals, clauses, conditions and values, declarations and
rules, then templates, knowledge, sets, causes and examples.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from fedkg._internal.name_matching import did_you_mean, nearest_name
from fedkg_compiler.diagnostics.record import Diagnostic, Related, Span
from fedkg_compiler.diagnostics.suggested_edits import suggested
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import Branch, Chunk, Leaf, Token
from fedkg_compiler.frontends.fkg.syntax.tree import (
    OPERATORS,
    Aggregate,
    AllOf,
    AnyOf,
    Apply,
    Arithmetic,
    AtEdge,
    Becomes,
    Begins,
    Cause,
    Choice,
    Comparison,
    Condition,
    Constant,
    DecisionTable,
    EarlierModel,
    Equivalence,
    Example,
    Expression,
    Follows,
    Head,
    IfThen,
    InClass,
    Infer,
    InQuery,
    InTable,
    IsClass,
    KeepSet,
    Label,
    Lasting,
    Load,
    Membership,
    Monotone,
    Negation,
    Number,
    OnlyAfter,
    OverMembers,
    OverTime,
    Pattern,
    PredictKnowledge,
    Prefix,
    Quantifier,
    Quantity,
    Raised,
    RangeKnowledge,
    Reference,
    RowsAre,
    Rule,
    Series,
    Signal,
    Template,
    Temporal,
    TermName,
    Timeline,
    Until,
    Use,
    Variable,
    Waiver,
    Window,
    Word,
)


@dataclass(frozen=True, slots=True)
class StatementText:
    """One statement on its way from the parser's tree to ours: its text and the list that its
    problems are put into.
    """

    chunk: Chunk
    problems: list[Diagnostic] = field(default_factory=list)

    def span(self, leaf: Leaf) -> Span:
        """The place of a token or a branch in the file."""
        return self.chunk.span(*find_offsets(leaf))

    def word(self, token: Token) -> Word:
        """A token as it is written."""
        return Word(span=self.span(token), text=str(token))

    def report(
        self,
        code: str,
        span: Span,
        message: str,
        help: str = "",
        *,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Add an error."""
        fix = suggested(span, help)
        self.problems.append(
            Diagnostic(
                code=code,
                severity="error",
                span=span,
                message=message,
                help=help,
                related=related,
                fix=fix,
            )
        )

    def doubt(self, code: str, span: Span, message: str, help: str) -> None:
        """Add a warning: it can be read, and is probably not meant."""
        self.problems.append(
            Diagnostic(code=code, severity="warning", span=span, message=message, help=help)
        )


def find_offsets(leaf: Leaf) -> tuple[int, int]:
    """Where a token or a branch begins and ends in the statement."""
    place = leaf if isinstance(leaf, Token) else leaf.meta
    return place.start_pos, place.end_pos


def tokens(branch: Branch, *kinds: str) -> list[Token]:
    """The direct tokens of a branch, of the kinds named (all of them where none is)."""
    return [
        child
        for child in branch.children
        if isinstance(child, Token) and (not kinds or child.type in kinds)
    ]


def token(branch: Branch, *kinds: str) -> Token:
    """The first direct token of these kinds; the grammar promises that there is one."""
    return tokens(branch, *kinds)[0]


def branches(branch: Branch, *names: str) -> list[Branch]:
    """The direct branches of these names (all of them where none is)."""
    return [
        child
        for child in branch.children
        if not isinstance(child, Token) and (not names or child.data in names)
    ]


def cut_group_text(at: StatementText, group: Branch) -> tuple[Span, str]:
    """Return the text between the braces of a graph pattern, unchanged, with its span."""
    start, end = group.meta.start_pos + 1, group.meta.end_pos - 1
    return at.chunk.span(start, end), at.chunk.text[start:end]


_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|[\s\S])")
_LATE = ("hard", "require")


def build_string(at: StatementText, quoted: Token) -> Word:
    """A ``"text"`` without its quotes and escapes; its span has the quotes."""

    def unescape(found: re.Match[str]) -> str:
        letter = found[1]
        start = found.start()
        if len(letter) == 5:
            code = int(letter[1:], 16)
            if code and not _FIRST_SURROGATE <= code <= _LAST_SURROGATE:
                return chr(code)
            span = at.chunk.span(quoted.start_pos + start, quoted.start_pos + found.end())
            at.report(
                "FKG036",
                span,
                f"`\\{letter}` is not a character that a text can contain",
                "remove it; a character beyond U+FFFF is written as it is, without an escape",
            )
            return ""
        if letter not in _ESCAPES:
            span = at.chunk.span(quoted.start_pos + start, quoted.start_pos + start + 2)
            at.report(
                "FKG036",
                span,
                f"`\\{letter}` is not a valid escape",
                'a backslash in a text is written \\\\, a quote \\"',
            )
            return found[0]
        return _ESCAPES[letter]

    raw = str(quoted)
    text = _ESCAPE.sub(unescape, raw) if "\\" in raw else raw
    return Word(span=at.span(quoted), text=text[1:-1])


def build_word(at: StatementText, name: Token) -> Word:
    """A name, ``"text"``, ``?variable``, ``<iri>`` or `` `tag` `` without the marks around it; its
    span has the marks.
    """
    match name.type:
        case "STRING":
            return build_string(at, name)
        case "QUOTED" | "IRI":
            return Word(span=at.span(name), text=str(name)[1:-1])
        case _ if str(name).startswith("?"):
            return Word(span=at.span(name), text=str(name)[1:])
        case _:
            return at.word(name)


def build_term_name(at: StatementText, branch: Branch) -> TermName:
    """Return the one name of the graph that is a direct child of a branch."""
    name = token(branch, "PNAME", "IRI", "NAME")
    match name.type:
        case "PNAME":
            return TermName(span=at.span(name), text=str(name), form="pname")
        case "IRI":
            return TermName(span=at.span(name), text=str(name)[1:-1], form="iri")
        case _:
            return TermName(span=at.span(name), text=str(name), form="name")


def build_head(at: StatementText, branch: Branch) -> Head:
    """``temperature(?zone)``, ``speed`` or `` `TIC-101.PV` ``."""
    name = token(branch, "NAME", "QUOTED")
    variables = tokens(branch, "VAR")
    return Head(
        span=at.span(branch),
        name=build_word(at, name),
        variable=build_word(at, variables[0]) if variables else None,
        quoted=name.type == "QUOTED",
    )


def build_number(at: StatementText, written: Token) -> Number:
    """Return a number with its spelling.

    A number beyond float64 is reported, and the largest float64 replaces it.
    """
    value = float(written)
    if math.isinf(value):
        at.report(
            "FKG037",
            at.span(written),
            "this number is too large",
            "the largest number is about 1.8e308",
        )
        value = sys.float_info.max
    return Number(value, str(written))


def build_signed(at: StatementText, branch: Branch) -> tuple[Number, Span]:
    """A number with its sign, and its place."""
    value = build_number(at, token(branch, "NUMBER"))
    return (Number(-value, f"-{value.written}") if len(branch.children) == 2 else value), at.span(
        branch
    )


def build_quantity(at: StatementText, branch: Branch) -> Quantity:
    """A number with its unit, where one is written."""
    units = tokens(branch, "UNIT")
    if units and str(units[0]) in _LATE:
        hint = "options come before require: rule NAME hard require ..."
        at.report("FKG015", at.span(units[0]), f"`{units[0]}` comes after the condition", hint)
    return Quantity(
        span=at.span(branch),
        value=build_number(at, token(branch)),
        unit=at.word(units[0]) if units else None,
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


def find_clauses(at: StatementText, branch: Branch, *names: str) -> dict[str, Branch]:
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
                "keep one of them"
                + ("; several variables: for ?a, ?b where { ... }" if said == "for" else ""),
                related=(first,),
            )
        else:
            found[name] = clause
    return found


def check_distinct(at: StatementText, words: Iterable[Word], what: str) -> tuple[Word, ...]:
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
                "remove one of them, or correct its name",
                related=(related,),
            )
    return kept


def build_variables(at: StatementText, branch: Branch) -> tuple[Word, ...]:
    """``?a, ?b``."""
    return check_distinct(
        at, (build_word(at, variable) for variable in tokens(branch, "VAR")), "variable"
    )


def build_quantifier(at: StatementText, branch: Branch) -> Quantifier:
    """``for ?a, ?b`` over a pattern, a class, a sheet or a query file."""
    names, source = branches(branch)
    span = at.span(source)
    over: Pattern | InClass | InTable | InQuery
    match source.data:
        case "group":
            place, text = cut_group_text(at, source)
            over = Pattern(span=place, text=text)
        case "in_class":
            over = InClass(span=span, term=build_term_name(at, source))
        case "in_table":
            over = InTable(span=span, path=build_string(at, token(source, "STRING")))
        case _:
            over = InQuery(span=span, path=build_string(at, token(source, "STRING")))
    return Quantifier(span=at.span(branch), variables=build_variables(at, names), source=over)


def build_column(at: StatementText, found: dict[str, Branch]) -> Word | None:
    """``column "Torque [Nm]"``."""
    if "column" not in found:
        return None
    word = build_string(at, token(found["column"], "STRING"))
    if not word.text.strip():
        at.report(
            "FKG014",
            word.span,
            "this column has no name",
            'write the header as in the table: column "Torque [Nm]"',
        )
    return word


def build_interval(
    at: StatementText, ends: Sequence[Branch], whole: Span, what: str = "interval"
) -> tuple[float, float]:
    """``0 .. 1200``, its lower end first."""
    (low, _), (high, _) = (build_signed(at, end) for end in ends)
    if not low < high:
        at.report(
            "FKG038",
            whole,
            f"the {what} {low:g} .. {high:g} is empty",
            f"write the lower end first: {high:g} .. {low:g}"
            if high < low
            else "write two different ends, the lower one first",
        )
    return low, high


def build_bounds(at: StatementText, found: dict[str, Branch]) -> tuple[float, float] | None:
    """``span 0 .. 1200``."""
    if "bounds" not in found:
        return None
    ends = branches(found["bounds"], "signed")
    return build_interval(at, ends, at.span(found["bounds"]), "span")


def build_kind(at: StatementText, found: dict[str, Branch]) -> Word | None:
    """``kind capacity``, one of `KINDS`."""
    if "kind" not in found:
        return None
    word = build_word(at, token(found["kind"], "NAME"))
    if word.text not in KINDS:
        hint = did_you_mean(word.text, KINDS, f"the kinds are {', '.join(KINDS)}")
        at.report("FKG031", word.span, f"`{word.text}` is not a kind of rule", hint)
    return word


def build_scope(at: StatementText, found: dict[str, Branch]) -> Word | None:
    """``scope client``, one of `SCOPES`."""
    return _build_one_of(
        at, found, "scope", SCOPES, "FKG046", "not a scope", f"the scopes are {', '.join(SCOPES)}"
    )


def build_waivers(at: StatementText, branch: Branch) -> tuple[Waiver, ...]:
    """Each ``allow FKG503 because "it is an alarm"`` of a rule."""
    found = tuple(
        Waiver(
            span=at.span(clause),
            code=build_word(at, token(clause, "NAME")),
            reason=build_string(at, token(clause, "STRING")),
        )
        for clause in branches(branch, "waiver")
    )
    check_distinct(at, (waiver.code for waiver in found), "code")
    for waiver in found:
        if not waiver.reason.text.strip():
            at.report(
                "FKG056",
                waiver.reason.span,
                f"`allow {waiver.code.text}` has an empty reason",
                f'say why the warning does not matter: allow {waiver.code.text} because "..."',
            )
    return found


def build_ends(at: StatementText, found: dict[str, Branch]) -> Word | None:
    """``ends clip``, one of `ENDS`."""
    return _build_one_of(
        at,
        found,
        "ends",
        ENDS,
        "FKG049",
        "not a way to end a timeline",
        "write: ends strict, or: ends clip",
    )


def _build_one_of(
    at: StatementText,
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
    word = build_word(at, token(found[clause], "NAME"))
    if word.text not in words:
        at.report(
            code, word.span, f"`{word.text}` is {what}", did_you_mean(word.text, words, known)
        )
    return word


def build_weight(at: StatementText, found: dict[str, Branch]) -> Quantity | None:
    """``weight 2``."""
    if "weight" not in found:
        return None
    written = token(found["weight"], "NUMBER")
    return Quantity(span=at.span(written), value=build_number(at, written))


def build_duration(at: StatementText, branch: Branch, what: str) -> Quantity:
    """A length of time that must not be zero."""
    time = build_quantity(at, branch)
    if time.value == 0:
        at.report("FKG041", time.span, f"{what} of 0 has no effect", "write how long it is: 5 min")
    return time


_DIGITS_BEFORE = re.compile(r"(?<![\w.])[0-9]+\Z")
_DIGITS = re.compile(r"[0-9]+(?![\w.])")
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def build_expression(at: StatementText, leaf: Leaf) -> Expression:
    """Build the value of a branch."""
    assert not isinstance(leaf, Token), leaf
    span = at.span(leaf)
    match leaf.data:
        case "add" | "subtract" | "multiply" | "divide":
            return _build_arithmetic(at, leaf)
        case "quantity":
            return build_quantity(at, leaf)
        case "reference":
            return Reference(span=span, name=build_word(at, token(leaf)).text)
        case "quoted":
            return Reference(span=span, name=build_word(at, token(leaf)).text, quoted=True)
        case "variable":
            return Variable(span=span, name=build_word(at, token(leaf)).text)
        case "raised":
            base, exponent = branches(leaf)
            return Raised(
                span=span, base=build_expression(at, base), exponent=build_signed(at, exponent)[0]
            )
        case "call":
            return build_call(at, leaf)
        case "aggregate":
            return _build_aggregate(at, leaf)
        case "value_over_time" | "condition_over_time":
            return _build_over_time(at, leaf)
        case name:
            parts = [build_expression(at, branch) for branch in branches(leaf)]
            return OPERATORS[name].of(span, parts)


def build_call(at: StatementText, branch: Branch) -> Apply:
    """``max(a, b)`` or ``l1_ball(radius = ?r)``."""
    args: list[Expression] = []
    named: dict[str, tuple[Word, Expression]] = {}
    _doubt_commas(at, branches(branch))
    for argument in branches(branch):
        if argument.data != "named":
            args.append(build_expression(at, argument))
            continue
        name = at.word(token(argument, "NAME"))
        if name.text in named:
            at.report("FKG030", name.span, f"`{name.text}` is given twice", "keep one of them")
        named[name.text] = name, build_expression(at, branches(argument)[0])
    return Apply(
        span=at.span(branch),
        name=at.word(token(branch, "NAME")),
        args=tuple(args),
        named=tuple(named.values()),
    )


def _doubt_commas(at: StatementText, arguments: list[Branch]) -> None:
    """Warn of ``max(x, 3,5)``: digits on both sides of a comma are two arguments, and may be meant
    as one number.

    Not of ``max(x,3,5)``: who writes no space behind another comma needs none behind this one.
    """
    text = at.chunk.text
    close = [
        (one, two)
        for one, two in pairwise(arguments)
        if text[one.meta.end_pos : two.meta.start_pos] == ","
    ]
    sides = [
        (
            _DIGITS_BEFORE.search(text[one.meta.start_pos : one.meta.end_pos]),
            _DIGITS.match(text, two.meta.start_pos),
        )
        for one, two in close
    ]
    for (one, _), (left, right) in zip(close, sides, strict=True):
        if left is None or right is None or any(None in other for other in sides):
            continue
        place = at.chunk.span(one.meta.end_pos - len(left[0]), right.end())
        message = f"`{left[0]},{right[0]}` is read as two numbers, {left[0]} and {right[0]}"
        at.doubt(
            "FKG008",
            place,
            message,
            f"for one number write {left[0]}.{right[0]}; for two put a space behind the comma",
        )


def build_members(at: StatementText, branch: Branch) -> tuple[Word, Pattern | InClass]:
    """``over ?p where { ... }`` or ``over ?p in class T``, from the end of an aggregate or a
    condition over members.
    """
    source = branches(branch, "group", "in_class")[-1]
    variable = build_word(at, token(branch, "VAR"))
    if source.data == "in_class":
        return variable, InClass(span=at.span(source), term=build_term_name(at, source))
    span, text = cut_group_text(at, source)
    return variable, Pattern(span=span, text=text)


def _build_arithmetic(at: StatementText, branch: Branch) -> Expression:
    """A chain of operators, which leans to the left: unrolled, so that a sum of many terms needs no
    recursion.
    """
    chain = []
    left: Leaf = branch
    while not isinstance(left, Token) and left.data in SIGNS:
        chain.append(left)
        left = left.children[0]
    value = build_expression(at, left)
    for link in reversed(chain):
        right = build_expression(at, link.children[1])
        match link.data:
            case "add":
                value = Arithmetic(span=at.span(link), op="+", left=value, right=right)
            case "subtract":
                value = Arithmetic(span=at.span(link), op="-", left=value, right=right)
            case "multiply":
                value = Arithmetic(span=at.span(link), op="*", left=value, right=right)
            case _:
                value = Arithmetic(span=at.span(link), op="/", left=value, right=right)
    return value


def _build_aggregate(at: StatementText, branch: Branch) -> Aggregate:
    variable, source = build_members(at, branch)
    return Aggregate(
        span=at.span(branch),
        function=at.word(token(branch, "NAME")),
        body=build_expression(at, branches(branch)[0]),
        variable=variable,
        source=source,
    )


def _build_over_time(at: StatementText, branch: Branch) -> OverTime:
    body, bound = branches(branch)
    build = build_expression if branch.data == "value_over_time" else build_condition
    since = bool(tokens(branch, "SINCE"))
    return OverTime(
        span=at.span(branch),
        function=at.word(token(branch, "NAME")),
        body=build(at, body),
        direction="since" if since else "last" if tokens(branch, "LAST") else "next",
        lasting=None if since else build_expression(at, bound),
        event=build_condition(at, bound) if since else None,
    )


_SAME = {"≤": "<=", "≥": ">=", "≠": "!="}
_UP, _DOWN = {"<", "<="}, {">", ">="}


def build_comparison(at: StatementText, branch: Branch) -> Comparison:
    """``a <= b < c +/- t``, its operators written the plain way."""
    *operands, last = branches(branch)
    tolerance = branches(last)[0] if last.data == "tolerance" else None
    if tolerance is None:
        operands.append(last)
    operators = tuple(
        Word(span=at.span(sign), text=_SAME.get(str(sign), str(sign)))
        for sign in tokens(branch, "CMP")
    )
    _check_direction(at, operators)
    if tolerance is not None and any(sign.text != "==" for sign in operators):
        wrong = next(sign for sign in operators if sign.text != "==")
        in_chain = any(sign.text == "==" for sign in operators)
        at.report(
            "FKG033",
            at.span(last),
            "a chain of comparisons cannot have a tolerance"
            if in_chain
            else f"a tolerance belongs to ==, not to {wrong.text}",
            "write two comparisons, joined by `and`"
            if in_chain
            else "move the bound itself, or write == ... +/- ...",
        )
    return Comparison(
        span=at.span(branch),
        operands=tuple(build_expression(at, operand) for operand in operands),
        operators=operators,
        tolerance=build_expression(at, tolerance) if tolerance is not None else None,
    )


def _check_direction(at: StatementText, operators: tuple[Word, ...]) -> None:
    """Check a chain: all operators point one way, and ``!=`` compares two values only."""
    if len(operators) == 1:
        return
    for sign in operators:
        if sign.text == "!=":
            at.report(
                "FKG032",
                sign.span,
                "`!=` cannot be part of a chain",
                "write the two comparisons and join them by `and`",
            )
            return
    signs = [sign for sign in operators if sign.text != "=="]
    for before, sign in pairwise(signs):
        if (before.text in _UP) != (sign.text in _UP):
            at.report(
                "FKG032",
                sign.span,
                f"this chain changes its direction: {before.text} and then {sign.text}",
                "write the two comparisons and join them by `and`",
            )
            return


REDUCTIONS = ("sum", "mean", "min", "max", "count")

MOST_MEMBERS = 10**9
"""`at least` asks for no more members than this."""


def build_condition(at: StatementText, leaf: Leaf) -> Condition:
    """Build the condition of a branch."""
    assert not isinstance(leaf, Token), leaf
    span = at.span(leaf)
    match leaf.data:
        case "formula":
            return build_condition(at, leaf.children[0])
        case "compare":
            return build_comparison(at, leaf)
        case "is_class":
            return _build_is_class(at, leaf)
        case "membership":
            return Membership(
                span=span,
                subject=build_expression(at, branches(leaf)[0]),
                negated=bool(tokens(leaf, "NOT")),
                values=check_distinct(
                    at, (build_word(at, value) for value in tokens(leaf, "NAME", "STRING")), "class"
                ),
            )
        case "follows":
            return Follows(span=span, call=build_call(at, branches(leaf)[0]))
        case "over_members":
            return _build_over_members(at, leaf)
        case "monotone":
            return _build_monotone(at, leaf)
        case "negation":
            return Negation(span=span, arg=build_condition(at, leaf.children[0]))
        case "all_of":
            return AllOf(
                span=span, args=tuple(build_condition(at, child) for child in leaf.children)
            )
        case "any_of":
            return AnyOf(
                span=span, args=tuple(build_condition(at, child) for child in leaf.children)
            )
        case "if_then":
            antecedent, consequent = branches(leaf)
            return IfThen(
                span=span,
                antecedent=build_condition(at, antecedent),
                consequent=build_condition(at, consequent),
            )
        case "temporal":
            return _build_temporal(at, leaf)
        case "lasting":
            arg, duration = branches(leaf)
            return Lasting(
                span=span, arg=build_condition(at, arg), duration=build_expression(at, duration)
            )
        case "becomes":
            return Becomes(span=span, arg=build_condition(at, leaf.children[0]))
        case "becomes_class":
            return Becomes(span=span, arg=_build_is_class(at, leaf))
        case "begins":
            return Begins(span=span, arg=build_condition(at, leaf.children[0]))
        case "at_edge":
            return AtEdge(span=span, edge="start" if tokens(leaf, "AT_START") else "end")
        case "equivalence":
            left, right = branches(leaf)
            return Equivalence(
                span=span,
                word="iff" if tokens(leaf, "IFF") else "xor",
                left=build_condition(at, left),
                right=build_condition(at, right),
            )
        case "until":
            return _build_until(at, leaf)
        case "only_after":
            effect, cause, *within = branches(leaf)
            return OnlyAfter(
                span=span,
                effect=build_condition(at, effect),
                cause=build_condition(at, cause),
                within=build_expression(at, within[0]) if within else None,
            )
        case name:
            raise AssertionError(f"the grammar makes a condition `{name}` that has no node")


def _build_is_class(at: StatementText, branch: Branch) -> IsClass:
    value = tokens(branch, "NAME", "STRING", "VAR")[-1]
    form: Literal["name", "string", "variable"]
    match value.type:
        case "STRING":
            form = "string"
        case "VAR":
            form = "variable"
        case _:
            form = "name"
    return IsClass(
        span=at.span(branch),
        subject=build_expression(at, branches(branch)[0]),
        negated=bool(tokens(branch, "NOT")),
        value=build_word(at, value),
        form=form,
    )


def _build_over_members(at: StatementText, branch: Branch) -> OverMembers:
    """``all of``, ``any of``, ``at least N of``: the words before ``of`` are names to the grammar
    and are looked at here.
    """
    word = token(branch, "NAME")
    counts = tokens(branch, "NUMBER")
    variable, source = build_members(at, branch)
    least = 1 if word == "any" else None
    if counts:
        least = _build_count(at, counts[0])
        if word != "at":
            at.report(
                "FKG048",
                at.span(word),
                f"`{word} least` does not count conditions",
                "write: at least 2 of (...) over ?p ...",
            )
    elif word not in ("all", "any"):
        near = nearest_name(str(word), ("all", "any"))
        hint = (
            f"did you mean `{near} of`?"
            if near
            else "conditions over members: all of (...), any of (...), at least 2 of (...)"
        )
        what = (
            f"`{word} of` takes values, this is a condition"
            if word in REDUCTIONS
            else f"`{word} of` does not join conditions"
        )
        at.report("FKG048", at.span(word), what, hint)
    return OverMembers(
        span=at.span(branch),
        arg=build_condition(at, branches(branch)[0]),
        least=least,
        variable=variable,
        source=source,
    )


def _build_count(at: StatementText, written: Token) -> int:
    """How many members: a whole number from 1 on, and no more than anybody could have."""
    value = build_number(at, written)
    if 1 <= value <= MOST_MEMBERS and value.is_integer():
        return int(value)
    if math.isinf(value):
        return 1  # which has been said
    hint = (
        "write how many: at least 2 of (...); `not any of (...)` says none, `all of (...)` says all"
        if value < 1 or value > MOST_MEMBERS
        else f"write: at least {max(1, math.ceil(value))} of (...)"
    )
    at.report("FKG047", at.span(written), f"{written} is not a valid number of members", hint)
    return 1


def _build_monotone(at: StatementText, branch: Branch) -> Monotone:
    subject = branches(branch)[0]
    groups = branches(branch, "per")
    features = branches(branch, "as")
    return Monotone(
        span=at.span(branch),
        subject=build_expression(at, subject),
        direction="falls" if tokens(branch, "FALLS") else "rises",
        group=build_word(at, token(groups[0], "NAME", "QUOTED")) if groups else None,
        feature=build_head(at, branches(features[0], "head")[0]) if features else None,
    )


def _build_window(at: StatementText, branch: Branch) -> Window:
    bounds = [build_expression(at, child) for child in branches(branch)]
    return Window(
        span=at.span(branch), low=bounds[0] if len(bounds) == 2 else None, high=bounds[-1]
    )


def _build_temporal(at: StatementText, branch: Branch) -> Temporal:
    *window, body = branches(branch)
    mode = tokens(branch)[-1]
    bounds = _build_window(at, window[0]) if window else None
    arg = build_condition(at, body)
    weak = bool(tokens(branch, "WEAK"))
    span = at.span(branch)
    match mode.type:
        case "ALWAYS":
            return Temporal(span=span, mode="always", window=bounds, arg=arg)
        case "EVENTUALLY":
            return Temporal(span=span, mode="eventually", window=bounds, arg=arg)
        case "ONCE":
            return Temporal(span=span, mode="once", window=bounds, arg=arg)
        case "HISTORICALLY":
            return Temporal(span=span, mode="historically", window=bounds, arg=arg)
        case "NEXT":
            return Temporal(span=span, mode="next", window=bounds, arg=arg, weak=weak)
        case "PREVIOUS":
            return Temporal(span=span, mode="previous", window=bounds, arg=arg, weak=weak)
        case _:
            return Temporal(span=span, mode="initially", window=bounds, arg=arg)


def _build_until(at: StatementText, branch: Branch) -> Until:
    left, *window, right = branches(branch)
    return Until(
        span=at.span(branch),
        mode="until" if tokens(branch, "UNTIL") else "since",
        left=build_condition(at, left),
        window=_build_window(at, window[0]) if window else None,
        right=build_condition(at, right),
        closed=bool(tokens(branch, "CLOSED")),
        weak=bool(tokens(branch, "WEAK")),
    )


def build_declaration(
    at: StatementText, branch: Branch
) -> Use | Prefix | Timeline | RowsAre | Signal | Label | Constant | Rule | Load | None:
    """The node of a declaration or a rule; None for the other statements."""
    span = at.span(branch)
    match branch.data:
        case "use":
            names = tuple(build_word(at, name) for name in tokens(branch, "DOTTED"))
            return Use(
                span=span,
                names=check_distinct(at, names, "name"),
                rules=bool(tokens(branch, "RULES")),
            )
        case "prefix":
            return Prefix(
                span=span,
                name=build_word(at, token(branch, "NAME")),
                iri=build_word(at, token(branch, "IRI")),
            )
        case "timeline":
            return _build_timeline(at, branch)
        case "rows":
            return RowsAre(span=span, term=build_term_name(at, branch))
        case "signal":
            return _build_signal(at, branch)
        case "label":
            return _build_label(at, branch)
        case "constant":
            return Constant(
                span=span,
                name=build_word(at, token(branch, "NAME")),
                value=build_expression(at, branches(branch)[0]),
            )
        case "rule":
            return _build_rule(at, branch)
        case "load":
            path = build_string(at, token(branch, "STRING"))
            return Load(
                span=span, what="shapes" if tokens(branch, "SHAPES") else "queries", path=path
            )
        case _:
            return None


def _build_timeline(at: StatementText, branch: Branch) -> Timeline:
    found = find_clauses(at, branch)
    columns = {
        name: build_string(at, token(branches(found[name], "column")[0], "STRING"))
        if name in found
        else None
        for name in ("time", "trace")
    }
    step = build_duration(at, branches(found["step"])[0], "a step") if "step" in found else None
    return Timeline(
        span=at.span(branch),
        step=step,
        ends=build_ends(at, found),
        time=columns["time"],
        trace=columns["trace"],
    )


def _build_signal(at: StatementText, branch: Branch) -> Signal:
    name, *_ = branches(branch)
    found = find_clauses(at, branch, "meaning", "unit", "bounds", "column")
    return Signal(
        span=at.span(branch),
        role="input" if tokens(branch, "SIGNAL") else "output",
        head=build_head(at, name),
        term=build_term_name(at, found["meaning"]) if "meaning" in found else None,
        unit=build_word(at, token(found["unit"], "UNIT")) if "unit" in found else None,
        bounds=build_bounds(at, found),
        column=build_column(at, found),
    )


def _build_label(at: StatementText, branch: Branch) -> Label:
    found = find_clauses(at, branch)
    name = build_word(at, token(branch, "NAME"))
    if "classes" not in found:
        at.report(
            "FKG040",
            name.span,
            f"the label `{name.text}` has no classes",
            "name them: classes A, B, C",
        )
    classes = (
        tuple(build_word(at, word) for word in tokens(found["classes"]))
        if "classes" in found
        else ()
    )
    return Label(
        span=at.span(branch),
        name=name,
        classes=check_distinct(at, classes, "class"),
        column=build_column(at, found),
    )


def _build_rule(at: StatementText, branch: Branch) -> Rule:
    *_, formula = branches(branch)
    found = find_clauses(at, branch, "quantifier", "kind", "weight", "hard", "scope")
    titles = tokens(branch, "STRING")
    return Rule(
        span=at.span(branch),
        name=build_word(at, token(branch, "NAME")),
        title=build_string(at, titles[0]) if titles else None,
        quantifier=build_quantifier(at, found["quantifier"]) if "quantifier" in found else None,
        kind=build_kind(at, found),
        weight=build_weight(at, found),
        hard="hard" in found,
        scope=build_scope(at, found),
        waivers=build_waivers(at, branch),
        formula=build_condition(at, formula),
        text=at.chunk.text[branch.meta.start_pos : branch.meta.end_pos],
    )


def build_knowledge(
    at: StatementText, branch: Branch
) -> Template | Infer | RangeKnowledge | PredictKnowledge | KeepSet | Cause | Example:
    """Build the node of a statement that is neither a declaration nor a rule."""
    match branch.data:
        case "template":
            return _build_template(at, branch)
        case "infer":
            return _build_infer(at, branch)
        case "range":
            return _build_range(at, branch)
        case "predict":
            return _build_predict(at, branch)
        case "set":
            return _build_set(at, branch)
        case "cause":
            return _build_cause(at, branch)
        case "example":
            return _build_example(at, branch)
        case name:
            raise AssertionError(f"the grammar makes a statement `{name}` that has no node")


def _build_template(at: StatementText, branch: Branch) -> Template:
    names, formula = branches(branch)
    return Template(
        span=at.span(branch),
        name=build_word(at, token(branch, "NAME")),
        parameters=check_distinct(
            at, (build_word(at, name) for name in tokens(names)), "parameter"
        ),
        formula=build_condition(at, formula),
    )


def _build_infer(at: StatementText, branch: Branch) -> Infer:
    name, per = tokens(branch, "NAME")
    return Infer(
        span=at.span(branch),
        name=build_word(at, name),
        scope=build_scope(at, find_clauses(at, branch, "scope")),
        per=build_word(at, per),
        variables=build_variables(at, branches(branch, "variables")[0]),
        call=build_call(at, branches(branch, "call")[0]),
    )


def _build_choice(at: StatementText, branch: Branch) -> Choice:
    span = at.span(branch)
    classes = tokens(branch, "NAME", "STRING")
    if classes:
        return Choice(
            span=span,
            classes=check_distinct(at, (build_word(at, name) for name in classes), "class"),
        )
    between = branches(branch, "between")
    if between:
        low, high = branches(between[0])
        return Choice(span=span, ends=(build_expression(at, low), build_expression(at, high)))
    ends = branches(branch, "signed")
    if not ends:
        return Choice(span=span)
    units = tokens(branch, "UNIT")
    return Choice(
        span=span,
        interval=build_interval(at, ends, span),
        unit=build_word(at, units[0]) if units else None,
    )


def _build_source(at: StatementText, branch: Branch) -> DecisionTable | EarlierModel | None:
    """``in table "x.csv"`` or ``from model "m.safetensors"`` in place of clauses."""
    sources = branches(branch, "in_table", "in_model")
    if not sources:
        return None
    span, path = at.span(sources[0]), build_string(at, token(sources[0], "STRING"))
    quantifiers = branches(branch, "quantifier")
    if quantifiers:
        hint = "remove `for ...`: the file already has a row, and a model an answer, for each case"
        at.report(
            "FKG050", at.span(quantifiers[0]), "knowledge from a file takes no variables", hint
        )
    return (
        DecisionTable(span=span, path=path)
        if sources[0].data == "in_table"
        else EarlierModel(span=span, path=path)
    )


def _build_range(at: StatementText, branch: Branch) -> RangeKnowledge:
    name, output = tokens(branch, "NAME")
    found = find_clauses(at, branch, "quantifier", "scope")
    clauses = []
    for clause in branches(branch, "allowed"):
        when, choice = branches(clause)
        clauses.append((build_condition(at, when), _build_choice(at, choice)))
    others = branches(branch, "choice")
    return RangeKnowledge(
        span=at.span(branch),
        name=build_word(at, name),
        output=build_word(at, output),
        quantifier=build_quantifier(at, found["quantifier"]) if "quantifier" in found else None,
        clauses=tuple(clauses),
        otherwise=_build_choice(at, others[0]) if others else None,
        scope=build_scope(at, found),
        source=_build_source(at, branch),
    )


def _build_predict(at: StatementText, branch: Branch) -> PredictKnowledge:
    name, output = tokens(branch, "NAME")
    found = find_clauses(at, branch, "quantifier", "scope")
    clauses = []
    for clause in branches(branch, "predicted"):
        when, value = branches(clause)
        clauses.append((build_condition(at, when), _build_answer(at, value)))
    last = branches(branch)[-1] if branches(branch) else None
    others = [
        branch
        for branch in [last]
        if branch is not None and branch.data not in ("predicted", "in_table", "in_model")
    ]
    return PredictKnowledge(
        span=at.span(branch),
        name=build_word(at, name),
        output=build_word(at, output),
        quantifier=build_quantifier(at, found["quantifier"]) if "quantifier" in found else None,
        clauses=tuple(clauses),
        otherwise=_build_answer(at, others[0]) if others else None,
        scope=build_scope(at, found),
        source=_build_source(at, branch),
    )


def _build_answer(at: StatementText, branch: Branch) -> Expression | Word:
    """What a clause predicts: a value, or a class in quotes."""
    if branch.data == "quoted_class":
        return build_string(at, token(branch, "STRING"))
    return build_expression(at, branch)


def _build_set(at: StatementText, branch: Branch) -> KeepSet:
    found = find_clauses(at, branch, "quantifier", "scope")
    return KeepSet(
        span=at.span(branch),
        name=build_word(at, token(branch, "NAME")),
        quantifier=build_quantifier(at, found["quantifier"]) if "quantifier" in found else None,
        target=build_word(at, token(branch, "DOTTED")),
        call=build_call(at, (*branches(branch, "call"), *branches(branch, "bare"))[0]),
        scope=build_scope(at, found),
    )


def _build_cause(at: StatementText, branch: Branch) -> Cause:
    driver, driven = tokens(branch, "VAR")
    lags = branches(branch, "lag")
    return Cause(
        span=at.span(branch),
        name=build_word(at, token(branch, "NAME")),
        quantifier=build_quantifier(at, branches(branch, "quantifier")[0]),
        driver=build_word(at, driver),
        driven=build_word(at, driven),
        lag=build_duration(at, branches(lags[0])[0], "a lag") if lags else None,
    )


def _build_example(at: StatementText, branch: Branch) -> Example:
    return Example(
        span=at.span(branch),
        rule=build_word(at, token(branch, "NAME")),
        holds=bool(tokens(branch, "HOLDS")),
        series=tuple(_build_series(at, series) for series in branches(branch, "series")),
    )


def _build_series(at: StatementText, branch: Branch) -> Series:
    """Numbers, or classes; ``unknown`` is NaN among numbers and "" among classes."""
    name, listed = branches(branch)
    span, signal = at.span(branch), build_head(at, name)
    if listed.data == "texts" and tokens(listed, "NAME", "STRING"):
        texts = (
            Word(span=at.span(word), text="") if word.type == "UNKNOWN" else build_word(at, word)
            for word in tokens(listed)
        )
        return Series(span=span, head=signal, values=(), texts=tuple(texts))
    units = tokens(listed, "UNIT")
    values = (
        math.nan if isinstance(value, Token) else build_signed(at, value)[0]
        for value in listed.children
        if value not in units
    )
    return Series(
        span=span,
        head=signal,
        values=tuple(values),
        unit=build_word(at, units[0]) if units else None,
    )
