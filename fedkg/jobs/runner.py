"""Run a job from its file to its report: check everything, then train the trials in order.

Each round is on disk when it ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedkg._internal.notebook_html import notebook_html
from fedkg._internal.threads import library_threads
from fedkg.deploy.disclosures import disclosure_rows
from fedkg.errors import JobError, MissingExtra, Stopped, UsageError
from fedkg.federated import Choice, ServerState, initial_state
from fedkg.federated.algorithm_contradictions import check
from fedkg.federated.executors import Ranks, WorkerPool
from fedkg.federated.privacy.budget import affordable
from fedkg.jobs import unevaluated_rules
from fedkg.jobs.checkpoint import load_state, rows_folder, save_state
from fedkg.jobs.code_trust import require_trust
from fedkg.jobs.comparison.injection import describe_injection
from fedkg.jobs.comparison.privacy_noise_diagnosis import explain_lost_training, protected_trials
from fedkg.jobs.comparison.privacy_spending import describe_privacy
from fedkg.jobs.comparison.site_spread import describe_local_training
from fedkg.jobs.comparison.summary import Result, compare_trials, describe_comparison
from fedkg.jobs.endpoint_fetch_log import record_endpoints
from fedkg.jobs.events import Event, EventLog, Listener, ignore_event
from fedkg.jobs.executor_description import format_executor_note
from fedkg.jobs.experiment.experiment import Experiment, create_experiment
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.file_damage import FROM_CHECKPOINTS, FROM_TABLES, require_intact, require_run
from fedkg.jobs.folder import (
    FINAL_TABLES,
    LOCK,
    NOTE_SEPARATOR,
    PREDICTION_INCIDENTS,
    REPORT,
    RESULTS,
    THEORY,
    TRIALS,
    Row,
    RunFolder,
    next_free_folder,
    table_text,
)
from fedkg.jobs.folder_repair import Recovery, recover
from fedkg.jobs.forecast_satisfaction_text import describe_forecasts
from fedkg.jobs.job_privacy import has_system_noise, privacy_rows
from fedkg.jobs.rank_protocol import broadcast_job, broadcast_trial
from fedkg.jobs.round_exclusion_table import EXCLUSIONS, ExclusionTable
from fedkg.jobs.round_verdict_counts import VerdictCounts
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.rules_only_baseline import as_json, describe_rules_alone
from fedkg.jobs.run_initial_files import reject_changed_job, reopen_run, write_initial_files
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import parse_job, read_job, with_absolute_paths
from fedkg.jobs.site_models import DeployedModels
from fedkg.jobs.sweep.stored_plan import is_sweep
from fedkg.jobs.theory import compute_theory
from fedkg.jobs.theory_observer import TheoryObserver
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section, plan_trials
from fedkg.jobs.trial_training import (
    client_rows,
    deployed_models,
    require_devices,
    round_row,
    train_rounds,
)
from fedkg.jobs.unused_settings import find_untrained_algorithms, find_unused_settings
from fedkg.models import Params
from fedkg.pack import Pack

RUNS_FOLDER = Path("runs")
"""Default parent of run folders."""

SITE_FIGURES = ("samples", "validity", "alpha", "share", "status")
"""Columns of `clients.csv` that the event of a round has for each site."""

MANY_SITES = 5_000
"""Federations of this size announce their preparation, which takes noticeable time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        folder: the run folder.
        results: the comparison, one row per setting and algorithm.
        sentences: the comparison in words.
        report: the HTML report; None if it could not be written (`notes` has the reason).
    """

    folder: Path
    results: list[Result]
    sentences: tuple[str, ...]
    report: Path | None
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """The outcome as a notebook shows it."""
        where = f"in {self.folder}" + (f", report: {self.report}" if self.report else "")
        sentences = [(one,) for one in self.sentences]
        return notebook_html("Run", where, ("outcome",), sentences, len(sentences))


class RulesChange(Exception):
    """The rules change before the next round: `resume` continues the run with the new ones."""


def run_job(
    job: Job | Mapping[str, Any] | str | Path,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    on_event: Listener = ignore_event,
    report: bool = True,
    ranks: Ranks | None = None,
    trust_code: bool = False,
) -> Run:
    """Train all trials of a job.

    Args:
        job: a job file, a job, or its fields.
        out: the run folder, by default the next free ``runs/NAME-001``. An existing run of the same
            job continues.
        overrides: ``field=value`` texts, applied to a job file.
        on_event: receives progress events.
        report: whether to write `report.html`.
        ranks: the processes that train together, with this one as rank 0; the others call
            `fedkg.jobs.rank_protocol.follow_rank_zero`.
        trust_code: whether code that the job imports (`model.path`) may run.

    Raises:
        UsageError, JobError, TableError, PackError: before training; the message names the field,
            file
            or column.
        UsageError: also if the job imports untrusted code.
        Stopped: on Ctrl-C; the message says how to continue.
        TooFewClients: a round has fewer usable sites than it needs.
    """
    settled = _resolve_job(job, overrides)
    require_trust((settled,), trust_code)
    folder = RunFolder(
        Path(out) if out is not None else next_free_folder(settled.name, RUNS_FOLDER)
    )
    if is_sweep(folder.path):
        raise UsageError(f"{folder.path} holds a sweep, not a run", help="choose another --out")
    if folder.exists():
        reject_changed_job(folder, settled, f"{folder.path} contains a run of another job")
        return resume(
            folder.path, on_event=on_event, report=report, ranks=ranks, trust_code=trust_code
        )
    if (folder.path / LOCK).exists():
        require_intact(folder)  # do not overwrite the rest of a damaged run
    configs = plan_trials(settled)
    require_devices(configs)
    announce_preparation(settled, on_event)
    section = settled.model.graph
    with record_endpoints(
        (*settled.rules, *(section.files if section is not None else ()))
    ) as fetched:
        pack, warned = load_rules(settled)
        experiment = create_experiment(settled, pack)
        experiment.prepare(configs)
    return start_run(
        folder,
        settled,
        experiment,
        configs,
        on_event=on_event,
        notes=warned,
        fetched=[asdict(one) for one in fetched],
        ranks=ranks,
        report=report,
    )


def start_run(
    folder: RunFolder,
    settled: Job,
    experiment: Experiment,
    configs: Sequence[TrialConfig],
    *,
    on_event: Listener = ignore_event,
    notes: Sequence[str] = (),
    fetched: Sequence[Mapping[str, Any]] = (),
    ranks: Ranks | None = None,
    report: bool = True,
) -> Run:
    """Create a run folder and train all trials of a prepared experiment.

    Args:
        notes: remarks for the user, before those of the experiment.
        fetched: content of SPARQL endpoints. `Any`: JSON.

    Raises:
        JobError, Stopped, TooFewClients: see `run_job`.
    """
    _check_trials(experiment, configs)
    folder.create()
    with folder.locked():
        try:
            write_initial_files(folder, settled, experiment, configs, fetched)
        except KeyboardInterrupt as error:
            again = f"start again: fedkg run JOB.yaml --out {folder.path}"
            raise Stopped(
                f"stopped while creating the run folder {folder.path}, which contains no results",
                help=again,
            ) from error
        return _Runner(
            folder,
            configs,
            experiment,
            on_event,
            (
                *notes,
                *experiment.notes,
                *find_unused_settings(configs),
                *find_untrained_algorithms(settled, configs),
            ),
            ranks,
        ).run(report)


def _check_trials(experiment: Experiment, configs: Sequence[TrialConfig]) -> None:
    """Build every combination of algorithm and model once, so that errors appear before training.

    Raises:
        JobError: an algorithm does not fit a model, or a privacy budget is too small for one round.
    """
    firsts: dict[tuple[str, ...], TrialConfig] = {}
    for config in configs:
        parts = config.job.model, config.job.privacy
        firsts.setdefault(
            (config.algorithm, *("" if part is None else part.model_dump_json() for part in parts)),
            config,
        )
    for config in firsts.values():
        trial = experiment.build_trial(config)
        settings, algorithm = trial.settings, trial.algorithm
        check(algorithm, settings, len(trial.problem.clients.names))
        initial_state(trial.problem, algorithm, settings)
        if algorithm.budget is not None:
            affordable(
                algorithm.budget, algorithm.sampling, settings, len(trial.problem.clients.names)
            )


def announce_preparation(job: Job | Mapping[str, Any], on_event: Listener) -> None:
    """Announce the preparation of a large federation, which takes a second per 2,000 sites or more.

    `Any`: a job as JSON.
    """
    sites = len(job.sites if isinstance(job, Job) else job["sites"])
    if sites >= MANY_SITES:
        message = (
            f"preparing {sites:,} sites: reading the data, splitting it and writing the run folder"
        )
        on_event(Event(kind="note", message=message))


def resume(
    folder: str | Path,
    *,
    on_event: Listener = ignore_event,
    report: bool = True,
    ranks: Ranks | None = None,
    trust_code: bool = False,
    create: Callable[[Job, Pack], Experiment] = create_experiment,
) -> Run:
    """Continue a stopped run; the result is identical to that of an uninterrupted run.

    Args:
        create: creates the experiment of the run.

    Raises:
        UsageError: the folder is not a run folder, another process uses it, or the job imports
            untrusted code.
        JobError: the job, the pack or a data file has changed (the message shows how), or a file of
            the
            run is damaged.
    """
    run_folder = RunFolder(Path(folder))
    require_run(run_folder)
    with run_folder.locked():
        recovery = recover(run_folder)
        announce_preparation(run_folder.environment()["job"], on_event)
        job, experiment, configs = reopen_run(run_folder, trust_code, recovery, create)
        if has_system_noise(job) and job.privacy is not None and job.privacy.mined is not None:
            raise JobError(
                f"the run in {folder} cannot be resumed: its properties would be mined again, with "
                "other noise",
                help="start a new run; its privacy budget is separate",
            )
        for (
            config
        ) in configs:  # also of trainings that are done: rows in files have no entry in the log
            load_state(run_folder, config.id)
        notes = (*experiment.notes, *find_unused_settings(configs))
        return _Runner(
            run_folder, configs, experiment, on_event, notes, ranks, recovery=recovery
        ).run(report)


def repeat_run(
    folder: str | Path, out: Path, *, on_event: Listener = ignore_event, trust_code: bool = False
) -> Run:
    """Train all trials of a run again in another folder.

    Job, pack, files and executors stay the same.

    Raises:
        UsageError: the first folder is not a run folder, the second one holds a run, or the job
            imports
            untrusted code.
        JobError: a file has changed or is damaged.
    """
    first, run_folder = RunFolder(Path(folder)), RunFolder(out)
    require_run(first)
    require_intact(first)
    job, experiment, configs = reopen_run(first, trust_code)
    if run_folder.exists():
        raise UsageError(f"{out} holds a run already", help="choose another --out")
    choices = {
        config.id: state.choice
        for config in configs
        if (state := load_state(first, config.id)) is not None and state.choice is not None
    }
    run_folder.create()
    with run_folder.locked():
        write_initial_files(
            run_folder, job, experiment, configs, first.environment().get("fetched", ())
        )
        return _Runner(
            run_folder, configs, experiment, on_event, experiment.notes, None, choices
        ).run(report=False)


class _Runner:
    """Trains the trials of one run in order."""

    def __init__(
        self,
        folder: RunFolder,
        configs: Sequence[TrialConfig],
        experiment: Experiment,
        on_event: Listener,
        notes: Sequence[str],
        ranks: Ranks | None,
        choices: Mapping[str, Choice] | None = None,
        recovery: Recovery | None = None,
    ) -> None:
        self.folder, self.configs, self.experiment, self.ranks, self.choices = (
            folder,
            configs,
            experiment,
            ranks,
            choices or {},
        )
        self.notes, self._on_event, self._log = tuple(notes), on_event, EventLog(folder.path)
        self.recovery = recovery or Recovery(folder)
        self._shown_notes: set[str] = set()
        self._crew = WorkerPool(configs[0].job.training.workers)
        self._last_trial: Trial | None = None

    def emit(self, event: Event) -> None:
        """Log an event, and pass it to the listener."""
        event = replace(event, folder=self.folder.path)
        try:
            self._log(event)
        finally:
            self._on_event(event)

    def run(self, report: bool) -> Run:
        """Train the remaining trials, then write the comparison and the report."""
        try:
            records = self.folder.records([config.id for config in self.configs])
            self._announce(sum(bool(record["done"]) for record in records.values()))
            report = report or REPORT in self.recovery.damaged
            self._rebuild_tables([config for config in self.configs if records[config.id]["done"]])
            broadcast_job(self.ranks, self.experiment.job, self.experiment)
            with self._crew:
                for number, config in enumerate(self.configs, start=1):
                    if not records[config.id]["done"]:
                        with library_threads(config.job.training.threads or 1):
                            done = self._train_trial(config, number)
                        records[config.id] |= {"done": True, "rounds": done}
                        self.folder.write_json(TRIALS, list(records.values()))
            return self._finish(report)
        except RulesChange:
            raise
        except KeyboardInterrupt as error:
            with suppress(KeyboardInterrupt, OSError):  # Ctrl-C twice, or a full disk
                self.emit(Event(kind="stopped", message="stopped; --resume continues the run"))
            raise Stopped(
                f"stopped; finished rounds are in {self.folder.path}",
                help=f"to continue: fedkg run --resume {self.folder.path}",
            ) from error
        except Exception as error:
            with suppress(OSError):  # the log may be what failed
                self.emit(Event(kind="failed", message=str(error) or type(error).__name__))
            raise

    def _announce(self, before: int) -> None:
        sites, pack = self.experiment.sites(self.configs[0]), self.experiment.pack
        counts = (
            (len(self.configs), "trial"),
            (sites, "site"),
            (pack.rows, "bound row"),
            (len(pack.manifest.rules), "rule"),
        )
        trainings, over, rows, rules = (
            f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in counts
        )
        message = f"{trainings} over {over}, {rows} of {rules}"
        self.emit(Event(kind="prepared", message=message, trials=len(self.configs)))
        if before == len(self.configs):
            self.emit(
                Event(
                    kind="note",
                    message=f"the run in {self.folder.path} is finished: fedkg only rewrites its "
                    "table and report",
                )
            )
        elif before:
            self.emit(Event(kind="note", message=f"{before} of {trainings} are already done"))
        for note in self.notes:
            self.emit(Event(kind="note", message=note))

    def _train_trial(self, config: TrialConfig, number: int) -> int:
        """Train a trial to its end and return its number of rounds.

        A privacy budget may end it early.
        """
        rounds = config.job.training.rounds
        saved = load_state(self.folder, config.id)
        done = 0 if saved is None else saved.round
        self._cut_back(config, done)
        self.emit(
            Event(
                kind="trial",
                trial=config.id,
                trial_number=number,
                trials=len(self.configs),
                round=done,
                rounds=rounds,
            )
        )
        trial = self._last_trial = self.experiment.build_trial(config)
        deployed, state, verdicts = deployed_models(trial), saved, VerdictCounts(trial)
        seen = (
            None
            if config.job.theory is None
            else TheoryObserver(config, trial, config.job.theory, saved)
        )
        figures: dict[str, float] = {}
        kept = rows_folder(self.folder, config.id)
        choice, crew = self._choice(config), self._crew_of(config)
        # a round that is repeated with other noise releases its sums again: at most the last one
        checkpoint_every = (
            1 if has_system_noise(config.job) else config.job.training.checkpoint_every
        )
        broadcast_trial(self.ranks, config)
        exclusions = ExclusionTable(trial=config.id, lost_after=config.job.federation.lost_after)
        exclusions.replay(self.folder.rows("clients.csv"))
        for state, record in train_rounds(
            config, trial, saved, choice, crew=crew, folder=kept, ranks=self.ranks
        ):
            last = record.round == rounds or record.ends
            due = last or record.round % config.job.evaluation.every == 0
            figures = trial.figures(deployed.models(state), state) if due else {}
            line = round_row(config, record, figures, _count_parameters(state.params))
            clients = client_rows(config, record)
            self.folder.append("clients.csv", clients)
            if missing := exclusions.add_round(record):
                self.folder.append(EXCLUSIONS, missing)
            self.folder.append("rounds.csv", [line])
            if seen is not None:
                self.folder.append("theory.csv", seen.observe_round(state, record))
            if trial.remote is not None and state.clients:
                checkpoint_every = 1  # sites keep only the last versions of their private rows
            if last or record.round % checkpoint_every == 0:
                save_state(self.folder, config.id, state)
            values = {
                key: value
                for key, value in line.items()
                if isinstance(value, int | float) or key == "zone"
            }
            said = [
                format_executor_note(note, state.choice, config.job.training.executor)
                for note in line["notes"].split(NOTE_SEPARATOR)
            ]
            self._emit_notes(
                [*said, *(f"{site} is excluded: {why}" for site, why in record.excluded.items())]
            )
            now = Event(
                kind="round",
                trial=config.id,
                trial_number=number,
                trials=len(self.configs),
                round=record.round,
                rounds=rounds,
            )
            for site, why in record.excluded.items():
                self.emit(
                    replace(now, kind="site", site=site, message=why, values={"status": "excluded"})
                )
            by_site, by_rule = verdicts.count(record)
            if by_rule:
                values |= {
                    name: sum(int(counts[name]) for counts in by_rule.values())
                    for name in ("violated", "evaluated")
                }
            sites = {
                row["client"]: {name: row[name] for name in SITE_FIGURES} | counts
                for row, counts in zip(clients, by_site, strict=True)
            }
            self.emit(replace(now, values=values, sites=sites, rules=by_rule))
            if self.experiment.end_round(record) and not last:
                save_state(self.folder, config.id, state)
                raise RulesChange
        assert state is not None
        final = _final_rows(config, trial, deployed, seen, state)
        for name, rows in final.items():
            self.folder.append(name, rows)
        hard = {rule.name for rule in self.experiment.pack.manifest.rules if rule.hard}
        measure = self.experiment.measure
        message = (
            f"{config.id}: {measure.text(figures[measure.name])}"
            if figures
            else f"{config.id}: done"
        )
        ended = Event(
            kind="trial_done",
            message=message,
            trial=config.id,
            trial_number=number,
            trials=len(self.configs),
            round=state.round,
            rounds=rounds,
            rules={
                row["rule"]: {
                    "violated": row["violated"],
                    "evaluated": row["evaluations"],
                    "hard": int(row["rule"] in hard),
                }
                for row in final["rules.csv"]
                if row["applied"]
            },
        )
        self.emit(ended)
        return state.round

    def _rebuild_tables(self, done: Sequence[TrialConfig]) -> None:
        """Rebuild damaged tables from the last checkpoints of finished trials, and report it."""
        damaged = [name for name in FROM_CHECKPOINTS if name in self.recovery.damaged]
        tables: dict[str, list[Row]] = {name: [] for name in damaged}
        for config in done if damaged else ():
            state, trial = load_state(self.folder, config.id), self.experiment.build_trial(config)
            assert state is not None
            seen = (
                None
                if config.job.theory is None
                else TheoryObserver(config, trial, config.job.theory, state)
            )
            with library_threads(config.job.training.threads or 1):
                found = _final_rows(config, trial, deployed_models(trial), seen, state)
            for name in damaged:
                tables[name] += found.get(name, ())
        for name, rows in tables.items():
            self.recovery.rebuild(name, "the checkpoints", partial(table_text, name, rows))
        for name in FROM_TABLES:
            if name in self.recovery.damaged:
                self.recovery.mark_rebuilt(name, "the tables")
        for note in self.recovery.notes:
            self.emit(Event(kind="note", message=note))

    def _emit_notes(self, notes: Sequence[str]) -> None:
        """Report notes of rounds, each once per run."""
        for note in notes:
            if note and note not in self._shown_notes:
                self._shown_notes.add(note)
                self.emit(Event(kind="note", message=note))

    def _crew_of(self, config: TrialConfig) -> WorkerPool | None:
        """The worker processes of the run; None if the trial asks for another number of workers."""
        return (
            self._crew
            if config.job.training.workers == self.configs[0].job.training.workers
            else None
        )

    def _choice(self, config: TrialConfig) -> Choice | None:
        """The executor of a trial.

        A given one, or that of an earlier trial with the same settings.
        """
        if config.id in self.choices:
            return self.choices[config.id]
        for other in self.configs:
            if (
                _executor_settings(other) == _executor_settings(config)
                and (state := load_state(self.folder, other.id)) is not None
            ):
                return state.choice
        return None

    def _cut_back(self, config: TrialConfig, done: int) -> None:
        """Remove rows beyond the last checkpoint of a trial from the growing tables."""
        observed = () if config.job.theory is None else ("theory.csv",)
        missing = (EXCLUSIONS,) if self.folder.rows(EXCLUSIONS) else ()
        for name in ("rounds.csv", "clients.csv", *missing, *observed):
            rows = self.folder.rows(name)
            kept = [row for row in rows if row["trial"] != config.id or int(row["round"]) <= done]
            self.folder.rewrite(name, kept)
        optional = (
            *("privacy.csv", "causes.csv", "knowledge.csv", "disclosures.csv"),
            *("baselines.csv", "forecast_values.csv"),
        )
        ended = tuple(name for name in optional if self.folder.rows(name))
        for name in (*FINAL_TABLES, *ended, *(("constants.csv",) if observed else ())):
            self.folder.rewrite(
                name, [row for row in self.folder.rows(name) if row["trial"] != config.id]
            )

    def _finish(self, drawn: bool) -> Run:
        target = self.experiment.job.evaluation.target_of(self.experiment.measure.name)
        rounds = self.folder.rows("rounds.csv")
        sites = self.folder.rows("sites.csv")
        results = compare_trials(
            self.configs,
            rounds,
            self.folder.rows("clients.csv"),
            target,
            sites,
            self.experiment.measure,
            self.folder.rows("knowledge.csv"),
        )
        unknown = unevaluated_rules.find_unevaluated(
            *(self.folder.rows(name) for name in ("rules.csv", "checks.csv"))
        )
        control = self.experiment.rules_alone(self.configs[0])
        hard = self.experiment.hard_rules(self.configs[0])
        said = [
            *(
                [
                    describe_rules_alone(
                        control, self.configs, results, self.experiment.measure, hard=bool(hard)
                    )
                ]
                if control is not None
                else []
            ),
            *describe_comparison(results, target),
            *describe_local_training(results),
            *describe_injection(results, self.configs, sites),
            *describe_forecasts(self.configs, self.folder.rows("forecasts.csv")),
            *unevaluated_rules.describe_unevaluated(unknown),
        ]
        measure, private = self.experiment.measure, self.folder.rows("privacy.csv")
        said += [
            *describe_privacy(private),
            *explain_lost_training(
                protected_trials(self.configs, rounds, private, measure.name, measure.trivial)
            ),
        ]
        rules = {record.name: record.text for record in self.experiment.pack.manifest.rules}
        content = {
            "title": self.experiment.job.title,
            "target": None if math.isnan(target) else target,
            "trivial": None if math.isnan(measure.trivial) else measure.trivial,
            "sentences": said,
            "rows": results,
            "rules_alone": as_json(control),
            "rules": rules,
            "not_evaluated": unknown,
        }
        if self.experiment.job.theory is not None:
            found = (self.folder.rows(name) for name in ("theory.csv", "constants.csv"))
            self.folder.write_json(
                THEORY, compute_theory(self.experiment.pack, measure, self.configs, rounds, *found)
            )
        self._write_prediction_incidents(results)
        self.folder.write_json(RESULTS, content)
        report, notes = self._report() if drawn else (None, ())
        self.emit(
            Event(
                kind="finished", message=str(report or self.folder.path), trials=len(self.configs)
            )
        )
        return Run(
            folder=self.folder.path,
            results=results,
            sentences=tuple(said),
            report=report,
            notes=(*self.notes, *notes),
        )

    def _write_prediction_incidents(self, results: Sequence[Result]) -> None:
        """Write where the best models violate rules on test samples.

        One trial suffices for a reader, and keeps the report small: the first one of the best
        result on sound data.
        """
        measure = self.experiment.measure
        asked = [one for one in results if not one["baseline"]] or results
        sound = [one for one in asked if not one["corrupted"]] or asked
        known = [one for one in sound if one[measure.name]["mean"] is not None]
        if not known:
            return
        best = max(known, key=lambda one: measure.sign * one[measure.name]["mean"])
        config = next(
            one
            for one in self.configs
            if (one.algorithm, dict(one.setting), "" if one.corrupt is None else one.corrupt.site)
            == (best["algorithm"], best["setting"], best["corrupted"])
        )
        state, trial = load_state(self.folder, config.id), self._last_trial
        if state is None:
            return
        trial = trial if trial is not None and trial.config.id == config.id else None
        found = self.experiment.prediction_incidents(config, state, trial)
        if found is not None:
            about = {"trial": config.id, "algorithm": best["title"]}
            self.folder.write_json(PREDICTION_INCIDENTS, about | found)

    def _report(self) -> tuple[Path | None, tuple[str, ...]]:
        try:
            from fedkg.report import write_report

            return write_report(self.folder.path), ()
        except MissingExtra as error:
            self.emit(Event(kind="note", message=f"no {REPORT}: {error}"))
            return None, (str(error),)


def _final_rows(
    config: TrialConfig,
    trial: Trial,
    deployed: DeployedModels,
    seen: TheoryObserver | None,
    state: ServerState,
) -> dict[str, Sequence[Row]]:
    """The rows that a finished trial adds to the tables, by file."""
    rows: dict[str, Sequence[Row]] = dict(trial.final_rows(deployed.models(state), state))
    if seen is not None:
        rows["constants.csv"] = seen.final_lines(state)
    if trial.algorithm.budget is not None:
        rows["privacy.csv"] = privacy_rows(config.id, trial.algorithm.budget, trial.problem, state)
    if disclosed := disclosure_rows(config.id, deployed.work):
        rows["disclosures.csv"] = disclosed
    return rows


def _executor_settings(config: TrialConfig) -> tuple[object, ...]:
    """Equal for trials that share an executor choice.

    Trials with pooled data have one client, so their stacks suit no other trials.
    """
    training = config.job.training
    return (
        training.executor,
        training.workers,
        training.chunk,
        training.threads,
        algorithm_section(config.job).exchange == "data",
    )


def _resolve_job(job: Job | Mapping[str, Any] | str | Path, overrides: Sequence[str]) -> Job:
    if isinstance(job, Job):
        if overrides:
            raise UsageError(
                "overrides apply to a job file or its fields, not to a Job",
                help="change the Job itself: job.model_copy(update={...})",
            )
        if job.data.sites_file is not None:
            fields = job.model_dump(mode="json", exclude_unset=True)
            return parse_job(fields, name="the job", base=Path.cwd())
        return with_absolute_paths(job, Path.cwd())
    if isinstance(job, Mapping):
        return parse_job(dict(job), name="the job", base=Path.cwd(), overrides=overrides)
    return read_job(job, overrides)


def _count_parameters(params: Params) -> int:
    return sum(tensor.numel() for tensor in params.values())
