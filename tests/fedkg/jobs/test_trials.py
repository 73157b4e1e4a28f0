"""The expansion of a job into trials."""

from __future__ import annotations

import pytest

from fedkg.errors import JobError
from fedkg.jobs import Job
from fedkg.jobs.schema.job_reader import fields_at
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.jobs.unused_settings import FIELD_USES, find_untrained_algorithms, find_unused_settings

BASE = {"pack": "p", "sites": {"graz": {}, "linz": {}}}


def configs(**fields):
    return expand_trials(Job.model_validate({**BASE, **fields}))


def test_a_plain_job_is_one_arm():
    (config,) = configs()
    assert (config.id, config.algorithm, config.seed, config.corrupt) == (
        "scfa-s0",
        "scfa",
        0,
        None,
    )


def test_every_combination_and_seed():
    found = configs(compare={"data.alpha": [0.1, 10], "algorithm": ["fedavg", "scfa"]}, seeds=3)
    assert len(found) == 12
    assert len({config.id for config in found}) == 12
    assert found[0].id == "alpha0.1-fedavg-s0"
    assert found[0].job.data.alpha == 0.1
    assert dict(found[0].setting) == {"data.alpha": "0.1"}


def test_arms_with_the_same_data_share_a_scenario():
    found = configs(
        compare={"data.alpha": [1, 10], "algorithm": ["fedavg", "scfa"]},
        seeds=2,
        corrupt={"site": "linz"},
    )
    assert len(found) == 16
    assert len({config.split_key for config in found}) == 8


def test_corrupted_arms_may_compare_less():
    found = configs(
        compare={"data.alpha": [1, 10], "algorithm": ["fedavg", "scfa"]},
        corrupt={"site": "linz", "compare": {"data.alpha": [10]}},
    )
    corrupted = [config for config in found if config.corrupt]
    assert [config.id for config in corrupted] == [
        "alpha10-fedavg-s0-linz-flipped-labels",
        "alpha10-scfa-s0-linz-flipped-labels",
    ]


def test_ids_are_file_names_whatever_the_names_and_values_are():
    long = "é long " * 50
    found = configs(
        sites={long: {}, "linz": {}},
        corrupt={"site": long, "compare": {"data.site_column": [long * 2, long * 3]}},
    )
    assert [len(config.id) for config in found] == [7, 160, 160]
    assert len({config.id for config in found}) == 3


def test_a_named_algorithm_carries_its_own_scoring():
    algorithms = {
        "strict": {
            "preset": "scfa",
            "scoring": {"combine": "min", "beta": 2},
            "training": {"penalty": 0.1},
        }
    }
    (config,) = configs(algorithm="strict", algorithms=algorithms)
    assert config.preset == "scfa"
    assert (config.job.scoring.combine, config.job.scoring.beta, config.job.training.penalty) == (
        "min",
        2.0,
        0.1,
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"algorithm": "fedprx"}, "algorithm: unknown algorithm"),
        ({"compare": {"data.alfa": [1]}}, "`data.alfa` is not a field of a job"),
        ({"compare": {"alpha": [1]}}, "did you mean `data.alpha`?"),
        ({"compare": {"data.rows": [1]}}, "`data.rows` is the same in all trials"),
        ({"compare": {"data.alpha": ["wide"]}}, "compare: `data.alpha`"),
        ({"compare": {"data.alpha": [1, 1]}}, "two trials would be called"),
        ({"compare": {"data.alpha": []}}, "compare.data.alpha: the list of values is empty"),
        ({"corrupt": {"site": "paris"}}, "corrupt.site"),
        (
            {"corrupt": {"site": "linz", "compare": {"data.beta": [1]}}},
            "`data.beta` is not a field of a job",
        ),
        ({"rules": ["a.fkg"]}, "either `rules` or `pack`"),
        ({"pack": None}, "either `rules` or `pack`"),
        ({"sites": {}}, "no site"),
        (
            {"training": {"local_epochs": 1, "local_steps": 5}},
            "either `local_epochs` or `local_steps`",
        ),
        ({"sites": {"graz": {"table": "a.csv"}, "linz": {}}}, "without: linz"),
        (
            {"sites": {"graz": {"table": "a.csv"}}, "data": {"path": "b.csv"}},
            "either `data.path` or a table",
        ),
        (
            {"algorithm": "x", "algorithms": {"x": {"preset": "scfa", "scoring": {"betta": 1}}}},
            "`scoring.betta` is not a field of a job",
        ),
    ],
)
def test_contradictions_are_named(fields, said):
    with pytest.raises(JobError) as caught:
        configs(**fields)
    assert said in str(caught.value)


