"""The grammars of editors colour the words of the language, and the VS Code extension starts."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chromium import chromium

from fedkg_compiler.editor.pygments_lexer import RuleLexer
from fedkg_compiler.editor.word_help import CLAUSES, OPERATORS, STATEMENTS, WORDS
from fedkg_compiler.frontends.fkg.syntax import statement_grammar
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import STATEMENT_WORDS

ROOT = Path(__file__).parents[3]
EXTENSION = ROOT / "editors/vscode"
LINE = 'rule a "T" for ?m where { ?m a plant:C } require if `TIC 1` <= 5.5 bar then not y # c'
MINUTES = "signal t in min\nrule b require min(x, t) <= 3 min"
"""`min` is a function once and a unit twice."""


def test_every_statement_has_help() -> None:
    assert set(STATEMENTS) == set(STATEMENT_WORDS)


def test_every_word_with_help_is_a_word_of_the_grammar() -> None:
    text = Path(statement_grammar.GRAMMAR).read_text()
    known = set(re.findall(r'"(\w+)"', text)) | {"value", "probability"}
    functions = {"mean", "sum", "min", "max", "count", "share", "rate", "duration", "starts"}
    patterns = set(re.findall(r"\b[a-z]+\b", text))
    assert set(WORDS) - functions <= known | patterns


def test_the_textmate_grammar_has_the_same_words() -> None:
    patterns = json.loads((EXTENSION / "syntaxes/fkg.tmLanguage.json").read_text())["patterns"]
    words = {one["name"]: set(re.findall(r"\w+", one.get("match", ""))) for one in patterns}
    assert set(STATEMENTS) <= words["keyword.declaration.fkg"]
    assert set(CLAUSES) <= words["keyword.control.fkg"]
    assert set(OPERATORS) <= words["keyword.operator.word.fkg"]


def test_pygments_reads_every_character_and_colours_words() -> None:
    tokens = list(RuleLexer().get_tokens(LINE))
    assert "".join(text for _, text in tokens) == f"{LINE}\n"
    kinds = {text: str(kind) for kind, text in tokens}
    assert kinds["rule"] == "Token.Keyword.Declaration"
    assert kinds["require"] == "Token.Keyword"
    assert kinds["then"] == "Token.Operator.Word"
    assert kinds["plant:C"] == "Token.Name.Class"
    assert kinds["# c"] == "Token.Comment.Single"
    minutes = [str(kind) for kind, text in RuleLexer().get_tokens(MINUTES) if text == "min"]
    assert minutes == ["Token.Name", "Token.Operator.Word", "Token.Name"]


def test_the_extension_starts_the_language_server_for_rule_files() -> None:
    if shutil.which("node") is None:
        pytest.skip("no node: install Node.js 20 or newer")
    run = subprocess.run(
        ["node", str(Path(__file__).with_name("activate.js")), str(EXTENSION)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    asked = json.loads(run.stdout)
    contributes = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    [client] = asked["clients"]
    assert client["server"] == {"command": "fedkg", "args": ["lsp"]}
    assert client["client"]["initializationOptions"] == {"graphs": []}
    [language] = contributes["languages"]
    assert language["extensions"] == [".fkg"]
    assert client["client"]["documentSelector"] == [{"language": language["id"]}]
    # the client registers the commands of the server, such as that of a lens
    assert asked["commands"] == [one["command"] for one in contributes.get("commands", [])]
    assert asked["calls"] == ["start", "stop"]
    assert asked["disposed"] == 1


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the extension's folder with its dependencies and `fedkg.vsix`."""
    if shutil.which("npm") is None:
        pytest.skip("no npm: install Node.js 20 or newer")
    clone = tmp_path_factory.mktemp("clone")
    folder = clone / "editors/vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "*.vsix"))
    shutil.copy(ROOT / "LICENSE", clone / "LICENSE")
    install = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=folder, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    if install.returncode:
        pytest.skip(f"npm cannot install: {install.stderr.strip().splitlines()[-1:]}")

    subprocess.run(["npm", "run", "package"], cwd=folder, check=True, timeout=200)
    return folder


