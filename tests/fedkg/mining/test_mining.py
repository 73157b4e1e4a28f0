"""Mined parameters: closed forms against bisection and the paper's, and properties of every
result."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from tries import tries

import fedkg
from fedkg.constraints.meaning.trace_robustness import trace_satisfaction
from fedkg.errors import HorizonError, KnowledgeError, LayoutError
from fedkg.mining import MiningResult, Pick, mine, private, quantile

LIBRARY = """
timeline step 1 h
signal x in % span -100 .. 200
signal y in % span -100 .. 200
use rules templates.operational_range, templates.until, templates.temporal_implication
use rules templates.extremes, templates.intra_task
use rules templates.nested_intra_task, templates.multiple_eventualities
infer t1 per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 2)
infer t2 per client find ?high, ?low in extremes(x, ?high, ?low, 0, 2)
infer t3 per client find ?b, ?a in until(x, ?a, ?b, 0, 3)
infer t4 per client find ?a in intra_task(x, y, ?a, 0, 1)
infer t5 per client find ?answer in temporal_implication(x, 60, ?answer, 0, 4, 1, 2)
infer t6 per client find ?answer in nested_intra_task(x, y, 60, ?answer, 0, 4, 1, 2)
infer t7 per client find ?a, ?b in multiple_eventualities(x, ?a, 0, 2, ?b, 3, 5)
infer both per client find ?trigger, ?answer
  in temporal_implication(x, ?trigger, ?answer, 0, 4, 1, 2)
infer length per client find ?end in operational_range(x, 10, 90, 0, ?end)
"""
LAYOUT = fedkg.columns(["x", "y"])


@pytest.fixture(scope="module")
def pack() -> fedkg.Pack:
    return fedkg.compile(text=LIBRARY)


def mine_traces(pack: fedkg.Pack, name: str, x: Tensor, **how: object) -> MiningResult:
    [inference] = [one for one in pack.manifest.inferences if one.name == name]
    return mine(pack, inference, x, layout=LAYOUT, **how)  # type: ignore[arg-type]


def holds(pack: fedkg.Pack, name: str, traces: Tensor, values: list[float]) -> list[bool]:
    """The interpreter's verdict on each trace [S, T, F] with these values."""
    [inference] = [one for one in pack.manifest.inferences if one.name == name]
    bank = pack.conditions[inference.condition]
    params = bank.params[0].copy()
    for parameter, value in zip(inference.parameters, values, strict=True):
        params[parameter.param] = value
    names = [pack.manifest.contract.columns[column].name for column in bank.slots[0]]
    channels = traces[..., [LAYOUT.names.index(name) for name in names]].numpy()
    return [
        trace_satisfaction(bank.skeleton, trace, params.tolist(), end="clip") is True
        for trace in channels
    ]


def traces(seed: int, clients: int = 2, samples: int = 3, steps: int = 9) -> Tensor:
    return (
        torch.rand(
            clients,
            samples,
            steps,
            2,
            generator=torch.Generator().manual_seed(seed),
            dtype=torch.float64,
        )
        * 100
    )


@pytest.mark.parametrize("name", ["t1", "t2", "t3", "t4", "t5", "t6", "t7"])
@tries(15)
@given(seed=st.integers(0, 2**31))
def test_mined_values_satisfy_all_traces_are_tight_and_equal_halving(
    pack: fedkg.Pack, name: str, seed: int
) -> None:
    x = traces(seed)
    exact = mine_traces(pack, name, x)
    halved = mine_traces(pack, name, x, method="bisection")
    directions = [
        p.direction for one in pack.manifest.inferences if one.name == name for p in one.parameters
    ]
    tolerance = 300 * 1e-6
    for client in range(2):
        values = exact.values[client].tolist()
        if not bool(exact.determined[client].all()):
            continue
        np.testing.assert_allclose(values, halved.values[client].tolist(), atol=3 * tolerance)
        assert all(holds(pack, name, x[client], values))
        assert exact.satisfied[client] == 1
        assert exact.robustness[client] >= 0
        for place, direction in enumerate(directions):
            moved = [*values]
            moved[place] += 3 * tolerance if direction == "down" else -3 * tolerance
            assert not all(holds(pack, name, x[client], moved)), (name, place)


def test_the_closed_forms_of_the_paper(pack: fedkg.Pack) -> None:
    x = traces(1, clients=1, samples=5)[0]
    first = x[:, :3, 0]
    assert mine_traces(pack, "t1", x).values[0].tolist() == [first.min().item(), first.max().item()]
    assert mine_traces(pack, "t2", x).values[0].tolist() == [
        first.amax(1).min().item(),
        first.amin(1).max().item(),
    ]
    difference = (x[:, :2, 0] - x[:, :2, 1]).min().item()
    assert mine_traces(pack, "t4", x).values[0, 0].item() == pytest.approx(difference, abs=1e-3)
    assert mine_traces(pack, "t4", x).values[0, 0].item() < difference
    assert mine_traces(pack, "t7", x).values[0].tolist() == [
        x[:, :3, 0].amax(1).min().item(),
        x[:, 3:6, 0].amax(1).min().item(),
    ]


