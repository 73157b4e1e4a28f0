"""Shortest paths decide differences of columns as the solver and as values on a grid do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fedkg.pack import Pack
from fedkg_compiler.analysis import reason
from fedkg_compiler.analysis.difference_bounds import MOST_ROWS, DifferenceBounds
from fedkg_compiler.analysis.single_column_bounds import RowTable
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


@pytest.mark.parametrize("seed", range(40))
def test_paths_agree_with_every_point_of_a_grid(seed: int) -> None:
    text = random_rules(seed)
    table, kept = RowTable(packed(text)), satisfied(text)
    rows = sorted(range(table.count), key=lambda row: int(table.rule[row]))
    paths = DifferenceBounds(table).at(rows)
    assert paths is not None
    together = np.logical_and.reduce(kept)
    core = paths.conflict(rows)
    assert (core is None) == bool(together.any())
    if core is not None:
        assert not np.logical_and.reduce([kept[table.rule[row]] for row in core]).any()
        for left_out in core:
            others = [kept[table.rule[row]] for row in core if row != left_out]
            assert np.logical_and.reduce([np.ones_like(together), *others]).any()
        return
    for row in rows:
        others = [one for one in rows if one != row]
        given = np.logical_and.reduce([kept[table.rule[one]] for one in others])
        implied = not (given & ~kept[table.rule[row]]).any()
        found = paths.implying(row, others)
        assert (found is not None) == implied
        if found:
            enough = np.logical_and.reduce([kept[table.rule[one]] for one in found])
            assert not (enough & ~kept[table.rule[row]]).any()


@pytest.mark.parametrize("seed", range(40, 52))
def test_verdicts_are_those_of_the_solver(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = packed(random_rules(seed))
    ours = {(one.kind, one.rules[0]) for one in reason(pack)}
    monkeypatch.setattr(DifferenceBounds, "at", lambda *_: None)
    assert {(one.kind, one.rules[0]) for one in reason(pack)} == ours


def test_other_rules_and_very_many_are_left_to_the_solver() -> None:
    lines = ["signal a", "signal b", "rule r require 2 * a - b <= 1"]
    assert DifferenceBounds(RowTable(packed("\n".join(lines)))).at([0]) is None
    lines = ["signal a", "signal b", *(f"rule r{i} require a - b <= {i}" for i in range(41))]
    table = RowTable(packed("\n".join(lines)))
    assert table.count == MOST_ROWS + 1
    bounds = DifferenceBounds(table)
    assert bounds.at(range(40)) is not None
    assert bounds.at(range(41)) is None


def test_a_limit_that_only_just_fails_is_no_conflict() -> None:
    lines = ["signal a", "signal b", "rule r require a - b <= 0.3"]
    lines += ["rule s require a - b >= 0.30000000000000004"]
    paths = DifferenceBounds(RowTable(packed("\n".join(lines)))).at([0, 1])
    assert paths is not None
    assert paths.clash([0, 1])
    assert not paths.clash([0, 1], lenient=True)
