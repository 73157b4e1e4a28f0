"""Expand a job into its trials: every training it asks for, each with its own settings."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from fedkg._internal.name_matching import nearest_name
from fedkg.algorithm_compatibility import find_contradictions, format_contradictions
from fedkg.errors import JobError
from fedkg.jobs.schema.algorithm_presets import PRESETS, TITLES
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.consistency import find_inconsistencies
from fedkg.jobs.schema.data_section import Data
from fedkg.jobs.schema.job import Corruption, Job
from fedkg.jobs.schema.job_reader import fields_at, format_field_errors, unknown_algorithm
from fedkg.jobs.schema.section_base import Value

VARIABLE_SECTIONS = (
    "model",
    "augment",
    "training",
    "scoring",
    "evaluation",
    "privacy",
    "simulation",
)
MAX_ID_LENGTH = 160
"""Letters of a trial's id: files named after it have endings, and 255 letters at most."""
BASELINE = "local_only"
"""The preset of the baseline that runs next to each setting: every site trains alone."""
VARIABLE_DATA_FIELDS = (
    "split",
    "alpha",
    "size_alpha",
    "min_samples",
    "site_column",
    "classes_per_site",
    "shares",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialConfig:
    """The settings of one training.

    Attributes:
        id: unique in the run and usable as a file name.
        job: the job with this trial's values filled in.
        algorithm: name of the algorithm in the job.
        preset: the preset that the algorithm is based on; ``""`` if the job builds it step by step.
        seed: of the split, the initial model, the client sampling and the minibatches.
        varied: the fields of `compare` other than the algorithm, with this trial's values.
        corrupt: the corruption of one site, or None.
        baseline: whether fedkg added this trial as a reference, without a request in the job.
    """

    id: str
    job: Job
    algorithm: str
    preset: str
    seed: int
    varied: Mapping[str, Value]
    corrupt: Corruption | None = None
    baseline: bool = False

    @property
    def split_key(self) -> str:
        """Equal for trials that train on exactly the same rows."""
        return (
            self.job.data.model_dump_json()
            + f"|{self.seed}|"
            + ("" if self.corrupt is None else self.corrupt.model_dump_json())
        )

    @property
    def setting(self) -> tuple[tuple[str, str], ...]:
        """`varied` as text."""
        return tuple((field, _format_value(value)) for field, value in self.varied.items())


def expand_trials(job: Job) -> tuple[TrialConfig, ...]:
    """All trials that a job lists: the product of `compare` and the seeds.

    Trials without a corrupted site come first.

    Raises:
        JobError: `compare` names an unknown field or an invalid value, an algorithm is unknown, the
            corrupted site does not exist, or two trials are equal.
    """
    _check_names(job)
    configs: list[TrialConfig] = []
    damages: list[Corruption | None] = [None, job.corrupt] if job.corrupt else [None]
    for damage in damages:
        compare = dict(job.compare) if damage is None else {**job.compare, **damage.compare}
        for values in itertools.product(*compare.values()):
            chosen = dict(zip(compare, values, strict=True))
            settled = _with_values(job, chosen)
            configs.extend(_make_config(settled, chosen, seed, damage) for seed in job.seed_list)
    ids = [config.id for config in configs]
    twice = next((name for i, name in enumerate(ids) if name in ids[:i]), None)
    if twice:
        raise JobError(
            f"compare: two trials would be called `{twice}`",
            help="list each value of `compare` and each seed once; values of one field must differ "
            "in their first six digits or their letters",
        )
    return tuple(configs)


def trial_to_use(configs: Sequence[TrialConfig]) -> TrialConfig:
    """The trial that deployment takes if none is named: the first with knowledge or projection in
    its answers, otherwise the first that is not a baseline.
    """
    asked = [config for config in configs if not config.baseline] or list(configs)
    return next(
        (one for one in asked if one.job.model.inject is not None or one.job.training.projection),
        asked[0],
    )


def plan_trials(job: Job) -> tuple[TrialConfig, ...]:
    """All trials of a job, followed by the plain controls and the local baselines.

    A control trains a setting with injected knowledge again without it, unless the job does so
    anyway or `model.inject.control` is false. A baseline trains every site alone, once per setting
    without corruption and attacks. fedkg skips it if `evaluation.local_baseline` is false, or if a
    trial of the setting exchanges nothing anyway. Raises JobError as `expand_trials` does.
    """
    configs = expand_trials(job)
    controls = _plain_controls(job, configs)
    if not job.evaluation.local_baseline:
        return (*configs, *controls)
    scenarios: dict[tuple[tuple[str, str], ...], list[TrialConfig]] = {}
    for config in configs:
        if config.corrupt is None and config.job.simulation.attacks.changes == "none":
            scenarios.setdefault((*config.setting, ("seed", str(config.seed))), []).append(config)
    firsts = [
        found[0]
        for found in scenarios.values()
        if all(algorithm_section(config.job).exchange != "none" for config in found)
    ]
    return (*configs, *controls, *(_local_baseline(job, config) for config in firsts))


INJECT = "model.inject"
"""The field that injects knowledge."""


def _plain_controls(job: Job, configs: Sequence[TrialConfig]) -> list[TrialConfig]:
    """The trials without knowledge that the job does not list itself."""
    found: dict[str, TrialConfig] = {}
    for config in configs:
        inject = config.job.model.inject
        if inject is None or not inject.control or INJECT in job.compare:
            continue
        if config.job.privacy is not None:  # another training would spend the budget again
            continue
        varied = {
            field: value
            for field, value in config.varied.items()
            if not field.startswith(f"{INJECT}.")
        }
        chosen = {**varied, INJECT: False, "algorithm": config.algorithm}
        control = _make_config(_with_values(job, chosen), chosen, config.seed, config.corrupt)
        found.setdefault(control.id, replace(control, baseline=True))
    return list(found.values())


def trial_title(config: TrialConfig) -> str:
    """The name of a trial's algorithm in reports."""
    section = algorithm_section(config.job)
    return (
        section.title
        or ("" if config.algorithm in config.job.algorithms else TITLES.get(config.algorithm, ""))
        or config.algorithm
    )


def _local_baseline(job: Job, config: TrialConfig) -> TrialConfig:
    """The trial in which every site trains alone, in the setting of another trial."""
    chosen = {**config.varied, "algorithm": BASELINE}
    return replace(
        _make_config(_with_values(job, chosen), chosen, config.seed, None), baseline=True
    )


def algorithm_section(job: Job) -> Algorithm:
    """The section of a job's algorithm: a preset and the changes to it.

    Raises:
        JobError: no preset and no section has this name.
    """
    if job.algorithm in job.algorithms:
        return job.algorithms[job.algorithm]
    if job.algorithm in PRESETS:
        return Algorithm.model_validate({"preset": job.algorithm})
    raise unknown_algorithm(job, job.algorithm, "algorithm")


def _make_config(
    job: Job, chosen: Mapping[str, Value], seed: int, damage: Corruption | None
) -> TrialConfig:
    algorithm = algorithm_section(job)
    settled = _with_algorithm(job, job.algorithm)
    varied = {field: value for field, value in chosen.items() if field != "algorithm"}
    _check_algorithm(settled, algorithm)
    words = [f"{field.rpartition('.')[2]}{_format_value(value)}" for field, value in varied.items()]
    words += [job.algorithm, f"s{seed}"]
    if damage is not None:
        words.append(f"{damage.site}-{damage.kind.replace('_', '-')}")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", "-".join(words))
    if len(name) > MAX_ID_LENGTH:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: MAX_ID_LENGTH - 9]}-{digest}"
    return TrialConfig(
        id=name,
        job=settled,
        algorithm=job.algorithm,
        preset=_preset(algorithm),
        seed=seed,
        varied=varied,
        corrupt=damage,
    )


