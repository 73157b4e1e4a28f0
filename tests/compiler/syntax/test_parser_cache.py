"""A parser from the cache folder reads as one that is built from the grammar."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from lark import Lark

from fedkg_compiler.cache_entries import keep_entry
from fedkg_compiler.frontends.fkg.syntax import statement_grammar

TEXT = "rule calm for ?s where { ?s a sosa:Sensor } require value(?s) <= 7 bar and not (p is on)"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fedkg" / "grammars"


def test_the_second_process_builds_no_parser(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = statement_grammar.statement_parser.__wrapped__()
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(statement_grammar, "Lark", type("Loaded", (), {"load": Lark.load}))
    loaded = statement_grammar.statement_parser.__wrapped__()
    assert loaded.parse(TEXT) == built.parse(TEXT)
    assert list(map(repr, loaded.terminals)) == list(map(repr, built.terminals))


def test_an_entry_cannot_run_code(cache: Path, tmp_path: Path) -> None:
    statement_grammar.statement_parser.__wrapped__()
    (entry,) = cache.iterdir()
    mark = tmp_path / "mark"
    command = type("Command", (), {"__reduce__": lambda _: (os.mkdir, (str(mark),))})()
    keep_entry(entry, pickle.dumps({"data": command, "memo": {}}), 4)
    assert statement_grammar.statement_parser.__wrapped__().parse(TEXT)
    assert not mark.exists()
