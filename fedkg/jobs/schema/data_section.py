"""The data section of a job file: a table, a data set or windows of its series, and their split."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from fedkg._internal.name_matching import nearest_name
from fedkg.data.sets import DATA_SETS
from fedkg.jobs.schema.section_base import Count, Fraction, Positive, Section, Share, Value

TABLE_SET = "table"
"""The value of `data.set` for a table with a data contract."""

TABLE_FIELDS = ("rows", "label", "features", "categories", "machine", "dates")
"""Fields of `data` that apply to tables only."""


SETS_WITH_SITES = ("cmapss", "traffic", "fhwa", "sumo", "skab", "hai", "swat", "tcga-brca")
"""Data sets made of stations, engines, runs or regions."""


class SiteColumn(Section):
    """A column that has another name or unit at one site."""

    column: str = Field(description="Header in the site's own table.")
    unit: str | None = Field(
        default=None,
        description="Unit of the site's values; fedkg converts them to the unit of the rules.",
    )


KNOWLEDGE_FILES = ("rules", "table", "lookup", "model")
"""Fields of `Knowledge` that name files."""

TRAINED: Mapping[str, tuple[str, ...]] = {
    "logistic_regression": ("classes", "detection"),
    "linear_regression": ("regression", "forecast"),
}
"""The tasks of each predictor that a site can train itself."""


class Knowledge(Section):
    """What one site alone knows about the output; it stays at the site.

    Ranges of several sources intersect. The first source that predicts something counts, in the
    order of the fields.
    """

    rules: tuple[str, ...] = Field(
        default=(),
        description="Rule files with `range knowledge` and `predict knowledge`; a file alone, "
        "`knowledge: own.fkg`, is short for this field.",
    )
    table: str | None = Field(
        default=None,
        description="A decision table (CSV, xlsx): each row allows values under a condition.",
    )
    lookup: str | None = Field(
        default=None,
        description="A lookup table (CSV, xlsx): exact values of features, and the columns "
        "`allow` (classes, or `low .. high`), `predict`, or both. Other samples are unknown.",
    )
    model: str | None = Field(
        default=None,
        description="A trained model (ONNX with any layers, or safetensors) that predicts.",
    )
    architecture: dict[str, Value | tuple[Value, ...]] = Field(
        default_factory=dict,
        description="The layers of a safetensors `model`, as in the section `model` of a job; "
        "empty: dense layers.",
    )
    train: Literal["logistic_regression", "linear_regression"] | None = Field(
        default=None, description="A predictor that the site trains on its own training samples."
    )
    features: tuple[str, ...] = Field(
        default=(), description="Features that `train` reads; empty: all."
    )

    @model_validator(mode="before")
    @classmethod
    def _files_alone(cls, value: object) -> object:
        """Expand one rule file, or a list of them, to a section."""
        value = {"rules": value} if isinstance(value, str | list | tuple) else value
        if isinstance(value, dict) and isinstance(value.get("rules"), str):
            return {**value, "rules": [value["rules"]]}
        return value

    @model_validator(mode="after")
    def _something(self) -> Knowledge:
        if not (self.rules or self.table or self.lookup or self.model or self.train):
            raise ValueError("give at least one of rules, table, lookup, model and train")
        if self.architecture and not str(self.model).endswith(".safetensors"):
            raise ValueError(
                "`architecture` describes the layers of a `model` whose file ends with "
                ".safetensors; remove it for other models"
            )
        if self.features and self.train is None:
            raise ValueError(
                "`features` requires `train`: they are the inputs of the trained model"
            )
        return self


def resolve_knowledge_files(value: Any, base: Path) -> Any:
    """`Knowledge` as a file states it, with absolute paths.

    Args:
        value: the section, a rule file or a list of rule files. `Any`: YAML.
        base: the folder of relative paths.
    """
    if isinstance(value, str):
        return str((base / Path(value).expanduser()).resolve())
    if isinstance(value, list | tuple):
        return [resolve_knowledge_files(one, base) for one in value]
    if isinstance(value, Mapping):
        return {
            name: resolve_knowledge_files(one, base) if name in KNOWLEDGE_FILES else one
            for name, one in value.items()
        }
    return value


class Site(Section):
    """One site of the federation."""

    machines: tuple[str, ...] = Field(
        default=(),
        description="Machines at the site, as named in the rules' key column. A table without a "
        "column `data.machine` gets one: each row one of these, at random.",
    )
    table: str | None = Field(
        default=None, description="The site's own table; replaces `data.path` and the split."
    )
    columns: dict[str, SiteColumn] = Field(
        default_factory=dict,
        description="Signals of the rules (or headers in the job) with another column or unit at "
        "this site.",
    )
    learning_rate: Positive | None = Field(
        default=None,
        description="Learning rate of this site; `training.schedule` applies to it too.",
    )
    local_epochs: Count | None = Field(default=None, description="Local epochs of this site.")
    batch: Count | None = Field(default=None, description="Minibatch size of this site.")
    knowledge: Knowledge | None = Field(
        default=None,
        description="Knowledge of this site alone, see `sites.NAME.knowledge`; it implies "
        "`model.inject`.",
    )
    trust: Literal["cross_validate"] | Share | None = Field(
        default=None,
        description="This site's trust in predictions, instead of `model.inject.trust`; "
        "`cross_validate`: the best of `model.inject.trusts` when the site trains alone.",
    )

    @property
    def has_own_training(self) -> bool:
        """Whether the site overrides training settings."""
        return any(
            value is not None for value in (self.learning_rate, self.local_epochs, self.batch)
        )


class Window(Section):
    """Windows of series: the model reads `history` steps, and forecasts or labels what follows.

    With a horizon it forecasts the next steps, otherwise it predicts the label of the last step.
    """

    history: Count = Field(description="Steps that the model reads.")
    horizon: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Steps to forecast; 0: predict the label of the last step."
    )
    stride: Count = Field(default=1, description="Steps between the starts of consecutive windows.")
    targets: tuple[str, ...] = Field(default=(), description="Features to forecast; empty: all.")
    gaps: Literal["unknown", "interpolate", "error"] = Field(
        default="unknown",
        description=(
            "Steps without a value: `unknown` keeps them unknown, `interpolate` fills them linearly"
            " (values of the test are not used for steps before it), `error` stops the run."
        ),
    )
    longest: Count | None = Field(
        default=None, description="Longest gap that `interpolate` fills, in steps; empty: any."
    )

    @model_validator(mode="after")
    def _whole(self) -> Window:
        if self.targets and not self.horizon:
            raise ValueError(
                "`targets` requires a `horizon` above 0: the number of steps to forecast"
            )
        if self.longest is not None and self.gaps != "interpolate":
            raise ValueError(
                "`longest` requires `gaps: interpolate`: it is the longest gap to interpolate"
            )
        return self


class Data(Section):
    """The training data and its split."""

    set: str | None = Field(
        default=None,
        description="Name of a data set, see Models and data sets; `table`: the table at `path`, "
        "with the columns that the rules read; `mine.py:Name`: your own, a function of "
        "`path, *, seed, size` that returns a `fedkg.data.sets.DataSet`; empty: a table with "
        "the 0/1 column `label`.",
    )
    path: str | None = Field(
        default=None,
        description="Table, or file or folder of the data set; empty: generated data of the same "
        "form.",
    )
    sites_file: str | None = Field(
        default=None,
        description="A sites file that describes the table of each site, instead of `path`; with "
        "`set: table` its tables become one data set with a column `site_column`.",
    )
    size: Count | None = Field(
        default=None,
        description="Amount of generated or loaded data, in the data set's unit: rows, images, "
        "hours, engines.",
    )
    window: Window | None = Field(
        default=None, description="Windows of the data set's series; empty: single rows."
    )
    rows: int = Field(default=10_000, ge=1, le=10_000_000, description="Rows of a generated table.")
    seed: int = Field(
        default=6,
        ge=0,
        description="Seed of the generator and of the held-out rows, common to all trials.",
    )
    standardise: bool = Field(
        default=True,
        description="Whether models read features with mean 0 and standard deviation 1; `false`: "
        "in the units of the source, with 0 for unknown values. Only with a `set`.",
    )
    label: str = Field(
        default="Machine failure", description="Header of the 0/1 column to predict."
    )
    features: tuple[str, ...] = Field(
        default=(),
        description="Headers of the numeric columns that the model reads; empty: every numeric "
        "column in the rules.",
    )
    categories: tuple[str, ...] = Field(
        default=(), description="Headers of text columns that the model reads, one-hot encoded."
    )
    machine: str = Field(
        default="machine",
        description="Header of the column with the machine of a row; if missing, drawn from "
        "`sites.NAME.machines`.",
    )
    split: Literal["dirichlet", "iid", "column", "sites", "classes", "sizes", "quantity"] = Field(
        default="dirichlet",
        description="How rows are assigned to sites (default `sites` for data sets with clients of "
        "the source, see Models and data sets, except `covtype`; `column` for `set: table` with a "
        "sites file). `dirichlet`: random shares of each class, see `alpha`; `iid`: at random; "
        "`column`: by `site_column`; `sites`: the clients of the source; `classes`, `sizes`, "
        "`quantity`: sites with few classes, random sizes, or sizes by `shares`.",
    )
    clients: Count | None = Field(
        default=None,
        description="With `split: sites`, use only the first clients of the source; empty: all.",
    )
    alpha: Positive = Field(
        default=1.0,
        description="Concentration of the Dirichlet split: 0.1 for very different sites, 10 for "
        "nearly equal ones.",
    )
    size_alpha: Positive | None = Field(
        default=None,
        description="Concentration of the sites' sizes, in addition to `alpha`; empty: uniform.",
    )
    classes_per_site: Count = Field(
        default=2, description="Classes per site, for `split: classes`."
    )
    shares: tuple[Positive, ...] = Field(
        default=(), description="Relative sizes of the sites, for `split: quantity`."
    )
    min_samples: Count = Field(
        default=50, description="Fewest rows per site; fedkg repeats a draw with fewer."
    )
    site_column: str = Field(
        default="site", description="Header of the column with the site, for `split: column`."
    )
    dates: Literal["day-first", "month-first"] | None = Field(
        default=None,
        description="Order of day and month in dates such as 03/04/2024 if the column does not "
        "reveal it; empty: detect.",
    )
    test: Fraction = Field(
        default=0.2,
        description="Share of all rows held out for the test, chosen as `hold_out` says. A data "
        "set with its own test split (MNIST, C-MAPSS) keeps it.",
    )
    hold_out: Literal["auto", "random"] = Field(
        default="auto",
        description="How test and server rows are chosen. `random`: at random, with all classes in "
        "proportion, also for windows (with a warning). `auto`: for windows, with a timeline, and "
        "if rules about the output compare rows, in the order of the rows (first training, then "
        "server, then test, with a gap that no forecast and no rule crosses; in a table of ten or "
        "more traces, whole traces); otherwise as `random`.",
    )
    server: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.15,
        description="Share of all rows held by the server: for the probe (without labels), "
        "`threshold: server` and `fltrust` (with labels), and the scaling of inputs. A table that "
        "is not of a sites file needs more than 0.",
    )

    server_table: str | None = Field(
        default=None,
        description="A table with the columns of the rules that the server holds, instead of a "
        "share of the rows of the sites; only with a `sites_file` and `server: 0`, and without "
        "`set`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_their_own_sites(cls, value: object) -> object:
        """Default to `split: sites` for data sets with stations, engines or runs, and to `split:
        column` for a data set made of the tables of a sites file.
        """
        if (
            isinstance(value, dict)
            and value.get("set") == TABLE_SET
            and value.get("sites_file") is not None
        ):
            return {"split": "column", **value}
        return (
            {**value, "split": "sites"}
            if isinstance(value, dict)
            and "split" not in value
            and value.get("set") in SETS_WITH_SITES
            else value
        )

    @field_validator("set")
    @classmethod
    def _is_a_set(cls, name: str | None) -> str | None:
        known = (*DATA_SETS, TABLE_SET)
        if name is not None and name not in known and not re.fullmatch(r"[^:]+:\w+", name):
            near = nearest_name(name, list(known))
            raise ValueError(
                f"unknown data set {name!r}; "
                + (f"did you mean {near!r}?" if near else f"known: {', '.join(known)}")
            )
        return name

    @model_validator(mode="after")
    def _something_left(self) -> Data:
        if self.test + self.server >= 1.0:
            raise ValueError(
                "`test` and `server` leave no rows for the sites; their sum must be below 1"
            )
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        if self.path is not None and self.sites_file is not None:
            raise ValueError("`path` and `sites_file` exclude each other; remove one of them")
        if self.server_table is not None and (self.sites_file is None or self.set is not None):
            raise ValueError(
                "`server_table` requires a `sites_file` and no `set`; add `sites_file`, or "
                "remove `set` or `server_table`"
            )
        if self.server_table is not None and self.server:
            raise ValueError(
                "`server_table` requires `server: 0`, because the server then reads "
                "this table instead of rows of the sites; write `server: 0`"
            )
        if self.set is None and not self.standardise:
            raise ValueError(
                "`standardise: false` requires a data set; name one with `set`, or remove "
                "`standardise`"
            )
        return self

    @model_validator(mode="after")
    def _of_one_kind(self) -> Data:
        """Reject fields of tables with a data set, and the other way round."""
        fields = type(self).model_fields
        if self.set is not None:
            idle = [name for name in TABLE_FIELDS if getattr(self, name) != fields[name].default]
            if idle:
                raise ValueError(
                    f"{', '.join(f'`{name}`' for name in idle)}: only for tables, and `set` "
                    "names a data set; remove one of them"
                )
            if self.set == TABLE_SET and self.path is None and self.sites_file is None:
                raise ValueError(
                    f"`set: {TABLE_SET}` needs the `path` of the table, or a `sites_file`"
                )
            if self.set != TABLE_SET and self.sites_file is not None:
                raise ValueError(f"`sites_file` describes tables; use it with `set: {TABLE_SET}`")
            if self.set == TABLE_SET and self.size is not None:
                raise ValueError(
                    f"`size` does not apply to `set: {TABLE_SET}`: fedkg reads all rows "
                    "of the table"
                )
            if self.split == "column" and self.set != TABLE_SET:
                raise ValueError(
                    "`split: column` requires a table; for a data set's own stations or "
                    "runs use `split: sites`"
                )
            return self
        for name in ("size", "window"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}` requires a data set; set it with `set` (`set: {TABLE_SET}` "
                    "for the table at `path`)"
                )
        if self.split not in ("dirichlet", "iid", "column"):
            raise ValueError(
                f"`split: {self.split}` requires a data set; set it with `set` (`set: "
                f"{TABLE_SET}` for the table at `path`)"
            )
        if not self.server and self.sites_file is None:
            raise ValueError(
                "`server` must be above 0, because the server needs rows to score "
                "models by the rules"
            )
        return self

    @property
    def own_sites(self) -> bool:
        """Whether the data names the sites, so that the job need not list them."""
        return self.set is not None and self.split in ("sites", "column")

    @model_validator(mode="after")
    def _shared_out(self) -> Data:
        if (self.split == "quantity") != bool(self.shares):
            raise ValueError(
                "`split: quantity` and `shares` require each other; `shares` has the "
                "relative size of each site"
            )
        if self.clients is not None and self.split != "sites":
            raise ValueError(
                "`clients` requires `split: sites`; with another split, list the sites in `sites`"
            )
        return self
