"""Paired differences, intervals and figures over sites, with hand-computed numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from fedkg.jobs.comparison.paired_test import (
    T_QUANTILES,
    compare_pairs,
    describe_setting_differences,
    mean_interval,
)
from fedkg.jobs.comparison.site_spread import describe_local_training, spread_over_sites


def row(
    title: str, values: list[float], *, alpha: str = "", seeds: list[int] | None = None, **more: Any
) -> dict[str, Any]:
    facts = {
        "setting": {"data.alpha": alpha} if alpha else {},
        "corrupted": "",
        "preset": title,
        "title": title,
        "baseline": False,
    }
    return (
        facts
        | {
            "seed_list": seeds or list(range(len(values))),
            "measure": "f1",
            "f1": {"values": values},
        }
        | more
    )


def test_the_quantiles_are_those_of_student():
    for degrees, quantile in enumerate(T_QUANTILES, start=1):
        assert quantile == pytest.approx(float(stdtrit(degrees, 0.975)), abs=1e-6)


def test_an_interval_by_hand():
    low, high = mean_interval([1.0, 2.0, 3.0]) or (0.0, 0.0)
    assert (low + high) / 2 == pytest.approx(2.0)
    assert high - 2.0 == pytest.approx(4.302653 / math.sqrt(3))
    assert mean_interval([1.0]) is None
    assert mean_interval([1.0, math.nan]) is None


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40))
def test_an_interval_holds_its_mean_and_moves_with_it(values: list[float]):
    low, high = mean_interval(values) or (0.0, 0.0)
    mean = math.fsum(values) / len(values)
    assert low - 1e-6 <= mean <= high + 1e-6
    moved = mean_interval([value + 5.0 for value in values]) or (0.0, 0.0)
    assert moved == pytest.approx((low + 5.0, high + 5.0), abs=1e-6)


def test_pairs_are_made_on_the_seeds_that_both_have():
    [pair] = compare_pairs(
        [row("scfa", [0.5, 0.9], seeds=[1, 2]), row("fedavg", [0.1, 0.3, 0.4], seeds=[0, 1, 2])]
    )
    assert (pair.one, pair.other, pair.where) == ("scfa", "fedavg", "as given")
    assert pair.test.differences == pytest.approx((0.2, 0.5))
    assert describe_setting_differences([row("scfa", [0.5]), row("fedavg", [0.1])]) == []


def test_settings_of_one_algorithm_are_held_to_the_first():
    rows = [row("scfa", [0.2, 0.3], alpha="0.1"), row("scfa", [0.6, 0.7], alpha="10")]
    local = row("local", [0.1, 0.1], alpha="0.1", baseline=True)
    found = compare_pairs([rows[0], local, rows[1]])
    assert [(pair.one, pair.other) for pair in found] == [
        ("alpha 10", "alpha 0.1"),
        ("local", "scfa"),
    ]
    [said] = describe_setting_differences([rows[0], local, rows[1]])
    assert said == (
        "F1 with alpha 10 against alpha 0.1: not significant: higher by 0.400 (95 % "
        "interval +0.400 to +0.400, 2 seeds)."
    )


def test_figures_over_sites_by_hand():
    lines = [
        {"f1": "0.2", "violation": "0.1"},
        {"f1": "0.6", "violation": "0.3"},
        {"f1": "", "violation": "0.2"},
    ]
    found = spread_over_sites([lines])
    assert {name: value["mean"] for name, value in found["f1"].items()} == pytest.approx(
        {
            "mean": 0.4,
            "deviation": math.sqrt(0.08),
            "worst": 0.2,
            "q10": 0.24,
            "q50": 0.4,
            "q90": 0.56,
        }
    )
    assert found["violation"]["worst"]["mean"] == 0.3
    assert set(found) == {"f1", "violation"}
    assert spread_over_sites([lines, [{"f1": "0.0"}, {"f1": "1.0"}]])["f1"]["worst"][
        "mean"
    ] == pytest.approx(0.1)


def test_what_sites_have_of_the_federation_is_reported():
    figures = [
        spread_over_sites([[{"f1": str(one)}, {"f1": str(two)}]])
        for one, two in ((0.5, 0.7), (0.2, 0.3))
    ]
    base, local = (
        row("FedAvg", [0.6], preset="fedavg", sites=figures[0]),
        row("Each site alone", [0.2], preset="local_only", baseline=True, sites=figures[1]),
    )
    [said] = describe_local_training([base, local])
    assert said == (
        "On its own test rows a site ends at F1 0.600 on average (0.500 at the worst) with FedAvg, "
        "and at 0.250 on average (0.200 at the worst) when it trains alone."
    )
    assert describe_local_training([base]) == []
