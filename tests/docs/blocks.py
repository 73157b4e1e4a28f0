"""The fenced blocks of a Markdown page, and how each kind is tested.

| block | test |
|---|---|
| any, with ``title="NAME"`` | written to a file of that name in the page's folder |
| ``python`` | run; the blocks of a page share their names |
| ``fkg`` | compiled; with a comment ``expect: FKG210`` before it, it gives exactly those codes |
| ``yaml`` with ``sites:`` | checked as a job |
| ``console`` | ``$ ...`` lines are run; the lines below are the output (``...``: any text) |

Comments:

- ``<!-- before: NAME -->`` puts the text of the block titled NAME before the next block.
- ``<!-- exit: 1 -->`` states an exit code.
- ``<!-- skip: REASON -->`` leaves a block out.
- ``<!-- needs: MODULE -->`` skips the rest of the page if the module is missing.
- ``<!-- slow: REASON -->`` marks the test of the page as slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)$")
COMMENT = re.compile(
    r"^<!--\s*(?P<key>expect|exit|before|skip|needs|slow):\s*(?P<value>.*?)\s*-->$"
)
RUN = frozenset({"python", "fkg", "yaml", "console"})


@dataclass(frozen=True)
class Block:
    """One fenced block: language, title, text, the line it starts at, and the comments right above
    it.
    """

    language: str
    title: str
    text: str
    line: int
    notes: dict[str, str] = field(default_factory=dict)


def pages() -> list[Path]:
    """The README and every page of the documentation."""
    return [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "contributing"),
        *sorted((ROOT / "examples").rglob("*.md")),
    ]


def blocks(page: Path) -> list[Block]:
    """The page's fenced blocks in order. Raises ValueError when a fence is not closed."""
    found: list[Block] = []
    notes: dict[str, str] = {}
    opened: tuple[str, str, int, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        fence = FENCE.match(line)
        if opened is not None:
            if fence and not fence["info"].strip():
                language, title, start, indent = opened
                found.append(
                    Block(
                        language,
                        title,
                        "\n".join(text[indent:] for text in lines) + "\n",
                        start,
                        notes,
                    )
                )
                opened, lines, notes = None, [], {}
            else:
                lines.append(line)
        elif fence:
            language = fence["info"].split()[0] if fence["info"].split() else ""
            title = re.search(r'title="([^"]+)"', fence["info"])
            opened = (language, title[1] if title else "", number, len(fence["indent"]))
        elif comment := COMMENT.match(line.strip()):
            notes[comment["key"]] = comment["value"]
        elif line.strip():
            notes = {}
    if opened is not None:
        raise ValueError(f"{page}:{opened[2]}: the block is not closed")
    return found


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The ``$`` lines of a console block, each with the lines of output below it.

    A backslash at the end continues a line.
    """
    found: list[tuple[str, list[str]]] = []
    for line in re.sub(r"\\\n\s*", "", text).rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append((line[2:].strip(), []))
        elif found:
            found[-1][1].append(line.rstrip())
    return found


def matches(expected: list[str], output: str) -> bool:
    """Whether the output is as the page shows it.

    ``...`` matches anything; blank lines and line ends do not count.
    """
    wanted = "\n".join(line for line in expected if line.strip())
    got = "\n".join(line.rstrip() for line in output.split("\n") if line.strip())
    pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
    return re.fullmatch(pattern, got, re.DOTALL) is not None
