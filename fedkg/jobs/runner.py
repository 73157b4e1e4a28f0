"""A run from job to report: everything is checked first, then the arms are trained one after the other, each round on disk as it ends."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fedkg.constraints import ConstraintModule
from fedkg.errors import JobError, MissingExtra, Stopped, UsageError
from fedkg.federated import Choice, Scorer
from fedkg.federated.train import intra_op_threads
from fedkg.jobs.arms import Arm, algorithm_of, arms_of
from fedkg.jobs.checkpoint import load_state, save_state
from fedkg.jobs.difference import differences
from fedkg.jobs.events import Event, Listener, ignore
from fedkg.jobs.folder import ARMS, ENVIRONMENT, JOB, LOCK, NOTES, PACK, REPORT, RESULTS, SPLIT, RunFolder, next_folder
from fedkg.jobs.judge import data_checks, module_of, rule_table, scorer_of
from fedkg.jobs.prepare import Prepared, Scenario, coded, load_rules, prepare, scenario
from fedkg.jobs.probe import probe_rows
from fedkg.jobs.reading import absolute, job_of, parse_yaml, read_job
from fedkg.jobs.schema import Job
from fedkg.jobs.sources import sha256_of
from fedkg.jobs.summary import Result, comparison, sentences
from fedkg.jobs.training import Held, client_rows, deployed_of, held_of, judged, model_of, problem_of, round_row, rounds_of
from fedkg.models import Model, Params
from fedkg.pack import pack_bytes, read_pack

RUNS = Path("runs")
"""Where run folders go when nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        folder: its files. results: the comparison, one row per setting and algorithm. sentences: the same in words.
        report: the HTML report, None when it could not be written (`notes` say why).
    """

    folder: Path
    results: list[Result]
    sentences: tuple[str, ...]
    report: Path | None
    notes: tuple[str, ...] = ()


def run_job(
    job: Job | Mapping[str, Any] | str | Path, *, out: str | Path | None = None, overrides: Sequence[str] = (), on_event: Listener = ignore
) -> Run:
    """Train everything a job asks for.

    Args:
        job: a job file, a job, or its fields. out: the run folder; by default the next free ``runs/NAME-001``. A folder in which the same
            job was begun is gone on with.
        overrides: ``field=value`` texts, applied to a job file.
        on_event: called as things happen.

    Raises:
        UsageError, JobError, TableError, PackError: before anything is trained, naming the file, field or column that is wrong.
        Stopped: on Ctrl-C; says how to go on.
        TooFewClients: when a round has fewer usable sites than it needs.
    """
    settled = _job(job, overrides)
    folder = RunFolder(Path(out) if out is not None else next_folder(settled.name, RUNS))
    if folder.exists():
        _refuse_changed(folder, settled, f"{folder.path} holds the run of another job")
        return resume(folder.path, on_event=on_event)
    arms = arms_of(settled)
    pack, warned = load_rules(settled)
    prepared = prepare(settled, pack)
    scenarios = {arm.scenario: scenario(prepared, arm) for arm in arms}
    folder.create()
    with folder.locked():
        _begin(folder, settled, prepared, arms, scenarios)
        return _Runner(folder, arms, prepared, scenarios, on_event, (*warned, *prepared.notes)).run()


def resume(folder: str | Path, *, on_event: Listener = ignore) -> Run:
    """Go on with a run that was stopped or killed, to the bit: the result is that of a run which was never stopped.

    Raises:
        UsageError: when the folder is not a run's, or another process works in it.
        JobError: when the job, the pack or a data file is no longer what the run was begun with (the difference is shown), or a file of
            the run is damaged.
    """
    place = RunFolder(Path(folder))
    if not place.exists():
        if (place.path / LOCK).exists():
            raise UsageError(f"the run in {folder} ended before its first training", help=f"begin again: fedkg run JOB.yaml --out {folder}")
        raise UsageError(f"{folder} is not a run folder", expected=f"a folder with {ENVIRONMENT} in it, as `fedkg run` makes them")
    with place.locked():
        environment = place.environment()
        begun = job_of(environment["job"], name=f"{place.path / ENVIRONMENT}", base=place.path)
        text = _read(place.path / JOB)
        now = job_of(parse_yaml(text, str(place.path / JOB)), name=str(place.path / JOB), base=place.path)
        _refuse_changed(place, now, f"{place.path / JOB} was changed after the run was begun")
        for entry in environment["sources"]:
            _same_file(entry["path"], entry["sha256"])
        body = _read_bytes(place.path / PACK)
        if hashlib.sha256(body).hexdigest() != environment["pack_sha256"]:
            raise JobError(f"{place.path / PACK} is not the pack the run was begun with")
        arms = arms_of(begun)
        prepared = prepare(begun, read_pack(body, name=str(place.path / PACK)))
        scenarios = {arm.scenario: scenario(prepared, arm) for arm in arms}
        return _Runner(place, arms, prepared, scenarios, on_event, prepared.notes).run()


class _Runner:
    """The arms of one run, trained in order."""

    def __init__(
        self,
        folder: RunFolder,
        arms: Sequence[Arm],
        prepared: Prepared,
        scenarios: Mapping[str, Scenario],
        on_event: Listener,
        notes: Sequence[str],
    ) -> None:
        self.folder, self.arms, self.prepared, self.scenarios = folder, arms, prepared, scenarios
        self.tell, self.notes = on_event, tuple(notes)
        self._shared: dict[bool, tuple[Prepared, Held, ConstraintModule]] = {}
        self._scorers: dict[str, Scorer] = {}
        self._told: set[str] = set()

    def run(self) -> Run:
        """Every arm that is not done yet, then the comparison and the report."""
        try:
            self._announce()
            records = self.folder.records([arm.id for arm in self.arms])
            for number, arm in enumerate(self.arms, start=1):
                if not records[arm.id]["done"]:
                    with intra_op_threads(arm.job.training.threads or 1):
                        self._arm(arm, number)
                    records[arm.id] |= {"done": True, "rounds": arm.job.training.rounds}
                    self.folder.write_json(ARMS, list(records.values()))
            return self._finish()
        except KeyboardInterrupt as error:
            raise Stopped(f"stopped; what is done is in {self.folder.path}", help=f"fedkg run --resume {self.folder.path}") from error

    def _announce(self) -> None:
        sites = len(self.prepared.job.sites)
        pack = self.prepared.pack
        counts = (len(self.arms), "training"), (sites, "site"), (pack.rows, "bound row"), (len(pack.manifest.rules), "rule")
        trainings, over, rows, rules = (f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in counts)
        message = f"{trainings} over {over}, {rows} of {rules}"
        self.tell(Event(kind="prepared", message=message, arms=len(self.arms)))
        for note in self.notes:
            self.tell(Event(kind="note", message=note))

    def _arm(self, arm: Arm, number: int) -> None:
        rounds = arm.job.training.rounds
        saved = load_state(self.folder, arm.id)
        done = 0 if saved is None else saved.round
        self._cut_back(arm, done)
        self.tell(Event(kind="arm", arm=arm.id, arm_number=number, arms=len(self.arms), round=done, rounds=rounds))
        prepared, held, module = self._of(arm)
        model = model_of(arm.job, prepared, module)
        scorer = self._scorer(arm, model)
        problem = problem_of(arm, prepared, self.scenarios[arm.scenario], module, model, scorer)
        figures: dict[str, float] = {}
        deployed, state = deployed_of(arm, problem, module), saved
        for state, record in rounds_of(arm, problem, module, saved, self._choice(arm)):
            last = record.round == rounds
            due = last or record.round % arm.job.evaluation.every == 0
            figures = judged(arm.job, model, deployed.models(state), held) if due else {}
            line = round_row(arm, record, figures, _size(state.params))
            self.folder.append("clients.csv", client_rows(arm, record))
            self.folder.append("rounds.csv", [line])
            if last or record.round % arm.job.training.checkpoint_every == 0:
                save_state(self.folder, arm.id, state)
            values = {key: value for key, value in line.items() if isinstance(value, int | float) or key == "zone"}
            self._tell_notes([*line["notes"].split(NOTES), *(f"{site} is left out: {why}" for site, why in record.excluded.items())])
            self.tell(
                Event(kind="round", arm=arm.id, arm_number=number, arms=len(self.arms), round=record.round, rounds=rounds, values=values)
            )
        assert state is not None
        self.folder.append("rules.csv", rule_table(prepared, module, model, deployed.models(state), arm.id))
        message = f"{arm.id}: F1 {figures['f1']:.3f}" if figures else f"{arm.id}: done"
        self.tell(Event(kind="arm_done", message=message, arm=arm.id, arm_number=number, arms=len(self.arms), round=rounds, rounds=rounds))

    def _tell_notes(self, notes: Sequence[str]) -> None:
        """Tell people what rounds have to say, each sentence once in a run."""
        for note in notes:
            if note and note not in self._told:
                self._told.add(note)
                self.tell(Event(kind="note", message=note))

    def _choice(self, arm: Arm) -> Choice | None:
        """The executor that the first arm of the run with this executor setting was trained by, once it is known."""
        for other in self.arms:
            if other.job.training.executor == arm.job.training.executor and (state := load_state(self.folder, other.id)) is not None:
                return state.choice
        return None

    def _cut_back(self, arm: Arm, done: int) -> None:
        """Remove what stands in the growing files beyond the last checkpoint of an arm."""
        for name in ("rounds.csv", "clients.csv"):
            rows = self.folder.rows(name)
            kept = [row for row in rows if row["arm"] != arm.id or int(row["round"]) <= done]
            self.folder.rewrite(name, kept)
        self.folder.rewrite("rules.csv", [row for row in self.folder.rows("rules.csv") if row["arm"] != arm.id])

    def _of(self, arm: Arm) -> tuple[Prepared, Held, ConstraintModule]:
        """What an arm reads: rows, rows held out, rules over them; with projected answers the rows tell the rules' categories, too."""
        projection = arm.job.training.projection
        if projection not in self._shared:
            prepared = coded(self.prepared) if projection else self.prepared
            self._shared[projection] = prepared, held_of(prepared), module_of(prepared)
        return self._shared[projection]

    def _scorer(self, arm: Arm, model: Model) -> Scorer:
        scoring = arm.job.scoring
        prepared, _, module = self._of(arm)
        key = (
            f"{scoring.probe}|{scoring.probe_rows}|{scoring.rows_per_rule}|{arm.job.training.projection}|{arm.job.model.model_dump_json()}"
        )
        if key not in self._scorers:
            probe = probe_rows(self.prepared.pack, self.prepared.server, scoring, arm.job.data.seed)
            self._scorers[key] = scorer_of(prepared, module, model, probe)
        return self._scorers[key]

    def _finish(self) -> Run:
        target = self.prepared.job.evaluation.target_f1
        rounds = self.folder.rows("rounds.csv")
        _refuse_gaps(self.folder, self.arms, rounds)
        results = comparison(self.arms, rounds, self.folder.rows("clients.csv"), target)
        said = sentences(results, target)
        rules = {record.name: record.text for record in self.prepared.pack.manifest.rules}
        content = {"title": self.prepared.job.title, "target_f1": target, "sentences": said, "rows": results, "rules": rules}
        self.folder.write_json(RESULTS, content)
        report, notes = self._report()
        self.tell(Event(kind="finished", message=str(report or self.folder.path), arms=len(self.arms)))
        return Run(folder=self.folder.path, results=results, sentences=tuple(said), report=report, notes=(*self.notes, *notes))

    def _report(self) -> tuple[Path | None, tuple[str, ...]]:
        try:
            from fedkg.report import write_report

            return write_report(self.folder.path), ()
        except MissingExtra as error:
            self.tell(Event(kind="note", message=f"no {REPORT}: {error}"))
            return None, (str(error),)


