"""Models with built-in hard rules are exact in float32 and float64.

Moved answers have no gradient; non-finite ones stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fedkg
from fedkg.errors import JobError
from fedkg.federated.temporal.forecast_rules import forecast_rules, judged_forecasts
from fedkg.federated.temporal.hard_rule_forecasts import with_hard_rules
from fedkg.models import Noise, Params

STEPS = 4
HEAD = "timeline step 1 h{ends}\noutput x in bar span 0 .. 100\noutput y in bar span 0 .. 100\n"
RULES = """
rule low hard require x >= 0.3 bar
rule soft require y >= 7 bar
"""
APART = """
rule apart hard require x - 3 * y >= 0.1 bar
rule near hard require x - 3 * y <= 9 bar
"""
OVER_TIME = """
rule band hard require 0.3 bar <= x <= 8.7 bar
rule falls hard require if x > 5 bar then eventually within 2 h x <= 2.1 bar
rule first hard require initially y <= 1 bar
"""


@dataclass(frozen=True)
class Given:
    """A model with answers equal to its parameters, [C, B, T * V]."""

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        return {"answers": torch.zeros(3, STEPS * 2, dtype=dtype)}

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        return params["answers"]


@settings(max_examples=25, deadline=None)
@given(
    rules=st.sampled_from([RULES, APART, OVER_TIME]),
    mean=st.tuples(st.floats(-50, 50), st.floats(-50, 50)),
    std=st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    clip=st.booleans(),
    seed=st.integers(0, 1000),
)
@pytest.mark.filterwarnings("ignore::fedkg.authoring.RuleWarning")
def test_no_forecast_violates_a_hard_rule(
    rules: str,
    mean: tuple[float, float],
    std: tuple[float, float],
    dtype: torch.dtype,
    clip: bool,
    seed: int,
) -> None:
    pack = fedkg.compile(text=HEAD.format(ends="  ends clip" if clip else "") + rules)
    layout = fedkg.columns(["x", "y"], mean=mean, std=std)
    model = with_hard_rules(Given(), pack, layout, STEPS)
    source = 12 * torch.randn(
        2, 50, STEPS, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    answers = ((source - torch.tensor(mean)) / torch.tensor(std)).flatten(2).to(dtype)
    moved = model.apply({"answers": answers}, torch.zeros(50, 1))
    judge = forecast_rules(pack, layout, STEPS)
    names = [pack.manifest.rules[int(i)] for bank in judge.module.banks for i in bank.rule]
    for numbers in (moved.float(), moved.double()) if dtype != torch.float64 else (moved,):
        broken, _ = judged_forecasts(judge, numbers.flatten(0, 1), torch.zeros(100, 1, 2))
        hard = torch.tensor([rule.hard for rule in names])
        assert not bool(broken[:, hard].any())
    again = model.apply({"answers": moved}, torch.zeros(50, 1))
    assert torch.equal(again, moved)


def test_what_is_moved_has_no_gradient_and_what_is_not_finite_stays() -> None:
    pack = fedkg.compile(text=HEAD.format(ends="  ends clip") + RULES)
    model = with_hard_rules(Given(), pack, fedkg.columns(["x", "y"]), STEPS)
    answers = torch.tensor([[[5.0, 1.0] * 3 + [-1.0, -3.0], [torch.nan, 1.0] * 4]])
    answers.requires_grad_()
    moved = model.apply({"answers": answers}, torch.zeros(2, 1))
    assert moved[0, 0].tolist() == pytest.approx([5.0, 1.0] * 3 + [0.3, -3.0])
    assert moved[0, 1].isnan().tolist() == [True, False] * 4
    (slope,) = torch.autograd.grad(moved[0, 0].sum(), answers)
    assert slope[0].tolist() == [[1.0] * 6 + [0.0, 1.0], [0.0] * 8]


def test_without_hard_rules_the_model_stays_as_it_is() -> None:
    pack = fedkg.compile(text=HEAD.format(ends="") + "rule soft require y >= 7 bar")
    model = Given()
    assert with_hard_rules(model, pack, fedkg.columns(["x", "y"]), STEPS) is model


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("rule r hard require x * y <= 3 bar * 1 bar", "`r` is hard, but .* not linear"),
        ("rule r hard require x >= past x", "before the forecast, `past x`"),
        (
            "rule a hard require x + y <= 1 bar\nrule b hard require x - y <= 1 bar",
            "too complex to be built into forecasts",
        ),
        ("rule a hard require x <= 1 bar\nrule b hard require x >= 2 bar", "no forecast satisfies"),
    ],
)
@pytest.mark.filterwarnings("ignore::fedkg.authoring.RuleWarning")
def test_what_cannot_be_enforced_is_an_error(rules: str, said: str) -> None:
    pack = fedkg.compile(text=HEAD.format(ends="") + rules)
    with pytest.raises(JobError, match=said):
        with_hard_rules(Given(), pack, fedkg.columns(["x", "y"]), STEPS)


@pytest.mark.parametrize(
    ("ends", "last"), [("", [6.0, 6.0]), ("  ends clip", [5.0, 5.0])], ids=["strict", "clip"]
)
def test_with_strict_ends_what_may_still_come_true_moves_nothing(
    ends: str, last: list[float]
) -> None:
    rule = "rule falls hard require if x > 5 bar then eventually within 2 h x <= 2 bar"
    pack = fedkg.compile(text=HEAD.format(ends=ends) + rule)
    model = with_hard_rules(Given(), pack, fedkg.columns(["x", "y"]), STEPS)
    x = torch.tensor([[1.0, 1.0, 6.0, 6.0]])
    answers = torch.stack([x, torch.zeros_like(x)], -1).flatten(1)[None]
    moved = model.apply({"answers": answers}, torch.zeros(1, 1)).view(STEPS, 2)[:, 0]
    assert moved.tolist() == pytest.approx([1.0, 1.0, *last])


@pytest.mark.filterwarnings("ignore::fedkg.authoring.RuleWarning")
def test_a_window_without_an_end_beyond_the_trace_is_open() -> None:
    rule = (
        "rule soon hard require always [0 h, 1 h] (eventually x <= 2 bar)\nrule y require y <="
        " 9 bar"
    )
    pack = fedkg.compile(text=HEAD.format(ends="") + rule)
    layout = fedkg.columns(["x", "y"])
    model = with_hard_rules(Given(), pack, layout, STEPS)
    answers = torch.tensor([[[6.0, 0.0] * STEPS]])
    moved = model.apply({"answers": answers}, torch.zeros(1, 1))
    assert moved.view(STEPS, 2)[:, 0].tolist() == pytest.approx([6.0, 6.0, 6.0, 2.0])
    judge = forecast_rules(pack, layout, STEPS)
    assert not bool(judged_forecasts(judge, moved[0], torch.zeros(1, 1, 2))[0].any())
    assert bool(judged_forecasts(judge, answers[0], torch.zeros(1, 1, 2))[0].any())
