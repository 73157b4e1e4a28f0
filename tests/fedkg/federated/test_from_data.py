"""From data sets to federations: standardised, split, trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedkg.data import by_site, classes_per_site, iid
from fedkg.data.sets import data_set, forecast_windows, standardise
from fedkg.errors import JobError
from fedkg.federated import (
    CrossEntropy,
    KnownSquaredError,
    Problem,
    Settings,
    clients_of,
    fedavg,
    train,
)
from fedkg.models import MODELS


def stream() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(0))


def test_tables_are_scaled_by_their_training_samples_and_unknown_inputs_stand_at_the_mean() -> None:
    data = data_set("cmapss", size=4)
    ready = standardise(data)
    assert data.test is not None
    np.testing.assert_allclose(ready.data.x[~data.test].mean(0), 0, atol=1e-9)
    assert ready.outputs is not None
    np.testing.assert_allclose(ready.quantities(ready.data.y[:, None])[:, 0], data.y, atol=1e-9)
    secom = standardise(data_set("secom", size=200))
    assert not np.isnan(secom.data.x).any()
    assert secom.outputs is None


@pytest.mark.parametrize("name", ["mnist", "cifar-10"])
def test_images_are_scaled_by_the_channels_of_their_training_samples(name: str) -> None:
    images = data_set(name, size=2_500)
    ready = standardise(images)
    assert images.test is not None
    assert ready.data.x.dtype == np.float32
    known = ready.data.x[~images.test].astype(np.float64)
    np.testing.assert_allclose(known.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(known.std((0, 2, 3)), 1, atol=1e-5)
    assert ready.inputs.names == images.features
    back = ready.data.x * ready.inputs.std[:, None, None] + ready.inputs.mean[:, None, None]
    np.testing.assert_allclose(back, images.x, atol=1e-6)


def test_unknown_targets_stay_unknown() -> None:
    windows = forecast_windows(data_set("traffic", size=96), history=24, horizon=24)
    ready = standardise(windows).data
    assert np.array_equal(np.isnan(ready.y), np.isnan(windows.y))
    assert np.isnan(ready.y).any()
    back = standardise(windows).quantities(ready.y)
    np.testing.assert_allclose(back, windows.y, rtol=1e-9)


def test_each_site_is_a_client_in_the_order_of_the_split() -> None:
    data = data_set("covtype", size=400)
    clients = clients_of(standardise(data).data, by_site(data.clients))
    assert clients.names == data.client_names
    assert sum(clients.samples) == 400
    assert clients.y[0].dtype == torch.int64
    assert clients.x[0].dtype == torch.float32


def test_what_no_model_can_read_is_rejected() -> None:
    data = data_set("secom", size=60)
    split = iid(data.y, ("a", "b"), stream())
    with pytest.raises(JobError, match=r"inputs are unknown(.|\n)*standardise"):
        clients_of(data, split)
    with pytest.raises(JobError, match="another data set than secom"):
        clients_of(data_set("secom", size=59), split)


def test_a_federation_of_images_learns() -> None:
    data = data_set("mnist", size=600)
    split = classes_per_site(data.y, ("a", "b", "c", "d"), 5, stream())
    model = MODELS["softmax"](inputs=(1, 28, 28), outputs=10)
    task = Problem(model=model, loss=CrossEntropy(), clients=clients_of(data, split))
    losses = [
        record.train_loss
        for _, record in train(
            task,
            fedavg(),
            Settings(rounds=6, local_epochs=1, learning_rate=0.05, executor="stacked"),
        )
    ]
    assert losses[-1] < 0.5 * losses[0]


def test_a_federation_of_stations_learns_around_unknown_hours() -> None:
    windows = forecast_windows(
        data_set("traffic", size=10 * 24), history=48, horizon=24, stride=24, gaps="unknown"
    )
    ready = standardise(windows).data
    model = MODELS["gru"](history=48, horizon=24, window=24)
    task = Problem(
        model=model, loss=KnownSquaredError(), clients=clients_of(ready, by_site(ready.clients))
    )
    settings = Settings(
        rounds=4, participation=0.2, local_epochs=2, batch=4, learning_rate=0.1, executor="stacked"
    )
    losses = [record.train_loss for _, record in train(task, fedavg(), settings)]
    assert all(np.isfinite(losses))
    assert losses[-1] < losses[0]
