"""Every model and data set that a job may name has its row in the guide."""

from __future__ import annotations

import pytest
from blocks import ROOT

from fedkg.data.sets import DATA_SETS
from fedkg.models import MODELS

ROWS = [
    line
    for line in (ROOT / "docs" / "reference" / "models-and-data-sets.md")
    .read_text(encoding="utf-8")
    .splitlines()
    if line.startswith("| `")
]


@pytest.mark.parametrize("name", [*MODELS, *DATA_SETS])
def test_the_guide_has_a_row_for(name: str) -> None:
    assert sum(line.startswith(f"| `{name}` |") for line in ROWS) == 1
