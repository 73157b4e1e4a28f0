"""Colours rule files in the documentation and wherever else Pygments does."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from fedkg_compiler.editor.word_help import CLAUSES, OPERATORS, STATEMENTS


class RuleLexer(RegexLexer):
    """The rule language. The words come from the tables that hovers use."""

    name = "fedkg rules"
    aliases: ClassVar[list[str]] = ["fkg"]
    filenames: ClassVar[list[str]] = ["*.fkg"]
    mimetypes: ClassVar[list[str]] = ["text/x-fkg"]
    url = "https://w3id.org/fedkg"

    tokens = {  # noqa: RUF012  as Pygments declares it
        "root": [
            (r"#[^\n]*", Comment.Single),
            (r'"(?:\\.|[^"\\\n])*"', String.Double),
            (r"`[^`\n]*`", Name.Variable),
            (r"<[^\s<>]*>", Name.Namespace),
            (words(tuple(STATEMENTS), prefix=r"^", suffix=r"\b"), Keyword.Declaration),
            (r"[?$]\w+", Name.Variable),
            (r"[A-Za-z][\w.-]*:[\w-]+", Name.Class),
            (
                words(
                    (*CLAUSES, "is", "in", "of", "where", "class", "table", "query"),
                    prefix=r"\b",
                    suffix=r"\b",
                ),
                Keyword,
            ),
            (r"(?<=\d )min\b|(?<=\bin )min\b", Name),  # minutes, not the smallest
            (words(tuple(OPERATORS), prefix=r"\b", suffix=r"\b"), Operator.Word),
            (r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", Number),
            (r"<=|>=|==|!=|\+/-|[<>=+\-*/^≤≥≠±%°]", Operator),
            (r"\w+", Name),
            (r"[(),:;{}\[\].]", Punctuation),
            (r"\s+", Text.Whitespace),
            (r".", Text),
        ]
    }
