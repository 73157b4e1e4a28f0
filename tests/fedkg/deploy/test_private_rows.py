"""The rows of a site survive in its folder, by the receipt of the answer that they belong to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import torch

from fedkg.deploy.site_state_versions import KEPT, NO_RECEIPT, PrivateRows
from fedkg.errors import FederationError

FIRST = {"start/w": torch.zeros(1, 3), "local/c": torch.ones(1, 2, dtype=torch.float64)}


def receipt(number: int) -> str:
    return f"{number:064x}"


def version(number: int) -> dict[str, torch.Tensor]:
    return {name: value + number for name, value in FIRST.items()}


def test_each_version_is_read_as_it_was_written(tmp_path: Path) -> None:
    for number in (1, 2):
        PrivateRows(folder=tmp_path / "state", first=FIRST).write(receipt(number), version(number))
    rows = PrivateRows(folder=tmp_path / "state", first=FIRST)
    for number in (0, 1, 2):
        found = rows.read(NO_RECEIPT if number == 0 else receipt(number))
        assert list(found) == list(FIRST)
        assert all(torch.equal(found[name], value) for name, value in version(number).items())
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()} == {0o600}


def test_versions_in_use_are_kept_and_others_deleted(tmp_path: Path) -> None:
    """Round after round the server rejects the site's answers: it always returns to version 1."""
    rows = PrivateRows(folder=tmp_path, first=FIRST)
    rows.write(receipt(1), version(1))
    for number in range(2, 20):
        rows.read(receipt(1))
        rows.write(receipt(number), version(number))
        assert len(list(tmp_path.iterdir())) == min(number, KEPT)
    assert torch.equal(rows.read(receipt(19))["start/w"], version(19)["start/w"])
    assert torch.equal(rows.read(receipt(1))["start/w"], version(1)["start/w"])
    with pytest.raises(FederationError, match="cannot read its private state"):
        rows.read(receipt(2))


def test_versions_in_use_are_kept_after_the_clock_was_set_back(tmp_path: Path) -> None:
    rows = PrivateRows(folder=tmp_path, first=FIRST)
    for number in range(1, KEPT + 1):
        rows.write(receipt(number), version(number))
        os.utime(tmp_path / f"{receipt(number)}.safetensors", (4e9 + number, 4e9 + number))
    for number in range(KEPT + 1, 2 * KEPT):
        rows.read(receipt(number - 1))
        rows.write(receipt(number), version(number))
        for used in (number - 1, number):  # the server may not receive the last reply
            assert torch.equal(rows.read(receipt(used))["start/w"], version(used)["start/w"])


def test_damaged_files_and_rows_of_another_algorithm_are_rejected(tmp_path: Path) -> None:
    rows = PrivateRows(folder=tmp_path, first=FIRST)
    rows.write(receipt(1), version(1))
    with pytest.raises(FederationError, match="another algorithm"):
        PrivateRows(folder=tmp_path, first={"start/w": torch.zeros(1, 4)}).read(receipt(1))
    path = tmp_path / f"{receipt(1)}.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FederationError, match="restore"):
        rows.read(receipt(1))


def test_a_writer_that_was_killed_leaves_no_version(tmp_path: Path) -> None:
    (tmp_path / f"{receipt(1)}.part").write_bytes(b"half of a file")
    rows = PrivateRows(folder=tmp_path, first=FIRST)
    with pytest.raises(FederationError, match="cannot read its private state"):
        rows.read(receipt(1))
    rows.write(receipt(1), version(1))
    assert torch.equal(rows.read(receipt(1))["start/w"], version(1)["start/w"])
