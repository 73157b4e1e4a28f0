"""Whether the sections of a job fit each other: what reads windows has windows, what is judged by rules has rules."""

from __future__ import annotations

from collections.abc import Iterator

from fedkg.compatibility import Contradiction
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.model_section import IMAGE_KINDS, WINDOW_KINDS
from fedkg.jobs.schema.privacy_coverage import find_unprotected

IMAGES = ("mnist", "fashion-mnist", "cifar-10")
"""Data sets whose samples are images."""


def find_inconsistencies(job: Job, algorithm: Algorithm) -> tuple[Contradiction, ...]:
    """All reasons why an arm cannot be meant, beside those within its algorithm (`fedkg.compatibility`)."""
    return tuple(
        Contradiction(reason, instead)
        for reason, instead in (
            *_models(job),
            *_paces(job, algorithm),
            *_rules(job, algorithm),
            *_properties(job, algorithm),
            *_augmented(job),
            *find_unprotected(job, algorithm),
        )
    )


def _models(job: Job) -> Iterator[tuple[str, str]]:
    """Models and the samples that they read."""
    kind, data = job.model.kind, job.data
    if kind in WINDOW_KINDS and data.window is None:
        yield (
            f"`model.kind: {kind}` reads windows of series, and `data` cuts none",
            "`data.window: {history: ..., horizon: ...}` with a data set of series (`data.set`)",
        )
    if kind in IMAGE_KINDS and data.set not in IMAGES:
        yield (
            f"`model.kind: {kind}` reads images, and the samples of {data.set or 'a table'} are none",
            f"`data.set: {IMAGES[0]}`, {IMAGES[1]} or {IMAGES[2]}; or another model",
        )
    if data.set in IMAGES and data.window is not None:
        yield (
            f"images have no time, and `data.window` cuts series: {data.set} has none",
            "leave out `data.window`",
        )
    if data.set is None and job.model.inject is not None:
        yield (
            "`model.inject` builds knowledge into models of data sets",
            "`data.set: table` with the rules' data contract, and `output`",
        )
    if job.training.projection and data.window is not None and data.window.horizon:
        yield (
            "linear rules bound the answer to one row, and a forecast is many steps under rules over time",
            "leave it out: every forecast satisfies the `hard` rules anyway; for the others a penalty (`training.penalty`) or FedSTL's teacher",
        )


def _paces(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """Sites that train at a pace of their own, and what counts on equal ones."""
    own = {name: site for name, site in job.sites.items() if site.has_own_training}
    if not own:
        return
    named = ", ".join(list(own)[:3])
    if algorithm.exchange == "data":
        yield (
            f"{named} train at a pace of their own, and where all rows are gathered no site trains",
            "leave out the sites' own numbers",
        )
    if algorithm.agents is not None:
        yield (
            f"{named} train at a pace of their own, and PC-FedAvg sets the steps of all",
            "leave out the sites' own numbers",
        )
    if job.training.local_steps is not None and any(site.local_epochs for site in own.values()):
        yield (
            "`training.local_steps` gives all sites as many steps, and some have `local_epochs` of their own",
            "`training.local_epochs`",
        )
    if (
        job.privacy is not None
        and algorithm.exchange == "models"
        and any(site.local_epochs or site.batch for site in own.values())
    ):
        yield (
            "what privacy is spent is counted for equal minibatches and passes of all sites",
            "the sites' own `learning_rate` alone",
        )


def _rules(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """What asks for rules, and for rows on which the server judges models by them."""
    if not (job.rules or job.pack):
        asking = (
            (algorithm.weighting == "scfa", "`weighting: scfa`"),
            (job.training.penalty > 0, "`training.penalty`"),
            (job.model.inject is not None, "`model.inject`"),
            (algorithm.grouping.fedstl is not None, "`grouping: fedstl`"),
            (algorithm.agents is not None or algorithm.sets is not None, "`agents` and `sets`"),
        )
        for applies, what in asking:
            if applies:
                yield (
                    f"{what} takes what is known from rules, and the job has none",
                    "name them under `rules`, or a compiled `pack`",
                )
    if not job.data.server:
        if job.evaluation.threshold == "server":
            yield (
                "the threshold is found on labelled rows of the server, and `data.server` leaves it none",
                "`data.server` above 0, or a number",
            )
        if algorithm.weighting == "scfa":
            yield (
                "the server judges models by the rules on rows of its own, and `data.server` leaves it none",
                "`data.server` above 0",
            )
        if algorithm.aggregate.fltrust is not None:
            yield (
                "FLTrust compares with an update that the server makes, and `data.server` leaves it no rows",
                "`data.server` above 0",
            )


def _properties(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """What FedSTL and sets need of the rest of the job."""
    window = job.data.window
    if algorithm.grouping.fedstl is not None and (window is None or not window.horizon):
        yield (
            "FedSTL's properties are those of forecasts, and nothing is forecast",
            "`data.window: {history: ..., horizon: ...}`",
        )
    if algorithm.sets is not None and algorithm.exchange == "data":
        yield (
            "all data is in one place, so there is one client: nobody's own set",
            "leave out `sets`, or exchange models",
        )


def _augmented(job: Job) -> Iterator[tuple[str, str]]:
    """What states of a learning of causes need: series, each of one site, on a common clock."""
    if job.augment.by == "none":
        return
    if job.data.window is None:
        yield (
            "`augment` reads states of series, and `data` cuts no windows",
            "`data.window: {history: ..., horizon: ...}`",
        )
    if not job.data.own_sites:
        yield (
            "`augment` follows the series of each site, and the windows are dealt out to sites that have none",
            "`data.split: sites`, or `column` with a column that names the site",
        )
    if job.data.set == "cmapss":
        yield (
            "`augment` learns who drives whom step by step, and every engine counts cycles of its own",
            "leave out `augment`",
        )
