"""Wrong arguments of mining are rejected before any computation, with the right call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fedkg
from fedkg.errors import FedkgError, KnowledgeError, LayoutError
from fedkg.mining import Pick, mine, mine_properties, private, satisfied_traces
from fedkg.mining.tightness import tightness

RULES = """
timeline step 1 h
signal x span 0 .. 100
use rules templates.operational_range
infer range per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 2)
"""
LAYOUT = fedkg.columns(["x"])
X = 100 * torch.rand(2, 3, 6, 1, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def pack() -> fedkg.Pack:
    return fedkg.compile(text=RULES)


def call(rules: fedkg.Pack, ask: Any, **changed: Any) -> Any:
    named = {
        "pack": rules,
        "inference": rules.manifest.inferences[0],
        "x": X,
        "layout": LAYOUT,
        **changed,
    }
    if ask is mine_properties:
        named |= {"windows": [(0, 2)], "generator": torch.Generator()}
        del named["inference"]
    elif ask is not mine:
        named.setdefault("values", torch.tensor([[10.0, 90.0]] * 2, dtype=torch.float64))
    return ask(**named)


@pytest.mark.parametrize("ask", [mine, satisfied_traces, tightness, mine_properties])
@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        (
            {"x": X.tolist()},
            LayoutError,
            r"traces must be a tensor(.*\n)*  received: list\n  help: torch.tensor\(x",
        ),
        ({"x": X.numpy()}, LayoutError, r"traces must be a tensor(.*\n)*  received: ndarray"),
        ({"layout": ["x"]}, LayoutError, r"help: layout=fedkg.columns"),
        (
            {"inside": torch.ones(2, 3)},
            LayoutError,
            r"`inside` must mark(.*\n)*  received: float32 \[2, 3\]\n  help: inside.bool\(\)",
        ),
        (
            {"inside": [[True] * 3] * 2},
            LayoutError,
            r"`inside` must mark(.*\n)*  received: list\n  help: torch.tensor\(inside",
        ),
        ({"pack": "rules.fkg"}, KnowledgeError, r"must be a pack(.*\n)*  received: 'rules.fkg'"),
    ],
)
def test_unusable_data_is_an_error(
    pack: fedkg.Pack, ask: Any, changed: dict[str, Any], kind: type[FedkgError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        call(pack, ask, **changed)


@pytest.mark.parametrize("ask", [mine, satisfied_traces, tightness])
def test_an_inference_by_its_name_is_told_where_it_stands(pack: fedkg.Pack, ask: Any) -> None:
    with pytest.raises(
        KnowledgeError,
        match=r"one of pack.manifest.inferences \(range\)\n  received: 'range'\n"
        r"  help: \[found\] =",
    ):
        call(pack, ask, inference="range")


def test_a_pick_and_a_method_are_those_that_there_are(pack: fedkg.Pack) -> None:
    for ask in (mine, mine_properties):
        with pytest.raises(
            KnowledgeError,
            match=r"private\(...\)\n  received: the number 0.9\n  help: pick=quantile\(0.9\)",
        ):
            call(pack, ask, pick=0.9)
    with pytest.raises(
        KnowledgeError,
        match=r'expected: method="exact" or method="bisection"\n  received: \'bisect\'',
    ):
        call(pack, mine, method="bisect")
    assert call(pack, satisfied_traces, values=torch.tensor([[0.0, 100.0]] * 2)).all()


def test_a_private_quantile_is_of_each_number(pack: fedkg.Pack) -> None:
    """As the guide says about epsilon: each parameter is chosen with all of it."""
    given = private(0.9, 2.0, (-100.0, 100.0), torch.Generator().manual_seed(0))
    asked: list[float] = []
    counted = Pick(
        lambda levels, usable: (asked.append(given.epsilon), given.choose(levels, usable))[1],
        noisy=True,
        epsilon=2.0,
    )
    call(pack, mine, pick=counted)
    assert asked == [2.0, 2.0]
