"""Small federations and hand-made scorers for the tests of the federated runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated import Clients, CrossEntropy, ProbeScores, Problem, ScoredRows
from fedkg.models import MLP, Model, Params


def rows(
    count: int,
    *,
    families: Sequence[str] | None = None,
    weight: Tensor | None = None,
    hard: bool = True,
) -> ScoredRows:
    return ScoredRows(
        names=tuple(f"rule_{i}" for i in range(count)),
        families=tuple(families or ["capacity"] * count),
        weight=torch.ones(count, dtype=torch.float64) if weight is None else weight,
        hard=torch.full((count,), hard),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionScorer:
    """Violation shares [C, M] as a function of the stacked parameters."""

    rows: ScoredRows
    violation: Callable[[Params], Tensor]

    def score(self, params: Params) -> ProbeScores:
        return ProbeScores(violation=self.violation(params))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearRules:
    """The rules of the specification's simulation for predictions X w.

    They are monotone in some features, and bounded.
    """

    model: Model
    probe: Tensor
    features: tuple[int, ...] = (0, 1, 3)
    low: float = -6.0
    high: float = 6.0

    @property
    def rows(self) -> ScoredRows:
        return rows(
            len(self.features) + 1, families=["temporal"] * len(self.features) + ["capacity"]
        )

    def score(self, params: Params) -> ProbeScores:
        base = self.model.apply(params, self.probe).squeeze(-1)
        shares = []
        for feature in self.features:
            raised = self.probe.clone()
            raised[:, feature] += 0.1
            shares.append((self.model.apply(params, raised).squeeze(-1) < base).double().mean(1))
        shares.append(((base < self.low) | (base > self.high)).double().mean(1))
        return ProbeScores(violation=torch.stack(shares, 1))


def classes(
    sizes: Sequence[int],
    *,
    features: int = 6,
    outputs: int = 4,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    **model: object,
) -> Problem:
    """A classification task with clients of these sizes."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(outputs, features, generator=generator, dtype=torch.float64)
    ys = [torch.randint(0, outputs, (size,), generator=generator) for size in sizes]
    xs = [
        (means[y] + torch.randn(len(y), features, generator=generator, dtype=torch.float64)).to(
            dtype
        )
        for y in ys
    ]
    clients = Clients(names=tuple(f"site_{i}" for i in range(len(sizes))), x=tuple(xs), y=tuple(ys))
    options: dict[str, object] = {"inputs": features, "hidden": (7, 5), "outputs": outputs, **model}
    return Problem(model=MLP(**options), loss=CrossEntropy(), clients=clients)


def largest_difference(a: Params, b: Params) -> float:
    return max((float((a[name] - b[name]).abs().max()) for name in a), default=0.0)


def identical(a: Params, b: Params) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
