"""The clients that fedkg samples in each round, so that other contenders train the same ones."""

from __future__ import annotations

from itertools import islice

import torch

from fedkg.federated import Clients, CrossEntropy, Problem, Settings, fedavg, train
from fedkg.models import softmax_regression


def sampled_clients(
    population: int, participation: float, rounds: int, seed: int
) -> list[list[int]]:
    """The numbers of the sampled clients of each round.

    The sample depends on the seed, the round and the number of clients alone, so the records of a
    run with one feature and one sample for each client contain it.
    """
    names = tuple(str(place) for place in range(population))
    x, y = torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64)
    problem = Problem(
        model=softmax_regression(1, 2),
        loss=CrossEntropy(),
        clients=Clients(names=names, x=(x,) * population, y=(y,) * population),
    )
    settings = Settings(
        rounds=rounds,
        participation=participation,
        local_steps=1,
        batch=1,
        learning_rate=0.1,
        seed=seed,
    )
    records = (record for _, record in train(problem, fedavg(), settings))
    return [[int(name) for name in record.clients] for record in islice(records, rounds)]
