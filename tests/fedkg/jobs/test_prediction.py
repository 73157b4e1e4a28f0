"""`fedkg predict`: predictions for new tables against the model computed by hand."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command import Done, call

from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.folder import TRIALS, RunFolder

pytestmark = pytest.mark.slow

RULES = """timeline step 1 h time column "time"
signal temp in degC span 0 .. 200
signal load in kN span 0 .. 20
output wear in mm span 0 .. 50
rule light require load <= 20 kN
rule cap hard require wear <= 12 mm
rule warm require if temp > 70 degC then wear >= 11 mm
rule smooth require always within 2 h wear <= 11.5 mm
"""
SITES = {"a": 40, "b": 70, "c": 90}
NEW = """sites:
  a: {url: a_new.csv}
  n: {url: n.csv, tableSchema: {columns: [{name: temp, titles: t, unit: degF}]}}
  wrong: {url: a_new.csv, tableSchema: {columns: [{name: temp, unit: bar}]}}
  short: {url: short.csv}
"""
TEST, SERVER = 0.2, 0.1
SERIES = """timeline step 1 h time column "time" trace column "line" ends clip
signal load in kN span 0 .. 20
output wear in mm span 0 .. 50
rule light require load <= 20 kN
rule cap hard require wear <= 40 mm
"""


def write(path: Path, rows: int, *, label: bool, fahrenheit: bool = False) -> list[list[float]]:
    """Write hourly rows; return temperature in degC, load and wear."""
    dice = np.random.default_rng(rows)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        wear = ["wear"] if label else []
        out.writerow(["time", "t" if fahrenheit else "temp", "load", *wear])
        found = []
        for row in range(rows):
            temp, load = round(60 + 20 * dice.random(), 1), round(10 * dice.random(), 3)
            truth = round(0.1 * temp + load + 0.1 * dice.normal(), 3)
            shown = repr(round(temp * 9 / 5 + 32, 2)) if fahrenheit else repr(temp)
            time = f"2025-03-{1 + row // 24:02}T{row % 24:02}:00:00"
            out.writerow([time, shown, repr(load), *([repr(truth)] if label else [])])
            found.append([temp, load, truth])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run `run`, and new tables."""
    from fedkg.jobs import run_job

    place = tmp_path_factory.mktemp("plant")
    (place / "rules.fkg").write_text(RULES)
    train = {name: write(place / f"{name}.csv", rows, label=True) for name, rows in SITES.items()}
    (place / "train.json").write_text(json.dumps(train))
    (place / "sites.yaml").write_text(
        "sites:\n" + "".join(f"  {name}: {{url: {name}.csv}}\n" for name in SITES)
    )
    new = {
        "a": write(place / "a_new.csv", 15, label=False),
        "n": write(place / "n.csv", 25, label=False, fahrenheit=True),
    }
    (place / "new.json").write_text(json.dumps(new))
    (place / "short.csv").write_text("time,temp\n2025-03-01T00:00:00,70\n")
    (place / "new.yaml").write_text(NEW)
    data = {"set": "table", "sites_file": "sites.yaml", "test": TEST, "server": SERVER}
    job = {
        "name": "wear",
        "rules": ["rules.fkg"],
        "data": {**data, "min_samples": 2},
        "model": {"hidden": []},
        "training": {"rounds": 2, "executor": "stacked", "chunk": 1, "learning_rate": 0.3},
        "compare": {"algorithm": ["fedavg", "ditto"]},
        "evaluation": {"local_baseline": False},
    }
    (place / "job.yaml").write_text(yaml.safe_dump(job))
    run_job(place / "job.yaml", out=place / "run", report=False)
    return place


