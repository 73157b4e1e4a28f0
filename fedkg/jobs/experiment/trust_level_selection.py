"""Choose the trust in predictions by federated cross-validation; only losses leave a site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.federated import Clients, Problem, Settings, fedavg, train
from fedkg.federated.client.task_losses import Loss
from fedkg.jobs.experiment.task_metrics import predict_in_batches
from fedkg.jobs.schema.model_section import Inject
from fedkg.knowledge import ChosenTrust, choose_trust, folds
from fedkg.models import Model

Chosen = NDArray[np.bool_]
"""Which samples of a client are chosen, [n_k]."""


def select_trust(
    inject: Inject,
    clients: Clients,
    loss: Loss,
    model: Callable[[float], Model],
    settings: Settings,
    retrain: Callable[[Sequence[Chosen]], Clients],
) -> ChosenTrust:
    """The trust with the least mean loss on the folds that every site holds out.

    Each candidate is trained with FedAvg for a few rounds, whatever the job's algorithm. Its loss
    is the mean over the held-out samples of all sites.

    Args:
        model: builds the model with a given trust.
        retrain: the clients with predictors that sites trained on the chosen samples alone.
    """
    short = replace(
        settings, rounds=min(inject.rounds, settings.rounds), executor="stacked", measure=False
    )
    which = [
        folds(len(x), inject.folds, np.random.Generator(np.random.PCG64([settings.seed, 5, place])))
        for place, x in enumerate(clients.x)
    ]

    def tried(trust: float, fold: int) -> float:
        chosen = [part != fold for part in which]
        own = retrain(chosen)
        problem = Problem(model=model(trust), loss=loss, clients=_select_samples(own, chosen))
        *_, (state, _) = train(problem, fedavg(), short)
        held = _select_samples(own, [part == fold for part in which])
        each = [
            loss.value(predict_in_batches(problem.model, state.params, x)[None], y[None])[0]
            for x, y in zip(held.x, held.y, strict=True)
        ]
        return float(torch.cat(each).double().mean())

    return choose_trust(inject.trusts, inject.folds, tried)


def _select_samples(clients: Clients, chosen: Sequence[Chosen]) -> Clients:
    """The clients with some of their samples, without clients that have none."""
    masks = [torch.from_numpy(np.asarray(mask)) for mask in chosen]
    there = [place for place, mask in enumerate(masks) if bool(mask.any())]

    def part(values: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(values[place][masks[place]] for place in there)

    return Clients(
        names=tuple(clients.names[place] for place in there), x=part(clients.x), y=part(clients.y)
    )
