"""What happens to updates before they leave their clients.

Letters: C clients of a stack, M constraints.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fedkg.federated.client import wire_precision
from fedkg.federated.executors.protocol import Updates, Work
from fedkg.federated.privacy.update_noise import NoPrivacy
from fedkg.federated.randomness import PRIVACY, client_keys
from fedkg.federated.server import guard
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params


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


def has_scores(work: Work) -> bool:
    """Whether updates are scored: there are constraints to score by, and someone asks for it."""
    scorer, settings = work.problem.scorer, work.settings
    return (
        scorer is not None
        and scorer.rows.count > 0
        and (settings.measure or work.algorithm.weighting.needs_scores)
        and not settings.secure_aggregation  # no single update is known
    )


def score_own_models(work: Work, state: ServerState, updates: Updates) -> Updates:
    """The updates with the scores that honest clients tell of their models.

    Each model is scored alone, so that a client at its site computes the same bits.

    Args:
        work: the training.
        state: the state before the round.
        updates: as they leave the clients, with what the clients remember.
    """
    scorer = work.problem.scorer
    if updates.violation is not None or not len(updates.clients) or not has_scores(work):
        return updates
    models = updated_models(work, state, updates)
    if scorer is None or models is None:
        return updates
    each = [
        scorer.score({name: value[row : row + 1] for name, value in models.items()}).violation
        for row in range(len(updates.clients))
    ]
    return replace(updates, violation=torch.cat(each).to(torch.float64))


def updated_models(work: Work, state: ServerState, updates: Updates) -> Params | None:
    """The clients' models [C, ...]: where they began plus what they sent, and for layers that stay
    at home what is at home.

    If the server's weights depend on it, the server uses its own layers: it sees no others.
    Otherwise None if layers stay at sites elsewhere: models that no client uses are not measured.
    """
    sent = {name: updates.start[name] + value for name, value in updates.update.items()}
    params = work.algorithm.local.point(sent)
    seen_by_server = work.algorithm.weighting.needs_scores and not work.settings.scores_at_sites
    home = (
        {}
        if seen_by_server
        else {name: updates.client_memory.get(f"start/{name}") for name in state.models}
    )
    whole: Params = {}
    for name, value in state.models.items():
        own = home.get(name)
        if name not in params and own is None and not seen_by_server:
            return None
        whole[name] = (
            params[name] if name in params else value[updates.groups] if own is None else own
        )
    return whole
