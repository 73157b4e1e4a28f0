"""What all trials of a run share: data, rules, test samples, and the trials built on them.

Tables, data sets and windows of their series are samples here, for classes, detection, numbers and
forecasts.

Letters: N samples, K sites.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg._internal.threads import library_threads
from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.binding.reads import categories_read
from fedkg.constraints.meaning.interpreter import Timing
from fedkg.data import Frame, Scaling, Split
from fedkg.data.sets import DataSet
from fedkg.errors import JobError
from fedkg.evaluation.incidents import named_in_events
from fedkg.federated import Clients, Problem, RoundRecord, Scorer, ServerState, clients_of
from fedkg.federated.model.constrained_outputs import Projected, Trust
from fedkg.federated.model.knowledge_bounded_models import (
    Bounded,
    BoundedChance,
    Laid,
    SiteTrust,
    informed,
)
from fedkg.federated.server.pack_scorer import PackScorer
from fedkg.federated.server.trace_scorer import TraceScorer
from fedkg.federated.temporal.client_property_mining import Inferred, inferred, inferred_privately
from fedkg.federated.temporal.forecast_rules import about_outputs
from fedkg.federated.temporal.hard_rule_forecasts import with_hard_rules
from fedkg.graphs import find_neighbours
from fedkg.jobs.chronological_holdout import SITE_COLUMN, consecutive_traces, horizon_of, row_timing
from fedkg.jobs.code_trust import list_imports
from fedkg.jobs.comparison_metric import MEASURES, Measure, event_of
from fedkg.jobs.experiment.knowledge_feature_columns import (
    ColumnForm,
    knowledge_columns,
    note_contradictions,
    note_excluded_labels,
    reconcile_labels,
    site_columns,
    with_columns,
    with_pixel_names,
)
from fedkg.jobs.experiment.labelled_table_samples import frame_of_split, read_job_tables
from fedkg.jobs.experiment.model_inputs import ModelInputs, build_inputs
from fedkg.jobs.experiment.rules_on_samples import (
    SampleRules,
    build_sample_rules,
    codes_of,
    input_layout,
    is_flattened,
)
from fedkg.jobs.experiment.sample_preparation import (
    Index,
    Samples,
    SiteSplit,
    assign_test_samples,
    count_held_out,
    count_per_site,
    read_samples,
    samples_time_range,
    site_timing,
    split_samples,
)
from fedkg.jobs.experiment.server_probe_rows import probe_rows
from fedkg.jobs.experiment.site_knowledge import (
    SiteKnowledge,
    Target,
    TrainedPredictor,
    load_site_knowledge,
    train_predictor,
)
from fedkg.jobs.experiment.site_sample_statistics import SERVER, TEST, TRAIN
from fedkg.jobs.experiment.state_augmentation import AugmentedSamples, augment_samples
from fedkg.jobs.experiment.task_metrics import constant_answer_figure, figure_sums, task_loss
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.experiment.trust_level_selection import select_trust
from fedkg.jobs.folder import Row
from fedkg.jobs.job_privacy import client_data_digest, derive_seed, has_system_noise
from fedkg.jobs.model_builder import build_model, head_parameters
from fedkg.jobs.model_distance_to_sets import trial_sets
from fedkg.jobs.model_knowledge_graphs import GraphCache
from fedkg.jobs.prediction_target import choose_output
from fedkg.jobs.rules_only_baseline import (
    ControlSums,
    RulesAlone,
    classes_control,
    detection_control,
    forecast_control,
    merge_controls,
    regression_control,
)
from fedkg.jobs.schema.consistency import describe_unprotected
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.model_section import Inject
from fedkg.jobs.site_split import corrupt_labels, describe_splits, trial_stream
from fedkg.jobs.source_data_checks import (
    SECONDS,
    NamedTable,
    TableCounts,
    check_rows,
    count_data_set,
    count_frames,
    data_set_tables,
    find_table_incidents,
    row_name,
)
from fedkg.jobs.source_tables import sha256_of
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section
from fedkg.jobs.trial_training import (
    build_trial_algorithm,
    deployed_models,
    note_missing_sets,
    note_projection,
    positive_weight,
    trial_attack,
    trial_settings,
)
from fedkg.learned_knowledge_records import TimeRange
from fedkg.models import Model
from fedkg.pack import Pack
from fedkg.pack.file import pack_digest

SAMPLE_COLUMN = "(sample)"
"""Column with the position of a row among all samples."""

DIRICHLET_NOTE = (
    "The share of every site in each class is drawn from a Dirichlet distribution, so sites differ "
    "in size and in failures; draws with fewer than {least} rows at a site were repeated."
)

DEFAULT_SHARED = 0.05
"""Share of its samples that a site shares if no algorithm defines it.

