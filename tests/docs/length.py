"""Count the words of the hand-written documentation: `python tests/docs/length.py`.

A word is text between blanks with a letter or a digit, outside code blocks. Generated parts,
decision records and the change log do not count.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generated import PAGES, TABLES

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 43_000
"""Longer documentation repeats itself: shorten a page before you add to another one."""

_LEFT_OUT = re.compile(
    r"^ *```.*?^ *```$"
    r"|<!-- suite: begin -->.*?<!-- suite: end -->|<!-- suite -->.*?<!-- end of suite -->"
    r"|<!-- table: [\w-]+ -->.*?<!-- end of table -->"
    r"|<!-- command: [\w-]+ -->.*?<!-- end of command -->"
    r"|<!--.*?-->|^::: .*?$",
    re.DOTALL | re.MULTILINE,
)
"""Code blocks, tables that tests write, comments, and entries of the Python API."""


def pages() -> list[Path]:
    """README, CONTRIBUTING and all pages in `docs` with hand-written text."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(
            path
            for path in sorted((ROOT / "docs").rglob("*.md"))
            if path.parent.name != "decisions" and path.name not in PAGES
        ),
    ]


def words(page: Path) -> int:
    """The number of hand-written words of a page."""
    text = page.read_text(encoding="utf-8")
    if page.name in TABLES:
        text = text.partition(TABLES[page.name][0])[0]
    return sum(bool(re.search(r"\w", word)) for word in _LEFT_OUT.sub("", text).split())


def table() -> str:
    """The words of each page, and their sum."""
    counts = {page.relative_to(ROOT): words(page) for page in pages()}
    lines = [f"{count:6,} {name}" for name, count in sorted(counts.items(), key=lambda one: one[1])]
    return "\n".join([*lines, f"{sum(counts.values()):6,} of at most {LIMIT:,}"])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
