"""`fedkg ontology publish`: the whole site or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command, call

from fedkg import ontologies
from fedkg.cli.publish_ontologies import write_site

FILES = {"index.html": "<p>index</p>", "alignments/a.sssom.tsv": "a\tb\n"}


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ontologies, "publication_files", lambda: FILES)
    return lambda *arguments: call(capsys, *arguments)


def content(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("exists", [False, True])
def test_the_site_is_written_to_a_missing_or_empty_folder(fedkg: Command, exists: bool) -> None:
    if exists:
        Path("site").mkdir()
    done = fedkg("ontology", "publish", "site")
    assert (done.code, done.err) == (0, "")
    assert "1 page and 1 source" in done.out
    assert content(Path("site")) == FILES
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["site"]


def test_a_folder_with_files_needs_force_and_keeps_them(fedkg: Command) -> None:
    Path("site").mkdir()
    Path("site/mine.txt").write_text("mine", encoding="utf-8")
    Path("site/index.html").write_text("old", encoding="utf-8")
    done = fedkg("ontology", "publish", "site")
    assert (done.code, "site is not empty" in done.err, "--force" in done.err) == (2, True, True)
    assert content(Path("site")) == {"mine.txt": "mine", "index.html": "old"}
    assert fedkg("ontology", "publish", "site", "--force").code == 0
    assert content(Path("site")) == {**FILES, "mine.txt": "mine"}


def test_files_and_missing_folders_are_usage_errors(fedkg: Command) -> None:
    Path("file").write_text("text", encoding="utf-8")
    done = fedkg("ontology", "publish", "file")
    assert (done.code, "file is a file" in done.err) == (2, True)
    done = fedkg("ontology", "publish", "missing/site")
    assert (done.code, "does not exist" in done.err) == (2, True)
    assert not Path("missing").exists()


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    """The second file cannot be encoded."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_site(tmp_path / "site", {"index.html": "new", "b.html": "\ud800"})
    assert content(tmp_path) == {"site/index.html": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