Properties are still mined for evaluation.
"""


@dataclass(slots=True, kw_only=True, eq=False)
class Experiment:
    """What all trials of a run share; each part is built once.

    Attributes:
        job: the job of the run.
        pack: the rules of the job.
        samples: the data of the job.
        output: the output or label that models predict.
        site_splits: the division of the samples among sites, by `TrialConfig.split_key`.
        site_knowledge: the private knowledge, or trust, of sites that are here.
    """

    job: Job
    pack: Pack
    samples: Samples
    output: str
    _graphs: GraphCache
    site_splits: dict[str, SiteSplit] = field(default_factory=dict)
    site_knowledge: Mapping[str, SiteKnowledge] = field(default_factory=dict)
    _known: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    _augmented: dict[str, AugmentedSamples] = field(default_factory=dict)
    _inputs_made: dict[str, ModelInputs] = field(default_factory=dict)
    _trust: dict[str, tuple[float, str]] = field(default_factory=dict)
    _mined: dict[tuple[str, bool], Inferred] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, shown before training."""
        data = self.samples.source
        rows = self.samples.summary.rows
        if self.samples.frame is not None:
            return data.notes
        return (
            f"data: {data.source}; {sum(rows):,} samples, {rows[TEST]:,} of them for the test",
            *data.notes,
        )

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Path and SHA-256 of every file that was read."""
        known = (file for one in self.site_knowledge.values() for file in one.files)
        code = (Path(one.rpartition(":")[0]) for one in list_imports(self.job))
        own = ((str(file), sha256_of(file)) for file in dict.fromkeys(code) if file.is_file())
        return (*self.samples.files, *self._graphs.sources(self.job), *known, *own)

    @property
    def time_range(self) -> TimeRange | None:
        """The first and the last time in the data; None without times."""
        return self.samples.time_range

    @property
    def measure(self) -> Measure:
        """The figure that decides comparisons."""
        return replace(
            MEASURES[self.samples.source.task],
            trivial=constant_answer_figure(self.samples.summary, self.samples.scaled.outputs),
            event=event_of(self.samples.source.label),
        )

    def prepare(self, configs: Sequence[TrialConfig]) -> None:
        """Split the data for every trial and build its model.

        Errors appear here, before training.
        """
        for config in configs:
            self._reject_unused_settings(config)
            if config.split_key not in self.site_splits:
                stream = trial_stream(config.seed)
                split, rows = split_samples(self.samples, config.job, stream)
                self.site_splits[config.split_key] = SiteSplit(
                    split=split,
                    rows=rows,
                    owner=assign_test_samples(self.samples, split, rows, config.seed),
                    frame=frame_of_split(self.samples, config.job, split, rows, stream),
                )
        firsts: dict[str, TrialConfig] = {}
        for config in configs:
            firsts.setdefault(config.job.model.model_dump_json() + self._sample_key(config), config)
        for config in firsts.values():
            head_parameters(
                config.job.model, self._model(config, trust=0.0, rules=self._rules(config))
            )

    def sites(self, config: TrialConfig) -> int:
        """Number of sites in a trial."""
        return len(self.site_splits[config.split_key].split.sites)

    def features(self) -> dict[str, Any]:
        """The scaling of the model's inputs (of images: channels): `names`, `mean`, `std`.

        `Any`: JSON.
        """
        each = [self.samples, *(one.samples for one in self._augmented.values())]
        scaling = max((one.scaled.inputs for one in each), key=lambda scaling: len(scaling.names))
        return {
            "names": list(scaling.names),
            "mean": scaling.mean.tolist(),
            "std": scaling.std.tolist(),
        }

    def splits(self, configs: Sequence[TrialConfig]) -> dict[str, Any]:
        """The content of `split.json`: the rows of every site in every split. `Any`: JSON."""

        def counts(config: TrialConfig) -> tuple[int, Mapping[str, dict[str, int]]]:
            found = self.site_splits[config.split_key]
            return found.split.draws, count_per_site(self.samples, found.split, found.rows)

        held = {
            name: count_held_out(self.samples, use)
            for name, use in (("test", TEST), ("server", SERVER))
        }
        note = DIRICHLET_NOTE.format(least=self.job.data.min_samples)
        return {
            "note": note
            if self.job.data.split == "dirichlet" and not self.samples.own_sites
            else "",
            "splits": describe_splits(configs, counts),
            **held,
        }

    def end_round(self, record: RoundRecord) -> bool:
        """Called after each round; whether the rules change before the next one."""
        return False

    def checks(self, config: TrialConfig) -> list[Row]:
        """Rows of `checks.csv`: the rules on the data alone."""
        return check_rows(self.pack, self.check_counts(config))

    def check_counts(self, config: TrialConfig) -> Mapping[str, TableCounts] | None:
        """The counts behind `checks`; None if the samples have no rows to check."""
        frame = self.site_splits[config.split_key].frame
        if frame is None:
            return count_data_set(self.pack, self.samples.uncut_rows, self.job)
        return count_frames(self.pack, frames_by_site(frame, self.samples.sites))

    def incidents(self, config: TrialConfig, checks: Sequence[Row]) -> dict[str, Any] | None:
        """Where the data violate rules about the data alone, for the report. `Any`: JSON.

        None if they violate none, under privacy, and if sites keep their data: incidents contain
        measured values.

        Args:
            checks: the rows of `checks.csv`.
        """
        violated = [row["rule"] for row in checks if row["violated"]]
        if not violated or self.job.privacy is not None:
            return None
        frame = self.site_splits[config.split_key].frame
        if frame is not None:
            frames = frames_by_site(frame, self.samples.sites)
            names = [*self.samples.sites] or [""]
            tables: list[NamedTable] = [
                (name, own.table(), partial(row_name, own))
                for name, own in zip(names, frames, strict=True)
            ]
        else:
            tables = data_set_tables(self.pack, self.samples.uncut_rows, self.job)
        found = find_table_incidents(self.pack, tables, [row["rule"] for row in checks])
        return found and found | {"neighbours": self._neighbours(found)}

    def prediction_incidents(
        self, config: TrialConfig, state: ServerState, trial: Trial | None
    ) -> dict[str, Any] | None:
        """Where the models of a trial violate rules on test samples, for the report. `Any`: JSON.

        None if they violate none, under privacy, and if sites keep their data.

        Args:
            config: of the trial.
            state: the last server state of the trial.
            trial: the trial if it is already built.
        """
        if self.job.privacy is not None:
            return None
        trial = trial or self.build_trial(config)
        with library_threads(config.job.training.threads or 1):
            found = trial.incidents(deployed_models(trial).models(state))
        return found and found | {"neighbours": self._neighbours(found)}

    def _neighbours(self, incidents: Mapping[str, Any]) -> dict[str, Any]:
        """What the graphs of the job state about the entities of incidents. `Any`: JSON.

        Endpoints are not asked a second time.
        """
        files = [path for path in self.job.rules if "://" not in path]
        found = find_neighbours(files, named_in_events(incidents))
        return {name: [asdict(one) for one in each] for name, each in found.items()}

    def rules_alone(self, config: TrialConfig) -> RulesAlone | None:
        """The control without learning on the test samples; None without rules about outputs."""
        summary = self.samples.summary
        if self._rules(config).module is None or not summary.rows[TEST]:
            return None
        return merge_controls(summary.task, self.control_sums(config))

    def control_sums(
        self, config: TrialConfig, sites: Sequence[int] | None = None
    ) -> list[ControlSums]:
        """The control on the test samples of each site with a table, or on all together.

        Args:
            sites: positions of the sites; None: all.
        """
        test, owner = self.samples.rows(TEST), self.site_splits[config.split_key].owner
        chosen = range(len(self.samples.sites)) if sites is None else sites
        groups = [owner == site for site in chosen] or [owner >= -1]
        return [self._control(config, test[group], owner[group]) for group in groups]

    def _control(self, config: TrialConfig, test: Index, owner: Index) -> ControlSums:
        """The control on test samples at these positions, of these sites."""
        rules, scaled, summary = self._rules(config), self.samples.scaled, self.samples.summary
        index = torch.from_numpy(test)
        y = torch.from_numpy(scaled.y)
        if not len(test):
            sums = figure_sums(scaled, torch.empty(0, 0), y[:0], 0.5)
            return ControlSums(sums=sums, determined=0, rows=0)
        x, keys = self._inputs(config).exact_rows(test), rules.codes_at(index)
        known = TRAIN if self.job.privacy is None else SERVER
        if rules.forecasts is not None:
            answers, determined = forecast_control(rules.forecasts, x)
        else:
            assert rules.rows is not None, "rules are about rows or forecasts"
            match summary.task:
                case "detection":
                    positives = summary.positives(known) or 0
                    prevail = 2 * positives > summary.rows[known]
                    answers, determined = detection_control(
                        rules.rows, x, positives_prevail=prevail, keys=keys
                    )
                case "classes":
                    labels = summary.labels[known]
                    answers, determined = classes_control(
                        rules.rows, x, classes=len(labels), majority=int(labels.argmax()), keys=keys
                    )
                case "survival":
                    equal = torch.zeros(len(test), dtype=torch.float64)
                    answers, determined = regression_control(rules.rows, x, mean=equal, keys=keys)
                case _:
                    pooled = float(y[torch.from_numpy(self.samples.rows(known))].double().nanmean())
                    mean = self._site_means(config, y, pooled, owner)
                    answers, determined = regression_control(rules.rows, x, mean=mean, keys=keys)
        return ControlSums(
            sums=figure_sums(scaled, answers, y[index], 0.5),
            determined=int(determined.sum()),
            rows=len(test),
        )

    def _site_means(self, config: TrialConfig, y: Tensor, pooled: float, owner: Index) -> Tensor:
        """The mean training target at the site of each test sample; the pooled mean for samples of
        no site, and under privacy, where sites reveal no means.
        """
        site_split = self.site_splits[config.split_key]
        means = torch.full((len(site_split.split.sites) + 1,), pooled, dtype=torch.float64)
        if self.job.privacy is None:
            for site in range(len(site_split.split.sites)):
                own = y[torch.from_numpy(site_split.samples_at(site))].double().nanmean()
                means[site] = own if own.isfinite() else pooled
        return means[torch.from_numpy(owner)]  # -1, no site, is the last

    def apply_to(
        self, config: TrialConfig, samples: Samples, site: str, known: SiteKnowledge | None = None
    ) -> tuple[SampleRules, ModelInputs, tuple[str, ...]]:
        """The rules over other samples of a site, the model inputs of these samples, and notes
        about the knowledge.

        Args:
            config: of the trial.
            samples: prepared with the summary of this experiment's samples; all are for the test.
            site: name of their site.
            known: the knowledge of this site, if models read the knowledge of single sites.
        """
        owner = np.zeros(samples.source.samples, dtype=np.int64)
        split = SiteSplit(
            split=Split(sites=(site,), owner=owner),
            rows=np.arange(len(owner)),
            owner=owner,
            frame=samples.frame,
        )
        other = Experiment(
            job=self.job,
            pack=self.pack,
            samples=samples,
            output=self.output,
            _graphs=self._graphs,
            site_splits={config.split_key: split},
            site_knowledge={} if known is None else {site: known},
        )
        form, notes = other._column_form(config), tuple[str, ...]()
        if known is not None and form is not None:
            sites = self.site_splits[config.split_key].split.sites
            place = sites.index(site) if site in sites else None
            predictor = None if place is None else self._predictor(config, place, known)
            source = with_pixel_names(samples.source)
            columns = other._rule_columns(source, form)
            columns = form.merge(site_columns(known, predictor, source, form), columns)
            # a new site has no trust of its own: 0 stands for the trust of the job
            trusts = np.full((len(columns), 1), 0 if place is None else place + 1)
            other._known[other._known_key(config, form)] = np.concatenate([columns, trusts], axis=1)
            notes = other._note_site_knowledge(config)
        return other._rules(config), other._inputs(config), notes

    def hard_rules(self, config: TrialConfig) -> tuple[str, ...]:
        """The hard rules that every evaluated answer of a trial satisfies, however it learned."""
        rules = self._rules(config)
        if rules.forecasts is not None:
            return tuple(one.name for one in rules.pack.manifest.rules if one.hard and one.output)
        return () if rules.hard is None else rules.hard.enforced

    def build_trial(self, config: TrialConfig) -> Trial:
        """Build a trial."""
        site_split, section = self.site_splits[config.split_key], algorithm_section(config.job)
        read = self._read_samples(config)
        (trust, said), rules = self._choose_trusts(config), self._rules(config)
        model = self._model(config, trust, rules)
        inputs, server = self._inputs(config), self.samples.rows(SERVER)
        clients = self._clients(config, site_split, inputs)
        keyed = replace(clients, keys=self._keys(rules, site_split))
        keyed, excluded = self._reconcile_labels(config, keyed, inputs)
        clients = replace(keyed, keys={})
        noted = (
            *said,
            *note_excluded_labels(
                clients.names, self.count_excluded_labels(config, excluded), self._policy(config)
            ),
            *self._note_site_knowledge(config),
        )
        problem = Problem(
            model=model,
            loss=task_loss(self.samples.source.task, self._positive_weight(config)),
            clients=keyed,
            scorer=self._scorer(config, rules, model),
            server_data=self._server_data(rules, inputs, server) if len(server) else None,
            attack=trial_attack(config.job),
        )
        settings = trial_settings(config, self.pack, clients)
        found = self._properties(
            config,
            _attacked_clients(replace(problem, clients=clients), settings.seed),
            section.grouping.fedstl.share if section.grouping.fedstl else DEFAULT_SHARED,
        )
        sets = trial_sets(section, self.pack, clients.names)
        algorithm = build_trial_algorithm(
            config,
            problem,
            settings,
            sets,
            terms=rules.terms(config.job.training.penalty),
            inferred=found,
        )
        return Trial(
            config=config,
            samples=read.samples,
            pack=self.pack,
            output=self.output,
            problem=problem,
            algorithm=algorithm,
            settings=settings,
            rules=rules,
            inputs=inputs,
            owner=site_split.owner,
            time_ranges=tuple(
                samples_time_range(self.samples.source, self.job, site_split.samples_at(site))
                for site in range(len(site_split.split.sites))
            ),
            shared=not self.samples.own_sites,
            frame=site_split.frame,
            inferred=found,
            sets=sets,
            edges=read.edges,
            known=self._known_columns(config),
            form=self._column_form(config),
            excluded=excluded,
            notes=(
                *note_missing_sets(config, self.pack),
                *note_projection(model, rules.hard),
                *(self.note_properties(config, found) if section.grouping.fedstl else ()),
                *read.notes,
                *noted,
                *describe_unprotected(config.job, section),
            ),
        )

    def _read_samples(self, config: TrialConfig) -> AugmentedSamples:
        """The samples that a trial reads, with augmented states.

        A trial without exchange skips causal discovery.
        """
        key = self._sample_key(config)
        if key not in self._augmented:
            self._augmented[key] = augment_samples(
                self.samples, config.job, self.pack, alone=self._uses_local_filter(config)
            )
        return self._augmented[key]

    @staticmethod
    def _sample_key(config: TrialConfig) -> str:
        """Equal for trials that read the same samples."""
        section = config.job.augment
        return (
            ""
            if section.by == "none"
            else f"{section.model_dump_json(exclude={'by'})}{Experiment._uses_local_filter(config)}"
        )

    @staticmethod
    def _uses_local_filter(config: TrialConfig) -> bool:
        """Whether a trial reads local filter states.

        By its settings, or because it exchanges nothing.
        """
        return config.job.augment.by == "filter" or algorithm_section(config.job).exchange == "none"

    @property
    def _horizon(self) -> int:
        """Steps of a forecast; 0 without one."""
        return 0 if self.job.data.window is None else self.job.data.window.horizon

    def _reject_unused_settings(self, config: TrialConfig) -> None:
        """Reject settings that do not apply to the task."""
        task, job = self.samples.source.task, config.job
        which = f"{self.samples.source.name}: {task}"
        if task != "detection":
            if job.training.positive_weight != 1.0:
                raise JobError(
                    "training.positive_weight applies only to a label of 0 and 1",
                    received=which,
                    help="remove `training.positive_weight`",
                )
            if job.evaluation.threshold != 0.5:
                raise JobError(
                    "evaluation.threshold applies only to a label of 0 and 1",
                    received=which,
                    help="remove `evaluation.threshold`",
                )
        if task == "survival":
            _reject_for_survival(job, which)
        if config.corrupt is not None and task not in ("detection", "classes"):
            raise JobError(
                "corrupt: wrong labels are for yes/no labels and classes, and this "
                "task predicts neither",
                received=which,
                help="remove `corrupt`, or predict a class",
            )
        if job.simulation.attacks.kind == "constant_label" and task not in ("detection", "classes"):
            raise JobError(
                "simulation.attacks: `constant_label` applies to labels, and this task predicts "
                "numbers",
                received=which,
                help="set `simulation.attacks.kind: flipped_labels`, which changes the sign "
                "of standardised numbers",
            )
        section = algorithm_section(job)
        needs = (
            "FedSTL"
            if section.grouping.fedstl is not None
            else "`exclude: properties`"
            if section.excluded_by == "properties"
            else ""
        )
        if needs and not self.pack.manifest.inferences:
            raise JobError(
                f"algorithm {job.algorithm}: {needs} requires an `infer` statement in the rules",
                help=(
                    "add one: infer NAME per client find ?low, ?high in "
                    "operational_range(SIGNAL, ?low, ?high, 0, 1)"
                ),
            )

    def _rules(self, config: TrialConfig) -> SampleRules:
        samples = self._read_samples(config).samples
        source, scaled = samples.source, samples.scaled
        known = self._inputs(config).knowledge
        extra = 0 if known is None else known.shape[1]
        told_names = tuple(f"(known {number})" for number in range(1, extra + 1))
        return build_sample_rules(
            self.pack,
            source,
            scaled,
            self.output,
            told_names,
            self._horizon,
            coded=config.job.training.projection,
            frame=self.site_splits[config.split_key].frame,
        )

    @property
    def _is_flat(self) -> bool:
        """Whether samples are flattened to rows."""
        return is_flattened(self.pack, self.samples.source, self._horizon)

    def _model(self, config: TrialConfig, trust: Trust, rules: SampleRules) -> Model:
        """The model of a trial, with injected knowledge and projections around it."""
        model = self._informed_model(config, trust)
        if self._is_flat:
            model = Laid(model=model, shape=self._inputs(config).shape)
        if rules.forecasts is not None:
            layout = rules.forecasts.module.plan.x
            return with_hard_rules(model, rules.pack, layout, self._horizon)
        if not config.job.training.projection:
            return model
        if rules.rows is None or self.samples.source.task == "classes":
            what = (
                "no rule bounds an output"
                if rules.rows is None
                else "linear rules do not bound classes"
            )
            raise JobError(
                f"training.projection: {what}",
                help="remove it and use the rules as a penalty (`training.penalty`)"
                if rules.rows
                else "remove it",
            )
        return Projected(
            model=model,
            rules=rules.rows,
            keys=tuple(column.name for column in categories_read(rules.pack)),
        )

    def _informed_model(self, config: TrialConfig, trust: Trust) -> Model:
        """The model of a trial with injected knowledge around it."""
        data, section = self._read_samples(config).samples.source, config.job.model
        outputs = (
            len(data.classes)
            if data.task == "classes"
            else len(data.targets)
            if data.task == "forecast"
            else 1
        )
        graph = self._graphs.graph_for(config.job, data.features)
        model = build_model(
            section, sample=data.x.shape[1:], outputs=outputs, horizon=self._horizon, graph=graph
        )
        if section.inject is None:
            return model
        width = data.x.shape[-1]
        if data.x.ndim == 4:
            width = math.prod(data.x.shape[1:])
            model = Laid(model=model, shape=data.x.shape[1:])
        if data.task == "classes":
            return informed(model, width, outputs, trust)
        if data.task == "detection":
            return BoundedChance(model=model, width=width, windows=data.x.ndim == 3, trust=trust)
        return Bounded(
            model=model, width=width, numbers=outputs, windows=data.x.ndim == 3, trust=trust
        )

    def _inputs(self, config: TrialConfig) -> ModelInputs:
        """The model inputs of all samples:

        flattened if rules need it, with knowledge columns and codes.

        They are stored in the order in which the first trial trains on them; other splits copy.
        """
        section, samples = config.job, self._read_samples(config).samples
        inject, projected = section.model.inject, section.training.projection
        key = f"{self._sample_key(config)}|{projected}|" + (
            "" if inject is None else f"{inject.range}{inject.predict}"
        )
        frame = self.site_splits[config.split_key].frame
        if (projected and self.samples.machines_of_split) or (
            inject is not None and self.site_knowledge
        ):
            key += config.split_key
        if key not in self._inputs_made:
            columns = categories_read(about_outputs(self.pack)) if projected else ()
            self._inputs_made[key] = build_inputs(
                samples.scaled,
                [self.site_splits[config.split_key].all_samples(), samples.rows(SERVER)],
                knowledge=None if inject is None else self._known_columns(config),
                codes=[codes_of(column, self.samples.source, frame) for column in columns],
                flat=self._is_flat,
            )
        return self._inputs_made[key]

    def _column_form(self, config: TrialConfig) -> ColumnForm | None:
        """The form of the knowledge columns of a trial; of a plain trial those of the run, which
        its answers are compared with. None if no trial injects anything.
        """
        inject = config.job.model.inject or self.job.injection
        if inject is None:
            return None
        samples = self._read_samples(config).samples
        source, outputs = samples.source, samples.scaled.outputs
        if source.task == "detection":  # a probability, in its own unit
            outputs = Scaling(names=(self.output,), mean=np.zeros(1), std=np.ones(1))
        names = outputs.names if outputs is not None else (self.output,)
        return ColumnForm(
            classes=source.classes if outputs is None else (),
            outputs=outputs,
            channels={name: self._name(name) for name in names},
            kinds=tuple(
                kind for kind, on in (("range", inject.range), ("predict", inject.predict)) if on
            ),
            sites=bool(self.site_knowledge),
            chance=source.task == "detection",
        )

    def _known_columns(self, config: TrialConfig) -> NDArray[np.float64] | None:
        """The knowledge about all samples, that of the rules and that of the site of each sample;
        None if no trial injects anything.
        """
        form = self._column_form(config)
        if form is None:
            return None
        key = self._known_key(config, form)
        if key not in self._known:
            source = with_pixel_names(self._read_samples(config).samples.source)
            columns = self._rule_columns(source, form)
            if self.site_knowledge:
                columns = self._with_site_columns(config, columns, source, form)
            self._known[key] = columns
        return self._known[key]

    def _known_key(self, config: TrialConfig, form: ColumnForm) -> str:
        """Equal for trials with the same knowledge columns."""
        own = config.split_key if self.site_knowledge else ""
        return f"{self._sample_key(config)}|{form.kinds}{own}"

    def _rule_columns(self, source: DataSet, form: ColumnForm) -> NDArray[np.float64]:
        """The columns of the rules' knowledge."""
        # Sites elsewhere may have knowledge where the rules have none.
        needed = self.samples.complete and not self.site_knowledge
        if needed or form.select(self.pack):
            return knowledge_columns(self.pack, source, form)
        return form.blank(source.samples)

    def _with_site_columns(
        self, config: TrialConfig, columns: NDArray[np.float64], source: DataSet, form: ColumnForm
    ) -> NDArray[np.float64]:
        """The columns with the knowledge of each site about its training and test samples."""
        site_split = self.site_splits[config.split_key]
        place = np.zeros((len(columns), 1))
        for site, name in enumerate(site_split.split.sites):
            training = site_split.samples_at(site)
            test = self.samples.rows(TEST)[site_split.owner == site]
            rows = np.concatenate([training, test])
            place[rows] = site + 1
            known = self.site_knowledge.get(name)
            if known is None or not len(rows):
                continue
            own = site_columns(known, self._predictor(config, site, known), source.take(rows), form)
            columns[rows] = form.merge(own, columns[rows])
            if self._policy(config) != "error":
                continue
            empty = form.contradicts_itself(columns[training])
            if empty.any():
                raise JobError(
                    f"{known.place}: the ranges contradict each other",
                    received=f"{int(empty.sum()):,} of {len(training):,} training samples have no "
                    "allowed answer",
                    help="correct the ranges; or set `model.inject.policy` to `drop` or "
                    "`repair`: then fedkg does not restrict these samples",
                )
            outside = form.predicts_outside(own[: len(training)])
            if outside.any() and not known.is_trained:  # a trained predictor can be wrong
                raise JobError(
                    f"{known.place}: predictions are outside their ranges",
                    received=f"{int(outside.sum()):,} of {len(training):,} training samples have "
                    "such a prediction",
                    help="correct the predictions or the ranges; or set `model.inject.policy` to "
                    "`drop` or `repair`: then fedkg ignores these predictions",
                )
        return np.concatenate([columns, place], axis=1)

    def _note_site_knowledge(self, config: TrialConfig) -> tuple[str, ...]:
        """Notes about knowledge of sites that contradicts itself or is about no sample; none for a
        protected job, because counts are not noised.
        """
        form, columns = self._column_form(config), self._known_columns(config)
        if config.job.model.inject is None or config.job.privacy is not None:
            return ()
        if form is None or columns is None or not self.site_knowledge:
            return ()
        site_split, unused = self.site_splits[config.split_key], list[str]()
        source, by_site = (
            with_pixel_names(self._read_samples(config).samples.source),
            dict[str, NDArray[np.float64]](),
        )
        for site, name in enumerate(site_split.split.sites):
            index = site_split.samples_at(site)
            by_site[name] = columns[index]
            if len(index) and name in self.site_knowledge:
                unused += self.site_knowledge[name].note_unused_lookups(source.take(index))
        return *note_contradictions(form, by_site), *unused

    def site_predictor(self, config: TrialConfig, name: str) -> TrainedPredictor | None:
        """The predictor that a site trained on its samples; None if it trains none."""
        known = self.site_knowledge[name]
        site = self.site_splits[config.split_key].split.sites.index(name)
        return self._predictor(config, site, known)

    def _predictor(
        self,
        config: TrialConfig,
        site: int,
        known: SiteKnowledge,
        chosen: NDArray[np.bool_] | None = None,
    ) -> TrainedPredictor | None:
        """The predictor that a site trains on its samples, or on some of them."""
        if known.train is None:
            return None
        index = self.site_splits[config.split_key].samples_at(site)
        data = with_pixel_names(self._read_samples(config).samples.source.take(index))
        if config.corrupt is not None and config.corrupt.site == known.site:
            labels = self._corrupt(config, torch.from_numpy(data.y)).numpy()
            kept: Any = labels.astype(data.y.dtype)
            data = replace(data, y=kept)
        return train_predictor(known, data if chosen is None else data.take(chosen))

    def _policy(self, config: TrialConfig) -> str:
        """What happens to training labels that ranges exclude."""
        inject = config.job.model.inject or self.job.injection
        default = "error" if self.job.privacy is None else "repair"
        return default if inject is None or inject.policy is None else inject.policy

    def _reconcile_labels(
        self, config: TrialConfig, clients: Clients, inputs: ModelInputs
    ) -> tuple[Clients, tuple[int, ...]]:
        """The sites after the policy for excluded labels, and how many labels each had."""
        form = self._column_form(config)
        if config.job.model.inject is None or form is None or "range" not in form.kinds:
            return clients, ()
        site_split, source = self.site_splits[config.split_key], self.samples.source
        known = dict(zip(source.features, source.units, strict=True))
        unit = target_of(self.samples, self.pack, self.output).unit
        numbers = ("",) if form.outputs is None else form.outputs.names
        found = reconcile_labels(
            clients,
            form,
            inputs.shape,
            self._policy(config),
            rows=[
                source.rows[index]
                for site in range(len(site_split.split.sites))
                if len(index := site_split.samples_at(site))  # others are no client
            ]
            if self.samples.complete
            else None,
            units=[known.get(name, unit) for name in numbers],
        )
        return found.clients, found.excluded

    def _name(self, target: str) -> str:
        """The output of the rules for a forecast feature; for other tasks the only output."""
        if not self._horizon:
            return self.output
        known = [
            column for column in self.pack.manifest.contract.columns if column.role == "output"
        ]
        return next(
            (column.name for column in known if target in (column.source, column.name)), target
        )

    def _choose_trusts(self, config: TrialConfig) -> tuple[Trust, tuple[str, ...]]:
        """The trust in predictions of a trial, and how cross-validation chose it."""
        inject = config.job.model.inject
        if inject is None:
            return 0.0, ()
        names = self.site_splits[config.split_key].split.sites
        common, said = self._choose_trust(config, inject, inject.trust)
        if not self.site_knowledge:
            return common, said
        shares, notes = [common], [*said]
        for name in names:
            own = self.site_knowledge.get(name)
            if own is None or own.trust is None:
                shares.append(common)
                continue
            share, said = self._choose_trust(config, inject, own.trust, name)
            shares.append(share)
            notes += said
        return SiteTrust(shares=tuple(shares)), tuple(notes)

    def _choose_trust(
        self, config: TrialConfig, inject: Inject, trust: float | str, site: str = ""
    ) -> tuple[float, tuple[str, ...]]:
        """A trust, by cross-validation if it is no number: over all sites, or at one that trains
        alone, so that nothing about its trust leaves it.
        """
        if trust != "cross_validate":
            return float(trust), ()
        sections = config.job.model, config.job.augment
        key = "|".join((site, config.split_key, *(part.model_dump_json() for part in sections)))
        if key not in self._trust:
            everyone = self._clients(
                config, self.site_splits[config.split_key], self._inputs(config)
            )
            places = [
                place for place, name in enumerate(everyone.names) if name == site or not site
            ]
            if site and (not places or not len(everyone.x[places[0]])):
                return 0.0, ()  # the samples of another site, which are not here
            clients = Clients(
                names=tuple(everyone.names[place] for place in places),
                x=tuple(everyone.x[place] for place in places),
                y=tuple(everyone.y[place] for place in places),
            )
            loss, rules = task_loss(self.samples.source.task, 1.0), self._rules(config)
            settings = trial_settings(config, self.pack, clients)
            found = select_trust(
                inject,
                clients,
                loss,
                lambda trust: self._model(config, trust, rules),
                settings,
                lambda chosen: self._with_trained_again(config, clients, chosen),
            )
            where = f"{site}: " if site else ""
            self._trust[key] = found.trust, f"{where}cross-validation chose {found.text()}"
        chosen, said = self._trust[key]
        return chosen, (said,)

    def _with_trained_again(
        self, config: TrialConfig, clients: Clients, chosen: Sequence[NDArray[np.bool_]]
    ) -> Clients:
        """The clients with predictors that their sites trained on the chosen samples alone."""
        form, site_split = self._column_form(config), self.site_splits[config.split_key]
        if form is None or not any(one.train for one in self.site_knowledge.values()):
            return clients
        source, x = with_pixel_names(self._read_samples(config).samples.source), list(clients.x)
        for place, name in enumerate(clients.names):
            known = self.site_knowledge.get(name)
            if known is None or known.train is None:
                continue
            site = site_split.split.sites.index(name)
            data = source.take(site_split.samples_at(site))
            predictor = self._predictor(config, site, known, np.asarray(chosen[place]))
            columns = site_columns(known, predictor, data, form)
            common = form.encode_pack(self.pack, data)
            if common is not None:
                columns = form.merge(columns, common)
            x[place] = with_columns(x[place], self._inputs(config).shape, form, columns)
        return replace(clients, x=tuple(x))

    def _clients(self, config: TrialConfig, site_split: SiteSplit, inputs: ModelInputs) -> Clients:
        """The sites with their samples, after any corruption.

        Their inputs are contiguous and end with a row of zeros.
        """
        scaled = self.samples.scaled  # without its inputs, which may be large
        targets = replace(
            scaled.source, x=np.zeros((scaled.source.samples, 1), dtype=np.float32), y=scaled.y
        ).take(site_split.rows)
        together = inputs.contiguous_rows(site_split.all_samples())
        if not self.samples.complete:
            return self._clients_here(targets, site_split.split, together)
        clients = clients_of(targets, site_split.split)
        y = dict(zip(clients.names, clients.y, strict=True))
        if config.corrupt is not None:
            y[config.corrupt.site] = self._corrupt(config, y[config.corrupt.site])
        return Clients(
            names=clients.names,
            x=torch.split(together[:-1], list(clients.samples)),
            y=tuple(y.values()),
        )

    def _clients_here(self, targets: DataSet, split: Split, together: Tensor) -> Clients:
        """The sites with the samples that are here, and the numbers of the others' samples."""
        kind = torch.int64 if targets.task == "classes" else torch.float32
        return Clients(
            names=split.sites,
            x=torch.split(together[:-1], [len(own) for own in split.index]),
            y=tuple(torch.from_numpy(targets.y[own]).to(kind) for own in split.index),
            counts=tuple(one.rows[TRAIN] for one in self.samples.sites.values()),
        )

    def _corrupt(self, config: TrialConfig, y: Tensor) -> Tensor:
        """The labels of the corrupted site; see `corrupt_labels`."""
        assert config.corrupt is not None, "called for trials with a corrupted site"
        last = (
            1 if self.samples.source.task == "detection" else len(self.samples.source.classes) - 1
        )
        stream = np.random.Generator(np.random.PCG64([config.seed, 3]))
        return corrupt_labels(y, config.corrupt, stream, last)

    def _positive_weight(self, config: TrialConfig) -> float:
        summary = self.samples.summary
        positives = summary.positives(TRAIN) or 0
        return positive_weight(config.job, positives, summary.rows[TRAIN] - positives)

    def _keys(self, rules: SampleRules, site_split: SiteSplit) -> dict[str, tuple[Tensor, ...]]:
        sites = [
            site
            for site in range(len(site_split.split.sites))
            if len(site_split.samples_at(site)) or not self.samples.complete
        ]
        each = [rules.codes_at(torch.from_numpy(site_split.samples_at(site))) for site in sites]
        return {name: tuple(one[name] for one in each) for name in rules.codes}

    def _server_data(self, rules: SampleRules, inputs: ModelInputs, server: Index) -> Clients:
        index = torch.from_numpy(server)
        y = torch.from_numpy(self.samples.scaled.y[server])
        y = y if self.samples.source.task == "classes" else y.to(torch.float32)
        return Clients(
            names=("the server",),
            x=(inputs.contiguous_rows(server)[:-1],),
            y=(y,),
            keys={name: (codes,) for name, codes in rules.codes_at(index).items()},
        )

    @property
    def _has_steps_of_rules(self) -> bool:
        """Whether a step of the data is a step of the rules' timeline."""
        if self.samples.frame is not None:
            return True
        step, data = self.pack.manifest.contract.step, self.samples.source
        return step is None or step == data.step * SECONDS.get(data.step_unit, 1.0)

    def _scorer(self, config: TrialConfig, rules: SampleRules, model: Model) -> Scorer | None:
        """The server's scorer: on probe samples, and on traces of its consecutive samples if rules
        compare rows.
        """
        inputs, frame = self._inputs(config), self.site_splits[config.split_key].frame
        if not len(self.samples.rows(SERVER)):
            return None
        if frame is not None:
            single = self._table_scorer(config, rules, model, frame)
        else:
            probe = self._probe(config)
            single = rules.scorer(model, inputs.rows_at(probe), torch.from_numpy(probe))
        if not (
            isinstance(single, PackScorer)
            and rules.across_rows
            and self.samples.ordered
            and self._has_steps_of_rules
        ):
            return single
        assert rules.rows is not None, "scored on rows"
        server = self.samples.rows(SERVER)
        timing = (
            site_timing(self.samples.source.take(server))
            if frame is None
            else timing_by_key(rules, frame.take(server), server)
        )
        places = consecutive_traces(timing, horizon_of(rules.pack), config.job.scoring.probe_rows)
        if places is None:
            return single
        index = torch.from_numpy(server[places])
        x = inputs.rows_at(index.flatten()).reshape(*index.shape, -1)
        return TraceScorer(single, model, rules.rows, x, keys=rules.codes_at(index))

    def _table_scorer(
        self, config: TrialConfig, rules: SampleRules, model: Model, frame: Frame
    ) -> Scorer | None:
        """The scorer on rows of the server's table; see `probe_rows`."""
        if rules.rows is None:
            return None
        server, scoring = self.samples.rows(SERVER), config.job.scoring
        own = frame.take(server).with_numbers(SAMPLE_COLUMN, server.astype(np.float64))
        probe = probe_rows(self.pack, own, scoring, config.job.data.seed)
        x = self._inputs(config).rows_at(probe.numbers(SAMPLE_COLUMN).astype(np.int64))
        codes = {name: rules.rows.codes(name, probe.texts(name)) for name in rules.codes}
        if config.job.training.projection:
            used = categories_read(about_outputs(self.pack))
            for place, column in enumerate(used, start=x.shape[1] - len(used)):
                x[:, place] = torch.from_numpy(codes_of(column, self.samples.source, probe))
        return PackScorer(model, rules.rows, x, keys=codes)

    def _probe(self, config: TrialConfig) -> Index:
        """The samples on which the server scores models."""
        stream = np.random.Generator(np.random.PCG64([config.job.data.seed, 4]))
        return np.sort(
            stream.permutation(self.samples.rows(SERVER))[: config.job.scoring.probe_rows]
        )

    def _properties(self, config: TrialConfig, clients: Clients, share: float) -> Inferred | None:
        """The properties mined from the sites' series; None if the rules infer nothing about
        forecasts.
        """
        if not (self._horizon and self.pack.manifest.inferences):
            return None
        section, privacy = algorithm_section(config.job), config.job.privacy
        used = section.grouping.fedstl is not None or section.excluded_by == "properties"
        mining = None if not used or privacy is None else privacy.mined
        key = f"{config.split_key}|{share}|{mining}|{self._sample_key(config)}"
        if config.job.simulation.attacks.changes == "labels":
            key += config.job.simulation.model_dump_json()
        own = (key, config.job.model.inject is None)  # the shared inputs have columns of knowledge
        if own not in self._mined:
            outputs = self.samples.scaled.outputs
            assert outputs is not None, "forecasts are numbers"
            layout, steps = input_layout(outputs), self._horizon
            if mining is None:
                self._mined[own] = self.infer(config, clients, layout, share)
            else:
                x, y = self._probe_samples(config)
                seed = derive_seed(
                    config.seed, key, pack_digest(self.pack), client_data_digest(clients)
                )  # never repeat noise for other settings or samples
                self._mined[own] = inferred_privately(
                    self.pack,
                    clients,
                    layout,
                    steps=steps,
                    x=x,
                    y=y,
                    epsilon=mining.epsilon,
                    share=mining.share,
                    seed=seed,
                    randomness="system" if has_system_noise(self.job) else "seeded",
                )
        return self._mined[own]

    def infer(
        self, config: TrialConfig, clients: Clients, layout: InputLayout, share: float
    ) -> Inferred:
        """The properties mined from the sites' series, and the samples that sites share."""
        return inferred(
            self.pack, clients, layout, steps=self._horizon, share=share, seed=config.seed
        )

    def note_properties(self, config: TrialConfig, found: Inferred | None) -> tuple[str, ...]:
        """Which rules and properties the teachers of sites do not include."""
        return () if found is None else found.own.notes

    def count_excluded_labels(
        self, config: TrialConfig, excluded: Sequence[int]
    ) -> tuple[int, ...]:
        """The number of training labels of each site that injected ranges exclude; no numbers for
        a protected job, because they are not noised.
        """
        return () if config.job.privacy is not None else tuple(excluded)

    def _probe_samples(self, config: TrialConfig) -> tuple[Tensor, Tensor]:
        """The server's probe samples with their targets."""
        probe = self._probe(config)
        return self._inputs(config).rows_at(probe), torch.from_numpy(
            self.samples.scaled.y[probe]
        ).to(torch.float32)


