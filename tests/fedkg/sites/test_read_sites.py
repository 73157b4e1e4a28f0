"""Reading the tables of sites: formats, units, names and zones."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from three_sites import write_sites

import fedkg
from fedkg.errors import FedkgError, TableError, UsageError
from fedkg.pack import DataContract
from fedkg.sites import SiteTable, load_sites, read_site
from fedkg.tables import read_table

RULES = """
timeline time column "time" step 1 h
signal pressure in bar column "p [bar]"
signal temp in degC column "T [degC]"
signal valve in boolean column "valve"
signal grade column "grade"
rule a require pressure <= 8 bar
rule b require temp <= 80 degC and temp 1 h ago <= 90 degC
rule c require if valve is true then pressure <= 7 bar
rule d require if grade is good then pressure <= 7 bar
"""


@pytest.fixture(scope="module")
def contract() -> DataContract:
    return fedkg.compile(text=RULES).manifest.contract


def read(
    folder: Path, sites: str, contract: DataContract | None = None, site: str = "a", **files: str
) -> SiteTable:
    """Write `sites.yaml` and files (`a` becomes a.csv), and read a site."""
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    (folder / "sites.yaml").write_text(sites, encoding="utf-8")
    return read_site(load_sites(folder / "sites.yaml"), site, contract)


def fails(
    folder: Path, sites: str, contract: DataContract | None = None, **files: str
) -> TableError:
    """The error of `read`, whose message never has more than the stated parts."""
    with pytest.raises(TableError) as caught:
        read(folder, sites, contract, **files)
    return caught.value


@pytest.mark.parametrize("site", ["graz", "ohio", "lyon"])
def test_verdicts_equal_those_of_the_plain_table(site: str, tmp_path: Path) -> None:
    write_sites(tmp_path)
    pack = fedkg.compile(tmp_path / "rules.fkg")
    sites = load_sites(tmp_path / "sites.yaml")
    found = fedkg.evaluate(pack, read_site(sites, site, pack.manifest.contract).table)
    plain = fedkg.evaluate(pack, read_table(tmp_path / "plain" / f"{site}.csv"))
    for one, other in zip(found.rules, plain.rules, strict=True):
        assert (one.rule, one.satisfied, one.violated, one.unknown) == (
            other.rule,
            other.satisfied,
            other.violated,
            other.unknown,
        )
        assert one.violated
    own = read_site(sites, site, pack.manifest.contract).table
    table = read_table(tmp_path / "plain" / f"{site}.csv")
    for header in ("p [bar]", "T [degC]"):
        np.testing.assert_array_equal(own.numbers(header), table.numbers(header))


def test_units_convert_to_the_nearest_float(tmp_path: Path, contract: DataContract) -> None:
    table = read(
        tmp_path,
        "sites: {a: {url: a.csv, tableSchema: {columns: ["
        "{name: pressure, titles: P, unit: psi}, {name: temp, titles: T, unit: degF}]}}}",
        contract,
        a="P,T\n100,212\n14.5,-40\n,50\n",
    ).table
    assert table.numbers("p [bar]")[0] == 6.894757293168361
    assert table.numbers("T [degC]").tolist()[:2] == [100.0, -40.0]
    assert math.isnan(table.numbers("p [bar]")[2])


def test_a_column_with_the_name_of_a_signal_needs_no_description(
    tmp_path: Path, contract: DataContract
) -> None:
    found = read(tmp_path, "sites: {a: a.csv}", contract, a="pressure,temp,T [degC]\n1,2,3\n")
    assert found.table.headers == ("p [bar]", "temp", "T [degC]")
    assert found.table.numbers("p [bar]").tolist() == [1]


def test_the_unit_in_a_header_counts_where_no_unit_is_stated(
    tmp_path: Path, contract: DataContract
) -> None:
    read_table_ = read(
        tmp_path,
        "sites: {a: {url: a.csv, tableSchema: {columns: "
        '[{name: pressure, titles: "P [bar(ü)]"}]}}}',
        contract,
        a="P [bar(ü)],x\n1,2\n",
    )
    assert read_table_.table.numbers("p [bar]")[0] == 2.01325
    assert read_table_.columns[0].describe() == (
        "`pressure` from `P [bar(ü)]` (bar(ü), converted to bar)"
    )


def test_a_header_in_a_rule_is_named_with_its_unit(tmp_path: Path) -> None:
    pack = fedkg.compile(text="rule r require `Torque [Nm]` <= 80\n")
    found = read(tmp_path, "sites: {a: a.csv}", pack.manifest.contract, a="Torque [Nm]\n3\n")
    assert [one.describe() for one in found.columns] == ["`Torque [Nm]` from `Torque [Nm]`"]


def test_a_site_without_description_is_read_as_a_plain_table(
    tmp_path: Path, contract: DataContract
) -> None:
    body = "time;p [bar];valve;note\n2024-01-01;1,5;ja;x\n2024-01-02;Bad;nein;y\n"
    table = read(tmp_path, "sites: {a: a.csv}", contract, a=body).table
    plain = read_table(tmp_path / "a.csv")
    assert table.headers == plain.headers
    assert [table.texts(header) for header in table.headers] == [
        plain.texts(header) for header in plain.headers
    ]


@pytest.mark.parametrize(
    ("pattern", "cell", "iso"),
    [
        ("dd/MM/yy HH", "04/07/16 00", "2016-07-04 00:00:00"),
        ("MM/dd/yyyy hh:mm a", "07/04/2016 12:30 AM", "2016-07-04 00:30:00"),
        ("yyyyMMdd'T'HHmmss", "20160704T235959", "2016-07-04 23:59:59"),
        ("d. MMM yyyy H:mm", "4. Jul 2016 9:05", "2016-07-04 09:05:00"),
        ("dd.MM.yyyy HH:mm:ss,S", "04.07.2016 09:05:07,25", "2016-07-04 09:05:07.250000"),
        ("yyyy-MM-ddTHH:mm:ssXXX", "2016-07-04T09:00:00+02:00", "2016-07-04 07:00:00Z"),
        ("dd.MM.yyyy HH:mm", "04.07.2016 24:00", "2016-07-05 00:00:00"),
        ("dd.MM.yyyy HH:mm z", "04.07.2016 09:00 MESZ", "2016-07-04 07:00:00Z"),
    ],
)
def test_times_have_the_stated_pattern(
    pattern: str, cell: str, iso: str, tmp_path: Path, contract: DataContract
) -> None:
    sites = json.dumps(
        {
            "sites": {
                "a": {
                    "url": "a.csv",
                    "dialect": {"delimiter": ";"},
                    "tableSchema": {
                        "columns": [
                            {
                                "name": "time",
                                "titles": "t",
                                "datatype": {"base": "datetime", "format": pattern},
                            }
                        ]
                    },
                }
            }
        }
    )
    table = read(tmp_path, sites, contract, a=f"t;x\n{cell};1\n-;2\n").table
    assert table.texts("time") == [iso, ""]


def test_a_zone_moves_times_to_utc_across_the_change_of_clocks(
    tmp_path: Path, contract: DataContract
) -> None:
    sites = (
        "sites: {a: {url: a.csv, timezone: Europe/Vienna, tableSchema: {columns: ["
        '{name: time, datatype: {base: datetime, format: "yyyy-MM-dd HH:mm"}}]}}}'
    )
    hours = ["01:00", "02:00", "02:00", "03:00"]
    body = "time,x\n" + "".join(f"2024-10-27 {hour},1\n" for hour in hours)
    found = read(tmp_path, sites, contract, a=body)
    assert found.table.texts("time") == [
        "2024-10-26 23:00:00Z",
        "2024-10-27 00:00:00Z",
        "2024-10-27 01:00:00Z",
        "2024-10-27 02:00:00Z",
    ]
    assert not found.notes
    error = fails(tmp_path, sites, contract, a="time,x\n2024-03-31 02:30,1\n")
    assert "row 2, column `time`" in error.message
    assert "does not exist in Europe/Vienna" in error.message


def test_texts_become_those_of_the_rules(tmp_path: Path, contract: DataContract) -> None:
    table = read(
        tmp_path,
        "sites: {a: {url: a.csv, tableSchema: {columns: ["
        "{name: grade, titles: Güte, values: {gut: good, schlecht: bad}, default: bad},"
        "{name: machine, virtual: true, default: K1}, {titles: Notiz, suppressOutput: true}]}}}",
        contract,
        a="Güte,Notiz\ngut,x\nschlecht,y\n,z\n",
    ).table
    assert table.headers == ("grade", "machine")
    assert table.texts("grade") == ["good", "bad", "bad"]
    assert table.texts("machine") == ["K1"] * 3


def test_a_word_for_missing_values_works_in_typed_files(
    tmp_path: Path, contract: DataContract
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Bericht"], [], ["P", "T", "Ventil"], [1.5, 20, "AUF"], [-999, 30, "ZU"]):
        sheet.append(row)
    book.save(tmp_path / "a.xlsx")
    found = read(
        tmp_path,
        "sites: {a: {url: a.xlsx, dialect: {skipRows: 1}, null: -999, "
        'datatype: {decimalChar: ","}, tableSchema: {columns: ['
        "{name: pressure, titles: P}, {name: temp, titles: T},"
        '{name: valve, titles: Ventil, datatype: {base: boolean, format: "AUF|ZU"}}]}}}',
        contract,
    )
    assert found.table.numbers("p [bar]").tolist()[0] == 1.5
    assert math.isnan(found.table.numbers("p [bar]")[1])
    assert found.table.numbers("valve").tolist() == [1.0, 0.0]
    assert found.table.lines.tolist() == [4, 5]


def test_several_files_of_a_site_are_one_table(tmp_path: Path, contract: DataContract) -> None:
    found = read(
        tmp_path,
        "sites: {a: {url: [a.csv, b.csv], tableSchema: {columns: ["
        "{name: pressure, titles: [P, Druck]}]}}}",
        contract,
        a="time,P\n2024-01-01,1\n2024-01-02,2\n",
        b="time;Druck\n2024-01-02;3,5\n2024-01-01;4,5\n",
    )
    assert found.table.numbers("p [bar]").tolist() == [1, 2, 3.5, 4.5]
    assert found.table.where(2) == f"row 3 (line 2 of {tmp_path / 'b.csv'})"
    [repeat, decrease] = found.notes
    assert f"repeat in rows 2 of {tmp_path / 'a.csv'} and 3 of {tmp_path / 'b.csv'}" in repeat
    assert f"decrease in rows 2 of {tmp_path / 'b.csv'} and 3 of" in decrease


def test_repeated_and_decreasing_times_are_reported_with_rows_of_the_file(
    tmp_path: Path, contract: DataContract
) -> None:
    sites = (
        "sites: {a: {url: a.csv, dialect: {skipRows: 2}, tableSchema: {columns: ["
        '{name: time, datatype: {base: datetime, format: "dd/MM/yy HH"}}]KEY}}}'
    )
    body = "Report\nOhio\ntime,m\n04/07/16 00,a\n04/07/16 00,b\n04/07/16 02,a\n04/07/16 01,a\n"
    found = read(tmp_path, sites.replace("KEY", ""), contract, a=body)
    assert found.notes == (
        (
            "times in `time` repeat in rows 4 and 5 (`2016-07-04 00:00:00` first); `primaryKey` "
            "names the columns that tell series apart"
        ),
        "times in `time` decrease in rows 6 and 7",
    )
    error = fails(tmp_path, sites.replace("KEY", ", primaryKey: [k, time]"), contract, a=body)
    assert "no column `k`, which `primaryKey` of" in error.message
    found = read(tmp_path, sites.replace("KEY", ", primaryKey: [m, time]"), contract, a=body)
    assert found.notes == ("times in `time` decrease in rows 6 and 7",)


def test_a_csvw_metadata_file_is_read(tmp_path: Path, contract: DataContract) -> None:
    (tmp_path / "boiler.csv").write_text(
        "# exported\nT;P\n01.02.2024;1.234,5\n02.02.2024;x\n", encoding="utf-8"
    )
    metadata = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": "boiler.csv",
        "dc:title": "Boiler",
        "rdfs:unknownTerm": 1,
        "somethingUnknown": 2,
        "dialect": {"delimiter": ";", "commentPrefix": "#", "trim": True},
        "tableSchema": {
            "primaryKey": "time",
            "columns": [
                {
                    "name": "time",
                    "titles": {"de": ["T"]},
                    "datatype": {"base": "date", "format": "dd.MM.yyyy"},
                },
                {
                    "name": "pressure",
                    "titles": "P",
                    "null": ["x"],
                    "schema:unitText": "mbar",
                    "datatype": {
                        "base": "decimal",
                        "format": {"decimalChar": ",", "groupChar": "."},
                        "minimum": 0,
                    },
                },
            ],
        },
    }
    path = tmp_path / "boiler.csv-metadata.json"
    path.write_text(json.dumps(metadata), encoding="utf-8")
    sites = load_sites(path)
    assert list(sites.sites) == ["boiler"]
    table = read_site(sites, "boiler", contract).table
    assert table.numbers("p [bar]")[0] == 1.2345
    assert math.isnan(table.numbers("p [bar]")[1])
    assert table.texts("time")[0] == "2024-02-01 00:00:00"
    group = {"@context": "http://www.w3.org/ns/csvw", "tables": [metadata]}
    path.write_text(json.dumps(group), encoding="utf-8")
    assert read_site(load_sites(path), "boiler", contract).table.rows == 2
    own = read(
        tmp_path,
        "sites: {a: {metadata: boiler.csv-metadata.json, tableSchema: {columns: ["
        "{name: pressure, unit: kPa}]}}}",
        contract,
    ).table
    assert own.numbers("p [bar]")[0] == 12.345


COLUMNS = "sites: {a: {url: a.csv, DIALECT tableSchema: {columns: [COLUMN]}}}"

WRONG_CELLS = [
    (
        '{name: pressure, titles: P, datatype: {decimalChar: ",", groupChar: "."}}',
        'dialect: {delimiter: ";"},',
        "P;x\n" + "1,5;1\n" * 809 + "1.2345,6;1\n12 bar;1\n",
        (
            'a.csv: row 811, column `P`: "1.2345,6" is not a number in the stated format',
            "expected: a number such as 1.234,5 (decimalChar `,`, groupChar `.`)",
            'received: "1.2345,6", and 1 more such cell',
            "help: correct the cell, list it under `null`, or correct column `pressure` of site a",
        ),
    ),
    (
        '{name: pressure, titles: P, datatype: {decimalChar: ","}}',
        'dialect: {delimiter: ";", skipRows: 2},',
        "Report\n\nP;x\n1,5;1\n1.5;1\n",
        ('a.csv: row 5, column `P`: "1.5" is not a number', "no groupChar"),
    ),
    (
        "{name: pressure, titles: P}",
        "",
        "P,x\n1,1\nleck,1\n",
        ("column `P` has text where numbers are needed", '"leck" in row 2 (line 3)'),
    ),
    (
        '{name: valve, titles: V, datatype: {base: boolean, format: "AUF|ZU"}}',
        "",
        "V,x\nAUF,1\nzu,1\noffen,1\n",
        ('row 4, column `V`: "offen" is neither of the two words', "expected: `AUF` or `ZU`"),
    ),
    (
        '{name: time, titles: t, datatype: {base: datetime, format: "dd/MM/yy HH"}}',
        "",
        "t,x\n04/07/16 00,1\n31/02/16 00,1\n",
        (
            'row 3, column `t`: "31/02/16 00" is not a time of the form `dd/MM/yy HH`',
            "expected: a time such as 04/07/16 09",
        ),
    ),
]


@pytest.mark.parametrize(("column", "dialect", "body", "said"), WRONG_CELLS)
def test_a_wrong_cell_is_named_with_row_column_value_and_remedy(
    column: str,
    dialect: str,
    body: str,
    said: tuple[str, ...],
    tmp_path: Path,
    contract: DataContract,
) -> None:
    sites = COLUMNS.replace("COLUMN", column).replace("DIALECT", dialect)
    text = str(fails(tmp_path, sites, contract, a=body))
    for part in said:
        assert part in text


WRONG_COLUMNS = [
    ("{name: pressure, titles: Drück}", "a.csv: no column `Drück`", "did you mean `Druck`?"),
    (
        "{name: pressure, titles: [Druck, x]}",
        "a.csv: row 1: several headers are titles of column `pressure`",
        "received: `Druck`, `x`",
    ),
    ("{name: pressure, titles: y}", "a.csv: row 1: column `y` occurs more than once", "`y (2)`"),
    (
        "{name: pressure, titles: Druck}, {name: p, titles: Druck}",
        "`pressure` describes column `Druck` too",
        "one description",
    ),
    (
        '{name: pressure, titles: Druck}, {name: "p [bar]", titles: x}',
        "column `pressure` is read as `p [bar]` too",
        "suppressOutput",
    ),
    (
        "{name: pressure, titles: Druck, unit: mm}",
        "sites.yaml:1: column `pressure`.unit of site a: `unit: mm` does not convert",
        "expected: a unit that converts to bar",
    ),
    (
        "{name: pressure, titles: Druck, unit: PSI}",
        "unit `PSI` is absolute for some",
        "write `psia` or `psig`",
    ),
    (
        '{name: time, titles: x, datatype: {base: datetime, format: "%d.%m.%Y"}}',
        "column `time`.datatype.format of site a: write a Unicode date pattern",
        "without %",
    ),
    ("{name: time, titles: x, timezone: Wien}", "time zone `Wien` is unknown", "Europe/Vienna"),
    (
        "{name: grade, titles: x, datatype: boolean}",
        "the rules compare `grade` with words",
        "values:",
    ),
]


@pytest.mark.parametrize(("column", "message", "remedy"), WRONG_COLUMNS)
def test_a_wrong_description_is_named_with_file_line_and_remedy(
    column: str, message: str, remedy: str, tmp_path: Path, contract: DataContract
) -> None:
    sites = COLUMNS.replace("COLUMN", column).replace("DIALECT", "")
    text = str(fails(tmp_path, sites, contract, a="Druck,x,y,y\n1,2,3,4\n"))
    assert message in text
    assert remedy in text


WRONG_FILES = [
    ("sites: {a: {url: a.csv, dialekt: {}}}", "`sites.a.dialekt`: unknown field; did you mean"),
    ("sites: {a: {path: a.csv}}", "`sites.a.path`: unknown field; did you mean `url`?"),
    ("sites: {a: {}}", "`url` is missing"),
    ("sites: {a: {url: b.csv}}", "the table of site a does not exist"),
    ("sites: {a: {url: https://example.org/a.csv}}", "is an address"),
    ("sites: {a: {url: a.csv, dialect: {delimiter: xx}}}", "`sites.a.dialect.delimiter`"),
    ("sites: {a: {url: a.csv, dialect: {skipRows: 9}}}", "no rows are left"),
    ("sites: {a: {url: a.csv, dialect: {encoding: klingon}}}", "encoding `klingon` is unknown"),
    ("sites: {a: {url: a.csv, dialect: {encoding: ascii}}}", "line 2 is not text in `ascii`"),
    ("sites: {a: {url: a.csv}, a: {url: a.csv}}", "occurs twice"),
    ("sites: {a: {url: a.csv, dialect: {encoding: undefined}}}", "encoding `undefined` is unknown"),
    ("sites: {a: {url: .}}", "the table of site a is a folder"),
    ("sites: &s {a: *s}", "a section contains itself"),
    (
        (
            "sites: {a: {url: a.csv, timezone: '+23:99', tableSchema: {columns: "
            "[{name: x, datatype: datetime}]}}}"
        ),
        "timezone of site a: time zone `+23:99` is unknown",
    ),
    (
        (
            "sites: {a: {url: a.csv, tableSchema: {columns: "
            "[{name: q, virtual: true, default: abc, unit: bar}]}}}"
        ),
        'column `q`.default of site a: "abc" is not a number',
    ),
    ("sites: {}", "describes no site"),
    ("rules: [x]", "describes no site"),
    ("sites: [", "is not YAML (line 1"),
    ("tableschema: {}\nsites: {a: a.csv}", "unknown field `tableschema` (line 1)"),
    (
        "sites: {a: {url: a.csv, tableSchema: {columns: [{name: x, datatype: nummer}]}}}",
        "unknown type `nummer`",
    ),
    (
        "sites: {a: {url: a.csv, tableSchema: {columns: [{name: x, values: {on: offen}}]}}}",
        "on, off, yes, no, true and false in quotes",
    ),
    (
        "sites: {a: {url: a.csv, tableSchema: {columns: [{name: x}, {name: x}]}}}",
        "column `x` is described twice",
    ),
]


@pytest.mark.parametrize(("sites", "said"), WRONG_FILES)
def test_a_wrong_sites_file_is_an_error_with_its_place(
    sites: str, said: str, tmp_path: Path, contract: DataContract
) -> None:
    assert said in str(fails(tmp_path, sites, contract, a="x,y\nü,1\n"))


def test_an_unknown_site_and_a_missing_file_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no site `b`"):
        read(tmp_path, "sites: {a: a.csv}", site="b", a="x\n1\n")
    for name in ("m.json", "m\\0.json"):
        with pytest.raises(UsageError, match="cannot read metadata file"):
            read(tmp_path, f'sites: {{a: {{url: a.csv, metadata: "{name}"}}}}', a="x\n1\n")
    with pytest.raises(UsageError, match="cannot read sites file"):
        load_sites(tmp_path / "none.yaml")


def test_wrong_metadata_of_a_site(tmp_path: Path, contract: DataContract) -> None:
    sites = "sites: {a: {url: a.csv, metadata: m.json}}"
    (tmp_path / "m.json").write_text('{"url": "a.csv", "tableSchema": {"columns": [{"x": 1}]}}')
    text = str(fails(tmp_path, sites, contract, a="x,y\n1,2\n"))
    assert "m.json: `tableSchema.columns.0`: a column needs a `name` or `titles`" in text
    (tmp_path / "m.json").write_text('{"tables": [{"url": "b.csv"}, {"url": "c.csv"}]}')
    text = str(fails(tmp_path, sites, contract, a="x,y\n1,2\n"))
    assert "m.json describes no table of site a\n  expected: a.csv" in text
    assert "`url` b.csv, `url` c.csv" in text


def test_a_sites_file_that_expands_is_rejected(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(FedkgError, match="fields"):
        read(tmp_path, "\n".join([*lines, "sites: {a: a.csv}"]), a="x\n1\n")


def test_times_of_a_workbook_need_no_format(tmp_path: Path, contract: DataContract) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["t", "P"])
    book.active.append([datetime(2016, 7, 4, 9), 1.5])
    book.active.append(["05.07.2016", 2.5])
    book.save(tmp_path / "a.xlsx")
    found = read(
        tmp_path,
        "sites: {a: {url: a.xlsx, tableSchema: {columns: [{name: pressure, titles: P},"
        "{name: time, titles: t, datatype: {base: date, format: dd.MM.yyyy}}]}}}",
        contract,
    )
    assert found.table.texts("time") == ["2016-07-04 09:00:00", "2016-07-05 00:00:00"]


def test_common_parts_hold_for_sites_that_do_not_state_them(
    tmp_path: Path, contract: DataContract
) -> None:
    sites = """\
