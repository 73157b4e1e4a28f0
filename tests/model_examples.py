"""One small example of every model that a job may name, for tests that all models must pass."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fedkg.models import MODELS, KnowledgeGraph, Model


class Small(nn.Module):
    """A module as users write them, with dropout and a constant buffer."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(6, 7), nn.Dropout(0.4), nn.Linear(7, outputs)
        self.register_buffer("scale", torch.full((7,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.drop(torch.tanh(self.first(x))) * self.get_buffer("scale")
        out: Tensor = self.last(hidden)
        return out


class Remembering(nn.Module):
    """A module with PyTorch's own recurrent layer.

    torch cannot run it for several clients at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.cells(x)[0][:, -1])
        return out


def graph(features: Tensor | None = None) -> KnowledgeGraph:
    edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 4, 0]])
    return KnowledgeGraph(
        nodes=6, edges=edges, column_node=torch.tensor([0, 2, -1, 4, 5, 2, -1]), features=features
    )


def _recurrent(cell: str) -> dict[str, tuple[Model, tuple[int, ...]]]:
    sizes = {"features": 2, "history": 9, "horizon": 3, "outputs": 2, "hidden": 5}
    return {
        f"{cell}": (MODELS[cell](**sizes), (9, 2)),
        f"{cell} one layer": (MODELS[cell](**{**sizes, "layers": 1}), (9, 2)),
        f"{cell} windows": (MODELS[cell](**sizes, window=4), (9, 2)),
    }


EXAMPLES: Mapping[str, tuple[Model, tuple[int, ...]]] = {
    "softmax": (MODELS["softmax"](inputs=(2, 3, 4), outputs=5), (2, 3, 4)),
    "mlp": (MODELS["mlp"](inputs=4, hidden=(7, 6), outputs=3, dropout=0.3), (4,)),
    "mlp images": (
        MODELS["mlp"](inputs=(1, 4, 4), hidden=(7,), outputs=3, activation="tanh"),
        (1, 4, 4),
    ),
    "lenet5": (MODELS["lenet5"](image=(1, 28, 28), outputs=4), (1, 28, 28)),
    "cnn": (MODELS["cnn"](image=(2, 8, 9), outputs=3), (2, 8, 9)),
    **_recurrent("rnn"),
    **_recurrent("gru"),
    **_recurrent("lstm"),
    "transformer": (
        MODELS["transformer"](features=2, history=7, horizon=3, outputs=2, width=8, feed=10),
        (7, 2),
    ),
    "tabnet": (MODELS["tabnet"](inputs=7, outputs=2, steps=3, width=6), (7,)),
    "tabnet graph": (MODELS["tabnet"](inputs=7, outputs=2, steps=2, width=6, graph=graph()), (7,)),
    "tabnet graph features": (
        MODELS["tabnet"](
            inputs=7, outputs=2, steps=2, width=6, graph=graph(torch.eye(6, 4, dtype=torch.float64))
        ),
        (7,),
    ),
    "module": (
        MODELS["module"](path="model_examples:Small", sample=(6,), head=("last.",), outputs=3),
        (6,),
    ),
    "module one by one": (
        MODELS["module"](path="model_examples:Remembering", sample=(4, 3), head=("head.",)),
        (4, 3),
    ),
}
