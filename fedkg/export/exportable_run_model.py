"""The model of a run as one graph: from raw inputs to raw outputs, with scaling, injected knowledge
and hard rules.

The network computes in its own dtype; scaling, knowledge and rules use float64, so that the file
satisfies bounds exactly.

Letters: B batch, T steps of a window, F features, I inputs (features and codes of categories), E
knowledge columns, K classes, H outputs, P steps of a forecast, V channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from fedkg.constraints.binding.layout import columns
from fedkg.constraints.module import ConstraintModule
from fedkg.data import Scaling
from fedkg.export.onnx_and_torch_export import GraphModel
from fedkg.federated.model.constrained_outputs import EXCLUDED, Informed, Projected
from fedkg.federated.model.knowledge_bounded_models import (
    UNKNOWN,
    Bounded,
    BoundedChance,
    Laid,
    Narrow,
)
from fedkg.federated.temporal.hard_rule_forecasts import ForecastTeacher, HardForecasts
from fedkg.jobs.experiment.knowledge_feature_columns import ColumnForm
from fedkg.jobs.experiment.site_knowledge import (
    Lookup,
    Target,
    TrainedNetwork,
    TrainedPredictor,
    Weights,
)
from fedkg.jobs.rules_only_baseline import certain_classes
from fedkg.knowledge.exportable_knowledge_evaluation import (
    allowed_in_graph,
    interval_in_graph,
    prediction_in_graph,
)
from fedkg.knowledge.tensor_knowledge import KnowledgeConditions
from fedkg.models import Model, Params
from fedkg.models.model_protocols import ModelWrapper
from fedkg.models.random_streams import Noise
from fedkg.pack import Column, Pack
from fedkg.pack.knowledge_models import KnowledgeModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InFloat64(ModelWrapper):
    """A model in float32 with inputs and outputs in float64.

    Args:
        model: the model.
        dtype: of its parameters.
    """

    dtype: torch.dtype

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        return self.model.apply(params, x.to(self.dtype), noise).double()


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTrust:
    """A trust as a tensor: the ONNX exporter writes Python numbers in float32, and an answer mixed
    with rounded shares could leave its range.
    """

    share: float

    def __call__(self, rows: Tensor) -> Tensor:
        """The trust of rows [..., F], [...]."""
        return rows.new_tensor(self.share).expand(rows.shape[:-1])


def unwrap_model(model: Model, dtype: torch.dtype) -> tuple[Model, ForecastTeacher | None]:
    """A model of a trial with knowledge around it in float64, but without projections; and the
    teacher of the hard rules about its forecasts.
    """
    teacher: ForecastTeacher | None = None
    if isinstance(model, HardForecasts):
        teacher = model.rules
        model = model.model
    if isinstance(model, Projected):
        model = model.model
    if isinstance(model, Laid):
        model = model.model
    if isinstance(model, Informed):
        narrow = model.model
        assert isinstance(narrow, Narrow), "jobs build `Informed` around `Narrow`"
        inner = InFloat64(model=narrow.model, dtype=dtype)
        return replace(model, model=replace(narrow, model=inner)), teacher
    if isinstance(model, Bounded | BoundedChance):
        model = replace(model, model=InFloat64(model=model.model, dtype=dtype))
        if isinstance(model, Bounded) and isinstance(model.trust, float):
            return replace(model, trust=TensorTrust(share=model.trust)), teacher
        return model, teacher
    return InFloat64(model=model, dtype=dtype), teacher


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunKnowledge:
    """The knowledge that a run injects into the model of one site.

    Attributes:
        form: the form of its columns.
        sources: packs, lookup tables, networks, and the predictor that the site trained; the first
            prediction counts.
        place: the position of the site, counted from 1, if sites have knowledge or a trust of
            their own; None otherwise.
    """

    form: ColumnForm
    sources: tuple[Pack | Lookup | TrainedNetwork | TrainedPredictor, ...]
    place: int | None = None

    @property
    def packs(self) -> tuple[Pack, ...]:
        """The packs among the sources."""
        return tuple(one for one in self.sources if isinstance(one, Pack))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRules:
    """The rules about outputs that the graph enforces.

    Attributes:
        module: the rules over rows; None if forecasts satisfy them, or there are none.
        classes: K, if the answer is one of K classes, otherwise 0.
        teacher: the hard rules about forecasts.
    """

    module: ConstraintModule | None = None
    classes: int = 0
    teacher: ForecastTeacher | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunOutputs:
    """What the numbers of the answers are.

    Attributes:
        task: detection, classes, regression or forecast.
        scaling: of the outputs; None for classes and detection.
        steps: P; 0 without a forecast.
    """

    task: str
    scaling: Scaling | None = None
    steps: int = 0


class RunModel(GraphModel):
    """A model of a run for one site.

    Inputs are rows [B, I] or windows [B, T, I] in source units: the features, then the code of each
    category of `codes`. An unknown feature (NaN) counts as its mean, as in the run; knowledge does
    not know it.

    Outputs, float64: a probability or number [B, 1], the probabilities of classes [B, K], or
    forecasts [B, P, V] in source units.

    Args:
        model: the model of the trial.
        params: the parameters of the site.
        scaling: names and scaling of the F features.
        steps: T; 0 for rows.
        codes: categories that rules read and no feature contains.
        outputs: the meaning of the answers.
        knowledge: None without injection.
        rules: the rules that the answers satisfy.
    """

    def __init__(
        self,
        model: Model,
        params: Params,
        scaling: Scaling,
        *,
        steps: int,
        codes: Sequence[Column],
        outputs: RunOutputs,
        knowledge: RunKnowledge | None,
        rules: RunRules,
    ) -> None:
        extra = len(codes)
        super().__init__(
            (*scaling.names, *(column.source for column in codes)),
            [*scaling.mean.tolist(), *[0.0] * extra],
            [*scaling.std.tolist(), *[1.0] * extra],
            steps,
        )
        self.features, self.outputs = len(scaling.names), outputs
        self.site_place = None if knowledge is None else knowledge.place
        self._names = tuple(params)
        self.values = nn.ParameterList(
            nn.Parameter(value.detach().clone(), requires_grad=False) for value in params.values()
        )
        dtype = next(iter(params.values())).dtype
        self._model, self._teacher = unwrap_model(model, dtype)
        self.knowledge: KnowledgeColumns | None = None
        if knowledge is not None:
            self.knowledge = KnowledgeColumns(knowledge, scaling.names)
            self.listed = tuple(
                (one.positions, one.keys) for one in knowledge.sources if isinstance(one, Lookup)
            )
        self._classes = rules.classes
        self.rules: ConstraintModule | None = None
        self._derived: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
        if rules.module is not None:
            self._derived = tuple(
                (column.source, places)
                for column in rules.module.pack.manifest.contract.columns
                if (places := one_hot_places(column, self.flat_names))
            )
            seen = (*self.flat_names, *(source for source, _ in self._derived))
            self.rules = ConstraintModule(
                rules.module.pack, x=columns(seen, sure=True), y=rules.module.plan.y
            )

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        """See the class."""
        raw, mean = inputs[..., : self.features], self.mean[: self.features]
        known = torch.where(raw.isnan(), mean, raw)
        x = (known - mean) / self.std[: self.features]
        if self.knowledge is not None:
            told = self.knowledge(raw[:, -1] if self.steps else raw)
            if self.site_place is not None:
                place = torch.full_like(told[:, :1], float(self.site_place))
                told = torch.cat([told, place], 1)
            if self.steps:
                told = told.unsqueeze(1).expand(-1, self.steps, -1)
            x = torch.cat([x, told], -1)
        stack = {
            name: value.unsqueeze(0) for name, value in zip(self._names, self.values, strict=True)
        }
        answers = self._model.apply(stack, x.unsqueeze(0))[0]
        if self._teacher is not None:
            answers = self._nearest_forecasts(answers)
        elif self.rules is not None:
            seen = torch.cat([known, inputs[..., self.features :]], -1).flatten(1)
            answers = self._satisfy(self.rules, seen, answers)
        return self._convert(answers)

    def _satisfy(self, rules: ConstraintModule, seen: Tensor, answers: Tensor) -> Tensor:
        """The nearest answers [B, H] that satisfy the rules; see `HardRules.satisfy`."""
        if self._derived:
            codes = [category_code(seen, places) for _, places in self._derived]
            seen = torch.cat([seen, *(code.unsqueeze(1) for code in codes)], 1)
        if not self._classes:
            return rules.project(seen, answers)
        runs = len(rules.plan.runs)
        excluded = torch.stack(
            [
                rules.report_in_graph(seen, sure.expand(runs, answers.shape[0], -1)).violated.any(1)
                for sure in certain_classes(self._classes)
            ],
            dim=1,
        )
        excluded = excluded & ~excluded.all(1, keepdim=True)
        return torch.where(excluded, EXCLUDED, answers)

    def _nearest_forecasts(self, answers: Tensor) -> Tensor:
        """The nearest forecasts [B, P * V] that satisfy the hard rules."""
        teacher = self._teacher
        assert teacher is not None, "called for forecasts with hard rules"
        traces = answers.reshape(-1, self.outputs.steps, teacher.count)
        place = list(teacher.channels)
        near = teacher.teacher.nearest_in_graph(traces[:, :, place])
        by_channel = list(traces.unbind(2))
        for channel, moved in zip(place, near.unbind(2), strict=True):
            by_channel[channel] = moved
        return torch.stack(by_channel, 2).flatten(1)

    def _convert(self, answers: Tensor) -> Tensor:
        """Answers in the units of the rules."""
        if self.outputs.task == "detection":
            return torch.sigmoid(answers)
        if self.outputs.task == "classes":
            return torch.softmax(answers, -1)
        scaling = self.outputs.scaling
        assert scaling is not None, "numbers are scaled"
        if self.outputs.steps:
            answers = answers.reshape(-1, self.outputs.steps, len(scaling.names))
        return answers * torch.from_numpy(scaling.std) + torch.from_numpy(scaling.mean)


def one_hot_places(column: Column, names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Code and position of each 0/1 feature (``Type=L``) of a category; of windows the last step's.

    Empty if no feature contains it.
    """
    return tuple(
        (code, names.index(name))
        for code, text in enumerate(column.vocabulary)
        for name in (f"{column.source}={text}", f"{column.name}={text}")
        if name in names
    )


