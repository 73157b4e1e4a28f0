"""One training of a run, and figures of its models on the test samples, by site, rule and
property.

Letters: N test samples, K sites, S sites that share a model, H outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.data import Frame
from fedkg.data.partition import positions_by_owner
from fedkg.federated import Algorithm, Clients, Problem, ServerState, Settings
from fedkg.federated.executors import Work
from fedkg.federated.executors.protocol import SiteExecutor
from fedkg.federated.metrics import best_threshold
from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.federated.problem import pool
from fedkg.federated.temporal.client_property_mining import Inferred
from fedkg.federated.temporal.distinct_mined_properties import used_properties
from fedkg.federated.temporal.forecast_scores import Judged, Kept, Scores, judge_client
from fedkg.federated.temporal.forecast_scores import judged as judged_properties
from fedkg.federated.temporal.properties import as_traces
from fedkg.jobs.comparison_metric import MEASURES
from fedkg.jobs.experiment.forecast_baselines import baseline_rows, site_forecasts, value_rows
from fedkg.jobs.experiment.injected_knowledge_metrics import knowledge_rows, knowledge_sums
from fedkg.jobs.experiment.knowledge_feature_columns import ColumnForm
from fedkg.jobs.experiment.model_inputs import ModelInputs
from fedkg.jobs.experiment.prediction_incidents import find_prediction_incidents
from fedkg.jobs.experiment.rule_evaluation import Deployed, evaluate_rows, rule_rows
from fedkg.jobs.experiment.rules_on_samples import SampleRules, Verdicts, tally_forecasts
from fedkg.jobs.experiment.sample_preparation import Index, Samples
from fedkg.jobs.experiment.site_sample_statistics import SERVER, TEST
from fedkg.jobs.experiment.task_metrics import (
    compute_figures,
    figure_sums,
    figures_of,
    mean_figures,
)
from fedkg.jobs.folder import Row
from fedkg.jobs.learned_knowledge_reader import property_rows
from fedkg.jobs.model_distance_to_sets import set_distance_rows
from fedkg.jobs.result_rows import RuleTally, merge_tallies, site_row
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section
from fedkg.learned_knowledge_records import CausalEdge, TimeRange
from fedkg.models import Params
from fedkg.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """What a model does on the test samples of the S sites that deploy it.

    Attributes:
        sites: positions of the sites.
        sums: float64 [S, sums], see `figure_sums`.
        counts: int64 [S, 4]: test samples, positive labels among them, violated and evaluated
            cases of the rules that fire at one of these sites.
        knowledge: float64 [S, sums], see `knowledge_sums`; [S, 0] if no trial injects knowledge.
        tallies: counts of each rule by its position, for all S sites together.
    """

    sites: tuple[int, ...]
    sums: Tensor
    counts: Tensor
    tallies: Mapping[int, RuleTally]
    knowledge: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One training of a run, ready to start.

    Attributes:
        config: the configuration of the trial.
        samples: the samples that the trial reads.
        pack: the rules of the job.
        output: the output or label that the model predicts.
        problem: the model, loss and clients of the federation.
        algorithm: the federated algorithm.
        settings: the settings of the federated training, with the seed of the trial.
        rules: the rules about the model's outputs.
        inputs: model inputs of all samples of the run.
        owner: the site that each test sample belongs to; -1 for none.
        time_ranges: first and last time of each site's samples; None without times.
        shared: whether all models are evaluated on all test samples, and figures are means over
            models.
        frame: the table of the samples; None for data sets.
        inferred: properties mined from the sites' series.
        sets: parameter sets of the sites.
        edges: the discovered causal edges, if models read augmented states.
        notes: remarks for the user, shown with the first round.
        known: knowledge about all samples of the run, which `form` describes; None without.
        form: the form of `known`.
        excluded: the number of training labels of each site that injected ranges exclude.
        remote: asks sites that keep their data to train; None if all data are here.
    """

    config: TrialConfig
    samples: Samples
    pack: Pack
    output: str
    problem: Problem
    algorithm: Algorithm
    settings: Settings
    rules: SampleRules
    inputs: ModelInputs
    owner: Index
    time_ranges: tuple[TimeRange | None, ...]
    shared: bool
    frame: Frame | None = None
    inferred: Inferred | None = None
    sets: AgentSets | None = None
    edges: tuple[CausalEdge, ...] = ()
    notes: tuple[str, ...] = ()
    known: NDArray[np.float64] | None = None
    form: ColumnForm | None = None
    excluded: tuple[int, ...] = ()
    remote: SiteExecutor | None = None

    def figures(
        self, models: Sequence[Params], state: ServerState | None = None
    ) -> dict[str, float]:
        """The figures of `rounds.csv` on the test samples.

        Args:
            models: the one model of all sites, or one model per site. If sites have test samples,
                each site's model predicts its own; otherwise figures are means over models.
            state: the state of the server; sites that keep their data need it.
        """
        if self.shared:
            test = self.samples.rows(TEST)
            return mean_figures([self._figures(params, test) for params in models])
        threshold = self.threshold(models[0])
        sums = self.site_sums(models, threshold)
        return figures_of(self.samples.summary.task, torch.stack(sums).sum(0), threshold)

    def site_sums(self, models: Sequence[Params], threshold: float) -> list[Tensor]:
        """The `figure_sums` of each site's test samples."""
        test = self.samples.rows(TEST)
        return [
            self._sums(self._answers(params, test[own]), test[own], threshold)
            for params, own in zip(self._site_models(models), self._test_positions(), strict=True)
        ]

    def final_rows(self, models: Sequence[Params], state: Any) -> Mapping[str, list[Row]]:
        """Rows for the tables of a finished trial (`rules.csv`, `sites.csv`, ...).

        `Any`: the last server state.
        """
        names = self.problem.clients.names
        return {
            **self.evaluation_rows(self.evaluate_sites(models)),
            "forecasts.csv": self._forecasts(state),
            "sets.csv": set_distance_rows(self.config.id, names, models, self.sets),
            "properties.csv": self._properties(),
            **self._baselines(models),
            **({"causes.csv": self._causes()} if self.edges else {}),
        }

    def evaluation_rows(self, found: Sequence[Evaluation]) -> dict[str, list[Row]]:
        """Rows of `rules.csv`, `sites.csv` and `knowledge.csv` from the evaluations of all
        sites.
        """
        names, task = self.problem.clients.names, self.samples.summary.task
        each = [] if self.form is None else [row for one in found for row in one.knowledge]
        tallies = merge_tallies(one.tallies for one in found)
        known = knowledge_rows(
            self.config.id,
            [names[site] for one in found for site in one.sites],
            each,
            task,
            MEASURES[task].name,
        )
        return {
            "rules.csv": self._rule_rows(tallies),
            "sites.csv": [
                self._site(one, row, tallies) for one in found for row in range(len(one.sites))
            ],
            **({"knowledge.csv": known} if known else {}),
        }

    def evaluate_sites(self, models: Sequence[Params]) -> list[Evaluation]:
        """The evaluation of every site, in their order.

        Sites that share a model and whose samples come from one table are evaluated together.
        """
        names = self.problem.clients.names
        together = len(models) == 1 and not self.samples.sites
        groups = [list(range(len(names)))] if together else [[site] for site in range(len(names))]
        return [
            self.evaluate(params, members, self.threshold(params))
            for params, members in zip(
                models if together else self._site_models(models), groups, strict=True
            )
        ]

    def evaluate(self, params: Params, members: Sequence[int], threshold: float) -> Evaluation:
        """The evaluation of a model on the test samples of the sites that deploy it."""
        test, places = self.samples.rows(TEST), self._test_positions()
        own = [test[places[site]] for site in members]
        together = np.concatenate(own)
        answers = torch.split(self._answers(params, together), [len(rows) for rows in own])
        verdicts, tallies = self._evaluate_rules(params, members)
        positives = [0] * len(own)
        if self.samples.summary.task == "detection":
            positives = [int((self._targets(rows) > 0.5).sum()) for rows in own]
        sums = [self._sums(one, rows, threshold) for rows, one in zip(own, answers, strict=True)]
        knowledge = [
            self._knowledge_sums(rows, one, threshold)
            for rows, one in zip(own, answers, strict=True)
        ]
        return Evaluation(
            sites=tuple(members),
            sums=torch.stack(sums),
            knowledge=torch.stack(knowledge),
            counts=torch.tensor(
                [
                    (len(rows), positive, *verdict)
                    for rows, positive, verdict in zip(own, positives, verdicts, strict=True)
                ],
                dtype=torch.int64,
            ),
            tallies=tallies,
        )

    def _evaluate_rules(
        self, params: Params, members: Sequence[int]
    ) -> tuple[list[tuple[int, int]], dict[int, RuleTally]]:
        """Violated and evaluated cases of each site with this model, without those of rules that
        fire nowhere, and counts of each rule.
        """
        test, places = self.samples.rows(TEST), self._test_positions()
        if self.rules.module is None:
            return [(0, 0)] * len(members), {}
        if self.rules.forecasts is not None:
            own = [test[places[site]] for site in members]
            index = torch.from_numpy(np.concatenate(own))
            if not len(index):
                return [(0, 0)] * len(members), {}
            found = self.rules.forecast_verdicts(self.problem.model, params, self.inputs, index)
            tallies = tally_forecasts(self.rules, found, index, self.samples.source)
            owner = torch.cat([bank.rule for bank in self.rules.module.banks if bank.rows])
            fired = [rule for rule, tally in tallies.items() if tally.applied]
            counted = torch.isin(owner, torch.tensor(fired, dtype=owner.dtype))
            return _site_counts(found, counted, [len(rows) for rows in own]), tallies
        deployed = self._deployed(params, members)
        evaluated = evaluate_rows(
            self.rules,
            self.samples,
            self.frame,
            self.inputs,
            self.problem.model,
            self.output,
            [deployed],
        )
        asked = self._asked(members)
        mine = [np.isin(asked, places[site]) for site in members]
        counts = [
            (int(evaluated.violated[0][own].sum()), int(evaluated.evaluations[0][own].sum()))
            for own in mine
        ]
        return counts, evaluated.rules

    def _rule_rows(self, tallies: Mapping[int, RuleTally]) -> list[Row]:
        """Rows of `rules.csv`; none without rules or test samples."""
        if self.rules.module is None or not self.samples.summary.rows[TEST]:
            return []
        return rule_rows(self.rules, tallies, self.samples, self.config.id)

    def _asked(self, members: Sequence[int]) -> Index:
        """Positions of the test samples that the model of these sites answers: those of the sites
        and, if rules compare rows and a random split deals rows to the sites, all others.
        """
        if self.shared and (self._is_common(members) or self.rules.across_rows):
            return np.arange(len(self.owner))
        return np.flatnonzero(np.isin(self.owner, list(members)))

    def _is_common(self, members: Sequence[int]) -> bool:
        return len(members) == len(self.problem.clients.names)

    def _deployed(self, params: Params, members: Sequence[int]) -> Deployed:
        """The model of these sites with its test samples."""
        asked = self._asked(members)
        counted = np.isin(self.owner[asked], list(members))
        counted |= self.shared and self._is_common(members)
        return Deployed(params=params, index=self.samples.rows(TEST)[asked], counted=counted)

    def incidents(self, models: Sequence[Params]) -> dict[str, Any] | None:
        """Where the answers on test samples violate rules about outputs. `Any`: JSON.

        None without rules or violations. See `find_prediction_incidents`.
        """
        if self.rules.module is None:
            return None
        test, names = self.samples.rows(TEST), self.problem.clients.names
        places = self._test_positions()
        sites = (
            (name, params, test[own])
            for name, params, own in zip(names, self._site_models(models), places, strict=True)
            if len(own)
        )
        return find_prediction_incidents(self, sites, sum(len(own) > 0 for own in places))

    def _causes(self) -> list[Row]:
        """Rows of `causes.csv`, strongest edge first."""
        return [
            {
                "trial": self.config.id,
                "driver": one.driver,
                "driven": one.driven,
                "strength": one.strength,
                "lag": one.lag,
            }
            for one in self.edges
        ]

    def _baselines(self, models: Sequence[Params]) -> dict[str, list[Row]]:
        """Rows of `baselines.csv` and `forecast_values.csv`; none unless the task is a forecast.

        None under privacy either, because the rows contain measured values.
        """
        scaling = self.samples.scaled.outputs
        if (
            self.samples.summary.task != "forecast"
            or self.samples.source.x.ndim != 3
            or scaling is None
            or self.config.job.privacy is not None
        ):
            return {}
        test, names = self.samples.rows(TEST), self.problem.clients.names
        found = []
        for name, params, own in zip(
            names, self._site_models(models), self._test_positions(), strict=True
        ):
            if len(own):
                answers = self._answers(params, test[own]).detach().cpu().double().numpy()
                answers = self.samples.scaled.quantities(answers)
                found.append(site_forecasts(self.samples, name, test[own], answers))
        return {
            "baselines.csv": baseline_rows(self.config.id, found, scaling.std),
            "forecast_values.csv": value_rows(self.config.id, found, self.samples),
        }

    def _properties(self) -> list[Row]:
        """Rows of `properties.csv`.

        Under privacy only of privately mined properties in the ledger.
        """
        clients, found = self.problem.clients, None if self.inferred is None else self.inferred.own
        if self.config.job.privacy is not None and (
            found is None or found.epsilon is None or found not in used_properties(self.algorithm)
        ):
            return []
        time_ranges = (
            self.time_ranges if self.config.job.privacy is None else (None,) * len(self.time_ranges)
        )
        return property_rows(self.config.id, clients.names, clients.samples, found, time_ranges)

    def _site_models(self, models: Sequence[Params]) -> Iterator[Params]:
        """The model of every site."""
        return (
            models[min(site, len(models) - 1)] for site in range(len(self.problem.clients.names))
        )

    def _test_positions(self) -> list[Index]:
        """Positions of each site's test samples among all test samples."""
        return list(positions_by_owner(self.owner, len(self.problem.clients.names)))

    def _targets(self, rows: Index) -> Tensor:
        return torch.from_numpy(self.samples.scaled.y[rows])

    def _figures(self, params: Params, rows: Index) -> dict[str, float]:
        return compute_figures(
            self.samples.scaled,
            self._answers(params, rows),
            self._targets(rows),
            self.threshold(params),
        )

    def threshold(self, params: Params) -> float:
        """The threshold of alarms: that of the job, or the best one on the server's samples."""
        given = self.config.job.evaluation.threshold
        if not isinstance(given, str):
            return float(given)
        server = self.samples.rows(SERVER)
        logits = self._answers(params, server).squeeze(-1)
        return best_threshold(torch.sigmoid(logits), self._targets(server))

    def _answers(self, params: Params, rows: Index) -> Tensor:
        """Outputs of a model for the samples at these positions, [N, H]; [0, 0] for none."""
        if not len(rows):
            return torch.empty(0, 0)
        return self.rules.answers(self.problem.model, params, self.inputs, rows)

    def _sums(self, answers: Tensor, rows: Index, threshold: float) -> Tensor:
        return figure_sums(self.samples.scaled, answers, self._targets(rows), threshold)

    def _knowledge_sums(self, rows: Index, answers: Tensor, threshold: float) -> Tensor:
        """The sums of knowledge on test samples at these positions; [0] without knowledge."""
        if self.known is None or self.form is None:
            return torch.zeros(0, dtype=torch.float64)
        y, columns = self._targets(rows), self.known[rows]
        return knowledge_sums(self.samples.scaled, self.form, columns, answers, y, threshold)

    def _site(self, found: Evaluation, row: int, tallies: Mapping[int, RuleTally]) -> Row:
        """The row of `sites.csv` of one site of an evaluation.

        Args:
            tallies: of all sites. Cases of rules that fire at no site do not count. An evaluation
                of several sites is of all of them; that of one site lacks what fires elsewhere.
        """
        clients, task = self.problem.clients, self.samples.summary.task
        test_rows, positives, violated, evaluations = found.counts[row].tolist()
        evaluations += sum(
            own.evaluations
            for rule, own in found.tallies.items()
            if tallies[rule].applied and not own.applied
        )
        return site_row(
            self.config.id,
            clients.names[found.sites[row]],
            samples=clients.samples[found.sites[row]],
            test_rows=test_rows,
            positives=positives if task == "detection" else None,
            figures=figures_of(task, found.sums[row], math.nan),
            violated=violated,
            evaluations=evaluations,
        )

    def _forecasts(self, state: Any) -> list[Row]:
        """Rows of `forecasts.csv`: errors and satisfied properties by kind of model.

        `Any`: the state.
        """
        places = self._test_positions()
        if self.inferred is None or not all(len(own) for own in places):
            return []
        test, clients = self.samples.rows(TEST), self.problem.clients
        each = [torch.from_numpy(test[own]) for own in places]
        y = torch.from_numpy(self.samples.scaled.y)
        held = Clients(
            names=clients.names,
            x=tuple(self.inputs.rows_at(index) for index in each),
            y=tuple(y[index].to(torch.float32) for index in each),
        )
        work = Work(
            problem=self.problem,
            algorithm=self.algorithm,
            settings=self.settings,
            pool=pool(clients),
        )
        return self.forecast_rows(judged_properties(work, state, self.inferred, held))

    def judge_forecasts(self, site: int, own: Params, cluster: Params) -> Scores | None:
        """The scores of one site's forecasts; None without properties or test samples.

        Args:
            own: the model that the site uses.
            cluster: the server's model for the site.
        """
        test = self.samples.rows(TEST)[self._test_positions()[site]]
        if self.inferred is None or not len(test):
            return None
        properties = self.inferred.own
        y = torch.from_numpy(self.samples.scaled.y[test]).to(torch.float32)
        truth = as_traces(y, properties.steps, len(properties.layout.names))
        x = self.inputs.rows_at(test)
        model = self.problem.model
        return judge_client(model, properties, own, cluster, x, truth, site)

    def forecast_rows(self, found: Judged) -> list[Row]:
        """Rows of `forecasts.csv`: errors and satisfied properties by kind of model."""
        names = self.problem.clients.names
        section = algorithm_section(self.config.job)
        clustered = section.grouping.fedstl is not None or section.grouping.ifca is not None
        kinds: dict[str, Kept] = {
            "client": found.client,
            **({"cluster": found.cluster} if clustered else {}),
        }
        kinds |= {"teacher": found.teacher, "truth": found.truth}
        return [
            {"trial": self.config.id, "by": by, "sites": len(names), **_spread(kept)}
            for by, kept in kinds.items()
        ]


def _site_counts(found: Verdicts, counted: Tensor, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Violated and evaluated cases of each site.

    Args:
        found: verdicts on the samples of all sites, one site after the other.
        counted: bool [M], the constraints that count.
    """
    violated, evaluations = (
        [int(part.sum()) for part in torch.split(verdicts[:, counted].sum(1), list(sizes))]
        for verdicts in (found.violated, found.evaluated)
    )
    return list(zip(violated, evaluations, strict=True))


def _spread(kept: Kept) -> dict[str, float]:
    """Each figure's mean over the sites, and half the width of its 95 % interval."""
    found: dict[str, float] = {}
    for name, (mean, half) in kept.mean().items():
        found |= {name: mean, f"{name}_half": half}
    return found
