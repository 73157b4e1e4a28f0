"""Graph convolutions over a knowledge graph for a stack of clients.

Letters: C clients of a stack, B batch, F features of a row, V nodes, E edges, D features of a node,
W width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.layers import dense, start_affine, uniform_start
from fedkg.models.model_protocols import Params
from fedkg.models.random_streams import fold


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnowledgeGraph:
    """Nodes, edges, and the node that each feature of a row observes.

    Args:
        nodes: V.
        edges: int64 [2, E], from and to; undirected, duplicates count once.
        column_node: int64 [F], the node that each feature of a row observes; -1 for a feature
            without a node.
        features: floating point [V, D], features of the nodes; without them each node has a learned
            vector.

    Attributes:
        around: float64 sparse [V, V], ``D^-1/2 (A + I) D^-1/2`` of the undirected graph (Kipf and
            Welling, 2017, section 2).
        observed: int64 [F'], positions of the features that observe a node.

    Raises:
        JobError: a node number is outside 0 .. V - 1, or the node features do not have V rows.
    """

    nodes: int
    edges: Tensor
    column_node: Tensor
    features: Tensor | None = None
    around: Tensor = field(init=False)
    observed: Tensor = field(init=False)

    def __post_init__(self) -> None:
        if self.edges.dim() != 2 or self.edges.shape[0] != 2:
            raise JobError(
                "edges of the knowledge graph must be pairs",
                expected="int64 [2, edges]",
                received=str(list(self.edges.shape)),
            )
        for what, ids, least in (("edges", self.edges, 0), ("column_node", self.column_node, -1)):
            if ids.numel() and (int(ids.min()) < least or int(ids.max()) >= self.nodes):
                raise JobError(
                    f"{what} of the knowledge graph name unknown nodes",
                    expected=f"{least} .. {self.nodes - 1}",
                    received=f"{int(ids.min())} .. {int(ids.max())}",
                )
        if self.features is not None and (
            self.features.dim() != 2 or self.features.shape[0] != self.nodes
        ):
            raise JobError(
                "node features do not fit the graph",
                expected=f"[{self.nodes}, features]",
                received=str(list(self.features.shape)),
            )
        object.__setattr__(self, "around", _around(self.nodes, self.edges))
        object.__setattr__(self, "observed", (self.column_node >= 0).nonzero().squeeze(1))


def _around(nodes: int, edges: Tensor) -> Tensor:
    loops = torch.arange(nodes)
    both = torch.cat((edges, edges.flip(0), loops.expand(2, -1)), 1)
    pairs = torch.unique(both[0] * nodes + both[1])
    start, end = pairs // nodes, pairs % nodes
    degree = torch.bincount(start, minlength=nodes).to(torch.float64)
    values = (degree[start] * degree[end]) ** -0.5
    return torch.sparse_coo_tensor(
        torch.stack((start, end)), values, (nodes, nodes), is_coalesced=True, check_invariants=True
    )


def start_convolutions(
    key: Tensor, name: str, graph: KnowledgeGraph, width: int, layers: int, dtype: torch.dtype
) -> Params:
    """Parameters of `convolve_nodes`: learned node vectors [V, W] if the graph has no features, and
    a dense layer per convolution.
    """
    params: Params = {}
    inputs = width if graph.features is None else graph.features.shape[1]
    if graph.features is None:
        params[f"{name}.nodes"] = uniform_start(
            fold(key, layers), (graph.nodes, width), width**-0.5, dtype
        )
    for layer in range(layers):
        params |= start_affine(
            fold(key, layer),
            f"{name}.layers.{layer}",
            (width, inputs if layer == 0 else width),
            dtype,
        )
    return params


def convolve_nodes(
    params: Mapping[str, Tensor], name: str, graph: KnowledgeGraph, layers: int
) -> Tensor:
    """Node vectors [C, V, W] after graph convolutions ``relu(around (H W^T + b))``; no rectifier
    after the last.
    """
    first = params[f"{name}.layers.0.bias"]
    clients, around = first.shape[0], graph.around.to(first)
    value = params[f"{name}.nodes"] if graph.features is None else graph.features.to(around)
    for layer in range(layers):
        value = dense(
            params[f"{name}.layers.{layer}.weight"], params[f"{name}.layers.{layer}.bias"], value
        )
        # Clients side by side need only one sparse product.
        side = value.transpose(0, 1).reshape(graph.nodes, -1)
        value = torch.sparse.mm(around, side).view(graph.nodes, clients, -1).transpose(0, 1)
        if layer + 1 < layers:
            value = torch.relu(value)
    return value
