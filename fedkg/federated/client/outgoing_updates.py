"""What happens to updates before they leave their clients."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedkg.federated.client import wire_precision
from fedkg.federated.executors.protocol import Updates, Work
from fedkg.federated.privacy.update_noise import NoPrivacy
from fedkg.federated.randomness import PRIVACY, client_keys
from fedkg.federated.server import guard
from fedkg.federated.state import ServerState


def make_outgoing(work: Work, state: ServerState, updates: Updates) -> Updates:
    """The updates as they leave the clients: rounded to the wire's precision, clipped and noised by
    the algorithm's privacy, without objectives where these are private.

    Args:
        state: the state before the round; with the rows of these clients.
    """
    algorithm, settings = work.algorithm, work.settings
    updates = wire_precision.sent(updates, settings.wire)
    if not isinstance(algorithm.privacy, NoPrivacy):
        keys = client_keys(settings.seed, state.round + 1, PRIVACY, updates.clients)
        updates = replace(updates, update=algorithm.privacy.client(updates.update, keys))
    if algorithm.privacy.noisy:
        updates = replace(updates, loss=torch.full_like(updates.loss, torch.nan))
    if algorithm.budget is not None:
        updates = guard.untold(updates, state.clients)
    return replace(updates, outgoing=True)
