"""Cached compilations are used while nothing has changed, and never after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from fedkg_compiler import cache
from fedkg_compiler.cache import compile_cached
from fedkg_compiler.cache_entries import cache_folder
from fedkg_compiler.diagnostics.record import Diagnostic, Edit, Fix, Related, Span, diagnostic_from
from fedkg_compiler.pipeline import compile_rules

RULES = """
signal torque in N.m
signal undeclared_unit
rule tags for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "WORTH", -1.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limits.csv").write_text("tag,high\ntorque,60\n", encoding="utf-8")
    path = tmp_path / "rules.fkg"
    path.write_text(RULES, encoding="utf-8")
    return path


def entries() -> list[Path]:
    return sorted(cache_folder().glob("*")) if cache_folder().is_dir() else []


def test_the_second_compilation_is_the_first_one_kept(
    rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile_cached([rules], [])
    assert first.pack is not None
    assert first.diagnostics != ()
    assert [path.suffix for path in entries()] == [".fkgpack", ".json"]

    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("fedkg_compiler.pipeline.compile_rules", never)
    second = compile_cached([rules], [])
    assert second.pack is not None
    assert second.packed is not None
    assert second.packed.body == second.pack.to_bytes() == first.pack.to_bytes()
    assert second.counts == second.pack.counts == first.pack.counts
    assert second.diagnostics == first.diagnostics


def test_what_is_kept_is_told_without_the_libraries_of_a_compilation(rules: Path) -> None:
    """Importing them takes longer than looking at the files.

    They are imported when the pack itself is needed.
    """
    asked = "from pathlib import Path; from fedkg_compiler.cache import compile_cached; import sys"
    told = (
        "print(found.counts.rules, len(found.diagnostics), len(found.packed.body), 'numpy' in"
        " sys.modules, 'pydantic' in sys.modules)"
    )
    first = compile_cached([rules], [])
    assert first.packed is not None
    run = f"{asked}; found = compile_cached([Path({str(rules)!r})], []); {told}"
    done = subprocess.run(
        [sys.executable, "-c", f"{run}; assert found.pack.rows == 1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        "1",
        str(len(first.diagnostics)),
        str(len(first.packed.body)),
        "False",
        "False",
    ]


def test_a_change_is_seen_where_size_and_time_stay(rules: Path) -> None:
    compile_cached([rules], [])
    limits = rules.parent / "limits.csv"
    state = limits.stat()
    limits.write_text("tag,high\ntorque,70\n", encoding="utf-8")
    os.utime(limits, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert limits.stat().st_size == state.st_size
    second, fresh = compile_cached([rules], []), compile_rules([rules])
    assert second.pack is not None
    assert fresh.pack is not None
    assert second.pack.to_bytes() == fresh.pack.to_bytes()


def test_a_diagnostic_comes_back_from_json_whole() -> None:
    span, other = (
        Span(file="rules\udcff.fkg", line=line, column=1, end_line=line, end_column=9)
        for line in (1, 2)
    )
    bare = Diagnostic(code="FKG001", severity="info", span=span, message="wrong")
    full = Diagnostic(
        code="FKG001",
        severity="error",
        span=span,
        message="wrong",
        help="mend it",
        related=(Related(span=other, message="here"),),
        fix=Fix(edits=(Edit(span=other, was="a", text="b"), Edit(span=span, was="", text="c"))),
    )
    for diagnostic in (bare, full):
        assert diagnostic_from(json.loads(json.dumps(asdict(diagnostic)))) == diagnostic


@pytest.mark.parametrize("changed", ["rules.fkg", "limits.csv"])
def test_a_change_in_any_file_that_was_read_is_seen(rules: Path, changed: str) -> None:
    compile_cached([rules], [])
    path = rules.parent / changed
    path.write_text(path.read_text(encoding="utf-8").replace("torque", "moment"), encoding="utf-8")
    second, fresh = compile_cached([rules], []), compile_rules([rules])
    assert (second.pack is None) == (fresh.pack is None)
    assert second.diagnostics == fresh.diagnostics
    if second.pack is not None and fresh.pack is not None:
        assert second.pack.to_bytes() == fresh.pack.to_bytes()


def test_a_file_that_goes_away_is_seen(rules: Path) -> None:
    compile_cached([rules], [])
    (rules.parent / "limits.csv").unlink()
    assert compile_cached([rules], []).pack is None


def test_errors_are_not_kept(rules: Path) -> None:
    rules.write_text("rule broken require torque <=\n", encoding="utf-8")
    assert compile_cached([rules], []).pack is None
    assert entries() == []


@pytest.mark.parametrize("suffix", [".json", ".fkgpack"])
def test_a_damaged_entry_is_compiled_again(rules: Path, suffix: str) -> None:
    first = compile_cached([rules], [])
    for path in entries():
        if path.suffix == suffix:
            path.write_bytes(path.read_bytes()[:40])
    second = compile_cached([rules], [])
    assert first.pack is not None
    assert second.pack is not None
    assert second.pack.to_bytes() == first.pack.to_bytes()


def test_an_entry_whose_words_were_changed_is_compiled_again(rules: Path) -> None:
    """It is still JSON with different content, which the checksum detects."""
    first = compile_cached([rules], [])
    entry = next(path for path in entries() if path.suffix == ".json")
    entry.write_bytes(entry.read_bytes().replace(b"undeclared_unit", b"undeclared_quip"))
    assert first.diagnostics != ()
    assert compile_cached([rules], []).diagnostics == first.diagnostics


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b"[]\n{}", b"\xff\xfe"])
def test_an_entry_of_another_form_is_compiled_again(rules: Path, content: bytes) -> None:
    compile_cached([rules], [])
    entry = next(path for path in entries() if path.suffix == ".json")
    entry.write_bytes(content)
    assert compile_cached([rules], []).pack is not None
    assert len(entry.read_bytes()) > len(content)


def test_only_so_many_entries_are_kept(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 2)
    for i in range(4):
        path = rules.parent / f"rules{i}.fkg"
        path.write_text(RULES, encoding="utf-8")
        compile_cached([path], [])
    assert len(entries()) == 4


def test_a_folder_that_cannot_be_written_keeps_nothing(
    rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compile_cached([rules], []).pack is not None


def test_a_file_that_comes_to_stand_before_another_is_seen(rules: Path) -> None:
    """`use mine` takes mine.ttl before mine.nt."""
    rules.write_text(f"use mine\n{RULES}", encoding="utf-8")
    fact = '<https://example.org/plant#a> <https://example.org/plant#b> "{}" .\n'
    (rules.parent / "mine.nt").write_text(fact.format(1), encoding="utf-8")
    first = compile_cached([rules], [])
    (rules.parent / "mine.ttl").write_text(fact.format(2), encoding="utf-8")
    second = compile_cached([rules], [])
    assert first.pack is not None
    assert second.pack is not None
    assert "mine.nt" in [source.name for source in first.pack.manifest.provenance.sources]
    assert "mine.ttl" in [source.name for source in second.pack.manifest.provenance.sources]


def test_another_shelf_of_ontologies_is_seen(
    rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "one"))
    compile_cached([rules], [])
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "other"))
    compile_cached([rules], [])
    assert len(entries()) == 4


def test_a_file_that_changes_while_it_is_read_twice_is_never_unchanged(tmp_path: Path) -> None:
    from fedkg_compiler.input_files import read_bytes, recording

    path = tmp_path / "limits.csv"
    with recording() as inputs:
        path.write_text("a", encoding="utf-8")
        read_bytes(path)
        path.write_text("b", encoding="utf-8")
        read_bytes(path)
    assert not inputs.unchanged()
