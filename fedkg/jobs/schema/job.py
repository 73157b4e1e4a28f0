"""The job file: what one run trains. fedkg validates every field before it loads anything.

A job describes one or more *trials*. A trial is one training: the settings of the job with one
value for each field in `compare`, one seed of `seeds`, and optionally one corrupted site.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedkg.jobs.schema.algorithm_presets import PRESETS
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.augmentation_section import Augmentation
from fedkg.jobs.schema.data_section import Data, Site
from fedkg.jobs.schema.federation_section import RoundContract
from fedkg.jobs.schema.model_section import Inject, Model
from fedkg.jobs.schema.privacy_section import Privacy
from fedkg.jobs.schema.section_base import (
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
from fedkg.jobs.schema.simulation_section import Simulation

MAX_SITES = 100_000
"""Largest number of sites that `sites: N` may create."""


class Training(Section):
    """Rounds and local training."""

    rounds: Count = Field(default=50, description="Number of rounds.")
    participation: float = Field(
        default=0.6, gt=0, le=1, description="Share of the sites sampled in each round."
    )
    local_epochs: Count | None = Field(
        default=None, description="Local epochs per round; this or `local_steps`; neither: 1."
    )
    local_steps: Count | None = Field(
        default=None, description="Local steps per round, independent of the number of rows."
    )
    batch: Count = Field(default=64, description="Minibatch size.")
    learning_rate: Positive = Field(default=0.1, description="Local learning rate.")
    schedule: Literal["constant", "cosine"] = Field(
        default="cosine",
        description="Learning rate over the rounds; `cosine`: it decreases to 0 as a half cosine.",
    )
    positive_weight: Literal["balanced"] | Positive = Field(
        default=1.0,
        description=(
            "Weight of the class 1 of `data.label` in the loss; `balanced`: the number of rows of "
            "class 0 divided by that of class 1, over all sites."
        ),
    )
    penalty: float = Field(
        default=0.0,
        ge=0,
        description=(
            "Weight of the rules' penalty in the local loss; 0: the rules are not part of the loss."
        ),
    )
    projection: bool = Field(
        default=False,
        description=(
            "Whether outputs are projected, in training and in use, onto the linear rules of each "
            "row: all that are about one output, and hard ones about sums of outputs."
        ),
    )
    executor: Literal["auto", "stacked", "processes", "sequential"] = Field(
        default="auto",
        description=(
            "How sampled sites are trained. `stacked`: several at once as one stack of models; "
            "`processes`: in worker processes; `sequential`: one after the other; `auto`: the "
            "fastest of these, by a measurement before the first round."
        ),
    )
    workers: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Parallel processes; empty: one per processor."
    )
    chunk: Count | None = Field(
        default=None,
        description=(
            "Most sites in one stack of `executor: stacked` or `processes`; empty: as memory "
            "allows, or as measured with `auto` and `processes`."
        ),
    )
    threads: Annotated[int, Field(ge=1, le=256)] | None = Field(
        default=None, description="Threads of PyTorch; empty: 1."
    )
    client_memory: Count = Field(
        default=1024,
        description=(
            "Memory for the state that sites keep between rounds, in MiB; fedkg stores the rest in "
            "files of the run folder."
        ),
    )
    device: DeviceName = Field(
        default="cpu", description="Training device: `cpu`, `cuda`, or `cuda:1` for the second GPU."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32", description="`bfloat16` trains in mixed precision, for accelerators."
    )
    wire: Literal["bfloat16", "float16"] | None = Field(
        default=None,
        description="Data type of transmitted updates, for half the bytes; empty: float32.",
    )
    secure_aggregation: bool = Field(
        default=False,
        description="In a federation of real sites, the server learns the sum of the sites' "
        "updates alone. It works for the mean of one common model with `weighting: samples`, three "
        "or more sites in a round and float32 updates, without control variates, personal models, "
        "private layers and `exclude: answers`.",
    )
    checkpoint_every: Count = Field(default=1, description="Rounds between checkpoints.")


class Scoring(Section):
    """The server's validity score of a site's model."""

    at: Literal["server", "sites"] = Field(
        default="server",
        description=(
            "Who scores a site's updated model on the probe. `server`: the server; `sites`: each "
            "site scores its own model and reports the score, which it can falsify."
        ),
    )
    probe: Literal["covering", "plain"] = Field(
        default="covering",
        description=(
            "`covering`: random server rows, plus some to which each bound row of a rule applies; "
            "`plain`: random server rows only. With `data.set` the probe is always `plain`."
        ),
    )
    probe_rows: Count = Field(default=200, description="Server rows in the probe.")
    rows_per_rule: Count = Field(
        default=4, description="Rows that `covering` adds per bound row, if the server has them."
    )
    hard_tolerance: Share = Field(
        default=0.0, description="Share of probe rows that may violate a hard rule."
    )
    soft_tolerance: Share = Field(
        default=0.05, description="Share of probe rows that may violate any other rule."
    )
    combine: Literal["mean", "product", "min"] = Field(
        default="mean",
        description=(
            "How the score combines rules: the `mean` over all rules, or the `product` or `min` "
            "over families, the rules of one `kind`."
        ),
    )
    beta: float = Field(default=1.0, ge=1, description="Exponent of the score.")
    relative: bool = Field(
        default=False,
        description=(
            "Whether the weight of a site is multiplied by its score divided by the score of the "
            "current model, at most 1, instead of its score: with a robust aggregate, a site that "
            "satisfies the rules as well as the current model then keeps its share."
        ),
    )
    graded: bool = Field(
        default=False,
        description=(
            "Whether the score counts the violated share of probe rows of each rule, instead of "
            "only whether the rule is within its tolerance; reported figures stay the same."
        ),
    )
    on_all_invalid: Literal["skip", "fedavg", "error"] = Field(
        default="skip",
        description=(
            "What the server does if no site of a round has any weight. `skip`: it keeps the "
            "model; `fedavg`: it weights updates by samples; `error`: the run stops."
        ),
    )


class Evaluation(Section):
    """Evaluation of the global model."""

    every: Count = Field(
        default=1,
        description=(
            "Rounds between evaluations on the test rows; the last round is always evaluated."
        ),
    )
    threshold: Literal["server"] | Share = Field(
        default=0.5,
        description=(
            "Probability from which the model predicts class 1; `server`: the threshold with the "
            "best F1 on the server's labelled rows."
        ),
    )
    target_f1: Share = Field(
        default=0.5, description="F1 target; reports show the first round that reaches it."
    )
    target: float | None = Field(
        default=None,
        description=(
            "Target of the metric of any task: F1 (instead of `target_f1`), accuracy, RMSE, MSE "
            "or concordance index; empty: none but `target_f1`."
        ),
    )
    accept_unevaluated: tuple[str, ...] = Field(
        default=(),
        description=(
            "Names of hard rules that the data need not evaluate. A run stops before training if "
            "its data cannot evaluate one of the other hard rules."
        ),
    )
    local_baseline: bool = Field(
        default=True,
        description=(
            "Whether to train every site alone as a baseline in each setting without "
            "corruption and attacks; costs one more trial."
        ),
    )

    def target_of(self, figure: str) -> float:
        """The target of a figure; NaN if there is none."""
        return (
            self.target_f1
            if figure == "f1" and self.target is None
            else math.nan
            if self.target is None
            else self.target
        )


class Theory(Section):
    """Constants of the theorems, measured during the run.

    Bound, gamma, theta, fits, certificates.
    """

    every: Count = Field(
        default=1,
        description=(
            "Rounds between measurements of all sites' gradients; each costs about one "
            "epoch of all sites."
        ),
    )
    draws: Count = Field(
        default=1000,
        description=(
            "Models sampled around the last one to estimate theta, the share of models that "
            "satisfy all rules; each is evaluated on the probe."
        ),
    )
    radius: Positive | None = Field(
        default=None,
        description="Sampling radius; empty: the distance between the first and the last model.",
    )


class Corruption(Section):
    """Additional trials in which one site has wrong labels."""

    site: str = Field(description="Name of the site with wrong labels.")
    kind: Literal["flipped_labels", "constant_label"] = Field(
        default="flipped_labels",
        description=(
            "`flipped_labels`: swap 0 and 1; `constant_label`: set every label to 1, or to the "
            "last class."
        ),
    )
    share: Share = Field(default=1.0, description="Share of the site's rows with a wrong label.")
    compare: dict[str, tuple[Value, ...]] = Field(
        default_factory=dict,
        description="Fields and values for these trials, instead of those in the job's `compare`.",
    )


class Job(Section):
    """One job file."""

    name: Name = Field(default="job", description="Name of the run.")
    title: str = Field(default="", description="Title of the report.")
    rules: tuple[str, ...] = Field(
        default=(),
        description=(
            "Rule files and graphs (files, stores, or addresses of SPARQL endpoints), compiled at "
            "the start of the run; this or `pack`."
        ),
    )
    pack: str | None = Field(default=None, description="A compiled pack; this or `rules`.")
    output: str | None = Field(
        default=None,
        description=(
            "The output of the rules that the model predicts; needed if the rules declare several."
        ),
    )
    sites: dict[SiteName, Site] = Field(
        default_factory=dict,
        description=(
            "The sites: their names, their number, or a section for each name; empty: all sites of "
            "`data.sites_file` or of the data set."
        ),
    )
    data: Data = Field(default_factory=Data)
    augment: Augmentation = Field(
        default_factory=lambda: Augmentation(by="none"),
        description=(
            "States of a causal discovery as additional inputs of the model; empty: `none`."
        ),
    )
    model: Model = Field(default_factory=Model)
    training: Training = Field(default_factory=Training)
    scoring: Scoring = Field(default_factory=Scoring)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    algorithm: str = Field(
        default="scfa",
        description=(
            "A preset, a name in `algorithms`, your own algorithm (`mine.py:Name`), or a section "
            "like those in `algorithms`; the default without rules is `fedavg`."
        ),
    )
    algorithms: dict[Name, Algorithm] = Field(
        default_factory=dict, description="Your own algorithms by name."
    )
    seeds: Seeds | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = Field(
        default=1, description="Number of seeds (0, 1, ...), or a list of seeds."
    )
    compare: dict[str, tuple[Value, ...]] = Field(
        default_factory=dict,
        description="Fields, such as `algorithm` or `data.alpha`, with the values to compare.",
    )
    corrupt: Corruption | None = Field(
        default=None, description="Additional trials with one corrupted site."
    )
    federation: RoundContract = Field(default_factory=RoundContract)
    privacy: Privacy | None = Field(
        default=None, description="Differential privacy of all trials that exchange data."
    )
    simulation: Simulation = Field(
        default_factory=Simulation,
        description="Attacks by some of the sites; to measure what an algorithm withstands.",
    )
    causes: str | None = Field(
        default=None,
        description=(
            "A run of a causal discovery; where rules are violated, the report lists the candidate "
            "causes it found."
        ),
    )
    # The last field of job.yaml: if the file is cut here, the rest is not a valid job.
    theory: Theory | None = Field(
        default=None,
        description="Measure the constants of the convergence theorems and report them.",
    )

    @field_validator("augment", mode="before")
    @classmethod
    def _in_a_word(cls, value: object) -> object:
        """Expand `augment: granger` to a section; null or false means `none`."""
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
        """Expand `true` to an empty section; `false` means none."""
        return {} if value is True else None if value is False else value

    @model_validator(mode="before")
    @classmethod
    def _bare_sites(cls, value: object) -> object:
        """Expand a list of sites, a number of sites, or a site without fields to a mapping of
        sections.
        """
        if isinstance(value, dict):
            sites = value.get("sites")
            if isinstance(sites, int) and not isinstance(sites, bool) and 1 <= sites <= MAX_SITES:
                sites = [f"site {number}" for number in range(1, sites + 1)]
            if isinstance(sites, list) and all(isinstance(site, str) for site in sites):
                twice = next((site for site, count in Counter(sites).items() if count > 1), None)
                if twice is not None:
                    raise ValueError(f"`sites` lists the site {twice!r} twice")
                value = {**value, "sites": {site: {} for site in sites}}
            elif isinstance(sites, dict):
                value = {
                    **value,
                    "sites": {name: {} if site is None else site for name, site in sites.items()},
                }
        return value

    @model_validator(mode="before")
    @classmethod
    def _knowledge_is_injected(cls, value: object) -> object:
        """Inject the knowledge of sites unless `model.inject` says otherwise."""
        if not isinstance(value, dict) or not isinstance(value.get("sites"), dict):
            return value
        model, sites = value.get("model") or {}, value["sites"].values()
        known = any(isinstance(site, dict) and site.get("knowledge") for site in sites)
        if not known or not isinstance(model, dict) or "inject" in model:
            return value
        return {**value, "model": {**model, "inject": {}}}

    @model_validator(mode="before")
    @classmethod
    def _without_rules(cls, value: object) -> object:
        """Default to FedAvg without rules."""
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
        """Move an inline algorithm section to `algorithms`, under the name of its preset."""
        if not isinstance(value, dict) or not isinstance(value.get("algorithm"), dict):
            return value
        written, others = value["algorithm"], value.get("algorithms") or {}
        name = written.get("preset", "own")
        if not isinstance(name, str) or not isinstance(others, dict):
            return value
        if name in others:
            raise ValueError(
                f"`algorithm` is a section and `algorithms` has {name!r} too; move it to "
                "`algorithms` under another name"
            )
        return {**value, "algorithm": name, "algorithms": {**others, name: written}}

    @model_validator(mode="after")
    def _attacks_apply(self) -> Self:
        """Reject attacks by unknown sites, after the last round, or without what they need."""
        attacks = self.simulation.attacks
        unknown = [site for site in attacks.sites if site not in self.sites]
        if self.sites and unknown:
            raise ValueError(
                f"`simulation.attacks.sites` has an unknown site: {', '.join(unknown)}; expected "
                f"names from `sites`, such as {', '.join(list(self.sites)[:10])}"
            )
        if attacks.changes == "none":
            return self
        if attacks.first_round > self.training.rounds:
            raise ValueError(
                f"`simulation.attacks.first_round` is {attacks.first_round}, after the "
                f"last round ({self.training.rounds}); decrease it, or increase "
                "`training.rounds`"
            )
        if attacks.kind == "rule_satisfying_model" and not (self.rules or self.pack):
            raise ValueError(
                "`simulation.attacks.kind` is rule_satisfying_model, which requires rules; set "
                "`rules` or a compiled `pack`, or choose another kind, such as constant_model"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _own_algorithms(cls, value: object) -> object:
        """Move algorithms named by their code (`mine.py:feddyn`) to `algorithms`, as `feddyn`."""
        if not isinstance(value, dict):
            return value
        compare, others = value.get("compare") or {}, dict(value.get("algorithms") or {})
        if not isinstance(compare, dict):
            return value
        compared = compare.get("algorithm", [])
        compared = list(compared) if isinstance(compared, list | tuple) else []
        written = [value.get("algorithm"), *compared]
        for path in dict.fromkeys(one for one in written if isinstance(one, str) and ":" in one):
            name = path.rpartition(":")[2]
            if name in PRESETS or others.get(name, {"path": path}) != {"path": path}:
                raise ValueError(
                    f"`algorithm`: `{path}` has the name of another algorithm; write it as a "
                    "section with `path` under `algorithms`, with another name"
                )
            others[name] = {"path": path}
        if others == (value.get("algorithms") or {}):
            return value

        def named(one: object) -> object:
            return one.rpartition(":")[2] if isinstance(one, str) and ":" in one else one

        value = {**value, "algorithms": others}
        if "algorithm" in value:
            value["algorithm"] = named(value["algorithm"])
        if compared:
            value["compare"] = {**compare, "algorithm": [named(one) for one in compared]}
        return value

    @property
    def injection(self) -> Inject | None:
        """The section `model.inject` of the run, also if only some of its trials inject."""
        values: tuple[object, ...] = self.compare.get("model.inject", ())
        compared = next((one for one in values if one), None)
        if self.model.inject is not None or compared is None:
            return self.model.inject
        return Inject() if compared is True else Inject.model_validate(compared)

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
