"""Studies of papers: runs that resume, published values beside ours, and verdicts.

A study is a table, a figure or a theorem of a paper. It runs jobs of `fedkg/papers/jobs` as sweeps
(`Bench.sweep`) or computes figures in Python (`Bench.compute`). Both continue where they stopped.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from fedkg._internal.atomic_file import replace_file
from fedkg._internal.yaml_documents import parse_yaml
from fedkg.errors import FedkgError, UsageError
from fedkg.jobs.comparison.paired_test import mean_interval
from fedkg.jobs.events import Event, Listener, ignore_event
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.sweep.grid import parse_axis
from fedkg.jobs.sweep.parallel_runs import Task, run_in_parallel
from fedkg.jobs.sweep.stored_plan import CELLS, read_plan
from fedkg.jobs.sweep.sweep import Sweep, run_sweep

JOBS = Path(__file__).parent / "jobs"
"""The job files and their rules: literal, part of the package."""

T = TypeVar("T")

Size = Literal["smoke", "reduced", "full"]
"""`smoke` shows that a study runs; its figures mean nothing. `full` has the paper's sizes."""

SEEDS: Mapping[Size, int] = {"smoke": 1, "reduced": 3, "full": 5}
"""Seeds of a study; five in the SCFA paper."""

SIZE_TOLERANCE = 0.25
"""Relative difference up to which a size counts as the published one."""

RESULTS = "results"
VERSION = "version"

DATA_PATHS = {
    "ai4i": ("ai4i2020.csv.gz", "ai4i2020.csv"),
    "secom": ("secom_*.csv*", "secom.data"),
    "cmapss": ("train_FD001.txt*",),
    "bosch": ("train_numeric.csv*",),
    "mnist": ("train-images-idx3-ubyte*",),
    "fashion-mnist": ("train-images-idx3-ubyte*",),
    "cifar-10": ("cifar10_train_jpeg.npz", "data_batch_1*"),
    "covtype": ("covtype*.csv*", "covtype.data*"),
    "traffic": ("volume_hourly_*.csv*",),
    "fhwa": ("*.VOL", "*.vol"),
    "skab": ("anomaly-free/*.csv*",),
    "hai": ("train[0-9]*.csv*", "hai-train*.csv*"),
    "swat": ("*Normal*.csv*",),
    "sumo": ("city.toml", "segments*.csv*"),
}
"""A file by which the folder of each data set is recognised."""

TABLE_FILES = frozenset({"ai4i", "secom", "covtype", "sumo"})
"""Data sets that fedkg reads from one file instead of a folder."""

