"""The job file: what one run trains, field by field. Everything is checked here before anything is loaded.

One job describes one or many trainings. Each training is an *arm*: the job's settings with one value for each field named in `compare`, one
seed of `seeds`, and perhaps one corrupted site.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.augmentation import Augmentation
from fedkg.jobs.schema.data_section import Data, Site
from fedkg.jobs.schema.model_section import Model
from fedkg.jobs.schema.privacy_section import Privacy
from fedkg.jobs.schema.section import (
    Count,
    DeviceName,
    Name,
    Positive,
    Section,
    Seeds,
    Share,
    SiteName,
    Value,
)

MAX_SITES = 100_000
"""How many sites a number may stand for."""


class Training(Section):
    """Rounds and local work."""

    rounds: Count = Field(default=50, description="Rounds of the federation.")
    participation: float = Field(
        default=0.6, gt=0, le=1, description="Share of the sites sampled each round."
    )
    local_epochs: Count | None = Field(
        default=None, description="Passes over a site's rows per round; this or `local_steps`."
    )
    local_steps: Count | None = Field(
        default=None, description="Steps per round, whatever the number of rows."
    )
    batch: Count = Field(default=64, description="Rows per step.")
    learning_rate: Positive = Field(
        default=0.1, description="Step size of the local gradient descent."
    )
    schedule: Literal["constant", "cosine"] = Field(
        default="cosine", description="How the step size goes over the rounds."
    )
    positive_weight: Literal["balanced"] | Positive = Field(
        default=1.0,
        description="Weight of a failure in the loss; `balanced`: rows without failure per row with one, over all sites.",
    )
    penalty: float = Field(
        default=0.0,
        ge=0,
        description="Weight of the rules' penalty in the local loss; 0 is plain SCFA.",
    )
    projection: bool = Field(
        default=False,
        description="Whether answers are projected onto what linear rules demand of each row, in training and in use.",
    )
    executor: Literal["auto", "stacked", "processes", "sequential"] = Field(
        default="auto", description="How sampled sites are trained."
    )
    workers: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="Processes that train side by side; empty: as many as there are processors.",
    )
    chunk: Count | None = Field(
        default=None,
        description="Most sites in one stack; empty: as memory allows, or as `auto` measures.",
    )
    threads: Annotated[int, Field(ge=1, le=256)] | None = Field(
        default=None, description="Threads of the tensor library; empty: 1."
    )
    client_memory: Count = Field(
        default=1024,
        description="MiB that what is remembered of sites may take in memory; the rest is kept in files of the run folder.",
    )
    device: DeviceName = Field(
        default="cpu",
        description="Where the sites' models are trained: cpu, cuda, or cuda:1 for the second of several.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="bfloat16 computes the sites' steps in mixed precision; for accelerators.",
    )
    wire: Literal["bfloat16", "float16"] | None = Field(
        default=None,
        description="In what updates travel, rounded to the nearest: half the bytes; empty: as they are.",
    )
    checkpoint_every: Count = Field(default=1, description="Rounds between two checkpoints.")


class Scoring(Section):
    """The server's validity score of a site's model."""

    probe: Literal["covering", "plain"] = Field(
        default="covering",
        description="covering: server rows, and per bound rule some on which it applies; plain: server rows as they are. Data sets: plain.",
    )
    probe_rows: Count = Field(default=200, description="Server rows in the probe.")
    rows_per_rule: Count = Field(
        default=4,
        description="Rows added per bound rule by `covering`, as far as the server has such.",
    )
    hard_tolerance: Share = Field(
        default=0.0, description="Share of probe items a hard rule may fail."
    )
    soft_tolerance: Share = Field(
        default=0.05, description="Share of probe items any other rule may fail."
    )
    combine: Literal["mean", "product", "min"] = Field(
        default="mean", description="Over all rules, or over families."
    )
    beta: float = Field(default=1.0, ge=1, description="Exponent of the score.")
    graded: bool = Field(
        default=False,
        description="Weigh updates by violated fractions instead of holds / does not hold; what is reported stays the same.",
    )
    on_all_invalid: Literal["skip", "fedavg", "error"] = Field(
        default="skip", description="When no site of a round has any weight."
    )


class Evaluation(Section):
    """How the global model is judged."""

    every: Count = Field(
        default=1,
        description="Rounds between two evaluations on the test rows; the last round always is.",
    )
    threshold: Literal["server"] | Share = Field(
        default=0.5,
        description="Probability from which a failure is predicted; `server`: the best F1 on the server's labelled rows.",
    )
    target_f1: Share = Field(
        default=0.5, description="The common F1 target whose first round is reported."
    )
    target: float | None = Field(
        default=None,
        description="The same for the figure of another task: accuracy, RMSE, MSE of a forecast; empty: no target.",
    )
    local_baseline: bool = Field(
        default=True,
        description="Whether every site is trained alone beside each setting with sound data, as the bound below; costs one more training.",
    )

    def target_of(self, figure: str) -> float:
        """The target of a figure, NaN where there is none."""
        return (
            self.target_f1
            if figure == "f1" and self.target is None
            else math.nan
            if self.target is None
            else self.target
        )


class Theory(Section):
    """What theory says of a run, computed in it: bound, gamma, theta, fits; certificates where agents keep to sets."""

    every: Count = Field(
        default=1,
        description="Rounds between two looks at the gradients of all sites; each costs about as much as one epoch of all of them.",
    )
    draws: Count = Field(
        default=1000,
        description="Models drawn around the last one for theta; each is judged by the rules.",
    )
    radius: Positive | None = Field(
        default=None, description="How far they are drawn; empty: as far as the model has gone."
    )


class Corruption(Section):
    """Additional arms in which one site's labels are wrong."""

    site: str = Field(description="The site.")
    kind: Literal["flipped_labels", "constant_label"] = Field(
        default="flipped_labels",
        description="flipped_labels: 0 and 1 change places; constant_label: every label is 1, or the last class.",
    )
    share: Share = Field(
        default=1.0, description="Share of the site's rows that get a wrong label."
    )
    compare: dict[str, tuple[Value, ...]] = Field(
        default_factory=dict,
        description="Fields and values for these arms, in place of those that `compare` of the job gives them.",
    )


