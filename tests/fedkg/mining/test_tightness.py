"""The smooth tightness metric."""

from __future__ import annotations

import math

import pytest
import torch

import fedkg
from fedkg.mining import mine
from fedkg.mining.tightness import theta, tightness

RULES = """
timeline step 1 h
signal x in % span 0 .. 100
use rules templates.operational_range, templates.until, templates.existence
infer within per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 4)
infer reached per client find ?low, ?high in existence(x, ?low, ?high, 0, 4)
infer falls per client find ?b, ?a in until(x, ?a, ?b, 0, 3)
"""
LAYOUT = fedkg.columns(["x"])


def test_the_papers_values() -> None:
    r = torch.tensor([0.0, 1.0, -1.0, 2.0, 1.143763, 50.0], dtype=torch.float64)
    expected = torch.tensor(
        [0.0, 0.363179, -2.136305, 0.332975, 0.365199, 0.02], dtype=torch.float64
    )
    torch.testing.assert_close(theta(r), expected, atol=6e-7, rtol=0)
    assert torch.autograd.gradcheck(theta, r[:4].clone().requires_grad_())
    grid = torch.linspace(0, 5, 5001, dtype=torch.float64)
    assert grid[theta(grid).argmax()].item() == pytest.approx(1.1438, abs=1e-3)


@pytest.fixture(scope="module")
def pack() -> fedkg.Pack:
    return fedkg.compile(text=RULES)


def test_a_bound_that_fits_scores_more_than_one_too_loose_or_too_tight(pack: fedkg.Pack) -> None:
    x = 50 + 5 * torch.randn(
        2, 10, 8, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    [within, *_] = pack.manifest.inferences
    tight = mine(pack, within, x, layout=LAYOUT).values
    fits = tightness(pack, within, tight + torch.tensor([-2.0, 2.0]), x, layout=LAYOUT)
    loose = tightness(pack, within, tight + torch.tensor([-30.0, 30.0]), x, layout=LAYOUT)
    broken = tightness(pack, within, tight + torch.tensor([5.0, -5.0]), x, layout=LAYOUT)
    assert bool((fits > loose).all())
    assert bool((loose > 0).all())
    assert bool((broken < loose).all())


@pytest.mark.parametrize("name", ["within", "reached", "falls"])
def test_the_metric_has_a_gradient(pack: fedkg.Pack, name: str) -> None:
    x = 50 + 5 * torch.randn(
        2, 3, 8, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    [inference] = [one for one in pack.manifest.inferences if one.name == name]
    values = torch.tensor([[41.0, 61.0], [38.0, 63.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda v: tightness(pack, inference, v, x, layout=LAYOUT), values, atol=1e-5
    )


def test_windows_are_weighed(pack: fedkg.Pack) -> None:
    x = torch.full((1, 1, 8, 1), 50.0, dtype=torch.float64)
    x[..., ::2, :] += 1
    [within, reached, _] = pack.manifest.inferences
    values = torch.tensor([[49.0, 52.0]], dtype=torch.float64)
    worst = min(
        theta(torch.tensor(step / x.std().item())).item() for step in (1, 2)
    )  # of both bounds, at every step
    assert tightness(pack, within, values, x, layout=LAYOUT).item() == pytest.approx(
        worst * 2 / (1 + math.exp(-0.05))
    )
    assert tightness(pack, reached, values, x, layout=LAYOUT).item() == pytest.approx(
        worst * 2 / (1 + math.exp(0.05))
    )


def test_traces_that_do_not_count_change_nothing(pack: fedkg.Pack) -> None:
    x = 50 + 5 * torch.randn(
        2, 10, 8, 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64
    )
    [within, *_] = pack.manifest.inferences
    values = torch.tensor([[41.0, 61.0], [38.0, 63.0]], dtype=torch.float64)
    padded = torch.cat([x, torch.full((2, 3, 8, 1), 1e4, dtype=torch.float64)], 1)
    inside = torch.arange(13).expand(2, 13) < 10
    plain = tightness(pack, within, values, x, layout=LAYOUT)
    torch.testing.assert_close(
        tightness(pack, within, values, padded, layout=LAYOUT, inside=inside), plain
    )
    torch.testing.assert_close(
        tightness(pack, within, values, padded.where(padded < 1e4, torch.nan), layout=LAYOUT), plain
    )
