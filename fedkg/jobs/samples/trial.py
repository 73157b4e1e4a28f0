"""One training of a run, and figures of its models on the test samples, by site, rule and
property.

Letters: N test samples, K sites, H outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkg.data import Frame
from fedkg.data.partition import positions_by_owner
from fedkg.federated import Algorithm, Clients, Problem, Settings
from fedkg.federated.executors import Work
from fedkg.federated.metrics import best_threshold
from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.federated.problem import pool
from fedkg.federated.temporal.forecast_scores import Kept
from fedkg.federated.temporal.forecast_scores import judged as judged_properties
from fedkg.federated.temporal.shared_samples import Inferred
from fedkg.federated.temporal.used_properties import used_properties
from fedkg.jobs.folder import Row
from fedkg.jobs.learned_results import property_rows
from fedkg.jobs.parameter_set_distances import set_distance_rows
from fedkg.jobs.result_rows import site_row
from fedkg.jobs.samples.inputs import ModelInputs
from fedkg.jobs.samples.rule_evaluation import Deployed, evaluate_rows, rule_rows
from fedkg.jobs.samples.rules_on_samples import SampleRules, Verdicts, forecast_rule_rows
from fedkg.jobs.samples.sample_preparation import SERVER, TEST, Index, Samples
from fedkg.jobs.samples.task_metrics import compute_figures, mean_figures
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section
from fedkg.learned_knowledge import CausalEdge, TimeRange
from fedkg.models import Params
from fedkg.pack import Pack


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

    def figures(self, models: Sequence[Params]) -> dict[str, float]:
        """The figures of `rounds.csv` on the test samples.

        Args:
            models: the one model of all sites, or one model per site. If sites have test samples,
                each site's model predicts its own; otherwise figures are means over models.
        """
        test = self.samples.rows(TEST)
        if self.shared:
            return mean_figures([self._figures(params, test) for params in models])
        places = self._test_positions()
        answers = torch.cat(
            [
                self._answers(params, test[own])
                for params, own in zip(self._site_models(models), places, strict=True)
                if len(own)
            ]
        )
        targets = self._targets(test[np.concatenate([own for own in places if len(own)])])
        return compute_figures(self.samples.scaled, answers, targets, self._threshold(models[0]))

    def final_rows(self, models: Sequence[Params], state: Any) -> Mapping[str, list[Row]]:
        """Rows for the tables of a finished trial (`rules.csv`, `sites.csv`, ...).

        `Any`: the last server state.
        """
        test, places = self.samples.rows(TEST), self._test_positions()
        common = len(models) == 1
        sharing = [range(len(places))] if common else [[site] for site in range(len(places))]
        rules, counts = self._evaluate_rules(models, sharing)
        sites: list[Row] = []
        for params, members in zip(models, sharing, strict=True):
            own = [test[places[site]] for site in members]
            together = np.concatenate(own)
            threshold = self._threshold(params) if len(together) else math.nan
            answers = torch.split(self._answers(params, together), [len(rows) for rows in own])
            sites += [
                self._site(site, rows, one, threshold, *counts[site])
                for site, rows, one in zip(members, own, answers, strict=True)
            ]
        return {
            "rules.csv": rules,
            "sites.csv": sites,
            "forecasts.csv": self._forecasts(state),
            "sets.csv": set_distance_rows(
                self.config.id, self.problem.clients.names, models, self.sets
            ),
            "properties.csv": self._properties(),
            **({"causes.csv": self._causes()} if self.edges else {}),
        }

    def _evaluate_rules(
        self, models: Sequence[Params], sharing: Sequence[Sequence[int]]
    ) -> tuple[list[Row], list[tuple[int, int]]]:
        """Rows of `rules.csv`, and violated and evaluated cases of each site.

        Args:
            sharing: the sites of each model.
        """
        test, places = self.samples.rows(TEST), self._test_positions()
        counts = [(0, 0)] * len(places)
        if self.rules.module is None or not len(test):
            return [], counts
        if self.rules.forecasts is not None:
            verdicts: list[tuple[Verdicts, Tensor]] = []
            for params, members in zip(models, sharing, strict=True):
                own = [test[places[site]] for site in members]
                index = torch.from_numpy(np.concatenate(own))
                if len(index):
                    model = self.problem.model
                    found = self.rules.forecast_verdicts(model, params, self.inputs, index)
                    verdicts.append((found, index))
                    sizes = [len(rows) for rows in own]
                    for site, count in zip(members, _site_counts(found, sizes), strict=True):
                        counts[site] = count
            return (
                forecast_rule_rows(self.rules, verdicts, self.samples.source, self.config.id),
                counts,
            )
        evaluated = evaluate_rows(
            self.rules,
            self.samples,
            self.frame,
            self.inputs,
            self.problem.model,
            self.output,
            [
                self._deployed(params, members)
                for params, members in zip(models, sharing, strict=True)
            ],
        )
        for which, members in enumerate(sharing):
            asked = self._asked(members)
            for site in members:
                mine = np.isin(asked, places[site])
                counts[site] = (
                    int(evaluated.violated[which][mine].sum()),
                    int(evaluated.evaluations[which][mine].sum()),
                )
        return rule_rows(self.rules, evaluated, self.samples, self.config.id), counts

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
            self._threshold(params),
        )

    def _threshold(self, params: Params) -> float:
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

    def _site(
        self,
        site: int,
        rows: Index,
        answers: Tensor,
        threshold: float,
        violated: int,
        evaluations: int,
    ) -> Row:
        targets = self._targets(rows)
        figures = compute_figures(self.samples.scaled, answers, targets, threshold)
        detection = self.samples.source.task == "detection"
        clients = self.problem.clients
        return site_row(
            self.config.id,
            clients.names[site],
            samples=clients.samples[site],
            test_rows=len(rows),
            positives=int((targets > 0.5).sum()) if detection else None,
            figures=figures,
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
        found = judged_properties(work, state, self.inferred, held)
        section = algorithm_section(self.config.job)
        clustered = section.grouping.fedstl is not None or section.grouping.ifca is not None
        kinds: dict[str, Kept] = {
            "client": found.client,
            **({"cluster": found.cluster} if clustered else {}),
        }
        kinds |= {"teacher": found.teacher, "truth": found.truth}
        return [
            {"trial": self.config.id, "by": by, "sites": len(clients.names), **_spread(kept)}
            for by, kept in kinds.items()
        ]


def _site_counts(found: Verdicts, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Violated and evaluated cases of each site.

    Args:
        found: verdicts on the samples of all sites, one site after the other.
    """
    violated, evaluations = (
        [int(part.sum()) for part in torch.split(verdicts.sum(1), list(sizes))]
        for verdicts in (found.violated, found.evaluated)
    )
    return list(zip(violated, evaluations, strict=True))


def _spread(kept: Kept) -> dict[str, float]:
    """Each figure's mean over the sites, and half the width of its 95 % interval."""
    found: dict[str, float] = {}
    for name, (mean, half) in kept.mean().items():
        found |= {name: mean, f"{name}_half": half}
    return found
