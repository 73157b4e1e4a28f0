"""Settings that a job gives and none of its arms uses: told, so that nobody believes that they did something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fedkg.jobs.schema.data_section import Data
from fedkg.jobs.schema.job import Job, Scoring, Training
from fedkg.jobs.schema.section import Section
from fedkg.jobs.trials import TrialConfig, algorithm_section


def _is_split(arm: TrialConfig, *ways: str) -> bool:
    """Whether samples are shared out among the sites, in one of these ways (none: in any), and no site brings its own."""
    return not any(site.table for site in arm.job.sites.values()) and (
        not ways or arm.job.data.split in ways
    )


FIELD_USES: Mapping[str, tuple[str, Callable[[TrialConfig], bool]]] = {
    "data.rows": (
        "the generator of the table",
        lambda arm: arm.job.data.path is None and _is_split(arm),
    ),
    "data.split": ("data that sites share, and here each has a table of its own", _is_split),
    "data.alpha": (
        "`data.split: dirichlet` or `sizes`",
        lambda arm: _is_split(arm, "dirichlet", "sizes"),
    ),
    "data.size_alpha": ("`data.split: dirichlet`", lambda arm: _is_split(arm, "dirichlet")),
    "data.classes_per_site": ("`data.split: classes`", lambda arm: _is_split(arm, "classes")),
    "data.site_column": ("`data.split: column`", lambda arm: _is_split(arm, "column")),
    "training.workers": (
        "`training.executor: processes` or `auto`",
        lambda arm: arm.job.training.executor in ("processes", "auto"),
    ),
    "training.chunk": ("stacks of sites", lambda arm: arm.job.training.executor != "sequential"),
    "scoring.rows_per_rule": (
        "the covering probe of a table",
        lambda arm: arm.job.data.set is None and arm.job.scoring.probe == "covering",
    ),
    "scoring.combine": (
        "`weighting: scfa`",
        lambda arm: algorithm_section(arm.job).weighting == "scfa",
    ),
    "scoring.beta": (
        "`weighting: scfa`",
        lambda arm: algorithm_section(arm.job).weighting == "scfa",
    ),
}
"""Fields with what looks at them, in words and as a question to an arm."""


def find_unused_settings(arms: Sequence[TrialConfig]) -> tuple[str, ...]:
    """A sentence for every field that differs from its default in some arm and is looked at in none."""
    sections: Mapping[str, type[Section]] = {"data": Data, "training": Training, "scoring": Scoring}
    found = []
    for place, (what, used) in FIELD_USES.items():
        section, name = place.split(".")
        default = sections[section].model_fields[name].default
        if any(getattr(getattr(arm.job, section), name) != default for arm in arms) and not any(
            used(arm) for arm in arms
        ):
            found.append(f"`{place}` is not looked at: it belongs to {what}")
    if any(
        arm.job.privacy is not None and arm.job.privacy.mined is not None for arm in arms
    ) and not any(_mines_properties(arm) for arm in arms):
        found.append(
            "`privacy.mined` is not looked at: it belongs to `grouping: fedstl` with a `weight`, or with several clusters"
        )
    return tuple(found)


def find_untrained_algorithms(job: Job, arms: Sequence[TrialConfig]) -> tuple[str, ...]:
    """A sentence where a job names no algorithm to train, and has sections of some that no arm trains."""
    trained = {arm.algorithm for arm in arms}
    left = [name for name in job.algorithms if name not in trained]
    if "algorithm" in job.model_fields_set or not left:
        return ()
    every = ", ".join([*(name for name in job.algorithms if name in trained), *left])
    said = f"`algorithms` has sections that are not trained: {', '.join(left)}; the job trains {', '.join(sorted(trained))}"
    return (f"{said} (for all of them: `compare: {{algorithm: [{every}]}}`)",)


def _mines_properties(arm: TrialConfig) -> bool:
    fedstl = algorithm_section(arm.job).grouping.fedstl
    return fedstl is not None and bool(fedstl.weight or fedstl.clusters > 1)
