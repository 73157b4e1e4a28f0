"""What of a job tells of the sites' rows, past clipping and noise."""

from __future__ import annotations

from collections.abc import Iterator

from fedkg.jobs.schema.algorithm_section import Algorithm as Section
from fedkg.jobs.schema.job import Job


def find_unprotected(job: Job, section: Section) -> Iterator[tuple[str, str]]:
    """Reasons against what is told without noise, and what to do."""
    if job.privacy is None or section.exchange == "none":
        return
    if job.training.positive_weight == "balanced":
        yield (
            "`training.positive_weight: balanced` counts the failures of all sites, and the count is not noised",
            "a number, known without looking at the rows",
        )
    if job.data.set is None and not job.data.server:
        yield (
            "inputs are standardised by rows of the server, as sums over the sites' rows are not noised; `data.server` leaves it none",
            "`data.server` above 0",
        )
    if job.augment.by == "granger":
        yield (
            "`augment` learns from states that every site sends at every step, which are not noised: each step would cost its own epsilon",
            "leave out `augment` or `privacy`",
        )
    fedstl = section.grouping.fedstl
    if (
        job.privacy.unit == "example"
        and fedstl is not None
        and (fedstl.weight or fedstl.clusters > 1)
    ):
        if job.privacy.mined is None:
            yield (
                "FedSTL mines properties in the rows of each site, and steers and clusters it by them",
                "`privacy.mined: {epsilon: ...}`, what of a row's privacy mining may spend",
            )
        if fedstl.clusters > 1 and not job.data.server:
            yield (
                "under `unit: example` sites are put into clusters by rows of the server, and `data.server` leaves it none",
                "`data.server` above 0",
            )
    if job.theory is not None:
        yield (
            "`theory` looks at the gradients of all sites without noise, and tells of them",
            "leave out `theory` or `privacy`",
        )
    if job.model.inject is not None and job.model.inject.trust == "cross-validation":
        yield (
            "the trust found by cross-validation is told by losses on the sites' rows, which are not noised",
            "a number as `inject.trust`",
        )


def describe_unprotected(job: Job, section: Section) -> tuple[str, ...]:
    """What people should know of a protected training."""
    if job.privacy is None or section.exchange == "none" or job.data.set is None:
        return ()
    known = "the numbers by which a data set's samples are standardised are taken to be known: the privacy does not cover them"
    window = job.data.window
    if window is None or job.privacy.unit == "client":
        return (known,)
    often = -(-(window.history + window.horizon) // window.stride)
    if often == 1:
        return (known,)
    return (
        known,
        f"the privacy hides one window; a step of a series is in up to {often} of them, and is hidden about {often} times less",
    )