class Job(Section):
    """One job file."""

    name: Name = Field(default="job", description="Name of the run.")
    title: str = Field(default="", description="A sentence for the report.")
    rules: tuple[str, ...] = Field(
        default=(),
        description="Rule files, and graphs in files, stores or behind endpoints (an address), compiled when the run starts; or `pack`.",
    )
    pack: str | None = Field(default=None, description="A compiled pack; or `rules`.")
    output: str | None = Field(
        default=None,
        description="The rules' output that the model predicts; needed when there are several.",
    )
    sites: dict[SiteName, Site] = Field(
        default_factory=dict,
        description="The clients, by name; a number of them where names do not matter; empty: all that the data set itself has.",
    )
    data: Data = Field(default_factory=Data)
    augment: Augmentation = Field(
        default_factory=lambda: Augmentation(by="none"),
        description="`granger`, or a section: states of a learning of causes as further inputs of the model.",
    )
    model: Model = Field(default_factory=Model)
    training: Training = Field(default_factory=Training)
    scoring: Scoring = Field(default_factory=Scoring)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    algorithm: str = Field(
        default="scfa",
        description="A preset, a name in `algorithms`, or a section such as those of `algorithms` itself; without rules `fedavg`.",
    )
    algorithms: dict[Name, Algorithm] = Field(
        default_factory=dict, description="Algorithms by a name of your own."
    )
    seeds: Seeds | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = Field(
        default=1, description="How many seeds (0, 1, ...), or which."
    )
    compare: dict[str, tuple[Value, ...]] = Field(
        default_factory=dict, description="Fields and the values to train each of."
    )
    corrupt: Corruption | None = Field(
        default=None, description="Arms with one corrupted site, beside those without."
    )
    privacy: Privacy | None = Field(
        default=None, description="Differential privacy of every training that sends anything."
    )
    theory: Theory | None = Field(
        default=None,
        description="`true`, or a section: the constants of the theorems are measured in the run, and shown in the report.",
    )

    @field_validator("augment", mode="before")
    @classmethod
    def _in_a_word(cls, value: object) -> object:
        """`augment: granger` is a section of which nothing else is said; nothing at all is `none`."""
        return (
            {"by": value}
            if isinstance(value, str)
            else {"by": "none"}
            if value is None or value is False
            else value
        )

    @field_validator("theory", mode="before")
    @classmethod
    def _asked(cls, value: object) -> object:
        """`true` is a section without fields, `false` none."""
        return {} if value is True else None if value is False else value

    @model_validator(mode="before")
    @classmethod
    def _bare_sites(cls, value: object) -> object:
        """A list of site names is a mapping without details, a number so many of them; `graz:` with nothing behind it too."""
        if isinstance(value, dict):
            sites = value.get("sites")
            if isinstance(sites, int) and not isinstance(sites, bool) and 1 <= sites <= MAX_SITES:
                sites = [f"site {number}" for number in range(1, sites + 1)]
            if isinstance(sites, list) and all(isinstance(site, str) for site in sites):
                twice = next((site for i, site in enumerate(sites) if site in sites[:i]), None)
                if twice is not None:
                    raise ValueError(f"the site {twice!r} is named twice")
                value = {**value, "sites": {site: {} for site in sites}}
            elif isinstance(sites, dict):
                value = {
                    **value,
                    "sites": {name: {} if site is None else site for name, site in sites.items()},
                }
        return value

    @model_validator(mode="before")
    @classmethod
    def _without_rules(cls, value: object) -> object:
        """Where there are no rules and no algorithm is named, it is FedAvg."""
        if (
            not isinstance(value, dict)
            or value.get("rules")
            or value.get("pack")
            or "algorithm" in value
        ):
            return value
        return {**value, "algorithm": "fedavg"}

    @model_validator(mode="before")
    @classmethod
    def _one_algorithm(cls, value: object) -> object:
        """An algorithm that is written out where its name would stand gets the name of its preset."""
        if not isinstance(value, dict) or not isinstance(value.get("algorithm"), dict):
            return value
        written, others = value["algorithm"], value.get("algorithms") or {}
        name = written.get("preset", "own")
        if not isinstance(name, str) or not isinstance(others, dict):
            return value
        if name in others:
            raise ValueError(
                f"`algorithm` is written out and `algorithms` has a {name!r} too; give it a name there"
            )
        return {**value, "algorithm": name, "algorithms": {**others, name: written}}

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds, one training each."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
