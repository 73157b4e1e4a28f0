"""Commands check their output path before they compute, and create no folders."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkg.cli import output_files
from fedkg.errors import FedkgError, PackError, UsageError
from fedkg.pack import load

Command = Callable[..., Any]
COMMANDS = [("compile", "rules.fkg"), ("new", "table.csv"), ("data", "ai4i", "--rows", "20")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_missing_folder_is_named_and_not_made(
    fedkg: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    done = fedkg(*command, "-o", "out/made here/x")
    assert done.code == 2
    assert "the folder out/made here for x does not exist" in done.err
    assert "mkdir -p 'out/made here'" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_folder_or_a_file_in_the_way_is_named(
    fedkg: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "there").mkdir()
    done = fedkg(*command, "-o", "there")
    assert (done.code, "there is a folder" in done.err, "-o there/" in done.err) == (2, True, True)
    done = fedkg(*command, "-o", "rules.fkg/x")
    assert (done.code, "rules.fkg is a file, not a folder for x" in done.err) == (2, True)
    assert not list(tmp_path.rglob("*.part"))


def test_a_new_file_has_the_rights_of_any_other(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("x", encoding="utf-8")
    output_files.write_atomically(tmp_path / "written", "x")
    assert stat.S_IMODE((tmp_path / "written").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "usual").stat().st_mode
    )


def test_a_folder_without_the_right_to_write_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_files.os, "access", lambda *_: False)
    with pytest.raises(UsageError, match="is not writable"):
        output_files.check_output_path(tmp_path / "x", "x")


def test_an_input_that_is_too_long_for_a_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    output_files.check_output_path(tmp_path / "x", "x", inputs=["rule r " * 1_000])
    with pytest.raises(UsageError, match="is an input"):
        output_files.check_output_path(tmp_path / "x", "x", inputs=["r" * 300, tmp_path / "x"])


def test_saving_a_pack_below_a_file_is_an_error_of_packs(fedkg: Command, tmp_path: Path) -> None:
    assert fedkg("compile", "rules.fkg", "-o", "rules.fkgpack").code == 0
    pack = load(tmp_path / "rules.fkgpack")
    with pytest.raises(PackError, match="cannot write") as raised:
        pack.save(tmp_path / "rules.fkg" / "x.fkgpack")
    assert isinstance(raised.value, FedkgError)


def test_a_pack_replaces_packs_alone(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "graph.ttl").write_text("# everything that is known\n", encoding="utf-8")
    done = fedkg("compile", "rules.fkg", "-o", "graph.ttl")
    assert (
        done.code,
        "graph.ttl already exists and is not a pack" in done.err,
        "choose another name that ends with .fkgpack" in done.err,
    ) == (2, True, True)
    assert (tmp_path / "graph.ttl").read_text(encoding="utf-8") == "# everything that is known\n"
    (tmp_path / "empty.fkgpack").touch()
    for again in ("empty.fkgpack", "empty.fkgpack"):
        assert fedkg("compile", "rules.fkg", "-o", again).code == 0
    assert load(tmp_path / "empty.fkgpack").rows > 0
