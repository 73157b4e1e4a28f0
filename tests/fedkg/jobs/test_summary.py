"""The comparison over seeds, with hand-computed numbers."""

from __future__ import annotations

import pytest

from fedkg.jobs import Job
from fedkg.jobs.comparison.injection import describe_injection
from fedkg.jobs.comparison.summary import compare_trials, describe_comparison, summarise_seeds
from fedkg.jobs.comparison_metric import MEASURES
from fedkg.jobs.trial_expansion import expand_trials


def configs(seeds: int = 2, corrupt: bool = False):
    fields = {
        "pack": "p",
        "sites": ["graz", "linz"],
        "compare": {"algorithm": ["fedavg", "scfa"]},
        "seeds": seeds,
    }
    return expand_trials(
        Job.model_validate(fields | ({"corrupt": {"site": "linz"}} if corrupt else {}))
    )


def lines(trial: str, f1: list[float], rho: float = 0.2):
    fields = {
        "precision": "0.5",
        "recall": "0.5",
        "loss": "0.1",
        "rho_worst": str(rho),
        "rho_mean": str(rho / 2),
        "bytes": "100",
        "bytes_paper": "30",
    }
    return [
        {"trial": trial, "round": str(i), "f1": "" if value < 0 else str(value), **fields}
        for i, value in enumerate(f1, start=1)
    ]


def test_figures_by_hand():
    rounds = (
        lines("fedavg-s0", [0.1, 0.5, 0.6])
        + lines("fedavg-s1", [0.2, 0.3, 0.4])
        + lines("scfa-s0", [0.6, 0.7, 0.8])
        + lines("scfa-s1", [0.4, 0.5, 0.6])
    )
    base, ours = compare_trials(configs(), rounds, [], 0.5)
    assert base["f1"]["mean"] == pytest.approx(0.5)
    assert base["f1"]["spread"] == pytest.approx(0.1414, abs=1e-4)
    assert base["rounds_to_target"] == {
        "mean": 2.0,
        "interval": None,
        "spread": None,
        "values": [2.0, None],
    }
    assert base["reached"] == 1
    assert base["rounds_to_90"]["values"] == [3.0, 3.0]
    assert ours["rounds_to_target"]["mean"] == 1.5
    assert ours["bytes"]["mean"] == 300.0
    assert ours["zone"] == "critical"
    (said,) = describe_comparison([base, ours], 0.5)
    assert (
        ": higher, by 0.200 ± 0.000 (on 2 of 2 seeds), not significant." in said
    )  # two equal values give no estimate of chance


def test_rounds_without_an_evaluation_are_not_counted_but_numbered():
    rounds = lines("fedavg-s0", [-1, 0.3, -1, 0.6]) + lines("scfa-s0", [-1, 0.0, -1, 0.0])
    base, ours = compare_trials(configs(1), rounds, [], 0.5)
    assert base["rounds_to_target"]["values"] == [4.0]
    assert ours["reached"] == 0
    assert ours["rounds_to_90"]["mean"] is None


def test_rounds_to_90_percent_of_the_fall_of_an_error():
    rounds = [
        line | {"rmse": line["f1"], "f1": ""}
        for line in lines("fedavg-s0", [80.0, 60.0, 44.5, 43.5, 40.0, 50.0])
        + lines("scfa-s0", [80.0, 81.0, 80.0])
    ]
    base, ours = compare_trials(
        configs(1), rounds, [], float("nan"), measure=MEASURES["regression"]
    )
    assert base["rounds_to_90"]["values"] == [4.0]  # 44 or less: 80 - 0.9 * (80 - 40)
    assert ours["rounds_to_90"]["values"] == [None], "no error is below the first"


def test_mixed_seeds_are_no_clear_difference():
    rounds = (
        lines("fedavg-s0", [0.5])
        + lines("fedavg-s1", [0.5])
        + lines("scfa-s0", [0.6])
        + lines("scfa-s1", [0.45])
    )
    (said,) = describe_comparison(compare_trials(configs(), rounds, [], 0.5), 0.5)
    assert "higher, by 0.025 ± 0.106 (on 1 of 2 seeds), not significant" in said
    assert "clearly" not in said


