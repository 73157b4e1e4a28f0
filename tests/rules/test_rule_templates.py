"""The templates that ship: the paper's eight and the second reading of one.

Each has traces that satisfy it and traces that do not.
"""

from __future__ import annotations

import csv
import gzip
import math
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from shared import SHARED, needs_shared

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.evaluation import evaluate
from fedkg.pack import Pack
from fedkg.tables import read_table
from fedkg_compiler import compile_rules

FOLDER = Path(__file__).parents[2] / "rules" / "templates"
FILES = sorted(FOLDER.glob("*.fkg"))
TRAFFIC = SHARED / "data" / "traffic-norway-hourly" / "volume_hourly_95stations.csv.gz"
HEAD = "timeline step 1 h ends clip\nsignal x\nsignal z\n"
LIBRARY = "".join(path.read_text(encoding="utf-8") for path in FILES)


def compiled(text: str) -> Pack:
    compilation = compile_rules(text=LIBRARY + text)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


@pytest.fixture(scope="module")
def table() -> tuple[Pack, dict[str, int]]:
    """All calls below, in one pack, and the position of each."""
    calls = list(dict.fromkeys(call for call, *_ in CASES))
    rules = "".join(f"rule r{i} require initially follows {call}\n" for i, call in enumerate(calls))
    return compiled(HEAD + rules), {call: i for i, call in enumerate(calls)}


CASES = [
    ("operational_range(x, 1, 3, 1 h, 2 h)", "0 1 3 9", True),
    ("operational_range(x, 1, 3, 1 h, 2 h)", "2 1 4 2", False),
    ("operational_ranges(x, 0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 1)", "0 1 2 3 4 5 6 7", True),
    ("operational_ranges(x, 0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 1)", "0 1 2 3 4 6 6 7", False),
    ("existence(x, 1, 3, 0, 2)", "9 9 2 9", True),
    ("existence(x, 1, 3, 0, 2)", "9 9 9 2", False),
    ("extremes(x, 5, 1, 0, 2)", "3 5 1 3", True),
    ("extremes(x, 5, 1, 0, 2)", "3 5 2 1", False),
    ("until(x, 5, 1, 1, 2)", "4 4 0 9", True),
    ("until(x, 5, 1, 1, 2)", "4 5 0 0", False),
    ("until(x, 5, 1, 1, 2)", "4 4 4 0", False),
    ("intra_task(x, z, 1, 0, 1)", "5 6 0 / 3 4 9", True),
    ("intra_task(x, z, 1, 0, 1)", "5 6 9 / 3 5 0", False),
    ("temporal_implication(x, 5, 2, 0, 2, 1, 2)", "5 0 2 0", True),
    ("temporal_implication(x, 5, 2, 0, 2, 1, 2)", "5 0 1 9", False),
    ("nested_intra_task(x, z, 5, 2, 0, 2, 1, 2)", "5 0 0 0 / 0 0 2 0", True),
    ("nested_intra_task(x, z, 5, 2, 0, 2, 1, 2)", "5 9 9 9 / 9 0 0 9", False),
    ("multiple_eventualities(x, 3, 0, 1, 7, 2, 3)", "0 3 7 0", True),
    ("multiple_eventualities(x, 3, 0, 1, 7, 2, 3)", "0 2 7 9", False),
    ("three_eventualities(x, 3, 0, 1, 7, 2, 3, 9, 4, 4)", "0 3 7 0 9", True),
    ("three_eventualities(x, 3, 0, 1, 7, 2, 3, 9, 4, 4)", "0 3 7 0 8", False),
    ("always_soon_above(x, 3, 0, 2, 1)", "0 3 0 3", True),
    ("always_soon_above(x, 3, 0, 2, 1)", "0 3 0 0", False),
    ("always_soon_below(x, 3, 0, 2, 1)", "9 3 9 3", True),
    ("always_soon_below(x, 3, 0, 2, 1)", "9 3 9 9", False),
    ("soon_long_above(x, 3, 0, 2, 1)", "0 3 3 0", True),
    ("soon_long_above(x, 3, 0, 2, 1)", "3 0 3 0", False),
    ("soon_long_below(x, 3, 0, 2, 1)", "9 3 3 9", True),
    ("soon_long_below(x, 3, 0, 2, 1)", "3 9 3 9", False),
]


