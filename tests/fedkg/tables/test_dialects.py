"""Tables in many dialects read back equal; fedkg reports the detected dialect."""

from __future__ import annotations

import csv
import gzip
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.errors import TableError
from fedkg.tables import Table, read_bytes, read_table
from fedkg.tables.numerals import DecimalMark, parse_numbers

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252")

names = st.text("abcdefgxyzÄöüß° []/.-_'#", min_size=1, max_size=12).map(
    lambda text: "c" + " ".join(text.split())
)
headers = st.lists(names, min_size=2, max_size=6, unique=True)
numbers = st.one_of(
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 4)),
    st.integers(-5000, 5000).map(float),
    st.just(math.nan),
)


def written(
    header: list[str],
    rows: list[list[str]],
    *,
    separator: str,
    encoding: str,
    ending: str,
    quoting: int,
    zipped: bool,
) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=separator, lineterminator=ending, quoting=quoting)
    writer.writerow(header)
    writer.writerows(rows)
    body = out.getvalue().encode(encoding)
    return gzip.compress(body) if zipped else body


@tries(75)
@given(data=st.data())
def test_numbers_read_back_equal_in_every_dialect(data: st.DataObject) -> None:
    header = data.draw(headers)
    values = data.draw(
        st.lists(
            st.lists(numbers, min_size=len(header), max_size=len(header)), min_size=1, max_size=12
        )
    )
    separator = data.draw(st.sampled_from([",", ";", "\t", "|"]))
    comma = separator != "," and data.draw(st.booleans())
    empty = data.draw(
        st.sampled_from(
            [
                "",
                "NaN",
                "Bad",
                "No Data",
                "n/a",
                "-",
                "#N/A",
                "I/O Timeout",
                "bad input",
                "Calc Failed",
            ]
        )
    )
    # at least one of two decimals must be unambiguous: three digits after the mark and no other
    # hint is ambiguous
    decimals = data.draw(st.sampled_from([1, 2, 4]))

    def text(value: float) -> str:
        return (
            empty
            if math.isnan(value)
            else f"{value:.{decimals}f}".replace(".", "," if comma else ".")
        )

    body = written(
        header,
        [[text(value) for value in row] for row in values],
        separator=separator,
        encoding=data.draw(st.sampled_from(ENCODINGS)),
        ending=data.draw(st.sampled_from(["\n", "\r\n"])),
        quoting=data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        zipped=data.draw(st.booleans()),
    )
    table = read_bytes(body, "t.csv")
    assert table.headers == tuple(header)
    assert table.rows == len([row for row in values if empty or not all(map(math.isnan, row))])
    kept = [row for row in values if empty or not all(map(math.isnan, row))]
    for i, name in enumerate(header):
        expected = np.array([round(row[i], decimals) for row in kept])
        np.testing.assert_allclose(table.numbers(name), expected, rtol=0, atol=1e-12)


words = st.text("abcXYZäß ,;|\t\"'\n0123456789", max_size=10).map(str.strip)


@tries(50)
@given(data=st.data())
def test_texts_read_back_equal_whatever_stands_in_them(data: st.DataObject) -> None:
    width = data.draw(st.integers(2, 5))
    header = [f"head {i}" for i in range(width)]
    cell = words.map(lambda text: "w" + text)
    rows = data.draw(
        st.lists(st.lists(cell, min_size=width, max_size=width), min_size=2, max_size=8)
    )
    separator = data.draw(st.sampled_from([",", ";", "\t", "|"]))
    body = written(
        header,
        rows,
        separator=separator,
        encoding="utf-8",
        ending="\n",
        quoting=csv.QUOTE_ALL,
        zipped=False,
    )
    table = read_bytes(body, "t.csv")
    assert table.headers == tuple(header)
    for i, name in enumerate(header):
        assert table.texts(name) == [row[i].strip() for row in rows]


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("Zeit;Druck\n1;2,5\n2;3,75\n", ";", ","),
        ("a;b\n1.234,5;2\n0,5;3\n", ";", ","),
        ("a,b\n1.5,2\n", ",", "."),
        ('a,b\n"1,234.5",2\n', ",", "."),
        ("a\tb\n1,5\t2\n", "\t", ","),
        ("a|b\n1.5|2\n", "|", "."),
        ("sep=;\na;b\n1,5;2\n", ";", ","),
        ("Druck\n1,5\n2,75\n", ";", ","),
        ("a,b\nx|y,1\nx|z,2\n", ",", "."),
        ("a;b\n1,234;5,678\n", ";", ","),
        ("a,b\n1.234,5.678\n", ",", "."),
    ],
)
def test_separator_and_decimal_mark_are_found(text: str, separator: str, decimal: str) -> None:
    found = read_bytes(text.encode(), "t.csv").found
    assert (found.separator, found.decimal) == (separator, decimal)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1.234,5", "0,25", "12"], [1234.5, 0.25, 12]),
        (["1.234.567", "1.234"], [1234567, 1234]),
        (["1 234,5", "−3,25"], [1234.5, -3.25]),
        (["1'234.5", "2’000"], [1234.5, 2000]),
        (["1,234.50", "2,000"], [1234.5, 2000]),
        (["1e3", "2.5E-2", "+7"], [1000, 0.025, 7]),
        (["1,5e3", "0,1"], [1500, 0.1]),
        ([".5", "-,5", "5."], None),
        (["0.123", "1.234"], [0.123, 1.234]),
        (["1e999", "Infinity", "1"], [math.nan, math.nan, 1]),
    ],
)
def test_numbers_as_people_write_them(cells: list[str], expected: list[float] | None) -> None:
    table = Table.of("t", {"x": cells})
    if expected is None:
        with pytest.raises(TableError):
            table.numbers("x")
    else:
        np.testing.assert_array_equal(table.numbers("x"), expected)


