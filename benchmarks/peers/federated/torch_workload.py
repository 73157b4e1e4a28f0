"""The workload for contenders that train PyTorch's own layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from contender_protocol import Given
from torch import Tensor, nn


class Forecaster(nn.Module):
    """The library's LSTM over a series, or over its last windows; a dense head."""

    def __init__(self, shape: dict[str, int]) -> None:
        super().__init__()
        self.window, self.horizon, self.history = (
            shape["window"],
            shape["horizon"],
            shape["history"],
        )
        read = shape["features"] * (self.window or 1)
        self.cells = nn.LSTM(read, shape["hidden"], shape["layers"], batch_first=True)
        self.head = nn.Linear(
            shape["hidden"], shape["outputs"] * (1 if self.window else self.horizon)
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.window:
            x = (
                x[:, self.history - self.window - self.horizon + 1 :]
                .unfold(1, self.window, 1)
                .transpose(2, 3)
                .flatten(2)
            )
            return self.head(self.cells(x)[0]).flatten(1)
        return self.head(self.cells(x)[0][:, -1])


def network(kind: str, shape: dict[str, int]) -> nn.Module:
    """The network as a user of PyTorch writes it."""
    if kind == "mlp":
        return nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
        )
    if kind == "cnn":
        layers = [
            nn.Conv2d(3, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
        ]
        return nn.Sequential(
            *layers, nn.Linear(12544, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)
        )
    return Forecaster(shape)


class Workload(Given):
    """A workload in which clients train a network."""

    def network(self) -> nn.Module:
        """The network with its initial parameters, in training mode."""
        net = network(self.kind, self.shape)
        net.load_state_dict({name: torch.from_numpy(value) for name, value in self.start().items()})
        return net.train()

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of a batch."""
        return (
            F.mse_loss(output, target)
            if self.kind.startswith("lstm")
            else F.cross_entropy(output, target)
        )

    def probe(self, net: nn.Module) -> float:
        """The loss over the first clients, in evaluation mode."""
        x, y = map(torch.from_numpy, self.probed())
        net.eval()
        with torch.no_grad():
            found = self.loss(net(x), y).item()
        net.train()
        return found

    def learn(self, net: nn.Module, client: int) -> None:
        """A client's local training: one epoch in batches."""
        x, y = torch.from_numpy(self.x[client]), torch.from_numpy(self.y[client])
        optimiser = torch.optim.SGD(net.parameters(), lr=self.rate)
        for first in range(0, len(x), self.batch):
            optimiser.zero_grad()
            self.loss(net(x[first : first + self.batch]), y[first : first + self.batch]).backward()
            optimiser.step()
