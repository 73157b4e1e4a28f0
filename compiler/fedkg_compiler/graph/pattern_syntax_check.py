"""Finds the exact place where a pattern stops being SPARQL.

The store's parser decides whether a pattern is right; where it says no, its place is often far
behind the slip. This walk over the words (the group graph pattern of SPARQL 1.1, rules 53 to 128 of
the recommendation, subqueries left out) finds the first unexpected word, and lists the expected
ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedkg_compiler.graph.sparql_pattern_tokens import Token
from fedkg_compiler.graph.vocabulary import closest_name

_FUNCTION_NAMES = (
    "STR LANG LANGMATCHES DATATYPE BOUND IRI URI BNODE RAND ABS CEIL FLOOR ROUND CONCAT "
    "STRLEN UCASE LCASE ENCODE_FOR_URI CONTAINS "
    "STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ "
    "NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 "
    "SHA512 COALESCE IF STRLANG STRDT SAMETERM ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC "
    "REGEX SUBSTR REPLACE COUNT SUM MIN MAX AVG "
    "SAMPLE GROUP_CONCAT TRIPLE SUBJECT PREDICATE OBJECT ISTRIPLE ADJUST STRLANGDIR "
    "HASLANG HASLANGDIR LANGDIR "
)
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_CLAUSES = frozenset({"OPTIONAL", "MINUS", "FILTER", "BIND", "VALUES", "GRAPH", "UNION", "SERVICE"})
_AFTER_GROUP = frozenset({"ORDER", "LIMIT", "OFFSET", "GROUP", "HAVING"})
_COMPARE = frozenset({"=", "!=", "<", ">", "<=", ">="})
_OPERATORS = _COMPARE | {"||", "&&", "+", "-", "*", "/"}
_TERMS = frozenset({"iri", "pname"})
_MOST_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Slip:
    """The first unexpected word (None: the end of the pattern), the expected words, and advice."""

    token: Token | None
    expected: str
    help: str = ""


class _Stop(Exception):
    def __init__(self, slip: Slip | None) -> None:
        self.slip = slip


def first_slip(words: list[Token]) -> Slip | None:
    """Return the first slip of a pattern.

    None if this walk finds none, or the pattern uses what it does not know.
    """
    walk = _Walk(words)
    try:
        walk.body()
        if walk.here is not None:
            walk.wrong("nothing more", "a `}` too many?" if walk.here.text == "}" else "")
    except _Stop as stop:
        return stop.slip
    return None


class _Walk:
    def __init__(self, words: list[Token]) -> None:
        self.words = words
        self.index = 0
        self.depth = 0

    # ----------------------------------------------------------------------------------------------
    # words

    @property
    def here(self) -> Token | None:
        return self.words[self.index] if self.index < len(self.words) else None

    def word(self) -> str:
        """Return the keyword here in capitals, or ""."""
        token = self.here
        return token.text.upper() if token is not None and token.kind == "word" else ""

    def at(self, *marks: str) -> bool:
        token = self.here
        return token is not None and token.kind == "mark" and token.text in marks

    def take(self, mark: str, help: str = "") -> None:
        if not self.at(mark):
            self.wrong(f"`{mark}`", help)
        self.index += 1

    def wrong(self, expected: str, help: str = "") -> None:
        raise _Stop(Slip(self.here, expected, help))

    # ----------------------------------------------------------------------------------------------
    # groups

    def group(self, after: str) -> None:
        self.take("{", f"{after} is followed by a pattern in braces")
        self.deeper()
        self.body()
        self.take("}")
        self.depth -= 1

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise _Stop(None)

    def body(self) -> None:
        """Walk over triples and clauses up to a closing brace or the end."""
        if self.word() == "SELECT":
            raise _Stop(None)
        while self.here is not None and not self.at("}"):
            word = self.word()
            if word in _CLAUSES:
                self.clause(word)
            elif self.at("{"):
                self.group("")
                while self.word() == "UNION":
                    self.index += 1
                    self.group("UNION")
            else:
                self.triples()
                if (
                    not self.at(".", "}", "{")
                    and self.here is not None
                    and self.word() not in _CLAUSES
                ):
                    self.after_triple()
            if self.at("."):
                self.index += 1

    def after_triple(self) -> None:
        token = self.here
        assert token is not None
        if self.word() in _AFTER_GROUP:
            self.wrong(
                "`.` or the end of the pattern",
                "the rows of a quantifier are a set: they have no order, limit or groups",
            )
        if token.kind in ("variable", "iri", "pname", "blank", "word") or token.text == "[":
            self.wrong(
                "`.`, `;` or `,`",
                "write `.` before the next triple, or `;` to go on with the same subject",
            )
        if token.text in _OPERATORS:
            self.wrong("`.`, `;` or `,`", "a condition on values is written FILTER(...)")
        self.wrong("`.`, `;` or `,`")

    def clause(self, word: str) -> None:
        self.index += 1
        match word:
            case "OPTIONAL" | "MINUS":
                self.group(word)
            case "FILTER":
                self.filter()
            case "BIND":
                self.take("(", "write BIND(expression AS ?name)")
                self.expression()
                self.naming()
                self.take(")")
            case "GRAPH" | "SERVICE" | "VALUES":
                raise _Stop(None)
            case _:
                self.index -= 1
                self.wrong(
                    "a triple or a clause",
                    "write UNION between two patterns in braces: { ... } UNION { ... }",
                )

    def naming(self) -> None:
        if self.word() != "AS":
            self.wrong("AS", "write BIND(expression AS ?name)")
        self.index += 1
        if self.here is None or self.here.kind != "variable":
            self.wrong("a variable after AS")
        self.index += 1

    def filter(self) -> None:
        word = self.word()
        if word in ("EXISTS", "NOT"):
            self.exists(word)
        elif self.at("("):
            self.parenthesised()
        elif word or (self.here is not None and self.here.kind in _TERMS):
            self.call()
        else:
            self.wrong("`(` after FILTER", "write FILTER(...) with parentheses")

    def exists(self, word: str) -> None:
        self.index += 1
        if word == "NOT":
            if self.word() != "EXISTS":
                self.wrong("EXISTS after NOT", "the opposite of a condition is written !(...)")
            self.index += 1
        self.group("EXISTS")

    # ----------------------------------------------------------------------------------------------
    # triples

    def triples(self) -> None:
        blank = self.at("[", "(")
        self.node("a subject")
        if blank and (self.at(".", "}") or self.here is None):
            return
        self.properties()

    def properties(self) -> None:
        while True:
            self.predicate()
            self.node("an object", "a triple has three parts: subject, property, value")
            while self.at(","):
                self.index += 1
                self.node("a further object after `,`")
            if not self.at(";"):
                return
            while self.at(";"):
                self.index += 1
            if self.here is None or self.at(".", "}", "]"):
                return

    def predicate(self) -> None:
        token = self.here
        if token is not None and token.kind == "variable":
            self.index += 1
            return
        if token is not None and not (
            token.kind in _TERMS or token.text == "a" or token.text in ("^", "!", "(")
        ):
            self.wrong(
                "a property",
                "the middle of a triple is a name such as `plant:limit`, `a`, or a variable",
            )
        self.path()

    def path(self) -> None:
        while True:
            while self.at("^", "!"):
                self.index += 1
            if self.at("("):
                self.deeper()
                self.index += 1
                self.path()
                self.take(")")
                self.depth -= 1
            elif self.here is not None and (self.here.kind in _TERMS or self.here.text == "a"):
                self.index += 1
            else:
                self.wrong("a property", "a triple has three parts: subject, property, value")
            if self.at("*", "+", "?"):
                self.index += 1
            if not self.at("/", "|"):
                return
            self.index += 1

    def node(self, role: str, help: str = "") -> None:
        token = self.here
        if token is None:
            self.wrong(role, help)
        assert token is not None
        if token.kind in ("variable", "iri", "pname", "blank"):
            self.index += 1
        elif self.at("["):
            self.index += 1
            self.deeper()
            if not self.at("]"):
                self.properties()
            self.take("]")
            self.depth -= 1
        elif self.at("("):
            self.index += 1
            self.deeper()
            while not self.at(")"):
                self.node("a member of the list or `)`")
            self.take(")")
            self.depth -= 1
        elif role == "a subject":
            self.no_subject(token)
        elif not self.literal():
            bare = token.kind == "word"
            self.wrong(
                role,
                f"a name needs its prefix, a variable its `?`: `?{token.text}`" if bare else help,
            )

    def no_subject(self, token: Token) -> None:
        word = token.text.upper()
        if token.kind == "word":
            clause = closest_name(word, _CLAUSES)
            meant = (
                f"did you mean {clause}?"
                if clause
                else f"a variable is written `?{token.text}`, a name with its prefix"
            )
            self.wrong("a triple or a clause", meant)
        if token.kind in ("string", "number"):
            self.wrong("a subject", "a text or number can only be the value of a triple")
        self.wrong("a subject")

    def literal(self) -> bool:
        """Step over a text, a number or a truth value; tell whether there was one."""
        token = self.here
        if token is None:
            return False
        if token.kind == "string":
            self.index += 1
            if self.here is not None and self.here.kind == "language":
                self.index += 1
            elif self.at("^^"):
                self.index += 1
                if self.here is None or self.here.kind not in _TERMS:
                    self.wrong("a datatype after `^^`")
                self.index += 1
            return True
        if (
            self.at("+", "-")
            and self.index + 1 < len(self.words)
            and self.words[self.index + 1].kind == "number"
        ):
            self.index += 2
            return True
        if token.kind == "number" or self.word() in ("TRUE", "FALSE"):
            self.index += 1
            return True
        return False

    # ----------------------------------------------------------------------------------------------
    # expressions

    def parenthesised(self) -> None:
        self.take("(")
        self.deeper()
        self.expression()
        if not self.at(")"):
            self.operator_wanted()
        self.index += 1
        self.depth -= 1

    def operator_wanted(self) -> None:
        """Report the mistake at a position that needs an operator, a comma or a closing
        parenthesis.
        """
        advice = {
            "AND": "write `&&`",
            "OR": "write `||`",
            "&": "write `&&`",
            "|": "write `||`",
            "IS": "write `=`",
        }
        token = self.here
        text = token.text.upper() if token is not None else ""
        if token is None:
            self.wrong("`)`", "close the parenthesis")
        if text in _COMPARE:
            self.wrong("`)`, `&&` or `||`", "comparisons do not chain: write `?a < ?b && ?b < ?c`")
        self.wrong("an operator or `)`", advice.get(text, ""))

    def expression(self) -> None:
        compared = False
        while True:
            self.operand()
            if self.word() in ("IN", "NOT"):
                self.membership()
                compared = True
            token = self.here
            if token is None or token.kind != "mark" or token.text not in _OPERATORS:
                return
            if token.text in _COMPARE and compared:
                return
            compared = token.text in _COMPARE or (compared and token.text not in ("||", "&&"))
            self.index += 1

    def membership(self) -> None:
        if self.word() == "NOT":
            self.index += 1
            if self.word() != "IN":
                self.wrong("IN after NOT")
        self.index += 1
        self.arguments()

    def operand(self) -> None:
        while self.at("!", "-", "+"):
            self.index += 1
        token, word = self.here, self.word()
        if token is None:
            self.wrong("a value")
        assert token is not None
        if self.at("("):
            self.parenthesised()
        elif token.kind == "variable":
            self.index += 1
        elif word in ("EXISTS", "NOT"):
            self.exists(word)
        elif self.literal():
            return
        elif token.kind in _TERMS:
            self.index += 1
            if self.at("("):
                self.arguments()
        elif word:
            self.call()
        else:
            self.wrong("a value")

    def call(self) -> None:
        token = self.here
        assert token is not None
        if token.kind == "word" and token.text.upper() not in _FUNCTIONS:
            meant = closest_name(token.text.upper(), _FUNCTIONS)
            advice = f"did you mean {meant}?" if meant else f"a variable is written `?{token.text}`"
            self.wrong("a value or a function", advice)
        self.index += 1
        self.arguments()

    def arguments(self) -> None:
        self.take("(")
        self.deeper()
        if self.word() == "DISTINCT":
            self.index += 1
        if self.at("*"):
            self.index += 1
        while not self.at(")"):
            self.expression()
            if self.at(",", ";"):
                if self.at(";"):
                    raise _Stop(None)
                self.index += 1
            elif not self.at(")"):
                self.operator_wanted()
        self.index += 1
        self.depth -= 1
