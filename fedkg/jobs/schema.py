"""The job file: what one run trains, field by field. Everything is checked here before anything is loaded.

One job describes one or many trainings. Each training is an *arm*: the job's settings with one value for each field named in `compare`, one
seed of `seeds`, and perhaps one corrupted site.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fedkg.jobs.algorithm_schema import Algorithm
from fedkg.jobs.part import Count, Fraction, Name, Part, Positive, Seeds, Share, Value, Width


class SiteColumn(Part):
    """Where a site keeps a column that the job names otherwise."""

    column: str = Field(description="Header of the column in the site's own table.")
    unit: str | None = Field(default=None, description="Unit of the site's values; they are converted to the unit of the rules.")


class Site(Part):
    """One client of the federation."""

    machines: tuple[str, ...] = Field(default=(), description="Machines at the site, as the rules' key column names them.")
    table: str | None = Field(default=None, description="The site's own table; then `data.path` and the split are not used.")
    columns: dict[str, SiteColumn] = Field(
        default_factory=dict, description="Signals of the rules (or headers the job uses) whose column or unit differs at this site."
    )


class Data(Part):
    """The table and how it is cut."""

    path: str | None = Field(default=None, description="Table to train on; without one the AI4I generator makes it.")
    rows: int = Field(default=10_000, ge=1, le=10_000_000, description="Rows the generator makes.")
    seed: int = Field(default=6, ge=0, description="Seed of the generator and of the rows held out, equal in all arms.")
    label: str = Field(default="Machine failure", description="Header of the 0/1 column to predict.")
    features: tuple[str, ...] = Field(
        default=(), description="Headers of the numeric columns the model reads; empty: every number column that the rules read."
    )
    categories: tuple[str, ...] = Field(default=(), description="Headers of text columns the model reads, one 0/1 feature per text.")
    machine: str = Field(default="machine", description="Header of the column that names the machine of a row; dealt out where missing.")
    split: Literal["dirichlet", "iid", "column"] = Field(default="dirichlet", description="How rows come to sites.")
    alpha: Positive = Field(default=1.0, description="Concentration of the Dirichlet split: 0.1 very unequal sites, 10 nearly equal.")
    size_alpha: Positive | None = Field(default=None, description="Concentration of the sites' sizes beside `alpha`; empty: uniform.")
    min_samples: Count = Field(default=50, description="Fewest rows a site may have; a draw with fewer is drawn again.")
    site_column: str = Field(default="site", description="Header of the column that names the site, for `split: column`.")
    dates: Literal["day-first", "month-first"] | None = Field(
        default=None, description="How dates such as 03/04/2024 are meant, where no date of the time column tells; empty: found out."
    )
    test: Fraction = Field(default=0.2, description="Share of all rows held out for the test, each class alike.")
    server: Fraction = Field(
        default=0.15, description="Share of all rows the server holds: probe (labels unused) and threshold (labels used)."
    )

    @model_validator(mode="after")
    def _something_left(self) -> Data:
        if self.test + self.server >= 1.0:
            raise ValueError("test and server together leave no rows for the sites")
        return self


class Model(Part):
    """The network each site trains."""

    name: Literal["mlp"] = Field(default="mlp", description="A name in fedkg.models.")
    hidden: tuple[Width, ...] = Field(default=(32, 32), description="Widths of the hidden layers.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Share of hidden units left out in training.")


class Training(Part):
    """Rounds and local work."""

    rounds: Count = Field(default=50, description="Rounds of the federation.")
    participation: float = Field(default=0.6, gt=0, le=1, description="Share of the sites sampled each round.")
    local_epochs: Count | None = Field(default=None, description="Passes over a site's rows per round; this or `local_steps`.")
    local_steps: Count | None = Field(default=None, description="Steps per round, whatever the number of rows.")
    batch: Count = Field(default=64, description="Rows per step.")
    learning_rate: Positive = Field(default=0.1, description="Step size of the local gradient descent.")
    schedule: Literal["constant", "cosine"] = Field(default="cosine", description="How the step size goes over the rounds.")
    positive_weight: Literal["balanced"] | Positive = Field(
        default=1.0, description="Weight of a failure in the loss; `balanced`: rows without failure per row with one, over all sites."
    )
    penalty: float = Field(default=0.0, ge=0, description="Weight of the rules' penalty in the local loss; 0 is plain SCFA.")
    projection: bool = Field(
        default=False, description="Whether answers are projected onto what linear rules demand of each row, in training and in use."
    )
    executor: Literal["auto", "stacked", "sequential"] = Field(default="auto", description="How sampled sites are trained.")
    chunk: Count | None = Field(default=None, description="Most sites in one stack; empty: as memory allows, or as `auto` measures.")
    threads: Annotated[int, Field(ge=1, le=256)] | None = Field(default=None, description="Threads of the tensor library; empty: 1.")
    checkpoint_every: Count = Field(default=1, description="Rounds between two checkpoints.")


class Scoring(Part):
    """The server's validity score of a site's model."""

    probe: Literal["covering", "plain"] = Field(
        default="covering",
        description="covering: server rows, and per bound rule some on which it applies; plain: server rows as they are.",
    )
    probe_rows: Count = Field(default=200, description="Server rows in the probe.")
    rows_per_rule: Count = Field(default=4, description="Rows added per bound rule by `covering`, as far as the server has such.")
    hard_tolerance: Share = Field(default=0.0, description="Share of probe items a hard rule may fail.")
    soft_tolerance: Share = Field(default=0.05, description="Share of probe items any other rule may fail.")
    combine: Literal["mean", "product", "min"] = Field(default="mean", description="Over all rules, or over families.")
    beta: float = Field(default=1.0, ge=1, description="Exponent of the score.")
    graded: bool = Field(default=False, description="Score by violated fractions instead of holds / does not hold.")
    on_all_invalid: Literal["skip", "fedavg", "error"] = Field(default="skip", description="When no site of a round has any weight.")


class Evaluation(Part):
    """How the global model is judged."""

    every: Count = Field(default=1, description="Rounds between two evaluations on the test rows; the last round always is.")
    threshold: Literal["server"] | Share = Field(
        default=0.5, description="Probability from which a failure is predicted; `server`: the best F1 on the server's labelled rows."
    )
    target_f1: Share = Field(default=0.5, description="The common F1 target whose first round is reported.")


class Corrupt(Part):
    """Additional arms in which one site's labels are wrong."""

    site: str = Field(description="The site.")
    kind: Literal["flipped_labels"] = Field(default="flipped_labels", description="flipped_labels: 0 and 1 change places.")
    share: Share = Field(default=1.0, description="Share of the site's rows whose label is flipped.")
    compare: dict[str, tuple[Value, ...]] = Field(
        default_factory=dict, description="Fields and values for these arms, in place of those that `compare` of the job gives them."
    )


