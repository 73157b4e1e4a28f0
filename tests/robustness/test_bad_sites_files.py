"""Wrong sites files end in an error of fedkg, never in another exception."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedkg
from fedkg.errors import FedkgError
from fedkg.pack import DataContract
from fedkg.sites import load_sites, read_site

RULES = """
timeline time column "time" step 1 h
signal pressure in bar column "p [bar]"
signal valve in boolean column "valve"
signal grade column "grade"
rule a require pressure <= 8 bar
rule b require pressure - pressure 1 h ago <= 7 bar
rule c require if valve is true then pressure <= 7 bar
rule d require if grade is good then pressure <= 7 bar
"""

COLUMNS: list[dict[str, Any]] = [
    {
        "name": "time",
        "titles": ["t"],
        "datatype": {"base": "datetime", "format": "dd/MM/yy HH"},
        "timezone": "UTC",
    },
    {"name": "pressure", "titles": "P [mbar]", "unit": "psi", "null": "q"},
    {"name": "valve", "titles": "V", "datatype": {"base": "boolean", "format": "AUF|ZU"}},
    {"name": "grade", "titles": {"en": ["G"]}, "values": {"a": "good"}, "default": "b"},
    {"name": "m", "virtual": True, "default": "k"},
]

GOOD: dict[str, Any] = {
    "null": ["-"],
    "sites": {
        "a": {
            "url": ["a.csv"],
            "dialect": {
                "delimiter": ";",
                "encoding": "utf-8",
                "quoteChar": '"',
                "commentPrefix": "#",
                "headerRowCount": 2,
                "skipRows": 1,
            },
            "null": ["x"],
            "datatype": {"decimalChar": ",", "groupChar": "."},
            "timezone": "Europe/Vienna",
            "tableSchema": {"primaryKey": ["time"], "columns": COLUMNS},
            "settings": {"machines": ["a"], "batch": 3},
        }
    },
}

VALUES: list[Any] = [
    None, 0, 1, -1, 1.5, 20, 10**30, True, False, [], {}, ["a", "b"], {"a": 1}, [1, 2], [None],
    "", ".", ",", ";", "'", '"', "\t", "\n", "\0", "a", "ü", "x" * 5000, "\ud800",
    "utf-16", "hex", "utf-7", "%d", "dd", "''", "d/M/yy H", "yyyy-MM-ddT", "a|a", "|",
    "psi", "K", "1/", "N.m^99", "Wien", "/etc", "..", "time", "p [bar]", "date", "number", "string",
]  # fmt: skip

BODIES = [
    "r\nt;P;V;G\n;mbar;;\n04/07/16 00;1.005,2;AUF;a\n04/07/16 01;q;ZU;\n",
    "",
    "t;P\n",
    '"a;\n"b',
    "t;t;t\n1;2;3\n4;5;6\n",
]


@pytest.fixture(scope="module")
def contract() -> DataContract:
    return fedkg.compile(text=RULES).manifest.contract


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from places(item, (*path, key))
    for key, item in enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


def damaged(dice: random.Random) -> Any:
    document = json.loads(json.dumps(GOOD))
    for _ in range(dice.choice([1, 1, 2, 4])):
        found = list(places(document))
        if not found:
            break
        *path, last = dice.choice(found)
        inner = document
        for key in path:
            inner = inner[key]
        if dice.random() < 0.2:
            inner.pop(last)
        else:
            inner[last] = dice.choice(VALUES)
    return document


def test_the_undamaged_file_is_read(tmp_path: Path, contract: DataContract) -> None:
    (tmp_path / "a.csv").write_text(BODIES[0], encoding="utf-8")
    (tmp_path / "s.yaml").write_text(json.dumps(GOOD), encoding="utf-8")
    table = read_site(load_sites(tmp_path / "s.yaml"), "a", contract).table
    assert table.headers == ("time", "p [bar]", "valve", "grade", "m")
    assert table.rows == 2


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_give_errors_of_fedkg(
    suffix: str, tmp_path: Path, contract: DataContract
) -> None:
    read, codes = 0, set()
    for seed in range(400):
        dice = random.Random(seed)
        document = damaged(dice)
        body = BODIES[0] if dice.random() < 0.7 else dice.choice(BODIES)
        (tmp_path / "a.csv").write_text(body, encoding="utf-8")
        (tmp_path / f"s.{suffix}").write_text(json.dumps(document), encoding="utf-8")
        try:
            sites = load_sites(tmp_path / f"s.{suffix}")
            for name in sites.sites:
                read_site(sites, name, contract)
                read_site(sites, name)
                read += 1
        except FedkgError as error:
            codes.add(error.exit_code)
    assert 0 < read < 400
    assert codes == {1}
