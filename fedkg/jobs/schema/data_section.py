"""What a job trains on: a table, a data set by its name, or windows of its series, and how samples come to sites."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fedkg._internal.name_matching import nearest_name
from fedkg.data.sets import DATA_SETS
from fedkg.jobs.schema.section import Count, Fraction, Positive, Section

TABLE_SET = "table"
"""The name of any table with a data contract, beside the names of data sets."""

TABLE_FIELDS = ("rows", "label", "features", "categories", "machine", "dates")
"""Fields of `data` that say something of tables and nothing of a data set."""


SETS_WITH_SITES = ("cmapss", "traffic", "fhwa", "sumo", "skab", "hai", "swat")
"""Data sets that are made of stations, engines or runs."""


class SiteColumn(Section):
    """Where a site keeps a column that the job names otherwise."""

    column: str = Field(description="Header of the column in the site's own table.")
    unit: str | None = Field(
        default=None,
        description="Unit of the site's values; they are converted to the unit of the rules.",
    )


class Site(Section):
    """One client of the federation."""

    machines: tuple[str, ...] = Field(
        default=(), description="Machines at the site, as the rules' key column names them."
    )
    table: str | None = Field(
        default=None,
        description="The site's own table; then `data.path` and the split are not used.",
    )
    columns: dict[str, SiteColumn] = Field(
        default_factory=dict,
        description="Signals of the rules (or headers the job uses) whose column or unit differs at this site.",
    )
    learning_rate: Positive | None = Field(
        default=None, description="Its own step size; the schedule is that of all."
    )
    local_epochs: Count | None = Field(
        default=None, description="Its own passes over its rows per round."
    )
    batch: Count | None = Field(default=None, description="Its own rows per step.")

    @property
    def has_own_training(self) -> bool:
        """Whether it trains otherwise than all."""
        return any(
            value is not None for value in (self.learning_rate, self.local_epochs, self.batch)
        )


class Window(Section):
    """Windows of series: the model reads `history` steps and forecasts the next `horizon`, or labels the last one."""

    history: Count = Field(description="Steps that the model reads.")
    horizon: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Steps to forecast; 0: what the last step is labelled with."
    )
    stride: Count = Field(default=1, description="Steps between the beginnings of two windows.")
    targets: tuple[str, ...] = Field(default=(), description="Features to forecast; empty: all.")
    gaps: Literal["unknown", "interpolate", "error"] = Field(
        default="unknown",
        description="Steps without a value: left unknown, bridged by a straight line (before the test without its values), or refused.",
    )
    longest: Count | None = Field(
        default=None, description="Longest gap that `interpolate` bridges, in steps; empty: any."
    )

    @model_validator(mode="after")
    def _whole(self) -> Window:
        if self.targets and not self.horizon:
            raise ValueError(
                "`targets` are forecast, and `horizon` is 0; say how many steps to forecast"
            )
        if self.longest is not None and self.gaps != "interpolate":
            raise ValueError("`longest` belongs to `gaps: interpolate`")
        return self


class Data(Section):
    """What is trained on and how it is cut."""

    set: str | None = Field(
        default=None,
        description="A data set by its name (`table`: the table at `path` by the rules' data contract); empty: a table with a 0/1 column.",
    )
    path: str | None = Field(
        default=None,
        description="Table, or file or folder of the data set; without one a generator makes data of its form.",
    )
    size: Count | None = Field(
        default=None,
        description="How much of a data set: rows, images, hours, engines, as the set counts.",
    )
    window: Window | None = Field(default=None, description="Windows of the data set's series.")
    rows: int = Field(
        default=10_000, ge=1, le=10_000_000, description="Rows the generator of the table makes."
    )
    seed: int = Field(
        default=6,
        ge=0,
        description="Seed of the generator and of the rows held out, equal in all arms.",
    )
    label: str = Field(
        default="Machine failure", description="Header of the 0/1 column to predict."
    )
    features: tuple[str, ...] = Field(
        default=(),
        description="Headers of the numeric columns the model reads; empty: every number column that the rules read.",
    )
    categories: tuple[str, ...] = Field(
        default=(), description="Headers of text columns the model reads, one 0/1 feature per text."
    )
    machine: str = Field(
        default="machine",
        description="Header of the column that names the machine of a row; dealt out where missing.",
    )
    split: Literal["dirichlet", "iid", "column", "sites", "classes", "sizes", "quantity"] = Field(
        default="dirichlet",
        description="How rows come to sites; `sites`: as the data set's own stations, engines, runs; `classes`, `sizes`, `quantity`: sites "
        "unlike in the classes they have, in size by chance, in size by `shares`.",
    )
    clients: Count | None = Field(
        default=None,
        description="With `split: sites`, so many of the set's own sites, the first ones; empty: all.",
    )
    alpha: Positive = Field(
        default=1.0,
        description="Concentration of the Dirichlet split: 0.1 very unequal sites, 10 nearly equal.",
    )
    size_alpha: Positive | None = Field(
        default=None,
        description="Concentration of the sites' sizes beside `alpha`; empty: uniform.",
    )
    classes_per_site: Count = Field(
        default=2, description="Classes that each site has, for `split: classes`."
    )
    shares: tuple[Positive, ...] = Field(
        default=(), description="Sizes of the sites in proportion, one each, for `split: quantity`."
    )
    min_samples: Count = Field(
        default=50, description="Fewest rows a site may have; a draw with fewer is drawn again."
    )
    site_column: str = Field(
        default="site", description="Header of the column that names the site, for `split: column`."
    )
    dates: Literal["day-first", "month-first"] | None = Field(
        default=None,
        description="How dates such as 03/04/2024 are meant, where no date of the time column tells; empty: found out.",
    )
    test: Fraction = Field(
        default=0.2,
        description="Share of all rows held out for the test, each class alike; of windows the last ones. A data set that sets a test aside"
        " itself (MNIST, C-MAPSS) keeps it.",
    )
    server: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.15,
        description="Share of all rows the server holds: probe (labels unused) and threshold (labels used).",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_their_own_sites(cls, value: object) -> object:
        """Stations, engines and runs are sites of their own, unless something else is said."""
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
        if name is not None and name not in known:
            near = nearest_name(name, list(known))
            raise ValueError(
                f"there is no data set {name!r}; "
                + (f"did you mean {near!r}?" if near else f"known: {', '.join(known)}")
            )
        return name

    @model_validator(mode="after")
    def _something_left(self) -> Data:
        if self.test + self.server >= 1.0:
            raise ValueError("test and server together leave no rows for the sites")
        return self

    @model_validator(mode="after")
    def _of_one_kind(self) -> Data:
        """What is said of a table is not said of a data set, and the other way round."""
        fields = type(self).model_fields
        if self.set is not None:
            idle = [name for name in TABLE_FIELDS if getattr(self, name) != fields[name].default]
            if idle:
                raise ValueError(
                    f"a data set is read as it is: {', '.join(f'`{name}`' for name in idle)} would not be looked at"
                )
            if self.set == TABLE_SET and self.path is None:
                raise ValueError(f"`set: {TABLE_SET}` needs the `path` of the table")
            if self.set == TABLE_SET and self.size is not None:
                raise ValueError(f"`size`: with `set: {TABLE_SET}` all rows of the table are read")
            if self.split == "column" and self.set != TABLE_SET:
                raise ValueError(
                    "a data set by its name has no columns to split by; its own stations or runs are `split: sites`"
                )
            return self
        for name in ("size", "window"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}` is of a data set; name it with `set` (`set: {TABLE_SET}` for the table at `path`)"
                )
        if self.split not in ("dirichlet", "iid", "column"):
            raise ValueError(
                f"`split: {self.split}` is of data sets; name one with `set` (`set: {TABLE_SET}` for the table at `path`)"
            )
        if not self.server:
            raise ValueError(
                "server: above 0; the server needs rows of its own to judge models by the rules"
            )
        return self

    @property
    def own_sites(self) -> bool:
        """Whether the sites are those that the data itself names, so that the job need not."""
        return self.set is not None and self.split in ("sites", "column")

    @model_validator(mode="after")
    def _shared_out(self) -> Data:
        if (self.split == "quantity") != bool(self.shares):
            raise ValueError(
                "`split: quantity` and `shares` belong together: the size of each site in proportion to the others"
            )
        if self.clients is not None and self.split != "sites":
            raise ValueError(
                "`clients` says how many of a data set's own sites there are: `split: sites`"
            )
        return self
