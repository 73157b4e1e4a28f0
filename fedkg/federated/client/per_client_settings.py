"""How each client trains: as the settings say for all, or as they say for it alone.

Letters: N clients in all, C clients of a stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import JobError
from fedkg.federated.client.batches import steps_of
from fedkg.federated.settings import Own, Settings

if TYPE_CHECKING:
    from fedkg.federated.algorithm import Algorithm
    from fedkg.federated.executors.protocol import Work

KEPT = 8
"""Number of federations with cached client settings: every stack uses the same ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Paces:
    """Numbers of all clients: the rate as a share of the common one, float64 [N]; epochs, int64
    [N], or None where steps are counted
    otherwise; batch, int64 [N]."""

    rate: Tensor
    epochs: Tensor | None
    batch: Tensor


def steps_for(work: Work, clients: Tensor, limit: int | None = None) -> Tensor:
    """Number of local steps of clients (int64 [C]), int64 [C]: see `steps_of`."""
    paces, sizes = _paces(work), work.pool.sizes[clients]
    if paces is None:
        return steps_of(sizes, work.settings, limit)
    batch, epochs = paces.batch.to(sizes.device)[clients], paces.epochs
    steps = (
        steps_of(sizes, work.settings)
        if epochs is None
        else (sizes + batch - 1) // batch * epochs.to(sizes.device)[clients]
    )
    return steps if limit is None else steps.clamp(max=limit)


def batch_for(work: Work, clients: Tensor) -> int | Tensor:
    """Samples in a minibatch: one number for all, or those of the clients (int64 [C]), int64
    [C].
    """
    paces = _paces(work)
    return work.settings.batch if paces is None else paces.batch.to(clients.device)[clients]


def rate_for(work: Work, round: int, clients: Tensor) -> float | Tensor:
    """The learning rate of a round: one number for all, or those of the clients (int64 [C]),
    float64 [C].
    """
    paces, rate = _paces(work), work.settings.rate(round)
    return rate if paces is None else rate * paces.rate.to(clients.device)[clients]


def check_paces(names: tuple[str, ...], algorithm: Algorithm, settings: Settings) -> None:
    """Raise JobError where settings of single clients name nobody, or the algorithm counts on equal
    ones.
    """
    if not settings.own:
        return
    stranger = next((name for name in settings.own if name not in set(names)), None)
    if stranger is not None:
        near = nearest_name(stranger, names)
        raise JobError(
            f"the settings name a client that does not exist: {stranger}",
            expected=", ".join(names[:5]),
            help=f"did you mean `{near}`?" if near else "correct the name, or remove its settings",
        )
    from fedkg.federated.client.variates import ProxSkip
    from fedkg.federated.pcfedavg.block_steps import AllBlockSteps, TwoVectorSteps

    against = {
        "remove the settings of single clients: the algorithm trains on all samples in one "
        "place": algorithm.pooled,
        "remove the settings of single clients: PC-FedAvg sets the steps of all agents "
        "together": isinstance(algorithm.local, AllBlockSteps | TwoVectorSteps),
        "remove `learning_rate` of single clients: Scaffnew's variates cancel only if all clients "
        "have the same one": (
            isinstance(algorithm.local, ProxSkip)
            and any(one.learning_rate for one in settings.own.values())
        ),
        "remove `batch` and `local_epochs` of single clients: the privacy budget is computed for "
        "equal ones": (
            algorithm.budget is not None
            and any(one.batch or one.local_epochs for one in settings.own.values())
        ),
        "remove `local_epochs` of single clients: `local_steps` applies to all clients": (
            settings.local_steps is not None
            and any(one.local_epochs for one in settings.own.values())
        ),
    }
    for why, there in against.items():
        if there:
            raise JobError(
                "these clients cannot have individual settings in this training",
                received=", ".join(settings.own),
                help=why,
            )


def _paces(work: Work) -> _Paces | None:
    own = work.settings.own
    return _made(work.problem.clients.names, work.settings, tuple(own.items())) if own else None


@lru_cache(maxsize=KEPT)
def _made(names: tuple[str, ...], settings: Settings, own: tuple[tuple[str, Own], ...]) -> _Paces:
    of, common = dict(own), Own()
    each = [of.get(name, common) for name in names]
    rates = [
        1.0 if one.learning_rate is None else one.learning_rate / settings.learning_rate
        for one in each
    ]
    epochs = (
        None
        if settings.local_epochs is None
        else torch.tensor([one.local_epochs or settings.local_epochs for one in each])
    )
    return _Paces(
        rate=torch.tensor(rates, dtype=torch.float64),
        epochs=epochs,
        batch=torch.tensor([one.batch or settings.batch for one in each]),
    )
