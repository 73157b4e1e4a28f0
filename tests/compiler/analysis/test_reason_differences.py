"""Verdicts on differences of columns are those of the values on a grid."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from fedkg.pack import Pack
from fedkg_compiler.analysis import reason
from fedkg_compiler.pipeline import compile_rules

GRID = np.arange(0, 4.01, 0.25)
"""Values of each column. Limits are whole, and a cycle through 0 and three columns has four edges:
if any values satisfy strict rules, quarters do."""


def random_rules(seed: int) -> str:
    draw = np.random.default_rng(seed)
    lines = [f"signal {name} span 0 .. 4" for name in "abc"]
    for i in range(int(draw.integers(3, 7))):
        one, two = draw.choice(list("abc"), 2, replace=False)
        op = draw.choice(["<", "<=", ">", ">="])
        left = one if draw.random() < 0.4 else f"{one} - {two}"
        lines.append(f"rule r{i} require {left} {op} {draw.integers(-2, 5)}")
    return "\n".join(lines)


def packed(text: str) -> Pack:
    found = compile_rules([], text=text, reason=False)
    assert found.pack is not None, [item.message for item in found.diagnostics]
    return found.pack


def satisfied(text: str) -> list[np.ndarray]:
    """Which points of the grid satisfy each rule: evaluated by Python."""
    points = np.array(list(product(GRID, repeat=3)))
    names = dict(zip("abc", points.T, strict=True))
    return [
        eval(line.split("require")[1], {}, names) for line in text.splitlines() if "require" in line
    ]


@pytest.mark.parametrize("seed", range(20))
def test_verdicts_agree_with_every_point_of_a_grid(seed: int) -> None:
    text = random_rules(seed)
    kept = {f"r{i}": points for i, points in enumerate(satisfied(text))}
    found = reason(packed(text))
    torn = [one.rules for one in found if one.kind in ("conflict", "outside")]
    if torn:
        assert not np.logical_and.reduce(list(kept.values())).any()
    else:  # rules that only just fail, by rounding, are no conflict
        closed = satisfied(re.sub("([<>])=?", r"\1=", text))
        assert np.logical_and.reduce(closed).any()
    for rules in torn:
        assert not np.logical_and.reduce([kept[rule] for rule in rules]).any()
        for left_out in rules if len(rules) > 1 else ():
            assert np.logical_and.reduce([kept[rule] for rule in rules if rule != left_out]).any()
    for one in found:
        if one.kind in ("redundant", "duplicate"):
            row, *others = one.rules
            assert not (np.logical_and.reduce([kept[other] for other in others]) & ~kept[row]).any()


def test_a_limit_that_only_just_fails_is_no_conflict() -> None:
    lines = ["signal a", "signal b", "rule r require a - b <= 0.3"]
    lines += ["rule s require a - b >= 0.30000000000000004"]
    assert not [one for one in reason(packed("\n".join(lines))) if one.kind == "conflict"]