@pytest.mark.slow
def test_the_extension_packs_and_its_grammar_colours_a_rule(packed: Path) -> None:
    with zipfile.ZipFile(packed / "fedkg.vsix") as archive:
        names = set(archive.namelist())
    assert {
        "extension/extension.js",
        "extension/syntaxes/fkg.tmLanguage.json",
        "extension/node_modules/vscode-languageclient/package.json",
    } <= names
    run = subprocess.run(
        ["node", str(Path(__file__).with_name("tokenize.js")), str(packed)],
        input=f"{LINE}\n{MINUTES}", capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = json.loads(run.stdout)
    assert [scope for text, scope in found if text == "min"] == ["keyword.operator.word.fkg"]
    scopes = dict(found)
    assert scopes["rule"] == "keyword.declaration.fkg"
    assert scopes["?m"] == "variable.parameter.fkg"
    assert scopes["`TIC 1`"] == "variable.other.quoted.fkg"
    assert scopes["then"] == "keyword.operator.word.fkg"
    assert scopes["5.5"] == "constant.numeric.fkg"
    assert scopes["# c"] == "comment.line.number-sign.fkg"


@pytest.fixture(scope="module")
def program() -> str:
    """The path of code-server."""
    found = os.environ.get("FEDKG_CODE_SERVER") or shutil.which("code-server")
    if found is None:
        pytest.skip("no code-server: npm install code-server, and set FEDKG_CODE_SERVER")
    return found


@contextmanager
def code_server(program: str, extension: Path, folder: Path) -> Iterator[str]:
    """The address of a VS Code on loopback with the extension; its files are in `folder`."""
    settings = folder / "user/User/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"fedkg.command": [sys.executable, "-m", "fedkg", "lsp"]}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        program, f"--config={folder}/config.yaml", f"--user-data-dir={folder}/user",
        f"--extensions-dir={folder}/extensions", "--disable-telemetry", "--disable-update-check",
        "--disable-workspace-trust", "--auth=none", f"--bind-addr={address}",
    ]  # fmt: skip
    install = [*command, f"--install-extension={extension}"]
    environment = {**os.environ, "HOME": str(folder)}  # code-server also writes below it
    subprocess.run(install, env=environment, check=True, timeout=120)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if "HTTP server listening" in line:
                    break
            yield address
        finally:
            server.terminate()
            server.communicate(timeout=30)


@pytest.mark.slow
def test_vscode_runs_an_example_colours_words_and_shows_an_error_while_typing(
    program: str, packed: Path, tmp_path: Path
) -> None:
    signal, low = "signal pressure in bar  span 0 .. 20", "rule low  require pressure <= 8 bar"
    hot = "rule hot  require pressure <= 80 degC"
    rules = tmp_path / "plant/rules.fkg"
    rules.parent.mkdir()
    rules.write_text(f"{signal}\n{low}\nexample of low holds for pressure = 7 bar\n")
    with code_server(program, packed / "fedkg.vsix", tmp_path) as address, chromium() as page:
        file = f"vscode-remote://{address}{rules}:2:{len(low) + 1}"  # cursor: end of `low`
        payload = json.dumps([["gotoLineMode", "true"], ["openFile", file]])
        query = urllib.parse.urlencode({"folder": rules.parent, "payload": payload})
        page.open(f"http://{address}/?{query}", width=1200)

        lens = "document.querySelector('.codelens-decoration a')"
        page.wait(lens, 200)
        colours = page.run(
            "Object.fromEntries([...document.querySelectorAll('.view-line span span')]"
            ".map(one => [one.textContent.trim(), getComputedStyle(one).color]))"
        )
        assert len({colours[word] for word in ("rule", "require", "<=", "8", "low")}) == 5

        page.click(lens)
        note = "document.querySelector('.notification-list-item-message')?.innerText"
        page.wait(f"{note} === 'example: holds, as expected'")

        for text in ("\n", hot):
            page.send("Input.insertText", text=text)
        page.wait("document.querySelector('.squiggly-error')")
        page.run("document.querySelector('[id=\"status.problems\"] a').click()")
        problems = "document.querySelector('.markers-panel .monaco-list-rows')?.innerText"
        page.wait(f"{problems}?.includes('`degC` cannot be compared with `bar`')")
        # after a complete rule, the next one starts at the left edge
        assert f"[Ln 3, Col {hot.index('80') + 1}]" in page.run(problems)
