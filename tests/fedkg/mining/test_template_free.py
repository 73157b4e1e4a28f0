"""Template-free mining: planted properties come first, noise gives none, reported figures are
right.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import fedkg
from fedkg.constraints.meaning.trace_robustness import trace_satisfaction
from fedkg.errors import KnowledgeError
from fedkg.mining import (
    Property,
    enumerate_inferences,
    mine,
    mine_properties,
    private,
    satisfied_traces,
)
from fedkg.mining.template_enumeration import ONE_SIGNAL_TEMPLATES, TWO_SIGNAL_TEMPLATES

HEAD = "timeline step 1 h\nsignal x in % span -100 .. 200\nsignal y in % span -100 .. 200\n"
LAYOUT = fedkg.columns(["x", "y"])
GRID = [(0, 8), (1, 2), (4, 6)]
CLIENTS, SAMPLES, STEPS = 4, 40, 12


@pytest.fixture(scope="module")
def pack() -> fedkg.Pack:
    return fedkg.compile(text=HEAD + enumerate_inferences(["x", "y"]))


@pytest.fixture(scope="module")
def traces() -> Tensor:
    """Noise with planted properties.

    Client 0 answers every x above 70 by a y above 75 within two hours, client 1 has calm hours,
    client 2 a y below x.
    """
    dice = torch.Generator().manual_seed(3)
    x = 100 * torch.rand(CLIENTS, SAMPLES, STEPS, 2, generator=dice, dtype=torch.float64)
    for trace in x[0]:
        for step in range(STEPS - 2):
            if trace[step, 0] >= 70 and trace[step + 1 : step + 3, 1].max() < 75:
                trace[step + 1, 1] = 75 + 25 * torch.rand(1, generator=dice, dtype=torch.float64)
    x[1, :, 4:7, 0] = 40 + 5 * torch.rand(SAMPLES, 3, generator=dice, dtype=torch.float64)
    x[2, ..., 1] = (
        x[2, ..., 0] - 10 - 30 * torch.rand(SAMPLES, STEPS, generator=dice, dtype=torch.float64)
    )
    return x


@pytest.fixture(scope="module")
def ranked(pack: fedkg.Pack, traces: Tensor) -> list[list[Property]]:
    return mine_properties(
        pack, traces, layout=LAYOUT, windows=GRID, generator=torch.Generator().manual_seed(0)
    )


def test_planted_properties_come_first(ranked: list[list[Property]]) -> None:
    answer, calm, above, _ = (properties[:1] for properties in ranked)
    assert [one.name for one in answer] == ["nested_intra_task_x_y"]
    assert (answer[0].values["soonest"], answer[0].values["latest"]) == (1, 2)
    assert answer[0].values["answer"] == pytest.approx(75, abs=1)
    assert [(one.name, one.values["begin"], one.values["end"]) for one in calm] == [
        ("operational_range_x", 4, 6)
    ]
    assert calm[0].text.startswith("always [4 h, 6 h] (40.")
    assert [(one.name, one.values["begin"], one.values["end"]) for one in above] == [
        ("intra_task_x_y", 0, 8)
    ]
    assert above[0].values["least"] == pytest.approx(10, abs=0.5)


def test_noise_has_no_properties(ranked: list[list[Property]]) -> None:
    assert ranked[3] == []


def test_what_is_said_of_a_property_is_so(
    pack: fedkg.Pack, traces: Tensor, ranked: list[list[Property]]
) -> None:
    inferences = {one.name: one for one in pack.manifest.inferences}
    for client, properties in enumerate(ranked):
        assert [one.score for one in properties] == sorted(
            (one.score for one in properties), reverse=True
        )
        for one in properties:
            assert one.score == one.tightness / one.size
            assert 0.5 <= one.tightness <= math.log2(256)
            assert one.satisfied == 1
            bank = pack.conditions[inferences[one.name].condition]
            params = bank.params[0].copy()
            for parameter in inferences[one.name].parameters:
                params[parameter.param] = one.values[parameter.name]
            slots = [
                LAYOUT.names.index(pack.manifest.contract.columns[column].name)
                for column in bank.slots[0]
            ]
            fixed = [
                trace_satisfaction(bank.skeleton, trace, params.tolist())
                for trace in traces[client][..., slots].numpy()
            ]
            assert fixed == [True] * SAMPLES


def test_a_property_that_reordering_cannot_break_says_nothing(
    pack: fedkg.Pack, traces: Tensor
) -> None:
    """The range of all steps is the same in any order."""
    whole = fedkg.compile(text=HEAD + enumerate_inferences(["x"], templates=["operational_range"]))
    settings = {
        "layout": LAYOUT,
        "windows": [(0, STEPS - 1)],
        "generator": torch.Generator().manual_seed(0),
    }
    assert mine_properties(whole, traces, **settings) == [[]] * CLIENTS
    [[one], *_] = mine_properties(whole, traces, bits=0, **settings)
    assert one.tightness == 0


def test_clients_with_fewer_traces_and_unknown_values(pack: fedkg.Pack, traces: Tensor) -> None:
    inside = torch.ones(CLIENTS, SAMPLES, dtype=torch.bool)
    inside[1, 20:] = False
    inside[3] = False
    holed = traces.clone()
    holed[1, 20:] = math.nan
    holed[0, 0, 3, 0] = math.nan
    ranked = mine_properties(
        pack,
        holed,
        layout=LAYOUT,
        windows=GRID,
        inside=inside,
        generator=torch.Generator().manual_seed(0),
        best=1,
    )
    assert [[one.name for one in properties] for properties in ranked] == [
        ["nested_intra_task_x_y"],
        ["operational_range_x"],
        ["intra_task_x_y"],
        [],
    ]


def test_every_template_is_enumerated(pack: fedkg.Pack) -> None:
    names = [one.name for one in pack.manifest.inferences]
    assert set(names) == {f"{name}_{x}" for name in ONE_SIGNAL_TEMPLATES for x in "xy"} | {
        f"{name}_{pair}" for name in TWO_SIGNAL_TEMPLATES for pair in ("x_y", "y_x")
    }
    with pytest.raises(KnowledgeError, match="unknown template `ranges`"):
        enumerate_inferences(["x"], templates=["ranges"])


def test_held_parameters_are_not_looked_for(pack: fedkg.Pack, traces: Tensor) -> None:
    [inference] = [one for one in pack.manifest.inferences if one.name == "operational_range_x"]
    mined = mine(pack, inference, traces, layout=LAYOUT, fixed={"begin": 4, "end": 6})
    assert mined.chosen.tolist() == [[False, False, True, True]] * CLIENTS
    torch.testing.assert_close(mined.values[:, 1], traces[:, :, 4:7, 0].amax((1, 2)))
    assert bool(satisfied_traces(pack, inference, mined.values, traces, layout=LAYOUT).all())
    other = satisfied_traces(pack, inference, mined.values, traces + 1, layout=LAYOUT)
    assert torch.equal(other, (traces[:, :, 4:7, 0].amax(-1) + 1) <= mined.values[:, 1:2])
    with pytest.raises(KnowledgeError, match="no parameter `first`"):
        mine(pack, inference, traces, layout=LAYOUT, fixed={"first": 4})
    for wrong in (4.5, -1, math.nan):
        with pytest.raises(
            KnowledgeError, match=r"`begin` of .* cannot be fixed .*\n  expected: a number of steps"
        ):
            mine(pack, inference, traces, layout=LAYOUT, fixed={"begin": wrong})
    with pytest.raises(
        KnowledgeError, match=r"expected: shape \[4, 4\]\n  received: shape \[1, 4\]"
    ):
        satisfied_traces(pack, inference, mined.values[:1], traces, layout=LAYOUT)


def test_what_cannot_be_enumerated_is_rejected(pack: fedkg.Pack, traces: Tensor) -> None:
    dice = torch.Generator().manual_seed(0)
    with pytest.raises(KnowledgeError, match="cannot be private"):
        mine_properties(
            pack,
            traces,
            layout=LAYOUT,
            windows=GRID,
            pick=private(0.9, 1.0, (0, 1), dice),
            generator=dice,
        )
    with pytest.raises(KnowledgeError, match="nothing to enumerate"):
        mine_properties(pack, traces, layout=LAYOUT, windows=[], generator=dice)
    with pytest.raises(KnowledgeError, match="no window of the grid fits"):
        mine_properties(pack, traces, layout=LAYOUT, windows=[(0, 50)], generator=dice)


def test_a_window_that_ends_before_it_begins_is_rejected(pack: fedkg.Pack, traces: Tensor) -> None:
    with pytest.raises(KnowledgeError, match=r"\(4, 2\) is not a window(.|\n)*write \(2, 4\)"):
        mine_properties(
            pack, traces, layout=LAYOUT, windows=[(0, 2), (4, 2)], generator=torch.Generator()
        )
