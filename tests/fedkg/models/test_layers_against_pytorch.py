"""The models against PyTorch's own layers, and properties of single models."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fedkg.errors import JobError
from fedkg.models import (
    ConvNet,
    Convolution,
    KnowledgeGraph,
    Params,
    Recurrent,
    TabNet,
    Transformer,
    lenet5,
    predict,
    small_cnn,
)
from fedkg.models.tabnet import sparsemax
from fedkg.models.transformer import positions


def samples(*shape: int) -> Tensor:
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape))
    )


def below(params: Params, prefix: str) -> Params:
    return {
        name.removeprefix(prefix): value
        for name, value in params.items()
        if name.startswith(prefix)
    }


def test_lenet_is_what_pytorch_layers_make_of_its_parameters() -> None:
    params, x = lenet5().init(1, torch.float64), samples(4, 1, 28, 28)
    module = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    ).double()  # fmt: skip
    module.load_state_dict(dict(zip(module.state_dict(), params.values(), strict=True)))
    torch.testing.assert_close(
        predict(lenet5(), params, x), module(x).detach(), rtol=1e-12, atol=1e-12
    )


def test_the_small_network_is_what_pytorch_layers_make_of_its_parameters() -> None:
    model = small_cnn()
    params, x = model.init(1, torch.float64), samples(2, 3, 32, 32)
    module = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12544, 128), nn.ReLU(), nn.Linear(128, 10),
    ).double()  # fmt: skip
    module.load_state_dict(dict(zip(module.state_dict(), params.values(), strict=True)))
    torch.testing.assert_close(
        predict(model, params, x), module(x).detach(), rtol=1e-12, atol=1e-12
    )


def test_means_are_pooled_where_the_network_says_so() -> None:
    model = ConvNet(
        image=(1, 5, 5),
        convolutions=(Convolution(channels=1, kernel=2, pool=2),),
        hidden=(),
        outputs=1,
        pooling="mean",
    )
    params = {name: torch.ones_like(value) for name, value in model.init(0, torch.float64).items()}
    x = torch.arange(25.0, dtype=torch.float64).view(1, 1, 5, 5)
    windows = [
        [1 + sum(5 * (i + a) + j + b for a in (0, 1) for b in (0, 1)) for j in range(4)]
        for i in range(4)
    ]
    assert float(predict(model, params, x)[0, 0]) == pytest.approx(
        1 + sum(sum(row) for row in windows) / 4
    )


@pytest.mark.parametrize(("cell", "library"), [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_recurrent_layers_are_those_of_pytorch(cell: str, library: type[nn.RNNBase]) -> None:
    model = Recurrent(cell=cell, features=3, history=11, horizon=4, outputs=2, hidden=5, layers=2)
    params, x = model.init(1, torch.float64), samples(6, 11, 3)
    cells, head = library(3, 5, num_layers=2, batch_first=True).double(), nn.Linear(5, 8).double()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cells.load_state_dict(
        {f"{name}_l{i}": params[f"cells.{i}.{name}"] for i in range(2) for name in names}
    )
    head.load_state_dict(below(params, "head."))
    expected = head(cells(x)[0][:, -1]).detach()
    torch.testing.assert_close(predict(model, params, x), expected, rtol=1e-12, atol=1e-12)


def test_windows_slide_over_the_end_of_the_history() -> None:
    model = Recurrent(
        cell="gru", features=2, history=10, horizon=3, outputs=1, window=4, hidden=5, layers=2
    )
    params, x = model.init(1, torch.float64), samples(6, 10, 2)
    cells, head = nn.GRU(8, 5, num_layers=2, batch_first=True).double(), nn.Linear(5, 1).double()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cells.load_state_dict(
        {f"{name}_l{i}": params[f"cells.{i}.{name}"] for i in range(2) for name in names}
    )
    head.load_state_dict(below(params, "head."))
    steps = torch.stack([x[:, first : first + 4].flatten(1) for first in (4, 5, 6)], 1)
    torch.testing.assert_close(
        predict(model, params, x),
        head(cells(steps)[0]).squeeze(-1).detach(),
        rtol=1e-12,
        atol=1e-12,
    )


def test_transformer_layers_are_those_of_pytorch() -> None:
    model = Transformer(features=2, history=9, horizon=4, outputs=3, width=12, heads=3, feed=20)
    params, x = model.init(1, torch.float64), samples(5, 9, 2)
    options = {
        "d_model": 12,
        "nhead": 3,
        "dim_feedforward": 20,
        "batch_first": True,
        "dropout": 0.0,
    }
    seen = (
        x @ params["encoder_input_layer.weight"].T
        + params["encoder_input_layer.bias"]
        + positions(9, 12)
    )
    for layer in range(2):
        encoder = nn.TransformerEncoderLayer(**options).double()
        encoder.load_state_dict(below(params, f"encoder.layers.{layer}."))
        seen = encoder(seen)
    value = (
        x[:, -4:] @ params["decoder_input_layer.weight"].T
        + params["decoder_input_layer.bias"]
        + positions(4, 12)
    )
    for layer in range(2):
        decoder = nn.TransformerDecoderLayer(**options).double()
        decoder.load_state_dict(below(params, f"decoder.layers.{layer}."))
        value = decoder(value, seen)
    expected = (value @ params["linear_mapping.weight"].T + params["linear_mapping.bias"]).flatten(
        1
    )
    torch.testing.assert_close(predict(model, params, x), expected.detach(), rtol=1e-11, atol=1e-11)


@given(st.integers(1, 8), st.integers(0, 10_000), st.floats(0.01, 100))
def test_sparsemax_is_the_nearest_point_of_the_simplex(width: int, seed: int, scale: float) -> None:
    score = (
        torch.randn(3, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        * scale
    )
    point = sparsemax(score)
    assert bool((point >= 0).all())
    torch.testing.assert_close(point.sum(-1), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-9)
    # Nearest: the direction back to the score makes no acute angle with the direction to any
    # corner.
    for corner in torch.eye(width, dtype=torch.float64):
        assert bool((((score - point) * (corner - point)).sum(-1) <= 1e-9 * (1 + scale) ** 2).all())


def test_sparsemax_has_the_derivative_of_the_projection() -> None:
    score = samples(4, 6).requires_grad_()
    assert torch.autograd.gradcheck(sparsemax, (score,))


def test_each_step_of_tabnet_shares_its_attention_among_the_features() -> None:
    model = TabNet(inputs=9, steps=4, width=5)
    params = {name: value.unsqueeze(0) for name, value in model.init(0, torch.float64).items()}
    masks = model.masks(params, samples(1, 7, 9))
    assert masks.shape == (1, 4, 7, 9)
    torch.testing.assert_close(masks.sum(-1), torch.ones(1, 4, 7, dtype=torch.float64))
    assert bool((masks == 0).any())


def test_the_neighbourhood_of_a_graph_is_normalised_by_degrees() -> None:
    graph = KnowledgeGraph(
        nodes=4, edges=torch.tensor([[0, 1, 0], [1, 0, 2]]), column_node=torch.tensor([0])
    )
    adjacency = torch.tensor(
        [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.float64
    )
    degree = adjacency.sum(1)
    torch.testing.assert_close(
        graph.around.to_dense(), adjacency / (degree[:, None] * degree).sqrt()
    )


def test_a_row_reads_the_graph_only_where_its_columns_stand() -> None:
    edges = torch.tensor([[0, 1], [1, 2]])
    model = TabNet(
        inputs=2,
        steps=1,
        width=3,
        graph=KnowledgeGraph(nodes=9, edges=edges, column_node=torch.tensor([0, -1])),
    )
    params = model.init(0, torch.float64)
    near, far = dict(params), dict(params)
    near["graph.nodes"] = params["graph.nodes"] + torch.eye(9, 3, dtype=torch.float64).roll(
        2, 0
    )  # nodes 2, 3, 4
    far["graph.nodes"] = params["graph.nodes"] + torch.eye(9, 3, dtype=torch.float64).roll(
        5, 0
    )  # nodes 5, 6, 7: not connected
    x = samples(4, 2)
    assert not torch.equal(predict(model, near, x), predict(model, params, x))
    torch.testing.assert_close(predict(model, far, x), predict(model, params, x), rtol=0, atol=0)


@pytest.mark.parametrize(("inputs", "width", "steps", "outputs"), [(968, 128, 5, 1), (7, 3, 2, 4)])
def test_tabnet_has_the_layers_of_its_paper(
    inputs: int, width: int, steps: int, outputs: int
) -> None:
    """Figure 4 with N_d = N_a: dense layers of 2 (N_d + N_a) with scale, shift and gate."""

    def block(reads: int) -> int:
        made = 2 * (width + width)
        return reads * made + made + 2 * made

    transformers = block(inputs) + block(2 * width) + (steps + 1) * 2 * block(2 * width)
    attention = steps * (width * inputs + inputs + 2 * inputs)
    head = width * outputs + outputs
    params = TabNet(inputs=inputs, width=width, steps=steps, outputs=outputs).init(0)
    assert sum(value.numel() for value in params.values()) == transformers + attention + head


def test_the_fused_encoder_of_the_scfa_paper_has_millions_of_parameters() -> None:
    edges = torch.randint(0, 5247, (2, 12893), generator=torch.Generator().manual_seed(0))
    graph = KnowledgeGraph(nodes=5247, edges=edges, column_node=torch.arange(968))
    assert (
        sum(value.numel() for value in TabNet(inputs=968, graph=graph).init(0).values())
        == 3_576_378
    )


GRAPH = {"nodes": 3, "edges": torch.tensor([[0], [1]]), "column_node": torch.tensor([0])}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: ConvNet(
                image=(1, 4, 4),
                convolutions=(Convolution(channels=2, kernel=5),),
                hidden=(),
                outputs=2,
            ),
            "is empty after convolution",
        ),
        (lambda: small_cnn(outputs=0), "a size below 1"),
        (lambda: small_cnn(dropout=(0.2, 1.0)), "dropout is out of range"),
        (lambda: Recurrent(cell="elman"), "unknown recurrent cell"),
        (lambda: Recurrent(cell="rnn", hidden=0), "a size below 1"),
        (lambda: Recurrent(cell="rnn", history=20, horizon=10, window=12), "too short"),
        (lambda: Transformer(width=9), "multiple of its heads"),
        (lambda: Transformer(horizon=200), "longer than the history"),
        (lambda: Transformer(feed=0), "a size below 1"),
        (lambda: Transformer(dropout=1.0), "dropout is out of range"),
        (lambda: TabNet(inputs=0), "a size below 1"),
        (lambda: TabNet(inputs=3, relaxation=0.5), "relaxation"),
        (
            lambda: TabNet(inputs=3, graph=KnowledgeGraph(**GRAPH)),
            "does not have the columns of the model",
        ),
        (
            lambda: KnowledgeGraph(**{**GRAPH, "edges": torch.tensor([[0], [3]])}),
            "name unknown nodes",
        ),
        (lambda: KnowledgeGraph(**{**GRAPH, "edges": torch.tensor([0, 1])}), "pairs"),
        (lambda: KnowledgeGraph(**{**GRAPH, "features": torch.ones(2, 2)}), "do not fit the graph"),
    ],
)
def test_impossible_layers_are_rejected(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(JobError, match=said):
        make()