def test_the_papers_example() -> None:
    pack = fedkg.compile(
        text="""
timeline step 1 h
signal speed in % span 0 .. 1
signal load in % span 0 .. 100
template follows_load(x, y, least) = always [0, 4] if x >= 0.75 % then y >= least
infer load_range per client find ?least in follows_load(speed, load, ?least)
"""
    )
    first = [[0.25, 20.0], [0.25, 18.0], [0.5, 16.0], [0.6, 14.0], [0.75, 12.0]]
    second = [*first[:4], [0.9, 11.0]]
    [inference] = pack.manifest.inferences
    layout = fedkg.columns(["speed", "load"])
    one = mine(pack, inference, torch.tensor([first], dtype=torch.float64), layout=layout)
    assert one.values.tolist() == [[12.0]]
    assert one.robustness.tolist() == [0.0]
    both = mine(pack, inference, torch.tensor([first, second], dtype=torch.float64), layout=layout)
    assert both.values.tolist() == [[11.0]]


def test_a_trigger_without_value_is_a_quantile(pack: fedkg.Pack) -> None:
    x = traces(4, clients=1, samples=20)
    both = mine_traces(pack, "both", x)
    assert both.chosen.tolist() == [[True, False]]
    assert both.values[0, 0].item() == pytest.approx(torch.quantile(x[0, :, :7, 0], 0.75).item())
    assert all(holds(pack, "both", x[0], both.values[0].tolist()))


def test_what_the_data_says_nothing_of_is_not_determined(pack: fedkg.Pack) -> None:
    calm = torch.full((1, 2, 9, 2), 10.0, dtype=torch.float64)
    answer = mine_traces(pack, "t5", calm)
    assert answer.determined.tolist() == [[False]]
    assert bool(answer.satisfied.isnan().all())


def test_a_number_of_steps_is_tried(pack: fedkg.Pack) -> None:
    x = torch.full((2, 1, 9, 2), 50.0, dtype=torch.float64)
    x[0, 0, 4, 0] = 95.0
    x[1, 0, 1, 0] = 5.0
    assert mine_traces(pack, "length", x).values.tolist() == [[3.0], [0.0]]


def test_clients_may_have_different_numbers_of_traces(pack: fedkg.Pack) -> None:
    x = traces(6)
    x[0, 2] = torch.nan
    inside = torch.tensor([[True, True, True], [True, False, True]])
    mined = mine_traces(pack, "t1", x, inside=inside)
    assert mined.traces.tolist() == [2, 2]
    assert mined.values[0].tolist() == mine_traces(pack, "t1", x[0, :2]).values[0].tolist()
    assert mined.values[1].tolist() == mine_traces(pack, "t1", x[1, [0, 2]]).values[0].tolist()


def test_a_share_of_the_traces_may_be_given_up(pack: fedkg.Pack) -> None:
    x = traces(8, clients=1, samples=100)
    whole, most = mine_traces(pack, "t1", x), mine_traces(pack, "t1", x, pick=quantile(0.9))
    assert most.values[0, 0] > whole.values[0, 0]
    least = x[0, :, :3, 0].amin(1)
    assert int((least >= most.values[0, 0]).sum()) == 90


def test_a_private_quantile_is_near_and_noisy(pack: fedkg.Pack) -> None:
    x = traces(9, clients=1, samples=400)
    noise = torch.Generator().manual_seed(0)
    [inference] = [one for one in pack.manifest.inferences if one.name == "t4"]
    values = torch.cat(
        [
            mine(
                pack, inference, x, layout=LAYOUT, pick=private(0.9, 1.0, (-300, 300), noise)
            ).values[0]
            for _ in range(40)
        ]
    )
    plain = mine_traces(pack, "t4", x, pick=quantile(0.9)).values[0, 0]
    assert float(values.std()) > 0
    assert float((values - plain).abs().median()) < 10
    far = torch.cat(
        [
            mine(
                pack, inference, x, layout=LAYOUT, pick=private(0.9, 1e-4, (-300, 300), noise)
            ).values[0]
            for _ in range(40)
        ]
    )
    assert float(far.std()) > 5 * float(values.std())


def test_whether_there_is_a_trace_at_all_is_not_told_by_a_private_value() -> None:
    levels, noise = torch.full((500, 1), 2.0, dtype=torch.float64), torch.Generator().manual_seed(0)
    pick = private(0.9, 0.5, (-10.0, 30.0), noise)
    nobody = pick.choose(levels, torch.zeros(500, 1, dtype=torch.bool))
    assert bool(((nobody >= -10) & (nobody <= 30)).all())
    assert float(nobody.mean()) == pytest.approx(10.0, abs=2.0)  # only noise: uniform over the span


