"""Causal discovery in data sets: columns, runs, gaps, common patterns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import SHARED, needs_shared

from fedkg.data.sets.cmapss import SENSORS
from fedkg.errors import JobError
from fedkg.jobs.causes.data_set_time_series import CMAPSS_MODULES, longest_stretch
from fedkg.jobs.causes.detrending import remove_season, remove_trend
from fedkg.jobs.causes.job_file import read_causes_job
from fedkg.jobs.causes.measurements import read_measurements
from fedkg.jobs.causes.run import run_causes

ENGINES = (
    "kind: causes\nname: engines\ndata: {set: cmapss, size: 4, trend: 1}\nstates: "
    "1\ncorrelation: 0\nshifts: 19\ncentralised: true\n"
)
ROAD = (
    "kind: causes\nname: road\ndata: {set: traffic, size: 400, gaps: 24, season: 24}\n"
    "clients: {a: [station 1], b: [station 2]}\nstates: 1\n"
)


def _job(folder: Path, text: str) -> Path:
    (folder / "job.yaml").write_text(text)
    return folder / "job.yaml"


def test_engines_by_their_modules(tmp_path: Path) -> None:
    done = run_causes(_job(tmp_path, ENGINES), out=tmp_path / "run")
    assert set(done.results["clients"]) == set(CMAPSS_MODULES)
    assert any("2 consecutive runs: 1 of" in note for note in done.sentences)
    assert any("VAR on pooled measurements finds" in sentence for sentence in done.sentences)
    assert all(edge["central_p"] is not None for edge in done.results["edges"])
    assert "p-value of a pooled VAR" in (tmp_path / "run/report.html").read_text()
    assert any(
        "cannot be significant at 0.05: 308 steps allow at most 248 shifts" in sentence
        for sentence in done.sentences
    )


def test_every_sensor_but_the_demands_has_one_module() -> None:
    used = [sensor for own in CMAPSS_MODULES.values() for sensor in own]
    assert len(used) == len(set(used))
    assert set(SENSORS) - set(used) == {"Nf_dmd", "PCNfR_dmd"}


def test_stations_side_by_side(tmp_path: Path) -> None:
    found = read_measurements(read_causes_job(_job(tmp_path, ROAD)))
    assert [client.name for client in found.clients] == ["a", "b"]
    assert all(np.isfinite(client.values).all() for client in found.clients)
    assert any("interpolated" in note for note in found.notes)
    known = found.clients[0].values[: int(0.8 * len(found.clients[0].values)), 0]
    assert [known[hour::24].mean() for hour in range(24)] == pytest.approx([0.0] * 24, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("station 2", "station 200"), "has no column `station 200`"),
        (("set: traffic", "set: trafic"), "did you mean `traffic`"),
        (("set: traffic", "set: mnist"), "is not a series"),
        (("gaps: 24", "gaps: 0, runs: []"), "consecutive steps are free of gaps"),
        ((", b: [station 2]", ""), "names only one client, a"),
        (("set: traffic, ", ""), "`data.size` requires a data set"),
    ],
)
def test_what_a_set_does_not_have_is_reported(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    text = ROAD.replace(*change)
    if "consecutive steps are free of gaps" in said:
        text = text.replace("size: 400", "size: 9")
    with pytest.raises(JobError) as told:
        read_measurements(read_causes_job(_job(tmp_path, text)))
    assert said in str(told.value) + str(told.value.help)


def test_a_run_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="has no run train 9"):
        read_measurements(
            read_causes_job(_job(tmp_path, ENGINES.replace("trend: 1", "runs: [train 9]")))
        )


@given(st.integers(2, 9), st.integers(1, 40))
def test_a_course_that_repeats_is_gone(season: int, trend: int) -> None:
    values = np.tile(np.random.default_rng(season).standard_normal((season, 2)), (12, 1))
    assert remove_season(values, season, 6 * season) == pytest.approx(
        np.zeros_like(values), abs=1e-12
    )
    flat = np.repeat([[1.0], [50.0]], 60, axis=0)
    assert remove_trend(flat, trend, (0, 60)) == pytest.approx(np.zeros_like(flat), abs=1e-12)


def test_nothing_of_later_steps_comes_in() -> None:
    values = np.random.default_rng(0).standard_normal((50, 2))
    changed = values.copy()
    changed[30:] += 100.0
    assert remove_trend(values, 7)[:30] == pytest.approx(remove_trend(changed, 7)[:30], abs=1e-12)
    assert remove_trend(values, 1)[1:] == pytest.approx(np.diff(values, axis=0), abs=1e-12)
    assert remove_trend(values, 3)[10] == pytest.approx(
        values[10] - values[7:10].mean(0), abs=1e-12
    )


def test_the_longest_stretch() -> None:
    unknown = np.zeros((20, 2), dtype=np.bool_)
    unknown[4:6, 0] = unknown[15, 1] = unknown[0, 0] = True
    assert longest_stretch(unknown, 2) == slice(1, 20)
    assert longest_stretch(unknown, 1) == slice(6, 20)
    assert longest_stretch(unknown, 0) == slice(6, 15)
    assert longest_stretch(np.ones((5, 1), dtype=np.bool_), 9) == slice(0, 0)


@needs_shared
def test_the_modules_of_the_published_engines(tmp_path: Path) -> None:
    job = read_causes_job(
        _job(tmp_path, ENGINES.replace("size: 4", f"size: 4, path: {SHARED / 'data/cmapss'}"))
    )
    found = read_measurements(job)
    assert {len(client.columns) for client in found.clients} == {
        len(own) for own in CMAPSS_MODULES.values()
    }
