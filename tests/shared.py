"""The folder of real ontologies and data sets, if available next to the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("FEDKG_SHARED", Path(__file__).resolve().parents[2] / "shared"))

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"no folder of real data at {SHARED}; set FEDKG_SHARED"
)
