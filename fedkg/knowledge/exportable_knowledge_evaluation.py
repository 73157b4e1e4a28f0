"""Knowledge models in exported graphs: the same answers as `allowed_answers` and `predictions`, in
tensor operations alone.

Letters: N samples, R rows of a condition's bank, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedkg.knowledge.clause_conditions import Float
from fedkg.knowledge.injection_formulas import NOTHING
from fedkg.knowledge.target_bins import bin_slack
from fedkg.pack import Term
from fedkg.pack.knowledge_models import Clause, KnowledgeModel, Network

Place = tuple[int, Term | int | None]
"""A condition's bank, and its part: the condition itself (None), a term over its columns, or the
slot of a number."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "leaky_relu": lambda x: torch.where(x > 0, x, x * x.new_tensor(0.01)),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": lambda x: functional.gelu(x.float()).double(),
}
"""Those of `knowledge_network_forward_pass`. onnxruntime has neither `LeakyRelu` nor the `Erf` of
GELU in float64, and Python numbers become float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphConditions:
    """Conditions of N samples, from the outputs of a module of rules, each [N, R of all banks].

    Attributes:
        places: the columns of each condition and term.
        arrays: the pack's, with the weights of networks.
        holds: whether a condition is satisfied.
        unknown: whether a value that it needs is missing.
        numbers: the value of each term, NaN if it is unknown.
    """

    places: Mapping[Place, slice]
    arrays: Mapping[str, NDArray[np.generic]]
    holds: Tensor
    unknown: Tensor
    numbers: Tensor

    def verdict(self, clause: Clause) -> tuple[Tensor, Tensor]:
        """Whether the rows of a clause are satisfied and unknown, [N, R] each."""
        rows = self.places[clause.bank, None]
        return self.holds[:, rows], self.unknown[:, rows]

    def values(self, clause: Clause, term: Term) -> Tensor:
        """The value of a clause's term, [N, R]."""
        return self.numbers[:, self.places[clause.bank, term]]

    def inputs(self, network: Network) -> Tensor:
        """The inputs of a network in source units, [N, inputs]; NaN if unknown."""
        slots = range(len(network.mean))
        return torch.cat([self.numbers[:, self.places[network.bank, slot]] for slot in slots], 1)


def allowed_in_graph(
    models: Sequence[KnowledgeModel], count: int, ends: Float | None, on: GraphConditions
) -> Tensor:
    """The classes or bins that range models allow, bool [N, K].

    Args:
        models: range models of one output.
        count: K.
        ends: the edges of a number's bins, [K + 1]; None for a label.
        on: the conditions of the models.
    """
    samples = on.holds.shape[0]
    if ends is None:
        allowed = on.holds.new_ones(samples, count)
        for model in models:
            for clause, holds in _applicable(model, on):
                mask = holds.new_tensor(
                    [clause.classes is None or k in clause.classes for k in range(count)]
                )
                allowed = allowed & (~holds.any(1, keepdim=True) | mask)
        return allowed
    edges, slack = torch.from_numpy(ends), bin_slack(ends)
    low, high = (end.unsqueeze(1) for end in interval_in_graph(models, on))
    meets = (low + slack < edges[1:]) & (high + slack >= edges[:-1])
    last = (low <= edges[-1]) & (high >= edges[-2])
    return torch.cat([meets[:, :-1], meets[:, -1:] | last], 1) & (low <= high)


def interval_in_graph(
    models: Sequence[KnowledgeModel], on: GraphConditions
) -> tuple[Tensor, Tensor]:
    """The lower and upper bound, [N] each, that range models of one number allow; infinite without
    a bound.

    Arguments as in `allowed_in_graph`.
    """
    samples = on.holds.shape[0]
    low, high = (
        on.numbers.new_full((samples,), -math.inf),
        on.numbers.new_full((samples,), math.inf),
    )
    for model in models:
        if model.span is not None:
            least, most = low.new_tensor(model.span)
            low, high = torch.maximum(low, least), torch.minimum(high, most)
        for clause, holds in _applicable(model, on):
            if not holds.shape[1]:
                continue
            if clause.low is not None:
                low = torch.maximum(low, _limit(clause, clause.low, holds, -math.inf, on).amax(1))
            if clause.high is not None:
                high = torch.minimum(high, _limit(clause, clause.high, holds, math.inf, on).amin(1))
    return low, high


