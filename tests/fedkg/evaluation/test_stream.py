"""A stream of rows gets the verdicts that `evaluate` gives the whole table, however it is cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.authoring import load_or_compile
from fedkg.errors import TableError
from fedkg.evaluation import evaluate
from fedkg.evaluation.stream import KINDS, RuleStream
from fedkg.pack import Pack
from fedkg.tables import Table

RULES = (
    "require temp <= 78 degC",
    "require always [0, 3] temp <= 76 degC",
    "require if temp > 70 degC then eventually [0, 4] temp <= 62 degC",
    "require abs(temp - past temp) <= 12 K",
    "require temp - temp 2 ago <= 10 K",
    "require once [0, 2] temp <= 66 degC",
    "require if kind is mill then historically [0, 3] temp <= 74 degC",
    "require eventually [0, 2] temp <= 68 degC",
    "require temp >= 62 degC until [0, 3] temp <= 66 degC",
    "require temp >= 62 degC since [0, 3] temp <= 66 degC",
    "require mean of temp over last 4 <= 72 degC",
    "require max of temp over next 3 <= 79 degC",
    "require if previous (temp > 70 degC) then next (temp <= 75 degC)",
    "require temp never falls",
    "require temp never falls per kind",
)
HEAD = """signal temp in degC span 0 .. 200
signal kind
rule of_kind require if kind is mill or kind is press then temp <= 79 degC
"""
TIMELINES = (
    'timeline step 5 min time column "time" trace column "line"{ends}\n',
    'timeline step 5 min time column "time"{ends}\n',
    'timeline time column "time" trace column "line"{ends}\n',
    "timeline step 5 min{ends}\n",
)


def compile_rules(folder: Path, rules: list[str], timeline: str) -> Pack:
    path = folder / "rules.fkg"
    path.write_text(timeline + HEAD + "".join(f"rule r{n} {one}\n" for n, one in enumerate(rules)))
    return load_or_compile([path])[0]


def with_keys(pack: Pack) -> Pack:
    """The pack with every other bank bound twice, to the rows of one kind each."""
    contract = pack.manifest.contract
    kind = contract.index("kind")
    banks = []
    for place, bank in enumerate(pack.banks):
        if place % 2:
            twice = bank.take(np.repeat(np.arange(bank.rows), 2))
            codes = np.tile(np.array([[0], [1]], dtype=np.int32), (bank.rows, 1))
            bank = replace(twice, keys=np.full_like(codes, kind), codes=codes)
        banks.append(bank)
    return replace(pack, banks=tuple(banks))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[str]]:
    """Rows of two lines in order of time: with gaps, repeated steps, times off the grid, and
    unknown cells.
    """
    dice = np.random.default_rng(draw(st.integers(0, 10_000)))
    rows = []
    for step in range(draw(st.integers(1, 45))):
        for line in dice.permutation(["A", "B"]):
            while dice.random() < 0.8:
                seconds = step * 300 + int(dice.choice([0, 0, 0, 40, 140]))
                time = f"2025-03-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
                temp = "" if dice.random() < 0.05 else f"{60 + 20 * dice.random():.1f}"
                kind = str(dice.choice(["mill", "press", "lathe", ""], p=[0.5, 0.4, 0.05, 0.05]))
                if dice.random() < 0.03:
                    time = "?"
                rows.append((time, str(line), temp, kind))
                if dice.random() < 0.85:
                    break
    rows.sort(key=lambda row: row[0] if draw_order(row) else "")
    return dict(zip(("time", "line", "temp", "kind"), map(list, zip(*rows, strict=True)), strict=True)) if rows else {"time": [], "line": [], "temp": [], "kind": []}


def draw_order(row: tuple[str, ...]) -> bool:
    return row[0] != "?"


def part(columns: dict[str, list[str]], start: int, end: int) -> Table:
    return Table.of("t", {name: cells[start:end] for name, cells in columns.items()})


def counts_of(pack: Pack, table: Table) -> dict[str, list[int]]:
    """The counts of `evaluate` on the whole table."""
    return {
        one.rule: [one.satisfied, one.violated, one.unknown] for one in evaluate(pack, table).rules
    }


@tries(120)
@given(
    columns=tables(),
    rules=st.lists(st.sampled_from(RULES), min_size=1, max_size=6, unique=True),
    timeline=st.sampled_from(TIMELINES),
    ends=st.sampled_from(["", " ends clip"]),
    keyed=st.booleans(),
    cuts=st.lists(st.integers(0, 90), max_size=12),
)
def test_a_stream_counts_what_evaluate_counts(
    tmp_path_factory: pytest.TempPathFactory,
    columns: dict[str, list[str]],
    rules: list[str],
    timeline: str,
    ends: str,
    keyed: bool,
    cuts: list[int],
) -> None:
    """Every part ends at a cut; at every other cut a new stream continues from the saved state."""
    pack = compile_rules(tmp_path_factory.mktemp("r"), rules, timeline.format(ends=ends))
    pack = with_keys(pack) if keyed else pack
    length = len(columns["time"])
    stream, start = RuleStream(pack), 0
    for number, end in enumerate([*sorted({min(cut, length) for cut in cuts}), length]):
        stream.add(part(columns, start, end))
        start = end
        if number % 2:
            saved = json.loads(json.dumps(stream.to_json()))
            stream = RuleStream(pack)
            stream.restore(saved, part(columns, 0, 0))
    stream.finish()
    assert not stream.not_monitored
    found = dict(zip((one.name for one in pack.manifest.rules), stream.counts.T.tolist()))
    assert found == counts_of(pack, part(columns, 0, length))
