"""Experiments on tables with a 0/1 label: generated, from one file, or from one file per site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fedkg.constraints import ConstraintModule
from fedkg.federated import Algorithm, Problem, Scorer, Settings
from fedkg.federated.client.constraint_penalty import ConstraintPenalty
from fedkg.jobs.comparison_metric import MEASURES, Measure, event_of, f1_of_constant_alarm
from fedkg.jobs.folder import Row
from fedkg.jobs.hard_rule_answers import hard_rules
from fedkg.jobs.model_graphs import GraphCache
from fedkg.jobs.parameter_set_distances import set_distance_rows, trial_sets
from fedkg.jobs.rules_only_baseline import RulesAlone, detection_control
from fedkg.jobs.schema.job import Job
from fedkg.jobs.site_split import describe_splits
from fedkg.jobs.table_rule_evaluation import check_tables
from fedkg.jobs.tables.rule_evaluation import (
    constraint_module,
    empty_tally,
    intact_frames,
    probe_scorer,
    row_codes,
    rule_table,
)
from fedkg.jobs.tables.server_probe_rows import probe_rows
from fedkg.jobs.tables.site_results import site_result_rows
from fedkg.jobs.tables.table_preparation import (
    SiteRows,
    TableData,
    binary_labels,
    prepare_tables,
    split_rows,
    with_category_codes,
)
from fedkg.jobs.training import (
    HeldOut,
    build_table_model,
    build_table_problem,
    build_trial_algorithm,
    held_out_tensors,
    mean_detection_figures,
    note_missing_sets,
    note_projection,
    trial_settings,
)
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section
from fedkg.learned_knowledge import TimeRange
from fedkg.models import Model, Params
from fedkg.pack import Pack


@dataclass(slots=True, kw_only=True, eq=False)
class TableTrial:
    """See `Trial`."""

    config: TrialConfig
    prepared: TableData
    site_rows: SiteRows
    held: HeldOut
    module: ConstraintModule
    model: Model
    problem: Problem
    algorithm: Algorithm
    settings: Settings

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Trial.notes`."""
        pack = self.prepared.pack
        return (
            *note_missing_sets(self.config, pack),
            *note_projection(self.model, pack, self.held.hard),
        )

    def figures(self, models: Sequence[Params]) -> dict[str, float]:
        """See `Trial.figures`: F1, precision, recall and cross entropy at the job's threshold."""
        return mean_detection_figures(self.config.job, self.model, models, self.held)

    def final_rows(self, models: Sequence[Params], state: Any) -> Mapping[str, list[Row]]:
        """See `Trial.final_rows`."""
        tally = empty_tally(len(models), self.prepared.test.rows)
        rules: list[Row] = [
            *rule_table(
                self.prepared,
                self.module,
                self.model,
                models,
                self.config.id,
                tally,
                self.held.hard,
            )
        ]
        sites: list[Row] = [
            *site_result_rows(
                self.config, self.prepared, self.site_rows, self.model, models, self.held, tally
            )
        ]
        names = self.problem.clients.names
        sets = trial_sets(algorithm_section(self.config.job), self.prepared.pack, names)
        return {
            "rules.csv": rules,
            "sites.csv": sites,
            "sets.csv": set_distance_rows(self.config.id, names, models, sets),
        }


