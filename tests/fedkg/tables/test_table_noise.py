"""Any bytes give a table or a TableError."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import re
import zipfile
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.errors import TableError
from fedkg.tables import read_bytes

T = TypeVar("T")
SEEDS = (
    b"Zeit;Druck [bar];Temp\n01.02.2024 10:00;1,5;20\n01.02.2024 10:01;1,7;Bad\nSumme;3,2;41\n",
    "a,b\n1,2\n3,äöü\n".encode("utf-16"),
    b'"x\n1","y ""z"""\n1,"2\n3"\n',
    gzip.compress(b"a\tb\n1\t2\n" * 5),
)


def try_everything(body: bytes) -> None:
    table = attempt(lambda: read_bytes(body, "noise"), "noise")
    if table is None:
        return
    assert len(set(table.headers)) == len(table.headers)
    assert table.found.describe()
    for header in table.headers:
        assert len(table.texts(header)) == table.rows
        numbers = attempt(partial(table.numbers, header), f"`{header}`")
        assert numbers is None or numbers.shape == (table.rows,)


def attempt(do: Callable[[], T], named: str) -> T | None:
    """The result, or None for a TableError that names its subject.

    Any other exception is the failure that the test looks for.
    """
    with contextlib.suppress(TableError):
        return do()
    with pytest.raises(TableError, match=re.escape(named)):
        do()
    return None


@tries(100)
@given(body=st.binary(max_size=300))
def test_random_bytes(body: bytes) -> None:
    try_everything(body)


@tries(100)
@given(text=st.text("ab1,;|\t\n\r\"'.- äsep=\0", max_size=120))
def test_random_texts(text: str) -> None:
    try_everything(text.encode())


def workbook() -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, 2.5], ["Bad", None]):
        book.active.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def parquet() -> bytes:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": ["x", None]}), out)
    return out.getvalue()


def mutated(body: bytes, dice: random.Random) -> bytes:
    out = bytearray(body)
    for _ in range(dice.randint(1, 6)):
        match dice.randrange(3):
            case 0:
                out[dice.randrange(len(out))] = dice.randrange(256)
            case 1:
                at = dice.randrange(len(out))
                del out[at : at + dice.randint(1, 30)]
            case _:
                at = dice.randrange(len(out))
                out[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 4)))
        if not out:
            break
    return bytes(out)


@pytest.mark.parametrize("kind", ["text", "workbook", "parquet"])
def test_mutated_files(kind: str) -> None:
    dice = random.Random(7)
    seeds = SEEDS if kind == "text" else (workbook(),) if kind == "workbook" else (parquet(),)
    for seed in seeds:
        for _ in range(120):
            try_everything(mutated(seed, dice))


def rezipped(body: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.namelist():
            target.writestr(entry, change(entry, source.read(entry)))
    return out.getvalue()


def test_workbooks_with_broken_parts() -> None:
    whole = workbook()
    half = rezipped(
        whole,
        lambda entry, body: body[: len(body) // 2] if entry.startswith("xl/worksheets") else body,
    )
    with pytest.raises(TableError, match="not a complete Excel workbook"):
        read_bytes(half, "noise.xlsx")
    dice = random.Random(3)
    for _ in range(80):
        try_everything(
            rezipped(
                whole, lambda entry, body: mutated(body, dice) if dice.random() < 0.3 else body
            )
        )
