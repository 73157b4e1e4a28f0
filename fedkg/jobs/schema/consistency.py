"""Check that the sections of a job fit together, such as window models and data with windows; and
find parts of a job that reveal data of the sites despite clipping and noise.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedkg.algorithm_compatibility import Contradiction
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.algorithm_section import Algorithm as Section
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.model_section import IMAGE_KINDS, WINDOW_KINDS


def find_unprotected(job: Job, section: Section) -> Iterator[tuple[str, str]]:
    """Contradictions between privacy and settings that release data without noise."""
    if job.privacy is None or section.exchange == "none":
        return
    if job.training.positive_weight == "balanced":
        yield (
            (
                "`training.positive_weight: balanced` uses the number of failures at all "
                "sites without noise"
            ),
            "set a number that does not depend on the rows",
        )
    if job.data.set is None and not job.data.server and job.data.server_table is None:
        yield (
            (
                "under privacy fedkg standardises inputs with rows of the server, and "
                "`data.server` is 0"
            ),
            "`data.server` above 0, or `data.server_table`",
        )
    if (
        job.privacy.unit == "example"
        and job.privacy.noise is None
        and job.federation.oversampling > 1
    ):
        yield (
            (
                "fedkg computes the noise for the sites that `training.participation` selects, and "
                "the spares of `federation.oversampling` would spend the budget before the last "
                "round"
            ),
            "set `privacy.noise`, or `federation.oversampling: 1`",
        )
    if job.augment.by == "granger":
        yield (
            "`augment` sends the states of every site at every step without noise",
            "remove `augment` or `privacy`",
        )
    fedstl = section.grouping.fedstl
    uses_mined = section.excluded_by == "properties"
    if job.privacy.unit == "example" and uses_mined and job.privacy.mined is None:
        yield (
            (
                "`exclude: properties` mines properties in the rows of each site and uses them "
                "without noise"
            ),
            "set `privacy.mined: {epsilon: ...}`, the epsilon for mining",
        )
    if (
        job.privacy.unit == "example"
        and fedstl is not None
        and (fedstl.weight or fedstl.clusters > 1)
    ):
        if job.privacy.mined is None:
            yield (
                "FedSTL mines properties in the rows of each site and uses them without noise",
                "set `privacy.mined: {epsilon: ...}`, the epsilon for mining",
            )
        if fedstl.clusters > 1 and not job.data.server:
            yield (
                (
                    "under `unit: example` fedkg clusters sites with rows of the server, and "
                    "`data.server` is 0"
                ),
                "`data.server` above 0",
            )
    if job.theory is not None:
        yield (
            "`theory` reports gradients of all sites without noise",
            "remove `theory` or `privacy`",
        )
    validated = [name for name, site in job.sites.items() if site.trust == "cross_validate"]
    if job.model.inject is not None and (job.model.inject.trust == "cross_validate" or validated):
        yield (
            "cross-validation of the trust uses losses on the sites' rows without noise",
            "set `trust` to a number",
        )
    trained = [name for name, site in job.sites.items() if site.knowledge and site.knowledge.train]
    if job.model.inject is not None and trained and job.privacy.unit == "example":
        yield (
            f"the predictor that {trained[0]} trains depends on all of its rows without noise",
            "leave out `train`, or use `unit: client`",
        )


def describe_unprotected(job: Job, section: Section) -> tuple[str, ...]:
    """Remarks about the limits of a protected training."""
    if job.privacy is None or section.exchange == "none" or job.data.set is None:
        return ()
    known = (
        "privacy does not cover the means and deviations that standardise a data set's "
        "samples: they are treated as public"
    )
    window = job.data.window
    if window is None or job.privacy.unit == "client":
        return (known,)
    often = -(-(window.history + window.horizon) // window.stride)
    if often == 1:
        return (known,)
    return (
        known,
        (
            f"privacy protects one window; a step of a series is in up to {often} windows, so "
            f"its protection is about {often} times weaker"
        ),
    )


IMAGES = ("mnist", "fashion-mnist", "cifar-10")
"""Data sets of images."""


def find_inconsistencies(job: Job, algorithm: Algorithm) -> tuple[Contradiction, ...]:
    """All contradictions in a trial other than those within its algorithm
    (`fedkg.algorithm_compatibility`).
    """
    return tuple(
        Contradiction(reason, instead)
        for reason, instead in (
            *_models(job),
            *_paces(job, algorithm),
            *_theory(job, algorithm),
            *_rules(job, algorithm),
            *_properties(job, algorithm),
            *_augmented(job),
            *_own_code(job, algorithm),
            *find_unprotected(job, algorithm),
        )
    )


def _models(job: Job) -> Iterator[tuple[str, str]]:
    """Contradictions between the model and the samples."""
    kind, data = job.model.kind, job.data
    if kind in WINDOW_KINDS and data.window is None:
        yield (
            f"`model.kind: {kind}` reads windows, and `data.window` is not set",
            "`data.window: {history: ..., horizon: ...}` with a data set of series (`data.set`)",
        )
    if kind in IMAGE_KINDS and data.set not in IMAGES:
        yield (
            f"`model.kind: {kind}` reads images, and {data.set or 'a table'} has none",
            f"`data.set: {IMAGES[0]}`, {IMAGES[1]} or {IMAGES[2]}; or another model",
        )
    if data.set in IMAGES and data.window is not None:
        yield (
            f"`data.window` applies to series, and {data.set} contains images",
            "remove `data.window`",
        )
    if data.set is None and job.model.inject is not None:
        yield (
            "`model.inject` works with data sets (`data.set`) only",
            "`data.set: table` with the rules' data contract, and `output`",
        )
    if (
        job.injection is not None
        and job.privacy is not None
        and job.injection.policy in ("error", "drop")
    ):
        yield (
            f"`policy: {job.injection.policy}` reveals excluded labels, which `privacy` hides",
            "`policy: repair`",
        )
    if job.training.projection and data.window is not None and data.window.horizon:
        yield (
            (
                "`training.projection` handles linear rules about one row, and a forecast "
                "has many steps"
            ),
            (
                "remove it: forecasts satisfy all `hard` rules anyway; for the others use "
                "`training.penalty` or FedSTL's teacher"
            ),
        )


def _paces(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """Contradictions between site-specific training settings and the rest of the job."""
    own = {name: site for name, site in job.sites.items() if site.has_own_training}
    if not own:
        return
    named = ", ".join(list(own)[:3])
    if algorithm.exchange == "data":
        yield (
            f"{named} have their own training settings, and no site trains if all rows are pooled",
            "leave out the sites' own numbers",
        )
    if algorithm.agents is not None:
        yield (
            f"{named} have their own training settings, and PC-FedAvg sets the steps of all sites",
            "leave out the sites' own numbers",
        )
    if algorithm.local.scaffnew is not None and any(site.learning_rate for site in own.values()):
        yield (
            "Scaffnew's variates cancel only if all sites have the same `learning_rate`",
            "`training.learning_rate` for all sites, or `local: scaffold`",
        )
    if job.training.local_steps is not None and any(site.local_epochs for site in own.values()):
        yield (
            "`training.local_steps` sets the steps of all sites, and some sites set `local_epochs`",
            "`training.local_epochs`",
        )
    if (
        job.privacy is not None
        and algorithm.exchange == "models"
        and any(site.local_epochs or site.batch for site in own.values())
    ):
        yield (
            "privacy accounting assumes equal minibatches and epochs at all sites",
            "only `learning_rate` may differ between sites",
        )


def _theory(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """Algorithms whose theorems do not apply."""
    if job.theory is not None and algorithm.agents and not algorithm.choices().plain_server_step:
        yield (
            (
                "the theorems of PC-FedAvg (`theory`) are about the average of its models, and "
                "another `server` step does not record it"
            ),
            "leave out `server`, or `theory`",
        )


def _rules(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """Settings that require rules, or server rows for scoring models."""
    if not (job.rules or job.pack):
        asking = (
            (algorithm.weighting == "scfa", "`weighting: scfa`"),
            (job.training.penalty > 0, "`training.penalty`"),
            (
                job.model.inject is not None and not any(s.knowledge for s in job.sites.values()),
                "`model.inject`",
            ),
            (algorithm.grouping.fedstl is not None, "`grouping: fedstl`"),
            (algorithm.excluded_by == "properties", "`exclude: properties`"),
            (algorithm.agents is not None or algorithm.sets is not None, "`agents` and `sets`"),
        )
        for applies, what in asking:
            if applies:
                yield (
                    f"{what} requires rules, and the job has none",
                    "set `rules`, or a compiled `pack`",
                )
    at_sites = job.scoring.at == "sites"
    if at_sites and job.privacy is not None:
        yield (
            "`scoring.at: sites` sends scores that `privacy` does not cover",
            "`scoring.at: server`",
        )
    if not job.data.server and job.data.server_table is None:
        if at_sites:
            yield (
                "`scoring.at: sites` requires probe rows, and `data.server` is 0",
                "`data.server_table`, a public table",
            )
        if job.evaluation.threshold == "server":
            yield (
                "`threshold: server` requires labelled rows at the server, and `data.server` is 0",
                "set `data.server` above 0, or the threshold to a number",
            )
        if algorithm.weighting == "scfa":
            yield (
                "`weighting: scfa` requires rows at the server, and `data.server` is 0",
                "`data.server` above 0",
            )
        if algorithm.excluded_by == "answers":
            yield (
                "`exclude: answers` requires rows at the server, and `data.server` is 0",
                "`data.server` above 0",
            )
        if algorithm.aggregate.fltrust is not None:
            yield (
                "FLTrust requires rows at the server, and `data.server` is 0",
                "`data.server` above 0",
            )


def _properties(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """Requirements of FedSTL and of parameter sets."""
    window = job.data.window
    if algorithm.grouping.fedstl is not None and (window is None or not window.horizon):
        yield (
            "FedSTL requires forecasts, and `data.window.horizon` is not set",
            "`data.window: {history: ..., horizon: ...}`",
        )
    if algorithm.excluded_by == "properties" and (window is None or not window.horizon):
        yield (
            "`exclude: properties` requires forecasts, and `data.window.horizon` is not set",
            "`data.window: {history: ..., horizon: ...}`",
        )
    if algorithm.sets is not None and algorithm.exchange == "data":
        yield (
            (
                "`exchange: data` leaves one client with all rows, so `sets` of single sites "
                "do not apply"
            ),
            "remove `sets`, or exchange models",
        )


def _augmented(job: Job) -> Iterator[tuple[str, str]]:
    """Requirements of augmentation: series of single sites on a common clock."""
    if job.augment.by == "none":
        return
    if job.data.window is None:
        yield (
            "`augment` reads series, and `data.window` is not set",
            "`data.window: {history: ..., horizon: ...}`",
        )
    if not job.data.own_sites:
        yield (
            (
                "`augment` requires a series for each site, and this split assigns windows "
                "to sites at random"
            ),
            "`data.split: sites`, or `column` with the column of the site",
        )
    if job.data.set == "cmapss":
        yield (
            "`augment` requires a common clock, and every engine of cmapss counts its own cycles",
            "remove `augment`",
        )


def _own_code(job: Job, algorithm: Algorithm) -> Iterator[tuple[str, str]]:
    """Settings whose guarantees depend on steps that fedkg knows."""
    own = algorithm.path is not None or algorithm.aggregate.own is not None
    if own and job.privacy is not None and algorithm.exchange == "models":
        yield (
            "`privacy` is proven for the algorithms of fedkg, and this one is your own code",
            "an algorithm of fedkg, or no `privacy`",
        )
