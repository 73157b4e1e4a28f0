"""Messages of a module about non-finite answers, invalid probabilities and missing parts."""

from __future__ import annotations

import warnings

import pytest
import torch

import fedkg
from fedkg.constraints import ConstraintModule, ConstraintWarning
from fedkg.constraints.binding.layout import OutputLayout
from fedkg.errors import LayoutError, UsageError

RULES = (
    "signal torque in N.m span 0 .. 100\noutput load in kW\noutput failure in probability\nrule low"
    " require {output}\n"
)


def module() -> ConstraintModule:
    pack = fedkg.compile(text=RULES.format(output="failure <= 0.5"))
    return ConstraintModule(pack, x=fedkg.columns(["torque"]), y=fedkg.probability("failure"))


def test_answers_that_are_no_numbers_are_warned_of_once() -> None:
    rules, batch = module(), torch.linspace(1, 90, 10)[:, None]
    with pytest.warns(
        ConstraintWarning,
        match="7 of the model's 10 answers are not finite: fedkg does not evaluate the rules",
    ):
        report = rules(x=batch, y=lambda x: torch.where(x > 25, torch.nan, 0.1))
    assert (report.violation_rate, int(report.unknown.sum())) == (0.0, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules(x=batch, y=lambda x: x * torch.nan)


def test_answers_to_unknown_features_padding_and_a_tensor_of_known_answers_are_not_warned_of() -> (
    None
):
    rules, batch = module(), torch.tensor([[1.0], [torch.nan]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules(x=batch, y=lambda x: x / 10)
        rules(x=batch, y=torch.tensor([[0.1], [torch.nan]]))
        rules(
            x=torch.ones(2, 1),
            y=lambda x: torch.tensor([[0.1], [torch.nan]]),
            sample_weight=torch.tensor([1.0, 0.0]),
        )


@pytest.mark.parametrize("layout", [fedkg.probability("load"), fedkg.logit("load")])
def test_an_output_with_a_unit_is_no_probability(layout: OutputLayout) -> None:
    pack = fedkg.compile(text=RULES.format(output="load <= 5 kW"))
    with pytest.raises(LayoutError, match="output `load` is in kW") as caught:
        ConstraintModule(pack, x=fedkg.columns(["torque"]), y=layout)
    assert caught.value.expected == "fedkg.columns(['load'])"
    ConstraintModule(pack, x=fedkg.columns(["torque"]), y=fedkg.columns(["load"]))


def test_parts_that_there_are_not_are_rejected() -> None:
    report = module()(x=torch.ones(2, 1), y=lambda x: x / 2)
    with pytest.raises(UsageError, match="no parts by `bank`\n  expected: rule, kind, entity"):
        report.penalty_by("bank")  # type: ignore[arg-type]  # that is what is tested


def test_a_model_in_place_of_its_answers_is_told_to_be_called() -> None:
    rules, batch = module(), torch.ones(2, 1)
    with pytest.raises(LayoutError) as caught:
        # that is what is tested
        rules.project(x=batch, y=torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    assert caught.value.help == "pass the answers, not the model: y=model(x)"
    with pytest.raises(LayoutError) as caught:
        rules(x=batch, y=lambda x: (x, x))
    assert caught.value.help.endswith("rules(x=batch, y=lambda z: model(z)[0])")
