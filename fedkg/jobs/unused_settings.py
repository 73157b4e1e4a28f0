"""Settings that a job gives and none of its arms uses: told, so that nobody believes that they did something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fedkg.jobs.schema.data_section import Data
from fedkg.jobs.schema.job import Job, Scoring, Training
from fedkg.jobs.schema.section import Section
from fedkg.jobs.trials import TrialConfig, algorithm_section


def _is_split(config: TrialConfig, *ways: str) -> bool:
    """Whether samples are shared out among the sites, in one of these ways (none: in any), and no site brings its own."""
    return not any(site.table for site in config.job.sites.values()) and (
        not ways or config.job.data.split in ways
    )


FIELD_USES: Mapping[str, tuple[str, Callable[[TrialConfig], bool]]] = {
    "data.rows": (
        "the generator of the table",
        lambda config: config.job.data.path is None and _is_split(config),
    ),
    "data.split": ("data that sites share, and here each has a table of its own", _is_split),
    "data.alpha": (
        "`data.split: dirichlet` or `sizes`",
        lambda config: _is_split(config, "dirichlet", "sizes"),
    ),
    "data.size_alpha": ("`data.split: dirichlet`", lambda config: _is_split(config, "dirichlet")),
    "data.classes_per_site": ("`data.split: classes`", lambda config: _is_split(config, "classes")),
    "data.site_column": ("`data.split: column`", lambda config: _is_split(config, "column")),
    "training.workers": (
        "`training.executor: processes` or `auto`",
        lambda config: config.job.training.executor in ("processes", "auto"),
    ),
    "training.chunk": (
        "stacks of sites",
        lambda config: config.job.training.executor != "sequential",
    ),
    "scoring.rows_per_rule": (
        "the covering probe of a table",
        lambda config: config.job.data.set is None and config.job.scoring.probe == "covering",
    ),
    "scoring.combine": (
        "`weighting: scfa`",
        lambda config: algorithm_section(config.job).weighting == "scfa",
    ),
    "scoring.beta": (
        "`weighting: scfa`",
        lambda config: algorithm_section(config.job).weighting == "scfa",
    ),
}
"""Fields with what looks at them, in words and as a question to an arm."""


def find_unused_settings(configs: Sequence[TrialConfig]) -> tuple[str, ...]:
    """A sentence for every field that differs from its default in some arm and is looked at in none."""
    sections: Mapping[str, type[Section]] = {"data": Data, "training": Training, "scoring": Scoring}
    found = []
    for place, (what, used) in FIELD_USES.items():
        section, name = place.split(".")
        default = sections[section].model_fields[name].default
        if any(
            getattr(getattr(config.job, section), name) != default for config in configs
        ) and not any(used(config) for config in configs):
            found.append(f"`{place}` is not looked at: it belongs to {what}")
    if any(
        config.job.privacy is not None and config.job.privacy.mined is not None
        for config in configs
    ) and not any(_mines_properties(config) for config in configs):
        found.append(
            "`privacy.mined` is not looked at: it belongs to `grouping: fedstl` with a `weight`, or with several clusters"
        )
    return tuple(found)


def find_untrained_algorithms(job: Job, configs: Sequence[TrialConfig]) -> tuple[str, ...]:
    """A sentence where a job names no algorithm to train, and has sections of some that no arm trains."""
    trained = {config.algorithm for config in configs}
    left = [name for name in job.algorithms if name not in trained]
    if "algorithm" in job.model_fields_set or not left:
        return ()
    every = ", ".join([*(name for name in job.algorithms if name in trained), *left])
    said = f"`algorithms` has sections that are not trained: {', '.join(left)}; the job trains {', '.join(sorted(trained))}"
    return (f"{said} (for all of them: `compare: {{algorithm: [{every}]}}`)",)


def _mines_properties(config: TrialConfig) -> bool:
    fedstl = algorithm_section(config.job).grouping.fedstl
    return fedstl is not None and bool(fedstl.weight or fedstl.clusters > 1)
