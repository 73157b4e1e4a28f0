"""The fast reader of texts with a known form gives the result of the ordinary one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg_compiler.graph.sparql_syntax.query_form_and_constants import Reader
from fedkg_compiler.graph.sparql_syntax.tokens import tokens

PIECES = (
    *("?m", "$x1", "?1", "p:torque", "p:a.b", "p:caf\u00e9", ":x", "p:", "a", "<http://e/#x>"),
    *("<=", "<", "?a<?b&&?c>5", "1.1", "-5", "5."),
    *('"text"', "'it''s'", '"a\\"b"', '"x"@en', '"5"^^p:int', '"""long "one" """', "''"),
    *("# say p:x 5\n", "_:b1", "x5", "p:x-5", "p:x%20y"),
    *("{", "}", "(", ")", ".", ";", ",", "^", "/", "*", "FILTER", "SELECT"),
    *("PREFIX q: <http://q/>", "\n", "!", "=", "2e3"),
)  # fmt: skip
HEADS = (
    "",
    "# title: x\n",
    "PREFIX p: <http://e/#>\n",
    "# one\nPREFIX p: <http://e/#>\nprefix : <http://f/>\n",
    "BASE <http://b/>\n",
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    head=st.sampled_from(HEADS),
    pieces=st.lists(st.sampled_from(PIECES), max_size=14),
    others=st.lists(st.sampled_from(PIECES), max_size=3),
    gap=st.sampled_from((" ", "", "\n")),
)
def test_quickly_and_slowly_is_the_same(
    head: str, pieces: list[str], others: list[str], gap: str
) -> None:
    """The reader has seen a text of other pieces, and this one, before it reads this one again."""
    text = head + gap.join(pieces)
    reader = Reader({"p": "http://e/#"})
    for seen in (head + gap.join([*others, *pieces[len(others) :]]), text):
        reader.read(seen)
    query = reader.read(text)
    words = [word for word in tokens(text) if word.start >= query.body]
    alone = Reader({"p": "http://e/#"})._slowly(text)
    for one in ("prefixes", "base"):
        assert getattr(query.prologue, one) == getattr(alone.prologue, one)
    assert (query.form.shape, query.constants) == (alone.form.shape, alone.constants)
    assert [word.kind for word in words] == list(query.form.kinds)
    assert [words[i].text for i in query.form.holes] == list(query.constants)


@pytest.mark.parametrize("text", ['"""a"b""c"""', "'''a'b''c'''", '"""a\n\\"""b"""', '""', "'a'"])
def test_a_string_is_one_token(text: str) -> None:
    assert [one.text for one in tokens(f"{text} .")] == [text, "."]
