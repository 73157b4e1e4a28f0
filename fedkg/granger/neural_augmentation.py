"""A small network in place of the linear augmentation, by the same protocol: what a client says of
its neighbours may bend.

Letters: M clients, T steps, P states and D measurements of a client, O states of the others at all
lags, W width of the network.

The client's states become h_c + phi(y) with a network phi of one hidden layer (tanh) in place of
theta y. The messages are the same:
the two states up, the gradient 2 A^T e down. Clients take steps of Adam on averages over time; the
server takes the causes that fit best
(least squares) after each, the point to which its own steps lead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fedkg.errors import UsageError
from fedkg.granger.learn import Learnt
from fedkg.granger.moments import Series, surprises


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bent:
    """The result of causal learning with networks.

    Attributes:
        learnt: the causes and losses as from `learn`; `augmentations` is empty.
        networks: phi of each client, from [..., D] to [..., P].
    """

    learnt: Learnt
    networks: tuple[nn.Module, ...]


def learn_bent(
    series: Series,
    *,
    width: int = 16,
    epochs: int = 300,
    rate: float = 0.01,
    weight: float = 0.1,
    decay: float = 1e-4,
    seed: int = 0,
) -> Bent:
    """Learn which clients drive which, with a network in each client.

    Args:
        series: the states of all clients.
        width: W.
        epochs: number of steps of Adam.
        rate: learning rate of Adam.
        weight: eta_2 / eta_1, the weight of the server's gradient.
        decay: weight decay of Adam.
        seed: seed of the networks' initial weights.

    Raises:
        UsageError: a width or number of epochs below 1.
    """
    if min(width, epochs) < 1:
        raise UsageError(
            "the width of the network and the number of epochs must be at least 1",
            expected="at least 1",
            received=f"width {width}, epochs {epochs}",
        )
    known = slice(series.lags - 1, -1)
    total = series.states.shape[1]
    causes = np.zeros((total, series.lags * total))
    networks, own_losses, shared = [], np.zeros((epochs, len(series.clients))), np.zeros(epochs)
    for m, (client, place) in enumerate(zip(series.clients, series.places, strict=True)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + m)
            network = _network(client.gain.shape[1], client.gain.shape[0], width)
        before = torch.from_numpy(client.measurements[known])
        surprise = torch.from_numpy(surprises(series, m)[series.lags :])
        lift, own = (
            torch.from_numpy(client.emission @ client.transition),
            torch.from_numpy(client.transition),
        )
        drivers = series.drivers(m)
        others = torch.from_numpy(series.regressors[known][:, drivers])
        back = torch.linalg.pinv(others)
        steps = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=decay)
        row = torch.zeros((len(own), others.shape[1]), dtype=torch.float64)
        for epoch in range(epochs):
            steps.zero_grad()
            moved = network(before)
            miss = surprise - moved @ lift.T
            gap = (
                moved @ own.T - others @ row.T
            ).detach()  # the server's side: known to the client as its gradient 2 A^T e alone
            gradient = 2 * gap @ own
            loss = (miss**2).sum(1).mean() + weight * (gradient * moved).sum(1).mean()
            own_losses[epoch, m] = float((miss.detach() ** 2).sum(1).mean())
            shared[epoch] += float((gap**2).sum(1).mean())
            loss.backward()
            steps.step()
            row = _fitted(back, network(before).detach() @ own.T)
        causes[place, drivers] = row.numpy()
        networks.append(network.requires_grad_(False))
    return Bent(
        learnt=Learnt(causes=causes, augmentations=(), client_loss=own_losses, server_loss=shared),
        networks=tuple(networks),
    )


def client_losses(series: Series, bent: Bent) -> tuple[float, ...]:
    """The means of (L_m)_a over a series, with networks that stay."""
    found = []
    for m, (client, network) in enumerate(zip(series.clients, bent.networks, strict=True)):
        moved = network(torch.from_numpy(client.measurements[series.lags - 1 : -1]))
        miss = (
            torch.from_numpy(surprises(series, m)[series.lags :])
            - moved @ torch.from_numpy(client.emission @ client.transition).T
        )
        found.append(float((miss**2).sum(1).mean()))
    return tuple(found)


def _network(measurements: int, states: int, width: int) -> nn.Sequential:
    """One hidden layer, that says nothing at first: its last layer is zero, as theta is."""
    last = nn.Linear(width, states, bias=False)
    nn.init.zeros_(last.weight)
    return nn.Sequential(nn.Linear(measurements, width), nn.Tanh(), last).double()


def _fitted(back: Tensor, ahead: Tensor) -> Tensor:
    """The causes [P, O] that fit A phi(y) best: least squares on the others' states."""
    return (back @ ahead).T
