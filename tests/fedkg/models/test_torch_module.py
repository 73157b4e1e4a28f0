"""PyTorch modules as models: supported contents, and errors with advice for others."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor, nn

from fedkg.errors import JobError
from fedkg.federated import Clients, CrossEntropy, Problem, Settings, fedavg, train
from fedkg.models import MLP, Noise, TorchModule, load_torch_module, predict
from fedkg.models.random_streams import fold, root


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


class Changing(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.get_buffer("calls").add_(1)
        out: Tensor = self.layer(x)
        return out


class Rolling(nn.Module):
    """Draws noise outside a dropout layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(nn.functional.dropout(x, 0.5, training=self.training))
        return out


class Sparing(nn.Module):
    """Has a parameter that its output does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Parameter(torch.ones(3))
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out


class Two(nn.Module):
    """Returns a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), x


def test_a_module_with_the_parameters_of_a_built_in_model_answers_as_it_does() -> None:
    model, own = MLP(inputs=4, hidden=(6,), outputs=3), TorchModule(build=dense, sample=(4,))
    params = model.init(2, torch.float64)
    x = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    renamed = dict(zip(own.init(0), params.values(), strict=True))
    torch.testing.assert_close(
        predict(own, renamed, x), predict(model, params, x), rtol=1e-13, atol=1e-13
    )


def test_dropout_depends_on_client_step_and_layer_and_drops_its_share() -> None:
    own = TorchModule(
        build=lambda: nn.Sequential(nn.Dropout(0.25), nn.Linear(200, 200, bias=False)),
        sample=(200,),
    )
    params = {"1.weight": torch.eye(200).expand(3, 200, 200)}
    x, noise = torch.ones(3, 50, 200), Noise(fold(root(1), torch.arange(3)), 2)
    out = own.apply(params, x, noise)
    assert sorted(set(out.unique().tolist())) == [0.0, pytest.approx(1 / 0.75)]
    assert float((out == 0).double().mean()) == pytest.approx(0.25, abs=0.01)
    assert not torch.equal(out[0], out[1])
    assert not torch.equal(out, own.apply(params, x, Noise(noise.keys, 3)))
    assert torch.equal(own.apply(params, x), x)


def test_making_a_module_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    TorchModule(build=lambda: nn.Sequential(nn.Dropout(0.5), dense()), sample=(4,)).init(7)
    assert torch.equal(before, torch.get_rng_state())


def test_clients_run_in_one_go_where_torch_can_and_one_by_one_where_it_cannot() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.GRU(2, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.cells(x)[0][:, -1]
            return out

    assert TorchModule(build=dense, sample=(4,)).vectorised
    assert not TorchModule(build=Recurrent, sample=(5, 2)).vectorised


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (Changing, "buffer calls of the module changes(.|\n)*GroupNorm or LayerNorm"),
        (Rolling, "draws random numbers in training(.|\n)*nn.Dropout"),
        (Two, "one row of outputs"),
        (lambda: nn.Flatten(0), "no parameters"),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Flatten(0)), "one row of outputs"),
        (lambda: nn.Linear(5, 3), "cannot read a batch"),
        (lambda: nn.ParameterDict({"w": nn.Parameter(torch.ones(1))}), "cannot read a batch"),
        (lambda: {}["size"], "raises an error\n  received: KeyError: 'size'"),
        (lambda: 3, "does not return a module"),
    ],
)
def test_what_cannot_be_federated_is_rejected_with_what_to_do(build: object, said: str) -> None:
    with pytest.raises(JobError, match=said):
        TorchModule(build=build, sample=(4,))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["torch.nn", "torch.nn:Nothing", "no_such_package:Net", ":Net"])
def test_a_path_that_leads_nowhere_is_rejected(path: str) -> None:
    with pytest.raises(JobError, match="cannot be imported"):
        load_torch_module(path, (4,))


def test_a_path_makes_the_module_with_its_options() -> None:
    model = load_torch_module("torch.nn:Linear", (4,), in_features=4, out_features=2, bias=False)
    assert {name: tuple(value.shape) for name, value in model.init(0).items()} == {"weight": (2, 4)}


def test_a_parameter_that_is_not_used_stays_as_it_is() -> None:
    model = TorchModule(build=Sparing, sample=(4,))
    x = torch.arange(24.0).view(6, 4) / 24
    clients = Clients(names=("a", "b"), x=(x, -x), y=(torch.tensor([0, 1] * 3),) * 2)
    problem = Problem(model=model, loss=CrossEntropy(), clients=clients)
    [(state, _)] = train(
        problem,
        fedavg(),
        Settings(rounds=1, local_epochs=1, batch=3, learning_rate=0.1, executor="stacked"),
    )
    assert torch.equal(state.models["spare"][0], torch.ones(3))
    assert not torch.equal(state.models["layer.weight"][0], model.init(0)["layer.weight"])


def test_a_module_that_ran_on_a_device_can_be_sent_to_processes_without_it(
    elsewhere: torch.device,
) -> None:
    model = load_torch_module("model_examples:Small", (6,), ("last.",), outputs=3)
    params = {key: value[None] for key, value in model.init(1).items()}
    x = torch.ones(1, 2, 6)
    expected = model.apply(params, x)
    model.apply({key: value.to(elsewhere) for key, value in params.items()}, x.to(elsewhere))
    sent = pickle.loads(pickle.dumps(model))
    assert torch.equal(sent.apply(params, x), expected)
    assert sent.parts == model.parts
