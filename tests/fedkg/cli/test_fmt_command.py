"""`fedkg fmt`: what it writes and keeps, and its exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkg.cli import output_files

Command = Callable[..., Any]
LOOSE = (
    'signal a in bar\n# why\nrule r hard require a<=1 bar   # end\nrule s "T" require a ≥ 0,5 bar\n'
).replace("0,5", "0.5")
TIGHT = (
    'signal a  in bar\n# why\nrule r  hard  require a <= 1 bar  # end\nrule s "T"\n  '
    "require a >= 0.5 bar\n"
)


def test_files_are_written_in_their_form_once(fedkg: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.fkg"
    path.write_text(LOOSE, encoding="utf-8")
    path.chmod(0o640)
    done = fedkg("fmt", "a.fkg", "rules.fkg")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "formatted a.fkg"
    assert path.read_text(encoding="utf-8") == TIGHT
    assert path.stat().st_mode & 0o777 == 0o640
    assert (fedkg("fmt", "a.fkg", "rules.fkg").code, fedkg("fmt", "a.fkg").out) == (0, "")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.fkg", "rules.fkg", "table.csv"]


def test_check_and_diff_write_nothing(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "a.fkg").write_text(LOOSE, encoding="utf-8")
    done = fedkg("fmt", "a.fkg", "--check")
    assert done.code == 1
    assert "a.fkg is not formatted" in done.err
    done = fedkg("fmt", "a.fkg", "--diff")
    assert done.code == 1
    assert {
        "-rule r hard require a<=1 bar   # end",
        "+rule r  hard  require a <= 1 bar  # end",
    } <= set(done.out.splitlines())
    assert (tmp_path / "a.fkg").read_text(encoding="utf-8") == LOOSE
    (tmp_path / "a.fkg").write_text(TIGHT, encoding="utf-8")
    assert (fedkg("fmt", "a.fkg", "--check").code, fedkg("fmt", "a.fkg", "--diff").code) == (0, 0)


def test_a_file_with_errors_is_left_alone_and_the_others_are_not(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "a.fkg").write_text(LOOSE, encoding="utf-8")
    (tmp_path / "bad.fkg").write_text("rule a   require x = 1\n")
    (tmp_path / "latin.fkg").write_bytes("rule grö   require x >= 1\n".encode("latin-1"))
    done = fedkg("fmt", "bad.fkg", "a.fkg", "latin.fkg")
    assert done.code == 1
    assert "bad.fkg:1:20: error[FKG010]" in done.err
    assert "latin.fkg:1:8: error[FKG042]" in done.err
    assert (tmp_path / "bad.fkg").read_text() == "rule a   require x = 1\n"
    assert (tmp_path / "latin.fkg").read_bytes().startswith(b"rule gr\xf6   ")
    assert (tmp_path / "a.fkg").read_text(encoding="utf-8") == TIGHT


def test_standard_input_goes_to_standard_output(
    fedkg: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, code, out in ((LOOSE, 0, TIGHT), ("rule a require x = 1", 1, "")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        done = fedkg("fmt", "-")
        assert (done.code, done.out) == (code, out)
        assert ("<stdin>:1:18: error[FKG010]" in done.err) == bool(code)
    assert fedkg("fmt", "-", "rules.fkg").code == 2


def test_json_names_every_file(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "a.fkg").write_text(LOOSE, encoding="utf-8")
    (tmp_path / "bad.fkg").write_text("rule a require x = 1\n")
    found = fedkg("fmt", "a.fkg", "bad.fkg", "--json")
    assert found.code == 1
    assert found.json["files"] == [
        {"file": "a.fkg", "changed": True, "errors": False},
        {"file": "bad.fkg", "changed": False, "errors": True},
    ]
    (problem,) = found.json["diagnostics"]
    assert problem["fix"] == [
        {"file": "bad.fkg", "line": 1, "column": 18, "end_line": 1, "end_column": 19, "text": "=="}
    ]


def test_a_missing_file_is_a_wrong_call(fedkg: Command) -> None:
    done = fedkg("fmt", "nowhere.fkg")
    assert (done.code, done.out) == (2, "")


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = tmp_path / "a.fkg", tmp_path / "link.fkg"
    path.write_text("old")
    link.symlink_to(path)

    def fails(_: int) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="disk full"):
            output_files.write_atomically(link, "new")
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("old", 2)
    output_files.write_atomically(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
