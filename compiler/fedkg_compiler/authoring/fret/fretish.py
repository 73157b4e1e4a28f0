"""Syntax of FRETish requirements and of the formulas that FRET publishes for them.

FRETish is the structured English of NASA's requirements tool FRET: scope, condition, component,
``shall``, timing and response (Giannakopoulou, Pressburger, Mavridou and Schumann, *Automated
formalization of structured natural language requirements*, Information and Software Technology
137, 2021). A formula is in the notation of the model checker SMV: ``G X F U V`` look ahead,
``H Y Z O S`` look back, and a bound counts steps: ``H[<=3] p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

MAX_LENGTH = 20_000
"""Characters of a text or formula that are parsed."""
MAX_DEPTH = 150
"""Nesting of a parsed text."""

Node = Tree[Token]

# FRET reads a requirement with Requirement.g4, which gives `|` and `xor` one precedence, and `->`
# and `<->` another, both from left to right. It reads the formula that it makes from the text with
# LTL.g4, where `|` binds tighter than `xor`, and `->`, from right to left, tighter than `<->`. This
# grammar accepts neither mixtures of these nor chains of `->` without parentheses.
_LOOSE = ("_OR", "_XOR", "_IMPLIES", "_EQUALS")
_EXPRESSION = r"""
?iff:     equal | either _IMPLIES either             -> implies
?equal:   either | equal _EQUALS either              -> iff
?either:  any | xored
?any:     both _OR both                              -> or
        | any _OR both                               -> or
?xored:   both | xored _XOR both                     -> xor
?both:    denied | both "&" denied                   -> and
?denied:  compared | _NOT denied                     -> not
?compared: sum | sum CMP sum                         -> compare
?sum:     product | sum PLUS product                 -> arithmetic
?product: factor | product TIMES factor              -> arithmetic
?factor:  power | "-" factor                         -> negative
?power:   atom | atom "^" factor                     -> power
?atom:    NUMBER                                     -> number
        | TRUE                                       -> true
        | FALSE                                      -> false
        | NAME                                       -> name
        | NAME "(" formula ("," formula)* ")"        -> call
        | "(" formula ")"
