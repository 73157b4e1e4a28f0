"""What a draft of a sites file finds in a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.sites import draft_sites, load_sites, read_site
from fedkg.sites.draft import find_header, match_tags

DAYS = "2024-01-01;1,5;3;x\n2024-01-02;1,5;4;y\n2024-01-03;2,5;4;y\n"

LAYOUTS = {
    "plain": ("Zeit;P;T;K\n" + DAYS, 0, 1, ["Zeit", "P", "T", "K"]),
    "names and units": (
        "Zeit;P;T;K\n;bar;[°C];\n" + DAYS,
        0,
        2,
        ["Zeit", "P [bar]", "T [°C]", "K"],
    ),
    "merged groups": (
        "Zeit;Ofen;;Text\n;Druck;Temp;\n" + DAYS,
        0,
        2,
        ["Zeit", "Ofen Druck", "Ofen Temp", "Text"],
    ),
    "groups, names and units": (
        "Zeit;Ofen;;Text\n;P;T;\n;bar(ü);°C;\n" + DAYS,
        0,
        3,
        ["Zeit", "Ofen P [bar(ü)]", "Ofen T [°C]", "Text"],
    ),
    "titles in pairs": (
        "Werk;Graz;;\nDatum;4.7.2016;;\n\nZeit;P;T;K\n" + DAYS,
        3,
        1,
        ["Zeit", "P", "T", "K"],
    ),
    "a title with a line break": (
        '"Bericht\nvom Montag";;;\nZeit;P;T;K\n' + DAYS,
        2,
        1,
        ["Zeit", "P", "T", "K"],
    ),
    "a stated separator": ("sep=;\nBericht;\nZeit;P;T;K\n" + DAYS, 2, 1, ["Zeit", "P", "T", "K"]),
    "no header": (DAYS, 0, 0, ["column 1", "column 2", "column 3", "column 4"]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_header_is_found(layout: str, tmp_path: Path) -> None:
    body, skipped, rows, headers = LAYOUTS[layout]
    path = tmp_path / "a.csv"
    path.write_text(body, encoding="utf-8")
    found = find_header(path)
    assert (found.skip_rows, found.header_rows) == (skipped, rows)
    (tmp_path / "s.yaml").write_text(draft_sites([path], tmp_path), encoding="utf-8")
    table = read_site(load_sites(tmp_path / "s.yaml"), "a").table
    assert list(table.headers) == headers
    assert table.rows == 3
    assert table.numbers(headers[1]).tolist() == [1.5, 1.5, 2.5]
    assert table.texts(headers[0])[0] == "2024-01-01 00:00:00"


COLUMNS = [
    ("p", ["1'234.5", "12.25", "7'000.0"], 'datatype: {decimalChar: ".", groupChar: "\'"}'),
    ("Druck bar(ü)", ["1.5", "2.5", "3.5"], 'unit: "bar(ü)"'),
    ("P [PSI]", ["1.5", "2.5", "3.5"], "# state the unit: PSI is absolute for some"),
    ("V", ["Offen", "Zu", "Zu"], 'format: "Offen|Zu"'),
    ("V", ["AUF", "ZU", "halb"], "datatype: {base: string}}  # text: AUF, ZU, halb"),
    ("t", ["04/07/16 00", "05/07/16 01", "06/08/16 02"], "day first or month first?"),
    ("t", ["04/07/16 00", "13/07/16 01", "14/07/16 02"], 'format: "dd/MM/yy HH"}}\n'),
    ("t", ["07/13/2016 1:05 PM", "07/14/2016 2:05 PM"], 'format: "MM/dd/yyyy h:mm a"'),
    ("t", ["04.07.2016 09:05:07,250", "05.07.2016 09:05:07,500"], '"dd.MM.yyyy HH:mm:ss,S"'),
    ("t", ["2016-07-04T09:05:00Z", "2016-07-04T09:05:00Z"], "HH:mm:ssXXX"),
    ("n", ["1.5"] * 9 + ["Wartung"], "null: [Wartung]}  # are these words missing values?"),
    ("on", ["a", "b", "c"], '{name: "on", titles: "on"'),
    ("leer", ["", "", ""], "{name: leer, titles: leer}  # no known value"),
]


@pytest.mark.parametrize(("header", "cells", "drafted"), COLUMNS)
def test_a_column_is_described(header: str, cells: list[str], drafted: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{header};x", *(f"{cell};1.5" for cell in cells)]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    text = draft_sites([path], tmp_path)
    assert drafted in text
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert read_site(load_sites(tmp_path / "s.yaml"), "a").table.rows == len(cells)


def test_a_tag_is_the_start_of_one_header() -> None:
    headers = ["TIC101 [°C]", "TIC1012", "PIC7.PV", "PIC7.SP", "fi9 flow", "LIC3"]
    assert match_tags(["TIC101", "PIC7", "FI9", "LIC3"], headers) == {
        "TIC101 [°C]": "TIC101",
        "fi9 flow": "FI9",
        "LIC3": "LIC3",
    }


def test_sites_with_equal_file_names_get_different_names(tmp_path: Path) -> None:
    paths = []
    for folder in ("north", "south"):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "export 1.csv")
        paths[-1].write_text("x\n1\n2\n", encoding="utf-8")
    (tmp_path / "s.yaml").write_text(draft_sites(paths, tmp_path), encoding="utf-8")
    sites = load_sites(tmp_path / "s.yaml").sites
    assert list(sites) == ["export 1", "export 1 2"]
