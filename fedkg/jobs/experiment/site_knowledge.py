"""Private knowledge of sites: where it comes from, and what it says about a site's samples.

Letters: N samples, F features, K classes.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

from fedkg.data.sets import DataSet
from fedkg.errors import FedkgError, JobError, MissingExtra
from fedkg.jobs.model_builder import build_model
from fedkg.jobs.schema.data_section import TRAINED, Knowledge
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import format_field_errors
from fedkg.jobs.schema.model_section import Model
from fedkg.jobs.source_tables import sha256_of
from fedkg.models import Model as TrainableModel
from fedkg.models import Params, predict
from fedkg.pack import Pack
from fedkg.tables import Table, read_table

F64 = NDArray[np.float64]
Index = NDArray[np.int64]

RIDGE = 1.0
"""Weight of half the squared weights next to the sum of all losses of a trained predictor: the
default of scikit-learn's `LogisticRegression` (C = 1)."""

MOST_ITERATIONS = 200
"""Iterations of L-BFGS; a convex problem of this size ends earlier."""

GENERATED = "target"
"""Name of the output in rules that fedkg writes, if the output of the job has no plain name."""

ANYTHING = ("", "-", "any", "*")
"""Cells of a lookup table that say nothing, as in decision tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What models predict.

    Attributes:
        name: in the rules; "" if the job has no rules.
        task: of the data set.
        classes: their names; empty for numbers.
        unit: of a number.
        span: of a number, if the rules declare one.
    """

    name: str
    task: str
    classes: tuple[str, ...] = ()
    unit: str = ""
    span: tuple[float, float] | None = None

    @property
    def answers(self) -> int:
        """Outputs of a model."""
        return len(self.classes) or 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """What one source says about N samples, in source units.

    Attributes:
        allowed: bool [N, K] for classes, or the lower and upper bound [N, 2] of a number; None if
            the source has no ranges.
        predicted: [N], the position of a class or a number; NaN if unknown. None if the source
            predicts nothing.
    """

    allowed: NDArray[Any] | None = None
    predicted: F64 | None = None


Source = Callable[[NDArray[Any]], Said]
"""Evaluates one source of knowledge on features [N, F] in source units; see `last_step`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteKnowledge:
    """The private knowledge of one site.

    Attributes:
        site: name of the site.
        trust: its own trust in predictions; None: that of the job.
        packs: compiled rules.
        sources: lookup tables and models, in order.
        train: the predictor that the site trains itself, or None.
        features: features that `train` reads; empty: all.
        target: what models predict.
        files: path and SHA-256 of each file.
    """

    site: str
    trust: float | Literal["cross_validate"] | None
    target: Target
    packs: tuple[Pack, ...] = ()
    sources: tuple[Source, ...] = ()
    train: str | None = None
    features: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> str:
        """The field of the job, for messages."""
        return f"sites.{self.site}.knowledge"

    @property
    def has_sources(self) -> bool:
        """Whether the site has knowledge, not only a trust of its own."""
        return bool(self.packs or self.sources or self.train)

    @property
    def is_trained(self) -> bool:
        """Whether a model is part of the knowledge, which can predict outside its ranges."""
        models = [one for one in self.sources if not isinstance(one, Lookup)]
        return self.train is not None or bool(models)

    def note_unused_lookups(self, data: DataSet) -> tuple[str, ...]:
        """A note about a lookup table that lists none of the site's N samples."""
        return tuple(
            f"{self.place}: the lookup table lists none of {data.samples:,} samples"
            for source in self.sources
            if isinstance(source, Lookup) and (source.rows_of(last_step(data)) < 0).all()
        )


def load_site_knowledge(job: Job, data: DataSet, target: Target) -> dict[str, SiteKnowledge]:
    """Load the knowledge of the sites of a job that have any, or a trust of their own.

    Args:
        job: the job with absolute paths.
        data: the samples; their features may occur in decision tables and models.
        target: what models predict.

    Raises:
        JobError: a file is missing or does not fit the data; the message names the site.
    """
    found = {}
    for name, site in job.sites.items():
        if site.knowledge is None and site.trust is None:
            continue
        knowledge = site.knowledge
        try:
            found[name] = (
                SiteKnowledge(site=name, trust=site.trust, target=target)
                if knowledge is None
                else _load(name, site.trust, knowledge, data, target)
            )
        except OSError as error:
            raise JobError(
                f"sites.{name}.knowledge: cannot read {error.filename}",
                received=error.strerror or str(error),
                help="paths are relative to the file that names them",
            ) from error
    return found