@dataclass(slots=True, kw_only=True, eq=False)
class TableExperiment:
    """See `Experiment`; builds what trials share once."""

    prepared: TableData
    _graphs: GraphCache
    rows_by_split: dict[str, SiteRows] = field(default_factory=dict)
    _shared: dict[bool, tuple[TableData, HeldOut, ConstraintModule]] = field(default_factory=dict)
    _scorers: dict[str, Scorer] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        """See `Experiment.job`."""
        return self.prepared.job

    @property
    def pack(self) -> Pack:
        """See `Experiment.pack`."""
        return self.prepared.pack

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Experiment.notes`."""
        return self.prepared.notes

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """See `Experiment.files`."""
        return (*self.prepared.tables.files, *self._graphs.sources(self.job))

    @property
    def time_range(self) -> TimeRange | None:
        """See `Experiment.time_range`."""
        return self.prepared.tables.time_range

    @property
    def measure(self) -> Measure:
        """See `Experiment.measure`."""
        test = binary_labels(self.prepared.test, self.job.data.label)
        return replace(
            MEASURES["detection"],
            trivial=f1_of_constant_alarm(int(test.sum()), len(test)),
            event=event_of(self.job.data.label),
        )

    def prepare(self, configs: Sequence[TrialConfig]) -> None:
        """See `Experiment.prepare`."""
        for config in configs:
            if config.split_key not in self.rows_by_split:
                self.rows_by_split[config.split_key] = split_rows(self.prepared, config)

    def sites(self, config: TrialConfig) -> int:
        """See `Experiment.sites`."""
        return len(self.rows_by_split[config.split_key].frames)

    def features(self) -> dict[str, Any]:
        """See `Experiment.features`."""
        scaling = self.prepared.scaling
        return {
            "names": list(scaling.names),
            "mean": scaling.mean.tolist(),
            "std": scaling.std.tolist(),
        }

    def splits(self, configs: Sequence[TrialConfig]) -> dict[str, Any]:
        """See `Experiment.splits`."""
        return split_document(self.prepared, configs, self.rows_by_split)

    def checks(self, config: TrialConfig) -> list[Row]:
        """See `Experiment.checks`."""
        sites = list(self.rows_by_split[config.split_key].frames.values())
        return check_tables(self.pack, intact_frames(self.prepared, sites))

    def rules_alone(self, config: TrialConfig) -> RulesAlone | None:
        """See `Experiment.rules_alone`."""
        prepared = self.prepared
        if not any(rule.output for rule in prepared.pack.manifest.rules):
            return None
        server = prepared.targets(prepared.server)
        prevail = (
            prepared.positives > prepared.negatives
            if self.job.privacy is None
            else bool(server.mean() > 0.5)
        )
        module = constraint_module(prepared)
        return detection_control(
            module,
            prepared.inputs(prepared.test, torch.float64),
            prepared.targets(prepared.test),
            positives_prevail=prevail,
            keys=row_codes(prepared, module, prepared.test),
        )

    def hard_rules(self, config: TrialConfig) -> tuple[str, ...]:
        """See `Experiment.hard_rules`."""
        hard = self._data_for(config)[1].hard
        return () if hard is None else hard.enforced

    def build_trial(self, config: TrialConfig) -> TableTrial:
        """See `Experiment.build_trial`."""
        prepared, held, module = self._data_for(config)
        model = build_table_model(
            config.job,
            prepared,
            module,
            self._graphs.graph_for(config.job, self.prepared.features.names),
        )
        site_rows = self.rows_by_split[config.split_key]
        problem = build_table_problem(
            config, prepared, site_rows, module, model, self._scorer(config, model)
        )
        settings = trial_settings(config, prepared.pack, problem.clients)
        penalty = config.job.training.penalty
        return TableTrial(
            config=config,
            prepared=prepared,
            site_rows=site_rows,
            held=held,
            module=module,
            model=model,
            problem=problem,
            algorithm=build_trial_algorithm(
                config,
                problem,
                settings,
                trial_sets(algorithm_section(config.job), prepared.pack, problem.clients.names),
                terms=[ConstraintPenalty(rules=module, weight=penalty)] if penalty else [],
            ),
            settings=settings,
        )

    def _data_for(self, config: TrialConfig) -> tuple[TableData, HeldOut, ConstraintModule]:
        """The data that a trial reads.

        With projection the rows contain category codes for the rules.
        """
        projection = config.job.training.projection
        if projection not in self._shared:
            prepared = with_category_codes(self.prepared) if projection else self.prepared
            module = constraint_module(prepared)
            plan = module.plan
            hard = None if projection else hard_rules(prepared.pack, plan.x, plan.y)
            self._shared[projection] = prepared, held_out_tensors(prepared, module, hard), module
        return self._shared[projection]

    def _scorer(self, config: TrialConfig, model: Model) -> Scorer:
        scoring = config.job.scoring
        prepared, _, module = self._data_for(config)
        probe_settings = scoring.probe, scoring.probe_rows, scoring.rows_per_rule
        job = config.job
        key = f"{probe_settings}|{job.training.projection}|{job.model.model_dump_json()}"
        if key not in self._scorers:
            probe = probe_rows(
                self.prepared.pack, self.prepared.server, scoring, config.job.data.seed
            )
            self._scorers[key] = probe_scorer(prepared, module, model, probe)
        return self._scorers[key]


def create_table_experiment(job: Job, pack: Pack) -> TableExperiment:
    """The experiment of a job on tables.

    Raises:
        JobError, TableError: a field, file or column is wrong; the message names it.
    """
    return TableExperiment(prepared=prepare_tables(job, pack), _graphs=GraphCache(pack))


def split_document(
    prepared: TableData, configs: Sequence[TrialConfig], rows_by_split: Mapping[str, SiteRows]
) -> dict[str, Any]:
    """The content of `split.json`: rows and failures of every site in every split. `Any`: JSON."""
    label = prepared.job.data.label

    def counts(config: TrialConfig) -> tuple[int, dict[str, dict[str, int]]]:
        rows = rows_by_split[config.split_key]
        return rows.draws, {
            site: {"rows": own.rows, "positives": int(own.numbers(label).sum())}
            for site, own in rows.frames.items()
        }

    splits = describe_splits(configs, counts)
    held = {
        name: {"rows": frame.rows, "positives": int(frame.numbers(label).sum())}
        for name, frame in (("test", prepared.test), ("server", prepared.server))
    }
    drawn = prepared.tables.whole is not None and prepared.job.data.split == "dirichlet"
    note = (
        "The share of every site in each class is drawn from a Dirichlet distribution, "
        "so sites differ in size and in failures; "
        f"draws with fewer than {prepared.job.data.min_samples} rows at a site were repeated."
        if drawn
        else ""
    )
    return {"note": note, "splits": splits, **held}