def category_code(x: Tensor, places: Sequence[tuple[int, int]]) -> Tensor:
    """The code of a category from its 0/1 features in x [B, F], float64 [B]; -1 for none."""
    code = torch.full_like(x[:, 0], -1.0)
    for own, place in places:
        code = torch.where(x[:, place] > 0.5, float(own), code)
    return code


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Statement:
    """What one source says about B rows.

    Attributes:
        allowed: bool [B, K] for classes, or for O numbers the bounds [B, O, 2].
        predicted: [B, 1 or O], the position of a class or a number; NaN for none.
    """

    allowed: Tensor
    predicted: Tensor


class KnowledgeColumns(nn.Module):
    """The knowledge columns of rows [B, F] in source units, float64 [B, E], as `ColumnForm` defines
    them, in tensor operations alone.

    Args:
        knowledge: the sources.
        features: names of the F features.
    """

    def __init__(self, knowledge: RunKnowledge, features: Sequence[str]) -> None:
        super().__init__()
        self.form = knowledge.form
        self.sources = tuple(_state(knowledge.form, one, features) for one in knowledge.sources)

    @override
    def forward(self, raw: Tensor) -> Tensor:
        """See the class."""
        said: _Statement | None = None
        for source in self.sources:
            own = source.of(raw)
            if said is None:
                said = own
                continue
            if self.form.outputs is None:
                allowed = said.allowed & own.allowed
            else:
                low = torch.maximum(said.allowed[..., 0], own.allowed[..., 0])
                high = torch.minimum(said.allowed[..., 1], own.allowed[..., 1])
                allowed = torch.stack([low, high], -1)
            first = torch.where(said.predicted.isnan(), own.predicted, said.predicted)
            said = _Statement(allowed=allowed, predicted=first)
        if said is None:
            said = blank_statement(self.form, raw)
        if self.form.outputs is None:
            return torch.cat([said.allowed.double(), (said.predicted + 1.0).nan_to_num(0.0)], 1)
        mean, std = (torch.from_numpy(n) for n in (self.form.outputs.mean, self.form.outputs.std))
        bounds = ((said.allowed - mean[:, None]) / std[:, None]).clamp(-UNKNOWN, UNKNOWN)
        predicted = ((said.predicted - mean) / std).clamp(-UNKNOWN, UNKNOWN)
        predicted = torch.where(predicted.isnan(), UNKNOWN, predicted)
        return torch.cat([bounds, predicted.unsqueeze(-1)], -1).flatten(1)


