"""What fedkg says without the libraries that a browser lacks: `python without_libraries.py FILES`.

Prints one JSON object. With `--here` as the first argument, nothing is taken away. `--codes` prints
the codes that the page shows for the example of their own page, one a line.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "playground" / "libraries"
ABSENT = ("pyoxigraph", "safetensors", "scipy", "torch", "pandas", "numba", "pyarrow", "rdflib")


def answers(files: list[str]) -> dict[str, Any]:
    """Diagnostics, bound numbers, verdicts of examples and explanations of rule files."""
    from playground_session import load_pint

    from fedkg import authoring
    from fedkg.evaluation.example_runner import run_example
    from fedkg.units import parse_unit

    load_pint()
    found: dict[str, Any] = {"units": [repr(parse_unit(one)) for one in ("fathom", "N.m", "kWh")]}
    for file in files:
        compiled = authoring.check([file], fresh=True, reason=False)
        pack = compiled.pack
        found[file] = {
            "diagnostics": authoring.diagnostics_json(compiled.diagnostics),
            "examples": [asdict(run_example(one)) for one in compiled.examples],
            "banks": []
            if pack is None
            else [
                [getattr(bank, part).tolist() for part in ("slots", "views", "params", "weight")]
                for bank in pack.banks
            ],
            "explained": []
            if pack is None
            else [
                [*authoring.explain_in(pack, rule.name).lines()] for rule in pack.manifest.rules[:1]
            ],
        }
    return found


def prepare(folder: Path) -> None:
    """Let the session of the page run in this process."""
    import playground_session

    # this process has a solver, and no module that stands for an absent library
    del playground_session.WITHOUT["z3"]
    for name in playground_session.WITHOUT:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, playground_session.AbsentLibraries())
    playground_session.FOLDER = folder
    playground_session.PROJECT = ROOT / "pyproject.toml"


def open_page(files: dict[str, str], folder: Path) -> tuple[Any, list[str]]:
    """A session in which the editor has opened the rules, and the list that gets its messages."""
    import playground_session

    posted: list[str] = []
    page = playground_session.Session(posted.append)
    page.write_files(json.dumps(files))
    uri = (folder / "rules.fkg").as_uri()
    document = {"uri": uri, "languageId": "fkg", "version": 1, "text": files["rules.fkg"]}
    for message in (
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
    ):
        page.receive(json.dumps({"jsonrpc": "2.0", **message}))
    return page, posted


def sessions(pages: list[dict[str, str]], folder: Path) -> list[dict[str, Any]]:
    """What the page shows for these files, with the messages of the language server."""
    import asyncio

    async def talk(files: dict[str, str]) -> dict[str, Any]:
        page, posted = open_page(files, folder)
        await asyncio.sleep(1.5)  # the full check follows a pause
        return {
            "evaluation": json.loads(page.evaluate()),
            "explained": json.loads(page.explain("limit")),
            "code": json.loads(page.explain("fkg200")),
            "unknown": json.loads(page.explain("nothing")),
            "facts": json.loads(page.facts()),
            "posted": [json.loads(one) for one in posted],
        }

    return [asyncio.run(talk(files)) for files in pages]


def linked_codes(folder: Path) -> list[str]:
    """The codes that the editor of the page shows for the example of their own page."""
    import asyncio

    from docs_hook import playground_files

    from fedkg_compiler.diagnostics import CODES
    from fedkg_compiler.editor import language_server

    language_server.IDLE = 0

    async def shown(files: dict[str, str]) -> str:
        _, posted = open_page(files, folder)
        deadline = time.monotonic() + 5
        # the quick check publishes, then the full one
        while time.monotonic() < deadline and sum("/publishDiag" in one for one in posted) < 2:
            await asyncio.sleep(0.01)
        return "".join(posted)

    found = []
    for code in CODES:
        files = playground_files(CODES[code].page)
        if files and f'"code": "{code}"' in asyncio.run(shown(files)):
            found.append(code)
    return found


def main() -> None:
    """Answer for the files in the arguments, or for pages in JSON on standard input."""
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "playground")]
    arguments = sys.argv[1:]
    if "--here" in arguments:
        arguments.remove("--here")
        sys.path.append(str(LIBRARIES))
    else:
        sys.path.insert(0, str(LIBRARIES))
        sys.modules.update(dict.fromkeys(ABSENT))
    if arguments[0] == "--pages":
        prepare(Path(arguments[1]))
        print(json.dumps(sessions(json.load(sys.stdin), Path(arguments[1]))))
    elif arguments == ["--codes"]:
        with TemporaryDirectory() as folder:
            prepare(Path(folder))
            print(*linked_codes(Path(folder)), sep="\n")
    else:
        print(json.dumps(answers(arguments)))


if __name__ == "__main__":
    main()