def _preset(algorithm: Algorithm) -> str:
    """The preset of an algorithm; ``""`` for FedAvg with changes."""
    plain = Algorithm(title=algorithm.title, scoring=algorithm.scoring, training=algorithm.training)
    return "" if algorithm.preset == "fedavg" and algorithm != plain else algorithm.preset


def _check_algorithm(job: Job, algorithm: Algorithm) -> None:
    """Raises JobError if the algorithm contradicts the rest of the job."""
    training, sites = job.training, len(job.sites)
    unit = "none" if job.privacy is None or algorithm.exchange == "none" else job.privacy.unit
    choices = algorithm.choices(
        full_participation=training.participation == 1.0,
        equal_steps=training.local_steps is not None,
        privacy_unit=unit,
        protected_updates=unit == "client",
        mixed_precision=training.precision != "float32",
        compressed_updates=training.wire is not None,
        attack=job.simulation.attacks.changes,
        scores_at_sites=job.scoring.at == "sites",
        attackers_are_majority=2 * job.simulation.attacks.count(sites) > sites > 0,
        secure_aggregation=training.secure_aggregation and algorithm.exchange != "none",
        clients_per_round=max(1, min(sites, math.floor(training.participation * sites + 0.5)))
        if sites
        else None,
        **job.federation.choices(),
    )
    found = (*find_contradictions(choices), *find_inconsistencies(job, algorithm))
    if found:
        reason, instead = format_contradictions(found)
        raise JobError(f"algorithm {job.algorithm}: {reason}", help=instead)


def _with_algorithm(job: Job, name: str) -> Job:
    """The job with the changes of its algorithm section applied."""
    variant = job.algorithms.get(name)
    sections = {} if variant is None else {"scoring": variant.scoring, "training": variant.training}
    update = {
        f"{section}.{field}": value
        for section, changes in sections.items()
        for field, value in changes.items()
    }
    return _with_values(job, update, where=f"algorithms.{name}")


