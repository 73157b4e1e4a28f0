"""Read a run folder into the records of the report.

Missing files of a run that stopped early become empty lists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from fedkg.errors import UsageError
from fedkg.jobs.comparison_metric import plural_event
from fedkg.jobs.folder import (
    ENVIRONMENT,
    INCIDENTS,
    JOB,
    PREDICTION_INCIDENTS,
    RESULTS,
    SPLIT,
    THEORY,
    TRIALS,
    RunFolder,
)
from fedkg.violation_rate_zones import describe_rate

Json = dict[str, Any]
"""A JSON object from a file. `Any`: JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One trial of the run.

    Attributes:
        id: as in the files of the run.
        algorithm: its name in the job.
        title: its name in the report.
        seed: of the trial.
        setting: what the job varied besides algorithm and seed, as text by field
            (``{"data.alpha": "0.1"}``).
        corrupted: the site with deliberately wrong labels, or "".
        done: whether the trial is finished.
        baseline: whether fedkg added the trial as a reference.
    """

    id: str
    algorithm: str
    title: str
    seed: int
    setting: tuple[tuple[str, str], ...] = ()
    corrupted: str = ""
    done: bool = True
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Mean over seeds, standard deviation, 95 % interval (NaN if unavailable), and all values."""

    mean: float
    deviation: float = math.nan
    values: tuple[float, ...] = ()
    low: float = math.nan
    high: float = math.nan

    def text(self, digits: int = 2, *, factor: float = 1.0, unit: str = "") -> str:
        """``0.71 ± 0.02``; a dash if not measured."""
        if math.isnan(self.mean):
            return "–"
        shown = f"{self.mean * factor:.{digits}f}"
        if not math.isnan(self.deviation):
            shown += f" ± {self.deviation * factor:.{digits}f}"
        return f"{shown}{unit}"


