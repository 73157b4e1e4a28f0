"""The pages of diagnostic codes: one Markdown file per code, in `codes/`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

_CODE = re.compile(r"FKG\d{3}")
_FILE = re.compile(r"# (?P<name>[\w.-]+\.\w+)\n")
_LANGUAGES = {"ttl": "turtle", "rq": "sparql", "rdf": "xml", "xsd": "xml", "fkg": "fkg"}
_BLOCKS = {
    r"fedkg ": "sh",
    r"@prefix |[\w-]+:[\w-]+ ": "turtle",
    r"[a-z]+ ": "fkg",  # also a misspelt statement
}
_FOLDER = Path(__file__).resolve().parent / "codes"


@dataclass(frozen=True, slots=True)
class Code:
    """A diagnostic code.

    Attributes:
        title: a few words without a full stop.
        page: what the code means, an example that fails, and how to fix it.
    """

    title: str
    page: str


class _Codes(Mapping[str, Code]):
    """Reads a page when somebody asks for it: `fedkg check` needs none of them."""

    @override
    def __getitem__(self, code: str) -> Code:
        if not _CODE.fullmatch(code) or not (path := _FOLDER / f"{code}.md").is_file():
            raise KeyError(code)
        heading, _, page = path.read_text(encoding="utf-8").partition("\n\n")
        return Code(heading.removeprefix(f"# {code}: "), page)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.stem for path in _FOLDER.glob("FKG*.md")))

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)


CODES: Mapping[str, Code] = _Codes()
"""Every diagnostic code, in ascending order."""


def block_language(text: str) -> str:
    """The language of a block on a page: ``fkg``, ``turtle``, ``sparql``, ``xml``, ``sh`` or
    ``text``.
    """
    if named := re.match(r"# [\w-]+\.(\w+)", text):
        return _LANGUAGES.get(named[1], "text")
    return next((name for start, name in _BLOCKS.items() if re.match(start, text)), "text")


def example_files(page: str) -> dict[str, str]:
    """The files of the example on a page of a code, by name; {} if it has none.

    The first block of the page is the rule file, ``page.fkg``, unless it is in another language.
    Blocks right after it that begin with ``# NAME.ttl`` (``.csv``, ``.rq`` and so on) are the files
    next to it.
    """
    found: dict[str, str] = {}
    after = 0
    for block in re.finditer(r"(?:^ {4}.*(?:\n|\Z))+", page, re.MULTILINE):
        text = textwrap.dedent(block[0])
        name = _FILE.match(text)
        if not found:
            if block_language(text) != "fkg":
                break
            found["page.fkg"] = text
        elif name is not None and not page[after : block.start()].strip():
            found[name["name"]] = text[name.end() :]
        else:
            break
        after = block.end()
    return found
