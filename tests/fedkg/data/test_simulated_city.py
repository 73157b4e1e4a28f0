"""A city simulated by SUMO: once, deterministic, and read later without the simulator."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from data_set_files import FILES

from fedkg.data.sets import city_simulation, data_set, forecast_windows
from fedkg.data.sets.city_simulation import QUANTITIES, City, simulate_city
from fedkg.errors import JobError, MissingExtra, TableError

needs_sumo = pytest.mark.skipif(
    importlib.util.find_spec("sumo") is None,
    reason="the simulator (pip install -e '.[sumo]', 500 MB) is not installed",
)
SMALL = "columns = 3\nrows = 2\nhours = 0.5\ninterval = 60\ntrips = 6000\n"


def city(folder: Path, text: str = SMALL) -> Path:
    (folder / "city.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
@needs_sumo
def test_a_city_is_simulated_once_and_is_the_same_for_the_same_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        city(folder)
    data = data_set("sumo", first, seed=5)
    [table] = first.glob("*.csv.gz")
    data_set("sumo", second, seed=5)
    assert (second / table.name).read_bytes() == table.read_bytes()
    other = data_set("sumo", second, seed=6)
    assert other.client_names == data.client_names
    assert not np.array_equal(other.x, data.x, equal_nan=True)
    monkeypatch.setattr(
        city_simulation, "_programs", lambda: pytest.fail("the simulator was asked again")
    )
    again = data_set("sumo", first, seed=5)
    np.testing.assert_array_equal(again.x, data.x)
    assert data_set("sumo", first, seed=5, size=7).samples == 7 * len(data.client_names)


@pytest.mark.slow
@needs_sumo
def test_what_is_measured_makes_sense(tmp_path: Path) -> None:
    data = data_set("sumo", city(tmp_path), seed=1)
    assert len(data.client_names) == 14  # seven streets, both ways
    assert data.samples == 14 * 30
    assert data.time is not None
    assert np.unique(data.time).tolist() == [60.0 * i for i in range(30)]
    column = {name: data.x[:, place] for place, name in enumerate(QUANTITIES)}
    driven = column["vehicles"] > 0
    assert 0.2 < driven.mean() < 1
    assert np.array_equal(np.isnan(column["speed"]), ~driven)
    assert 2 < column["speed"][driven].mean() < 14
    assert float(column["CO2"].sum() / column["fuel"].sum()) == pytest.approx(
        3.1, abs=0.1
    )  # kg of CO2 per kg of fuel
    for name in ("volume", "occupancy", "CO2", "fuel", "noise"):
        assert (column[name][~driven] == 0).mean() > 0.9
        assert np.corrcoef(column[name], column["vehicles"])[0, 1] > 0.2
    assert 0 < column["occupancy"].max() <= 100
    assert forecast_windows(data, history=10, horizon=5, targets=("vehicles", "occupancy")).x.shape[
        1:
    ] == (10, 7)


@needs_sumo
def test_a_failed_simulation_says_what_failed() -> None:
    with pytest.raises(JobError, match="failed in netgenerate"):
        simulate_city(
            City.model_construct(
                columns=1, rows=-1, length=1.0, lanes=1, hours=1.0, interval=60, trips=1.0
            ),
            0,
        )


def test_without_the_simulator_its_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'(?s)simulating a city .* -e "\.\[sumo\]"'):
        data_set("sumo", city(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colums = 3\n", "colums: unknown field"),
        ("rows = 1\n", "rows: Input should be greater than or equal to 2"),
        ("hours = 1\ninterval = 7\n", "must be a whole number of intervals"),
        ("hours = \n", "is not TOML"),
    ],
)
def test_a_wrong_city_is_rejected(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=said):
        data_set("sumo", city(tmp_path, text))


def test_a_table_from_elsewhere_is_read(tmp_path: Path) -> None:
    path = FILES["sumo"](tmp_path)
    data = data_set("sumo", path)
    assert data.client_names == ("A0B0", "B0A0")
    assert (data.step, data.step_unit) == (60.0, "s")
    assert np.isnan(data.of_client("B0A0").x[:, 3]).tolist() == [False, False, True]
    lines = path.read_text().splitlines()
    for wrong in (lines[:-1], [*lines[:-1], lines[-2]]):  # a row is missing; another occurs twice
        path.write_text("\n".join(wrong) + "\n")
        with pytest.raises(TableError, match="not exactly one row for each segment and interval"):
            data_set("sumo", path)


def test_generated_segments_slow_down_as_they_fill() -> None:
    data = data_set("sumo")
    assert len(data.client_names) == 48
    busy = max(data.client_names, key=lambda name: float(data.of_client(name).x[:, 0].max()))
    volume, speed = data.of_client(busy).x[:, 0], data.of_client(busy).x[:, 3]
    known = ~np.isnan(speed)
    assert np.corrcoef(volume[known], speed[known])[0, 1] < -0.2
    np.testing.assert_array_equal(
        data_set("sumo", size=20).of_client(busy).x, data.of_client(busy).x[:20]
    )
