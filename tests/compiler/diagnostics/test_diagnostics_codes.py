"""Every code has a page, and the examples on the pages do what the pages say."""

from __future__ import annotations

import re
import textwrap

import pytest

from fedkg_compiler.diagnostics import CODES, STAGED_FORMS, Span, staged
from fedkg_compiler.diagnostics.codes.staged import STAGED
from fedkg_compiler.diagnostics.codes.syntax import SYNTAX
from fedkg_compiler.syntax import parse

WITHOUT_EXAMPLE = {"FKG035", "FKG042", "FKG044"}  # too large, or about bytes


def blocks(page: str) -> list[str]:
    """The indented blocks of a page."""
    found = re.findall(r"(?:^ {4}.*\n)+", page, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_title_and_a_page(code: str) -> None:
    entry = CODES[code]
    assert re.fullmatch(r"FKG\d{3}", code)
    assert entry.title
    assert not entry.title.endswith(".")
    assert len(entry.page) > 80
    assert "TODO" not in entry.page


@pytest.mark.parametrize("code", sorted(SYNTAX.keys() - WITHOUT_EXAMPLE))
def test_the_example_of_a_syntax_page_fails_and_its_mend_is_clean(code: str) -> None:
    wrong, right = blocks(SYNTAX[code].page)
    assert [problem.code for problem in parse(wrong, "page.fkg")[1]] == [code]
    assert parse(right, "page.fkg")[1] == ()


@pytest.mark.parametrize("code", sorted(STAGED))
def test_the_example_of_a_staged_page_parses(code: str) -> None:
    (example,) = blocks(STAGED[code].page)
    tree, problems = parse(example, "page.fkg")
    assert problems == ()
    assert len(tree.statements) == 1


def test_every_staged_form_has_its_code() -> None:
    assert {code for code, _ in STAGED_FORMS.values()} == STAGED.keys()
    assert len(STAGED_FORMS) == len(STAGED)


@pytest.mark.parametrize("form", sorted(STAGED_FORMS))
def test_a_staged_form_is_refused_by_name(form: str) -> None:
    span = Span(file="a.fkg", line=1, column=2, end_line=1, end_column=5)
    problem = staged(form, span)
    assert problem.span is span
    assert problem.severity == "error"
    assert problem.message.endswith("is not compiled in this version")
    assert problem.help


def test_no_code_is_taken_twice() -> None:
    from fedkg_compiler.diagnostics.codes.binding import BINDING
    from fedkg_compiler.diagnostics.codes.graph import GRAPH
    from fedkg_compiler.diagnostics.codes.ontology import ONTOLOGY
    from fedkg_compiler.diagnostics.codes.sheets import SHEETS

    areas = (SYNTAX, ONTOLOGY, GRAPH, SHEETS, BINDING, STAGED)
    assert sum(len(area) for area in areas) == len(CODES)
