"""Interfaces between the runner and the data of a job, for tables and data sets alike.

An `Experiment` is what all trials of a run share; a `Trial` is one training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fedkg.federated import Algorithm, Problem, Settings
from fedkg.jobs.comparison_metric import Measure
from fedkg.jobs.folder import Row
from fedkg.jobs.rules_only_baseline import RulesAlone
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import TrialConfig
from fedkg.learned_knowledge import TimeRange
from fedkg.models import Params
from fedkg.pack import Pack


class Trial(Protocol):
    """One trial, ready for training."""

    @property
    def problem(self) -> Problem:
        """The learning problem: model, loss and clients."""
        ...

    @property
    def algorithm(self) -> Algorithm:
        """The federated algorithm."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings of the federation, with the seed of the trial's randomness."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, shown with the first round."""
        ...

    def figures(self, models: Sequence[Params]) -> dict[str, float]:
        """The figures of `rounds.csv` on the test samples.

        Args:
            models: the one model of all sites, or one model per site; figures are then means over
                sites.
        """
        ...

    def final_rows(self, models: Sequence[Params], state: Any) -> Mapping[str, list[Row]]:
        """Rows for the tables of a finished trial (`rules.csv`, `sites.csv`, ...).

        `Any`: the last server state.
        """
        ...


class Experiment(Protocol):
    """What all trials of a run share: data, rules and test samples."""

    @property
    def job(self) -> Job:
        """The job of the run."""
        ...

    @property
    def pack(self) -> Pack:
        """The compiled rules."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, shown before training."""
        ...

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Path and SHA-256 of every file that was read."""
        ...

    @property
    def time_range(self) -> TimeRange | None:
        """The first and the last time in the data; None without times."""
        ...

    @property
    def measure(self) -> Measure:
        """The figure that decides comparisons."""
        ...

    def prepare(self, configs: Sequence[TrialConfig]) -> None:
        """Split the data for every trial and build its model.

        Errors appear here, before training.
        """
        ...

    def sites(self, config: TrialConfig) -> int:
        """Number of sites in a trial."""
        ...

    def features(self) -> dict[str, Any]:
        """The scaling of the model's inputs: `names`, `mean`, `std`. `Any`: JSON."""
        ...

    def splits(self, configs: Sequence[TrialConfig]) -> dict[str, Any]:
        """The content of `split.json`: the rows of every site in every split. `Any`: JSON."""
        ...

    def checks(self, config: TrialConfig) -> list[Row]:
        """Rows of `checks.csv`: the rules on the data alone."""
        ...

    def rules_alone(self, config: TrialConfig) -> RulesAlone | None:
        """The control without learning on the test samples; None without rules about outputs."""
        ...

    def hard_rules(self, config: TrialConfig) -> tuple[str, ...]:
        """The hard rules that every evaluated answer of a trial satisfies, however it learned."""
        ...

    def build_trial(self, config: TrialConfig) -> Trial:
        """Build a trial."""
        ...
