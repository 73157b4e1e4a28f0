"""Parts of a job that reveal data of the sites despite clipping and noise."""

from __future__ import annotations

from collections.abc import Iterator

from fedkg.jobs.schema.algorithm_section import Algorithm as Section
from fedkg.jobs.schema.job import Job


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
