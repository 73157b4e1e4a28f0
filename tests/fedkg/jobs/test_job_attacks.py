"""Attacks in jobs: who attacks is chosen by the seed, recorded, and compared like other fields."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from test_forecast_jobs import RULES

from fedkg.algorithm_compatibility import ATTACKS
from fedkg.errors import JobError
from fedkg.jobs import Job, read_job, run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.trial_expansion import plan_trials

pytestmark = pytest.mark.usefixtures("no_report")


def attacked(job_fields: dict[str, Any], **attacks: Any) -> dict[str, Any]:
    plain = {**job_fields, "corrupt": None, "compare": {}, "algorithm": "fedavg"}
    return {**plain, "simulation": {"attacks": attacks}}


@pytest.mark.slow
def test_every_attack_runs_and_is_recorded(job_fields: dict[str, Any], tmp_path: Path) -> None:
    job = attacked(job_fields, share=0.3, first_round=2)
    job["compare"] = {"simulation.attacks.kind": ["none", *ATTACKS]}
    job["scoring"] = {**job.get("scoring", {}), "at": "sites"}  # `inflated_score` needs it
    folder = RunFolder(run_job(job, out=tmp_path / "run").folder)
    rows = folder.rows("clients.csv")
    attackers = set()
    for row in rows:
        kind = next(kind for kind in ("none", *ATTACKS) if row["trial"].startswith(f"kind{kind}-"))
        attacks = row["status"].startswith(("attacks", "excluded"))
        assert not attacks or (kind != "none" and int(row["round"]) >= 2)
        if kind == "nan_update" and attacks:
            assert row["status"].startswith("excluded: its update has NaN")
        elif attacks:
            assert row["status"] == f"attacks: {kind}"
        attackers |= {row["client"]} if attacks else set()
    [one] = attackers  # the seed chooses the same site for all kinds
    notes = [row["notes"] for row in folder.rows("rounds.csv") if row["round"] == "1"]
    assert sum(f"from round 2 on by {one}" in note for note in notes) == len(ATTACKS)


def test_attackers_by_name_and_no_baseline_under_attack(job_fields: dict[str, Any]) -> None:
    job = attacked(job_fields, kind="sign_flipped_update", sites=["linz"])
    job["evaluation"] = {"local_baseline": True}
    [config] = plan_trials(Job.model_validate(job))
    assert config.job.simulation.attacks.sites == ("linz",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sites": ["nowhere"]}, "unknown site"),
        ({"sites": ["linz"], "share": 0.4}, "`share` and `sites` exclude each other"),
        ({"kind": "loud"}, "loud"),
        ({"share": 2}, "share"),
        ({"first_round": 0}, "first_round"),
    ],
)
def test_wrong_attacks_are_rejected_before_anything_is_read(
    changes: dict[str, Any], said: str, job_fields: dict[str, Any], tmp_path: Path
) -> None:
    job = attacked(job_fields, **{"kind": "nan_update", **changes})
    with pytest.raises(JobError, match=said):
        run_job(job, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("attacks", "changes", "said"),
    [
        ("kind: loud", "", r"field `simulation\.attacks\.kind`.* \(line 8\)"),
        (
            "{kind: nan_update, share: 2}",
            "",
            r"`simulation\.attacks\.share`: must be at most 1.* \(line 8\)",
        ),
        (
            "{kind: nan_update, sites: [linz, nowhere]}",
            "",
            r"unknown site: nowhere; expected .* graz, linz, wien \(line 8\)",
        ),
        ("{kind: nan_update, sites: [linz, linz]}", "", "lists the site 'linz' twice"),
        ("{kind: nan_update, first_round: 9}", "", r"after the last round \(3\).* \(line 8\)"),
        ("kind: rule_satisfying_model", "", r"requires rules; .* \(line 8\)"),
        (
            "{kind: nan_update, share: 0.7}",
            "algorithm: krum",
            "more than half of the sites attack .*take the majority for honest",
        ),
        (
            "{kind: nan_update, sites: [graz, linz]}",
            "algorithm: median",
            "more than half of the sites attack",
        ),
        (
            "{kind: nan_update, share: 0.2}",
            "algorithm: {preset: krum, aggregate: {krum: {attackers: 2}}}",
            "needs at least 7 sites in a round .*this one has 3",
        ),
        ("{kind: constant_model, share: 0.2}", "algorithm: pcfedavg", "models of all agents"),
    ],
)
def test_wrong_attacks_in_a_file_name_their_field(
    attacks: str, changes: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    attacks = attacks if attacks.startswith("{") else f"{{{attacks}}}"
    file.write_text(
        "name: attacked\ndata: {label: y}\nsites: [graz, linz, wien]\n"
        "training: {rounds: 3, participation: 1.0}\n"
        "evaluation: {local_baseline: false}\n"
        f"{'' if 'rule_satisfying' in attacks else 'rules: [rules.fkg]'}\nsimulation:\n"
        f"  attacks: {attacks}\n{changes}\n"
    )
    with pytest.raises(JobError, match=said):
        plan_trials(read_job(file))


def test_compared_attacks_are_checked_too(job_fields: dict[str, Any]) -> None:
    job = attacked(job_fields, kind="nan_update")
    job["compare"] = {"simulation.attacks.share": [0.2, 0.7], "algorithm": ["fltrust", "median"]}
    with pytest.raises(JobError, match="algorithm median: more than half of the sites attack"):
        plan_trials(Job.model_validate(job))
    job["compare"] = {"simulation.attacks.first_round": [1, 9]}
    with pytest.raises(JobError, match=r"compare: .*first_round` is 9, after the last round"):
        plan_trials(Job.model_validate(job))


def test_an_attack_on_updates_contradicts_an_algorithm_that_sends_none(
    job_fields: dict[str, Any],
) -> None:
    job = {**attacked(job_fields, kind="nan_update"), "algorithm": "centralised"}
    with pytest.raises(JobError, match="no update is sent that an attacker could change"):
        plan_trials(Job.model_validate(job))


@pytest.mark.slow
def test_constant_failures_game_scfa_but_not_robust_scfa(
    job_fields: dict[str, Any], tmp_path: Path
) -> None:
    """The rules only demand alarms, so that a model that always answers "failure" satisfies them
    better than honest models: two of twenty sites get several times their share of the weight under
    SCFA, and the global model becomes theirs. Under multi-Krum they have no weight, and robust SCFA
    cannot give them any. (Robust SCFA learns slowly here, because honest models violate the rules.)
    """
    job = attacked(job_fields, kind="constant_model", share=0.1)
    robust = {"multi_krum": {"attackers": 2}}
    job |= {
        "sites": {f"site {i}": {"machines": [f"M{i % 4 + 1}"]} for i in range(1, 21)},
        "data": {**job["data"], "rows": 10_000, "min_samples": 50},
        "model": {"hidden": [16]},
        "training": {
            **job["training"],
            "rounds": 12,
            "local_epochs": 2,
            "learning_rate": 0.3,
            "executor": "stacked",
        },
        "algorithms": {
            "scfa": {"preset": "scfa", "scoring": {"combine": "product"}},
            "robust": {"preset": "robust_scfa", "aggregate": robust},
        },
        "compare": {
            "simulation.attacks.kind": ["none", "constant_model"],
            "algorithm": ["scfa", "robust"],
        },
    }
    folder = RunFolder(run_job(job, out=tmp_path / "run").folder)
    f1 = {row["trial"]: float(row["f1"]) for row in folder.rows("rounds.csv")}
    weight: dict[str, float] = {}
    share: dict[str, float] = {}
    for row in folder.rows("clients.csv"):
        if row["status"].startswith("attacks"):
            weight[row["trial"]] = weight.get(row["trial"], 0) + float(row["alpha"]) / 12
            share[row["trial"]] = share.get(row["trial"], 0) + float(row["share"]) / 12
    gamed, withstood = "kindconstant_model-scfa-s0", "kindconstant_model-robust-s0"
    assert weight[gamed] > 2 * share[gamed]
    assert f1[gamed] < f1["kindnone-scfa-s0"] / 2
    assert weight[withstood] < 1e-9


def test_updates_with_outlying_answers_are_excluded_from_a_job(
    job_fields: dict[str, Any], tmp_path: Path
) -> None:
    """Two of twelve sites of unequal size always answer "failure", as the rules demand."""
    job = attacked(job_fields, kind="constant_model", sites=["site 3", "site 8"])
    job |= {
        "sites": {f"site {i}": {"machines": [f"M{i % 4 + 1}"]} for i in range(1, 13)},
        "data": {**job["data"], "rows": 4000},
        "algorithm": {"preset": "scfa", "exclude": "answers"},
    }
    folder = RunFolder(run_job(job, out=tmp_path / "run").folder)
    rows = folder.rows("clients.csv")
    for row in rows:
        attacks = row["client"] in ("site 3", "site 8")
        outlying = row["status"].startswith("excluded: its answers are outliers")
        assert outlying == attacks
        assert not attacks or float(row["alpha"]) == 0
    missing = folder.rows("exclusions.csv")
    assert {row["client"] for row in missing} == {"site 3", "site 8"}
    assert {row["decided_by"] for row in missing} == {"server"}


def forecasts(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    rules = tmp_path / "rules.fkg"
    rules.write_text(RULES)
    window = {"history": 12, "horizon": 6, "stride": 6, "targets": ["volume"]}
    return {
        "name": "day",
        "rules": [str(rules)],
        "data": {
            "set": "traffic",
            "size": 240,
            "clients": 6,
            "min_samples": 3,
            "window": {**window, "gaps": "interpolate"},
        },
        "model": {"kind": "gru", "hidden": 4, "layers": 1},
        "training": {"rounds": 1, "participation": 1.0, "batch": 8, "executor": "stacked"},
        "evaluation": {"local_baseline": False},
        "algorithm": {"preset": "fedavg", "exclude": "properties"},
        **changes,
    }


@pytest.mark.slow
def test_sites_with_outlying_properties_are_excluded_from_a_job(tmp_path: Path) -> None:
    """The oracle is the definition, applied to what `properties.csv` lists; the attackers mirror
    their series.
    """
    attack = {"attacks": {"kind": "flipped_labels", "share": 0.2}}
    folder = RunFolder(run_job(forecasts(tmp_path, simulation=attack), out=tmp_path / "run").folder)
    values: dict[tuple[str, str], dict[str, float]] = {}
    for row in folder.rows("properties.csv"):
        if row["client"] and row["value"]:
            found = values.setdefault((row["inference"], row["number"]), {})
            found[row["client"]] = float(row["value"])
    expected = set()
    for column in values.values():
        middle = statistics.median(column.values())
        away = {site: abs(value - middle) for site, value in column.items()}
        spread = 1.482602 * statistics.median(away.values())
        spread = spread or 1.253314 * statistics.mean(away.values())
        expected |= {site for site, one in away.items() if spread and one / spread > 3.5}
    rows = folder.rows("clients.csv")
    excluded = {row["client"] for row in rows if row["status"].startswith("excluded")}
    assert excluded == expected != set()
    assert all(float(row["alpha"]) == 0 for row in rows if row["client"] in excluded)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rules": [], "pack": None}, "requires rules"),
        ({"privacy": {"unit": "client", "epsilon": 5.0, "clip": 1.0}}, "no bound"),
        ({"privacy": {"unit": "example", "epsilon": 5.0, "clip": 1.0}}, "privacy.mined"),
        ({"algorithm": {"preset": "pcfedavg", "exclude": "properties"}}, "need all clients"),
        ({"algorithm": {"preset": "local_only", "exclude": "properties"}}, "nothing is exchanged"),
        ({"algorithm": {"preset": "ifca", "exclude": "answers"}}, "different clusters"),
    ],
)
def test_exclusion_contradicts_other_settings(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises((JobError, ValueError), match=said):
        plan_trials(Job.model_validate(forecasts(tmp_path, **changes)))


def test_exclusion_needs_forecasts(job_fields: dict[str, Any]) -> None:
    job = attacked(job_fields, kind="none")
    job["algorithm"] = {"preset": "fedavg", "exclude": {"properties": {"threshold": 3}}}
    with pytest.raises(JobError, match="requires forecasts"):
        plan_trials(Job.model_validate(job))
