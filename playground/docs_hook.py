"""Adds to the documentation one page for each diagnostic code, and the playground if it is built.

MkDocs calls the functions by their names, see https://www.mkdocs.org/user-guide/plugins/#events.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "build" / "playground" / "page"
APP = "playground/app"
"""Where the playground is on the site."""
CODES_PAGE = "reference/codes.md"
PLAYGROUND_PAGE = "playground.md"
LINKED = frozenset((ROOT / "playground" / "linked_codes.txt").read_text().split())
"""Codes whose example gives its code in the playground too, which has fewer libraries.

`python tests/playground/without_libraries.py --codes > playground/linked_codes.txt` finds them.
"""

sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]


def is_built() -> bool:
    """Whether `playground/build.py` has made the page."""
    return (BUILT / "parts.json").is_file()


def encode_state(files: Mapping[str, str]) -> str:
    """The part of a link after ``#``: JSON of the files, as DEFLATE (RFC 1951), in base64url."""
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(json.dumps(files).encode()) + packer.flush()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def playground_files(page: str) -> dict[str, str]:
    """The files of the example on a page of a code as the playground names them; {} for none."""
    from fedkg_compiler.diagnostics.code_registry import example_files

    return {
        "rules.fkg" if name == "page.fkg" else name: text
        for name, text in example_files(page).items()
    }


def code_page(code: str) -> str:
    """The page of a code, with a link to its example in the playground."""
    from fedkg_compiler.diagnostics import CODES
    from fedkg_compiler.diagnostics.code_registry import block_language
    from fedkg_compiler.diagnostics.severities import severities_of

    def fence(block: re.Match[str]) -> str:
        text = re.sub(r"^ {4}", "", block[0], flags=re.MULTILINE)
        return f"```{block_language(text.lstrip())}\n{text}```\n"

    record = CODES[code]
    body = re.sub(
        r"(?:^ {4}.*\n|^\n(?= {4}))+", fence, record.page.rstrip() + "\n", flags=re.MULTILINE
    )
    parts = [
        f"# {code}: {record.title}\n",
        f"Severity: {' or '.join(severities_of(code))}.\n",
        body,
    ]
    if code in LINKED and is_built():
        link = f"../../../{APP}/index.html#{encode_state(playground_files(record.page))}"
        parts.append(f'<a href="{link}">Open the example in the playground</a>\n')
    return "\n".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the codes and the files of the playground."""
    from fedkg_compiler.diagnostics import CODES

    for code in CODES:
        place = f"reference/codes/{code}.md"
        files.append(File.generated(config, place, content=code_page(code)))
    if is_built():
        for path in sorted(BUILT.rglob("*")):
            # the copies of the files for a page from disk would double the size of the site
            if path.is_file() and BUILT / "disk" not in path.parents:
                place = f"{APP}/{path.relative_to(BUILT)}"
                files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the list of codes to their pages, and the page about the playground to it."""
    if page.file.src_uri == CODES_PAGE:
        return re.sub(r"^\| (FKG\d+) \|", r"| [\1](codes/\1.md) |", markdown, flags=re.MULTILINE)
    if page.file.src_uri == PLAYGROUND_PAGE and is_built():
        link = '<p><a class="md-button" href="app/index.html">Open the playground</a></p>'
        return markdown.replace("<!-- playground -->", link)
    return markdown
