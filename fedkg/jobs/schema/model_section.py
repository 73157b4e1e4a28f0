"""The model section of a job file: kind, sizes, private parts and injected knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fedkg.jobs.schema.section_base import Count, Section, Share, Value, Width

Kind = Literal[
    "mlp", "softmax", "lenet5", "cnn", "rnn", "gru", "lstm", "transformer", "tabnet", "module"
]

SIZES: Mapping[Kind, tuple[str, ...]] = {
    "mlp": ("hidden", "dropout"),
    "softmax": (),
    "lenet5": (),
    "cnn": (),
    "rnn": ("hidden", "layers", "reads"),
    "gru": ("hidden", "layers", "reads"),
    "lstm": ("hidden", "layers", "reads"),
    "transformer": ("width", "layers", "heads", "feed", "dropout"),
    "tabnet": ("steps", "width", "graph"),
    "module": ("path", "options"),
}
"""The size fields of each kind of model; the data determines inputs and outputs."""

WINDOW_KINDS: tuple[Kind, ...] = ("rnn", "gru", "lstm", "transformer")
"""Kinds that read windows."""

IMAGE_KINDS: tuple[Kind, ...] = ("lenet5", "cnn")
"""Kinds that read images."""


class Inject(Section):
    """Knowledge about outputs that is built into the model.

    Outputs obey the rules' range knowledge and follow their prediction knowledge.
    """

    range: bool = Field(
        default=True,
        description="Whether outputs stay within `range knowledge`, if the rules have any.",
    )
    predict: bool = Field(
        default=True,
        description="Whether outputs follow `predict knowledge`, if the rules have any.",
    )
    trust: Literal["cross_validate"] | Share = Field(
        default=0.3,
        description="Weight of a prediction; `cross_validate`: the best of `trusts` on held-out "
        "folds of all sites.",
    )
    trusts: Annotated[tuple[Share, ...], Field(min_length=2)] = Field(
        default=(0.0, 0.1, 0.3, 0.6), description="Candidates for cross-validation."
    )
    folds: Annotated[int, Field(ge=2, le=20)] = Field(
        default=3, description="Number of folds of each site's rows."
    )
    rounds: Count = Field(
        default=5, description="Rounds that cross-validation trains for each candidate and fold."
    )

    policy: Literal["error", "drop", "repair"] | None = Field(
        default=None,
        description="Training labels that a range excludes: `error` stops before training; `drop` "
        "leaves the samples out; `repair` adds the label to the range of this sample. Empty: "
        "`error`, with `privacy` `repair`.",
    )
    control: bool = Field(
        default=True,
        description="Whether to train each setting also without knowledge, as a control; costs "
        "one more trial unless the job compares both. With `privacy` there is none, because it "
        "would spend the budget again.",
    )

    @model_validator(mode="after")
    def _something(self) -> Inject:
        if not (self.range or self.predict):
            raise ValueError(
                "`range` and `predict` are both false, so nothing is injected: set one of them to "
                "true, or remove `inject`"
            )
        return self


class Graph(Section):
    """The knowledge graph of a `tabnet`, fused with it by a learned share."""

    files: tuple[str, ...] = Field(
        default=(),
        description=(
            "RDF files, stores or endpoint addresses; empty: those among `rules`, or else a "
            "graph built from column names and rules."
        ),
    )
    convolutions: Count = Field(default=3, description="Graph convolutions.")


class Model(Section):
    """The model that each site trains."""

    kind: Kind = Field(
        default="mlp",
        description=(
            "The model, see Models and data sets; `module`: the module at `path`. `name` is a "
            "synonym of this field."
        ),
    )
    hidden: Width | tuple[Width, ...] | None = Field(
        default=None,
        description="Widths of the hidden layers of an `mlp` (empty: 32, 32); width of recurrent "
        "layers (empty: 16).",
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None, description="Dropout rate; empty: 0 (`mlp`) or 0.2 (`transformer`)."
    )
    layers: Count | None = Field(
        default=None,
        description="Recurrent layers, or encoders and decoders of a `transformer`; empty: 2.",
    )
    reads: Count | None = Field(
        default=None,
        description="Past values that each step of a recurrent network reads; empty: one.",
    )
    width: Width | None = Field(
        default=None,
        description="Width of a `transformer` (empty: 120) or a `tabnet` (empty: 128).",
    )
    heads: Count | None = Field(
        default=None, description="Attention heads of a `transformer`; empty: 2."
    )
    feed: Width | None = Field(
        default=None, description="Width of the feed-forward layers of a `transformer`; empty: 200."
    )
    steps: Count | None = Field(default=None, description="Decision steps of a `tabnet`; empty: 5.")
    graph: Graph | None = Field(
        default=None,
        description=("The knowledge graph that a `tabnet` reads with each row; empty: none."),
    )
    path: str | None = Field(
        default=None,
        description=(
            "A `torch.nn.Module` as `package.file:Name`, or `net.py:Name` for a file next "
            "to the job."
        ),
    )
    options: dict[str, Value | tuple[Value, ...]] = Field(
        default_factory=dict, description="Keyword arguments for the module at `path`."
    )
    private: tuple[str, ...] = Field(
        default=(),
        description="Prefixes of the names of the parameters that stay at a site if the algorithm "
        "has private layers; empty: the model's head, its last layer.",
    )
    shared: tuple[str, ...] = Field(
        default=(), description="The complement of `private`: prefixes of shared parameters."
    )
    inject: Inject | None = Field(
        default=None,
        description="Knowledge about outputs that is built into the model; `{}` for all defaults.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        """Accept `name` for `kind`."""
        if not isinstance(value, dict) or "name" not in value:
            return value
        if "kind" in value and value["kind"] != value["name"]:
            raise ValueError("`name` and `kind` are synonyms; give one of them")
        return {
            **{field: said for field, said in value.items() if field != "name"},
            "kind": value["name"],
        }

    @field_validator("inject", "graph", mode="before")
    @classmethod
    def _all_of_it(cls, value: object) -> object:
        """Expand `inject: true` to `inject: {}`, and `graph` likewise."""
        return {} if value is True else None if value is False else value

    @model_validator(mode="after")
    def _of_its_kind(self) -> Model:
        sizes = SIZES[self.kind]
        idle = [
            name
            for name in sorted({name for names in SIZES.values() for name in names} - set(sizes))
            if getattr(self, name) not in (None, {})
        ]
        if idle:
            has = ", ".join(f"`{name}`" for name in sizes) or "no size fields"
            raise ValueError(
                f"{', '.join(f'`{name}`' for name in idle)} "
                f"{'does' if len(idle) == 1 else 'do'} not apply to `{self.kind}`, which has {has}"
            )
        if (self.kind == "module") != (self.path is not None):
            raise ValueError(
                "`kind: module` and `path` require each other; "
                + (
                    "give `path` as package.file:Name or net.py:Name"
                    if self.path is None
                    else f"set `kind: module` instead of `{self.kind}`, or remove `path`"
                )
            )
        if self.path is not None and ":" not in self.path:
            raise ValueError(f"`path` must be package.file:Name or net.py:Name, not {self.path!r}")
        if self.kind in WINDOW_KINDS and isinstance(self.hidden, tuple):
            raise ValueError(
                "`hidden` of recurrent layers must be one width; set their number with `layers`"
            )
        if self.private and self.shared:
            raise ValueError("`private` and `shared` are complements; give one of them")
        return self
