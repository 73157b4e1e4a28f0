"""Knowledge models of a pack on tensors: from a batch of features to the allowed and the predicted
classes.

A separate `ConstraintModule` evaluates conditions like rules over inputs, in float64, so layouts,
categories, traces and missing values have the same meaning. The span of a numeric output is divided
into bins, and the bins are its classes. Knowledge does not depend on the model: compute it once for
a data set, outside any transform.

Letters: B batch, T steps of a window, F features, N samples (B, or B * T), R rows of a condition's
bank, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from fedkg._internal.torch_compat import being_traced
from fedkg.constraints.binding.batch_scale_check import check_units
from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.binding.model_run_inputs import Keys, Previous
from fedkg.constraints.module import ConstraintModule
from fedkg.errors import KnowledgeError
from fedkg.knowledge.allowed_answers import allowed_classes_from, allowed_interval_from
from fedkg.knowledge.clause_conditions import ConditionVerdict, Float, term_bank
from fedkg.knowledge.exportable_knowledge_evaluation import (
    GraphConditions,
    Place,
    allowed_in_graph,
    predicted_in_graph,
)
from fedkg.knowledge.injection_formulas import NOTHING
from fedkg.knowledge.predictions import predictions_from
from fedkg.knowledge.target_bins import bin_edges, bin_of, bins_in_interval
from fedkg.pack import Bank, Pack, RuleRecord, Slot, Term
from fedkg.pack.knowledge_models import Clause, KnowledgeModel, Network


class _KnowledgeOnTensors(nn.Module):
    """The knowledge models of one kind about one output.

    Attributes:
        pack: compiled rules.
        output: the name of the label or number, or of one model of it.
        classes: the names of the K classes of a label; () for a number.
        ends: the edges of a number's K bins in its unit, float64 [K + 1]; None for a label.
    """

    kind: str
    says: str

    def __init__(self, pack: Pack, output: str, *, x: InputLayout, bins: int | None = None) -> None:
        super().__init__()
        self.pack, self.output = pack, output
        known = [model for model in pack.manifest.knowledge if model.kind == self.kind]
        self.models = tuple(model for model in known if output in (model.output, model.name))
        if not self.models:
            there = ", ".join(f"`{model.name}` of `{model.output}`" for model in known)
            raise KnowledgeError(
                f"the pack has no knowledge model for {self.says} of `{output}`",
                expected=there and f"the name of a model or output: {there}",
                help=""
                if there
                else f"write `{self.kind} knowledge` in the rules, and compile again",
            )
        self.classes = self.models[0].classes
        self.ends = _ends(self.models[0], bins)
        self._conditions = KnowledgeConditions(pack, self.models, x)

    @property
    def count(self) -> int:
        """K, the number of classes or bins."""
        return len(self.classes) if self.ends is None else len(self.ends) - 1

    def with_layout(self, x: InputLayout) -> Self:
        """The same knowledge for batches of another layout."""
        bins = None if self.ends is None else self.count
        return type(self)(self.pack, self.output, x=x, bins=bins)

    @property
    def layout(self) -> InputLayout:
        """Names and scaling of the features of a batch."""
        return self._conditions.rules.plan.x

    def _on(
        self, x: Tensor, keys: Keys | None, previous: Previous
    ) -> tuple[_TensorConditions, tuple[int, ...]]:
        return self._conditions(x, keys, previous), tuple(x.shape[:-1])


class RangeKnowledge(_KnowledgeOnTensors):
    """The classes that a pack allows: the intersection of all range models of one output.

    Args:
        pack: compiled rules.
        output: the name of the label or number, or of one range model of it.
        x: names and scaling of the features of a batch: ``fedkg.columns(names, mean=...,
            std=...)``.
        bins: number of bins of equal width for a number's span (Fan et al. 2022, appendix C).

    Raises:
        KnowledgeError: no range knowledge of that output, a number without `bins` or without a
            span, `bins` for a label.
        LayoutError: a column that the conditions read is not in the layout; or, in a call, a batch
            that is not [B, F] or [B, T, F], or that seems standardised although the layout says
            source units, or vice versa.
    """

    kind, says = "range", "the range"

    @override
    def forward(self, x: Tensor, *, keys: Keys | None = None, previous: Previous = None) -> Tensor:
        """The allowed classes or bins, bool [B, K], or for windows [B, T, K]; all False if the
        models contradict each other.

        Arguments as in `ConstraintModule.forward`.
        """
        if being_traced():
            return allowed_in_graph(
                self.models, self.count, self.ends, self._conditions.in_graph(x)
            ).reshape(*x.shape[:-1], self.count)
        on, shape = self._on(x, keys, previous)
        allowed = np.ones((on.samples, self.count), dtype=np.bool_)
        if self.ends is None:
            for model in self.models:
                allowed &= allowed_classes_from(model, on)
        else:
            low, high = np.full(on.samples, -np.inf), np.full(on.samples, np.inf)
            for model in self.models:
                interval = allowed_interval_from(model, on)
                low, high = np.maximum(low, interval[:, 0]), np.minimum(high, interval[:, 1])
            allowed = bins_in_interval(np.stack([low, high], axis=1), self.ends)
        return torch.from_numpy(allowed).reshape(*shape, self.count).to(x.device)


class PredictionKnowledge(_KnowledgeOnTensors):
    """The class that a pack predicts: the first prediction of the prediction models of one output.

    Arguments and errors as in `RangeKnowledge`.
    """

    kind, says = "predict", "a prediction"

    @override
    def forward(self, x: Tensor, *, keys: Keys | None = None, previous: Previous = None) -> Tensor:
        """The predicted class or bin, int64 [B], or for windows [B, T]; -1 without a prediction."""
        if being_traced():
            on_graph = self._conditions.in_graph(x)
            return predicted_in_graph(self.models, self.ends, on_graph).reshape(x.shape[:-1])
        on, shape = self._on(x, keys, previous)
        said = np.full(on.samples, np.nan)
        for model in self.models:
            said = np.where(np.isnan(said), predictions_from(model, on), said)
        place = said if self.ends is None else bin_of(said, self.ends)
        return (
            torch.from_numpy(np.where(np.isnan(place), NOTHING, place).astype(np.int64))
            .reshape(shape)
            .to(x.device)
        )


def _ends(model: KnowledgeModel, bins: int | None) -> Float | None:
    if model.classes:
        if bins is not None:
            raise KnowledgeError(
                f"`{model.output}` is a label; only numbers have bins",
                expected=f"no bins: the classes are {', '.join(model.classes)}",
                received=f"bins={bins}",
                help="leave bins= out",
            )
        return None
    if bins is None:
        raise KnowledgeError(
            f"`{model.output}` is a number, and its bins are not set",
            expected="bins=, the number of bins of equal width in its span",
            help="choose a number of bins, such as bins=20",
        )
    if model.span is None:
        raise KnowledgeError(
            f"`{model.output}` has no span to cut into bins",
            help=f"write `output {model.output} in ... span LOW .. HIGH`",
        )
    if bins < 1:
        raise KnowledgeError(
            f"`{model.output}` must have at least one bin",
            received=f"bins={bins}",
            help="choose a number of bins, such as bins=20",
        )
    return bin_edges(model.span, bins)


class KnowledgeConditions(nn.Module):
    """All banks that some knowledge models read, in one module of rules over inputs.

    Args:
        pack: the pack of the models.
        models: the models.
        x: names and scaling of the features of a batch.

    Raises:
        LayoutError: a column that the conditions read is not in the layout.
    """

    def __init__(self, pack: Pack, models: tuple[KnowledgeModel, ...], x: InputLayout) -> None:
        super().__init__()
        self.arrays = pack.arrays
        self.places: dict[Place, slice] = {}
        banks: list[Bank] = []
        rules: list[RuleRecord] = []
        start = 0
        for model in models:
            parts = (
                (place, bank)
                for place, bank in _read(pack, model).items()
                if place not in self.places
            )
            for part, (place, bank) in enumerate(parts):
                rules.append(RuleRecord(name=f"{model.name}, part {part}"))
                banks.append(replace(bank, rule=np.full(bank.rows, len(banks), dtype=np.int32)))
                self.places[place] = slice(start, start := start + bank.rows)
        skeletons = tuple(bank.skeleton for bank in banks)
        manifest = pack.manifest.model_copy(
            update={"rules": tuple(rules), "skeletons": skeletons, "knowledge": ()}
        )
        self.rules = ConstraintModule(Pack(manifest=manifest, banks=tuple(banks)), x=x)

    def in_graph(self, x: Tensor) -> GraphConditions:
        """The conditions of a batch [B, F] in tensor operations alone, for exported graphs."""
        report = self.rules.report_in_graph(x.double(), None)
        return GraphConditions(
            places=self.places,
            arrays=self.arrays,
            holds=report.satisfied,
            unknown=report.unknown,
            numbers=report.robustness,
        )

    @override
    def forward(self, x: Tensor, keys: Keys | None, previous: Previous) -> _TensorConditions:
        report = self.rules(x.double(), keys=keys, previous=previous).at_steps
        check_units(self.rules.plan, x.flatten(0, -2))  # a batch may be the whole data set
        holds, unknown, robustness = (
            part.flatten(0, -2).cpu().numpy()
            for part in (report.satisfied, report.unknown, report.robustness.detach())
        )
        return _TensorConditions(
            places=self.places,
            arrays=self.arrays,
            holds=holds,
            unknown=unknown,
            robustness=robustness,
        )


def _read(pack: Pack, model: KnowledgeModel) -> dict[Place, Bank]:
    """The banks that a knowledge model reads."""
    found: dict[Place, Bank] = {}
    for clause in (*model.clauses, *(() if model.otherwise is None else (model.otherwise,))):
        bank = pack.conditions[clause.bank]
        found[clause.bank, None] = bank
        for term in (clause.low, clause.high, clause.value):
            if term is not None:
                found[clause.bank, term] = term_bank(bank, term)
    if model.network is not None:
        bank = pack.conditions[model.network.bank]
        for slot in range(bank.slots.shape[1]):
            found[model.network.bank, slot] = term_bank(bank, Slot(index=slot))
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TensorConditions:
    """`Conditions` of a batch, from the outputs of the module of rules, each [N, R of all
    banks]."""

    places: Mapping[Place, slice]
    arrays: Mapping[str, NDArray[np.generic]]
    holds: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    robustness: Float

    @property
    def samples(self) -> int:
        return int(self.holds.shape[0])

    def verdict(self, clause: Clause) -> ConditionVerdict:
        rows = self.places[clause.bank, None]
        return ConditionVerdict(holds=self.holds[:, rows], unknown=self.unknown[:, rows])

    def numbers(self, clause: Clause, term: Term) -> Float:
        return self.robustness[:, self.places[clause.bank, term]]

    def inputs(self, network: Network) -> Float:
        return np.concatenate(
            [
                self.robustness[:, self.places[network.bank, slot]]
                for slot in range(len(network.mean))
            ],
            axis=1,
        )
