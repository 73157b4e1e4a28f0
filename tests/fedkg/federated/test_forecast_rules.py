"""Rules on forecasts are judged on the trace, and `past` reaches back to observed values.

The penalty has the correct derivative.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedkg import authoring
from fedkg.constraints import columns
from fedkg.errors import LayoutError
from fedkg.federated import CrossEntropy
from fedkg.federated.round_steps import Step
from fedkg.federated.temporal.forecast_rules import (
    ForecastPenalty,
    ForecastRules,
    ForecastScorer,
    forecast_rules,
    judged_forecasts,
)
from fedkg.models import Recurrent
from fedkg.pack import Pack

LAYOUT = columns(["count"], mean=[10.0], std=[2.0])


@pytest.fixture(scope="module")
def pack() -> Pack:
    return authoring.compile(
        text="""
timeline step 1 h ends clip
signal heat in degC span 0 .. 50
output count span 0 .. 100
rule low hard require count <= 14
rule slow require count <= past count + 3
rule ends require initially eventually within 3 h count <= 8
rule heat_is_real require heat >= 0 degC
"""
    )


@pytest.fixture(scope="module")
def rules(pack: Pack) -> ForecastRules:
    return replace(forecast_rules(pack, LAYOUT, 4), last=(0,))


def scaled(*counts: float) -> torch.Tensor:
    return (torch.tensor(counts, dtype=torch.float64) - 10.0) / 2.0


def test_a_forecast_is_one_trace_and_past_reaches_back_to_what_was_observed(rules):
    x = torch.zeros(3, 5, 1, dtype=torch.float64)
    x[:, -1, 0] = scaled(10.0, 5.0, 10.0)
    forecasts = torch.stack([scaled(12, 13, 10, 7), scaled(12, 13, 10, 7), scaled(12, 16, 18, 20)])
    broken, applied = judged_forecasts(rules, forecasts, x)
    assert broken.tolist() == [[False, False, False], [False, True, False], [True, True, True]]
    assert bool(applied.all())


def test_rules_over_other_inputs_are_left_aside_and_a_channel_that_is_not_forecast_is_rejected(
    pack, rules
):
    assert [rule.name for rule in rules.module.pack.manifest.rules][-1] == "heat_is_real"
    assert len(rules.module.banks) == 3
    with pytest.raises(LayoutError):
        forecast_rules(pack, columns(["flow"]), 4)


def test_what_is_not_finite_keeps_no_rule(rules):
    broken, applied = judged_forecasts(
        rules,
        torch.full((1, 4), torch.nan, dtype=torch.float64),
        torch.zeros(1, 5, 1, dtype=torch.float64),
    )
    assert bool(broken.all())
    assert bool(applied.all())


def test_scores_of_stacked_models_are_those_of_each(rules):
    model = Recurrent(cell="gru", history=5, horizon=4, hidden=3, layers=1)
    each = [
        {name: 20 * value for name, value in model.init(seed, torch.float64).items()}
        for seed in range(3)
    ]
    scorer = ForecastScorer(
        model,
        rules,
        torch.randn(6, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    together = scorer.score({name: torch.stack([one[name] for one in each]) for name in each[0]})
    assert scorer.rows.names == ("low", "slow", "ends")
    assert scorer.rows.hard.tolist() == [True, False, False]
    for place, one in enumerate(each):
        alone = scorer.score({name: value[None] for name, value in one.items()})
        assert torch.equal(together.violation[place], alone.violation[0])


def test_the_derivative_by_the_output_is_that_of_finite_differences_and_padding_counts_nothing(
    rules,
):
    model = Recurrent(cell="gru", history=5, horizon=4, hidden=3, layers=1)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, 5, 1, dtype=torch.float64, generator=generator)
    output = 3 + torch.randn(2, 3, 4, dtype=torch.float64, generator=generator)
    share = torch.tensor([[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
    params = {
        name: value[None].repeat(2, *[1] * value.dim())
        for name, value in model.init(0, torch.float64).items()
    }

    def step(output: torch.Tensor) -> Step:
        return Step(
            model=model,
            loss=CrossEntropy(),
            params=params,
            x=x,
            y=x[..., 0, 0],
            share=share,
            noise=None,
            clients=torch.arange(2),
            start=params,
            output=output,
        )

    penalty = ForecastPenalty(rules=rules, weight=2.0)
    value, slope = penalty.by_output(step(output))
    assert torch.allclose(value, penalty.value(step(output)))
    assert bool((slope[0, 2] == 0).all())
    low = replace(rules, last=None)  # without `past`, no step reads another one's forecast
    assert bool(ForecastPenalty(rules=low).value(step(output)).isfinite().all())
    h = 1e-5
    for place in ((0, 0, 3), (1, 2, 0)):
        moved = output.clone()
        moved[place] += h
        difference = (penalty.value(step(moved)) - value).sum() / h
        # the next step's `past` is constant, so its share of the difference does not enter the
        # derivative
        assert place[2] < 3 or float(difference) == pytest.approx(float(slope[place]), abs=1e-4)
