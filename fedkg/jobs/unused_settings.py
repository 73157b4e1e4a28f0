"""Settings of a job that have no effect in any of its trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fedkg.jobs.schema.data_section import Data
from fedkg.jobs.schema.job import Job, Scoring, Training
from fedkg.jobs.schema.section_base import Section
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section


def _is_split(config: TrialConfig, *ways: str) -> bool:
    """Whether samples are split among sites in one of these ways (none given: in any way)."""
    return not any(site.table for site in config.job.sites.values()) and (
        not ways or config.job.data.split in ways
    )


FIELD_USES: Mapping[str, tuple[str, Callable[[TrialConfig], bool]]] = {
    "data.rows": (
        "the generator of the table",
        lambda config: config.job.data.path is None and _is_split(config),
    ),
    "data.split": (
        "data that is split among the sites; here each site has its own table",
        _is_split,
    ),
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
    "scoring.relative": (
        "`weighting: scfa`",
        lambda config: algorithm_section(config.job).weighting == "scfa",
    ),
    "scoring.beta": (
        "`weighting: scfa`",
        lambda config: algorithm_section(config.job).weighting == "scfa",
    ),
}
"""For each field, what uses it, and a test whether a trial does."""


def find_unused_settings(configs: Sequence[TrialConfig]) -> tuple[str, ...]:
    """One sentence for every changed field that no trial uses."""
    sections: Mapping[str, type[Section]] = {"data": Data, "training": Training, "scoring": Scoring}
    found = []
    for place, (what, used) in FIELD_USES.items():
        section, name = place.split(".")
        default = sections[section].model_fields[name].default
        if any(
            getattr(getattr(config.job, section), name) != default for config in configs
        ) and not any(used(config) for config in configs):
            found.append(f"`{place}` has no effect: it applies to {what}")
    if any(
        config.job.privacy is not None and config.job.privacy.mined is not None
        for config in configs
    ) and not any(_mines_properties(config) for config in configs):
        found.append(
            "`privacy.mined` has no effect: it applies to `exclude: properties`, and to "
            "`grouping: fedstl` with a `weight` or with several clusters"
        )
    return tuple(found)


def find_untrained_algorithms(job: Job, configs: Sequence[TrialConfig]) -> tuple[str, ...]:
    """A sentence if the job sets no `algorithm` and has `algorithms` that no trial uses."""
    trained = {config.algorithm for config in configs}
    left = [name for name in job.algorithms if name not in trained]
    if "algorithm" in job.model_fields_set or not left:
        return ()
    every = ", ".join([*(name for name in job.algorithms if name in trained), *left])
    said = (
        f"`algorithms` has sections that no trial uses: {', '.join(left)}; the job trains "
        f"{', '.join(sorted(trained))}"
    )
    return (f"{said} (to train all: `compare: {{algorithm: [{every}]}}`)",)


def _mines_properties(config: TrialConfig) -> bool:
    section = algorithm_section(config.job)
    fedstl = section.grouping.fedstl
    return section.excluded_by == "properties" or (
        fedstl is not None and bool(fedstl.weight or fedstl.clusters > 1)
    )