def _load(
    site: str,
    trust: float | Literal["cross_validate"] | None,
    knowledge: Knowledge,
    data: DataSet,
    target: Target,
) -> SiteKnowledge:
    place = f"sites.{site}.knowledge"
    others = [name for name in ("lookup", "model", "train") if getattr(knowledge, name)]
    if others and target.task == "forecast":
        raise JobError(
            f"{place}: `{others[0]}` gives one answer for each sample, and a forecast has several",
            help="use `rules` with ranges of the forecast output",
        )
    if knowledge.train is not None and target.task not in TRAINED[knowledge.train]:
        raise JobError(
            f"{place}: `train: {knowledge.train}` cannot predict this target ({target.task})",
            expected=next(
                (f"`train: {name}`" for name, tasks in TRAINED.items() if target.task in tasks), ""
            ),
            help="use this model, or other knowledge, such as `rules`",
        )
    unknown = [name for name in knowledge.features if name not in data.features]
    if unknown:
        raise JobError(
            f"{place}: the data has no such features",
            expected=", ".join(data.features[:20]),
            received=", ".join(unknown),
            help="correct the names, or add the columns to data.features",
        )
    packs = []
    if knowledge.rules:
        packs.append(_compile(place, knowledge.rules))
    sources: list[Source] = []
    if knowledge.table is not None:
        packs.append(_compile_text(place, _table_text(knowledge.table, data, target)))
    if knowledge.lookup is not None:
        sources.append(_load_lookup(place, knowledge.lookup, data, target))
    if knowledge.model is not None:
        path = knowledge.model
        if not Path(path).is_file():
            raise FileNotFoundError(2, "no such file", path)
        if path.lower().endswith(".onnx"):
            sources.append(_load_onnx(place, path, data, target))
        elif knowledge.architecture:
            sources.append(_load_weights(place, path, knowledge.architecture, data, target))
        else:
            packs.append(_compile_text(place, _model_text(path, data, target)))
    files = (*knowledge.rules, knowledge.table, knowledge.lookup, knowledge.model)
    return SiteKnowledge(
        site=site,
        trust=trust,
        target=target,
        packs=tuple(packs),
        sources=tuple(sources),
        train=knowledge.train,
        features=knowledge.features,
        files=tuple((file, sha256_of(file)) for file in files if file is not None),
    )


def _compile(place: str, files: Sequence[str]) -> Pack:
    """The compiled rule files of a site."""
    from fedkg import authoring

    for file in files:
        if "://" not in file and not Path(file).exists():
            raise FileNotFoundError(2, "no such file", file)
    return _compiled(place, lambda: authoring.compile(authoring.parse_sources(files)))


def _compile_text(place: str, text: str) -> Pack:
    from fedkg import authoring

    return _compiled(place, lambda: authoring.compile(text=text))


def _compiled(place: str, compile_: Callable[[], Pack]) -> Pack:
    """The result of the compiler, with errors that name the site."""
    from fedkg import authoring

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", authoring.RuleWarning)
        try:
            return compile_()
        except authoring.CompileError as error:
            raise JobError(f"{place}: the rules have errors\n{error}") from error


def _quoted(text: str) -> str:
    """A string of the rule language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _declarations(data: DataSet, target: Target) -> tuple[str, list[str]]:
    """The name of the output, and declarations of the data's columns in the rule language."""
    lines = []
    for number, (header, unit) in enumerate(zip(data.features, data.units, strict=True)):
        plain = header.isidentifier() and header.isascii() and header != target.name
        name = header if plain and header.islower() else f"feature_{number}"
        lines.append(f"signal {name}{f' in {unit}' if unit else ''} column {_quoted(header)}")
    name = target.name if target.name.isidentifier() else GENERATED
    if target.classes:
        lines.append(f"label {name} classes {', '.join(map(_quoted, target.classes))}")
    elif target.task == "detection":
        lines.append(f"output {name} in probability span 0 .. 1")
    else:
        span = "" if target.span is None else f" span {target.span[0]:g} .. {target.span[1]:g}"
        lines.append(f"output {name}{f' in {target.unit}' if target.unit else ''}{span}")
    return name, lines


def _table_text(path: str, data: DataSet, target: Target) -> str:
    """Rules that read a decision table."""
    if not Path(path).is_file():
        raise FileNotFoundError(2, "no such file", path)
    name, lines = _declarations(data, target)
    lines += [
        f"range knowledge own_table of {name} in table {_quoted(path)}",
        "  otherwise allow any",
    ]
    return "\n".join(lines) + "\n"