null: ["-1"]
datatype: {decimalChar: ","}
tableSchema: {columns: [{name: pressure, titles: P, unit: mbar}, {name: temp, titles: T}]}
sites:
  a: {url: a.csv, datatype: {groupChar: "."}}
  b:
    url: b.csv
    null: [kaputt]
    tableSchema: {columns: [{name: pressure, unit: bar}, {name: temp, suppressOutput: true}]}
"""
    bodies = {"a": "P;T\n1.500,5;20\n-1;30\n", "b": "P;pressure\n1,5;x\nkaputt;y\n"}
    one = read(tmp_path, sites, contract, **bodies).table
    assert one.numbers("p [bar]")[0] == 1.5005
    assert math.isnan(one.numbers("p [bar]")[1])
    two = read(tmp_path, sites, contract, site="b", **bodies)
    assert two.table.headers == ("p [bar]", "pressure")
    assert two.table.numbers("p [bar]")[0] == 1.5
    assert [column.target for column in two.columns] == ["p [bar]"]


def test_only_the_named_sites_and_lookups_are_read(tmp_path: Path) -> None:
    """A mistake in the section of another site does not matter to one that reads its own."""
    file = tmp_path / "sites.yaml"
    file.write_text(
        "sites:\n  a: {url: a.csv}\n  b: {url: b.csv, wrong: 1}\n"
        "  kinds: {url: kinds.csv, suppressOutput: true}\n"
    )
    found = load_sites(file, names=["a"])
    assert list(found.sites) == ["a"]
    assert list(found.lookups) == ["kinds"]
    with pytest.raises(TableError, match="wrong"):
        load_sites(file)
