"""Places inside a template, which remember where the template was used."""

from __future__ import annotations

from dataclasses import dataclass, replace

from typing_extensions import override

from fedkg_compiler.diagnostics.record import Diagnostic, Related, Span

Key = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSpan(Span):
    """A stretch of a template's text, in one use of the template.

    It is compared and sorted like the plain place; a diagnostic that carries it is given the place
    of the use as a second one.

    Attributes:
        used: the place of the statement that uses the template.
        template: the name of the template.
    """

    used: Span
    template: str

    @override
    def __lt__(self, other: Span) -> bool:
        return _key(self) < _key(other)

    @override
    def __le__(self, other: Span) -> bool:
        return _key(self) <= _key(other)

    @override
    def __gt__(self, other: Span) -> bool:
        return _key(self) > _key(other)

    @override
    def __ge__(self, other: Span) -> bool:
        return _key(self) >= _key(other)


def _key(span: Span) -> Key:
    return span.file, span.line, span.column, span.end_line, span.end_column


def plain_span(span: Span) -> Span:
    """The place alone."""
    file, line, column, end_line, end_column = _key(span)
    return (
        Span(file=file, line=line, column=column, end_line=end_line, end_column=end_column)
        if isinstance(span, TemplateSpan)
        else span
    )


def told_of_use(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic with plain places; one about a template's text says where the template was
    used.
    """
    spans = (diagnostic.span, *(related.span for related in diagnostic.related))
    if not any(isinstance(span, TemplateSpan) for span in spans):
        return diagnostic
    related = [
        Related(span=plain_span(one.span), message=one.message) for one in diagnostic.related
    ]
    span = diagnostic.span
    while isinstance(span, TemplateSpan):
        related.append(
            Related(
                span=plain_span(span.used), message=f"the template `{span.template}` is used here"
            )
        )
        span = span.used
    return replace(diagnostic, span=plain_span(diagnostic.span), related=tuple(related))
