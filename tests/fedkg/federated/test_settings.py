from __future__ import annotations

import math

import pytest
import torch

from fedkg.errors import JobError
from fedkg.federated import Clients, Settings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 0}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"batch": 0}, "batch"),
        ({"local_epochs": None}, "`local_epochs` or `local_steps`"),
        ({"local_steps": 3}, "`local_epochs` or `local_steps`"),
        ({"local_epochs": 0}, "local_epochs"),
        ({"participation": 0.0}, "participation"),
        ({"participation": 1.1}, "participation"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": math.nan}, "learning_rate"),
        ({"schedule": "linear"}, "constant, cosine"),
        ({"executor": "gpu"}, "auto, stacked, processes, sequential"),
        ({"threads": 0}, "threads"),
        ({"chunk": 0}, "chunk"),
        ({"min_clients": 0}, "min_clients"),
    ],
)
def test_wrong_settings_are_rejected_by_name(options: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        Settings(**{"rounds": 3, "local_epochs": 1, **options})


@pytest.mark.parametrize(
    ("share", "population", "sampled"),
    [(0.6, 5, 3), (0.5, 5, 3), (0.1, 5, 1), (0.001, 5, 1), (1.0, 7, 7), (0.1, 1000, 100)],
)
def test_how_many_clients_are_sampled(share: float, population: int, sampled: int) -> None:
    assert Settings(rounds=1, local_epochs=1, participation=share).sampled(population) == sampled


def test_schedules() -> None:
    constant = Settings(rounds=10, local_epochs=1, learning_rate=0.2)
    assert {constant.rate(number) for number in range(1, 11)} == {0.2}
    cosine = Settings(rounds=10, local_epochs=1, learning_rate=0.2, schedule="cosine")
    assert cosine.rate(1) == 0.2
    assert cosine.rate(6) == pytest.approx(0.1)
    assert all(cosine.rate(number) > cosine.rate(number + 1) > 0 for number in range(1, 10))


X, Y = torch.zeros(4, 3), torch.zeros(4)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"names": (), "x": (), "y": ()}, "no clients"),
        ({"names": ("a",), "x": (X, X), "y": (Y,)}, "each client needs a name"),
        ({"names": ("a", "a"), "x": (X, X), "y": (Y, Y)}, "called a"),
        ({"names": ("a", "b"), "x": (X, X[:0]), "y": (Y, Y[:0])}, "client b has no samples"),
        ({"names": ("a", "b"), "x": (X, X.long()), "y": (Y, Y)}, "client b must be floating"),
        ({"names": ("a", "b"), "x": (X, X), "y": (Y, Y[:3])}, "client b must have one target"),
        ({"names": ("a", "b"), "x": (X, X[:, :2]), "y": (Y, Y)}, "inputs of client b"),
        ({"names": ("a", "b"), "x": (X, X.double()), "y": (Y, Y)}, "inputs of client b"),
        ({"names": ("a", "b"), "x": (X, X), "y": (Y, Y.long())}, "targets of client b"),
        (
            {"names": ("a",), "x": (X,), "y": (Y,), "keys": {"machine": (torch.zeros(3),)}},
            "category `machine` in `keys`",
        ),
    ],
)
def test_wrong_data_is_refused_by_client(data: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        Clients(**data)
