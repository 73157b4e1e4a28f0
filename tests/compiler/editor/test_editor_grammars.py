"""The grammars of editors colour the words of the language, and the VS Code extension starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from fedkg_compiler.editor.pygments_lexer import RuleLexer
from fedkg_compiler.editor.word_help import CLAUSES, OPERATORS, STATEMENTS, WORDS
from fedkg_compiler.frontends.fkg.syntax import statement_grammar
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import STATEMENT_WORDS

ROOT = Path(__file__).parents[3]
EXTENSION = ROOT / "editors/vscode"
LINE = 'rule a "T" for ?m where { ?m a plant:C } require if `TIC 1` <= 5.5 bar then not y # c'


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


@pytest.mark.slow
def test_the_extension_packs_and_its_grammar_colours_a_rule(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm: install Node.js 20 or newer")
    folder = tmp_path / "editors/vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "*.vsix"))
    shutil.copy(ROOT / "LICENSE", tmp_path / "LICENSE")
    install = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=folder, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    if install.returncode:
        pytest.skip(f"npm cannot install: {install.stderr.strip().splitlines()[-1:]}")

    subprocess.run(["npm", "run", "package"], cwd=folder, check=True, timeout=200)

    with zipfile.ZipFile(folder / "fedkg.vsix") as archive:
        names = set(archive.namelist())
    assert {
        "extension/extension.js",
        "extension/syntaxes/fkg.tmLanguage.json",
        "extension/node_modules/vscode-languageclient/package.json",
    } <= names
    run = subprocess.run(
        ["node", str(Path(__file__).with_name("tokenize.js")), str(folder)],
        input=LINE, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    scopes = dict(json.loads(run.stdout))
    assert scopes["rule"] == "keyword.declaration.fkg"
    assert scopes["?m"] == "variable.parameter.fkg"
    assert scopes["`TIC 1`"] == "variable.other.quoted.fkg"
    assert scopes["then"] == "keyword.operator.word.fkg"
    assert scopes["5.5"] == "constant.numeric.fkg"
    assert scopes["# c"] == "comment.line.number-sign.fkg"
