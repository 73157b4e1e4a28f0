"""Limits on files: hostile files end in a clear error, with little time and memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Done

from fedkg.errors import LimitError, TableError, UsageError
from fedkg.jobs.schema.job_reader import read_job
from fedkg.limits import DEFAULTS, MEANINGS, VARIABLE, format_limit, gunzip, limit, read_file
from fedkg.tables import read_table
from fedkg.tables.reader import read_bytes

ROOT = Path(__file__).parents[3]
RULES = 'signal p column "p"\nrule low require p <= 3\n'
Fedkg = Callable[..., Done]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.fkg"
    path.write_text(RULES)
    return path


def test_the_reference_lists_every_limit() -> None:
    assert DEFAULTS.keys() == MEANINGS.keys()
    page = (ROOT / "docs/reference/command-line.md").read_text()
    for name, most in DEFAULTS.items():
        assert f"| `{name}` | {format_limit(name, most)} | {MEANINGS[name]} |\n" in page


def test_a_gzipped_table_that_expands_a_thousandfold(
    fedkg: Fedkg, rules: Path, tmp_path: Path
) -> None:
    table = tmp_path / "bomb.csv.gz"
    with gzip.open(table, "wb") as file:
        file.write(b"p\n" + b"1\n" * 20_000_000)
    done = fedkg("eval", rules, table)
    assert done.code == 1
    assert f"{table} is above the limit `ratio`" in done.err
    assert "--limit ratio=" in done.err


def test_limits_are_raised_on_the_command_line(
    fedkg: Fedkg, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table.csv.gz"
    table.write_bytes(gzip.compress(b"p\n" + b"1\n" * 1000))
    monkeypatch.setenv(VARIABLE, "expanded=1kB")
    refused = fedkg("eval", rules, table)
    assert refused.code == 1
    assert "at most 1 kB" in refused.err
    assert "FEDKG_LIMITS=expanded=" in refused.err
    assert fedkg("--limit", "expanded=3kB", "eval", rules, table).code == 0


@pytest.mark.parametrize("setting", ["bytes=3", "columns", "columns=3MB", "file=-1", "file=1e9"])
def test_wrong_settings_are_rejected(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(UsageError):
        limit("file")


def test_a_header_with_too_many_columns(fedkg: Fedkg, rules: Path, tmp_path: Path) -> None:
    table = tmp_path / "wide.csv"
    table.write_text(",".join(f"c{i}" for i in range(30_000)) + "\n1,2\n")
    done = fedkg("eval", rules, table)
    assert done.code == 1
    assert "above the limit `columns`" in done.err
    assert "--limit columns=80000" in done.err


def test_headers_that_repeat_are_numbered_in_little_time() -> None:
    wide = read_bytes((",".join(["p"] * 19_000) + "\n" + ",".join(["1"] * 19_000)).encode(), "t")
    assert wide.headers[:3] == ("p", "p (2)", "p (3)")
    assert wide.headers[-1] == "p (19000)"


def test_a_pipe_and_a_device_are_not_read(fedkg: Fedkg, rules: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(TableError, match="not an ordinary file"):
        read_table(pipe)
    done = fedkg("inspect", "/dev/zero")
    assert done.code != 0
    assert "not an ordinary file" in done.err


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "huge.csv"
    with table.open("wb") as file:
        file.truncate(10**12)  # takes no space
    with pytest.raises(LimitError, match=r"received: 1000 GB"):
        read_table(table)
    monkeypatch.setenv(VARIABLE, "file=3")
    table.write_bytes(b"abcd")
    with pytest.raises(LimitError, match=r"at most 3 bytes"):
        read_file(table)


def test_gzip_members_are_joined_and_damage_is_noticed() -> None:
    whole = gzip.compress(b"a" * 1000) + gzip.compress(b"b")
    assert gunzip(whole, "t") == b"a" * 1000 + b"b"
    with pytest.raises(TableError, match="not a complete gzip file"):
        read_bytes(whole[:-3], "t")


def test_a_pack_that_expands_a_thousandfold(fedkg: Fedkg, rules: Path, tmp_path: Path) -> None:
    pack = tmp_path / "good.fkgpack"
    assert fedkg("compile", rules, "-o", pack).code == 0
    with zipfile.ZipFile(pack) as archive:
        manifest = archive.read("manifest.json")
    bomb = tmp_path / "bomb.fkgpack"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", manifest)
        archive.writestr("tensors.safetensors", bytes(40_000_000))
    done = fedkg("inspect", bomb)
    assert done.code == 1
    assert "above the limit `ratio`" in done.err


def test_a_manifest_of_millions_of_values(fedkg: Fedkg, tmp_path: Path) -> None:
    bomb = tmp_path / "values.fkgpack"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"[" + b"{}," * 3_000_000 + b"{}]")
        archive.writestr("tensors.safetensors", b"")
    done = fedkg("--limit", "ratio=10000", "inspect", bomb)
    assert done.code == 1
    assert "manifest.json is above the limit `values`" in done.err


def test_a_zip_of_many_files() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for i in range(10_001):
            archive.writestr(f"{i}.csv", b"")
    with pytest.raises(LimitError, match="`members`"):
        read_bytes(out.getvalue(), "many.zip")


@pytest.mark.slow
def test_a_sheet_of_two_cells_that_are_far_apart(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "far.xlsx"
    book = openpyxl.Workbook()
    book.active["A1"] = "p"
    book.active["A2"] = 7
    book.save(path)
    far = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(far, "w") as new:
        for name in old.namelist():
            body = old.read(name)
            if name.endswith("sheet1.xml"):
                body = body.replace(b'r="2"', b'r="900000000"').replace(b"A2", b"A900000000")
            new.writestr(name, body)
    with pytest.raises(TableError, match="more than 1,048,576 rows"):
        read_bytes(far.getvalue(), "far.xlsx")


def test_a_parquet_file_that_repeats_one_value(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "repeated.parquet"
    column = pa.array([1.0] * 1_000_000)
    pq.write_table(pa.table({"p": pa.chunked_array([column] * 21)}), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(LimitError, match="`cells`"):
        read_table(path)


@pytest.mark.parametrize(
    "statement", ["rule low weight 1e999 require p <= 3", "rule low require p ^ 1e999 <= 3"]
)
def test_numbers_beyond_float64_are_named(fedkg: Fedkg, tmp_path: Path, statement: str) -> None:
    path = tmp_path / "large.fkg"
    path.write_text(f'signal p column "p"\n{statement}\n')
    done = fedkg("compile", path, "-o", "large.fkgpack")
    assert done.code == 1
    assert "FKG037" in done.err


def laughs(levels: int = 12, merge: str = "") -> str:
    """A YAML text with aliases that multiply the fields by ten on each level."""
    lines = ["a0: &a0 {x: 1, y: 2}"]
    for i in range(1, levels):
        inner = ", ".join([f"*a{i - 1}"] * 10)
        lines.append(f"a{i}: &a{i} {{<<: [{inner}]}}" if merge else f"a{i}: &a{i} [{inner}]")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (laughs(), "fields"),
        (laughs(merge="<<"), "fields"),
        ("a: " + "[" * 5000, "depth"),
        ("\n".join(f"f{i}: 1" for i in range(30_000)), "fields"),
        ("a: " + "x" * 2_000_000, "job"),
    ],
)
@pytest.mark.parametrize("command", ["run", "inspect"])
def test_hostile_job_files(
    fedkg: Fedkg, tmp_path: Path, text: str, name: str, command: str
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(text)
    done = fedkg(command, job)
    assert done.code == 1
    assert f"above the limit `{name}`" in done.err


@pytest.mark.parametrize("value", ["1e20", "100000000000000000000", "1" + "0" * 400, "-1e300"])
@pytest.mark.parametrize("field", ["batch", "rounds", "client_memory"])
def test_numbers_that_no_job_needs(fedkg: Fedkg, tmp_path: Path, field: str, value: str) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(f"rules: [rules.fkg]\ntraining: {{{field}: {value}}}\n")
    done = fedkg("run", job)
    assert done.code == 1
    assert f"training.{field}" in done.err


def test_a_job_that_is_a_pipe(fedkg: Fedkg, tmp_path: Path) -> None:
    pipe = tmp_path / "job.yaml"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not an ordinary file"):
        read_job(pipe)
    done = fedkg("inspect", pipe)
    assert done.code == 2
    assert "not an ordinary file" in done.err


def test_a_baseline_of_millions_of_values(fedkg: Fedkg, rules: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "old.json"
    baseline.write_bytes(b"[" + b"{}," * 1_000_000 + b"{}]")
    done = fedkg("eval", rules, "table.csv", "--baseline", baseline)
    assert done.code == 1
    assert "above the limit `values`" in done.err
    baseline.write_bytes(b"[" * 100_000)
    assert "nested too deeply" in fedkg("eval", rules, "table.csv", "--baseline", baseline).err


@pytest.mark.parametrize("command", ["check", "fmt", "test"])
def test_a_rule_file_that_is_a_pipe(fedkg: Fedkg, tmp_path: Path, command: str) -> None:
    pipe = tmp_path / "pipe.fkg"
    os.mkfifo(pipe)
    done = fedkg(command, pipe)
    assert done.code == 1
    assert "not an ordinary file but a pipe" in done.out + done.err


def test_a_rule_file_of_too_many_statements(fedkg: Fedkg, tmp_path: Path) -> None:
    path = tmp_path / "long.fkg"
    path.write_text(RULES + "".join(f"rule r{i} require p <= 3\n" for i in range(20_000)))
    done = fedkg("check", path)
    assert done.code == 1
    assert f"{path} is above the limit `statements`" in done.err
    path.write_text(RULES + "# nothing\n" * 110_000)
    assert f"{path} is above the limit `rules`" in fedkg("compile", path, "-o", "long.fkgpack").err


@pytest.mark.slow
def test_a_rule_file_of_too_many_errors(fedkg: Fedkg, tmp_path: Path) -> None:
    path = tmp_path / "wrong.fkg"
    path.write_text(RULES + "".join(f"rule r{i} require q{i} <= 3\n" for i in range(2000)))
    done = fedkg("check", path)
    assert done.code == 1
    assert "1,001 errors" in done.err
    problems = json.loads(fedkg("check", path, "--json").out)["diagnostics"]
    assert len(problems) == 1001
    assert "the check stops at 1,000 errors" in str(problems)


@pytest.mark.slow
def test_a_rule_of_thousands_of_comparisons(fedkg: Fedkg, tmp_path: Path) -> None:
    path = tmp_path / "chain.fkg"
    path.write_text(RULES + f"rule chain require {' <= '.join(['p'] * 2000)}\n")
    done = fedkg("check", path)
    assert done.code == 0
    assert "info[FKG507]: whether `chain` contradicts or repeats others" in done.err
    path.write_text(RULES + f"rule chain require {' <= '.join(['p'] * 4000)}\n")
    assert "error[FKG034]" in fedkg("check", path).err


def test_text_on_standard_input_is_limited(fedkg: Fedkg, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"# nothing\n" * 110_000)

    monkeypatch.setattr("sys.stdin", Stdin)
    done = fedkg("fmt", "-")
    assert done.code == 1
    assert "<stdin> is above the limit `rules`" in done.err


def test_a_graph_of_too_many_triples(fedkg: Fedkg, rules: Path, tmp_path: Path) -> None:
    graph = tmp_path / "large.ttl"
    graph.write_text("".join(f"<urn:a> <urn:p> {i} .\n" for i in range(2000)))
    done = fedkg("--limit", "triples=1000", "check", rules, graph)
    assert done.code == 1
    assert f"{graph} is above the limit `triples`" in done.err
    assert "at most 1,000" in done.err


def test_entities_that_multiply_in_a_graph(fedkg: Fedkg, rules: Path, tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    graph = tmp_path / "laughs.rdf"
    graph.write_text(
        f'<!DOCTYPE r:RDF [<!ENTITY a0 "x">{entities}]>'
        '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="urn:e:">'
        '<r:Description r:about="urn:a"><e:p>&a11;</e:p></r:Description></r:RDF>'
    )
    done = fedkg("check", rules, graph)
    assert done.code == 1
    assert "error[FKG107]" in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="queries are limited on Linux alone")
def test_a_query_whose_joins_do_not_end(fedkg: Fedkg, tmp_path: Path) -> None:
    graph = tmp_path / "graph.nt"
    graph.write_text("".join(f"<urn:n{i}> <urn:p> <urn:n{i + 1}> .\n" for i in range(300)))
    path = tmp_path / "joins.fkg"
    pattern = " . ".join(f"?a{i} ?b{i} ?c{i}" for i in range(8))
    path.write_text(
        f"{RULES}rule low2 for ?a0, ?z where {{ {pattern} . ?a0 <urn:z> ?z }} require p <= 3\n"
        f"rule slow for ?a0 where {{ {pattern} FILTER(?c7 = ?a0 && ?c6 != ?c5) }} require p <= 3\n"
    )
    done = fedkg("--limit", "query=1", "--limit", "memory=100MB", "check", path, graph)
    assert done.code == 1
    assert re.search(
        rf"{path}:\d: a query of the graph takes more (memory|time) than the limit", done.err
    )


@pytest.mark.parametrize(
    ("part", "old", "new", "message"),
    [
        ("sheet1", "<worksheet ", "<!DOCTYPE w []><worksheet ", "a document type in xl/worksheets"),
        ("sheet1", "<t>p</t>", f"<t>{'p' * 40_000}</t>", "a cell of more than 32,767 characters"),
        ("styles", "</cellXfs>", '<xf numFmtId="1"/>' * 140_000, "at most 65,490"),
        ("sheet1", "<sheetData>", "<sheetData>" + " " * 9_000_000, "above the limit `ratio`"),
    ],
    ids=["document type", "long text", "formats", "spaces"],
)
def test_workbooks_that_no_program_writes(
    fedkg: Fedkg, rules: Path, tmp_path: Path, part: str, old: str, new: str, message: str
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    made, path = tmp_path / "made.xlsx", tmp_path / "hostile.xlsx"
    book = openpyxl.Workbook()
    book.active["A1"], book.active["A2"] = "p", 7
    book.save(made)
    with (
        zipfile.ZipFile(made) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            body = source.read(name).decode()
            if part in name:
                assert old in body
                body = body.replace(old, new)
            target.writestr(name, body)
    done = fedkg("eval", rules, path)
    assert done.code == 1
    assert str(path) in done.err
    assert message in done.err


def test_a_sheet_of_a_million_blank_rows(fedkg: Fedkg, rules: Path, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "blank.xlsx"
    book = openpyxl.Workbook()
    book.active["A1"], book.active["A200000"] = "p", 7
    book.save(path)
    done = fedkg("eval", rules, path)
    assert done.code == 0
    assert "1 row;" in done.out
    assert "199,998 blank lines skipped" in done.out


def test_a_gzip_header_of_megabytes() -> None:
    plain = gzip.compress(b"p\n1\n")
    named = plain[:3] + b"\x08" + plain[4:10] + b"a" * 20_000_000 + b"\0" + plain[10:]
    assert gunzip(named, "named.gz") == b"p\n1\n"
    assert gunzip(plain * 1000 + bytes(7), "members.gz") == b"p\n1\n" * 1000
