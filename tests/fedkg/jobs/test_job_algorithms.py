"""The algorithm section: presets, round steps, contradictions, and a run of each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_figures import figures

from fedkg.errors import JobError
from fedkg.federated import ALGORITHMS, ScoreOptions
from fedkg.federated.client.optimisers import SGD, Adam, PrivateFirst
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.start_points import BestModel, PrivateLayers
from fedkg.federated.server.optimisers import AdaptiveStep
from fedkg.federated.server.robust import Krum, TrimmedMean, TrustedMean
from fedkg.federated.server.weighting import ByValidity
from fedkg.jobs import Job, run_job
from fedkg.jobs.algorithm_builder import build_algorithm
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.algorithm_presets import PRESETS
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.job import Scoring
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.models import MLP

MODEL = MLP(inputs=3, hidden=(4,))
SITES = {
    "pack": "p",
    "sites": ["graz", "linz", "wien", "steyr", "wels"],
    "training": {"participation": 1.0, "local_steps": 4},
}
EQUAL = ScoreOptions(soft_tolerance=0.05)


def made(**section):
    return build_algorithm("x", Algorithm.model_validate(section), Scoring(), MODEL)


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in ("fedrep", "fedstl")])
def test_a_preset_of_a_job_is_the_preset_of_the_library(name):
    assert replace(made(preset=name), name=name) == ALGORITHMS[name]()


def test_fedrep_of_a_job_keeps_the_head_of_the_model():
    assert replace(made(preset="fedrep"), name="fedrep") == ALGORITHMS["fedrep"](
        private=("layers.1.",)
    )
    assert made(
        preset="fedrep", private={"layers": ["layers.0."], "first": 0.25}
    ).local == PrivateFirst(private=("layers.0.",), share=0.25)
    with pytest.raises(JobError, match="does not know the last layers"):
        build_algorithm("x", Algorithm.model_validate({"private": {}}), Scoring(), object())


def test_joints_are_put_together():
    both = made(
        weighting="scfa",
        proximal=0.5,
        server={"adam": {"rate": 0.01}},
        local={"sgd": {"momentum": 0.5}},
        personal={},
    )
    assert isinstance(both.weighting, ByValidity)
    assert both.terms == (Proximal(strength=0.5),)
    assert both.server == AdaptiveStep(memory="adam", rate=0.01)
    assert both.local == both.beside.local == SGD(momentum=0.5)
    assert made(preset="ditto", local={"adam": {"beta1": 0.5}}).beside.local == Adam(beta1=0.5)
    many = made(aggregate="median", grouping={"ifca": {"models": 3}}, server="yogi")
    assert (many.aggregate, many.start, many.server) == (
        TrimmedMean(trim=0.5),
        BestModel(models=3),
        AdaptiveStep(memory="yogi"),
    )
    assert made(private={"layers": ["layers.0.weight"]}).start == PrivateLayers(
        private=("layers.0.weight",)
    )


def test_what_is_written_differs_from_the_preset_in_its_settings_alone():
    assert made(preset="fedprox", proximal=0.2).terms == (Proximal(strength=0.2),)
    assert made(preset="fedadam", server={"adam": {"rate": 0.5}}).server == AdaptiveStep(
        memory="adam", rate=0.5
    )
    assert made(preset="ifca", grouping={"ifca": {"models": 5}}).start == BestModel(models=5)
    assert made(preset="trimmed_mean", server="adam").server == AdaptiveStep(memory="adam")


def test_a_section_survives_its_own_dump():
    for name in PRESETS:
        section = Algorithm.model_validate({"preset": name})
        assert Algorithm.model_validate(section.model_dump(mode="json")) == section


def test_an_algorithm_may_be_written_out_where_its_name_would_stand():
    job = Job.model_validate({**SITES, "algorithm": {"preset": "fedprox", "proximal": 0.3}})
    [config] = expand_trials(job)
    assert (config.id, config.preset, config.job.algorithms["fedprox"].proximal) == (
        "fedprox-s0",
        "fedprox",
        0.3,
    )
    [own] = expand_trials(
        Job.model_validate(
            {
                **SITES,
                "algorithm": {"aggregate": "median", "server": "adam", "title": "Robust Adam"},
            }
        )
    )
    assert (own.id, own.preset) == ("own-s0", "")


def test_settings_of_an_algorithm_can_be_compared():
    job = {
        **SITES,
        "algorithm": "mine",
        "algorithms": {"mine": {"proximal": 0.1}},
        "compare": {"algorithms.mine.proximal": [0.1, 1.0]},
    }
    assert [
        config.job.algorithms["mine"].proximal for config in expand_trials(Job.model_validate(job))
    ] == [0.1, 1.0]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"preset": "fedprx"}, "did you mean 'fedprox'?"),
        ({"preset": "scaffold", "local": "adam"}, "the preset `scaffold` sets `local: scaffold`"),
        ({"preset": "fedadam", "server": {"yogi": {}}}, "the preset `fedadam` sets `server: adam`"),
        ({"preset": "scfa", "weighting": "samples"}, "the preset `scfa` sets `weighting: scfa`"),
        (
            {"preset": "local_only", "exchange": "models"},
            "the preset `local_only` sets `exchange: none`",
        ),
        ({"server": {"adam": {}, "yogi": {}}}, "must be exactly one of add, adam, yogi, adagrad"),
        ({"server": "adamm"}, "did you mean `adam`?"),
        ({"server": {"adam": {"rate": 0}}}, "above 0"),
        ({"grouping": {"ifca": {"models": 1}}}, "at least 2"),
        (
            {"weighting": "scfa", "aggregate": "median"},
            "would ignore weights by the rules; instead: `aggregate: mean`",
        ),
        ({"weighting": "scfa", "private": {}}, "a head that nobody trains"),
        ({"preset": "krum", "private": {}}, "a corrupt site would hide there"),
        ({"preset": "scaffold", "private": {}}, "private layers have none"),
        ({"preset": "scaffold", "grouping": "ifca"}, "control variates belong to one common model"),
        (
            {"preset": "scaffnew", "server": "adam"},
            "Scaffnew's variates cancel only if the server takes the mean",
        ),
        ({"preset": "fedrep", "local": "adam"}, "requires plain gradient descent"),
        ({"preset": "ifca", "aggregate": "krum"}, "a cluster may be smaller than Krum needs"),
        ({"preset": "ifca", "aggregate": "fltrust"}, "FLTrust compares with one update"),
        ({"preset": "ifca", "private": {}}, "either clusters or private layers"),
        ({"preset": "local_only", "aggregate": "median"}, "nothing is exchanged"),
        ({"preset": "centralised", "weighting": "scfa"}, "all data is in one place"),
    ],
)
def test_what_contradicts_itself_is_rejected_with_what_to_do(section, said, tmp_path):
    with pytest.raises(JobError) as caught:
        parse_job({**SITES, "algorithm": section}, name="job.yaml", base=tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("section", "training", "said"),
    [
        ({"preset": "scaffnew"}, {"local_steps": None}, "`local_steps` instead of `local_epochs`"),
        ({"preset": "scaffnew"}, {"participation": 0.6}, "`participation: 1`"),
        (
            {"preset": "krum", "aggregate": {"krum": {"attackers": 2}}},
            {},
            "at least 7 sites in a round (2 x `attackers` + 3); this one has ",
        ),
        ({"preset": "trimmed_mean"}, {}, "remove no client"),
        ({"preset": "median"}, {"participation": 0.4}, "excludes nobody"),
    ],
)
def test_what_contradicts_how_it_is_run_is_rejected(section, training, said):
    job = Job.model_validate(
        {**SITES, "algorithm": section, "training": {**SITES["training"], **training}}
    )
    with pytest.raises(JobError) as caught:
        expand_trials(job)
    assert said in str(caught.value)


def small(job_fields, **fields):
    training = {**job_fields["training"], "rounds": 2, "local_steps": 4}
    sites = {
        "graz": {"machines": ["M1"]},
        "linz": {"machines": ["M2"]},
        "wien": {"machines": ["M3"]},
        "steyr": {"machines": ["M4"]},
        "wels": {},
    }
    return {
        **job_fields,
        "sites": sites,
        "training": training,
        "compare": {},
        "corrupt": None,
        **fields,
    }


PENALISED = {"training": {"penalty": 0.5}}


@pytest.mark.slow
@pytest.mark.usefixtures("no_report")
def test_every_preset_runs_in_a_job_and_can_be_repeated(job_fields, tmp_path):
    options = {"trimmed_mean": {"aggregate": {"trimmed_mean": {"trim": 0.2}}}}
    presets = [
        name for name in PRESETS if name != "fedstl"
    ]  # which forecasts, see test_forecast_jobs
    algorithms = {name: {"preset": name, **options.get(name, {})} for name in presets}
    fields = small(job_fields, algorithms=algorithms, compare={"algorithm": presets})
    run = run_job(fields, out=tmp_path / "run")
    rows = RunFolder(run.folder).rows("rounds.csv")
    assert len(rows) == 2 * len(presets)
    assert all(
        row["notes"] == ""
        or "executor" in row["notes"]
        or "no update has any weight" in row["notes"]
        or "of the weight with the current model" in row["notes"]
        for row in rows
    )
    last = {row["trial"].removesuffix("-s0"): row for row in rows}
    assert (
        len({row["loss"] for name, row in last.items() if name not in ("fedavg", "scfa")})
        == len(presets) - 2
    )
    assert last["local_only"]["bytes"] == last["centralised"]["bytes"] == "0"
    assert all(0 <= float(row["rho_worst"]) <= 1 for row in rows)
    assert {
        row["trial"].removesuffix("-s0") for row in RunFolder(run.folder).rows("rules.csv")
    } == set(presets)


@pytest.mark.slow
@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    "section",
    [
        {"preset": "fedprox", **PENALISED},
        {"preset": "scaffold", **PENALISED},
        {"preset": "ditto", "grouping": "ifca", "server": "adam", **PENALISED},
        {
            "preset": "fedrep",
            "aggregate": "median",
            "proximal": 0.1,
            "training": {"projection": True},
        },
    ],
)
def test_joints_of_several_algorithms_run_together_with_the_rules_penalty(
    section, job_fields, tmp_path
):
    fields = small(job_fields, algorithm=section)
    stacked = {**fields, "training": {**fields["training"], "executor": "stacked"}}
    one, other = (
        run_job(fields, out=tmp_path / "one").folder,
        run_job(stacked, out=tmp_path / "other").folder,
    )
    for mine, theirs in zip(
        RunFolder(one).rows("rounds.csv"), RunFolder(other).rows("rounds.csv"), strict=True
    ):
        assert float(mine["loss"]) == pytest.approx(float(theirs["loss"]), rel=1e-4)
    assert figures(run_job(fields, out=tmp_path / "again").folder) == figures(one)


@pytest.mark.slow
@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    "section",
    [
        {
            "preset": "scfa",
            "scoring": {"on_all_invalid": "fedavg"},
            "training": {"local_steps": 30},
        },
        {"preset": "ditto"},
        {"preset": "scaffold", **PENALISED},
    ],
)
def test_projected_answers_break_no_linear_rule_under_any_algorithm(section, job_fields, tmp_path):
    fields = small(job_fields, algorithm=section, compare={"training.projection": [False, True]})
    run = run_job(fields, out=tmp_path / "run")
    rates = {(row["trial"], row["rule"]): row for row in RunFolder(run.folder).rows("rules.csv")}
    name = section["preset"]
    broken = {
        on: float(rates[f"projection{on}-{name}-s0", "overstrain"]["rate"])
        for on in ("False", "True")
    }
    assert broken["True"] == 0.0 < broken["False"]
    lines = {row["trial"]: float(row["loss"]) for row in RunFolder(run.folder).rows("rounds.csv")}
    assert lines[f"projectionTrue-{name}-s0"] != lines[f"projectionFalse-{name}-s0"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": {"hidden": [8], "private": ["tail."]}}, r"tail\."),
        (
            {"model": {"hidden": []}, "compare": {"algorithm": ["fedavg", "fedrep"]}},
            "so clients would share nothing",
        ),
    ],
)
def test_a_model_that_an_algorithm_cannot_train_is_rejected_before_anything_is_written(
    job_fields, tmp_path, change, said
):
    with pytest.raises(JobError, match=said):
        run_job({**job_fields, **change}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_weights_by_the_rules_with_a_robust_aggregate_are_robust_scfa():
    """Krum, multi-Krum and FLTrust scale their shares by validity scores."""
    for aggregate, expected in (
        ({"multi_krum": {"attackers": 2}}, Krum(attackers=2, keep=None)),
        ({"krum": {}}, Krum(attackers=1)),
        ("fltrust", TrustedMean()),
    ):
        found = made(weighting="scfa", aggregate=aggregate)
        assert replace(found, name="robust_scfa") == ALGORITHMS["robust_scfa"](aggregate=expected)
