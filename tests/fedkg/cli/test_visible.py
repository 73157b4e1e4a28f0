"""Names from packs and tables cannot steer a terminal, a page or a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import Done

from fedkg._internal.safe_text import escape_csv_cell, escape_hidden
from fedkg.data.partition import Split
from fedkg.data.split_summary import split_table
from fedkg.pack import load

EVIL = "a\x1b]0;owned\x07\x1b[2J\u202eb\x9b31m\0c"
SHOWN = r"a\u001b]0;owned\u0007\u001b[2J\u202eb\u009b31m\u0000c"
HIDDEN = set("\x1b\x07\x9b\0\u202e")
Fedkg = Callable[..., Done]


def test_hidden_characters_become_escapes() -> None:
    assert escape_hidden(EVIL) == SHOWN
    assert escape_hidden("plain\ttext\nü 物") == "plain\ttext\nü 物"
    assert json.loads('"' + escape_hidden("\U000e0041") + '"') == "\U000e0041"


@pytest.fixture
def evil_pack(fedkg: Fedkg, tmp_path: Path) -> Path:
    assert fedkg("compile", "rules.fkg", "-o", "good.fkgpack").code == 0
    pack = load(tmp_path / "good.fkgpack")
    first, *rest = pack.manifest.rules
    rules = (first.model_copy(update={"name": EVIL, "title": EVIL}), *rest)
    manifest = pack.manifest.model_copy(update={"rules": rules})
    path = tmp_path / "evil.fkgpack"
    type(pack)(manifest=manifest, banks=pack.banks, conditions=pack.conditions).save(path)
    return path


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("command", ["inspect", "eval"])
def test_a_pack_with_evil_names(
    fedkg: Fedkg, evil_pack: Path, command: str, options: tuple[str, ...]
) -> None:
    table = ("table.csv",) if command == "eval" else ()
    done = fedkg(command, evil_pack, *table, *options)
    assert not HIDDEN & set(done.out + done.err)
    assert r"\u001b" in done.out
    if options:
        assert EVIL in [rule["rule"] for rule in done.json["rules"]]


def test_errors_show_evil_names(fedkg: Fedkg, tmp_path: Path) -> None:
    table = tmp_path / "evil.csv"
    table.write_text("x\x1b[31m,y\n1,2\n")
    done = fedkg("eval", "rules.fkg", table)
    assert done.code == 1
    assert not HIDDEN & set(done.out + done.err)


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd", "@sum", "\tx"])
def test_formulas_in_csv_cells_are_texts(text: str) -> None:
    assert str(escape_csv_cell(text)).startswith("'")


def test_numbers_in_csv_cells_stay() -> None:
    for value in ("-1.5", "+3e5", "-inf", 4.0, -2, None):
        assert escape_csv_cell(value) == value


def test_a_split_table_with_an_evil_class(tmp_path: Path) -> None:
    labels = np.array(["=1+1", "=1+1", "b"])
    made = split_table(Split(sites=("s",), owner=np.zeros(3, dtype=np.int64)), labels)
    made.save(tmp_path / "split.csv")
    with (tmp_path / "split.csv").open() as file:
        assert not any(cell.startswith("=") for row in csv.reader(file) for cell in row)
