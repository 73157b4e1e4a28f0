"""A stream of rows gets the verdicts that `evaluate` gives the whole table, however it is cut."""

from __future__ import annotations

import json
import warnings
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
            off = int(dice.choice([0, 0, 0, 40, 140]))
            while dice.random() < 0.8:
                seconds = step * 300 + off
                time = f"2025-03-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
                temp = "" if dice.random() < 0.05 else f"{60 + 20 * dice.random():.1f}"
                kind = str(dice.choice(["mill", "press", "lathe", ""], p=[0.5, 0.4, 0.05, 0.05]))
                if dice.random() < 0.03:
                    time = "?"
                rows.append((time, str(line), temp, kind))
                if dice.random() < 0.85:
                    break
    names = ("time", "line", "temp", "kind")
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, cells, strict=True)}


def part(columns: dict[str, list[str]], start: int, end: int) -> Table:
    return Table.of("t", {name: cells[start:end] for name, cells in columns.items()})


def counts_of(pack: Pack, table: Table) -> dict[str, list[int]]:
    """The counts of `evaluate` on the whole table."""
    return {
        one.rule: [one.satisfied, one.violated, one.unknown] for one in evaluate(pack, table).rules
    }


@tries(24)
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
    names = (one.name for one in pack.manifest.rules)
    found = dict(zip(names, stream.counts.T.tolist(), strict=True))
    assert found == counts_of(pack, part(columns, 0, length))


def stream_all(pack: Pack, columns: dict[str, list[str]]) -> tuple[RuleStream, list[Any]]:
    """A stream that got the rows one by one, and its verdicts."""
    stream, found = RuleStream(pack), []
    for row in range(len(next(iter(columns.values())))):
        found += stream.add(part(columns, row, row + 1), KINDS)
    return stream, found


def test_a_rule_waits_for_its_horizon_and_memory_is_bounded(tmp_path: Path) -> None:
    pack = compile_rules(
        tmp_path, ["require always [0, 3] temp <= 76 degC"], TIMELINES[3].format(ends="")
    )
    length = 200
    columns = {"temp": [str(60 + row % 20) for row in range(length)], "kind": ["mill"] * length}
    stream, found = RuleStream(pack), []
    for row in range(length):
        found = stream.add(part(columns, row, row + 1), KINDS)
        assert stream.held <= 6
    assert [one.row for one in found if one.rule == "r0"] == [length - 3]
    assert stream.waiting == 3
    assert {one.row for one in stream.finish(KINDS)} == {length - 2, length - 1, length}


def test_rules_that_need_all_rows_are_named(tmp_path: Path) -> None:
    rules = [
        "require once temp >= 62 degC",
        "require if temp > 90 degC then eventually temp <= 60 degC",
        "require if at the start then temp <= 70 degC",
        "require temp <= 78 degC",
    ]
    pack = compile_rules(tmp_path, rules, TIMELINES[3].format(ends=""))
    stream, _ = stream_all(pack, {"temp": ["70", "80"], "kind": ["mill", "mill"]})
    assert set(stream.not_monitored) == {"r0", "r1", "r2"}
    assert all("whole trace" in reason for reason in stream.not_monitored.values())
    assert stream.rule_counts()["r3"] == {
        "satisfied": 1, "violated": 1, "unknown": 0, "rate": 0.5
    }  # fmt: skip
    assert stream.rule_counts()["r0"]["rate"] is None


def test_a_row_earlier_than_the_one_before_it_is_an_error(tmp_path: Path) -> None:
    pack = compile_rules(
        tmp_path, ["require always [0, 3] temp <= 76 degC"], TIMELINES[1].format(ends="")
    )
    times = ["2025-03-01T00:05:00", "2025-03-01T00:00:00"]
    with pytest.raises(TableError, match="row 2 is earlier than a row before it"):
        RuleStream(pack).add(
            Table.of("t", {"time": times, "temp": ["1", "2"], "kind": ["mill"] * 2})
        )


@pytest.mark.parametrize(
    ("rule", "spec", "delay"),
    [
        ("historically [0, 3] temp <= 76 degC", "historically[0,3](x <= 76)", 0),
        ("once [1, 2] temp <= 66 degC", "once[1,2](x <= 66)", 0),
        ("temp >= 62 degC since [0, 4] temp <= 66 degC", "(x >= 62) since[0,4] (x <= 66)", 0),
        ("always [0, 3] temp <= 76 degC", "always[0,3](x <= 76)", 3),
        ("eventually [1, 4] temp <= 63 degC", "eventually[1,4](x <= 63)", 4),
    ],
)
def test_robustness_is_that_of_rtamt_online(
    tmp_path: Path, rule: str, spec: str, delay: int
) -> None:
    """rtamt's online monitor (Nickovic and Yamaguchi 2020) gives the value of step t - delay at
    step t. Windows end with the trace there, so `ends clip`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rtamt = pytest.importorskip("rtamt")
        monitor = rtamt.StlDiscreteTimeOnlineSpecification()
        for name in ("x", "out"):
            monitor.declare_var(name, "float")
        monitor.spec = f"out = {spec}"
        monitor.parse()
        monitor.pastify()
        temps = np.round(60 + 20 * np.random.default_rng(5).random(60), 2).tolist()
        theirs = [monitor.update(step, [("x", temp)]) for step, temp in enumerate(temps)]
    pack = compile_rules(tmp_path, [f"require {rule}"], TIMELINES[3].format(ends=" ends clip"))
    cells = {"temp": [str(temp) for temp in temps], "kind": ["mill"] * len(temps)}
    _, found = stream_all(pack, cells)
    own = {one.row - 1: one.robustness for one in found if one.rule == "r0"}
    assert sorted(own) == list(range(len(temps) - delay))
    decided = {step: value for step, value in own.items() if np.isfinite(value)}
    assert len(decided) >= len(temps) - delay - 1
    for step, value in decided.items():
        assert value == pytest.approx(theirs[step + delay], abs=1e-9)
