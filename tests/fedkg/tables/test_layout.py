"""Lines around the data, raw headers, rows of unequal length, broken files."""

from __future__ import annotations

import gzip
import io
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedkg._internal.graph_syntax import graph_syntax
from fedkg.errors import TableError
from fedkg.tables import Dialect, read_bytes, read_table


def test_lines_before_the_header_and_closing_lines_are_left_out_and_said() -> None:
    text = (
        "Bericht;;\nWerk Graz\n\nZeit;Druck [bar];Temp\n2024-01-01 00:00;1,5;20\n2024-01-01"
        " 00:01;1,7;21\n"
    )
    text += "\nSumme;3,2;41\nEnde des Berichts\n"
    table = read_bytes(text.encode(), "b.csv")
    assert table.headers == ("Zeit", "Druck [bar]", "Temp")
    assert table.rows == 2
    assert table.found.header_line == 4
    assert table.lines.tolist() == [5, 6]
    said = table.found.describe()
    assert "2 lines before the header skipped" in said
    assert '2 closing lines left out, from line 8: "Summe 3,2 41"' in said


def test_a_row_of_units_is_no_data() -> None:
    table = read_bytes(b"Zeit;Druck;Strom\n[s];[bar];[A]\n0;1,5;2\n1;1,6;3\n", "u.csv")
    np.testing.assert_array_equal(table.numbers("Druck"), [1.5, 1.6])
    assert "row of units" in table.found.describe()
    assert table.where(0) == "row 1 (line 3)"


@pytest.mark.parametrize(
    "header",
    [
        *("<DATE>,<OPEN>", "<DATE>\t<OPEN>", "p:max,p:min", "p:max\tp:min", "[bar],[K]"),
        *("<t>\t<m/s>\t<bar>", "<DATE> <HH:MM>", "<id>\ta\tb", "[]\ta\tb", "<<Date>>;<<HH:MM>>"),
        *("Prefix,Base", "Prefix (mm),Length", "Ontology (GO),Count", "Prefix: PLC1"),
    ],
)
def test_headers_with_marks_of_turtle_are_headers(header: str) -> None:
    assert read_bytes(f"{header}\n1{header[6:7]}2\n".encode(), "t.csv").headers


@pytest.mark.parametrize(
    "text",
    [
        *(
            "<http://x/a> <urn:p> 1 .",
            "_:b a :B .",
            "[] a [] .",
            "[] <http://x/p> 1 .",
            "[ a <B> ] .",
        ),
        *("<a> { <b> a <c> }", "{ <a> a <b> }", "<< <a> <b> 1 >> a <c> .", "<<:a :b 1>> :p 2 ."),
        *("PREFIX : <x>\n:a :b 1 .", '[{"@id": "x"}]', "<rdf:RDF >", "format-version: 1.2\n"),
        *("Prefix(:=<http://x/>)", "Ontology()", "Ontology(Declaration(Class(<http://x/A>)))"),
        *("Prefix: : <http://x/>", "Ontology: <http://x>", "Ontology:\nClass: A"),
    ],
)
def test_the_beginning_of_a_graph_is_not_a_header(text: str) -> None:
    with pytest.raises(TableError, match="is not a table"):
        read_bytes(text.encode(), "t.csv")
    assert read_bytes(text.encode(), "t.csv", dialect=Dialect(header_rows=1)).headers


@pytest.mark.parametrize("text", ["\n" * 1_000_000, "<" + "a:" * 500_000, "[" + " " * 1_000_000])
def test_a_long_beginning_takes_no_long_time(text: str) -> None:
    start = time.process_time()
    assert graph_syntax(text) is None
    assert time.process_time() - start < 2


def test_text_in_the_first_row_is_data_not_units() -> None:
    table = read_bytes(b"a,b\nabc,1\n1,2\n2,3\n", "u.csv")
    with pytest.raises(TableError, match=r"row 1 \(line 2\)"):
        table.numbers("a")


def test_headers_with_line_breaks_quotes_and_blanks() -> None:
    table = read_bytes(b'"Torque\n[Nm]";" Speed  [1/min] ";"say ""x"""\n1;2;3\n', "h.csv")
    assert table.headers == ("Torque [Nm]", "Speed [1/min]", 'say "x"')
    assert "Torque\n[Nm]" in table
    assert table.lines.tolist() == [3]


def test_duplicate_and_empty_headers() -> None:
    table = read_bytes(b"a,a,,a (2),b,\n1,2,3,4,5,\n", "d.csv")
    assert table.headers == ("a", "a (3)", "column 3", "a (2)", "b")
    assert table.found.duplicates == ("a",)
    assert "duplicate headers: `a`" in table.found.describe()


def test_a_table_without_header_row() -> None:
    table = read_bytes(b"1,2,3\n4,5,6\n", "n.csv")
    assert table.headers == ("column 1", "column 2", "column 3")
    assert table.rows == 2
    assert table.found.header_line is None
    assert "no header row" in table.found.describe()


def test_a_header_alone_is_a_table_of_no_rows() -> None:
    table = read_bytes(b"a,b\n", "e.csv")
    assert (table.headers, table.rows) == (("a", "b"), 0)
    assert "no data rows" in table.found.describe()
    assert table.numbers("a").shape == (0,)


