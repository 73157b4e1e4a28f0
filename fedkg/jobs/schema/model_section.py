"""The network of a job: which kind, its sizes, what each site may keep of it, and what is known of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fedkg.jobs.schema.section import Count, Section, Share, Value, Width

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
"""Which fields a kind of model has; how many inputs and outputs it has, the data says."""

WINDOW_KINDS: tuple[Kind, ...] = ("rnn", "gru", "lstm", "transformer")
"""Kinds that read windows of series."""

IMAGE_KINDS: tuple[Kind, ...] = ("lenet5", "cnn")
"""Kinds that read images."""


class Inject(Section):
    """What is known of the answers, built into the model: they obey the rules' range knowledge and follow their prediction knowledge."""

    range: bool = Field(
        default=True,
        description="Whether answers lie in what `range knowledge` allows, where the rules have some.",
    )
    predict: bool = Field(
        default=True,
        description="Whether answers follow what `predict knowledge` says, where the rules have some.",
    )
    trust: Literal["cross-validation"] | Share = Field(
        default=0.3,
        description="How far a prediction is followed; `cross-validation`: the best of `trusts` on rows held out in turn.",
    )
    trusts: Annotated[tuple[Share, ...], Field(min_length=2)] = Field(
        default=(0.0, 0.1, 0.3, 0.6), description="What cross-validation chooses from."
    )
    folds: Annotated[int, Field(ge=2, le=20)] = Field(
        default=3, description="Parts that each site's rows are held out in, one after another."
    )
    rounds: Count = Field(
        default=5, description="Rounds that cross-validation trains for each trust and part."
    )

    @model_validator(mode="after")
    def _something(self) -> Inject:
        if not (self.range or self.predict):
            raise ValueError("neither `range` nor `predict`: there is nothing to inject")
        return self


class Graph(Section):
    """The knowledge graph beside a `tabnet`, fused with it by a learned share."""

    files: tuple[str, ...] = Field(
        default=(),
        description="RDF files, stores, addresses of endpoints; empty: those among `rules`, or, where there are none, a graph of the "
        "columns' names and the rules.",
    )
    convolutions: Count = Field(default=3, description="Graph convolutions.")


class Model(Section):
    """The network each site trains."""

    kind: Kind = Field(
        default="mlp", description="A name in fedkg.models; `name` is understood too."
    )
    hidden: Width | tuple[Width, ...] | None = Field(
        default=None,
        description="Widths of the hidden layers of an `mlp` (empty: 32, 32); width of recurrent layers (empty: 16).",
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="Share of hidden units left out in training; empty: 0 (`mlp`), 0.2 (`transformer`).",
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
        default=None, description="Heads of attention of a `transformer`; empty: 2."
    )
    feed: Width | None = Field(
        default=None, description="Width of a `transformer`'s dense layers; empty: 200."
    )
    steps: Count | None = Field(default=None, description="Decision steps of a `tabnet`; empty: 5.")
    graph: Graph | None = Field(
        default=None,
        description="The knowledge graph that a `tabnet` reads beside each row (`true`, or a section); empty: none.",
    )
    path: str | None = Field(
        default=None,
        description="A `torch.nn.Module` as `package.file:Name`, or `net.py:Name` of a file beside the job.",
    )
    options: dict[str, Value | tuple[Value, ...]] = Field(
        default_factory=dict, description="What the module at `path` is called with."
    )
    private: tuple[str, ...] = Field(
        default=(),
        description="Beginnings of names of the parameters that a site may keep; empty: what the model calls its head.",
    )
    shared: tuple[str, ...] = Field(
        default=(), description="The other way round: beginnings of names of those that are shared."
    )
    inject: Inject | None = Field(
        default=None,
        description="What is known of the answers, built into the model; `{}` for all defaults.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        """`name` is `kind`."""
        if not isinstance(value, dict) or "name" not in value:
            return value
        if "kind" in value and value["kind"] != value["name"]:
            raise ValueError("`name` and `kind` are the same field; give one of them")
        return {
            **{field: said for field, said in value.items() if field != "name"},
            "kind": value["name"],
        }

    @field_validator("inject", "graph", mode="before")
    @classmethod
    def _all_of_it(cls, value: object) -> object:
        """`inject: true` is `inject: {}`, and `graph` likewise."""
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
            has = ", ".join(f"`{name}`" for name in sizes) or "no sizes of its own"
            raise ValueError(
                f"{', '.join(f'`{name}`' for name in idle)}: not of `{self.kind}`, which has {has}"
            )
        if (self.kind == "module") != (self.path is not None):
            raise ValueError(
                "`kind: module` and `path` belong together: the module, as package.file:Name or net.py:Name"
            )
        if self.path is not None and ":" not in self.path:
            raise ValueError(
                f"`path` names a file and what it has, as package.file:Name or net.py:Name, not {self.path!r}"
            )
        if self.kind in WINDOW_KINDS and isinstance(self.hidden, tuple):
            raise ValueError(
                "`hidden` of recurrent layers is one width, and `layers` says how many there are"
            )
        if self.private and self.shared:
            raise ValueError(
                "`private` and `shared` say the same the other way round; give one of them"
            )
        return self
