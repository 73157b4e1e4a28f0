"""TabNet's encoder of table rows (Arik and Pfister, 2021), alone or fused with a graph encoder of
the columns.

TabNet normalises over batches; this implementation normalises over each row's hidden values. The
output of a row then does not depend on other rows, only parameters have to be sent, and a padded or
split batch gives the same result.

Letters: C clients of a stack, B batch, F features, W width of decision and of attention, H outputs,
V nodes of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.graph_convolution import KnowledgeGraph, convolve_nodes, start_convolutions
from fedkg.models.layers import (
    INIT,
    broadcast_samples,
    dense,
    normalise,
    require_positive,
    start_affine,
    start_norm,
)
from fedkg.models.model_protocols import Params
from fedkg.models.random_streams import Noise, fold, root

_ROOT_HALF = math.sqrt(0.5)
_BLOCKS = 2
"""Gated blocks that all steps share, and number of blocks of each step."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TabNet:
    """Steps that each select some features of the row (sparsely) and add a decision from them; a
    dense head on the sum.

    Step i reads ``M_i x``, with the mask ``M_i = sparsemax(P_{i-1} h_i(a_{i-1}))`` and ``P_i =
    P_{i-1} (relaxation - M_i)``. Gated blocks, two shared by all steps and two of each step, turn
    the result into a decision and the next step's attention.

    With a graph, the representation of the row is ``beta h_sensor + (1 - beta) h_graph``, with a
    learned beta in 0 .. 1 (SCFA, Arafat, section 5). The paper does not specify how the graph's
    encoding depends on the row. Here, ``h_graph`` is the mean over the observed columns of the
    row's value times the encoding of the column's node, after `convolutions` graph convolutions.
    beta starts at 1/2.

    Sizes are those of Arik and Pfister's figure 4 with ``N_d = N_a = W``: a gated block is a dense
    layer of ``2 (N_d + N_a)`` values, two blocks are shared and two belong to each step. At SCFA's
    settings (968 features, 5 steps, W = 128, a graph of 5,247 nodes), the encoder has 2.86 million
    parameters and the graph 0.72 million. The paper reports 8.7 million, which we cannot derive:
    without shared blocks it would be 6.7 million, with twice the width 10.6 million.

    Parameters: ``shared.``, ``steps.0.`` (splits off the first attention) to ``steps.N.``,
    ``graph.``, ``fusion.logit`` [1] and ``head.``. The last is the head, all others the body (see
    `PartitionedModel`).

    Args:
        inputs: F.
        outputs: H.
        steps: N, decision steps.
        width: W.
        relaxation: above 1, several steps may select the same feature.
        graph: the knowledge graph of the columns, or None.
        convolutions: layers over it.

    Raises:
        JobError: for widths below 1, a relaxation below 1, or a graph over another number of
            columns.
    """

    inputs: int
    outputs: int = 1
    steps: int = 5
    width: int = 128
    relaxation: float = 1.3
    graph: KnowledgeGraph | None = None
    convolutions: int = 3

    def __post_init__(self) -> None:
        require_positive(self, "inputs", "outputs", "steps", "width", "convolutions")
        if self.relaxation < 1.0:
            raise JobError(
                "the relaxation of TabNet must be at least 1", received=str(self.relaxation)
            )
        if self.graph is not None and len(self.graph.column_node) != self.inputs:
            raise JobError(
                "the knowledge graph does not have the columns of the model",
                expected=f"a graph of {self.inputs} columns, as many as `inputs`",
                received=f"{len(self.graph.column_node)} columns",
                help="make the graph from the columns of the model",
            )

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`."""
        return {
            "body": ("shared.", "steps.")
            if self.graph is None
            else ("shared.", "steps.", "graph.", "fusion."),
            "head": ("head.",),
        }

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        key, twice = root(seed, INIT), 2 * self.width
        params: Params = {}
        for block in range(_BLOCKS):
            params |= _start_block(
                fold(key, block),
                f"shared.{block}",
                self.inputs if block == 0 else twice,
                twice,
                dtype,
            )
        for step in range(self.steps + 1):
            own = fold(key, _BLOCKS + step)
            for block in range(_BLOCKS):
                params |= _start_block(
                    fold(own, block), f"steps.{step}.{block}", twice, twice, dtype
                )
            if step:
                params |= start_affine(
                    fold(own, _BLOCKS), f"steps.{step}.attention", (self.inputs, self.width), dtype
                )
                params |= start_norm(f"steps.{step}.norm", self.inputs, dtype)
        last = fold(key, _BLOCKS + self.steps + 1)
        if self.graph is not None:
            params |= start_convolutions(
                fold(last, 0), "graph", self.graph, self.width, self.convolutions, dtype
            )
            params["fusion.logit"] = torch.zeros(1, dtype=dtype)
        return params | start_affine(fold(last, 1), "head", (self.outputs, self.width), dtype)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; without dropout."""
        x = broadcast_samples(x, params["head.bias"].shape[0], 1)
        sensor = torch.zeros((), dtype=x.dtype, device=x.device)
        for decision, _ in self._decisions(params, x):
            sensor = sensor + decision
        if self.graph is not None:
            beta = torch.sigmoid(params["fusion.logit"]).unsqueeze(1)
            sensor = beta * sensor + (1 - beta) * self._graph_encoding(params, self.graph, x)
        return dense(params["head.weight"], params["head.bias"], sensor)

    def masks(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The feature mask of each step: shares [C, N, B, F] that sum to 1 over the features."""
        x = broadcast_samples(x, params["head.bias"].shape[0], 1)
        return torch.stack([mask for _, mask in self._decisions(params, x)], 1)

    def _decisions(
        self, params: Mapping[str, Tensor], x: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Each step's decision [C, B, W] and mask [C, B, F]."""
        attention = self._transformed(params, 0, x)[..., self.width :]
        left = torch.ones_like(x)
        for step in range(1, self.steps + 1):
            name = f"steps.{step}"
            score = dense(
                params[f"{name}.attention.weight"], params[f"{name}.attention.bias"], attention
            )
            mask = sparsemax(
                left * normalise(params[f"{name}.norm.weight"], params[f"{name}.norm.bias"], score)
            )
            left = left * (self.relaxation - mask)
            value = self._transformed(params, step, mask * x)
            attention = value[..., self.width :]
            yield torch.relu(value[..., : self.width]), mask

    def _transformed(self, params: Mapping[str, Tensor], step: int, x: Tensor) -> Tensor:
        """The feature transformer of a step, [C, B, 2 W]: the shared gated blocks, then those of
        the step, with residual connections.
        """
        value = _block(params, "shared.0", x)
        for name in (
            *(f"shared.{block}" for block in range(1, _BLOCKS)),
            *(f"steps.{step}.{block}" for block in range(_BLOCKS)),
        ):
            value = (value + _block(params, name, value)) * _ROOT_HALF
        return value

    def _graph_encoding(
        self, params: Mapping[str, Tensor], graph: KnowledgeGraph, x: Tensor
    ) -> Tensor:
        """The contribution of the graph to each row, [C, B, W]."""
        observed = graph.observed.to(x.device)
        nodes = convolve_nodes(params, "graph", graph, self.convolutions)
        columns = nodes.index_select(1, graph.column_node.to(x.device)[observed])
        return torch.bmm(x.index_select(2, observed), columns) / max(1, len(observed))


def sparsemax(score: Tensor) -> Tensor:
    """The nearest point of the probability simplex to each row of scores [..., F] (Martins and
    Astudillo, 2016); mostly 0.
    """
    # Only differences matter; without the shift, large scores would lose digits of the threshold.
    score = score - score.amax(-1, keepdim=True)
    ranked = score.detach().sort(-1, descending=True).values
    place = torch.arange(1, score.shape[-1] + 1, device=score.device)
    inside = 1 + place * ranked > ranked.cumsum(-1)
    support = inside.sum(-1, keepdim=True)
    kept = score >= ranked.gather(-1, support - 1)
    # For a fixed support, the threshold is the mean of its scores, which gives the derivative.
    threshold = ((score * kept).sum(-1, keepdim=True) - 1) / kept.sum(-1, keepdim=True)
    return torch.clamp(score - threshold, min=0)


def _start_block(key: Tensor, name: str, inputs: int, width: int, dtype: torch.dtype) -> Params:
    return start_affine(key, name, (2 * width, inputs), dtype) | start_norm(
        f"{name}.norm", 2 * width, dtype
    )


def _block(params: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    """A gated block: dense, normalised, one half times the sigmoid of the other."""
    value = dense(params[f"{name}.weight"], params[f"{name}.bias"], x)
    value = normalise(params[f"{name}.norm.weight"], params[f"{name}.norm.bias"], value)
    first, second = value.chunk(2, -1)
    return first * torch.sigmoid(second)
