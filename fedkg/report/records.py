"""A run folder as data: what the report reads, and nothing else. Missing files of a run that stopped early are empty lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from fedkg.errors import UsageError
from fedkg.jobs.folder import ENVIRONMENT, JOB, RESULTS, SPLIT, THEORY, TRIALS, RunFolder
from fedkg.jobs.measure import plural_event

Json = dict[str, Any]
"""A JSON object as read from a file. `Any`: JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One training of the run.

    Attributes:
        id: as in the run's files. algorithm: its name in the job. title: what readers call it. seed: of the training.
        setting: what the job varied besides algorithm and seed, as text by field (``{"data.alpha": "0.1"}``).
        corrupted: the site whose labels were damaged on purpose, or "".
        done: whether it was trained to its end. baseline: whether it only stands beside what was asked for.
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
    """A mean over seeds with its standard deviation and 95 % interval, NaN where there is none, and the value of each seed."""

    mean: float
    deviation: float = math.nan
    values: tuple[float, ...] = ()
    low: float = math.nan
    high: float = math.nan

    def text(self, digits: int = 2, *, factor: float = 1.0, unit: str = "") -> str:
        """``0.71 ± 0.02``; a dash when nothing was measured."""
        if math.isnan(self.mean):
            return "–"
        shown = f"{self.mean * factor:.{digits}f}"
        if not math.isnan(self.deviation):
            shown += f" ± {self.deviation * factor:.{digits}f}"
        return f"{shown}{unit}"


NOT_MEASURED = Figure(math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the comparison: an algorithm in a setting, over its seeds.

    Attributes:
        preset: behind the algorithm. reached: in how many seeds F1 reached the target. zone: of the mean violation rate of the worst site
            in the last round.
        seed_list: the seeds, in the order of the figures' values. baseline: see `Arm`. measure: the figure that is compared.
        sites: of each figure over the sites, the mean over seeds of its mean, deviation, worst and quantiles, by name.
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
        """The figure that algorithms are compared by."""
        return self.figure(self.measure)

    def figure(self, name: str) -> Figure:
        """The figure called `name`, unknown when it was not measured."""
        return self.figures.get(name, NOT_MEASURED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How good a model is, by the measures of its task; NaN where one is not of the task, or nothing was measured."""

    f1: float = math.nan
    precision: float = math.nan
    recall: float = math.nan
    accuracy: float = math.nan
    rmse: float = math.nan
    mse: float = math.nan
    loss: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow(Figures):
    """One line of `rounds.csv`; numbers that were not measured are NaN."""

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
    """One line of `clients.csv`: a site in a round; `share` is its weight by its number of samples alone."""

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
    """One line of `sites.csv`: a site at the end of an arm, on its own test rows with the model it uses."""

    trial: str
    client: str
    samples: float = math.nan
    test_rows: float = math.nan
    positives: float = math.nan
    violation: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One line of `rules.csv`: a rule at the end of an arm."""

    trial: str
    rule: str
    title: str = ""
    kind: str = ""
    rate: float = math.nan
    bound_rows: int = 0
    not_evaluated: int = 0
    reason: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """One line of `forecasts.csv`: the forecasts of all sites by one kind of model, and how often they keep the sites' properties."""

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
    """One line of `sets.csv`: how far the model of a site is from the set that it is to be kept in."""

    trial: str
    client: str
    distance: float = math.nan
    sparsity: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One line of `causes.csv`: how strongly a site was found to drive another, where models read states of such a learning."""

    trial: str
    driver: str
    driven: str
    strength: float = math.nan
    lag: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One line of `checks.csv`: a rule over the data alone."""

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
    """Everything the report says, read from a run folder.

    Attributes:
        results, sentences: the comparison over seeds, and what it says; empty until the run is finished.
        splits: per way the data was split: its title, and per site `rows` and `positives` (labels of 1). split_note: in words.
        theory: what theory says of each training, as in `theory.json`; empty where it was not asked for.
        failed: runs of a sweep that failed, with why. open_runs: how many of them are not done.
        rule_texts: the rules as written, by name. target: the figure whose first round is reported, NaN for none.
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
    splits: tuple[tuple[str, dict[str, dict[str, float]]], ...] = ()
    split_note: str = ""
    rule_texts: dict[str, str] = field(default_factory=dict)
    target: float = math.nan
    title: str = "Training run"
    theory: Json = field(default_factory=dict)
    failed: tuple[tuple[str, str], ...] = ()
    open_runs: int = 0

    @property
    def event(self) -> str:
        """What a row labelled 1 is, such as ``failure``; see `event_of`."""
        return str(self.environment.get("event", "failure"))


def read_run(folder: Path) -> RunRecords:
    """The records of a run folder. Raises UsageError when it is none, JobError when one of its files is damaged."""
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
        checks=tuple(_row(CheckRow, line) for line in files.rows("checks.csv")),
        results=tuple(result_of(row) for row in results.get("rows", ())),
        sentences=tuple(results.get("sentences", ())),
        splits=_splits(split),
        split_note=_split_note(split, environment.get("event", "failure")),
        rule_texts=results.get("rules", {}),
        target=_known(results["target"])
        if "target" in results
        else job.get("evaluation", {}).get("target_f1", math.nan),
        title=job.get("title") or job.get("name") or "Training run",
        theory=files.read_json(THEORY) if THEORY in files.log.states() else {},
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
            _known(value["mean"]),
            _known(value["spread"]),
            tuple(_known(item) for item in value["values"]),
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
            figure: {name: _known(value["mean"]) for name, value in parts.items()}
            for figure, parts in row.get("sites", {}).items()
        },
        figures=figures,
    )


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _splits(document: Json) -> tuple[tuple[str, dict[str, dict[str, float]]], ...]:
    """The first seed of every setting; which site is damaged changes no row's place."""
    chosen: dict[str, tuple[str, dict[str, dict[str, float]]]] = {}
    for split in document.get("splits", ()):
        setting = ", ".join(
            f"{name.rpartition('.')[2]} {value}" for name, value in split["setting"].items()
        )
        chosen.setdefault(setting, (setting, split["sites"]))
    return tuple(chosen.values())


def _split_note(document: Json, event: str) -> str:
    """How the rows were dealt out, and which stay with the server, in words."""
    held = {name: document[name] for name in ("test", "server") if name in document}
    parts = [document.get("note", "")]
    words = {"test": "kept aside for the test", "server": "held by the server"}
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
        for part in (*parts, "Shown is the split of the first seed" if several else "")
        if part
    )


Row = TypeVar("Row", RoundRow, ClientRow, SiteRow, RuleRow, ForecastRow, SetRow, CauseRow, CheckRow)


def _row(kind: type[Row], line: Mapping[str, str]) -> Row:
    """A line as a record: numbers read as such, empty cells as not measured, columns the report does not use left out."""
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