def by_hand(folder: Path, site: str) -> np.ndarray:
    """The linear model on the standardised inputs, in mm, and not above the limit of `cap`."""
    train = json.loads((folder / "train.json").read_text())
    features = json.loads((folder / "run" / "environment.json").read_text())["features"]
    # The scaling of the target is that of the rows for training and the server. `smooth` looks two
    # steps ahead, so the two rows before each part are left out.
    wear = np.concatenate(
        [
            np.array(rows)[start : end - 2, 2]
            for rows in train.values()
            for start, end in pairwise(round(part * len(rows)) for part in (0, 0.7, 0.8))
        ]
    )
    state = load_state(RunFolder(folder / "run"), "fedavg-s0")
    assert state is not None
    weight, bias = sorted(
        (v.double().numpy() for v in state.params.values()), key=lambda v: -v.size
    )
    x = np.array(json.loads((folder / "new.json").read_text())[site])
    order = [("temp", "load").index(name) for name in features["names"]]
    scaled = (x[:, order] - features["mean"]) / features["std"]
    return np.minimum(12.0, (scaled @ weight.reshape(2) + bias.item()) * wear.std() + wear.mean())


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of forecasts over the end of summer time."""
    from fedkg.jobs import run_job

    place = tmp_path_factory.mktemp("series")
    (place / "rules.fkg").write_text(SERIES)
    (place / "sites.yaml").write_text("sites: {a: {url: a.csv}, b: {url: b.csv}}\n")
    for name in "ab":
        write_lines(place / f"{name}.csv", "+02:00")
    window = {"history": 6, "horizon": 3, "stride": 2, "gaps": "interpolate"}
    data = {"set": "table", "sites_file": "sites.yaml", "min_samples": 2, "window": window}
    job = {
        "name": "wear",
        "rules": ["rules.fkg"],
        "data": data,
        "model": {"hidden": []},
        "training": {"rounds": 1},
        "algorithm": "fedavg",
        "evaluation": {"local_baseline": False},
    }
    (place / "job.yaml").write_text(yaml.safe_dump(job))
    run_job(place / "job.yaml", out=place / "run", report=False)
    return place


def write_lines(path: Path, zone: str) -> None:
    """Hourly rows of two lines: P until 03:00 on 27 October, Q until 16:00 on the day before."""
    start, rows = datetime(2024, 10, 25, 0), ["time,line,load,wear"]
    for line, hours in (("P", 52), ("Q", 41)):
        rows += [
            f"{(start + timedelta(hours=hour)).isoformat()}{zone},{line},{hour % 7},{hour % 5}"
            for hour in range(hours)
        ]
    path.write_text("\n".join(rows) + "\n")


def forecasts(capsys: pytest.CaptureFixture[str], run: Path, *words: object) -> list[Any]:
    done = call(capsys, "predict", run, "--json", "--site", "a", *words)
    assert done.code == 0, done.err
    found: list[Any] = done.json["predictions"]
    return found


@pytest.mark.parametrize("zone", ["+02:00", "Z", ""])
def test_times_with_a_zone_are_forecast_in_utc(
    series: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, zone: str
) -> None:
    write_lines(tmp_path / "a.csv", zone)
    (tmp_path / "sites.yaml").write_text("sites: {a: {url: a.csv}}\n")
    found = forecasts(capsys, series / "run", "--sites", tmp_path / "sites.yaml")
    first = {"+02:00": "2024-10-25 04:00:00Z", "Z": "2024-10-25 06:00:00Z"}
    assert found[0]["time"] == first.get(zone, "2024-10-25 06:00:00")


def test_a_zone_of_the_sites_file_holds_for_the_steps_to_come(
    series: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The last row is at 00:00 UTC, in the hour before the clocks go back."""
    rows = "".join(f"2024-10-26T{hour:02}:00:00,P,1,2\n" for hour in range(19, 24))
    rows += "".join(f"2024-10-27T{hour:02}:00:00,P,1,2\n" for hour in range(3))
    (tmp_path / "a.csv").write_text(f"time,line,load,wear\n{rows}")
    (tmp_path / "sites.yaml").write_text(
        "sites: {a: {url: a.csv, timezone: Europe/Vienna, tableSchema: {columns: "
        "[{name: time, datatype: datetime}]}}}\n"
    )
    found = forecasts(capsys, series / "run", "--sites", tmp_path / "sites.yaml")
    expected = [f"2024-10-27 0{hour}:00:00Z" for hour in (1, 2, 3)]
    assert [line["time"] for line in found[-3:]] == expected