def _attacked_clients(problem: Problem, seed: int) -> Clients:
    """The clients as they mine properties before the first round: attackers from then on may have
    wrong labels.
    """
    attack = problem.attack
    if attack is None or attack.changes != "labels" or attack.first_round > 1:
        return problem.clients
    return attack.with_wrong_labels(problem, seed).clients


def _reject_for_survival(job: Job, which: str) -> None:
    """Reject settings that need the loss of a single sample, or a target that is one number."""
    known = {
        "privacy.unit: example": job.privacy is not None and job.privacy.unit == "example",
        "simulation.attacks of labels": job.simulation.attacks.changes == "labels",
        "model.inject": job.model.inject is not None,
        "data.window": job.data.window is not None,
    }
    reasons = {
        "privacy.unit: example": "the Cox loss of a sample depends on all samples of its minibatch",
        "simulation.attacks of labels": "a time and an event have no opposite",
        "model.inject": "knowledge allows or predicts one number, not a time and an event",
        "data.window": "windows have one label",
    }
    for name, used in known.items():
        if used:
            raise JobError(
                f"{name} does not apply to survival (times and events), because {reasons[name]}",
                received=which,
                help="set `privacy.unit: client`, which protects a site"
                if name.startswith("privacy")
                else "set another `simulation.attacks.kind`, such as constant_model"
                if name.startswith("simulation")
                else f"remove `{name}`",
            )


