"""Mined parameters of every template against an exhaustive search with plain loops over steps.

The data are small whole numbers, so that comparisons are often met with equality.
Source: An, Johnson and Ma 2024, table 1 and equation (1); existence as the shortest interval that
every trace visits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

import fedkg
from fedkg.mining import mine

STEPS = 6
Trace = Sequence[Sequence[int]]
"""Values of x and y at each step."""


@dataclass(frozen=True)
class Case:
    """A template with open parameters.

    Attributes:
        text: the call of the template.
        find: its open parameters, in the order of mining.
        loose: for each of them the side of its loosest value, 1 or -1.
        strict: for each whether data that equal the parameter violate the comparison.
        holds: the verdict on one trace, with the parameters by name.
    """

    text: str
    find: tuple[str, ...]
    loose: tuple[int, ...]
    strict: tuple[bool, ...]
    holds: Callable[[Trace, dict[str, float]], bool]


def x(trace: Trace, begin: int = 0, end: int = STEPS - 1) -> list[int]:
    return [trace[t][0] for t in range(begin, end + 1)]


def implication(of: int) -> Callable[[Trace, dict[str, float]], bool]:
    """Trigger 3 in x at steps 0 .. 3 implies `answer` one or two steps later, in channel `of`."""

    def holds(trace: Trace, p: dict[str, float]) -> bool:
        return all(
            trace[t][0] < 3 or any(trace[t + d][of] >= p["answer"] for d in (1, 2))
            for t in range(4)
        )

    return holds


def until(trace: Trace, p: dict[str, float]) -> bool:
    return any(
        trace[t][0] < p["goal"] and all(trace[before][0] < p["first"] for before in range(t))
        for t in range(4)
    )


CASES = {
    "operational range": Case(
        "operational_range(x, ?low, ?high, 1, 3)",
        ("low", "high"),
        (-1, 1),
        (False, False),
        lambda trace, p: all(p["low"] <= value <= p["high"] for value in x(trace, 1, 3)),
    ),
    "existence": Case(
        "existence(x, ?low, ?high, 0, 2)",
        ("low", "high"),
        (-1, 1),
        (False, False),
        lambda trace, p: any(p["low"] <= value <= p["high"] for value in x(trace, 0, 2)),
    ),
    "existence, upper end first": Case(
        "existence(x, ?low, ?high, 0, 2)",
        ("high", "low"),
        (1, -1),
        (False, False),
        lambda trace, p: any(p["low"] <= value <= p["high"] for value in x(trace, 0, 2)),
    ),
    "extremes": Case(
        "extremes(x, ?high, ?low, 0, 2)",
        ("high", "low"),
        (-1, 1),
        (False, False),
        lambda trace, p: max(x(trace, 0, 2)) >= p["high"] and min(x(trace, 0, 2)) <= p["low"],
    ),
    "until": Case("until(x, ?first, ?goal, 0, 3)", ("goal", "first"), (1, 1), (True, True), until),
    "until, first value first": Case(
        "until(x, ?first, ?goal, 0, 3)", ("first", "goal"), (1, 1), (True, True), until
    ),
    "intra-task": Case(
        "intra_task(x, y, ?least, 0, 1)",
        ("least",),
        (-1,),
        (True,),
        lambda trace, p: all(trace[t][0] - trace[t][1] > p["least"] for t in (0, 1)),
    ),
    "temporal implication": Case(
        "temporal_implication(x, 3, ?answer, 0, 3, 1, 2)",
        ("answer",),
        (-1,),
        (False,),
        implication(0),
    ),
    "nested intra-task": Case(
        "nested_intra_task(x, y, 3, ?answer, 0, 3, 1, 2)",
        ("answer",),
        (-1,),
        (False,),
        implication(1),
    ),
    "multiple eventualities": Case(
        "multiple_eventualities(x, ?early, 0, 2, ?late, 3, 5)",
        ("early", "late"),
        (-1, -1),
        (False, False),
        lambda trace, p: max(x(trace, 0, 2)) >= p["early"] and max(x(trace, 3, 5)) >= p["late"],
    ),
    "closed comparison": Case(
        "first_high_or_floor(x, y, ?floor)",
        ("floor",),
        (-1,),
        (False,),
        lambda trace, p: all(trace[t][0] >= 3 or trace[t][1] >= p["floor"] for t in range(3)),
    ),
    "closed comparison without a compiled loop": Case(
        "first_half_high_or_floor(x, y, ?floor)",
        ("floor",),
        (-1,),
        (False,),
        lambda trace, p: all(trace[t][0] / 2 >= 1.5 or trace[t][1] >= p["floor"] for t in range(3)),
    ),
}
SPAN = 20.0
MARGIN = 1e-6 * 4 * SPAN
"""Largest distance from a value that a strict comparison excludes: a millionth of the span."""
PACK = fedkg.compile(
    text="""