NOT_MEASURED = Figure(math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One row of the comparison: an algorithm in a setting, over its seeds.

    Attributes:
        preset: the preset that the algorithm is based on.
        reached: number of seeds that reached the target.
        zone: of the mean violation rate of the worst site in the last round.
        seed_list: the seeds, in the order of the figures' values.
        baseline: see `TrialRecord`.
        measure: the compared figure.
        sites: for each figure its mean, deviation, worst value and quantiles over the sites.
        figures: by name as in `results.json`.
    """

    setting: tuple[tuple[str, str], ...]
    corrupted: str
    algorithm: str
    title: str
    seeds: int
    preset: str = ""
    reached: int = 0
    zone: str = ""
    seed_list: tuple[int, ...] = ()
    baseline: bool = False
    measure: str = "f1"
    sites: dict[str, dict[str, float]] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def main(self) -> Figure:
        """The figure that decides comparisons."""
        return self.figure(self.measure)

    def figure(self, name: str) -> Figure:
        """The figure with this name; a missing one is not measured."""
        return self.figures.get(name, NOT_MEASURED)

    @property
    def violated(self) -> str:
        """The violation rate in the last round with both counts, over all seeds; "" if no case has
        a verdict.
        """
        counts = (sum(self.figure(name).values) for name in ("violated_cases", "evaluated_cases"))
        return describe_rate(*counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The quality of a model by the figures of its task.

    NaN for those of other tasks or not measured.
    """

    f1: float = math.nan
    precision: float = math.nan
    recall: float = math.nan
    accuracy: float = math.nan
    rmse: float = math.nan
    mse: float = math.nan
    concordance: float = math.nan
    loss: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow(Figures):
    """One row of `rounds.csv`; NaN for values that were not measured."""

    trial: str
    round: int
    rho_worst: float = math.nan
    rho_mean: float = math.nan
    zone: str = ""
    bytes: float = math.nan
    seconds: float = math.nan
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """One row of `clients.csv`: a site in a round; `share` is its weight by samples alone."""

    trial: str
    round: int
    client: str
    samples: float = math.nan
    validity: float = math.nan
    alpha: float = math.nan
    share: float = math.nan
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRow(Figures):
    """One row of `sites.csv`: a site at the end of a trial, on its own test rows."""

    trial: str
    client: str
    samples: float = math.nan
    test_rows: float = math.nan
    positives: float = math.nan
    violation: float = math.nan
    violated: float = math.nan
    evaluations: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One row of `rules.csv`: a rule at the end of a trial."""

    trial: str
    rule: str
    title: str = ""
    kind: str = ""
    rate: float = math.nan
    bound_rows: int = 0
    violated: int = 0
    evaluations: int = 0
    not_evaluated: int = 0
    reason: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """One row of `forecasts.csv`: errors and satisfied properties by kind of model."""

    trial: str
    by: str
    mse: float = math.nan
    mse_half: float = math.nan
    sequences: float = math.nan
    sequences_half: float = math.nan
    steps: float = math.nan
    steps_half: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """One row of `sets.csv`: the distance of a site's model to its parameter set."""

    trial: str
    client: str
    distance: float = math.nan
    sparsity: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One row of `causes.csv`: a causal edge between sites."""

    trial: str
    driver: str
    driven: str
    strength: float = math.nan
    lag: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One row of `checks.csv`: a rule over the data alone."""

    rule: str
    title: str = ""
    kind: str = ""
    violated: int = 0
    evaluations: int = 0
    rate: float = math.nan
    reason: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """Everything that the report shows, read from a run folder.

    Attributes:
        results: the comparison over seeds; empty until the run is finished.
        sentences: the comparison in words.
        splits: for each split its title, and per site `rows` and `positives` (labels of 1).
        split_note: a description of the split.
        rule_texts: the rules as written, by name.
        target: the target of the measure; NaN for none.
        theory: the content of `theory.json`; empty if the job does not ask for it.
        incidents: the content of `incidents.json`; empty if there is none.
        prediction_incidents: the content of `prediction_incidents.json`; empty if there is none.
        disclosures: rows of `disclosures.csv`.
        baselines: rows of `baselines.csv`.
        forecast_values: rows of `forecast_values.csv`.
        trivial: the figure of the best constant answer; NaN if unknown.
        failed: failed runs of a sweep with their reasons.
        open_runs: number of unfinished runs of a sweep.
    """

    folder: Path
    job: Json
    job_text: str
    environment: Json
    trials: tuple[TrialRecord, ...]
    results: tuple[Result, ...] = ()
    sentences: tuple[str, ...] = ()
    rounds: tuple[RoundRow, ...] = ()
    clients: tuple[ClientRow, ...] = ()
    sites: tuple[SiteRow, ...] = ()
    rules: tuple[RuleRow, ...] = ()
    forecasts: tuple[ForecastRow, ...] = ()
    sets: tuple[SetRow, ...] = ()
    causes: tuple[CauseRow, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    privacy: tuple[Mapping[str, str], ...] = ()
    disclosures: tuple[Mapping[str, str], ...] = ()
    exclusions: tuple[Mapping[str, str], ...] = ()
    rule_changes: tuple[Mapping[str, str], ...] = ()
    splits: tuple[tuple[str, dict[str, dict[str, float]]], ...] = ()
    split_note: str = ""
    rule_texts: dict[str, str] = field(default_factory=dict)
    target: float = math.nan
    title: str = "Training run"
    theory: Json = field(default_factory=dict)
    incidents: Json = field(default_factory=dict)
    prediction_incidents: Json = field(default_factory=dict)
    baselines: tuple[Mapping[str, str], ...] = ()
    forecast_values: tuple[Mapping[str, str], ...] = ()
    trivial: float = math.nan
    failed: tuple[tuple[str, str], ...] = ()
    open_runs: int = 0

    @property
    def event(self) -> str:
        """The noun for a row labelled 1, such as ``failure``; see `event_of`."""
        return str(self.environment.get("event", "failure"))


def read_run(folder: Path) -> RunRecords:
    """Read the records of a run folder.

    Raises:
        UsageError: the folder is not a run folder.
        JobError: a file is damaged.
    """
    files = RunFolder(folder)
    if not files.exists():
        raise UsageError(
            f"{folder} is not a run folder",
            expected="a folder that `fedkg run` wrote, with environment.json in it",
            help="train one first: fedkg run JOB.yaml --out DIR",
        )
    job_text = files.read_bytes(JOB).decode("utf-8")
    environment = files.read_json(ENVIRONMENT)
    job = environment["job"] if "job" in environment else _yaml(job_text)
    split = files.read_json(SPLIT)
    results = files.read_json(RESULTS) if RESULTS in files.log.states() else {}
    return RunRecords(
        folder=folder,
        job=job,
        job_text=job_text,
        environment=environment,
        trials=tuple(_trial_record(entry) for entry in files.read_json(TRIALS)),
        rounds=tuple(_row(RoundRow, line) for line in files.rows("rounds.csv")),
        clients=tuple(_row(ClientRow, line) for line in files.rows("clients.csv")),
        sites=tuple(_row(SiteRow, line) for line in files.rows("sites.csv")),
        rules=tuple(_row(RuleRow, line) for line in files.rows("rules.csv")),
        forecasts=tuple(_row(ForecastRow, line) for line in files.rows("forecasts.csv")),
        sets=tuple(_row(SetRow, line) for line in files.rows("sets.csv")),
        causes=tuple(_row(CauseRow, line) for line in files.rows("causes.csv")),
        privacy=tuple(files.rows("privacy.csv")),
        disclosures=tuple(files.rows("disclosures.csv")),
        exclusions=tuple(files.rows("exclusions.csv")),
        rule_changes=tuple(files.rows("rule_changes.csv")),
        checks=tuple(_row(CheckRow, line) for line in files.rows("checks.csv")),
        results=tuple(result_of(row) for row in results.get("rows", ())),
        sentences=tuple(results.get("sentences", ())),
        splits=_splits(split),
        split_note=_split_note(split, environment.get("event", "failure")),
        rule_texts=results.get("rules", {}),
        target=_or_nan(results["target"])
        if "target" in results
        else job.get("evaluation", {}).get("target_f1", math.nan),
        title=job.get("title") or job.get("name") or "Training run",
        theory=files.read_json(THEORY) if THEORY in files.log.states() else {},
        incidents=files.read_json(INCIDENTS) if INCIDENTS in files.log.states() else {},
        prediction_incidents=files.read_json(PREDICTION_INCIDENTS)
        if PREDICTION_INCIDENTS in files.log.states()
        else {},
        baselines=tuple(files.rows("baselines.csv")),
        forecast_values=tuple(files.rows("forecast_values.csv")),
        trivial=_or_nan(results.get("trivial")),
    )


def _trial_record(entry: Json) -> TrialRecord:
    return TrialRecord(
        id=entry["id"],
        algorithm=entry["algorithm"],
        title=entry["title"],
        seed=entry["seed"],
        setting=tuple((name, str(value)) for name, value in entry["setting"].items()),
        corrupted=entry["corrupted"],
        done=entry["done"],
        baseline=entry.get("baseline", False),
    )


def result_of(row: Json) -> Result:
    """A row of `results.json`."""
    figures = {
        name: Figure(
            _or_nan(value["mean"]),
            _or_nan(value["spread"]),
            tuple(_or_nan(item) for item in value["values"]),
            *(value.get("interval") or (math.nan, math.nan)),
        )
        for name, value in row.items()
        if isinstance(value, dict) and "mean" in value
    }
    return Result(
        setting=tuple((name, str(value)) for name, value in row["setting"].items()),
        corrupted=row["corrupted"],
        algorithm=row["algorithm"],
        title=row["title"],
        seeds=row["seeds"],
        preset=row["preset"],
        reached=row["reached"],
        zone=row["zone"],
        seed_list=tuple(row.get("seed_list", range(row["seeds"]))),
        baseline=row.get("baseline", False),
        measure=row.get("measure", "f1"),
        sites={
            figure: {name: _or_nan(value["mean"]) for name, value in parts.items()}
            for figure, parts in row.get("sites", {}).items()
        },
        figures=figures,
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _splits(document: Json) -> tuple[tuple[str, dict[str, dict[str, float]]], ...]:
    """The first seed of every setting; corruption does not move rows."""
    chosen: dict[str, tuple[str, dict[str, dict[str, float]]]] = {}
    for split in document.get("splits", ()):
        setting = ", ".join(
            f"{name.rpartition('.')[2]} {value}" for name, value in split["setting"].items()
        )
        chosen.setdefault(setting, (setting, split["sites"]))
    return tuple(chosen.values())


def _split_note(document: Json, event: str) -> str:
    """How rows were assigned, and which the server holds, in words."""
    held = {name: document[name] for name in ("test", "server") if name in document}
    parts = [document.get("note", "")]
    words = {"test": "held out for the test", "server": "held by the server"}
    parts += [
        f"{value['rows']:,} rows are {words[name]}"
        + (
            ""
            if value.get("positives") is None
            else f" ({value['positives']:,} {plural_event(event)})"
        )
        for name, value in held.items()
    ]
    several = len({split["seed"] for split in document.get("splits", ())}) > 1
    return " ".join(
        f"{part.rstrip('.')}."
        for part in (*parts, "The charts show the split of the first seed" if several else "")
        if part
    )


Row = TypeVar("Row", RoundRow, ClientRow, SiteRow, RuleRow, ForecastRow, SetRow, CauseRow, CheckRow)


def _row(kind: type[Row], line: Mapping[str, str]) -> Row:
    """A line as a record: numbers parsed, empty cells not measured, unused columns dropped."""
    values: dict[str, Any] = {}
    for item in fields(kind):
        text = line.get(item.name, "")
        values[item.name] = (
            _number(text)
            if item.type == "float"
            else int(_number(text, 0.0))
            if item.type == "int"
            else text
        )
    return kind(**values)


def _number(text: str, otherwise: float = math.nan) -> float:
    try:
        return float(text)
    except ValueError:
        return otherwise


def _yaml(text: str) -> Json:
    import yaml

    found = yaml.safe_load(text) if text else {}
    return found if isinstance(found, dict) else {}