def blank_statement(form: ColumnForm, raw: Tensor) -> _Statement:
    """A statement that allows everything and predicts nothing."""
    nothing = torch.full_like(raw[:, :1], math.nan)
    if form.outputs is None:
        yes = torch.ones_like(nothing, dtype=torch.bool)
        return _Statement(allowed=yes.expand(-1, len(form.classes)), predicted=nothing)
    count = len(form.outputs.names)
    ends = nothing.new_tensor([-math.inf, math.inf])
    bounds = torch.zeros_like(nothing).unsqueeze(-1) + ends
    return _Statement(allowed=bounds.expand(-1, count, -1), predicted=nothing.expand(-1, count))


def _state(
    form: ColumnForm,
    source: Pack | Lookup | TrainedNetwork | TrainedPredictor,
    features: Sequence[str],
) -> _PackStatement | _LookupStatement | _NetworkStatement | _PredictorStatement:
    """The statements of a source about rows with these features."""
    match source:
        case Pack():
            return _PackStatement(form, source, features)
        case Lookup():
            return _LookupStatement(form, source)
        case TrainedNetwork():
            return _NetworkStatement(form, source)
        case TrainedPredictor():
            return _PredictorStatement(form, source)


class _PackStatement:
    """The statements of a pack's knowledge models."""

    def __init__(self, form: ColumnForm, pack: Pack, features: Sequence[str]) -> None:
        self.form, self.known = form, tuple(form.select(pack))
        inputs = [c for c in pack.manifest.contract.columns if c.role != "output"]
        self.reads = [(column, one_hot_places(column, features)) for column in inputs]
        self.places = [
            next((features.index(n) for n in (c.source, c.name) if n in features), -1)
            for c in inputs
        ]
        layout = columns([column.name for column in inputs], sure=True)
        self.conditions = KnowledgeConditions(pack, self.known, layout) if self.known else None

    def of(self, raw: Tensor) -> _Statement:
        """The statement about rows [B, F] in source units."""
        if self.conditions is None:
            return blank_statement(self.form, raw)
        read = []
        for (column, hot), place in zip(self.reads, self.places, strict=True):
            if column.type == "category":
                read.append(category_code(raw, hot))
            else:
                read.append(raw[:, place] if place >= 0 else torch.full_like(raw[:, 0], math.nan))
        on = self.conditions.in_graph(torch.stack(read, 1))
        if self.form.outputs is None:
            ranges, predictions = _by_kind(self.known)
            allowed = allowed_in_graph(ranges, len(self.form.classes), None, on)
            predicted = prediction_in_graph(predictions, on).unsqueeze(1)
            return _Statement(allowed=allowed, predicted=predicted)
        bounds, numbers = [], []
        for name in self.form.outputs.names:
            own = self.form.about(self.known, name)
            ranges, predictions = _by_kind(own)
            bounds.append(torch.stack(interval_in_graph(ranges, on), -1))
            numbers.append(prediction_in_graph(predictions, on))
        return _Statement(allowed=torch.stack(bounds, 1), predicted=torch.stack(numbers, 1))