@pytest.mark.parametrize(("call", "trace", "follows"), CASES, ids=lambda value: str(value))
def test_a_trace_follows_a_template_or_not(
    call: str, trace: str, follows: bool, table: tuple[Pack, dict[str, int]]
) -> None:
    pack, numbers = table
    x, _, z = trace.partition("/")
    series = {
        "x": [float(word) for word in x.split()],
        "z": [float(word) for word in (z or x).split()],
    }
    values = np.stack([series[column.name] for column in pack.manifest.contract.columns], axis=1)[
        None
    ]
    for bank in pack.banks:
        row = np.flatnonzero(bank.rule == numbers[call])
        if row.size:
            result = evaluate_bank(bank, values, Timing.rows(values.shape[1], "clip"))
            assert bool(result.satisfied[0, row[0]]) is follows
            return
    raise AssertionError(call)


def test_every_template_is_tried_both_ways() -> None:
    names = {
        line.split("(")[0].removeprefix("template ")
        for line in LIBRARY.split("\n")
        if line.startswith("template ")
    }
    assert {call.split("(")[0] for call, _, follows in CASES if follows} == names
    assert {call.split("(")[0] for call, _, follows in CASES if not follows} == names


DIRECTIONS = {
    "operational_range(x, ?low, ?high, 0, 1)": "low down, high up",
    "existence(x, ?low, ?high, 0, 1)": "low down, high up",
    "extremes(x, ?high, ?low, 0, 1)": "high down, low up",
    "until(x, ?first, ?goal, 0, 1)": "first up, goal up",
    "intra_task(x, z, ?least, 0, 1)": "least down",
    "temporal_implication(x, ?trigger, ?answer, 0, 3, 1, 2)": "trigger up, answer down",
    "nested_intra_task(x, z, ?trigger, ?answer, 0, 3, 1, 2)": "trigger up, answer down",
    "multiple_eventualities(x, ?one, 0, 1, ?two, 2, 3)": "one down, two down",
}


def test_directions_are_those_of_the_paper() -> None:
    names = [
        " ".join(word.split()[0] for word in said.split(", ")).split()
        for said in DIRECTIONS.values()
    ]
    text = "".join(
        f"infer i{i} per client find ?{', ?'.join(names[i])} in {call}\n"
        for i, call in enumerate(DIRECTIONS)
    )
    found = compiled(HEAD + text).manifest.inferences
    assert [
        ", ".join(f"{one.name} {one.direction}" for one in inference.parameters)
        for inference in found
    ] == list(DIRECTIONS.values())


@needs_shared
def test_the_range_of_real_traffic_holds_when_it_is_tight_and_fails_when_it_is_tighter(
    tmp_path: Path,
) -> None:
    days, volumes = hours_by_day("38224V384485", 60)
    low, high = volumes[:, 6:9].min(), volumes[:, 6:9].max()
    lines = [
        f"{day},{hour},{'' if math.isnan(volume) else f'{volume:g}'}"
        for day, row in zip(days, volumes, strict=True)
        for hour, volume in enumerate(row)
    ]
    path = tmp_path / "traffic.csv"
    path.write_text("day,hour,volume\n" + "\n".join(lines) + "\n", encoding="utf-8")

    def broken(least: float, most: float) -> int:
        text = (
            'timeline step 1 h trace column "day" ends clip\nsignal volume\nrule morning require'
            " initially follows operational_range("
        )
        (rule,) = evaluate(
            compiled(f"{text}volume, {least}, {most}, 6 h, 8 h)\n"), read_table(path)
        ).rules
        assert rule.satisfied + rule.violated == len(days)
        return rule.violated

    assert broken(low, high) == 0
    assert broken(low + 1, high) == (volumes[:, 6:9].min(axis=1) == low).sum()
    assert broken(low, high - 1) == (volumes[:, 6:9].max(axis=1) == high).sum()


def hours_by_day(station: str, wanted: int) -> tuple[list[str], NDArray[np.float64]]:
    """The first days without a gap in the morning at a station, and their hourly volumes.

    float64 [days, 24], NaN where unknown.
    """
    found: dict[str, list[float]] = {}
    with gzip.open(TRAFFIC, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            time = datetime.fromisoformat(row["time_utc"])
            found.setdefault(f"{time:%Y-%m-%d}", []).append(float(row[station] or math.nan))
    whole = {
        day: values
        for day, values in found.items()
        if len(values) == 24 and not any(map(math.isnan, values[6:9]))
    }
    days = list(whole)[:wanted]
    assert len(days) == wanted
    return days, np.array([whole[day] for day in days])
