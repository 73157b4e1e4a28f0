"""Everything that leaves a site in a training, and what comes to it: derived from the algorithm.

Letters: N clients in all, C clients of a stack, G models the server holds.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fedkg.errors import JobError
from fedkg.federated.client.per_client_settings import rate_for, steps_for
from fedkg.federated.executors.protocol import Work
from fedkg.federated.round_steps import Outcome, Setting
from fedkg.federated.state import ServerState

START, JOINTS = "start/", "joints/"
"""Before the names of tensors that a site receives: what it starts from, and the server's memory of
steps of the round.
"""

SENT_JOINTS = ("local", "before")
"""The steps with a memory at the server that clients need; what it holds is of no single client."""

UPDATE, SHARED, LOSS, GROUP = "update/", "shared/", "loss", "group"
"""Names, or what is before the names, of tensors that a site sends."""


def derive_outcome(work: Work, state: ServerState) -> Outcome:
    """What a client would send and remember after a round without local steps: the names, shapes
    and types of each round.

    Args:
        state: the server's state, or one with models and joints of these shapes.
    """
    algorithm, population = work.algorithm, len(work.problem.clients.names)
    client = torch.zeros(1, dtype=torch.int64)
    rows = algorithm.start.initial_memory(state.models, population)
    rows |= algorithm.local.initial_memory(state.models, population)
    offer = algorithm.start.offer(state, client)
    if offer.groups is None:
        offer = replace(offer, models=offer.of_groups(client), groups=client)
    start = algorithm.start.begin(work, offer, rows, client)
    setting = Setting(
        state=replace(state, clients=rows),
        clients=client,
        samples=work.pool.sizes[client],
        share=work.pool.share(client),
        steps=steps_for(work, client),
        rate=rate_for(work, state.round + 1, client),
        start=start,
    )
    variables = {name: value.clone() for name, value in start.variables.items()}
    carry = algorithm.local.begin(setting, variables)
    return algorithm.start.part(setting, algorithm.local.finish(setting, variables, carry))


def check_beside(work: Work) -> None:
    """Raise JobError if sites would have to receive more than the offer for the common model."""
    beside = work.algorithm.beside
    if beside is not None and getattr(beside.start, "common", None) != work.algorithm.start:
        raise JobError(
            "the model that each site trains beside the common one must start from the same offer",
            expected=f"common={work.algorithm.start!r}",
        )
