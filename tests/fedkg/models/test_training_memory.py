from __future__ import annotations

import torch

from fedkg.models import MLP, KnowledgeGraph, TabNet, softmax_regression
from fedkg.models.activation_memory import Footprint, footprint
from fedkg.models.model_protocols import Model


def measured(model: Model, *sample: int) -> Footprint:
    return footprint(
        model,
        {name: value.unsqueeze(0) for name, value in model.init(0).items()},
        torch.ones(3, *sample),
    )


def test_dense_layers_keep_their_hidden_values_and_answers() -> None:
    assert measured(MLP(inputs=32, hidden=(64, 16), outputs=10), 32) == Footprint(
        client=0, sample=64 + 16 + 10
    )
    assert measured(softmax_regression((4, 5), 3), 4, 5) == Footprint(client=0, sample=3)


def test_what_a_graph_costs_is_each_clients_and_no_samples() -> None:
    edges = torch.tensor([[0, 1], [1, 2]])
    small, large = (
        measured(
            TabNet(
                inputs=2,
                steps=1,
                width=3,
                graph=KnowledgeGraph(nodes=n, edges=edges, column_node=torch.tensor([0, 1])),
            ),
            2,
        )
        for n in (10, 1000)
    )
    assert large.client > 100 * 3 * 3 > small.client
    assert abs(large.sample - small.sample) < 10