def _with_values(job: Job, values: Mapping[str, Value], where: str = "compare") -> Job:
    """The job with dotted fields replaced and validated again."""
    if not values:
        return job
    document = job.model_dump(mode="json")
    for field, value in values.items():
        place: Any = document
        *path, last = field.split(".")
        for key in path:
            place = place.get(key) if isinstance(place, dict) else None
        if not isinstance(place, dict) or (
            last not in place and not (path and path[0] == "algorithms")
        ):
            raise JobError(f"{where}: `{field}` is not a field of a job", help=_near_field(field))
        before = place.get(last)
        place[last] = (
            {**before, "by": value}
            if field == "augment" and isinstance(value, str) and isinstance(before, dict)
            else before
            if field == INJECT and value is True and isinstance(before, dict)
            else value
        )
    try:
        return Job.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise JobError(f"{where}: `{name}`: {format_field_errors([first])}") from error


def _check_variable(fields: Iterable[str], where: str) -> None:
    """Reject fields that all trials of a run share: the rules, the tables and the held-out rows."""
    for field in fields:
        section, _, name = field.partition(".")
        known = name in fields_at((section,)) or field in Job.model_fields
        if (
            field == "algorithm"
            or section in VARIABLE_SECTIONS
            or not known
            or (section == "data" and name in VARIABLE_DATA_FIELDS)
        ):
            continue
        raise JobError(
            f"{where}: `{field}` is the same in all trials of a run",
            expected=", ".join(
                [
                    "algorithm",
                    *(f"data.{name}" for name in VARIABLE_DATA_FIELDS),
                    *(f"{section}.*" for section in VARIABLE_SECTIONS),
                ]
            ),
            help="start one run for each value",
        )


def _near_field(field: str) -> str:
    known = [
        "algorithm",
        *(f"{part}.{name}" for part in ("data", *VARIABLE_SECTIONS) for name in fields_at((part,))),
    ]
    last = field.rpartition(".")[2]
    homes = [f"`{one}`" for one in known if one.rpartition(".")[2] == last]
    if homes:
        return f"did you mean {' or '.join(homes)}?"
    near = nearest_name(field, known)
    return f"did you mean `{near}`?" if near else "for example: " + ", ".join(known[:4])


def _check_names(job: Job) -> None:
    if bool(job.rules) == bool(job.pack) and (job.pack or job.data.set is None):
        raise JobError(
            "give either `rules` or `pack`",
            received="both" if job.pack else "neither",
            help="rules: [rules.fkg], or pack: rules.fkgpack",
        )
    if not job.sites and not job.data.own_sites:
        raise JobError(
            "sites: the federation has no sites",
            expected="at least one name",
            help="sites: [north, south], or a number of them",
        )
    if job.corrupt and job.corrupt.site not in job.sites:
        raise JobError(
            "corrupt.site: unknown site",
            expected=", ".join(job.sites) or "a name from `sites` (list the sites in the job)",
            received=job.corrupt.site,
        )
    if (job.training.local_epochs is not None) and (job.training.local_steps is not None):
        raise JobError(
            "training: give either `local_epochs` or `local_steps`",
            received="both",
            help="remove one: epochs are passes over the rows, steps are independent of their "
            "number",
        )
    with_table = [name for name, site in job.sites.items() if site.table]
    if with_table and len(with_table) < len(job.sites):
        missing = [name for name in job.sites if name not in with_table]
        raise JobError(
            "sites: some sites have a `table` and others do not",
            received=f"without: {', '.join(missing)}",
            help="give every site a `table`, or remove all of them and set `data.path`",
        )
    trusting = [name for name, site in job.sites.items() if site.trust is not None]
    if trusting and job.injection is None:
        raise JobError(
            f"sites.{trusting[0]}.trust: the job injects no knowledge into the model",
            help="set `model: {inject: true}`, or remove `trust`",
        )
    if job.data.set is not None:
        _check_data_set_sites(job)
    if with_table and job.data.path:
        raise JobError(
            "give either `data.path` or a table for every site",
            received="both",
            help="remove `data.path`, or the `table` of each site",
        )
    if with_table and job.data.dates != Data.model_fields["dates"].default:
        raise JobError(
            "data.dates does not apply to tables that `sites` names", help="remove `data.dates`"
        )
    _check_variable(job.compare, "compare")
    _check_variable(job.corrupt.compare if job.corrupt else (), "corrupt.compare")
    algorithm_section(job)
    for name in job.algorithms:
        _with_algorithm(job, name)
    for name, values in (
        *job.compare.items(),
        *(job.corrupt.compare.items() if job.corrupt else ()),
    ):
        if not values:
            raise JobError(
                f"compare.{name}: the list of values is empty",
                help="list the values, such as [0.1, 1], or remove the field from `compare`",
            )


def _check_data_set_sites(job: Job) -> None:
    """Reject sites with more than a name if the samples come from a data set."""
    for name, site in job.sites.items():
        said = ", ".join(
            field for field in ("machines", "table", "columns") if getattr(site, field)
        )
        if said:
            raise JobError(
                f"sites.{name}: data set {job.data.set} provides the samples of all sites",
                received=said,
                help="give only the names of the sites",
            )
    if job.data.clients is not None and job.sites:
        raise JobError(
            "give either `sites` or `data.clients`", received="both", help="remove one of them"
        )


def _format_value(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
