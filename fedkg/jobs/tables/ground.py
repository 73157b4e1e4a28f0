"""Jobs on tables: rows of a 0/1 column to predict, from the generator, one file, or one file of each site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedkg.constraints import ConstraintModule
from fedkg.federated import Algorithm, Problem, Scorer, Settings
from fedkg.jobs.arms import Arm, algorithm_of
from fedkg.jobs.file.schema import Job
from fedkg.jobs.folder import Row
from fedkg.jobs.graphs import Graphs
from fedkg.jobs.measure import MEASURES, Measure, alarm_everywhere, event_of
from fedkg.jobs.set_rows import set_rows, sets_of_arm
from fedkg.jobs.tables.judge import (
    data_checks,
    intact_frames,
    module_of,
    no_tally,
    rule_table,
    scorer_of,
)
from fedkg.jobs.tables.prepare import Prepared, Scenario, coded, labels_of, prepare, scenario
from fedkg.jobs.tables.probe import probe_rows
from fedkg.jobs.tables.sites import site_rows
from fedkg.jobs.training import (
    Held,
    algorithm_of_arm,
    held_of,
    judged,
    model_of,
    problem_of,
    settings_of,
    unbound,
    unprojected,
)
from fedkg.learned_knowledge import Window
from fedkg.models import Model, Params
from fedkg.pack import Pack


@dataclass(slots=True, kw_only=True, eq=False)
class TableCourse:
    """See `Course`."""

    arm: Arm
    prepared: Prepared
    scene: Scenario
    held: Held
    module: ConstraintModule
    model: Model
    problem: Problem
    algorithm: Algorithm
    settings: Settings

    @property
    def said(self) -> tuple[str, ...]:
        """See `Course.said`."""
        return (*unbound(self.arm, self.prepared.pack), *unprojected(self.model))

    def figures(self, models: Sequence[Params]) -> dict[str, float]:
        """See `Course.figures`: F1, precision, recall at the job's threshold, and cross entropy."""
        return judged(self.arm.job, self.model, models, self.held)

    def end(self, models: Sequence[Params], state: Any) -> Mapping[str, list[Row]]:
        """See `Course.end`."""
        tally = no_tally(len(models), self.prepared.test.rows)
        rules: list[Row] = [
            *rule_table(self.prepared, self.module, self.model, models, self.arm.id, tally)
        ]
        sites: list[Row] = [
            *site_rows(self.arm, self.prepared, self.scene, self.model, models, self.held, tally)
        ]
        names = self.problem.clients.names
        sets = sets_of_arm(algorithm_of(self.arm.job), self.prepared.pack, names)
        return {
            "rules.csv": rules,
            "sites.csv": sites,
            "sets.csv": set_rows(self.arm.id, names, models, sets),
        }


@dataclass(slots=True, kw_only=True, eq=False)
class Tables:
    """See `Ground`; what arms have in common is made once."""

    prepared: Prepared
    _graphs: Graphs
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    _shared: dict[bool, tuple[Prepared, Held, ConstraintModule]] = field(default_factory=dict)
    _scorers: dict[str, Scorer] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        """See `Ground.job`."""
        return self.prepared.job

    @property
    def pack(self) -> Pack:
        """See `Ground.pack`."""
        return self.prepared.pack

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Ground.notes`."""
        return self.prepared.notes

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """See `Ground.files`."""
        return (*self.prepared.tables.files, *self._graphs.sources(self.job))

    @property
    def reach(self) -> Window | None:
        """See `Ground.reach`."""
        return self.prepared.tables.reach

    @property
    def measure(self) -> Measure:
        """See `Ground.measure`."""
        test = labels_of(self.prepared.test, self.job.data.label)
        return replace(
            MEASURES["detection"],
            trivial=alarm_everywhere(int(test.sum()), len(test)),
            event=event_of(self.job.data.label),
        )

    def prepare(self, arms: Sequence[Arm]) -> None:
        """See `Ground.prepare`."""
        for arm in arms:
            if arm.scenario not in self.scenarios:
                self.scenarios[arm.scenario] = scenario(self.prepared, arm)

    def sites(self, arm: Arm) -> int:
        """See `Ground.sites`."""
        return len(self.scenarios[arm.scenario].frames)

    def features(self) -> dict[str, Any]:
        """See `Ground.features`."""
        scaling = self.prepared.scaling
        return {
            "names": list(scaling.names),
            "mean": scaling.mean.tolist(),
            "std": scaling.std.tolist(),
        }

    def splits(self, arms: Sequence[Arm]) -> dict[str, Any]:
        """See `Ground.splits`."""
        return split_document(self.prepared, arms, self.scenarios)

    def checks(self, arm: Arm) -> list[Row]:
        """See `Ground.checks`."""
        sites = list(self.scenarios[arm.scenario].frames.values())
        return [*data_checks(self.prepared, intact_frames(self.prepared, sites))]

    def course(self, arm: Arm) -> TableCourse:
        """See `Ground.course`."""
        prepared, held, module = self._of(arm)
        model = model_of(
            arm.job, prepared, module, self._graphs.of(arm.job, self.prepared.features.names)
        )
        scene = self.scenarios[arm.scenario]
        problem = problem_of(arm, prepared, scene, module, model, self._scorer(arm, model))
        settings = settings_of(arm, prepared.pack, problem.clients)
        return TableCourse(
            arm=arm,
            prepared=prepared,
            scene=scene,
            held=held,
            module=module,
            model=model,
            problem=problem,
            algorithm=algorithm_of_arm(arm, module, problem, settings),
            settings=settings,
        )

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
        key = f"{scoring.probe}|{scoring.probe_rows}|{scoring.rows_per_rule}|{arm.job.training.projection}|{arm.job.model.model_dump_json()}"
        if key not in self._scorers:
            probe = probe_rows(self.prepared.pack, self.prepared.server, scoring, arm.job.data.seed)
            self._scorers[key] = scorer_of(prepared, module, model, probe)
        return self._scorers[key]


def on_tables(job: Job, pack: Pack) -> Tables:
    """The tables of a job. Raises JobError, TableError: naming the field, file or column that is wrong."""
    return Tables(prepared=prepare(job, pack), _graphs=Graphs(pack))


def split_document(
    prepared: Prepared, arms: Sequence[Arm], scenarios: Mapping[str, Scenario]
) -> dict[str, Any]:
    """`split.json`: rows and true failures of every site in every way the data is split. `Any`: JSON."""
    splits = []
    label = prepared.job.data.label
    seen: set[str] = set()
    for arm in arms:
        if arm.scenario in seen:
            continue
        seen.add(arm.scenario)
        rows = scenarios[arm.scenario]
        words = [f"{field.rpartition('.')[2]} {value}" for field, value in arm.setting] + [
            f"seed {arm.seed}"
        ]
        if arm.corrupt is not None:
            words.append(f"{arm.corrupt.kind.replace('_', ' ')} at {arm.corrupt.site}")
        splits.append(
            {
                "title": ", ".join(words),
                "setting": dict(arm.setting),
                "seed": arm.seed,
                "corrupted": "" if arm.corrupt is None else arm.corrupt.site,
                "draws": rows.draws,
                "sites": {
                    site: {"rows": own.rows, "positives": int(own.numbers(label).sum())}
                    for site, own in rows.frames.items()
                },
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