@pytest.mark.parametrize(
    "text", ["1_000", "12abc", "1.5 bar", "1,2,3", "12:30", "0x10", "1.2.3", "45%"]
)
def test_other_text_is_no_number(text: str) -> None:
    with pytest.raises(TableError) as caught:
        Table.of("plant.csv", {"Druck": ["1", "2", text, "x"]}).numbers("Druck")
    message = str(caught.value)
    assert "plant.csv" in message
    assert "`Druck`" in message
    assert "row 3" in message
    assert f'"{text}"' in message


def test_a_cell_that_is_neither_yes_nor_no_is_the_one_that_is_named() -> None:
    cells = ["yes", "Y", "no", "", "FALSE", "maybe", "no", "2", "nein", "ja"]
    with pytest.raises(TableError, match=r"`a` has cells that are neither yes nor no") as caught:
        read_bytes(
            "\n".join(["i;a", *(f"{i};{cell}" for i, cell in enumerate(cells))]).encode(), "t.csv"
        ).numbers("a")
    assert caught.value.received == '"maybe" in row 6 (line 7), and 1 more such row'
    with pytest.raises(TableError, match=r"`a` has text where numbers are needed"):
        read_bytes(b"i;a\n1;1\n2;0\n3;1\n4;high", "t.csv").numbers("a")


def test_a_column_keeps_its_own_decimal_mark_and_that_is_reported() -> None:
    table = read_bytes(b"a;b;c;d\n1,5;2.25;1.234;0,1\n2,5;3.5;5.678;0,2\n", "t.csv")
    assert table.found.decimal == ","
    np.testing.assert_array_equal(table.numbers("b"), [2.25, 3.5])
    np.testing.assert_array_equal(table.numbers("c"), [1234, 5678])
    assert "decimal point in `b`" in table.found.describe()
    assert "`1.234` read as 1234 in `c`" in table.found.describe()


def test_two_decimal_marks_in_one_column_are_rejected_at_the_odd_one() -> None:
    table = read_bytes(b"a;b\n1,5;1,5\n2,5;2,5\n3,5;3.5\n", "t.csv")
    with pytest.raises(TableError, match=r'"3\.5" in row 3 \(line 4\)'):
        table.numbers("b")


def test_encoding_is_found_and_umlauts_survive() -> None:
    for encoding in ("cp1252", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
        table = read_bytes("Größe;Temperatur [°C]\n1;2\n".encode(encoding), "t.csv")
        assert table.headers == ("Größe", "Temperatur [°C]")
        assert table.found.encoding == encoding.removesuffix("-sig")


def test_file_names_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "export.dat"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(path).headers == ("a", "b")


@pytest.mark.parametrize("usual", [".", ","])
@pytest.mark.parametrize(("many", "one"), [("232,5", "12.5"), ("232.5", "12,5")])
def test_of_a_few_cells_in_another_hand_it_is_these_that_are_wrong(
    usual: DecimalMark, many: str, one: str
) -> None:
    found = parse_numbers([many, many, one, many], usual)
    assert found.wrong == (2,)
    assert found.values[[0, 1, 3]].tolist() == [232.5] * 3