FOLDER_MARKS = ("secom.data", "city.toml")
"""Files of these data sets that stand for their folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a paper claims, as a number that is positive if the claim holds.

    Attributes:
        support: this number for each seed, such as a difference or a saved share.
        published: the number that follows from the paper; None if it has only the sign.
        each_seed: whether the paper claims it of every training, such as a proved bound, instead
            of the mean over trainings.
        interval: the 95 % interval of a number that is estimated once from all seeds; None to
            compute it from the seeds.
    """

    support: tuple[float, ...]
    published: float | None = None
    each_seed: bool = False
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a study.

    Attributes:
        label: what is measured.
        published: the paper's value, as it is printed; `–` without one.
        ours: our value for each seed; empty if there is none.
        claim: what decides the verdict; None for a line of context.
        impossible: why the value cannot be reproduced.
        note: a remark.
        form: the format of a number.
    """

    label: str
    published: str = "–"
    ours: tuple[float, ...] = ()
    claim: Claim | None = None
    impossible: str = ""
    note: str = ""
    form: str = ".3g"


def verdict(row: Row) -> str:
    """The verdict on one row, by one rule for all studies.

    - `reproduced`: the claim holds with 95 % confidence over the seeds, and its size is the
      published one: inside our interval, or within 25 % of our mean. A claim without a published
      size needs only the first.
    - `partly`: it holds, with another size.
    - `not`: the interval contains 0 or is on the other side.
    - A claim about each seed is `reproduced` if no seed contradicts it, otherwise `not`.
    - `cannot be reproduced because ...`: data or details are missing.
    - empty: a line of context, or one seed.
    """
    if row.impossible:
        return f"cannot be reproduced because {row.impossible}"
    if row.claim is None:
        return ""
    known = [value for value in row.claim.support if math.isfinite(value)]
    interval = row.claim.interval or mean_interval(known)
    if not known or interval is None:
        return "one seed: no verdict" if known else "not: it was never reached"
    if row.claim.each_seed:
        seeds = len(row.claim.support)
        failed = sum(not value > 0 for value in row.claim.support)
        return f"not: it fails for {failed} of {seeds} seeds" if failed else "reproduced"
    low, high = interval
    if high < 0:
        return "not: the opposite"
    if low <= 0:
        return "not: no difference beyond the seeds"
    published, mean = row.claim.published, statistics.fmean(known)
    if (
        published is None
        or low <= published <= high
        or abs(published - mean) <= SIZE_TOLERANCE * mean
    ):
        return "reproduced"
    return "partly: it holds with another size"


@dataclass(slots=True, kw_only=True, eq=False)
class Bench:
    """Where a study runs.

    Attributes:
        folder: the folder of the paper and size; studies share its runs.
        size: how much is computed.
        data: a folder with the real data sets; None for generated data.
        jobs: number of parallel runs.
        on_event: receives the events of runs.
        say: receives sentences about the progress.
        settings: sentences about what was run, for the result.
    """

    folder: Path
    size: Size
    data: Path | None = None
    jobs: int = 1
    on_event: Listener = ignore_event
    say: Callable[[str], None] = print
    settings: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return SEEDS[self.size]

    def pick(self, smoke: T, reduced: T, full: T) -> T:
        """The value for the size of this run."""
        return {"smoke": smoke, "reduced": reduced, "full": full}[self.size]

    def path_of(self, name: str) -> Path | None:
        """The real data of a set below the data folder; None for its generator."""
        return None if self.data is None else find_data(self.data, name)

    def sweep(
        self,
        job: str,
        *axes: str,
        key: str = "",
        changes: Sequence[str] = (),
        seeds: int | None = None,
    ) -> SweepResults:
        """Run a job of `fedkg/papers/jobs` for each combination and seed, or continue it.

        Args:
            job: the name of the job file without its ending.
            axes: `field=value,value`, as for `fedkg run --grid`.
            key: the name of the sweep in the folder; empty: that of the job.
            changes: `field=value`, as for `fedkg run --set`.
            seeds: the number of seeds; None for that of the size.

        Raises:
            UsageError: the folder has a sweep with other settings.
            Stopped: on Ctrl-C; the same call continues.
        """
        file = JOBS / f"{job}.yaml"
        document = parse_yaml(file.read_text(encoding="utf-8"), str(file))
        name = document["data"].get("set", "ai4i")
        name = next((one.partition("=")[2] for one in changes if one.startswith("data.set=")), name)
        real = self.path_of(name)
        whole = [*changes, *([] if real is None else [f"data.path={real}"])]
        self._note(name, real, f"{job}.yaml", *axes, *changes)
        done = run_sweep(
            file,
            [parse_axis(axis) for axis in axes],
            range(self.seeds if seeds is None else seeds),
            out=self.folder / "runs" / (key or job),
            overrides=whole,
            on_event=self.on_event,
            jobs=self.jobs,
        )
        if done.failed:
            failed = next(iter(done.failed.items()))
            raise UsageError(f"run {failed[0]} of {done.folder} failed: {failed[1]}")
        return SweepResults(done)

    def compute(
        self, group: str, work: Mapping[str, Callable[[], Any]], *, parallel: bool = False
    ) -> dict[str, Any]:
        """Results of functions by name, as JSON; those of an earlier, stopped run are read.

        Args:
            group: the name of the folder for them.
            work: functions without arguments that return JSON.
            parallel: whether `jobs` of them run at the same time, which functions that measure
                times must not; they are then functions of a module, or partial.

        Raises:
            UsageError: a function failed in its own process.
        """
        place, begun = self.folder / "computed" / group, time.monotonic()
        files = {name: place / f"{slug(name)}.json" for name in work}
        left = [name for name in work if not files[name].is_file()]
        done = 0

        def tell(number: int, event: Event) -> None:
            if event.kind != "prepared":
                return
            rest = (time.monotonic() - begun) / done * (len(left) - done) if done else math.nan
            about = "" if math.isnan(rest) else f", about {format_seconds(rest)} left"
            self.say(
                f"  {len(work) - len(left) + number + 1} of {len(work)}: {left[number]}{about}"
            )

        if left:
            place.mkdir(parents=True, exist_ok=True)
        if parallel and self.jobs > 1:
            tasks = {
                number: Task(function=_compute_in_child, arguments=(files[name], work[name]))
                for number, name in enumerate(left)
            }
            with closing(run_in_parallel(tasks, self.jobs, tell)) as over:
                for number, why in over:
                    if why:
                        raise UsageError(f"{left[number]} failed: {why}")
                    done += 1
        else:
            for number, name in enumerate(left):
                tell(number, Event(kind="prepared"))
                _compute_to_file(files[name], work[name])
                done += 1
        return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}

    def _note(self, name: str, real: Path | None, *words: str) -> None:
        source = f"generated {name} data" if real is None else f"{name}: {real.name}"
        said = f"{source}; {' '.join(words)}"
        if said not in self.settings:
            self.settings.append(said)


def _compute_to_file(file: Path, function: Callable[[], Any]) -> None:
    replace_file(file, json.dumps(function(), allow_nan=True).encode())


def _compute_in_child(tell: Listener, file: Path, function: Callable[[], Any]) -> str:
    """Compute a result in its own process; return the reason of failure or ``""``."""
    del tell
    try:
        _compute_to_file(file, function)
    except FedkgError as error:
        return str(error)
    except (RuntimeError, ValueError, ArithmeticError, MemoryError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


class SweepResults:
    """The results of a sweep: figures of each combination, seed by seed."""

    def __init__(self, sweep: Sweep) -> None:
        self.folder, self.rows = sweep.folder, sweep.results

    def row(self, algorithm: str | None = None, **setting: object) -> dict[str, Any]:
        """The row of an algorithm with a setting; `_` in names of fields stands for a dot.

        Raises KeyError if there is none. `Any`: figures by name, see `results.json`.
        """
        wanted = {name.replace("__", "."): str(value) for name, value in setting.items()}
        for row in self.rows:
            has = {name: str(value) for name, value in row["setting"].items()}
            if algorithm in (None, row["algorithm"]) and wanted.items() <= has.items():
                return row
        raise KeyError(f"{algorithm} {wanted} is not in {self.folder}")

    def figure(self, name: str, algorithm: str | None = None, **setting: object) -> list[float]:
        """A figure for each seed; NaN where it was not measured."""
        values = self.row(algorithm, **setting)[name]["values"]
        return [math.nan if value is None else float(value) for value in values]

    def theory(self) -> list[dict[str, Any]]:
        """The entries of `theory.json` of all runs. `Any`: JSON."""
        return [
            entry | {"setting": dict(entry["setting"]) | dict(cell.setting)}
            for cell in read_plan(self.folder)
            for entry in RunFolder(self.folder / CELLS / cell.id).read_json("theory.json")["trials"]
        ]

    def table(self, name: str) -> list[dict[str, str]]:
        """The lines of a CSV file of all runs, with the setting of their run."""
        return [
            line | dict(cell.setting)
            for cell in read_plan(self.folder)
            for line in RunFolder(self.folder / CELLS / cell.id).rows(name)
        ]


Run = Callable[[Bench], Iterable[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A table, a figure, a theorem or a control of a paper.

    Attributes:
        name: such as `table 3`.
        title: what it shows.
        minutes: how long the reduced study takes on two quiet cores.
        run: the study.
    """

    name: str
    title: str
    minutes: float
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper with its studies."""

    name: str
    title: str
    studies: tuple[Study, ...]

    def study(self, name: str) -> Study:
        """The study with a name. Raises UsageError with the names that exist."""
        for study in self.studies:
            if slug(study.name) == slug(name):
                return study
        raise UsageError(
            f"{self.name} has no study `{name}`",
            expected=", ".join(study.name for study in self.studies),
        )


def run_study(paper: Paper, study: Study, bench: Bench) -> dict[str, Any]:
    """The result of a study, which is read if it is complete. `Any`: JSON.

    The result file is written last and at once. Without it the study continues.
    """
    file = bench.folder / RESULTS / f"{slug(study.name)}.json"
    source = "generated" if bench.data is None else str(bench.data.resolve())
    wanted = {"paper": paper.name, "study": study.name, "size": bench.size, "data": source}
    wanted["version"] = version_of(paper.name, study)
    help_ = (
        f"choose another folder with --out, or delete {bench.folder} with the results of all"
        " studies of this size"
    )
    if file.is_file():
        result = json.loads(file.read_text(encoding="utf-8"))
        if wanted.items() <= result.items():
            return dict(result)
        raise UsageError(
            f"{file} is a result of other data or of another version of the study", help=help_
        )
    # Studies of one module share runs, and those of one paper a folder.
    stamp = bench.folder / f"{VERSION}-{_module_of(study).stem}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") != wanted["version"]:
        raise UsageError(f"{bench.folder} has parts of another version of the study", help=help_)
    bench.folder.mkdir(parents=True, exist_ok=True)
    replace_file(stamp, wanted["version"].encode())
    begun = time.monotonic()
    rows = [
        describe_row(row) | ({"verdict": "smoke run: no verdict"} if bench.size == "smoke" else {})
        for row in study.run(bench)
    ]
    result = {
        **wanted,
        "title": study.title,
        "seeds": bench.seeds,
        "settings": bench.settings,
        "seconds": round(time.monotonic() - begun, 1),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "rows": rows,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps(_finite(result), indent=1, ensure_ascii=False).encode())
    return dict(_finite(result))


def describe_row(row: Row) -> dict[str, Any]:
    """A row of a result: its fields, its verdict, and the mean of our values. `Any`: JSON."""
    return asdict(row) | {"verdict": verdict(row)} | _summary(row.ours)


def version_of(paper: str, study: Study) -> str:
    """A short SHA-256 of a paper's job files, of their rules and of the module of its studies."""
    digest = hashlib.sha256()
    for file in (*sorted(JOBS.glob(f"{paper}_*")), _module_of(study)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _module_of(study: Study) -> Path:
    return Path(inspect.getfile(study.run))


def find_data(root: Path, name: str) -> Path | None:
    """The file or folder of a data set in a folder or one of its subfolders; None without one.

    A folder named like the set comes first, so that MNIST and Fashion-MNIST are distinguished.
    """
    if not root.is_dir():
        raise UsageError(f"--data {root} is not a folder", expected="a folder with data sets")
    folders = [root, *sorted(child for child in root.iterdir() if child.is_dir())]
    folders.sort(key=lambda folder: not folder.name.startswith(name))
    for folder in folders:
        if folder.name in DATA_PATHS and folder.name != name:
            continue
        for pattern in DATA_PATHS.get(name, ()):
            for file in sorted(folder.glob(pattern)):
                alone = name in TABLE_FILES and not file.name.startswith(FOLDER_MARKS)
                return file if alone else folder
    return None


def slug(name: str) -> str:
    """A name as a part of a path: `table 3` is `table-3`."""
    return re.sub(r"[^A-Za-z0-9_.=]+", "-", name).strip("-").lower()


def format_seconds(seconds: float) -> str:
    """Seconds below two minutes, then minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def format_ours(row: Mapping[str, Any]) -> str:
    """Our mean with its 95 % interval. `Any`: a row of a result."""
    if row["mean"] is None:
        return "never" if row["ours"] else "–"
    form = row["form"]
    low, high = row["low"], row["high"]
    ends = "" if low is None else f" [{low:{form}}, {high:{form}}]"
    return f"{row['mean']:{form}}{ends}"


def _summary(values: Sequence[float]) -> dict[str, float | None]:
    known = [value for value in values if math.isfinite(value)]
    low, high = mean_interval(known) or (None, None)
    return {"mean": statistics.fmean(known) if known else None, "low": low, "high": high}


def _finite(value: Any) -> Any:
    """The same JSON with null for NaN and infinite numbers. `Any`: JSON."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
