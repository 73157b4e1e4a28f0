"""Make certain fixes from suggestions, and apply them to texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from fedkg._internal.name_matching import Suggestion
from fedkg_compiler.diagnostics.record import Edit, Fix, Span

_NAME = re.compile(r"[^\W\d]\w*\Z")
_MARKS = 2
_Place = tuple[int, int, str]


def suggested(span: Span, advice: str) -> Fix | None:
    """The fix in a help text; None unless the text is a `Suggestion` and the span is the suspected
    word, with or without its marks.
    """
    if not isinstance(advice, Suggestion) or type(span) is not Span or span.line != span.end_line:
        return None
    marks = span.end_column - span.column - len(advice.wrong)
    if not 0 <= marks <= _MARKS or (
        marks < _MARKS and not _NAME.match(advice.right) and _NAME.match(advice.wrong)
    ):
        return None
    inner = replace(
        span, column=span.column + min(marks, 1), end_column=span.end_column - (marks == _MARKS)
    )
    return Fix(edits=(Edit(span=inner, was=advice.wrong, text=advice.right),))


def put_in(text: str, fixes: Iterable[Fix]) -> tuple[str, tuple[Fix, ...]]:
    """A text with fixes of it put in, and those that were: of fixes that meet the first is taken,
    one that does not fit the text is not.

    Lines are what ``\\n`` ends, columns are characters, as in `Span`.
    """
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    taken: list[_Place] = []
    done: list[Fix] = []
    for fix in fixes:
        wanted = [_locate_edit(edit, starts) for edit in fix.edits]
        if any(place is None for place in wanted) or fix in done:
            continue
        places = [place for place in wanted if place is not None]
        fits = all(
            text[start:end] == edit.was
            for (start, end, _), edit in zip(places, fix.edits, strict=True)
        )
        if fits and not any(_meet(one, other) for one in places for other in taken):
            taken += places
            done.append(fix)
    for start, end, written in sorted(taken, reverse=True):
        text = text[:start] + written + text[end:]
    return text, tuple(done)


def _locate_edit(edit: Edit, starts: list[int]) -> _Place | None:
    """Where an edit begins and ends in the text, and what it puts there; None where the text has no
    such line.
    """
    span = edit.span
    if not 1 <= span.line <= span.end_line <= len(starts):
        return None
    return (
        starts[span.line - 1] + span.column - 1,
        starts[span.end_line - 1] + span.end_column - 1,
        edit.text,
    )


def _meet(one: _Place, other: _Place) -> bool:
    """Whether two edits touch the same letters, or put text into the same place."""
    return one[0] == other[0] or (one[0] < other[1] and other[0] < one[1])