timeline step 1 h
signal x in % span -10 .. 10
signal y in % span -10 .. 10
template first_high_or_floor(x, y, floor) = always [0, 2] (x >= 3 or y >= floor)
template first_half_high_or_floor(x, y, floor) = always [0, 2] (x / 2 >= 1.5 or y >= floor)
"""
    + "".join(
        f"use rules templates.{case.text.partition('(')[0]}\n"
        for name, case in CASES.items()
        if "first" not in name and not case.text.startswith("first_")
    )
    + "".join(
        (
            f"infer case_{number} per client find {', '.join('?' + name for name in case.find)} "
            f"in {case.text}\n"
        )
        for number, case in enumerate(CASES.values())
    )
)

values = st.integers(0, 6)
clients = st.lists(
    st.lists(
        st.lists(st.tuples(values, values), min_size=STEPS, max_size=STEPS), min_size=1, max_size=4
    ),
    min_size=1,
    max_size=3,
)


def loosest(case: Case) -> dict[str, float]:
    return {name: side * math.inf for name, side in zip(case.find, case.loose, strict=True)}


def fits(case: Case, traces: Sequence[Trace], params: dict[str, float]) -> bool:
    return all(case.holds(trace, params) for trace in traces)


CANDIDATES = [value + beside for value in range(-7, 8) for beside in (0.0, 0.5)]
"""All values of x, y and x - y, and the midpoints between them: no formula distinguishes others."""


def searched(case: Case, traces: Sequence[Trace]) -> dict[str, float]:
    """The tightest value of each bound parameter, others at their loosest; off by 0.5 if strict."""
    found = loosest(case)
    waiting = list(case.find)
    while waiting:
        for name in waiting:
            side = case.loose[case.find.index(name)]
            ordered = sorted(CANDIDATES, key=lambda number: side * number)
            good = [one for one in ordered if fits(case, traces, {**found, name: one})]
            if good and good[0] != ordered[0]:
                found[name] = good[0]
                waiting.remove(name)
                break
        else:
            break
    return {name: value for name, value in found.items() if math.isfinite(value)}


def shortest(case: Case, traces: Sequence[Trace]) -> float:
    """The length of the shortest interval that all traces satisfy."""
    return min(
        high - low
        for low, high in product(range(7), repeat=2)
        if low <= high and fits(case, traces, {"low": low, "high": high})
    )


def mined(number: int, data: Sequence[Sequence[Trace]]) -> list[dict[str, float]]:
    """The results of `mine` for each client; open parameters are absent."""
    most = max(len(traces) for traces in data)
    tensor = torch.zeros((len(data), most, STEPS, 2), dtype=torch.float64)
    inside = torch.zeros((len(data), most), dtype=torch.bool)
    for place, traces in enumerate(data):
        tensor[place, : len(traces)] = torch.tensor(traces, dtype=torch.float64)
        inside[place, : len(traces)] = True
    inference = PACK.manifest.inferences[number]
    found = mine(PACK, inference, tensor, layout=fedkg.columns(["x", "y"]), inside=inside)
    return [
        {
            name: value
            for name, value in zip(found.names, row.tolist(), strict=True)
            if not math.isnan(value)
        }
        for row in found.values
    ]


@pytest.mark.parametrize("name", CASES)
@tries(60)
@given(data=clients)
def test_no_value_is_tighter_than_the_mined_one(name: str, data: list[list[Trace]]) -> None:
    case = CASES[name]
    for traces, found in zip(data, mined(list(CASES).index(name), data), strict=True):
        if name.startswith(("existence", "operational")):
            assert found["high"] - found["low"] == shortest(case, traces)
        if not name.startswith("existence"):
            expected = searched(case, traces)
            assert found.keys() == expected.keys()
            for parameter, value in found.items():
                place = case.find.index(parameter)
                side, strict = case.loose[place], case.strict[place]
                limit = expected[parameter] - (0.5 * side if strict else 0.0)
                assert side * (value - limit) <= (MARGIN if strict else 0.0)
                assert value != limit if strict else value == limit
        assert fits(case, traces, {**loosest(case), **found})


def test_existence_of_the_specification() -> None:
    """Traces with values {1, 5}, {4, 9}, {6, 2}: the shortest interval that all visit is 4 .. 6."""
    sets = [(1, 5, 5), (4, 9, 9), (6, 2, 2)]
    traces = [[(value, 0) for value in (*own, 0, 0, 0)] for own in sets]
    number = list(CASES).index("existence")
    alone = [[(value, 0) for value in (3, 3, 3, 0, 0, 0)]]
    assert mined(number, [traces, alone]) == [{"low": 4.0, "high": 6.0}, {"low": 3.0, "high": 3.0}]


def test_of_shortest_intervals_the_leftmost_is_taken() -> None:
    """Both 4 .. 8 and 5 .. 9 visit the values {1, 5}, {4, 9}, {6, 2} and {9, 8}."""
    traces = [[(value, 0) for value in (*own, own[0], 0, 0, 0)] for own in ((1, 5), (4, 9), (6, 2))]
    traces.append([(value, 0) for value in (9, 8, 9, 0, 0, 0)])
    for name in ("existence", "existence, upper end first"):
        [found] = mined(list(CASES).index(name), [traces])
        assert found == {"low": 4.0, "high": 8.0}
