"""From the learning section of a job to the learning: its rates, its lags, and what is said of how it went. M clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, Rates, course_of, learn, losses_of
from fedkg.granger.moments import Series, moments, series_of, surprises
from fedkg.granger.reference import best_lags
from fedkg.jobs.file.learning import Learning

MOST_LAGS = 5
GROWN = 2.0
"""So many times the losses before anything was learnt are no longer believed."""


def learnt_by(section: Learning, series: Series) -> tuple[Learnt, str]:
    """What a job's section learns, and how it went in a sentence. Raises UsageError, FedkgError as `learn` does."""
    rates = Rates(
        client=section.client,
        server=section.server,
        causes=section.causes,
        ridge=section.ridge,
        normalised=1.0 if section.normalised and section.mode != "closed_form" else None,
    )
    found = learn(series, rates, mode=section.mode, epochs=section.epochs, tolerance=section.tolerance)
    return found, grown(section, series, found) or course_of(found, section.mode, section.tolerance)


def grown(section: Learning, series: Series, found: Learnt) -> str:
    """Where steps of one sample have let losses grow, in a sentence; "" where they have not.

    Steps that stay finite may grow all the same, as those divided by norms of their own follow no single measure of size: then
    Phi = eta_1 L_a + eta_2 L_s of a client comes to more than twice what it is before anything is learnt.
    """
    if section.mode != "sequential":
        return ""
    for m, client in enumerate(series.clients):
        first = section.client * float((surprises(series, m)[series.lags :] ** 2).sum(1).mean())
        row = found.causes[series.places[m]]
        losses = losses_of(moments(series, m), found.augmentations[m], row[:, series.drivers(m)])
        times = (section.client * losses[0] + section.server * losses[1]) / max(first, 1e-300)
        if times > GROWN:
            return (
                f"the learning diverges slowly: the losses of {client.name} are {times:.3g} times those before anything was learnt; "
                "a `ridge` above 0 (0.01), smaller rates or `mode: closed_form` come to rest"
            )
    return ""


def lags_of(section: Learning, clients: Sequence[Client], allowed: NDArray[np.bool_]) -> tuple[int, tuple[str, ...]]:
    """How many lags are learnt, and what is said of the choice; `allowed` [M, M]: who may drive whom."""
    if section.lags != "choose":
        return section.lags, ()
    chosen = max(1, int(best_lags(series_of(clients, allowed), MOST_LAGS).max()))
    return chosen, (f"{chosen} lag{'s' if chosen > 1 else ''} by the Bayesian information criterion, up to {MOST_LAGS}",)
