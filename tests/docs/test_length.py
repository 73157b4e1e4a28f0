"""The documentation stays short enough to read."""

from __future__ import annotations

from pathlib import Path

import pytest
from length import LIMIT, pages, words


def test_the_hand_written_pages_stay_within_the_limit() -> None:
    total = sum(map(words, pages()))
    assert total <= LIMIT, f"{total:,} words: see which pages grew with python tests/docs/length.py"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Two words - and | three more |\n", 5),
        ("one\n\n```sh\nmany words in code\n```\ntwo\n", 2),
        ("one\n<!-- suite: begin -->\na generated table\n<!-- suite: end -->\n", 1),
        ("one\n::: fedkg.entry\n", 1),
    ],
)
def test_only_hand_written_words_count(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert words(tmp_path / "page.md") == count
