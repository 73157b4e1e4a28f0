"""What a run trains on, as the runner sees it: one thing for all arms, and one for each. Tables and data sets are two kinds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fedkg.federated import Algorithm, Problem, Settings
from fedkg.jobs.folder import Row
from fedkg.jobs.measure import Measure
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trials import TrialConfig
from fedkg.learned_knowledge import TimeRange
from fedkg.models import Params
from fedkg.pack import Pack


class Trial(Protocol):
    """One arm, ready to be trained."""

    @property
    def problem(self) -> Problem:
        """What is learnt, by whom."""
        ...

    @property
    def algorithm(self) -> Algorithm:
        """How."""
        ...

    @property
    def settings(self) -> Settings:
        """The federation's, with the seed that an arm's noise hangs on."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know of it, for the first round."""
        ...

    def figures(self, models: Sequence[Params]) -> dict[str, float]:
        """The figures of `rounds.csv` on the samples held out: of the one model that all sites use, or the mean over those of each."""
        ...

    def final_rows(self, models: Sequence[Params], state: Any) -> Mapping[str, list[Row]]:
        """Lines for growing files (`rules.csv`, `sites.csv`, ...) when the training is over. `Any`: the server's last state."""
        ...


class Experiment(Protocol):
    """What all arms of a run share: data, rules, the samples held out."""

    @property
    def job(self) -> Job:
        """The run's job."""
        ...

    @property
    def pack(self) -> Pack:
        """Its rules."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know before anything is trained."""
        ...

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Path and SHA-256 of every file that was read."""
        ...

    @property
    def time_range(self) -> TimeRange | None:
        """From when to when all the data reaches, as it says itself; None where it has no time."""
        ...

    @property
    def measure(self) -> Measure:
        """The figure that algorithms are compared by."""
        ...

    def prepare(self, configs: Sequence[TrialConfig]) -> None:
        """Split the data for every arm, and build its model, so that whatever is wrong is said before anything is trained."""
        ...

    def sites(self, config: TrialConfig) -> int:
        """How many sites an arm has."""
        ...

    def features(self) -> dict[str, Any]:
        """How the model's inputs are scaled: `names`, `mean`, `std`. `Any`: JSON."""
        ...

    def splits(self, configs: Sequence[TrialConfig]) -> dict[str, Any]:
        """`split.json`: what every site has in every way the data is split. `Any`: JSON."""
        ...

    def checks(self, config: TrialConfig) -> list[Row]:
        """Lines of `checks.csv`: the rules over the data alone."""
        ...

    def build_trial(self, config: TrialConfig) -> Trial:
        """An arm, ready to be trained."""
        ...
