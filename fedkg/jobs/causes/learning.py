"""From the learning section of a job to the learning: its rates, its lags, and what is said of how it went. M clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import FedkgError
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, Rates, course_of, learn, losses_of
from fedkg.granger.moments import Series, moments, series_of, surprises
from fedkg.granger.reference import best_lags, labels
from fedkg.jobs.file.learning import Learning

MOST_LAGS = 5
GROWN = 2.0
"""So many times the losses before anything was learnt are no longer believed."""
WORSE = 0.25
"""Nor are causes that foretell a client worse than none by such a share of what is to be foretold."""


def learnt_by(section: Learning, series: Series) -> tuple[Learnt, str]:
    """What a job's section learns, and how it went in a sentence.

    Raises:
        UsageError, FedkgError: as `learn` does; or the learning has grown in place of learning, by numbers that are still finite.
    """
    rates = Rates(
        client=section.client,
        server=section.server,
        causes=section.causes,
        ridge=section.ridge,
        normalised=1.0 if section.normalised and section.mode != "closed_form" else None,
        together=True,
    )
    found = learn(series, rates, mode=section.mode, epochs=section.epochs, tolerance=section.tolerance)
    if section.mode == "sequential":
        refuse_grown(section, series, found)
    return found, course_of(found, section.mode, section.tolerance)


def refuse_grown(section: Learning, series: Series, found: Learnt) -> None:
    """Refuse what steps of one sample have made of losses that follow no single measure of size, and may grow slowly and stay finite.

    Raises:
        FedkgError: Phi = eta_1 L_a + eta_2 L_s of a client is more than twice what it is before anything is learnt; or its L_s is more than
            without any causes, by over a quarter of that and of how far its states move by other than its own dynamics.
    """
    for m, client in enumerate(series.clients):
        known, theta = moments(series, m), found.augmentations[m]
        row = found.causes[series.places[m]][:, series.drivers(m)]
        first = section.client * float((surprises(series, m)[series.lags :] ** 2).sum(1).mean())
        own, server = losses_of(known, theta, row)
        none = losses_of(known, theta, np.zeros_like(row))[1]
        times = (section.client * own + section.server * server) / max(first, 1e-300)
        said = f"the losses of {client.name} are {times:.3g} times those before anything was learnt" if times > GROWN else ""
        if not said and server - none > WORSE * (none + float((labels(series, m) ** 2).sum(1).mean())):
            said = f"what is learnt to drive {client.name} foretells it worse than nothing, {server:.3g} against {none:.3g}"
        if said:
            raise FedkgError(
                f"the learning diverges slowly: {said}",
                help="in `learning`: a `ridge` above 0 (0.01), smaller rates or `mode: closed_form` come to rest",
            )


def lags_of(section: Learning, clients: Sequence[Client], allowed: NDArray[np.bool_]) -> tuple[int, tuple[str, ...]]:
    """How many lags are learnt, and what is said of the choice; `allowed` [M, M]: who may drive whom."""
    if section.lags != "choose":
        return section.lags, ()
    chosen = max(1, int(best_lags(series_of(clients, allowed), MOST_LAGS).max()))
    return chosen, (f"{chosen} lag{'s' if chosen > 1 else ''} by the Bayesian information criterion, up to {MOST_LAGS}",)
