"""The kept parser table: the same parser, never a stale or damaged one, and no word where nothing can be kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from lark import Lark

from fedkg_compiler.syntax.grammar import build_parser, keywords
from fedkg_compiler.syntax.table import cache_folder, kept

TEXT = 'rule a "T" kind causal require if x in A, "B" then all of (y(?p) >= 1.5 bar) over ?p in class plant:Pump'


class Builds:
    """A builder that counts."""

    def __init__(self, grammar: str = 'statement: "a" "b"\n') -> None:
        self.grammar, self.count = grammar, 0

    def __call__(self) -> Lark:
        self.count += 1
        return Lark(self.grammar, parser="lalr", start="statement", propagate_positions=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedkg"
    return tmp_path / "fedkg"


def test_a_kept_parser_is_the_parser(folder: Path) -> None:
    built = build_parser()
    assert kept(lambda: built, b"1") is built
    (path,) = folder.iterdir()
    read = kept(build_parser, b"1")
    assert read is not built
    assert read.parse(TEXT) == built.parse(TEXT)
    assert [(one.name, one.priority, one.pattern.to_regexp()) for one in read.terminals] == [
        (one.name, one.priority, one.pattern.to_regexp()) for one in built.terminals
    ]
    tokens = list(read.parse_interactive(TEXT).iter_parse())
    assert [str(token) for token in tokens[:3]] == ["rule", "a", '"T"']
    assert (path.name.startswith("parser-"), "require" in keywords().values()) == (True, True)


def test_another_grammar_or_code_is_another_table(folder: Path) -> None:
    one, two = Builds(), Builds('statement: "c"\n')
    kept(one, one.grammar.encode(), b"code")
    kept(one, one.grammar.encode(), b"code")
    kept(two, two.grammar.encode(), b"code")
    assert kept(two, two.grammar.encode(), b"code").parse("c").data == "statement"
    kept(one, one.grammar.encode(), b"other code")
    assert (one.count, two.count, len(list(folder.iterdir()))) == (2, 1, 3)


@pytest.mark.parametrize("damage", ["short", "empty", "a letter", "rubbish of the right hash"])
def test_a_damaged_table_is_built_anew(folder: Path, damage: str) -> None:
    build = Builds()
    kept(build, b"1")
    (path,) = folder.iterdir()
    body = path.read_bytes()
    path.write_bytes(
        {
            "short": body[:-10],
            "empty": b"",
            "a letter": body[:200] + b"\xff" + body[201:],
            "rubbish of the right hash": hashlib.sha256(b"rubbish").digest() + b"rubbish",
        }[damage]
    )
    assert kept(build, b"1").parse("ab").data == "statement"
    assert build.count == 2
    kept(build, b"1")
    assert build.count == 2


def test_where_nothing_can_be_kept_it_is_built_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    build = Builds()
    for count in (1, 2):
        assert kept(build, b"1").parse("ab").data == "statement"
        assert build.count == count
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert kept(build, b"1").parse("ab").data == "statement"
