"""Trainings whose noise comes from the operating system: never the same twice, and as noisy as the
ledger states."""

from dataclasses import replace

import pytest
import torch

from fedkg.federated import BinaryCrossEntropy, Clients, Problem, Settings, fedavg, train
from fedkg.federated.client.batches import by_chance
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.federated.privacy.update_noise import ClippedClients, add_system_noise
from fedkg.federated.server.sampling import PoissonSampling
from fedkg.mining import private
from fedkg.models import MLP

SETTINGS = Settings(rounds=2, local_epochs=1, batch=10, learning_rate=0.3, executor="stacked")


def problem() -> Problem:
    draw = torch.Generator().manual_seed(0)
    x = tuple(torch.randn(rows, 3, generator=draw) for rows in (40, 25, 10))
    y = tuple((rows.sum(1) > 0).float() for rows in x)
    clients = Clients(names=("a", "b", "c"), x=x, y=y)
    return Problem(model=MLP(inputs=3, hidden=(4,)), loss=BinaryCrossEntropy(), clients=clients)


def trained(unit, randomness, settings=SETTINGS, state=None):
    task = problem()
    promise = Protection(unit=unit, clip=1.0, delta=1e-3, noise=1.5, randomness=randomness)
    algorithm = protected(fedavg(), promise, task.clients.samples, settings)
    return [state for state, _ in train(task, algorithm, settings, state)]


def equal(one, other):
    return all(torch.equal(value, other.models[name]) for name, value in one.models.items())


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize("unit", ["example", "client"])
def test_two_trainings_differ_with_system_noise_alone(unit, executor):
    settings = replace(SETTINGS, executor=executor)

    assert equal(trained(unit, "seeded", settings)[-1], trained(unit, "seeded", settings)[-1])
    one, other = (trained(unit, "system", settings)[-1] for _ in range(2))
    assert not equal(one, other)
    assert all(value.isfinite().all() for value in one.models.values())


def test_a_training_goes_on_with_its_ledger():
    first, _ = trained("example", "system")

    (last,) = trained("example", "system", state=first)

    assert last.round == 2
    assert last.joints["privacy"]["releases"].tolist() == [8, 6, 2]  # 4, 3 and 1 steps a round


def test_noise_of_clients_has_the_deviation_of_the_ledger():
    """50,000 numbers of one release: their deviation is noise * clip / expected."""
    rule = ClippedClients(clip=0.5, noise=3.0, expected=4.0, randomness="system")
    update = {"w": torch.full((1, 200, 200), 0.25), "b": torch.zeros(1, 10_000)}

    noised = rule.server(update, torch.tensor(0))

    draws = torch.cat([(noised[name] - update[name]).flatten() for name in update]).double()
    assert float(draws.std()) == pytest.approx(3.0 * 0.5 / 4.0, rel=0.03)
    assert noised["w"].shape == (1, 200, 200)


def test_every_client_has_noise_of_its_own_size():
    sums = {"w": torch.zeros(2, 30_000)}

    noised = add_system_noise(sums, 2.0, torch.tensor([0.1, 1.0], dtype=torch.float64))

    assert noised["w"].std(1).tolist() == pytest.approx([0.2, 2.0], rel=0.03)


def test_chance_of_the_system_takes_samples_at_their_rate():
    """Naive count over 300 minibatches of 10 out of 40 samples, each with chance 1/4."""
    sizes, steps = torch.tensor([40]), torch.tensor([300])
    plans = [
        by_chance(
            torch.zeros(1, dtype=torch.int64),
            sizes,
            torch.tensor([0]),
            steps,
            10,
            padding=-1,
            randomness="system",
        )
        for _ in range(2)
    ]

    counts = torch.zeros(40)
    for step in range(300):
        rows = plans[0].index[step, 0][plans[0].valid[step, 0]]
        assert len(rows.unique()) == len(rows)
        counts[rows] += 1
    assert abs(float(counts.mean()) / 300 - 0.25) < 0.03
    assert not torch.equal(plans[0].counts, plans[1].counts)


def test_chance_of_the_system_takes_clients_at_their_rate():
    rule = PoissonSampling(rate=0.3, randomness="system")

    drawn = [rule.sample(seed=0, round=1, population=200, size=60) for _ in range(50)]

    assert abs(sum(map(len, drawn)) / (50 * 200) - 0.3) < 0.03
    assert len({tuple(clients.tolist()) for clients in drawn}) > 1


def test_private_quantiles_of_the_system_differ_and_hide_their_last_bits():
    levels = torch.linspace(0.0, 10.0, 2001, dtype=torch.float64).expand(40, 2001)
    usable = torch.ones_like(levels, dtype=torch.bool)

    found = private(0.9, 5.0, (-20.0, 20.0), None).choose(levels, usable)

    # 90 % of the traces have a level of at least 1
    assert found.tolist() == pytest.approx([1.0] * 40, abs=0.1)
    assert len(found.unique()) > 1
    steps = (found + 20.0) / (40.0 * 2.0**-20)
    assert float((steps - steps.round()).abs().max()) < 1e-6
