"""The gallery shows what its commands produce."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gallery import PICTURES, RESULTS, ROOT, sections, take_pictures

MAX_SIZE = 100_000
"""Bytes of a picture, so that the repository stays small."""


def test_every_picture_is_there_and_small() -> None:
    names = sections()
    assert set(names) == {*RESULTS, "live", "playground"}
    assert {path.stem for path in PICTURES.iterdir()} == set(names)
    assert all(0 < path.stat().st_size < MAX_SIZE for path in PICTURES.iterdir())
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {*names["playground"][0].split()[1:]} <= {*targets}


@pytest.mark.slow
def test_the_commands_produce_the_pictures(tmp_path: Path) -> None:
    pictures, folder = tmp_path / "pictures", tmp_path / "clone"
    pictures.mkdir()
    folder.mkdir()
    taken = take_pictures(pictures, folder)
    assert {*sections()} - {*taken} <= {"playground"}, "which needs `make playground`"
    for name in taken:
        assert (pictures / f"{name}.webp").read_bytes()[8:12] == b"WEBP"