def test_a_private_value_is_asked_for_once_and_nothing_else_is_reported(pack: fedkg.Pack) -> None:
    x = traces(9, clients=2, samples=50)
    mined = mine_traces(
        pack, "t1", x, pick=private(0.9, 1.0, (-300, 300), torch.Generator().manual_seed(1))
    )
    assert bool(mined.determined.all())
    assert bool(torch.isnan(torch.stack([mined.satisfied, mined.robustness])).all())
    asked = []
    inner = private(0.9, 1.0, (-300, 300), torch.Generator().manual_seed(1))
    counted = Pick(
        lambda levels, usable: asked.append(1) or inner.choose(levels, usable), noisy=True
    )  # type: ignore[func-returns-value]
    mine_traces(pack, "t1", x, pick=counted)
    assert len(asked) == 2
    with pytest.raises(KnowledgeError, match="windows cannot be mined privately"):
        mine_traces(pack, "length", x, pick=inner)
    with pytest.raises(KnowledgeError, match="needs bisection, whose many passes"):
        mine_traces(pack, "t1", x, pick=inner, method="bisection")


def test_a_template_that_fits_no_value_is_reported(pack: fedkg.Pack) -> None:
    x = traces(3)
    x[0, :, 0, 0] = 5.0  # below the 10 that `length` requires
    mined = mine_traces(pack, "length", x)
    assert mined.fits.tolist() == [
        False,
        bool((x[1, :, 0, 0] >= 10).all() and (x[1, :, 0, 0] <= 90).all()),
    ]
    assert mined.determined.tolist()[0] == [False]


def test_traces_that_do_not_fit_are_rejected(pack: fedkg.Pack) -> None:
    with pytest.raises(HorizonError, match="beyond the traces"):
        mine_traces(pack, "t7", traces(1, steps=4))
    with pytest.raises(LayoutError, match="do not fit their layout"):
        mine_traces(pack, "t1", traces(1)[..., :1])
    for none in (traces(1)[:0], traces(1)[:, :0], traces(1)[:, :, :0]):
        with pytest.raises(LayoutError, match="`x` has no traces"):
            mine_traces(pack, "t1", none)
    with pytest.raises(LayoutError, match="not in the layout"):
        mine(pack, pack.manifest.inferences[0], traces(1)[..., :1], layout=fedkg.columns(["y"]))
    with pytest.raises(KnowledgeError, match="share"):
        quantile(0.0)
    with pytest.raises(KnowledgeError, match="epsilon"):
        private(0.9, 0.0, (0, 1), torch.Generator())


@pytest.mark.parametrize("name", ["t1", "t5", "both"])
def test_traces_of_a_model_that_learns_are_numbers(pack: fedkg.Pack, name: str) -> None:
    learnt, plain = (
        mine_traces(pack, name, traces(1).requires_grad_()),
        mine_traces(pack, name, traces(1)),
    )
    assert not learnt.values.requires_grad
    torch.testing.assert_close(learnt.values, plain.values, rtol=0, atol=0, equal_nan=True)


def test_numbers_that_make_no_sense_are_rejected(pack: fedkg.Pack) -> None:
    with pytest.raises(KnowledgeError, match="margin"):
        mine_traces(pack, "t1", traces(1), margin=0.0)
    with pytest.raises(KnowledgeError, match="trigger"):
        mine_traces(pack, "both", traces(1), trigger=2.0)
    with pytest.raises(KnowledgeError, match="share"):
        private(1.5, 1.0, (0, 1), torch.Generator())
    with pytest.raises(LayoutError, match="`inside` does not fit"):
        mine_traces(pack, "t1", traces(1), inside=torch.ones(3, 3, dtype=torch.bool))


@pytest.mark.parametrize("method", ["exact", "bisection"])
def test_a_window_that_needs_no_step_ends_at_0(method: Literal["exact", "bisection"]) -> None:
    text = (
        "timeline step 1 h\nsignal v span 0 .. 5000\n"
        "template top(x, a, b, w) = if x >= b then eventually [0, w] x >= a\n"
    )
    traces = torch.tensor(
        [[[1000.0, 1.0, 1, 1]] * 2, [[1, 1000.0, 1, 1], [1000.0, 1, 1, 1]], [[1.0, 1, 1, 1]] * 2]
    )[..., None]

    def mine_traces(asked: str) -> tuple[list[float], list[bool]]:
        pack = fedkg.compile(text=f"{text}infer w per client find {asked}\n")
        mined = mine(
            pack, pack.manifest.inferences[0], traces, layout=fedkg.columns(["v"]), method=method
        )
        place = mined.names.index("w")
        return mined.values[:, place].tolist(), mined.determined[:, place].tolist()

    ends, determined = mine_traces("?w in top(v, 900, 0, ?w)")
    assert ends[:2] == [0.0, 1.0]
    assert determined == [True, True, False]  # the third client never reaches it
    assert mine_traces("?w, ?a in top(v, ?a, 0, ?w)") == ([0.0, 1.0, 0.0], [True] * 3)
    assert mine_traces("?w in top(v, 900, 2000, ?w)")[1] == [False] * 3  # it is never required