def test_short_rows_are_filled_and_said() -> None:
    table = read_bytes(b"a,b,c\n1,2,3\n4,5\n6,7,8\n", "r.csv")
    np.testing.assert_array_equal(table.numbers("c"), [3, np.nan, 8])
    assert "1 row shorter than the header, the first in line 3" in table.found.describe()


def test_a_long_row_among_many_becomes_unknown() -> None:
    body = "a,b\n" + "1,2\n" * 50 + "1,2,3\n" + "1,2\n"
    table = read_bytes(body.encode(), "r.csv")
    assert np.isnan(table.numbers("a")).sum() == 1
    assert "1 row longer than the header, the first in line 52" in table.found.describe()


def test_decimal_commas_between_commas_are_rejected_with_the_reason() -> None:
    with pytest.raises(TableError, match="decimal comma"):
        read_bytes(b"a,b\n1,5,2,5\n2,5,3\n4,6\n", "c.csv")


def test_trailing_separators_are_no_columns() -> None:
    assert read_bytes(b"a;b;\n1;2;\n", "t.csv").headers == ("a", "b")
    assert read_bytes(b"a;b\n1;2;\n3;4;\n5;6;\n", "t.csv").rows == 3


def test_blank_lines_are_skipped_and_lines_stay_right() -> None:
    table = read_bytes(b"a,b\n1,2\n\n,\n3,x\n", "t.csv")
    assert table.lines.tolist() == [2, 5]
    assert "2 blank lines skipped" in table.found.describe()


@pytest.mark.parametrize("body", [b"", b"\n\n  \n", b"\xef\xbb\xbf", b";;;\n;;;\n"])
def test_an_empty_file_says_so(body: bytes) -> None:
    with pytest.raises(TableError, match=r"empty\.csv is empty"):
        read_bytes(body, "empty.csv")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (bytes(range(256)) * 20, "no table|not a table"),
        (b"\x1f\x8b\x08broken", "gzip"),
        (gzip.compress(b"a,b\n1,2\n" * 100, mtime=0)[:-20], "gzip"),
        (b"PAR1 and then nothing", "Parquet"),
        (b"PK\x03\x04 and then nothing", "zip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 old", "xls"),
        (b'a,b\n1,"2\n' + b"3,4\n" * 500, "line 2 has no end"),
        (b"\0\1\2" * 500, "not a table"),
    ],
)
def test_broken_files_end_in_one_clear_message(body: bytes, reason: str) -> None:
    with pytest.raises(TableError, match=reason) as caught:
        read_bytes(body, "broken.file")
    assert "broken.file" in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(TableError, match="cannot read table"):
            read_table(path)


def test_a_zip_with_one_table_in_it() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("inner.csv", "a;b\n1,5;2\n")
    assert read_bytes(out.getvalue(), "t.zip").headers == ("a", "b")


def test_zip_files_without_one_readable_table() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
    body = out.getvalue()
    locked = bytearray(body)
    locked[6] |= 1  # the flag of encryption, in the header of the file
    locked[body.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    with pytest.raises(TableError, match="cannot be expanded"):
        read_bytes(bytes(locked), "t.zip")
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.gz", "")
    with pytest.raises(TableError, match=r"received: a\.gz"):
        read_bytes(out.getvalue(), "t.zip")


def test_a_missing_column_names_the_nearest() -> None:
    table = read_bytes(b"Torque [Nm],Tool wear [min]\n1,2\n", "ai.csv")
    with pytest.raises(TableError) as caught:
        table.numbers("torque (Nm)")
    assert "ai.csv: no column `torque (Nm)`" in str(caught.value)
    assert "did you mean `Torque [Nm]`?" in str(caught.value)


def test_truth_words_are_ones_and_zeros() -> None:
    table = read_bytes(b"a,b\nja,true\nnein,Bad\nja,0\n", "b.csv")
    np.testing.assert_array_equal(table.numbers("a"), [1, 0, 1])
    np.testing.assert_array_equal(table.numbers("b"), [1, np.nan, 0])
    assert not table.is_numeric("a")


def test_closing_words_in_a_column_of_words_are_data() -> None:
    sheet = read_bytes(b"tag;low;high\nFI-1;0;5\nMax;1;2\nTotal;3;4\n", "limits.csv")
    assert sheet.texts("tag") == ["FI-1", "Max", "Total"]
    machines = read_bytes(b"machine;a;b\nM1;0;5\nM2;1;2\nM3;1;2\n\nSumme;2;9\n", "m.csv")
    assert machines.rows == 3


def test_a_table_of_nothing_but_statistics_is_kept() -> None:
    assert read_bytes(b"what;value\nmean;3\nmin;1\nmax;5\n", "s.csv").rows == 3


def test_numbers_as_headers_and_words_as_data() -> None:
    tags = read_bytes(b"Zeit;101;102\n10:00;1;2\n10:01;3;4\n", "t.csv")
    assert tags.headers == ("Zeit", "101", "102")
    words = read_bytes(b"M1;L;ok;12.5\nM2;L;ok;13.5\nM3;H;ok;11.5\n", "t.csv")
    assert words.rows == 3


def test_very_wide_tables_are_read_in_no_time() -> None:
    width = 20_000
    body = ",".join(f"c{i}" for i in range(width)) + "\n" + ",".join(map(str, range(width))) + "\n"
    assert len(read_bytes(body.encode(), "w.csv").headers) == width
