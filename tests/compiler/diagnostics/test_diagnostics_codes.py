"""Every code has a page, and the examples on the pages do what the pages say."""

from __future__ import annotations

import re
import textwrap

import pytest

from fedkg_compiler.diagnostics import CODES
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


def test_no_code_is_taken_twice() -> None:
    from fedkg_compiler.diagnostics.codes.binding import BINDING
    from fedkg_compiler.diagnostics.codes.graph import GRAPH
    from fedkg_compiler.diagnostics.codes.inference import INFERENCE
    from fedkg_compiler.diagnostics.codes.knowledge import KNOWLEDGE
    from fedkg_compiler.diagnostics.codes.library import LIBRARY
    from fedkg_compiler.diagnostics.codes.ontology import ONTOLOGY
    from fedkg_compiler.diagnostics.codes.reasoning import REASONING
    from fedkg_compiler.diagnostics.codes.shapes import SHAPES
    from fedkg_compiler.diagnostics.codes.sheets import SHEETS
    from fedkg_compiler.diagnostics.codes.sparql import SPARQL
    from fedkg_compiler.diagnostics.codes.stores import STORES

    areas = (SYNTAX, ONTOLOGY, INFERENCE, STORES, GRAPH, SHEETS, BINDING, SHAPES, SPARQL, KNOWLEDGE, LIBRARY, REASONING)
    assert sum(len(area) for area in areas) == len(CODES)
