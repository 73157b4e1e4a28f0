"""The report of a causal discovery: arrows end at boxes, losses have names and axes."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.report.causes_page import NODE, TIP, causes_page, curves, drawing


def _edge(driver: str, driven: str, adjusted: float | None = 0.01) -> dict[str, Any]:
    numbers = {
        "adjusted": adjusted,
        "p_value": adjusted,
        "reference": 0.5,
        "strength": 0.4,
        "kept": 0.8,
        "lag": 1,
    }
    return {"driver": driver, "driven": driven, **numbers}


@given(st.integers(2, 12), st.data())
def test_arrows_end_so_far_from_the_box_that_their_head_is_seen(
    count: int, data: st.DataObject
) -> None:
    names = [f"unit {n}" for n in range(count)]
    driver, driven = data.draw(st.permutations(names))[:2]
    made = drawing(names, [_edge(driver, driven)], 0.05)
    (arrow,) = made["arrows"]
    numbers = [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", arrow["path"])]
    spots = {client["name"]: (float(client["x"]), float(client["y"])) for client in made["clients"]}
    for (x, y), name, gap in ((numbers[:2], driver, 4), (numbers[4:], driven, TIP)):
        beyond = [
            abs(at - middle) - half
            for at, middle, half in zip((x, y), spots[name], NODE, strict=True)
        ]
        assert max(beyond) > 0
        assert max(beyond) <= gap + 0.2
        assert math.isfinite(x + y)


def test_losses_are_named_coloured_and_between_their_axes() -> None:
    made = curves(
        [
            {"epoch": 1, "server": 2.0, "a": 1.0},
            {"epoch": 2, "server": 1.0, "a": 1.0},
            {"epoch": 3, "server": 0.5, "a": 0.9},
        ]
    )
    assert [curve["name"] for curve in made] == ["server", "a"]
    assert len({curve["colour"] for curve in made}) == 2
    assert all(
        0 <= float(number) <= 640 for curve in made for number in re.split("[ ,]", curve["points"])
    )


@pytest.mark.parametrize("epochs", [0, 3])
def test_the_page_can_be_used_without_a_mouse(epochs: int) -> None:
    losses = [{"epoch": n + 1, "server": 1.0 / (n + 1)} for n in range(epochs)]
    results: dict[str, Any] = {
        "title": "Who drives <b>whom\x1b[2J\u202e",
        "sentences": ["a drives b."],
        "notes": [],
        "prior": [],
        "level": 0.05,
        "step": 1.0,
        "edges": [_edge("a", "b")],
        "clients": {"a": {"lags": 1}, "b": {"lags": 1}},
        "central": False,
        "held": {},
        "readings": [],
        "precedences": [],
        "reached": {"a": [], "b": []},
    }
    page = causes_page(results, losses)
    assert r"Who drives &lt;b&gt;whom\u001b[2J\u202e" in page
    assert not {"\x1b", "\u202e"} & set(page)
    assert page.count('role="button"') == 2
    assert page.count('class="client" tabindex="0"') == 2
    assert 'event.key === " "' in page
    assert ("epoch 3</text>" in page) == bool(epochs)
    heads = re.findall(r"<th\b[^>]*>", page)
    assert heads
    assert all('scope="col"' in head for head in heads)