class Job(Part):
    """One job file."""

    name: Name = Field(default="job", description="Name of the run.")
    title: str = Field(default="", description="A sentence for the report.")
    rules: tuple[str, ...] = Field(default=(), description="Rule files and graphs, compiled when the run starts; or `pack`.")
    pack: str | None = Field(default=None, description="A compiled pack; or `rules`.")
    output: str | None = Field(default=None, description="The rules' output that the model predicts; needed when there are several.")
    sites: dict[Name, Site] = Field(description="The clients, by name.")
    data: Data = Field(default_factory=Data)
    model: Model = Field(default_factory=Model)
    training: Training = Field(default_factory=Training)
    scoring: Scoring = Field(default_factory=Scoring)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    algorithm: str = Field(
        default="scfa", description="A preset, a name in `algorithms`, or a section such as those of `algorithms` itself."
    )
    algorithms: dict[Name, Algorithm] = Field(default_factory=dict, description="Algorithms by a name of your own.")
    seeds: Seeds | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = Field(
        default=1, description="How many seeds (0, 1, ...), or which."
    )
    compare: dict[str, tuple[Value, ...]] = Field(default_factory=dict, description="Fields and the values to train each of.")
    corrupt: Corrupt | None = Field(default=None, description="Arms with one corrupted site, beside those without.")

    @model_validator(mode="before")
    @classmethod
    def _bare_sites(cls, value: object) -> object:
        """A list of site names is a mapping without details; `graz:` with nothing behind it too."""
        if isinstance(value, dict):
            sites = value.get("sites")
            if isinstance(sites, list) and all(isinstance(site, str) for site in sites):
                twice = next((site for i, site in enumerate(sites) if site in sites[:i]), None)
                if twice is not None:
                    raise ValueError(f"the site {twice!r} is named twice")
                value = {**value, "sites": {site: {} for site in sites}}
            elif isinstance(sites, dict):
                value = {**value, "sites": {name: {} if site is None else site for name, site in sites.items()}}
        return value

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
            raise ValueError(f"`algorithm` is written out and `algorithms` has a {name!r} too; give it a name there")
        return {**value, "algorithm": name, "algorithms": {**others, name: written}}

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds, one training each."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
