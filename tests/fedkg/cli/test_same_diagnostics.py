"""One invalid rule file gets the same diagnostics from every program that compiles it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

import fedkg
from fedkg.authoring import CompileError, render

ROOT = Path(__file__).parents[3]
RULES = """\
signal pressure in bar span 0 .. 20 column "p"
rule warm "Übertemperatur" require pressure <= 60 degC
rule high require presure <= 8 bar
rule unit require pressure <= 8 Bar
rule open require pressure <=
rule fine require pressure <= 9 bar
"""
JOB = """\
name: small
rules: [rules.fkg]
sites: [north, south]
data: {path: table.csv}
algorithm: fedavg
"""

Found = tuple[str, int, int, str]
"""Code, line and column from 1, and message with help."""


def _fedkg(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedkg", *arguments], capture_output=True, text=True, check=False
    )


def _send(stream: IO[bytes], message: dict[str, Any]) -> None:
    """Write a message of the Language Server Protocol. `Any`: JSON."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    stream.flush()


def _receive(stream: IO[bytes]) -> dict[str, Any]:
    """Read a message of the Language Server Protocol. `Any`: JSON."""
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b": ")
        length = int(value) if name == b"Content-Length" else length
    message: dict[str, Any] = json.loads(stream.read(length))
    return message


def _published(message: dict[str, Any]) -> list[Found]:
    """The diagnostics of a notification `textDocument/publishDiagnostics`."""
    return [
        (
            one["code"],
            one["range"]["start"]["line"] + 1,
            one["range"]["start"]["character"] + 1,
            one["message"],
        )
        for one in message["params"]["diagnostics"]
    ]


def _in_editor(file: Path) -> list[Found]:
    """What the editor shows after the full check, which follows the quick one."""
    with subprocess.Popen(
        [sys.executable, "-m", "fedkg", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        text = {"uri": file.as_uri(), "languageId": "fkg", "version": 1, "text": file.read_text()}
        _send(process.stdin, {"id": 1, "method": "initialize", "params": {"capabilities": {}}})
        _send(process.stdin, {"method": "initialized", "params": {}})
        opened = {"method": "textDocument/didOpen", "params": {"textDocument": text}}
        _send(process.stdin, opened)
        shown: list[list[Found]] = []
        while len(shown) < 2:
            message = _receive(process.stdout)
            if message.get("method") == "textDocument/publishDiagnostics":
                shown.append(_published(message))
        process.kill()
    assert shown[0] == shown[1]
    return shown[1]


def _in_playground(file: Path, folder: Path) -> list[Found]:
    page = {"rules.fkg": file.read_text(), "table.csv": "p\n1\n"}
    script = ROOT / "tests" / "playground" / "without_libraries.py"
    done = subprocess.run(
        [sys.executable, str(script), "--pages", str(folder)],
        input=json.dumps([page]),
        capture_output=True,
        text=True,
        check=True,
    )
    [shown] = json.loads(done.stdout)
    published = [
        _published(one)
        for one in shown["posted"]
        if one.get("method") == "textDocument/publishDiagnostics"
    ]
    return published[-1]


@pytest.mark.slow
def test_every_program_says_the_same_about_a_wrong_rule_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rules.fkg"
    file.write_text(RULES)
    (tmp_path / "table.csv").write_text("p,failure\n1,0\n2,1\n")
    (tmp_path / "job.yaml").write_text(JOB)

    with pytest.raises(CompileError) as caught:
        fedkg.compile("rules.fkg")
    expected = [
        (one.code, one.span.line, one.span.column, "\n".join(filter(None, (one.message, one.help))))
        for one in caught.value.diagnostics
    ]
    assert [(code, line) for code, line, _, _ in expected] == [
        ("FKG213", 2),
        ("FKG200", 3),
        ("FKG211", 4),
        ("FKG003", 5),
    ]
    text = render(caught.value.diagnostics)
    assert text in str(caught.value)
    assert text.startswith("rules.fkg:2:")

    checked = _fedkg("check", "rules.fkg")
    assert checked.stderr.startswith(text), checked.stderr
    evaluated = _fedkg("eval", "rules.fkg", "table.csv")
    assert evaluated.stderr.startswith(text), evaluated.stderr
    trained = _fedkg("run", "job.yaml")
    assert trained.stderr.startswith(text), trained.stderr
    assert {checked.returncode, evaluated.returncode, trained.returncode} == {1}

    assert _in_editor(file) == expected
    assert _in_playground(file, tmp_path / "page") == expected
