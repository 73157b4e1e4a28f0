"""The folders that ship with the compiler are found in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.errors import FedkgError
from fedkg_compiler import input_files
from fedkg_compiler.graph import load_catalog
from fedkg_compiler.input_files import data_folder


def test_the_checkout_has_them() -> None:
    assert (data_folder("ontologies") / "catalog.toml").is_file()
    assert data_folder("rules").is_dir()


def test_the_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_data" / "ontologies").mkdir(parents=True)
    monkeypatch.setattr(input_files, "_PLACES", (tmp_path / "_data", tmp_path))
    assert data_folder("ontologies") == tmp_path / "_data" / "ontologies"
    with pytest.raises(FedkgError, match="rules/ that belongs to fedkg is missing"):
        data_folder("rules")
    with pytest.raises(FedkgError, match="catalogue of ontologies"):
        load_catalog()