def test_the_last_rows_of_every_trace_are_forecast_from(
    series: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {line["line"]: line["time"] for line in forecasts(capsys, series / "run")[::3]}
    assert found["P"] == "2024-10-27 02:00:00Z"


def test_traces_without_a_forecast_are_named(
    series: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A window has six steps; R has five."""
    write_lines(tmp_path / "a.csv", "Z")
    with (tmp_path / "a.csv").open("a") as file:
        file.writelines(f"2024-10-26T0{hour}:00:00Z,R,1,2\n" for hour in range(5))
    (tmp_path / "sites.yaml").write_text("sites: {a: {url: a.csv}}\n")
    done = call(
        capsys, "predict", series / "run", "--site", "a", "--sites", tmp_path / "sites.yaml"
    )
    assert done.code == 0, done.err
    note = "no forecast for R: none of these traces has a window of 6 steps"
    assert note in " ".join((done.out + done.err).split())


def predict(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Done:
    sites = str(folder / "new.yaml")
    return call(capsys, "predict", folder / "run", "--sites", sites, *words)


def test_the_newest_rows_are_forecast_from_whatever_the_stride(
    series: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The 41 rows of Q have windows of six at rows 0, 2, ..., 34; the last one begins at 35."""
    times = [line["time"] for line in forecasts(capsys, series / "run")[::3] if line["line"] == "Q"]
    assert times[-2:] == ["2024-10-26 14:00:00Z", "2024-10-26 15:00:00Z"]


@pytest.mark.parametrize(
    ("window", "names"),
    [
        ({"history": 6, "horizon": 3}, ("site", "forecast", "step", "unit", "corrected")),
        ({"history": 6}, ("site", "row", "unit", "corrected")),
    ],
)
def test_a_column_called_like_one_of_fedkg_keeps_its_name(
    series: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    window: dict[str, int],
    names: tuple[str, ...],
) -> None:
    job = yaml.safe_load((series / "job.yaml").read_text())
    job["data"]["window"] = window
    for name in "ab":
        table = (series / f"{name}.csv").read_text()
        (tmp_path / f"{name}.csv").write_text(
            table.replace("line", "unit").replace("wear", "corrected")
        )
    (tmp_path / "sites.yaml").write_text((series / "sites.yaml").read_text())
    rules = SERIES.replace('"line"', '"unit"').replace(
        "span 0 .. 50", 'column "corrected" span 0 .. 50'
    )
    (tmp_path / "rules.fkg").write_text(rules)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    assert call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run").code == 0
    line = forecasts(capsys, tmp_path / "run")[0]
    own = [f"{name} (2)" if name in ("unit", "corrected") else name for name in names]
    assert set(line) == {"time", "unit", "corrected", *own}
    assert (line["unit"], line["unit (2)"], line["corrected (2)"]) == ("P", "mm", 0)


@pytest.mark.parametrize("site", ["a", "n"])
def test_predictions_are_those_of_the_model_with_the_rules(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, site: str
) -> None:
    out = tmp_path / "predictions.csv"
    done = predict(folder, capsys, "--site", site, "-o", str(out), "--json")
    assert done.code == 0, done.err
    with out.open() as file:
        rows = list(csv.DictReader(file))
    found = np.array([float(row["wear"]) for row in rows])
    expected = by_hand(folder, site)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
    assert [row["corrected"] for row in rows] == [str(int(v >= 12.0)) for v in expected]
    assert {row["unit"] for row in rows} == {"mm"}
    told = done.json["sites"][site]
    assert told["model"] == ""
    assert told["corrected"] == int((expected >= 12.0).sum())
    assert done.json["corrected_by"] == ["cap"]

    # The counts are those of `fedkg eval` with the predictions as the column of the output.
    x = np.array(json.loads((folder / "new.json").read_text())[site])
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ["time", "temp", "load", "wear"],
                *([r["time"], *v[:2], r["wear"]] for r, v in zip(rows, x.tolist(), strict=True)),
            ]
        )
    counted = call(capsys, "eval", folder / "rules.fkg", table, "--json").json["rules"]
    assert told["rules"] == {
        one["rule"]: {kind: one[kind] for kind in ("satisfied", "violated", "unknown")}
        for one in counted
    }


def test_a_new_site_needs_a_named_model_if_each_site_has_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--trial", "ditto-s0", "--json")
    assert predict(folder, capsys, "--site", "a", *words).json["sites"]["a"]["model"] == "a"
    done = predict(folder, capsys, "--site", "n", *words)
    assert done.code == 1
    assert "the run has no site n" in done.err
    named = predict(folder, capsys, "--site", "n", "--model", "b", *words)
    assert named.json["sites"]["n"]["model"] == "b"


def test_predictions_at_a_limit_of_injected_knowledge_satisfy_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "reach.fkg").write_text(
        RULES.partition("rule")[0] + "range knowledge reachable of wear\n"
        "  when load > 0 kN allow 0.1 .. 12.3 mm\n  otherwise allow any\n"
        "rule reach require wear <= 12.3 mm\n"
    )
    job = yaml.safe_load((folder / "job.yaml").read_text())
    job |= {"rules": ["reach.fkg"], "algorithm": "fedavg", "model": {"hidden": []}}
    job["model"]["inject"] = {"policy": "repair", "control": False}
    del job["compare"]
    (folder / "reach.yaml").write_text(yaml.safe_dump(job))
    assert call(capsys, "run", folder / "reach.yaml", "--out", folder / "reach").code == 0
    found = call(capsys, "predict", folder / "reach", "--site", "c", "--json").json
    assert max(line["wear"] for line in found["predictions"]) == 12.3
    assert found["sites"]["c"]["rules"]["reach"]["violated"] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--site", "short"], 1, "no column `load`"),
        (["--site", "wrong"], 1, "does not convert"),
        (["--site", "zzz"], 2, "zzz"),
        (["--trial", "scfa-s0"], 2, "has no trial scfa-s0"),
        (["-o", "missing/p.csv"], 2, "the folder missing"),
    ],
)
def test_wrong_input_is_a_clear_error(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    done = predict(folder, capsys, *words)
    assert done.code == code
    assert said in done.err
    assert not done.out


def test_an_unfinished_run_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder(folder / "run")
    entries = run.read_json(TRIALS)
    run.write_json(TRIALS, [one | {"done": False} for one in entries])
    try:
        done = predict(folder, capsys, "--site", "a")
    finally:
        run.write_json(TRIALS, entries)
    assert done.code == 1
    assert "is not finished" in done.err
    assert "--resume" in done.err
