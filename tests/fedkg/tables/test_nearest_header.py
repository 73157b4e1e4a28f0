"""The most similar header to a mistyped one."""

from __future__ import annotations

import pytest

from fedkg._internal.name_matching import nearest_header

HEADERS = ["Torque [Nm]", "Tool wear [min]", "Air temperature [K]", "PT-204"]


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("torque nm", "Torque [Nm]"),
        ("toolwear", "Tool wear [min]"),
        ("PT204", "PT-204"),
        ("Air temp", "Air temperature [K]"),
        ("xyz", None),
    ],
)
def test_nearest(wanted: str, meant: str | None) -> None:
    assert nearest_header(wanted, HEADERS) == meant