class _LookupStatement:
    """The statements of a lookup table; see `Lookup`."""

    def __init__(self, form: ColumnForm, lookup: Lookup) -> None:
        self.form, self.lookup = form, lookup
        keys = _sortable_keys(torch.from_numpy(lookup.keys))
        self.order = torch.from_numpy(np.lexsort(keys.numpy().T[::-1]))
        self.keys = keys[self.order]

    def of(self, raw: Tensor) -> _Statement:
        """The statement about rows [B, F] in source units."""
        own, said = self.lookup, blank_statement(self.form, raw)
        wanted = _sortable_keys(raw[:, list(own.positions)].to(self.keys.dtype))
        row, known = _find_rows(self.keys, wanted)
        row = self.order[row]
        allowed, predicted = said.allowed, said.predicted
        if own.allowed is not None and "range" in self.form.kinds:
            listed = torch.from_numpy(own.allowed)[row]
            if self.form.outputs is None:
                allowed = listed | ~known
            else:
                allowed = torch.where(known.unsqueeze(2), listed.unsqueeze(1), allowed)
        if own.predicted is not None and "predict" in self.form.kinds:
            predicted = torch.where(known, torch.from_numpy(own.predicted)[row, None], predicted)
        return _Statement(allowed=allowed, predicted=predicted)