def timing_by_key(rules: SampleRules, frame: Frame, index: Index) -> Timing:
    """The timing of the rows of a table at `index`, with a trace for every machine and variant by
    which rules select rows.
    """
    timing = row_timing(rules.pack, frame)
    codes = [one.numpy() for one in rules.codes_at(torch.from_numpy(index)).values()]
    _, trace = np.unique(np.stack([timing.trace, *codes]), axis=1, return_inverse=True)
    trace = np.where(timing.trace < 0, -1, trace.ravel())
    return Timing(trace=trace, step=timing.step, gaps=timing.gaps, end=timing.end)


def frames_by_site(frame: Frame, sites: Collection[str]) -> list[Frame]:
    """The tables of sites as read, so that rules over several rows see them in order; the whole
    table if sites share it.
    """
    if not sites:
        return [frame]
    names = frame.columns[SITE_COLUMN]
    return [frame.take(names == site) for site in sites]


def create_experiment(job: Job, pack: Pack) -> Experiment:
    """The experiment of a job.

    Raises:
        JobError, TableError: a field, file or column is wrong; the message names it.
    """
    samples = read_job_tables(job, pack) if job.data.set is None else read_samples(job, pack)
    output = choose_output(job, pack)
    return Experiment(
        job=job,
        pack=pack,
        samples=samples,
        output=output,
        site_knowledge=load_site_knowledge(
            job, with_pixel_names(samples.source), target_of(samples, pack, output)
        ),
        _graphs=GraphCache(pack),
    )


def target_of(samples: Samples, pack: Pack, output: str) -> Target:
    """What the models of a run predict."""
    column = next((one for one in pack.manifest.contract.columns if one.name == output), None)
    return Target(
        name=output,
        task=samples.source.task,
        classes=samples.source.classes if samples.source.task == "classes" else (),
        unit="" if column is None else column.unit,
        span=None if column is None else column.span,
    )