_IMPLIES: "=>" | "->"
_EQUALS: "<=>" | "<->"
_OR: "|"
_XOR.2: /xor\b/i
_NOT.2: "!" | "~" | /not\b/i
CMP: /<=(?!>)|>=|!=|=(?!>)|<(?![=-])|>/
PLUS: "+" | /-(?!>)/
TIMES: "*" | "/"
TRUE.2: /true\b/i
FALSE.2: /false\b/i
NUMBER: /\d+(\.\d+)?([eE][+-]?\d+)?/
NAME: /[^\W\d][\w.%']*/
%ignore /\s+/
"""

_REQUIREMENT = (
    r"""
requirement: (scope _COMMA?)? (condition _COMMA?)* _THE? NAME _shall formula "."?
_shall: _SHALL _COMMA? (timing _COMMA?)? _SATISFY
?formula: iff

scope: (_WHEN? _IN | _DURING | _WHILE) _mode                   -> in
     | (_WHEN? _NOT _IN | _UNLESS _IN | _EXCEPT (_IN | _DURING | _WHILE)) _mode -> notin
     | _BEFORE _mode                                           -> before
     | _AFTER _mode                                            -> after
     | _ONLY (_IN | _DURING | _WHILE | _BEFORE | _AFTER) _mode -> only
_mode: formula _MODE? | _MODE formula
condition: _AND? (_IF | _WHEN | _WHERE | _UPON) formula        -> trigger
         | _AND? _WHENEVER formula                             -> whenever
timing: (_IMMEDIATELY | _AT _THE _FIRST _TIMEPOINT)            -> immediately
      | (_FINALLY | _AT _THE _LAST _TIMEPOINT)                 -> finally
      | (_NEXT | _AT _THE _NEXT _TIMEPOINT)                    -> next
      | _ALWAYS                                                -> always
      | _NEVER                                                 -> never
      | _EVENTUALLY                                            -> eventually
      | _UNTIL formula                                         -> until
      | _BEFORE formula                                        -> before
      | _WITHIN NUMBER NAME                                    -> within
      | _FOR NUMBER NAME                                       -> for
      | _AFTER NUMBER NAME                                     -> after
_COMMA: ","
_THE.2: /the\b/i
_SHALL.2: /shall\b/i
_SATISFY.2: /satisfy\b/i
_WHEN.2: /when\b/i
_IN.2: /in\b/i
_DURING.2: /during\b/i
_WHILE.2: /while\b/i
_UNLESS.2: /unless\b/i
_EXCEPT.2: /except\b/i
_BEFORE.2: /before\b/i
_AFTER.2: /after\b/i
_ONLY.2: /only\b/i
_MODE.2: /mode\b/i
_AND.2: /and\b/i
_IF.2: /if\b/i
_WHERE.2: /where\b/i
_UPON.2: /upon\b/i
_WHENEVER.2: /whenever\b/i
_IMMEDIATELY.2: /(?:immediately|initially)\b/i
_AT.2: /at\b/i
_FIRST.2: /first\b/i
_LAST.2: /last\b/i
_NEXT.2: /next\b/i
_TIMEPOINT.2: /timepoint\b/i
_FINALLY.2: /finally\b/i
_ALWAYS.2: /always\b/i
_NEVER.2: /never\b/i
_EVENTUALLY.2: /eventually\b/i
_UNTIL.2: /until\b/i
_WITHIN.2: /within\b/i
_FOR.2: /for\b/i
"""
    + _EXPRESSION
)

# An operator of time comes before an operand; a variable with the same letter does not.
_FORMULA = r"""
?formula: iff | iff BINARY iff -> binary
BINARY.2: /[UVS]\b/
PREFIX.2: /[XGFYZHO](?=\s*(?:[(\[!]|\b\w))/
BOUND: /\[\s*(?:<=|<|=)?\s*\d+(?:\s*,\s*\d+)?\s*\]/
""" + _EXPRESSION.replace(
    "?denied:  compared", "?denied:  compared | PREFIX BOUND? denied -> prefix"
)


class NotFretish(Exception):
    """A text that does not parse.

    Attributes:
        position: of the first unexpected character, counted from 1.
        found: what is there; "" at the end of the text.
    """

    def __init__(self, message: str, position: int, found: str = "") -> None:
        super().__init__(message)
        self.position, self.found = position, found


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When a response is required: the word, its condition (`until`, `before`) or its number of
    steps with the unit as written (`within`, `for`, `after`).
    """

    word: Literal[
        "immediately",
        "finally",
        "next",
        "always",
        "never",
        "eventually",
        "until",
        "before",
        "within",
        "for",
        "after",
    ]
    stop: Node | None = None
    steps: int = 0
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fretish:
    """The parts of a requirement.

    Attributes:
        scope: kind and mode: "in", "notin", "before", "after", "only"; None for the whole trace.
        trigger: condition that starts the requirement each time that it becomes true, with the
            conditions of ``whenever`` apart, which start it at every step.
    """

    scope: tuple[str, Node] | None
    trigger: Node | None
    whenever: Node | None
    component: str
    timing: Timing
    response: Node


def parse_requirement(text: str) -> Fretish:
    """Parse FRETish. Raises NotFretish."""
    tree = _parse(_requirement_parser(), text)
    scope = trigger = whenever = None
    timing = Timing(word="eventually")
    component = ""
    for part in tree.children[:-1]:
        match part:
            case Token():
                component = str(part)
            case Tree(data="trigger", children=[Tree() as formula]):
                trigger = _joined(trigger, formula)
            case Tree(data="whenever", children=[Tree() as formula]):
                whenever = _joined(whenever, formula)
            case Tree(data="in" | "notin" | "only" as kind, children=[Tree() as mode]):
                scope = str(kind), mode
            case Tree(data="before" | "after" as kind, children=[Tree() as mode]) if not component:
                scope = str(kind), mode
            case Tree():
                timing = _timing(part)
    response = tree.children[-1]
    assert isinstance(response, Tree)
    return Fretish(
        scope=scope,
        trigger=trigger,
        whenever=whenever,
        component=component,
        timing=timing,
        response=response,
    )


def parse_formula(text: str) -> Node:
    """Parse a published formula. Raises NotFretish."""
    return _parse(_formula_parser(), text)


def _timing(tree: Node) -> Timing:
    word = str(tree.data)
    match tree.children:
        case [Token() as number, Token() as unit]:
            if not number.isdigit():
                raise NotFretish(f"`{number}` is not a whole number", (number.start_pos or 0) + 1)
            return Timing(word=word, steps=int(number), unit=str(unit))  # type: ignore[arg-type]
        case [Tree() as stop]:
            return Timing(word=word, stop=stop)  # type: ignore[arg-type]
        case _:
            return Timing(word=word)  # type: ignore[arg-type]


def _joined(first: Node | None, second: Node) -> Node:
    return second if first is None else Tree("and", [first, second])


def _parse(parser: Lark, text: str) -> Node:
    if len(text) > MAX_LENGTH:
        raise NotFretish(f"it has {len(text):,} characters; at most {MAX_LENGTH:,} are read", 1)
    try:
        tree: Node = parser.parse(text)
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        at_end = isinstance(token, Token) and token.type == "$END"
        position = len(text) if at_end else error.pos_in_stream or 0
        found = "" if at_end else text[position : position + 20].split()[0]
        where = f"`{found}` is not expected" if found else "it ends too early"
        if (
            isinstance(error, UnexpectedToken)
            and error.token.type in _LOOSE
            and "NUMBER" not in error.expected  # it follows an operand
        ):
            where = f"`{token}` here needs parentheses: FRET's grammars differ in its precedence"
        raise NotFretish(where, position + 1, found) from None
    if _depth(tree) > MAX_DEPTH:
        raise NotFretish(f"it is nested more than {MAX_DEPTH} deep", 1)
    return tree


def _depth(tree: Node) -> int:
    """Nesting of a tree, without recursion."""
    waiting, deepest = [(tree, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in node.children if isinstance(child, Tree)]
    return deepest


@cache
def _requirement_parser() -> Lark:
    return Lark(_REQUIREMENT, parser="lalr", lexer="contextual", start="requirement")


@cache
def _formula_parser() -> Lark:
    return Lark(_FORMULA, parser="lalr", lexer="contextual", start="formula")
