"""Every random choice of a federation, as a function of (seed, round, client, step, place): nothing
is drawn, so nothing is stored.

Letters: K sampled clients, C clients of a stack, E epochs, N largest number of samples in the
stack.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedkg.models.random_streams import fold, mix, root

COHORT, ORDER, DROPOUT, PRIVACY, MODEL, SERVER, ATTACK = range(7)
"""The purposes of random numbers; each has a separate stream."""

LAST = torch.iinfo(torch.int64).max


def cohort(seed: int, round: int, population: int, size: int, *, purpose: int = COHORT) -> Tensor:
    """Positions of `size` clients drawn uniformly without replacement from `population`, in
    ascending order: int64 [K].
    """
    return cohort_order(seed, round, population, purpose)[:size].sort().values


def cohort_order(seed: int, round: int, population: int, purpose: int = COHORT) -> Tensor:
    """All positions in the order in which a round draws them, int64 [N]."""
    draws = fold(root(seed, purpose, round), torch.arange(population, device="cpu"))
    return torch.argsort(draws, stable=True)


def client_keys(seed: int, round: int, purpose: int, clients: Tensor) -> Tensor:
    """One key per client, int64 [C]; `clients` are positions in the whole population, int64 [C]."""
    return fold(root(seed, purpose, round, device=clients.device), clients)


def model_seed(seed: int, place: int) -> int:
    """The seed of the server's model at this place: for the first the seed itself, for others one
    that no other (seed, place) shares.
    """
    return seed if place == 0 else int(root(seed, MODEL, place)) & LAST


def server_seed(seed: int) -> int:
    """The seed of the server's training on its rows: no client draws from it."""
    return int(root(seed, SERVER)) & LAST


def permutations(keys: Tensor, sizes: Tensor, epochs: int) -> Tensor:
    """A random order of each client's samples in each epoch, int64 [C, E, N]; entries from the
    client's number of samples on are meaningless.

    The samples are sorted by random keys. The order of client c in epoch e depends only on its key,
    e and its number of samples.

    Args:
        keys: int64 [C], the random key of each client.
        sizes: int64 [C], the number of samples of each client.
        epochs: E.
    """
    longest = int(sizes.max())
    epoch_keys = fold(keys.unsqueeze(1), torch.arange(epochs, device=keys.device))
    place = torch.arange(longest, device=keys.device)
    draws = mix(
        epoch_keys.unsqueeze(2)
        + fold(torch.zeros((), dtype=torch.int64, device=keys.device), place)
    )
    beyond = place >= sizes.unsqueeze(1)
    if bool(beyond.any()):
        draws.masked_fill_(beyond.unsqueeze(1), LAST)
    return torch.argsort(draws, dim=2, stable=True)