def test_a_misspelt_algorithm_is_recognised():
    with pytest.raises(JobError, match="unknown algorithm") as caught:
        expand_trials(
            Job.model_validate(
                {
                    "pack": "p",
                    "sites": ["graz", "linz"],
                    "compare": {"algorithm": ["fedavg", "fedproxx"]},
                }
            )
        )
    assert caught.value.help == "did you mean `fedprox`?"


def test_the_median_of_two_sites_is_reported_in_words_of_a_median():
    job = {
        "pack": "p",
        "sites": ["graz", "linz"],
        "algorithm": "median",
        "training": {"participation": 1.0},
    }
    with pytest.raises(JobError, match="the median of one or two clients is their mean"):
        expand_trials(Job.model_validate(job))


def test_settings_that_no_trial_uses_are_reported():
    given = {
        "data": {"split": "iid", "alpha": 0.1, "size_alpha": 1.0},
        "training": {"workers": 2, "executor": "stacked"},
    }
    told = find_unused_settings(configs(**given, scoring={"beta": 2.0}, algorithm="fedavg"))
    assert [text.partition("`")[2].partition("`")[0] for text in told] == [
        "data.alpha",
        "data.size_alpha",
        "training.workers",
        "scoring.beta",
    ]
    assert "applies to `data.split: dirichlet` or `sizes`" in told[0]
    assert (
        find_unused_settings(
            configs(
                **given,
                scoring={"beta": 2.0},
                compare={"data.split": ["iid", "dirichlet"], "training.executor": ["auto"]},
            )
        )
        == ()
    )
    assert find_unused_settings(configs(data={"alpha": 1.0})) == ()
    mined = {"unit": "example", "noise": 1.0, "mined": {"epsilon": 2.0}}
    [said] = find_unused_settings(configs(privacy=mined, algorithm="fedavg"))
    assert said.startswith("`privacy.mined` has no effect")
    joints = {"own": {"grouping": {"fedstl": {"clusters": 2, "cluster_epochs": 0}}}}
    series = {"set": "traffic", "window": {"history": 4, "horizon": 2}, "server": 0.2}
    assert (
        find_unused_settings(
            configs(privacy=mined, data=series, algorithms=joints, algorithm="own")
        )
        == ()
    )
    assert find_unused_settings(configs(data={"rows": 400})) == ()
    apart = {"graz": {"table": "a.csv"}, "linz": {"table": "b.csv"}}
    assert [
        note.split()[0]
        for note in find_unused_settings(
            configs(
                sites=apart, data={"split": "column", "site_column": "plant", "size_alpha": 2.0}
            )
        )
    ] == [*("`data.split`", "`data.size_alpha`", "`data.site_column`")]
    assert find_unused_settings(configs(data={"rows": 400, "path": "table.csv"})) == (
        "`data.rows` has no effect: it applies to the generator of the table",
    )
    assert set(FIELD_USES) <= {
        f"{part}.{name}" for part in ("data", "training", "scoring") for name in fields_at((part,))
    }


def test_a_corrupted_site_must_be_named():
    fields = {
        "sites": {},
        "data": {"set": "traffic", "window": {"history": 4, "horizon": 1}},
        "algorithm": "fedavg",
    }
    with pytest.raises(JobError, match="list the sites in the job"):
        configs(**fields, corrupt={"site": "north"})


def test_algorithms_that_are_defined_and_not_trained_are_reported():
    given = {
        "pack": "p",
        "sites": ["graz", "linz"],
        "algorithms": {"fedavg": {"preset": "fedavg"}, "scfa": {"preset": "scfa"}},
    }

    def untrained(**more: object) -> tuple[str, ...]:
        job = Job.model_validate(given | more)
        return find_untrained_algorithms(job, expand_trials(job))

    [said] = untrained()
    assert said.startswith(
        "`algorithms` has sections that no trial uses: fedavg; the job trains scfa"
    )
    assert "`compare: {algorithm: [scfa, fedavg]}`" in said
    assert (
        untrained(compare={"algorithm": ["scfa", "fedavg"]}) == untrained(algorithm="fedavg") == ()
    )
