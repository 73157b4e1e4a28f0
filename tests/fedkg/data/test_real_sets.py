"""The data sets that are at hand, read from their real files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from shared import SHARED, needs_shared

from fedkg.data.sets import DATA_SETS, data_set, forecast_windows, labelled_windows, series

PLACES: Mapping[str, str] = {
    "ai4i": "ai4i2020/ai4i2020.csv.gz",
    "secom": "secom",
    "covtype": "covtype",
    "mnist": "mnist",
    "fashion-mnist": "fashion-mnist",
    "cifar-10": "cifar-10",
    "cmapss": "cmapss",
    "traffic": "traffic-norway-hourly",
    "skab": "skab",
}
ELSEWHERE: Mapping[str, str] = {"tcga-brca": "external/tcga-brca"}
"""Data sets in another folder than `data`."""

NOT_AT_HAND = {"fhwa", "hai", "swat", "bosch", "sumo"}
"""Read by the published layout; no real files were available. `test_simulated_city` covers SUMO."""

pytestmark = needs_shared


def test_every_data_set_is_read_or_said_to_be_missing() -> None:
    assert set(PLACES) | set(ELSEWHERE) | NOT_AT_HAND == set(DATA_SETS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PLACES) - {"cifar-10", "traffic"}))
def test_the_real_files_are_of_the_form_that_is_generated(name: str) -> None:
    real, made = data_set(name, SHARED / "data" / PLACES[name]), data_set(name)
    assert real.x.shape[2:] == made.x.shape[2:]
    assert (real.task, real.classes) == (made.task, made.classes)
    if name != "secom":
        assert (real.features, real.units) == (made.features, made.units)


def test_counts_are_those_of_the_publishers() -> None:
    for name, rows in (("mnist", 70_000), ("fashion-mnist", 70_000)):
        data = data_set(name, SHARED / "data" / name)
        assert data.samples == rows
        assert data.test is not None
        assert int(data.test.sum()) == 10_000
    assert float(data.x[~data.test].mean()) == pytest.approx(0.2860, abs=1e-4)
    cover = data_set("covtype", SHARED / "data" / "covtype")
    assert np.bincount(cover.y).tolist() == [7310, 9687, 1293, 81, 303, 625, 701]
    line = data_set("secom", SHARED / "data" / "secom")
    assert (line.samples, int(line.y.sum()), int(np.isnan(line.x).sum())) == (1255, 84, 8706)


def test_jpegs_are_decoded_to_the_right_colours() -> None:
    data = data_set("cifar-10", SHARED / "data" / "cifar-10", size=1_500)
    assert data.x.shape == (1_500, 3, 32, 32)
    np.testing.assert_allclose(data.x.mean((0, 2, 3)), [0.4913, 0.4821, 0.4465], atol=0.02)
    assert set(np.unique(data.y)) == set(range(10))


def test_engines_end_where_they_fail() -> None:
    data = data_set("cmapss", SHARED / "data" / "cmapss")
    assert len(data.client_names) == 300
    assert data.test is not None
    ends = [float(data.of_client(name).y[-1]) for name in data.client_names if "train" in name]
    assert ends == [0.0] * 100
    assert labelled_windows(data.of_client("FD001 test 1"), history=30).y.tolist() == [113.0, 112.0]


def test_the_hour_that_is_never_counted_is_bridged_only_on_request() -> None:
    data = data_set("traffic", SHARED / "data" / PLACES["traffic"], size=30 * 24)
    assert len(data.client_names) == 95
    assert data.time is not None
    blank = data.time % 24 == 22
    assert np.isnan(data.x[blank]).all()
    windows = forecast_windows(data, history=120, horizon=24, stride=24)
    assert np.isnan(windows.y).any(axis=1).all()
    bridged = forecast_windows(
        data, history=120, horizon=24, stride=24, gaps="interpolate", longest=6
    )
    assert float(np.isnan(bridged.y).any(axis=1).mean()) < 0.2


def test_runs_of_the_test_bed_are_even_series_of_seconds() -> None:
    data = data_set("skab", SHARED / "data" / "skab", size=3)
    for one in series(data):
        assert 0 < float(np.isnan(one.x[:, 0]).mean()) < 0.1
    assert float(data.y.sum()) > 0


def test_patients_have_the_published_centres() -> None:
    data = data_set("tcga-brca", SHARED / ELSEWHERE["tcga-brca"])
    assert data.clients is not None
    assert data.test is not None
    sizes = []
    for name in data.client_names:
        test = data.test[data.clients == name]
        sizes.append((int((~test).sum()), int(test.sum())))
    assert sizes == [(248, 63), (156, 40), (164, 42), (129, 33), (129, 33), (40, 11)]
    assert data.notes == ("the published split leaves out 8 patients",)
