"""The parser's table that ships matches the grammar.

fedkg never uses a stale one, and reading with it gives lark's results.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lark import Token as LarkToken
from lark import UnexpectedInput, UnexpectedToken

from fedkg_compiler.frontends.fkg.syntax import grammar
from fedkg_compiler.frontends.fkg.syntax import parse_table as tables
from fedkg_compiler.frontends.fkg.syntax import parse_table_generator as making
from fedkg_compiler.frontends.fkg.syntax.lalr import Automaton, Reading, read
from fedkg_compiler.frontends.fkg.syntax.parse_tree_nodes import Leaf, Token
from fedkg_compiler.frontends.fkg.syntax.split import split

ROOT = Path(__file__).parents[3]
TEXT = (
    'rule a "T" kind causal require if x in A, "B" then all of (y(?p) >= 1.5 bar) over ?p in class'
    " plant:Pump"
)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the table's file, from which the table is read."""
    copy = tmp_path / tables.FILE.name
    copy.write_bytes(tables.FILE.read_bytes())
    monkeypatch.setattr(tables, "FILE", copy)
    tables.table.cache_clear()
    yield copy
    tables.table.cache_clear()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often lark builds a table."""
    count: list[int] = []
    make = making.make_table

    def counted() -> dict[str, Any]:
        count.append(1)
        return make()

    monkeypatch.setattr(making, "make_table", counted)
    return count


def test_the_shipped_table_is_that_of_the_grammar() -> None:
    generator = "python -m fedkg_compiler.frontends.fkg.syntax.parse_table_generator"
    said = f"the grammar has changed: {generator}"
    assert tables.FILE.read_text(encoding="utf-8") == making.table_text(), said


def test_the_shipped_table_is_taken(shipped: Path, made: list[int]) -> None:
    assert read(TEXT).tree is not None
    assert not made


@pytest.mark.parametrize("wrong", ["stale", "short", "empty", "missing"])
def test_a_table_that_is_not_that_of_the_grammar_is_made_anew(
    shipped: Path, made: list[int], wrong: str
) -> None:
    body = shipped.read_bytes()
    match wrong:
        case "stale":
            shipped.write_text(
                json.dumps(json.loads(body) | {"made_from": "another grammar", "states": [{}]}),
                encoding="utf-8",
            )
        case "short":
            shipped.write_bytes(body[:-10])
        case "empty":
            shipped.write_bytes(b"")
        case _:
            shipped.unlink()
    assert read(TEXT).tree is not None
    assert read(TEXT).tree is not None
    assert made == [1]


def test_a_changed_grammar_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = grammar.fingerprint()
    changed = tmp_path / "fkg.lark"
    changed.write_text(grammar.grammar_text() + "// more\n", encoding="utf-8")
    monkeypatch.setattr(grammar, "GRAMMAR", changed)
    assert grammar.fingerprint() != before


def test_the_table_does_not_depend_on_the_order_of_hashes() -> None:
    code = (
        "import hashlib;"
        "from fedkg_compiler.frontends.fkg.syntax.parse_table_generator import table_text;"
        " print(hashlib.sha256(table_text().encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def shape(leaf: Leaf | Any) -> Any:
    """A tree of ours, or one of lark's (`Any`), as nested tuples."""
    if isinstance(leaf, Token | LarkToken):
        return leaf.type, str(leaf), leaf.start_pos, leaf.end_pos
    at = getattr(leaf, "meta", leaf)
    return str(leaf.data), at.start_pos, at.end_pos, [shape(child) for child in leaf.children]


def by_lark(lark: Any, text: str) -> tuple[Any, list[Any], int | None, frozenset[str]]:
    """What lark (`Any`: untyped) makes of a statement.

    The tree, the tokens before it stops, where it stops, and what it expects there.
    """
    parser = lark.parse_interactive(text)
    tokens: list[Any] = []
    tree, stopped = None, None
    try:
        tokens.extend(parser.iter_parse())
        tree = shape(parser.feed_eof(tokens[-1] if tokens else None))
    except UnexpectedToken as error:
        stopped = None if error.token.type == "$END" else error.token.start_pos
        if tokens and error.token is tokens[-1]:
            tokens.pop()
    except UnexpectedInput as error:
        stopped = error.pos_in_stream
    again = lark.parse_interactive("")
    for token in tokens:
        again.feed_token(token)
    return tree, [shape(token) for token in tokens], stopped, frozenset(again.accepts())


def by_us(text: str) -> tuple[Any, list[Any], int | None, frozenset[str]]:
    """The same result from our reader."""
    reading: Reading = read(text)
    tree = None if reading.tree is None else shape(reading.tree)
    return (
        tree,
        [shape(token) for token in reading.tokens],
        reading.stopped,
        Automaton(tables.table(), reading.tokens).accepts(),
    )


def statements() -> Iterator[str]:
    """Statements of the rule library, the examples and the test cases of invalid rules.

    Some also have a second form, with a word too many, too few or in a wrong place.
    """
    source = random.Random(3)
    for path in sorted(
        [
            *ROOT.glob("rules/**/*.fkg"),
            *ROOT.glob("examples/**/*.fkg"),
            *ROOT.glob("tests/golden/**/*.case"),
        ]
    ):
        for chunk in split(path.read_text(encoding="utf-8", errors="replace"), path.name):
            if len(chunk.text) > 600 or source.random() > 0.2:
                continue
            yield chunk.text
            words = re.findall(r"\s+|\w+|.", chunk.text)
            place = source.randrange(len(words))
            words[place : place + source.randrange(2)] = [source.choice(words)] * source.randrange(
                2
            )
            yield "".join(words)


def test_statements_are_read_as_lark_reads_them() -> None:
    lark = making.build_parser()
    whole, broken = 0, 0
    for text in [TEXT, "", "rule", "  # nothing", *statements()]:
        theirs, ours = by_lark(lark, text), by_us(text)
        assert ours == theirs, text
        whole, broken = whole + (ours[0] is not None), broken + (ours[0] is None)
    assert whole > 150
    assert broken > 150