def test_one_seed_says_little_and_nobody_reaches_the_target():
    said = describe_comparison(
        compare_trials(configs(1), lines("fedavg-s0", [0.2]) + lines("scfa-s0", [0.3]), [], 0.5),
        0.5,
    )
    assert "one seed only" in said[0]
    assert said[-1] == "No training reached an F1 of 0.5 on the test rows."


def test_the_corrupted_site_s_weight_is_compared_with_its_share():
    found = [trial for trial in configs(1, corrupt=True) if trial.corrupt]
    rounds = [line for trial in found for line in lines(trial.id, [0.5])]
    clients = [
        {"trial": trial.id, "client": client, "alpha": alpha, "share": "0.4"}
        for trial, alpha in zip(found, ("0.4", "0.1"), strict=True)
        for client, alpha in (("graz", "0.6"), ("linz", alpha))
    ]
    results = compare_trials(found, rounds, clients, 0.5)
    assert [row["alpha_corrupted"]["mean"] for row in results] == [0.4, 0.1]
    said = describe_comparison(results, 0.5)
    assert any(
        text.startswith("FedAvg gives linz") and "equal to its share of the rows" in text
        for text in said
    )
    assert any(
        text.startswith("SCFA gives linz") and "75% less than its share of the rows" in text
        for text in said
    )


def test_spread():
    assert summarise_seeds([1.0, 3.0])["spread"] == pytest.approx(2**0.5)
    assert summarise_seeds([1.0])["spread"] is None
    assert summarise_seeds([float("nan")]) == {
        "mean": None,
        "interval": None,
        "spread": None,
        "values": [None],
    }


def test_a_tie_is_not_called_lower_on_all_seeds():
    rounds = (
        lines("fedavg-s0", [0.5])
        + lines("fedavg-s1", [0.5])
        + lines("scfa-s0", [0.5])
        + lines("scfa-s1", [0.4])
    )
    (said,) = describe_comparison(compare_trials(configs(), rounds, [], 0.5), 0.5)
    assert "lower, by 0.050 ± 0.071 (on 1 of 2 seeds), not significant" in said


def test_the_base_is_the_arm_with_plain_averaging_whatever_it_is_called():
    fields = {
        "pack": "p",
        "sites": ["graz", "linz"],
        "algorithms": {"plain": {"preset": "fedavg", "title": "Plain"}},
    }
    found = expand_trials(
        Job.model_validate(fields | {"compare": {"algorithm": ["scfa", "plain"]}})
    )
    (said,) = describe_comparison(
        compare_trials(found, lines("plain-s0", [0.2]) + lines("scfa-s0", [0.3]), [], 0.1), 0.1
    )
    assert said.startswith("On this split, SCFA ends at F1 0.300, Plain at 0.200")


def test_what_sites_reach_alone_is_not_held_to_rows_of_others():
    """Local models are compared on their site's rows only (`describe_local_training`)."""
    base, ours = compare_trials(
        configs(1), lines("fedavg-s0", [0.2]) + lines("scfa-s0", [0.3]), [], 0.1
    )
    assert len(describe_comparison([base, ours], 0.1)) == 1
    assert describe_comparison([base, ours | {"baseline": True}], 0.1) == []


def test_the_site_that_loses_most_by_knowledge_is_named():
    job = {
        "rules": ["r.fkg"],
        "sites": {"west": {}, "east": {}},
        "data": {"set": "table", "path": "t.csv", "split": "column"},
        "compare": {"model.inject": [False, True]},
    }
    plain, known = found = expand_trials(Job.model_validate(job))
    rounds = lines(plain.id, [0.5]) + lines(known.id, [0.6])
    sites = [
        {"trial": trial.id, "client": client, "test_rows": "4", "f1": value}
        for trial, values in ((plain, ("0.75", "0.5")), (known, ("0.0", "0.9")))
        for client, value in zip(("west", "east"), values, strict=True)
    ]
    knowledge = [
        {"trial": trial.id, "client": ""}
        | dict.fromkeys(("violation", "knowledge", "contained", "masked"), "0.1")
        for trial in found
    ]
    results = compare_trials(found, rounds, [], 0.5, [], MEASURES["detection"], knowledge)
    (*_, said) = describe_injection(results, found, sites)
    change = "its F1 changes from 0.750 to 0.000 (4 test rows)."
    assert said == f"With the knowledge, site west loses most: {change}"
    sites = [line | {"f1": "0.5"} for line in sites]
    assert len(describe_injection(results, found, sites)) == 1, "no site loses"
