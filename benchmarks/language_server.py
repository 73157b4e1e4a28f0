"""How long an editor waits for the language server, and how much memory the server takes.

    python benchmarks/language_server.py [--changes 40]

An editor opens a file of 500 lines (60 signals, about 300 rules) and the rules of examples/milling
with their ontologies and graph, and changes one rule after another. A change takes as long as the
next diagnostics are not there. Memory is the peak of the server's process; the full check after a
pause runs in another process, which ends with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from reporting.rows import Row, limit

CHANGE_MS = 100
MEMORY_MB = 150
LINES = 500
SIGNALS = 60
MILLING = Path(__file__).parents[1] / "examples/milling/rules.fkg"


def long_file() -> str:
    """A rule file of `LINES` lines."""
    lines = ["timeline step 5 min"]
    lines += [f"signal s{one} in bar span 0 .. {one + 10}" for one in range(SIGNALS)]
    number = 0
    while len(lines) < LINES:
        a, b = number % SIGNALS, (number * 7 + 3) % SIGNALS
        if number % 2:
            lines += [
                f'rule r{number} "Pressure {a} is followed by a low pressure {b}."',
                f"  require if s{a} > {a % 10 + 1} bar",
                f"    then always within 30 min s{b} <= {b + 9} bar",
            ]
        else:
            lines.append(f"rule r{number} require s{a} + s{b} <= {a + b + 19} bar")
        number += 1
    return "\n".join(lines) + "\n"


Arrived = asyncio.Queue[lsp.PublishDiagnosticsParams]


async def time_changes(
    client: LanguageClient, arrived: Arrived, path: Path, text: str, count: int
) -> list[float]:
    """Milliseconds from each change of a file to its diagnostics, which arrive in a queue."""
    uri = path.as_uri()
    opened = lsp.TextDocumentItem(uri=uri, language_id="fkg", version=0, text=text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(opened))
    await arrived.get()
    spent = []
    for version in range(1, count + 1):
        words = text.split("require ")
        at = version % (len(words) - 1)
        words[at] += f"require unknown{version} > 0 and ({words.pop(at + 1)}"
        changed = lsp.TextDocumentContentChangeWholeDocument("require ".join(words))
        identifier = lsp.VersionedTextDocumentIdentifier(version=version, uri=uri)
        begun = time.perf_counter()
        client.text_document_did_change(lsp.DidChangeTextDocumentParams(identifier, [changed]))
        found = await arrived.get()
        spent.append(1e3 * (time.perf_counter() - begun))
        assert found.diagnostics, "the change has an error"
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri)))
    await arrived.get()  # the server clears the diagnostics of a closed file
    return spent


def peak_memory(process: int) -> float:
    """The largest resident memory of a process, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


async def measure(changes: int) -> list[Row]:
    """Time both files with one server."""
    client, arrived = LanguageClient("benchmark", "1"), Arrived()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def receive(found: lsp.PublishDiagnosticsParams) -> None:
        arrived.put_nowait(found)

    await client.start_io(sys.executable, "-m", "fedkg", "lsp")
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    client.initialized(lsp.InitializedParams())
    with tempfile.TemporaryDirectory() as folder:
        long = Path(folder) / "long.fkg"
        made = []
        for title, path, text in (
            (f"a change in a file of {LINES} lines, ms", long, long_file()),
            ("a change in examples/milling/rules.fkg, ms", MILLING, MILLING.read_text()),
        ):
            spent = await time_changes(client, arrived, path, text, changes)
            made.append(limit(title, spent, CHANGE_MS))
    server = client._server
    assert server is not None
    made.append(limit("memory of the server, MB", [peak_memory(server.pid)], MEMORY_MB))
    await client.shutdown_async(None)
    client.exit(None)
    return made


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=40)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.changes))))


if __name__ == "__main__":
    main()