def _sortable_keys(x: Tensor) -> Tensor:
    """Features [N, P] as numbers [N, 2P] without NaN, which has no order but equals itself here."""
    unknown = x.isnan()
    return torch.cat([unknown.to(x.dtype), torch.where(unknown, 0.0, x)], 1)


def _find_rows(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The row of each of B keys among R sorted ones, [B], and whether it is there, [B, 1].

    A binary search: comparing all pairs would need memory for B x R of them.
    """
    row, last = torch.zeros_like(wanted[:, 0], dtype=torch.int64), len(keys) - 1
    for bit in reversed(range(len(keys).bit_length())):
        probed = keys[(row + (2**bit - 1)).clamp(max=last)]
        first = (probed != wanted).to(torch.uint8).argmax(1, keepdim=True)
        less = probed.gather(1, first) < wanted.gather(1, first)
        row = row + less.squeeze(1) * 2**bit
    row = row.clamp(max=last)
    return row, (keys[row] == wanted).all(1, keepdim=True)


class _NetworkStatement:
    """The predictions of a network with an architecture; see `TrainedNetwork`."""

    def __init__(self, form: ColumnForm, network: TrainedNetwork) -> None:
        self.form, self.network = form, network

    def of(self, raw: Tensor) -> _Statement:
        """The statement about rows [B, F] in source units."""
        own, run = self.network, self.network.run
        assert isinstance(run, Weights), "exported networks have weights"
        mean, std = torch.from_numpy(own.mean), torch.from_numpy(own.std)
        x = raw[:, list(own.positions)]
        known = x.abs() < math.inf
        x = ((torch.where(known, x, mean) - mean) / std).float()
        stack = {name: value.unsqueeze(0) for name, value in run.params.items()}
        answers = run.model.apply(stack, x.unsqueeze(0))[0].double()
        answers = _decide(own.target, answers, own.decision)
        predicted = torch.where(known.all(1, keepdim=True), answers, math.nan)
        return replace(blank_statement(self.form, raw), predicted=predicted)


class _PredictorStatement:
    """The predictions of a linear model that a site trained; see `TrainedPredictor`."""

    def __init__(self, form: ColumnForm, predictor: TrainedPredictor) -> None:
        self.form, self.predictor = form, predictor

    def of(self, raw: Tensor) -> _Statement:
        """The statement about rows [B, F] in source units."""
        own = self.predictor
        mean, std, weights = (torch.from_numpy(n) for n in (own.mean, own.std, own.weights))
        x = (raw[:, list(own.columns)] - mean) / std
        answers = torch.where(x.isnan(), 0.0, x) @ weights[1:] + weights[0]
        return replace(blank_statement(self.form, raw), predicted=_decide(own.target, answers))


def _decide(target: Target, answers: Tensor, decision: str = "") -> Tensor:
    """The predicted class or number [B, 1] of a model's answers."""
    if target.classes:
        return answers.argmax(1, keepdim=True).double()
    if target.task == "detection" and decision != "probability":
        return torch.sigmoid(answers)
    return answers


def _by_kind(known: Sequence[KnowledgeModel]) -> tuple[list[KnowledgeModel], list[KnowledgeModel]]:
    """The range models and the prediction models."""
    return (
        [one for one in known if one.kind == "range"],
        [one for one in known if one.kind == "predict"],
    )
