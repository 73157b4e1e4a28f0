"""Limits of numbers over time: pandas is the oracle for the numbers, the interpreter for
verdicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from tries import tries

import fedkg
from fedkg.constraints.meaning.trace_robustness import trace_satisfaction
from fedkg.errors import HorizonError, KnowledgeError
from fedkg.federated.temporal.expert_rules import expert_rules
from fedkg.federated.temporal.properties import mined
from fedkg.mining import MiningResult, mine, mine_properties, quantile, satisfied_traces
from fedkg.mining.tightness import tightness
from fedkg.pack import Pack

LAYOUT = fedkg.columns(["x"])
STEPS, FIRST, LAST = 12, 3, 9
"""Length of a trace, and the steps at which the conditions below read the number."""


def above(x: pd.Series, limit: float) -> pd.Series:
    """1 where a value is above a limit, 0 where it is not, NaN where the value is unknown."""
    return (x > limit).astype(float).where(x.notna())


def starts(holds: pd.Series) -> pd.Series:
    """1 where a condition holds and did not hold one step before; NaN where that is unknown."""
    before = holds.shift(1)
    no = (holds == 0) | (before == 1)
    yes = (holds == 1) & (before == 0)
    return pd.Series(np.where(yes, 1.0, np.where(no, 0.0, np.nan)))


def largest_since_low(x: pd.Series) -> pd.Series:
    """The maximum since the latest value below 3."""
    found, running = [], np.nan
    for value in x:
        running = value if value < 3 else np.nan if np.isnan(value) else max(running, value)
        found.append(running if value < 3 or not np.isnan(running) else np.nan)
    return pd.Series(found)


NUMBERS: dict[str, tuple[str, Callable[[pd.Series], pd.Series]]] = {
    "mean": ("mean of x over last 30 min", lambda x: x.rolling(3).mean()),
    "sum": ("sum of x over last 2", lambda x: x.rolling(2).sum()),
    "least": ("min of x over last 40 min", lambda x: x.rolling(4).min()),
    "ahead": ("max of x over next 30 min", lambda x: x[::-1].rolling(3).max()[::-1]),
    "rate": ("rate of x over last 20 min", lambda x: (x - x.shift(2)) / 20),
    "change": ("x - x 10 min ago", lambda x: x - x.shift(1)),
    "count": ("count of (x > 5 bar) over last 30 min", lambda x: above(x, 5).rolling(3).sum()),
    "share": ("share of (x > 5 bar) over last 40 min", lambda x: above(x, 5).rolling(4).mean()),
    "duration": (
        "duration of (x > 5 bar) over last 20 min",
        lambda x: 10 * above(x, 5).rolling(2).sum(),
    ),
    "starts": (
        "starts of (x > 5 bar) over last 30 min",
        lambda x: starts(above(x, 5)).rolling(3).sum(),
    ),
    "since": ("max of x since (x < 3 bar)", largest_since_low),
}


def compile_rules(ends: str = "", more: str = "") -> Pack:
    lines = [f"timeline step 10 min {ends}", "signal x in bar span 0 .. 10"]
    for name, (number, _) in NUMBERS.items():
        condition = f"always [30 min, 90 min] low <= {number} <= high"
        lines += [
            f"template {name}_limits(x, low, high) = {condition}",
            f"infer {name} per client find ?low, ?high in {name}_limits(x, ?low, ?high)",
        ]
    return fedkg.compile(text="\n".join(lines) + "\n" + more)


@pytest.fixture(scope="module", params=["", "ends clip"])
def pack(request: pytest.FixtureRequest) -> Pack:
    return compile_rules(request.param)


def mine_limits(pack: Pack, name: str, x: Tensor, **how: object) -> MiningResult:
    [inference] = [one for one in pack.manifest.inferences if one.name == name]
    return mine(pack, inference, x, layout=LAYOUT, **how)  # type: ignore[arg-type]


def traces_with_gaps(seed: int, clients: int = 2, samples: int = 5) -> Tensor:
    """Traces of which some have an unknown value."""
    generator = torch.Generator().manual_seed(seed)
    shape = (clients, samples, STEPS, 1)
    values = 10 * torch.rand(shape, generator=generator, dtype=torch.float64)
    unknown = torch.rand(shape, generator=generator) < 0.04
    return torch.where(unknown, torch.nan, values)


@pytest.mark.parametrize("name", NUMBERS)
@tries(15)
@given(seed=st.integers(0, 2**31))
def test_limits_are_the_extremes_of_the_rolling_numbers(pack: Pack, name: str, seed: int) -> None:
    x, counts = traces_with_gaps(seed), (5, 3)
    inside = torch.arange(5) < torch.tensor(counts).unsqueeze(1)
    expected = []
    for client, count in zip(x, counts, strict=True):
        numbers = [NUMBERS[name][1](pd.Series(trace[:, 0].numpy())) for trace in client[:count]]
        read = [number.to_numpy()[FIRST : LAST + 1] for number in numbers]
        expected.append([one for one in read if not np.isnan(one).any()])
    if not any(expected):
        with pytest.raises(HorizonError, match="every trace leaves it unknown"):
            mine_limits(pack, name, x, inside=inside)
        return
    found = mine_limits(pack, name, x, inside=inside)
    assert found.traces.tolist() == [len(one) for one in expected]
    for client, known in enumerate(expected):
        if known:
            limits = [np.min(known), np.max(known)]
            np.testing.assert_allclose(found.values[client], limits, atol=1e-9)
            assert found.satisfied[client] == 1
        else:
            assert not bool(found.determined[client].any())


@pytest.mark.parametrize("name", NUMBERS)
@tries(10)
@given(seed=st.integers(0, 2**31))
def test_the_interpreter_agrees_about_what_is_known_and_satisfied(name: str, seed: int) -> None:
    pack = compile_rules()
    x = traces_with_gaps(seed, clients=1, samples=4)[0]
    [inference] = [one for one in pack.manifest.inferences if one.name == name]
    bank = pack.conditions[inference.condition]

    def verdicts(low: float, high: float) -> list[bool | None]:
        params = bank.params[0].copy()
        params[[parameter.param for parameter in inference.parameters]] = low, high
        numbers = params.tolist()
        return [trace_satisfaction(bank.skeleton, trace, numbers) for trace in x.numpy()]

    known = [verdict is True for verdict in verdicts(-1e9, 1e9)]
    if not any(known):
        return
    found = mine_limits(pack, name, x)
    low, high = found.values[0].tolist()
    assert found.traces.tolist() == [sum(known)]
    assert [verdict is True for verdict in verdicts(low, high)] == known
    loose, tight = verdicts(low, high), verdicts(low, high - 1e-6 * (1 + abs(high)))
    assert loose != tight
    own = satisfied_traces(pack, inference, found.values, x, layout=LAYOUT)
    assert own[0].tolist() == known


def test_a_quantile_and_bisection_treat_numbers_like_signals() -> None:
    pack = compile_rules()
    x = 10 * torch.rand(
        1, 20, STEPS, 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64
    )
    means = pd.DataFrame(x[0, :, :, 0].numpy().T).rolling(3).mean()[FIRST : LAST + 1]
    highest = np.sort(means.max().to_numpy())
    template = "template most(x, high) = always [30 min, 90 min] mean of x over last 30 min <= high"
    one = compile_rules(more=template + "\ninfer most per client find ?high in most(x, ?high)\n")
    assert mine_limits(one, "most", x, pick=quantile(0.75)).values.item() == pytest.approx(
        highest[14]
    )
    halved = mine_limits(pack, "mean", x, method="bisection").values[0, 1].item()
    assert halved == pytest.approx(highest[-1], abs=1e-4)


def test_the_trigger_is_a_quantile_of_the_known_numbers() -> None:
    template = (
        "template follows(x, a, b) = always [20 min, 90 min]"
        " if mean of x over last 30 min >= a then eventually within 20 min x >= b"
    )
    infer = "infer follows per client find ?a, ?b in follows(x, ?a, ?b)"
    pack = compile_rules(more=f"{template}\n{infer}\n")
    x = torch.arange(STEPS, dtype=torch.float64).reshape(1, STEPS, 1)
    found = mine_limits(pack, "follows", x, trigger=0.5)
    assert found.chosen.tolist() == [[True, False]]
    # The means are 1, 2, ..., 10, unknown at the first two steps. From the first mean above their
    # median on, which is that of step 7, the largest of three values is at least 9.
    assert found.values.tolist() == [[5.5, 9.0]]


def test_the_end_of_a_window_around_a_number_is_found() -> None:
    template = "template calm(x, end) = always [20 min, end] mean of x over last 30 min <= 5 bar"
    pack = compile_rules(more=template + "\ninfer calm per client find ?end in calm(x, ?end)\n")
    x = torch.tensor([1.0, 9, 2, 3, 6, 4, 9, 9, 1, 1, 1, 1], dtype=torch.float64).reshape(1, -1, 1)
    # The means from the third step on are 4, 3.7, 3.7, 4.3, 6.3, ...: the first above 5 is that of
    # step 6, counted from 0.
    assert mine_limits(pack, "calm", x).values.tolist() == [[5.0]]


@pytest.mark.parametrize("ends", ["", "ends clip"])
def test_a_number_that_no_trace_determines_is_an_error(ends: str) -> None:
    template = "template level(x, high) = mean of x over last 30 min <= high"
    pack = compile_rules(
        ends, f"{template}\ninfer level per client find ?high in level(x, ?high)\n"
    )
    with pytest.raises(HorizonError, match=r"`level` reads .* unknown") as error:
        mine_limits(pack, "level", torch.rand(3, STEPS, 1))
    assert "let the window begin later" in str(error.value)


def test_windows_of_a_grid_at_which_a_number_is_unknown_are_not_tried() -> None:
    pack = fedkg.compile(
        text="timeline step 1 h\nsignal x in bar span 0 .. 10\n"
        "template level(x, high, a, b) = always [a, b] mean of x over last 3 <= high\n"
        "infer level per client find ?high, ?a, ?b in level(x, ?high, ?a, ?b)\n"
    )
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.rand(1, 40, 6, 1), 5 + torch.rand(1, 40, 6, 1)], 2)
    [[best]] = mine_properties(
        pack, x, layout=LAYOUT, windows=[(0, 4), (2, 4)], generator=generator
    )
    assert best.text.startswith("always [2 h, 4 h] (mean of x over last 3 h <= 0.")


def test_the_tightness_metric_is_not_defined_for_numbers_over_time() -> None:
    pack = compile_rules()
    [inference] = [one for one in pack.manifest.inferences if one.name == "mean"]
    values = torch.tensor([[0.0, 10.0]], dtype=torch.float64)
    with pytest.raises(KnowledgeError, match="`mean` reads earlier values or numbers over time"):
        tightness(pack, inference, values, torch.rand(3, STEPS, 1), layout=LAYOUT)


def test_the_teacher_names_what_it_cannot_correct() -> None:
    """A forecast is corrected step by step, and a number over time ties its steps together."""
    pack = fedkg.compile(
        text="timeline step 1 h\noutput x in bar span 0 .. 10\n"
        "rule level require mean of x over last 3 h <= 6 bar\n"
        "template level_limit(x, high) = always [2 h, 4 h] mean of x over last 3 h <= high\n"
        "infer usual per client find ?high in level_limit(x, ?high)\n"
    )
    _, [left] = expert_rules(pack, LAYOUT, STEPS)
    assert left.name == "level"
    assert "a number over time" in left.reason
    assert "limit the values of the steps themselves" in left.reason
    with pytest.raises(KnowledgeError, match=r"`infer usual` has .* a number over time"):
        mined(pack, [torch.rand(3, STEPS, 1)], LAYOUT)
