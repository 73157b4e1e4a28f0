"""Reads the words of SPARQL queries and patterns into a tree: SELECT and ASK of SPARQL 1.1 (W3C
2013, section 19.8).

A hand-written parser rather than rdflib's: it reads a query in a tenth of a millisecond where
rdflib takes eight, and knows the place of everything it reads. The store decides whether a text is
SPARQL; where it says no, its place is often far behind the slip, and this parser finds the first
word that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NoReturn, TypeVar, cast

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tokens import Token
from fedkg_compiler.graph.sparql_syntax.tree import (
    Aggregate,
    Bind,
    Const,
    Elsewhere,
    Exists,
    Expr,
    Filter,
    Group,
    InGraph,
    Minus,
    Op,
    Optional,
    Part,
    Path,
    Place,
    Predicate,
    Projection,
    Query,
    SubSelect,
    Triple,
    Union,
    Values,
    Var,
)
from fedkg_compiler.graph.standard_vocabularies import RDF

_PATTERN_WORDS = frozenset({"FILTER", "OPTIONAL", "MINUS", "BIND", "VALUES", "GRAPH", "SERVICE"})
_MODIFIERS = frozenset({"GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES"})
AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})
_COMPARISONS = ("=", "!=", "<=", ">=", "<", ">")
_OPERATORS = frozenset({*_COMPARISONS, "||", "&&", "+", "-", "*", "/"})
_STANDARD_FUNCTIONS = """STR LANG LANGMATCHES DATATYPE BOUND IRI URI BNODE RAND ABS CEIL FLOOR ROUND
CONCAT STRLEN UCASE LCASE ENCODE_FOR_URI CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH
DAY HOURS MINUTES SECONDS TIMEZONE TZ NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512 COALESCE IF
STRLANG STRDT SAMETERM ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC REGEX SUBSTR REPLACE"""
"""The functions of SPARQL 1.1 (section 17.4)."""
_NEWER_FUNCTIONS = """TRIPLE SUBJECT PREDICATE OBJECT ISTRIPLE ADJUST STRLANGDIR HASLANG HASLANGDIR
LANGDIR"""
"""Functions of SPARQL 1.2 that the store knows."""
_FUNCTIONS = frozenset(f"{_STANDARD_FUNCTIONS} {_NEWER_FUNCTIONS}".split())
_MEANT = {
    "AND": "write `&&`",
    "OR": "write `||`",
    "&": "write `&&`",
    "|": "write `||`",
    "IS": "write `=`",
}
"""Advice for words that other languages have in place of an operator."""
_BIND = "write BIND(expression AS ?name)"
_THREE_PARTS = "a triple has three parts: subject, property, value"

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


def find_problem(words: Sequence[Token]) -> SparqlProblem | None:
    """Return the first word of a group graph pattern that does not fit, with what is expected.

    None if all words fit, or if the pattern is nested too deeply to tell.
    """
    parser = _Parser(tuple(words))
    parts: list[Part] = []
    try:
        parser.body(parts)
        if parser.i < len(words):
            parser.wrong("nothing more", "a `}` too many?" if parser.text() == "}" else "")
    except SparqlProblem as problem:
        return problem if problem.code == "FKG341" else None
    return None


def find_query_problem(words: Sequence[Token]) -> SparqlProblem | None:
    """Return the first syntax problem of a query without its prologue; None if there is none."""
    parser = _Parser(tuple(words))
    try:
        if parser.accept("CONSTRUCT"):
            if parser.text() == "{":
                parser.group()
            parser.dataset()
            parser.accept("WHERE")
            parser.modifiers(Query(at=(0, 0), form="select", where=parser.group()))
        else:
            parser.query()
        if parser.i < len(words):
            parser.wrong("nothing more", "a `}` too many?" if parser.text() == "}" else "")
    except SparqlProblem as problem:
        return problem if problem.code == "FKG341" else None
    return None


def parse_query(words: tuple[Token, ...], *, classes_closed: bool = False) -> Query:
    """The tree of a query.

    Args:
        classes_closed: classes are part of the shape, because one of them may be that of the table
            rows.

    Raises:
        SparqlProblem: it is something else than SELECT or ASK, or not SPARQL.
    """
    parser = _Parser(words, classes_closed=classes_closed)
    query = parser.query()
    if parser.i < len(words):
        raise SparqlProblem(
            "FKG341", (parser.i, parser.i), f"`{words[parser.i].text}` cannot follow the query"
        )
    return query


class _Parser:
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

    def expect(self, text: str, help: str = "") -> None:
        """Go on behind a word, which must be this one."""
        if not self.accept(text):
            self.wrong(f"`{text}`", help)

    def wrong(self, wanted: str, help: str = "") -> NoReturn:
        """Raise the problem that another word is expected here."""
        if self.i >= len(self.tokens):
            marks = [token.text for token in self.tokens if token.kind == "mark"]
            raise SparqlProblem(
                "FKG341",
                (len(self.tokens) - 1, len(self.tokens) - 1),
                f"the query ends too early: {wanted} is expected",
                help or _unclosed_help(marks),
            )
        shown = f"?{self.text()}" if self.kind() == "variable" else self.text()
        message = f"the query is not SPARQL at `{shown}`: {wanted} is expected"
        raise SparqlProblem("FKG341", (self.i, self.i), message, help)

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
            self.wrong("a variable")
        self.i += 1
        return Var(at=(self.i - 1, self.i - 1), name=self.tokens[self.i - 1].text)

    def property_iri(self) -> Const:
        """A property, or ``a``."""
        if self.text() == "a" and self.kind() == "word":
            self.i += 1
            return Const(at=(self.i - 1, self.i - 1), token=-1, kind="iri", text=f"<{RDF}type>")
        if self.kind() not in ("iri", "pname"):
            self.wrong("a property", _THREE_PARTS)
        return replace(self.constant(), open=False)

    def constant(self, wanted: str = "a variable or a value", help: str = "") -> Const:
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
                    if self.kind() not in ("iri", "pname"):
                        self.wrong("a datatype after `^^`")
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
                self.i = start
                self.wrong(wanted, help)
        return Const(
            at=self.since(start), token=token, kind=found, sign=sign, open=self.closed == 0
        )

    # ---- expressions

    def constraint(self, word: str) -> Expr:
        """Parse the constraint after `word`, which is FILTER, HAVING or ORDER BY."""
        if self.text() == "(":
            return self.parenthesised()
        if self.kind() not in ("word", "iri", "pname"):
            self.wrong(f"`(` after {word}", f"write {word}(...) with parentheses")
        return self.primary()

    def parenthesised(self) -> Expr:
        """An expression in parentheses."""
        self.expect("(")
        expr = self.expression()
        self.closing()
        return expr

    def closing(self) -> None:
        """Go on behind a parenthesis that closes an expression."""
        if self.accept(")"):
            return
        if self.i < len(self.tokens) and self.text() not in _COMPARISONS:
            self.wrong("an operator or `)`", _MEANT.get(self.text().upper(), ""))
        chained = self.text() in _COMPARISONS and self.kind() == "mark"
        advice = "comparisons do not chain: write `?a < ?b && ?b < ?c`" if chained else ""
        self.wrong("`)`, `&&` or `||`" if chained else "`)`", advice)

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
            if not self.accept("IN"):
                self.wrong("IN after NOT")
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
            return self.parenthesised()
        if self.kind() == "variable":
            return self.variable()
        if self.kind() == "word" and self.upper() not in ("TRUE", "FALSE"):
            return self.function(start)
        constant = self.constant("a value")
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
            if name == "NOT" and not self.accept("EXISTS"):
                self.wrong("EXISTS after NOT", "the opposite of a condition is written !(...)")
            group = self.nested(lambda: self.group("EXISTS"))
            return Exists(at=self.since(start), group=group, negated=name == "NOT")
        if name in AGGREGATES:
            return self.aggregate(name.lower(), start)
        if name not in _FUNCTIONS:
            called = self.text() == "("
            self.i = start
            near = nearest_name(name, _STANDARD_FUNCTIONS.split()) if called else None
            advice = (
                f"did you mean `{near}`?"
                if near
                else "it has ABS, ROUND, CEIL and FLOOR of numbers; compute others in the data, as"
                " a column"
                if called
                else f"a variable is written `?{self.text()}`"
            )
            self.wrong("a value or a function", advice)
        args = self.arguments()
        return Op(at=self.since(start), name=name.lower(), args=args)

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
        self.closing()
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
            if self.text() != ")" and not self.accept(","):
                self.closing()
        return tuple(args)

    # ---- queries

    def query(self) -> Query:
        start = self.i
        word = self.upper()
        if word == "SELECT":
            return self.select(start)
        if word == "ASK":
            self.i += 1
            dataset = self.dataset()
            self.accept("WHERE")
            where = self.group()
            return self.modifiers(
                Query(at=self.since(start), form="ask", where=where, dataset=dataset)
            )
        shown = self.tokens[self.i].text if self.i < len(self.tokens) else "nothing"
        if word in ("CONSTRUCT", "DESCRIBE"):
            raise SparqlProblem(
                "FKG342",
                (start, start),
                f"a {shown.upper()} query finds no violations",
                "write what is wrong as SELECT or ASK",
            )
        raise SparqlProblem(
            "FKG342",
            (start, start),
            f"a violation query begins with SELECT or ASK, not with `{shown}`",
        )

    def select(self, start: int) -> Query:
        self.i += 1
        distinct = self.accept("DISTINCT") or self.accept("REDUCED")
        projection: list[Projection] | None = []
        if self.accept("*"):
            projection = None
        while projection is not None and (self.kind() == "variable" or self.text() == "("):
            projection.append(self.projection())
        dataset = self.dataset()
        self.accept("WHERE")
        where = self.group()
        shown = None if projection is None else tuple(projection)
        query = Query(
            at=self.since(start),
            form="select",
            distinct=distinct,
            projection=shown,
            where=where,
            dataset=dataset,
        )
        return self.modifiers(query)

    def projection(self) -> Projection:
        start = self.i
        if self.kind() == "variable":
            return Projection(at=(start, start), variable=self.variable())
        self.expect("(")
        expr = self.expression()
        self.expect("AS")
        variable = self.variable()
        self.expect(")")
        return Projection(at=self.since(start), variable=variable, expr=expr)

    def dataset(self) -> Place | None:
        start = self.i
        while self.accept("FROM"):
            self.accept("NAMED")
            self.i += 1
        return self.since(start) if self.i > start else None

    def modifiers(self, query: Query) -> Query:
        group_by: list[Projection] | None = None
        having: list[Expr] = []
        orders: list[Expr] = []
        limits: dict[str, int] = {}
        where = query.where
        while (word := self.upper()) in _MODIFIERS:
            self.i += 1
            if word in ("GROUP", "ORDER"):
                self.expect("BY")
                while self.condition_starts():
                    if word == "GROUP":
                        group_by = [*(group_by or []), self.group_condition()]
                    else:
                        descending = not self.accept("ASC") and self.accept("DESC")
                        is_name = self.kind() == "variable"
                        order = self.variable() if is_name else self.constraint("ORDER BY")
                        orders.append(
                            Op(at=order.at, name="desc", args=(order,)) if descending else order
                        )
            elif word == "HAVING":
                while self.condition_starts():
                    having.append(self.constraint("HAVING"))
            elif word == "VALUES":
                self.i -= 1
                where = replace(where, parts=(*where.parts, self.values()))
            else:
                limits[word] = self.i
                self.i += 1
        return replace(
            query,
            at=self.since(query.at[0]),
            where=where,
            group_by=None if group_by is None else tuple(group_by),
            having=tuple(having),
            orders=tuple(orders),
            limit=limits.get("LIMIT"),
            offset=limits.get("OFFSET"),
        )

    def condition_starts(self) -> bool:
        return self.i < len(self.tokens) and self.upper() not in _MODIFIERS and self.text() != "}"

    def group_condition(self) -> Projection:
        start = self.i
        if self.kind() == "variable":
            return Projection(at=(start, start), variable=self.variable())
        if self.text() != "(":
            return Projection(
                at=self.since(start), variable=self.fresh(), expr=self.constraint("GROUP BY")
            )
        self.expect("(")
        expr = self.expression()
        variable = self.variable() if self.accept("AS") else self.fresh()
        self.expect(")")
        return Projection(at=self.since(start), variable=variable, expr=expr)

    # ---- patterns

    def group(self, after: str = "") -> Group:
        """A pattern in braces."""
        start = self.i
        self.expect("{", f"{after} is followed by a pattern in braces" if after else "")
        self.depth += 1
        if self.depth > 40:
            raise SparqlProblem(
                "FKG352",
                (start, start),
                "the query is nested more than 40 deep",
                "write it as several queries",
            )
        parts: list[Part] = []
        if self.upper() == "SELECT":
            inner = self.i
            query = self.nested(lambda: self.select(inner))
            parts.append(SubSelect(at=query.at, query=query))
        self.body(parts)
        self.expect("}")
        self.depth -= 1
        return Group(at=self.since(start), parts=tuple(parts))

    def body(self, parts: list[Part]) -> None:
        """Triples and clauses up to a closing brace or the end."""
        while self.i < len(self.tokens) and self.text() != "}":
            self.part(parts)

    def part(self, parts: list[Part]) -> None:
        start, word = self.i, self.upper()
        if self.text() == "{":
            groups = [self.nested(self.group)]
            while self.accept("UNION"):
                groups.append(self.nested(lambda: self.group("UNION")))
            parts.append(
                groups[0] if len(groups) == 1 else Union(at=self.since(start), groups=tuple(groups))
            )
        elif word in _PATTERN_WORDS and self.kind() == "word":
            self.i += 1
            parts.append(self.keyword(word, start))
        else:
            self.triples(parts)
            self.after_triples()
        self.accept(".")

    def keyword(self, word: str, start: int) -> Part:
        match word:
            case "FILTER":
                return Filter(at=self.since(start), expr=self.filter_condition())
            case "OPTIONAL":
                around, self.in_optional = self.in_optional, self.closed == 0
                group = self.nested(lambda: self.group("OPTIONAL"))
                self.in_optional = around
                return Optional(at=self.since(start), group=group)
            case "MINUS":
                group = self.nested(lambda: self.group("MINUS"))
                return Minus(at=self.since(start), group=group)
            case "BIND":
                self.expect("(", _BIND)
                expr = self.expression()
                self.expect("AS", _BIND)
                variable = self.variable()
                self.expect(")")
                return Bind(at=self.since(start), expr=expr, variable=variable)
            case "VALUES":
                self.i -= 1
                return self.values()
            case "GRAPH":
                is_variable = self.kind() == "variable"
                name = self.variable() if is_variable else replace(self.constant(), open=False)
                group = self.nested(self.group)
                return InGraph(at=self.since(start), name=name, group=group)
        self.accept("SILENT")
        self.i += 1
        self.nested(self.group)
        return Elsewhere(at=(start, start + 1), word=word)

    def filter_condition(self) -> Expr:
        """The condition of a FILTER.

        That of an OPTIONAL sees the variables outside it (SPARQL 1.1, section 18.2.2.6).
        """
        if self.closed != 1 or not self.in_optional:
            return self.constraint("FILTER")
        self.closed, self.in_optional = 0, False
        expr = self.constraint("FILTER")
        self.closed, self.in_optional = 1, True
        return expr

    def values(self) -> Values:
        start = self.i
        self.expect("VALUES")
        several = self.accept("(")
        variables: list[Var] = []
        while self.kind() == "variable":
            variables.append(self.variable())
        if several:
            self.expect(")")
        self.expect("{")
        rows: list[tuple[Const | None, ...]] = []
        while not self.accept("}"):
            if several:
                self.expect("(")
                row: list[Const | None] = []
                while not self.accept(")"):
                    row.append(self.datum())
                rows.append(tuple(row))
            else:
                rows.append((self.datum(),))
        return Values(at=self.since(start), variables=tuple(variables), rows=tuple(rows))

    def datum(self) -> Const | None:
        if self.accept("UNDEF"):
            return None
        return replace(self.constant(), open=False)

    # ---- triples

    def triples(self, parts: list[Part]) -> None:
        """One subject with its predicates and objects."""
        alone = self.text() in ("[", "(")
        self.check_subject()
        subject = self.node(parts)
        if alone and (self.text() in (".", "}") or self.i >= len(self.tokens)):
            return
        self.properties(subject, parts)

    def check_subject(self) -> None:
        """Raise the problem of a word that begins neither a triple nor a clause."""
        if self.kind() == "word":
            clause = nearest_name(self.upper(), sorted(_PATTERN_WORDS | {"UNION"}))
            if self.upper() == "UNION":
                advice = "write UNION between two patterns in braces: { ... } UNION { ... }"
            elif clause:
                advice = f"did you mean {clause}?"
            else:
                advice = f"a variable is written `?{self.text()}`, a name with its prefix"
            self.wrong("a triple or a clause", advice)
        if self.kind() in ("string", "number"):
            self.wrong("a subject", "a text or number can only be the value of a triple")
        if self.kind() in ("mark", "language", "") and self.text() not in ("[", "("):
            self.wrong("a subject")

    def after_triples(self) -> None:
        """Raise the problem of a word that cannot follow triples."""
        if (
            self.i >= len(self.tokens)
            or self.text() in (".", "}", "{")
            or self.upper() in _PATTERN_WORDS
        ):
            return
        if self.upper() in _MODIFIERS:
            self.wrong(
                "`.` or the end of the pattern",
                "the solutions of a pattern are a set: they have no order, limit or groups; in a"
                " query these follow the closing `}`",
            )
        advice = ""
        if self.kind() != "mark" or self.text() == "[":
            advice = "write `.` before the next triple, or `;` to go on with the same subject"
        elif self.text() in _OPERATORS:
            advice = "a condition on values is written FILTER(...)"
        self.wrong("`.`, `;` or `,`", advice)

    def properties(self, subject: Var | Const, parts: list[Part]) -> None:
        first = True
        while True:
            while not first and self.accept(";"):
                pass
            if not first and (
                self.text() in (".", "}", "]", ")", "{")
                or self.i >= len(self.tokens)
                or self.upper() in _PATTERN_WORDS
            ):
                return
            predicate, first = self.predicate(), False
            while True:
                target = self.node(parts, "an object", _THREE_PARTS)
                is_type = isinstance(predicate, Const) and predicate.text == f"<{RDF}type>"
                if is_type and isinstance(target, Const) and self.classes_closed:
                    target = replace(target, open=False)
                parts.append(
                    Triple(
                        at=(subject.at[0], target.at[1]),
                        subject=subject,
                        predicate=predicate,
                        object=target,
                    )
                )
                if not self.accept(","):
                    break
            if self.text() != ";":
                return

    def node(self, parts: list[Part], wanted: str = "a subject", help: str = "") -> Var | Const:
        """A subject or object; what blank nodes and lists say of themselves goes to `parts`."""
        start = self.i
        if self.kind() == "variable":
            return self.variable()
        if self.kind() == "blank":
            self.i += 1
            return Var(
                at=(start, start),
                name="_" + "".join(c if c.isalnum() else "_" for c in self.tokens[start].text[2:]),
            )
        if self.accept("["):
            blank = self.fresh()
            if not self.accept("]"):
                self.properties(blank, parts)
                self.expect("]")
            return replace(blank, at=self.since(start))
        if self.accept("("):
            return self.collection(start, parts)
        if self.kind() == "word" and self.upper() not in ("TRUE", "FALSE"):
            advice = f"a name needs its prefix, a variable its `?`: `?{self.text()}`"
            return self.constant(wanted, advice)
        return self.constant(wanted, help)

    def collection(self, start: int, parts: list[Part]) -> Var | Const:
        items: list[Var | Const] = []
        while not self.accept(")"):
            items.append(self.node(parts, "a member of the list or `)`"))
        at = self.since(start)
        rest: Var | Const = Const(at=at, token=-1, kind="iri", text=f"<{RDF}nil>")
        for item in reversed(items):
            head = replace(self.fresh(), at=at)
            for name, target in (("first", item), ("rest", rest)):
                predicate = Const(at=at, token=-1, kind="iri", text=f"<{RDF}{name}>")
                parts.append(Triple(at=at, subject=head, predicate=predicate, object=target))
            rest = head
        return rest

    def predicate(self) -> Predicate:
        if self.kind() == "variable":
            return self.variable()
        fits = self.kind() in ("iri", "pname") or self.text() in ("a", "^", "!", "(")
        if self.i < len(self.tokens) and not fits:
            self.wrong(
                "a property",
                "the middle of a triple is a name such as `plant:limit`, `a`, or a variable",
            )
        return self.alternative()

    def alternative(self) -> Predicate:
        return self.chain("|", lambda: self.chain("/", self.step))

    def chain(self, mark: Literal["|", "/"], inner: Callable[[], Predicate]) -> Predicate:
        start = self.i
        args = [inner()]
        while self.accept(mark):
            args.append(inner())
        return args[0] if len(args) == 1 else Path(at=self.since(start), op=mark, args=tuple(args))

    def step(self) -> Predicate:
        start = self.i
        if self.accept("^"):
            return Path(at=self.since(start), op="^", args=(self.repeated_path(),))
        return self.repeated_path()

    def repeated_path(self) -> Predicate:
        start = self.i
        path = self.link()
        if self.text() in ("*", "+", "?"):
            mark = cast(Literal["*", "+", "?"], self.text())
            self.i += 1
            return Path(at=self.since(start), op=mark, args=(path,))
        return path

    def link(self) -> Predicate:
        start = self.i
        if self.accept("("):
            path = self.alternative()
            self.expect(")")
            return path
        if self.accept("!"):
            return Path(at=self.since(start), op="!", args=(self.link_or_inverse(),))
        return self.property_iri()

    def link_or_inverse(self) -> Predicate:
        start = self.i
        if self.accept("("):
            args = [] if self.text() == ")" else [self.step()]
            while self.accept("|"):
                args.append(self.step())
            self.expect(")")
            return Path(at=self.since(start), op="|", args=tuple(args))
        return self.step()
