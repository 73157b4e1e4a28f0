"""The example on the page of a code gives exactly this code.

The first block of a page is a rule file. Blocks that begin with ``# NAME.ttl`` (``.csv``, ``.rq``
and so on) right after it are the files next to it. `WITHOUT` names the pages for which this does
not hold yet. The list can only shrink: a page that passes must not be in it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg_compiler.diagnostics import CODES
from fedkg_compiler.diagnostics.code_registry import example_files
from fedkg_compiler.pipeline import compile_rules

WITHOUT = frozenset(
    {
        *("FKG101", "FKG106", "FKG116", "FKG288"),  # about the arguments of a command
        *("FKG320", "FKG321", "FKG322", "FKG323"),  # about a data file of `fedkg eval`
        *(
            "FKG118",
            "FKG154",
            "FKG261",
            "FKG352",
            "FKG507",
        ),  # about inputs that are too large or take too long
        *("FKG126", "FKG127"),  # about another program
        *(
            "FKG140",
            "FKG141",
            "FKG142",
            "FKG143",
            "FKG144",
        ),  # about an endpoint, or the folder of a store
        *("FKG240", "FKG378"),  # about an unreadable file, and one that contains an earlier model
    }
)


def codes_of(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The codes that a check of a page's example gives, with their severities."""
    files = example_files(page)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    graphs = [
        Path(name)
        for name in files
        if name.endswith((".ttl", ".rdf", ".xsd")) and f'"{name}"' not in files["page.fkg"]
    ]
    return (
        {
            problem.code: problem.severity
            for problem in compile_rules([Path("page.fkg")], graphs=graphs).diagnostics
        }
        if files
        else {}
    )


@pytest.mark.parametrize("code", sorted({code for code in CODES if code >= "FKG100"} - WITHOUT))
def test_the_example_of_a_page_gives_its_code(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = codes_of(CODES[code].page, tmp_path, monkeypatch)
    assert code in found, found
    assert {other for other, severity in found.items() if severity == "error"} <= {code}, found


@pytest.mark.parametrize("code", sorted(WITHOUT))
def test_a_page_that_can_be_tried_is(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code not in codes_of(CODES[code].page, tmp_path, monkeypatch), "take it out of WITHOUT"