def _begin(folder: RunFolder, job: Job, prepared: Prepared, arms: Sequence[Arm], scenarios: Mapping[str, Scenario]) -> None:
    """The files a run begins with; `environment.json` comes last, because it makes the folder a run's."""
    import yaml

    body = pack_bytes(prepared.pack)
    folder.write_bytes(PACK, body)
    folder.write_json(SPLIT, split_document(prepared, arms, scenarios))
    folder.write_json(ARMS, [_arm_entry(arm) for arm in arms])
    for name in ("rounds.csv", "clients.csv", "rules.csv"):
        folder.rewrite(name, [])
    first = scenarios[arms[0].scenario]
    folder.rewrite("checks.csv", data_checks(prepared, [*first.frames.values(), prepared.test, prepared.server]))
    document = job.model_dump(mode="json")
    folder.write_text(JOB, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    folder.write_json(
        ENVIRONMENT,
        {
            "fedkg": metadata.version("fedkg"),
            "python": platform.python_version(),
            "libraries": {name: metadata.version(name) for name in ("torch", "numpy", "pydantic", "safetensors")},
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "job_sha256": hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest(),
            "job": document,
            "pack_sha256": hashlib.sha256(body).hexdigest(),
            "sources": [{"path": path, "sha256": digest} for path, digest in prepared.tables.files],
            "features": {
                "names": list(prepared.scaling.names),
                "mean": prepared.scaling.mean.tolist(),
                "std": prepared.scaling.std.tolist(),
            },
        },
    )


def split_document(prepared: Prepared, arms: Sequence[Arm], scenarios: Mapping[str, Scenario]) -> dict[str, Any]:
    """`split.json`: rows and true failures of every site in every way the data is split. `Any`: JSON."""
    splits = []
    label = prepared.job.data.label
    seen: set[str] = set()
    for arm in arms:
        if arm.scenario in seen:
            continue
        seen.add(arm.scenario)
        rows = scenarios[arm.scenario]
        words = [f"{field.rpartition('.')[2]} {value}" for field, value in arm.setting] + [f"seed {arm.seed}"]
        if arm.corrupt is not None:
            words.append(f"{arm.corrupt.kind.replace('_', ' ')} at {arm.corrupt.site}")
        splits.append(
            {
                "title": ", ".join(words),
                "setting": dict(arm.setting),
                "seed": arm.seed,
                "corrupted": "" if arm.corrupt is None else arm.corrupt.site,
                "draws": rows.draws,
                "sites": {site: {"rows": own.rows, "positives": int(own.numbers(label).sum())} for site, own in rows.frames.items()},
            }
        )
    held = {
        name: {"rows": frame.rows, "positives": int(frame.numbers(label).sum())}
        for name, frame in (("test", prepared.test), ("server", prepared.server))
    }
    drawn = prepared.tables.whole is not None and prepared.job.data.split == "dirichlet"
    note = (
        "For each class the share of every site is drawn from a Dirichlet distribution, so that sites differ in size and in failures; "
        f"a draw that left a site with fewer than {prepared.job.data.min_samples} rows was drawn again."
        if drawn
        else ""
    )
    return {"note": note, "splits": splits, **held}


def _arm_entry(arm: Arm) -> dict[str, Any]:
    return {
        "id": arm.id,
        "algorithm": arm.algorithm,
        "preset": arm.preset,
        "title": algorithm_of(arm.job).title or arm.algorithm,
        "seed": arm.seed,
        "setting": dict(arm.setting),
        "corrupted": "" if arm.corrupt is None else arm.corrupt.site,
        "corruption": "" if arm.corrupt is None else arm.corrupt.kind,
        "done": False,
        "rounds": 0,
    }


def _job(job: Job | Mapping[str, Any] | str | Path, overrides: Sequence[str]) -> Job:
    if isinstance(job, Job):
        if overrides:
            raise UsageError("overrides apply to a job file or its fields, not to a Job", help="job.model_copy(update={...})")
        return absolute(job, Path.cwd())
    if isinstance(job, Mapping):
        return job_of(dict(job), name="the job", base=Path.cwd(), overrides=overrides)
    return read_job(job, overrides)


def _refuse_changed(folder: RunFolder, job: Job, message: str) -> None:
    begun = folder.environment()["job"]
    changed = differences(begun, job.model_dump(mode="json"))
    if changed:
        raise JobError(
            f"{message}: a run keeps its job\n  " + "\n  ".join(changed), help="undo the change, or start a new run with another --out"
        )


def _refuse_gaps(folder: RunFolder, arms: Sequence[Arm], rounds: Sequence[Mapping[str, str]]) -> None:
    """A comparison over rounds that are not all there would be wrong without a sign of it."""
    there = {(row["arm"], int(row["round"])) for row in rounds}
    for arm in arms:
        gap = next((number for number in range(1, arm.job.training.rounds + 1) if (arm.id, number) not in there), None)
        if gap is not None:
            raise JobError(f"{folder.path / 'rounds.csv'} is damaged: round {gap} of {arm.id} is not in it", help="begin the run again")


def _same_file(path: str, digest: str) -> None:
    if not Path(path).is_file():
        raise JobError(f"the data file {path} of the run is gone")
    if sha256_of(path) != digest:
        raise JobError(
            f"the data file {path} is not the one the run was begun with", help="put it back, or start a new run with another --out"
        )


def _read(path: Path) -> str:
    return _read_bytes(path).decode("utf-8", errors="replace")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise JobError(f"{path} is missing: the run cannot go on", received=error.strerror or str(error)) from error


def _size(params: Params) -> int:
    return sum(tensor.numel() for tensor in params.values())
