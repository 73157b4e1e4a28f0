"""Results on third-party data, one section for each program, and the page that shows them.

`third_party.json` has the measured sections; `docs/reference/third-party.md` shows their tables
between markers. A test compares both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "third_party.json"
PAGE = ROOT / "docs" / "reference" / "third-party.md"


def save_section(name: str, section: Mapping[str, Any]) -> None:
    """Write a section into the results and its table into the page. `Any`: JSON.

    Args:
        section: `columns` and `rows` of a table, and whatever else was measured.
    """
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    known[name] = section
    text = json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    PAGE.write_text(insert_tables(PAGE.read_text(encoding="utf-8"), known), encoding="utf-8")


def insert_tables(page: str, sections: Mapping[str, Any]) -> str:
    """The page with the tables of all sections between their markers. `Any`: JSON."""
    for name, section in sections.items():
        before, begin, rest = page.partition(f"<!-- table: {name} -->")
        _, end, after = rest.partition("<!-- end of table -->")
        table = format_table(section["columns"], section["rows"])
        if begin and end:
            page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


def format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
