"""Fixtures of the tests of the graph: a home and a catalogue without additions, and the small
plant.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_cases import plant_graph

from fedkg_compiler.graph import Catalog, Graph, load_catalog


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return load_catalog(home=tmp_path_factory.mktemp("no-additions"))


@pytest.fixture(scope="session")
def plant(catalog: Catalog) -> Graph:
    return plant_graph(catalog)