def predicted_in_graph(
    models: Sequence[KnowledgeModel], ends: Float | None, on: GraphConditions
) -> Tensor:
    """The class or bin that prediction models predict, int64 [N]; `NOTHING` for none.

    Arguments as in `allowed_in_graph`.
    """
    found = prediction_in_graph(models, on)
    if ends is not None:
        place = (found.unsqueeze(1) + bin_slack(ends) >= torch.from_numpy(ends)).sum(1) - 1
        place = place.clamp(0, len(ends) - 2)
        return torch.where(found.isnan(), NOTHING, place)
    return torch.where(found.isnan(), NOTHING, found.nan_to_num().to(torch.int64))


def prediction_in_graph(models: Sequence[KnowledgeModel], on: GraphConditions) -> Tensor:
    """The position of the class, or the number, that prediction models predict, [N]; NaN for none.

    Arguments as in `allowed_in_graph`.
    """
    found = on.numbers.new_full((on.holds.shape[0],), math.nan)
    for model in models:
        own = torch.full_like(found, math.nan)
        if model.network is not None:
            own = _run_network(model.network, on)
        undecided = torch.ones_like(found, dtype=torch.bool)
        for clause in (*model.clauses, *(() if model.otherwise is None else (model.otherwise,))):
            holds, unknown = on.verdict(clause)
            for row in range(holds.shape[1]):
                code = math.nan if clause.predicted is None else float(clause.predicted)
                said = (
                    torch.full_like(found, code)
                    if clause.value is None
                    else on.values(clause, clause.value)[:, row]
                )
                own = torch.where(undecided & holds[:, row], said, own)
                undecided = undecided & ~(holds[:, row] | unknown[:, row])
        found = torch.where(found.isnan(), own, found)
    return found


def _run_network(network: Network, on: GraphConditions) -> Tensor:
    """See `run_network`. onnxruntime may turn NaN into 0, so unknown inputs are replaced first."""
    inputs, mean = on.inputs(network), on.numbers.new_tensor(network.mean)
    known = inputs.abs() < math.inf
    x = (torch.where(known, inputs, mean) - mean) / on.numbers.new_tensor(network.std)
    for layer in network.layers:
        weight, bias = (
            torch.from_numpy(np.asarray(on.arrays[name], np.float64))
            for name in (layer.weight, layer.bias)
        )
        x = ACTIVATIONS[layer.activation](x @ weight.T + bias)
    match network.decision:
        case "largest":
            result = x.argmax(1).double()
        case "probability":
            result = (x[:, 0] >= 0.5).double()
        case "logit":
            result = (x[:, 0] >= 0.0).double()
        case "number":
            scale, offset = on.numbers.new_tensor([network.scale, network.offset])
            result = x[:, 0] * scale + offset
    return torch.where(known.all(1) & (x.abs() < math.inf).all(1), result, math.nan)


def _applicable(model: KnowledgeModel, on: GraphConditions) -> list[tuple[Clause, Tensor]]:
    """The clauses of a range model, with where each applies, bool [N, R]."""
    open_to = on.holds.new_ones(on.holds.shape[0])
    found = []
    for clause in model.clauses:
        holds, unknown = on.verdict(clause)
        open_to = open_to & ~(holds | unknown).any(1)
        found.append((clause, holds))
    if model.otherwise is not None:
        holds = open_to.unsqueeze(1)
        if model.otherwise.classes is None:
            holds = holds & on.verdict(model.otherwise)[0]
        found.append((model.otherwise, holds))
    return found


def _limit(clause: Clause, term: Term, holds: Tensor, none: float, on: GraphConditions) -> Tensor:
    number = on.values(clause, term)
    return torch.where(holds & ~number.isnan(), number, none)