def _model_text(path: str, data: DataSet, target: Target) -> str:
    """Rules that read a network of dense layers."""
    name, lines = _declarations(data, target)
    lines.append(f"predict knowledge own_model of {name} from model {_quoted(path)}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lookup:
    """A lookup table of R rows.

    Attributes:
        positions: of its P features among those of the samples.
        keys: the features of its rows, [R, P] in the precision of the samples.
        rows: the row of each key.
        allowed: what each row allows, and `predicted` what it predicts, as in `Said`.
    """

    positions: tuple[int, ...]
    keys: NDArray[Any]
    rows: Mapping[bytes, int]
    allowed: NDArray[Any] | None
    predicted: F64 | None

    def rows_of(self, x: NDArray[Any]) -> Index:
        """The row of each sample [N], -1 for none."""
        keys = lookup_keys(x[:, self.positions], self.keys.dtype)
        return np.array([self.rows.get(key.tobytes(), -1) for key in keys], dtype=np.int64)

    def __call__(self, x: NDArray[Any]) -> Said:
        """See `Source`."""
        found = self.rows_of(x)
        known = found >= 0
        allowed = predicted = None
        if self.allowed is not None:
            everything = (
                np.ones((len(found), self.allowed.shape[1]), dtype=bool)
                if self.allowed.dtype == bool
                else np.tile([-np.inf, np.inf], (len(found), 1))
            )
            everything[known] = self.allowed[found[known]]
            allowed = everything
        if self.predicted is not None:
            predicted = np.full(len(found), np.nan)
            predicted[known] = self.predicted[found[known]]
        return Said(allowed=allowed, predicted=predicted)


def lookup_keys(x: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Features whose bytes are equal where the numbers are equal: -0 becomes 0."""
    return np.ascontiguousarray(x.astype(dtype) + dtype.type(0))


def _load_lookup(place: str, path: str, data: DataSet, target: Target) -> Source:
    """A lookup table (the range model of Fan et al. 2022, section 6: a hash map)."""
    if not Path(path).is_file():
        raise FileNotFoundError(2, "no such file", path)
    try:
        table = read_table(path)
        answers = [name for name in ("allow", "predict") if name in table.headers]
        features = [name for name in table.headers if name not in answers]
        strange = [name for name in features if name not in data.features]
        if strange or not answers or not features:
            raise JobError(
                f"{place}: {path} is not a lookup table of this data",
                expected="columns named after features "
                f"({', '.join(data.features[:8])}), and `allow` or `predict`",
                received=", ".join(table.headers[:12]),
                help="use the features' names as headers",
            )
        if not table.rows:
            raise JobError(
                f"{place}: {path} has no rows",
                expected="a row for each known sample",
                help="add the rows, or remove `lookup`",
            )
        keys = np.stack([table.numbers(name) for name in features], axis=1)
    except FedkgError as error:
        if isinstance(error, JobError):
            raise
        raise JobError(f"{place}: {error}") from error
    keys = lookup_keys(keys, data.x.dtype)
    rows: dict[bytes, int] = {}
    for row, key in enumerate(keys):
        first = rows.setdefault(key.tobytes(), row)
        if first != row:
            raise JobError(
                f"{place}: {path} lists a sample twice",
                received=f"the same features in {table.where(first)} and {table.where(row)}",
                help="keep one row for each combination of features",
            )
    allowed = predicted = None
    if "allow" in answers:
        allowed = np.stack([_allowed(place, table, row, target) for row in range(table.rows)])
    if "predict" in answers:
        numbers = [_predicted(place, table, row, target) for row in range(table.rows)]
        predicted = np.array(numbers, dtype=np.float64)
    return Lookup(
        positions=tuple(data.features.index(name) for name in features),
        keys=keys,
        rows=rows,
        allowed=allowed,
        predicted=predicted,
    )


def _allowed(place: str, table: Table, row: int, target: Target) -> NDArray[Any]:
    """The allowed classes, bool [K], or the allowed interval [2] in a cell of a lookup table."""
    text = table.texts("allow")[row].strip()
    if target.classes:
        if text in ANYTHING:
            return np.ones(len(target.classes), dtype=bool)
        names = [name.strip() for name in text.split(",")]
        return np.isin(range(target.answers), [_class(place, table, row, target, n) for n in names])
    if text in ANYTHING:
        return np.array([-np.inf, np.inf])
    try:
        low, high = (float(part) for part in text.split(".."))
    except ValueError:
        low, high = math.nan, math.nan
    if not low <= high:
        raise JobError(
            f"{place}: {table.name}, {table.where(row)}: `allow` is not an interval",
            expected="two numbers with the lower one first, such as 2 .. 5",
            received=repr(text),
            help="correct the cell",
        )
    return np.array([low, high])


def _predicted(place: str, table: Table, row: int, target: Target) -> float:
    """The predicted class or number in a cell of a lookup table; NaN for none."""
    text = table.texts("predict")[row].strip()
    if text in ANYTHING:
        return math.nan
    if target.classes:
        return float(_class(place, table, row, target, text))
    try:
        return float(text)
    except ValueError:
        raise JobError(
            f"{place}: {table.name}, {table.where(row)}: `predict` is not a number",
            received=repr(text),
            help="correct the cell",
        ) from None


def _class(place: str, table: Table, row: int, target: Target, name: str) -> int:
    """The position of a class."""
    if name not in target.classes:
        raise JobError(
            f"{place}: {table.name}, {table.where(row)}: the class `{name}` is unknown",
            expected=", ".join(target.classes[:10]),
            received=name,
            help="correct the cell",
        )
    return target.classes.index(name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weights:
    """The weights of a model that the job describes."""

    model: TrainableModel
    params: Params

    def __call__(self, x: NDArray[np.float32]) -> F64:
        """The answers [N, answers] for inputs in the model's scale."""
        return predict(self.model, self.params, torch.from_numpy(x)).double().numpy()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedNetwork:
    """A trained model: `run` maps [N, inputs] in the model's scale to its answers [N, answers]."""

    positions: tuple[int, ...]
    mean: F64
    std: F64
    run: Callable[[NDArray[np.float32]], F64]
    decision: str
    place: str
    target: Target

    def __call__(self, x: NDArray[Any]) -> Said:
        """See `Source`."""
        raw = x[:, self.positions].astype(np.float64)
        known = np.isfinite(raw).all(axis=1)
        predicted = np.full(len(raw), np.nan)
        if known.any():
            answers = self.run(((raw[known] - self.mean) / self.std).astype(np.float32))
            predicted[known] = self._decide(answers)
        return Said(predicted=predicted)

    def _decide(self, answers: F64) -> F64:
        if answers.ndim != 2 or answers.shape[1] != self.target.answers:
            raise JobError(
                f"{self.place}: the model gives a wrong number of answers for each sample",
                expected=f"{self.target.answers}"
                + (", one per class" if self.target.classes else ""),
                received=str(answers.shape[1])
                if answers.ndim == 2
                else f"an array of shape {list(answers.shape)} for {len(answers)} samples",
                help="correct the model, or use one that was trained for this output",
            )
        if self.target.classes:
            return np.asarray(answers.argmax(axis=1), dtype=np.float64)
        number = answers[:, 0]
        if self.target.task == "detection" and self.decision != "probability":
            return np.asarray(0.5 * (1.0 + np.tanh(0.5 * number)))
        return np.asarray(number)


def _metadata_list(place: str, path: str, metadata: Mapping[str, str], name: str) -> list[Any]:
    """A JSON list in the metadata of a model file."""
    try:
        found = json.loads(metadata[name])
    except (KeyError, ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found:
        raise JobError(
            f"{place}: {path} has no list `{name}` in its metadata",
            expected='for example {"features": "[\\"ash\\", \\"sulphur\\"]"}'
            if name == "features"
            else f'for example {{"{name}": "[0.5, 12.0]"}}',
            received=", ".join(metadata) or "no metadata",
            help="write the list into the metadata of the file when you save the model",
        )
    return found


def _network(
    place: str,
    path: str,
    metadata: Mapping[str, str],
    data: DataSet,
    target: Target,
    run: Callable[[NDArray[np.float32]], F64],
) -> Source:
    """The model of a file with the features, mean and std of its metadata."""
    features = _metadata_list(place, path, metadata, "features")
    unknown = [str(name) for name in features if name not in data.features]
    if unknown:
        raise JobError(
            f"{place}: {path} reads features that the data does not have",
            expected=", ".join(data.features[:20]),
            received=", ".join(unknown[:10]),
            help="correct `features` in the metadata, or train the model on these features",
        )
    scaling = []
    for name, default in (("mean", 0.0), ("std", 1.0)):
        listed: list[Any] = [default] * len(features)
        if name in metadata:
            listed = _metadata_list(place, path, metadata, name)
        try:
            values = np.array([float(one) for one in listed])
        except (TypeError, ValueError, OverflowError):  # a whole number may be too large
            values = np.array([np.nan])
        if (
            len(values) != len(features)
            or not np.isfinite(values).all()
            or not (name == "mean" or values.all())
        ):
            raise JobError(
                f"{place}: `{name}` in the metadata of {path} must have one number for "
                "each feature",
                expected=f"{len(features)} finite numbers, no zero as std",
                received=str(listed)[:100],
                help="correct the list in the metadata of the file when you save the model",
            )
        scaling.append(values)
    source = TrainedNetwork(
        positions=tuple(data.features.index(name) for name in features),
        mean=scaling[0],
        std=scaling[1],
        run=run,
        decision=metadata.get("decision", ""),
        place=place,
        target=target,
    )
    zero = np.zeros((1, len(features)), dtype=np.float32)
    try:
        answers = run(zero)
    except Exception as error:  # whatever the operators of the model raise
        why = next(iter(str(error).splitlines()), "")
        raise JobError(
            f"{place}: {path} cannot be evaluated for {len(features)} features",
            received=f"{type(error).__name__}: {why[:200]}",
            help="`features` in the metadata must list the inputs of the model",
        ) from error
    source._decide(answers)
    return source


def _load_onnx(place: str, path: str, data: DataSet, target: Target) -> Source:
    """An ONNX model with any operators, evaluated by the reference implementation of `onnx`."""
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ModuleNotFoundError as error:
        raise MissingExtra("ONNX models", "compiler") from error
    try:
        model = onnx.load(path)
        evaluator = ReferenceEvaluator(model)
        [first, *_] = model.graph.input
    except Exception as error:  # damaged files raise errors of several libraries
        raise JobError(
            f"{place}: {path} is not an ONNX model that can run",
            received=f"{type(error).__name__}: {str(error)[:200]}",
            help="export the model again; fedkg runs it with onnx.reference.ReferenceEvaluator",
        ) from error
    dimensions = first.type.tensor_type.shape.dim
    batch = dimensions[0].dim_value if dimensions else 0

    def run(x: NDArray[np.float32]) -> F64:
        size = batch or max(len(x), 1)
        pieces = []
        for start in range(0, len(x), size):
            piece = x[start : start + size]
            short = size - len(piece)
            padded = np.concatenate([piece, np.zeros((short, x.shape[1]), np.float32)])
            outputs = [np.asarray(one) for one in evaluator.run(None, {first.name: padded})
                       if not isinstance(one, list | dict)]  # fmt: skip
            fitting = [one for one in outputs if one.ndim == 2] or outputs
            if not fitting:
                raise ValueError("the model returns no tensor")
            answers = fitting[0].reshape(size, -1)
            pieces.append(answers[: len(piece)])
        return np.concatenate(pieces).astype(np.float64)

    metadata = {one.key: one.value for one in model.metadata_props}
    return _network(place, path, metadata, data, target, run)


def _load_weights(
    place: str, path: str, architecture: Mapping[str, Any], data: DataSet, target: Target
) -> Source:
    """The weights of a safetensors file in a model that the job describes."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            params = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise JobError(
            f"{place}: {path} is not a safetensors file",
            received=str(error),
            help="save the weights again with `safetensors.torch.save_file`",
        ) from error
    features = _metadata_list(place, path, metadata, "features")
    try:
        section = Model.model_validate(architecture)
    except ValidationError as error:
        raise JobError(f"{place}.architecture: {format_field_errors(error.errors())}") from error
    try:
        model = build_model(section, sample=(len(features),), outputs=target.answers)
    except JobError as error:
        raise JobError(f"{place}.architecture: {error}") from error
    shapes = {name: list(value.shape) for name, value in model.init(0).items()}
    own = {name: list(value.shape) for name, value in params.items()}
    if shapes != own:
        wrong = sorted(name for name in {*shapes, *own} if shapes.get(name) != own.get(name))
        raise JobError(
            f"{place}: the tensors in {path} do not have the shapes of `architecture`",
            expected=", ".join(f"{name} {shapes.get(name, 'absent')}" for name in wrong[:4]),
            received=", ".join(f"{name} {own.get(name, 'absent')}" for name in wrong[:4]),
            help="correct `architecture`, or save the weights of this model",
        )
    run = Weights(model=model, params=params)
    return _network(place, path, metadata, data, target, run)


def last_step(data: DataSet) -> NDArray[Any]:
    """The features [N, F] of rows, or of the last step of windows, in source units."""
    return data.x[:, -1] if data.x.ndim == 3 else data.x


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedPredictor:
    """A linear predictor that a site trained on its own samples.

    Attributes:
        columns: positions of the features that it reads.
        mean: of these features in its training samples.
        std: their standard deviation, 1 for constant ones.
        weights: [1 + features, answers], the first row is the constant.
        target: what models predict.
    """

    columns: tuple[int, ...]
    mean: F64
    std: F64
    weights: F64
    target: Target = field(repr=False)

    def __call__(self, x: NDArray[Any]) -> Said:
        """See `Source`; an unknown feature counts as its mean."""
        answers = self._design(x) @ self.weights
        if self.target.classes:
            return Said(predicted=answers.argmax(axis=1).astype(np.float64))
        number = answers[:, 0]
        if self.target.task == "detection":
            number = 0.5 * (1.0 + np.tanh(0.5 * number))
        return Said(predicted=number)

    def _design(self, x: NDArray[Any]) -> F64:
        scaled = (x[:, self.columns].astype(np.float64) - self.mean) / self.std
        return np.concatenate([np.ones((len(x), 1)), np.nan_to_num(scaled)], axis=1)


def train_predictor(known: SiteKnowledge, data: DataSet) -> TrainedPredictor:
    """Train the predictor of a site on its samples: logistic or linear regression with a ridge.

    Source: Fan et al. 2022, section 6.1 (multinomial logistic regression as prediction model).

    Args:
        known: the knowledge of the site, with `train`.
        data: the training samples of the site with their labels, in source units.
    """
    names = known.features or data.features
    columns = tuple(data.features.index(name) for name in names)
    x = last_step(data)[:, columns].astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a feature without any value
        mean, std = np.nan_to_num(np.nanmean(x, axis=0)), np.nan_to_num(np.nanstd(x, axis=0))
    empty = TrainedPredictor(
        columns=columns,
        mean=mean,
        std=np.where(std > 0, std, 1.0),
        weights=np.zeros((1 + len(columns), known.target.answers)),
        target=known.target,
    )
    design = empty._design(last_step(data))
    penalty = np.full(design.shape[1], RIDGE)
    penalty[0] = 0.0  # the constant
    if known.train == "linear_regression":
        normal = design.T @ design + np.diag(penalty)
        weights = np.asarray(np.linalg.solve(normal, design.T @ data.y)[:, None], np.float64)
    else:
        weights = _fit_logistic(design, data.y, penalty, known.target.answers)
    return TrainedPredictor(
        columns=columns, mean=mean, std=empty.std, weights=weights, target=known.target
    )


def _fit_logistic(design: F64, y: NDArray[Any], penalty: F64, answers: int) -> F64:
    """The weights [inputs, answers] of least cross entropy plus ridge: softmax, or one logit."""
    from scipy.optimize import minimize

    shape = (design.shape[1], answers)
    hot = (y[:, None] == np.arange(answers) if answers > 1 else y[:, None] > 0.5).astype(np.float64)

    def objective(flat: F64) -> tuple[float, F64]:
        weights = flat.reshape(shape)
        logits = design @ weights
        if answers > 1:
            highest = logits.max(axis=1, keepdims=True)
            normaliser = highest + np.log(np.exp(logits - highest).sum(axis=1, keepdims=True))
            loss = float((normaliser - (hot * logits).sum(axis=1, keepdims=True)).sum())
            chances = np.exp(logits - normaliser)
        else:
            loss = float((np.logaddexp(0.0, logits) - hot * logits).sum())
            chances = 0.5 * (1.0 + np.tanh(0.5 * logits))
        ridge = penalty[:, None] * weights
        gradient = design.T @ (chances - hot) + ridge
        return loss + 0.5 * float((ridge * weights).sum()), gradient.ravel()

    found = minimize(
        objective,
        np.zeros(math.prod(shape)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS},
    )
    return np.asarray(found.x, dtype=np.float64).reshape(shape)


def sources_of(known: SiteKnowledge, predictor: TrainedPredictor | None) -> Iterator[Source]:
    """The sources of a site's knowledge besides its packs, in order."""
    yield from known.sources
    if predictor is not None:
        yield predictor
