"""Run federated Granger learning with the settings of a job: rates, lags and a summary.

Letters: M clients.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedkg._internal.name_matching import did_you_mean
from fedkg._internal.safe_text import list_first
from fedkg.errors import FedkgError, JobError
from fedkg.granger.edge_significance import best_lags, labels
from fedkg.granger.learn import Learnt, Rates, course_of, learn, losses_of
from fedkg.granger.moments import Series, moments, surprises
from fedkg.jobs.schema.causal_learning import Learning

MAX_LAGS = 5
GROWTH_LIMIT = 2.0
"""Losses above this multiple of their initial value mean divergence."""
PREDICTION_LIMIT = 0.25
"""Causes that predict a client worse than none, by this share of what is to be predicted, mean
divergence.
"""


def rates_of(section: Learning) -> Rates:
    """The step sizes of a job."""
    return Rates(
        client=section.client,
        server=section.server,
        causes=section.causes,
        ridge=section.ridge,
        normalised=1.0 if section.normalised and section.mode != "closed_form" else None,
        together=True,
    )


def learn_causes(section: Learning, series: Series) -> tuple[Learnt, str]:
    """Run the learning, and summarise it in a sentence.

    Raises:
        JobError: the device does not exist.
        UsageError, FedkgError: as for `learn`; also if the learning diverges with finite numbers.
    """
    rates = rates_of(section)
    if section.device == "cpu":
        found = learn(
            series, rates, mode=section.mode, epochs=section.epochs, tolerance=section.tolerance
        )
    else:
        from fedkg.federated.device_transfer import device_named
        from fedkg.granger.learning_on_accelerators import learn_in_chunks

        device = device_named(section.device, "learning.device")
        found = learn_in_chunks(
            series, rates, epochs=section.epochs, tolerance=section.tolerance, device=device
        )
    if section.mode == "sequential":
        reject_divergence(section, series, found)
    return found, course_of(found, section.mode, section.tolerance)


def reject_divergence(section: Learning, series: Series, found: Learnt) -> None:
    """Reject a sequential learning that diverged slowly with finite numbers.

    Raises:
        FedkgError: Phi = eta_1 L_a + eta_2 L_s of a client exceeds twice its initial value; or its
            L_s
            exceeds the value without causes by more than a quarter of that value plus the movement
    of its         states beyond its own dynamics.
    """
    for m, client in enumerate(series.clients):
        known, theta = moments(series, m), found.augmentations[m]
        row = found.causes[series.places[m]][:, series.drivers(m)]
        first = section.client * float((surprises(series, m)[series.lags :] ** 2).sum(1).mean())
        own, server = losses_of(known, theta, row)
        none = losses_of(known, theta, np.zeros_like(row))[1]
        times = (section.client * own + section.server * server) / max(first, 1e-300)
        explanation = (
            f"the losses of {client.name} are {times:.3g} times their initial value"
            if times > GROWTH_LIMIT
            else ""
        )
        if not explanation and server - none > PREDICTION_LIMIT * (
            none + float((labels(series, m) ** 2).sum(1).mean())
        ):
            explanation = (
                f"the learned causes of {client.name} predict its outputs worse than no causes, "
                f"with an error of {server:.3g} instead of {none:.3g}"
            )
        if explanation:
            raise FedkgError(
                f"the learning diverges slowly: {explanation}",
                help="in `learning`, set `ridge` above 0 (such as 0.01), decrease the "
                "rates, or set `mode: closed_form`",
            )


def choose_lags(section: Learning, series: Series) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The number of lags of each client's equation, and notes about the choice.

    Raises:
        JobError: `lags` names an unknown client.
    """
    names = [client.name for client in series.clients]
    if isinstance(section.lags, int):
        return (section.lags,) * len(names), ()
    if isinstance(section.lags, Mapping):
        for name in section.lags:
            if name not in names:
                raise JobError(
                    f"learning.lags: unknown client {name}",
                    help=did_you_mean(name, names, f"the clients are {', '.join(names[:8])}"),
                )
        return tuple(section.lags.get(name, 1) for name in names), ()
    chosen = tuple(max(1, int(one)) for one in best_lags(series, MAX_LAGS))
    if len(set(chosen)) == 1:
        explanation = f"{chosen[0]} lag{'s' if chosen[0] > 1 else ''} for every client"
    else:
        groups = {
            lags: [name for name, own in zip(names, chosen, strict=True) if own == lags]
            for lags in sorted(set(chosen))
        }
        explanation = "; ".join(
            f"{lags} lag{'s' if lags > 1 else ''} for {list_first(own, 4)}"
            for lags, own in groups.items()
        )
    return chosen, (f"{explanation}: by the Bayesian information criterion, up to {MAX_LAGS}",)
