"""Every code has a page, and the examples on the pages do what the pages say."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from fedkg_compiler.diagnostics import CODES, code_registry
from fedkg_compiler.frontends.fkg.syntax import parse

SYNTAX = {code for code in CODES if code < "FKG100"}
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


@pytest.mark.parametrize("code", sorted(SYNTAX - WITHOUT_EXAMPLE))
def test_the_example_of_a_syntax_page_fails_and_its_mend_is_clean(code: str) -> None:
    wrong, right = blocks(CODES[code].page)
    assert [problem.code for problem in parse(wrong, "page.fkg")[1]] == [code]
    assert parse(right, "page.fkg")[1] == ()


def test_every_file_of_the_folder_is_a_page() -> None:
    folder = Path(code_registry.__file__).parent / "codes"
    assert sorted(path.name for path in folder.iterdir()) == [f"{code}.md" for code in CODES]
    for code in CODES:
        text = (folder / f"{code}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {code}: {CODES[code].title}\n\n")


@pytest.mark.parametrize("code", ["FKG999", "../pages", "FKG001.md", ""])
def test_there_is_no_page_without_a_code(code: str) -> None:
    assert code not in CODES
    with pytest.raises(KeyError):
        CODES[code]
