"""Inputs that were read are noted by their content, and patterns by the files they match."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fedkg.limits import LEAST_AT_ONCE
from fedkg_compiler.input_files import ABSENT, find, instead, read_bytes, read_start, recording


@pytest.mark.parametrize(
    "size", [0, 1, LEAST_AT_ONCE - 1, LEAST_AT_ONCE, LEAST_AT_ONCE + 1, 3 * LEAST_AT_ONCE + 7]
)
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    body = bytes(i % 251 for i in range(size))
    path = tmp_path / "rules.fkg"
    path.write_bytes(body)
    with recording() as inputs:
        assert read_bytes(path) == body
    assert inputs.files == {str(path): hashlib.sha256(body).hexdigest()}
    assert inputs.unchanged()
    path.write_bytes(body + b"#")
    assert not inputs.unchanged()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("text", ["ä", "\nä", "\n\U0001f600", " \U0001f600"])
def test_the_start_of_a_long_line_is_read(tmp_path: Path, encoding: str, text: str) -> None:
    text = f"{{{text * 40_000}"
    (tmp_path / "graph").write_text(text, encoding=encoding, newline="")
    start = read_start(tmp_path / "graph")
    assert text.startswith(start)
    assert len(start) > 20_000


@pytest.mark.parametrize("name", ["nowhere.fkg", "folder", "nul\0.fkg"])
def test_what_cannot_be_read_is_noted_as_absent(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with recording() as inputs, pytest.raises((OSError, ValueError)):
        read_bytes(tmp_path / name)
    assert inputs.files == {str(tmp_path / name): ABSENT}
    assert inputs.unchanged()


def test_names_that_say_no_folder_are_of_the_one_we_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.fkg").write_text("a", encoding="utf-8")
    with recording() as inputs:
        read_bytes(Path("rules.fkg"))
        with instead({tmp_path / "rules.fkg": b"b"}):
            assert read_bytes(Path("rules.fkg")) == b"b"
    assert list(inputs.files) == [str(tmp_path / "rules.fkg")]
    assert not inputs.unchanged()  # the file had different contents when it was read twice


@pytest.mark.parametrize("folder", [".", "legacy", "absolute"])
def test_a_pattern_names_files_from_its_folder_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    start = tmp_path if folder == "absolute" else Path(folder)
    (start / "a" / "folder.rq").mkdir(parents=True)
    for name in ("b.rq", "a.rq", "a/c.rq", "a/d.txt"):
        (start / name).write_text("", encoding="utf-8")
    with recording() as inputs:
        assert find(start, "**/*.rq") == (start / "a.rq", start / "a/c.rq", start / "b.rq")
    assert inputs.listings == {(str(start.absolute()), "**/*.rq"): ("a.rq", "a/c.rq", "b.rq")}
    assert inputs.unchanged()
    (start / "a" / "e.rq").write_text("", encoding="utf-8")
    assert not inputs.unchanged()
