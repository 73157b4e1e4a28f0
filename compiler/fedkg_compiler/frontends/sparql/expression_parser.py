"""Parses SPARQL expressions and reads the tokens of expressions and patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from fedkg_compiler.frontends.sparql.query_tree import (
    Aggregate,
    Const,
    Exists,
    Expr,
    Group,
    Op,
    Place,
    Var,
)
from fedkg_compiler.frontends.sparql.tokenised_query import SparqlProblem
from fedkg_compiler.graph.sparql_pattern_tokens import Token
from fedkg_compiler.graph.standard_vocabularies import RDF

AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})
_COMPARISONS = ("=", "!=", "<=", ">=", "<", ">")

Read = TypeVar("Read")


def _unclosed_help(marks: Sequence[str]) -> str:
    """Advice for a query whose last open brace or parenthesis is never closed, else ""."""
    pairs = {"{": "}", "(": ")"}
    waiting: list[str] = []
    for mark in marks:
        if mark in pairs:
            waiting.append(mark)
        elif waiting and mark == pairs[waiting[-1]]:
            waiting.pop()
    return f"close the last open `{waiting[-1]}` with `{pairs[waiting[-1]]}`" if waiting else ""


class ExpressionParser:
    """A cursor over the tokens of a query.

    Attributes:
        closed: depth of nested groups: constants inside them are part of the shape, since a
            variable there would not mean the same.
        in_optional: whether the group is an OPTIONAL of the outermost group.
        classes_closed: classes are part of the shape too.
    """

    def __init__(self, words: tuple[Token, ...], *, classes_closed: bool = False) -> None:
        self.tokens = words
        self.i = 0
        self.closed = 0
        self.in_optional = False
        self.depth = 0
        self.count = 0
        self.classes_closed = classes_closed

    # ---- words

    def kind(self) -> str:
        """The kind of the next word; "" at the end."""
        return self.tokens[self.i].kind if self.i < len(self.tokens) else ""

    def text(self) -> str:
        """The next word."""
        return self.tokens[self.i].text if self.i < len(self.tokens) else ""

    def upper(self) -> str:
        """The next word in capitals where it is a word of letters, else ""."""
        return self.tokens[self.i].text.upper() if self.kind() == "word" else ""

    def accept(self, text: str) -> bool:
        """Go on behind a word if it is this one."""
        there = (
            self.i < len(self.tokens)
            and self.tokens[self.i].kind in ("word", "mark")
            and self.tokens[self.i].text.upper() == text
        )
        self.i += there
        return there

    def expect(self, text: str) -> None:
        """Go on behind a word, which must be this one."""
        if not self.accept(text):
            raise self.unexpected(f"`{text}`")

    def unexpected(self, wanted: str) -> SparqlProblem:
        """The problem that another token was expected here."""
        if self.i >= len(self.tokens):
            return SparqlProblem(
                "FKG341",
                (len(self.tokens) - 1, len(self.tokens) - 1),
                f"the query ends too early: {wanted} is expected",
                _unclosed_help([token.text for token in self.tokens if token.kind == "mark"]),
            )
        shown = f"?{self.text()}" if self.kind() == "variable" else self.text()
        return SparqlProblem(
            "FKG341",
            (self.i, self.i),
            f"the query is not SPARQL at `{shown}`: {wanted} is expected",
        )

    def since(self, start: int) -> Place:
        """The place from a word to the one before the next."""
        return start, max(start, self.i - 1)

    def fresh(self) -> Var:
        """A variable that nobody wrote."""
        self.count += 1
        return Var(at=self.since(self.i), name=f"_b{self.count}")

    def nested(self, read: Callable[[], Read]) -> Read:
        """Parse a group in separate braces."""
        self.closed += 1
        try:
            return read()
        finally:
            self.closed -= 1

    def variable(self) -> Var:
        """A variable."""
        if self.kind() != "variable":
            raise self.unexpected("a variable")
        self.i += 1
        return Var(at=(self.i - 1, self.i - 1), name=self.tokens[self.i - 1].text)

    def property_iri(self) -> Const:
        """A property, or ``a``."""
        if self.text() == "a" and self.kind() == "word":
            self.i += 1
            return Const(at=(self.i - 1, self.i - 1), token=-1, kind="iri", text=f"<{RDF}type>")
        if self.kind() not in ("iri", "pname"):
            raise self.unexpected("a property")
        return replace(self.constant(), open=False)

    def constant(self) -> Const:
        """An IRI, number, text or truth value, with the sign, language or datatype that belongs to
        it.
        """
        start, sign = self.i, ""
        if (
            self.text() in ("-", "+")
            and self.i + 1 < len(self.tokens)
            and self.tokens[self.i + 1].kind == "number"
        ):
            sign = "-" if self.text() == "-" else ""
            self.i += 1
        token, kind = self.i, self.kind()
        self.i += 1
        match kind:
            case "iri" | "pname":
                found: Literal["iri", "number", "string", "boolean"] = "iri"
            case "number":
                found = "number"
            case "string":
                found = "string"
                if self.kind() == "language":
                    self.i += 1
                elif self.accept("^^"):
                    self.i += 1
                    return Const(at=self.since(start), token=token, kind=found)
            case "word" if self.tokens[token].text.lower() in ("true", "false"):
                return Const(
                    at=(start, start),
                    token=-1,
                    kind="boolean",
                    text=self.tokens[token].text.lower(),
                )
            case _:
                self.i = token
                raise self.unexpected("a variable or a value")
        return Const(
            at=self.since(start), token=token, kind=found, sign=sign, open=self.closed == 0
        )

    # ---- expressions

    def constraint(self) -> Expr:
        """Parse the constraint after FILTER, HAVING or ORDER BY."""
        if self.text() == "(":
            self.expect("(")
            expr = self.expression()
            self.expect(")")
            return expr
        if self.kind() not in ("word", "iri", "pname"):
            raise self.unexpected("`(`")
        return self.primary()

    def expression(self) -> Expr:
        """An expression."""
        self.depth += 1
        if self.depth > 60:
            raise SparqlProblem(
                "FKG352",
                (self.i, self.i),
                "the expression is nested more than 60 deep",
                "write it as several queries",
            )
        expr = self.joined("||", lambda: self.joined("&&", self.comparison))
        self.depth -= 1
        return expr

    def joined(self, mark: str, inner: Callable[[], Expr]) -> Expr:
        """Expressions with a mark between them."""
        start = self.i
        args = [inner()]
        while self.accept(mark):
            args.append(inner())
        return args[0] if len(args) == 1 else Op(at=self.since(start), name=mark, args=tuple(args))

    def comparison(self) -> Expr:
        """A comparison, or IN."""
        start = self.i
        left = self.additive()
        if self.text() in _COMPARISONS and self.kind() == "mark":
            name = self.text()
            self.i += 1
            right = self.additive()
            return Op(at=self.since(start), name=name, args=(left, right))
        negated = self.upper() == "NOT"
        if negated or self.upper() == "IN":
            self.i += negated
            self.expect("IN")
            args = self.arguments()
            return Op(at=self.since(start), name="not in" if negated else "in", args=(left, *args))
        return left

    def additive(self) -> Expr:
        """Sums, from left to right."""
        start = self.i
        left = self.multiplicative()
        while self.text() in ("+", "-"):
            name = self.text()
            self.i += 1
            right = self.multiplicative()
            left = Op(at=self.since(start), name=name, args=(left, right))
        return left

    def multiplicative(self) -> Expr:
        """Products, from left to right."""
        start = self.i
        left = self.unary()
        while self.text() in ("*", "/"):
            name = self.text()
            self.i += 1
            right = self.unary()
            left = Op(at=self.since(start), name=name, args=(left, right))
        return left

    def unary(self) -> Expr:
        """An expression behind a sign."""
        start = self.i
        if self.accept("!"):
            arg = self.unary()
            return Op(at=self.since(start), name="!", args=(arg,))
        if self.text() in ("-", "+") and not (
            self.i + 1 < len(self.tokens) and self.tokens[self.i + 1].kind == "number"
        ):
            name = self.text()
            self.i += 1
            arg = self.primary()
            return Op(at=self.since(start), name="neg", args=(arg,)) if name == "-" else arg
        return self.primary()

    def primary(self) -> Expr:
        """An expression in brackets, a variable, a value, or a function."""
        start = self.i
        if self.text() == "(":
            return self.constraint()
        if self.kind() == "variable":
            return self.variable()
        if self.kind() == "word" and self.upper() not in ("TRUE", "FALSE"):
            return self.function(start)
        constant = self.constant()
        if constant.kind == "iri" and self.text() == "(":
            args = self.arguments()
            return Op(
                at=self.since(start), name="call", args=(replace(constant, open=False), *args)
            )
        return constant

    def function(self, start: int) -> Expr:
        """Parse a function, EXISTS or an aggregate with its name at `start`."""
        name = self.upper()
        self.i += 1
        if name in ("EXISTS", "NOT"):
            if name == "NOT":
                self.expect("EXISTS")
            group = self.exists_group()
            return Exists(at=self.since(start), group=group, negated=name == "NOT")
        if name in AGGREGATES:
            return self.aggregate(name.lower(), start)
        if self.text() != "(":
            self.i = start
            raise self.unexpected("an expression")
        args = self.arguments()
        return Op(at=self.since(start), name=name.lower(), args=args)

    def exists_group(self) -> Group:
        """The pattern behind EXISTS."""
        return self.nested(self.group)

    def group(self) -> Group:
        """A pattern in braces."""
        raise NotImplementedError

    def aggregate(self, op: str, start: int) -> Expr:
        """An aggregate behind its name."""
        self.expect("(")
        distinct = self.accept("DISTINCT")
        arg = None if self.accept("*") else self.expression()
        separator = None
        if self.accept(";"):
            self.expect("SEPARATOR")
            self.expect("=")
            separator = self.i
            self.i += 1
        self.expect(")")
        return Aggregate(
            at=self.since(start), op=op, distinct=distinct, arg=arg, separator=separator
        )

    def arguments(self) -> tuple[Expr, ...]:
        """Arguments in brackets."""
        self.expect("(")
        args: list[Expr] = []
        self.accept("DISTINCT")
        while not self.accept(")"):
            args.append(self.expression())
            if self.text() != ")":
                self.expect(",")
        return tuple(args)
