"""Golden cases: source text in, diagnostics out, many small ones to a file.

A ``.case`` file is a list of cases, each with a title, the text, and the expected diagnostics::

    === a unit of two words
    rule c require torque <= 60 N m
    ---
    case.fkg:1:31: error[FKG007]: ...

A title that ends in ``(escaped)`` has its text written with Python's escapes (``\\u200b``,
``\\t``), for characters that nobody sees. Set ``FEDKG_REWRITE=1`` to write the current diagnostics
into the files, and review the difference like code.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TITLE = "=== "
_SAID = "---"
FILE = "case.fkg"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: the file it is written in, its title, the source as written there, and the expected
    output.
    """

    path: Path
    title: str
    written: str
    said: str

    @property
    def source(self) -> str:
        """The text to compile."""
        if self.title.endswith("(escaped)"):
            return self.written.encode("latin-1", "backslashreplace").decode("unicode_escape")
        return self.written

    @property
    def id(self) -> str:
        """For pytest: file and title."""
        return f"{self.path.stem}: {self.title}"


def read_cases(path: Path) -> list[Case]:
    """The cases of one file, in order."""
    cases: list[Case] = []
    for block in ("\n" + path.read_text(encoding="utf-8")).split("\n" + _TITLE)[1:]:
        title, _, rest = block.partition("\n")
        written, _, said = rest.partition(f"\n{_SAID}\n")
        cases.append(
            Case(path=path, title=title.strip(), written=written + "\n", said=said.strip("\n"))
        )
    titles = [case.title for case in cases]
    assert len(titles) == len(set(titles)), (
        f"{path.name} has a title twice: {sorted(t for t in titles if titles.count(t) > 1)}"
    )
    return cases


def cases_under(folder: Path) -> list[Case]:
    """The cases of all files of a folder."""
    return [case for path in sorted(folder.glob("*.case")) for case in read_cases(path)]


def check(case: Case, said: str) -> None:
    """Compare the output with the expected one, or write it to the file if ``FEDKG_REWRITE`` is
    1.
    """
    if os.environ.get("FEDKG_REWRITE") != "1":
        assert said == case.said, f"{case.id}\n{said}"
        return
    cases = read_cases(case.path)
    blocks = (
        f"{_TITLE}{old.title}\n{old.written}{_SAID}\n"
        f"{said if old.title == case.title else old.said}"
        for old in cases
    )
    case.path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
