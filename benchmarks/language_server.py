"""How long an editor waits for the language server, and how much memory the server takes.

    python benchmarks/language_server.py [--changes 40]

An editor opens a file of 500 lines (60 signals, about 300 rules), the rules of examples/milling
with their ontologies and graph, and 500 lines over that graph (30 machines, about 150 rules). In
each it changes one rule after another, in the last one also one declaration after another. A change
takes as long as the next diagnostics are not there. They tell of the declaration; those of the
rules that read it follow in parts, and the time until they are those of `fedkg check` is another
row. A changed `use` or `prefix` has its own row: the server reads the graph again. Memory is the
peak of the server's process after all that; the full check after a pause runs in another process,
which ends with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from reporting.rows import Row, limit

import fedkg

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


DECLARATIONS = """timeline step 1 min
constant hot = 315 K
constant most_power = 9000 W
template kept(x, low, high) = low <= x <= high
"""
PLANT_RULES = (
    "{name}(?machine) > {low} {unit} and process(?machine) < hot then failure >= 0.5",
    "torque(?machine) * speed(?machine) > most_power then {name}(?machine) <= {high} {unit}",
    "speed(?machine) > 0 rpm then follows kept({name}(?machine), {low} {unit}, {high} {unit})",
)
DECLARATION_EDITS = (
    ("hot = 315 K", "hot = 315 bar"),
    ("most_power = 9000 W", "most_power = 9000 bar"),
    ("template kept(x,", "template kept(x, most,"),
    ("step 1 min", "step 1 bar"),
    ("in N.m ", "in kg "),
    ("signal wear(", "signal worn("),
    ("output failure ", "output fault "),
)
GRAPH_EDITS = (("use isa95, mason, plant", "use isa95, plant"), ("/plant#>", "/plants#>"))


def plant_file() -> str:
    """A rule file of `LINES` lines over the graph of examples/milling."""
    signals = (("air", "K", 290), ("process", "K", 300), ("speed", "rpm", 1000), ("wear", "min", 0))
    lines = [*MILLING.read_text().partition("\n\n# --")[0].splitlines(), *DECLARATIONS.splitlines()]
    number = 0
    while len(lines) < LINES:
        name, unit, low = signals[number % len(signals)]
        limits = {"name": name, "unit": unit, "low": low + 1, "high": low + 19 - number % 7}
        rule = PLANT_RULES[number % len(PLANT_RULES)].format(**limits)
        lines += [
            f"rule r{number}",
            "  for ?machine in class plant:MillingCentre",
            f"  require if {rule}",
        ]
        number += 1
    return "\n".join(lines[:LINES]) + "\n"


Arrived = asyncio.Queue[lsp.PublishDiagnosticsParams]


async def time_changes(
    client: LanguageClient, arrived: Arrived, path: Path, text: str, count: int
) -> list[float]:
    """Milliseconds from each change of a rule to its diagnostics, which arrive in a queue."""
    await open_file(client, arrived, path, text)
    spent = []
    for version in range(1, count + 1):
        words = text.split("require ")
        at = version % (len(words) - 1)
        words[at] += f"require unknown{version} > 0 and ({words.pop(at + 1)}"
        begun = time.perf_counter()
        change_file(client, path, "require ".join(words), version)
        found = await arrived.get()
        spent.append(1e3 * (time.perf_counter() - begun))
        assert found.diagnostics, "the change has an error"
    await close_file(client, arrived, path)
    return spent


async def time_edits(
    client: LanguageClient,
    arrived: Arrived,
    path: Path,
    text: str,
    edits: Sequence[tuple[str, str]],
    count: int,
) -> tuple[list[float], list[float]]:
    """Milliseconds from each edit to its first diagnostics, and to all those of `fedkg check`."""
    expected = []
    for old, new in edits:
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new))
        expected.append(errors_of(path))
    await open_file(client, arrived, path, text)
    first, whole = [], []
    for version in range(count):
        (old, new), codes = edits[version % len(edits)], expected[version % len(edits)]
        begun = time.perf_counter()
        change_file(client, path, text.replace(old, new), 2 * version + 1)
        found = await arrived.get()
        first.append(1e3 * (time.perf_counter() - begun))
        while {(str(one.code), one.range.start.line) for one in found.diagnostics} != codes:
            found = await arrived.get()
        whole.append(1e3 * (time.perf_counter() - begun))
        change_file(client, path, text, 2 * version + 2)
        await arrived.get()
        await settle(arrived)
    await close_file(client, arrived, path)
    return first, whole


def errors_of(path: Path) -> set[tuple[str, int]]:
    """Code and line (from 0) of all diagnostics of a file with errors."""
    try:
        fedkg.compile(path)
    except fedkg.CompileError as error:
        return {(one.code, one.span.line - 1) for one in error.diagnostics}
    raise AssertionError(f"{path} has no error")


async def settle(arrived: Arrived) -> None:
    """Wait until no diagnostics arrive for a while, shorter than until the full check."""
    while True:
        try:
            await asyncio.wait_for(arrived.get(), 0.3)
        except TimeoutError:
            return


async def open_file(client: LanguageClient, arrived: Arrived, path: Path, text: str) -> None:
    """Open a file, and wait for its diagnostics."""
    opened = lsp.TextDocumentItem(uri=path.as_uri(), language_id="fkg", version=0, text=text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(opened))
    await arrived.get()


def change_file(client: LanguageClient, path: Path, text: str, version: int) -> None:
    """Tell the server of a new text."""
    changed = lsp.TextDocumentContentChangeWholeDocument(text)
    identifier = lsp.VersionedTextDocumentIdentifier(version=version, uri=path.as_uri())
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(identifier, [changed]))


async def close_file(client: LanguageClient, arrived: Arrived, path: Path) -> None:
    """Close a file, and wait until the server has cleared its diagnostics."""
    closed = lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(path.as_uri()))
    client.text_document_did_close(closed)
    await arrived.get()


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
        long, over_plant = Path(folder) / "long.fkg", Path(folder) / "over_plant.fkg"
        shutil.copy(MILLING.with_name("plant.ttl"), folder)
        made = []
        for title, path, text in (
            (f"a change in a file of {LINES} lines, ms", long, long_file()),
            ("a change in examples/milling/rules.fkg, ms", MILLING, MILLING.read_text()),
            (f"a change in {LINES} lines over a graph, ms", over_plant, plant_file()),
        ):
            spent = await time_changes(client, arrived, path, text, changes)
            made.append(limit(title, spent, CHANGE_MS))
        server = client._server
        assert server is not None
        for what, edits in (
            ("a declaration", DECLARATION_EDITS),
            ("`use` or `prefix`", GRAPH_EDITS),
        ):
            edited = f"a change of {what} in {LINES} lines over a graph"
            first, whole = await time_edits(
                client, arrived, over_plant, plant_file(), edits, changes
            )
            made.append(limit(f"{edited}, ms", first, CHANGE_MS))
            made.append(limit(f"{edited}, until all diagnostics, ms", whole, CHANGE_MS))
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
