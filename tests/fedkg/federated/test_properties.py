"""Mined properties as one formula.

Nearest traces, satisfaction, open parameters of some clients; the teacher's term and its
derivative.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import largest_difference
from forecasts import LAYOUT, STEPS, properties, ranges, task
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fedkg
from fedkg.constraints.meaning.trace_robustness import trace_satisfaction
from fedkg.errors import JobError, KnowledgeError, LayoutError
from fedkg.federated import Settings, fedavg, train
from fedkg.federated.executors import Work
from fedkg.federated.problem import pool
from fedkg.federated.round_steps import Step
from fedkg.federated.temporal.conjunction import conjunction, is_convex
from fedkg.federated.temporal.forecast_scores import Kept, judged
from fedkg.federated.temporal.properties import Properties, mined
from fedkg.federated.temporal.teacher_loss import TeacherLoss
from fedkg.mining import quantile
from fedkg.teacher import Teacher

LIBRARY = """
timeline step 1 h ends clip
signal x in % span -100 .. 200
signal y in % span -100 .. 200
use rules templates.operational_range, templates.until, templates.temporal_implication
use rules templates.extremes, templates.intra_task
use rules templates.nested_intra_task, templates.multiple_eventualities, templates.existence
infer t1 per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 2)
infer t2 per client find ?low, ?high in existence(x, ?low, ?high, 0, 2)
infer extremes per client find ?high, ?low in extremes(x, ?high, ?low, 0, 2)
infer t3 per client find ?b, ?a in until(x, ?a, ?b, 0, 3)
infer t4 per client find ?a in intra_task(x, y, ?a, 0, 1)
infer t5 per client find ?answer in temporal_implication(x, 60, ?answer, 0, 3, 1, 2)
infer t6 per client find ?answer in nested_intra_task(x, y, 60, ?answer, 0, 3, 1, 2)
infer t7 per client find ?a, ?b in multiple_eventualities(y, ?a, 0, 2, ?b, 3, 5)
infer length per client find ?end in operational_range(x, -20, 60, 0, ?end)
"""
BOTH = fedkg.columns(["x", "y"])


@pytest.fixture(scope="module")
def pack() -> fedkg.Pack:
    return fedkg.compile(text=LIBRARY)


def mine_properties(
    pack: fedkg.Pack, names: list[str], traces: list[Tensor], layout: fedkg.InputLayout = BOTH
) -> Properties:
    return mined(
        pack,
        traces,
        layout,
        inferences=[one for one in pack.manifest.inferences if one.name in names],
    )


def traces(seed: int, clients: int = 2, samples: int = 4, top: float = 100.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.rand(samples + client, STEPS, 2, generator=generator, dtype=torch.float64) * top
        for client in range(clients)
    ]


@settings(max_examples=12)
@given(seed=st.integers(0, 2**31), dtype=st.sampled_from([torch.float64, torch.float32]))
def test_what_is_nearest_satisfies_all_properties_and_is_its_own_nearest(
    pack: fedkg.Pack, seed: int, dtype: torch.dtype
) -> None:
    here = mine_properties(pack, ["t1", "extremes", "t7"], traces(seed))
    client = torch.arange(2).repeat(10)
    forecast = (
        torch.rand(
            20, STEPS, 2, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64
        )
        * 200
        - 50
    ).to(dtype)
    nearest = here.nearest(forecast, client)
    assert nearest.dtype == dtype
    assert bool(here.satisfied(nearest, client).all())
    torch.testing.assert_close(
        here.nearest(nearest, client),
        nearest,
        rtol=0,
        atol=1e-9 if dtype == torch.float64 else 1e-4,
    )
    for place, trace in enumerate(traces(seed)):
        assert bool(here.satisfied(trace, torch.full((len(trace),), place)).all())
        assert torch.equal(here.nearest(trace, torch.full((len(trace),), place)), trace)


@pytest.mark.parametrize(
    "layout", [BOTH, fedkg.columns(["x", "y"], mean=[50.0, 50.0], std=[30.0, 30.0])]
)
def test_forecasts_of_a_model_that_has_diverged_stay_as_they_are(
    pack: fedkg.Pack, layout: fedkg.InputLayout
) -> None:
    here, client = mine_properties(pack, ["t1"], traces(3), layout), torch.arange(2).repeat(2)
    forecast = torch.full((4, STEPS, 2), 400.0, dtype=torch.float64)
    expected = here.corrected(forecast, client)
    forecast[1, 2, 0] = torch.nan
    moved = here.corrected(forecast, client)
    torch.testing.assert_close(moved[1], forecast[1], equal_nan=True)
    assert torch.equal(moved[[0, 2, 3]], expected[[0, 2, 3]])
    assert bool((expected != 400.0).any())


@pytest.mark.parametrize("name", ["t1", "t2", "extremes", "t3", "t4", "t5", "t6", "t7"])
def test_every_template_as_a_property(pack: fedkg.Pack, name: str) -> None:
    here, client = mine_properties(pack, [name], traces(3)), torch.arange(2).repeat(20)
    forecast = (
        torch.rand(40, STEPS, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        * 120
        - 10
    )
    nearest, kept = here.nearest(forecast, client), here.satisfied(forecast, client)
    assert bool(here.satisfied(nearest, client).all())
    moved = (nearest != forecast).flatten(1).any(1)
    assert not bool((moved & kept).any())
    assert bool((moved | kept).all())


def test_the_conjunction_is_the_formulas_together(pack: fedkg.Pack) -> None:
    here = mine_properties(pack, ["t1", "t6"], traces(5, clients=1))
    banks = [pack.conditions[one.condition] for one in here.inferences]
    joined = conjunction(banks)
    assert joined.slots.tolist() == [
        [*dict.fromkeys([*banks[0].slots[0].tolist(), *banks[1].slots[0].tolist()])]
    ]
    params, apart, before = joined.params[0].copy(), [], 0
    for bank, inference, values in zip(banks, here.inferences, here.values, strict=True):
        own = bank.params[0].copy()
        for column, parameter in enumerate(inference.parameters):
            own[parameter.param] = params[before + parameter.param] = float(values[0, column])
        apart.append(own)
        before += bank.params.shape[1]
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        trace = torch.rand(STEPS, 2, generator=generator, dtype=torch.float64).numpy() * 110
        each = [
            trace_satisfaction(
                bank.skeleton, trace[:, : bank.slots.shape[1]], own.tolist(), end="clip"
            )
            for bank, own in zip(banks, apart, strict=True)
        ]
        assert trace_satisfaction(joined.skeleton, trace, params.tolist(), end="clip") is all(each)
    assert conjunction(banks[:1]) is banks[0]
    with pytest.raises(KnowledgeError, match="cannot join"):
        conjunction([])


def test_what_is_convex(pack: fedkg.Pack) -> None:
    """Acceptance test 13."""
    kinds = {
        one.name: is_convex(pack.conditions[one.condition].skeleton)
        for one in pack.manifest.inferences
    }
    assert kinds == {name: name in ("t1", "t4", "length") for name in kinds}
    generator = torch.Generator().manual_seed(1)
    for name in ("t1", "t4", "t7"):
        here = mine_properties(pack, [name], traces(6))
        a, b = (
            torch.rand(200, STEPS, 2, generator=generator, dtype=torch.float64) * 200 - 50
            for _ in range(2)
        )
        client, share = (
            torch.arange(2).repeat(100),
            torch.rand(200, 1, 1, generator=generator, dtype=torch.float64),
        )

        def away(forecast: Tensor, here: Properties = here, client: Tensor = client) -> Tensor:
            return (forecast - here.nearest(forecast, client)).abs().mean((1, 2))

        above = away(share * a + (1 - share) * b) - (
            share.flatten() * away(a) + (1 - share.flatten()) * away(b)
        )
        assert (float(above.max()) <= 1e-12) == (name != "t7")


def test_properties_that_are_open_for_some_clients(pack: fedkg.Pack) -> None:
    """Nothing triggers in the second client's traces, so its formula lacks the property."""
    calm = traces(7, clients=2)
    calm[1] = calm[1] * 0.5
    here = mine_properties(pack, ["t1", "t5"], calm)
    assert here.determined.tolist() == [[True, True], [True, False]]
    client = torch.arange(2).repeat(10)
    forecast = (
        torch.rand(20, STEPS, 2, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
        * 150
    )
    nearest = here.nearest(forecast, client)
    assert bool(here.satisfied(nearest, client).all())
    alone = mine_properties(pack, ["t1"], calm)
    assert torch.equal(nearest[1::2], alone.nearest(forecast, client)[1::2])
    open_ = mine_properties(pack, ["t5"], [calm[1], calm[1]])
    assert torch.equal(open_.nearest(forecast, client), forecast)
    assert bool(open_.satisfied(forecast, client).all())


def test_windows_that_differ_between_clients(pack: fedkg.Pack) -> None:
    one = torch.tensor(
        [[[10.0, 0.0], [20.0, 0.0], [70.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]],
        dtype=torch.float64,
    )
    two = one.clone()
    two[0, 1, 0] = 99.0
    here = mine_properties(pack, ["length"], [one, two, one])
    assert here.values[0].flatten().tolist() == [1.0, 0.0, 1.0]
    forecast = torch.full((3, STEPS, 2), 80.0, dtype=torch.float64)
    nearest = here.nearest(forecast, torch.arange(3))
    assert nearest[:, :, 0].tolist() == [
        [60.0, 60.0, 80.0, 80.0, 80.0, 80.0],
        [60.0] + [80.0] * 5,
        [60.0, 60.0, 80.0, 80.0, 80.0, 80.0],
    ]
    assert torch.equal(nearest[:, :, 1], forecast[:, :, 1])


def test_scaled_traces_are_judged_in_source_units(pack: fedkg.Pack) -> None:
    plain = traces(9)
    layout = fedkg.columns(["x", "y"], mean=[50.0, 40.0], std=[25.0, 10.0])
    scale, shift = (
        torch.tensor([25.0, 10.0], dtype=torch.float64),
        torch.tensor([50.0, 40.0], dtype=torch.float64),
    )
    scaled = [(trace - shift) / scale for trace in plain]
    here, there = (
        mine_properties(pack, ["t1", "t7"], plain),
        mine_properties(pack, ["t1", "t7"], scaled, layout),
    )
    torch.testing.assert_close(here.values[0], there.values[0])
    forecast, client = (
        torch.randn(20, STEPS, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        * 3,
        torch.arange(2).repeat(10),
    )
    source = there.source(forecast)
    torch.testing.assert_close(source, forecast * scale + shift)
    torch.testing.assert_close(
        there.corrected(forecast, client) * scale + shift, there.nearest(source, client)
    )
    assert bool(there.satisfied(there.nearest(source, client), client).all())
    assert torch.equal(here.corrected(forecast, client), here.nearest(forecast, client))


def test_a_property_of_some_channels_leaves_the_others(pack: fedkg.Pack) -> None:
    other_order = fedkg.columns(["y", "x"])
    turned = [trace.flip(-1) for trace in traces(10)]
    here, there = (
        mine_properties(pack, ["t1"], traces(10)),
        mine_properties(pack, ["t1"], turned, other_order),
    )
    forecast, client = (
        torch.rand(10, STEPS, 2, dtype=torch.float64) * 200,
        torch.arange(2).repeat(5),
    )
    assert torch.equal(
        there.nearest(forecast, client).flip(-1), here.nearest(forecast.flip(-1), client)
    )
    assert torch.equal(there.nearest(forecast, client)[..., 0], forecast[..., 0])


def test_a_share_of_the_traces_may_be_left_out(pack: fedkg.Pack) -> None:
    own = [torch.arange(1.0, 21.0, dtype=torch.float64).view(20, 1, 1).expand(20, STEPS, 2)]
    [t1] = [one for one in pack.manifest.inferences if one.name == "t1"]
    assert mined(pack, own, BOTH, inferences=[t1]).values[0].tolist() == [[1.0, 20.0]]
    # Eighteen of 20 traces satisfy [1, 18], [2, 19] and [3, 20]; the leftmost of the shortest is
    # taken.
    assert mined(pack, own, BOTH, inferences=[t1], pick=quantile(0.9)).values[0].tolist() == [
        [1.0, 18.0]
    ]


def test_refused_traces(pack: fedkg.Pack) -> None:
    with pytest.raises(LayoutError, match="must have the same steps and channels"):
        mined(pack, [torch.rand(3, 6, 2), torch.rand(3, 5, 2)], BOTH)
    with pytest.raises(KnowledgeError, match="have no `infer` statement"):
        mined(
            fedkg.compile(text="signal x in %\nrule r require x <= 5 %\n"),
            [torch.rand(3, 6, 1)],
            LAYOUT,
        )
    with pytest.raises(LayoutError, match="not in the layout"):
        mined(pack, traces(1), fedkg.columns(["x", "z"]))


TASK, TEST = task((0.0, 5.0, 2.0))
FOUND = properties(TASK)


def step(dtype: torch.dtype = torch.float64) -> Step:
    params = {
        name: value.expand(2, *value.shape).clone()
        for name, value in TASK.model.init(3, dtype).items()
    }
    x = torch.stack([TASK.clients.x[2][:5], TASK.clients.x[0][:5]])
    y = torch.stack([TASK.clients.y[2][:5], TASK.clients.y[0][:5]])
    share = torch.tensor([[0.2] * 5, [0.5, 0.5, 0.0, 0.0, 0.0]], dtype=dtype)
    return Step(
        model=TASK.model,
        loss=TASK.loss,
        params=params,
        x=x,
        y=y,
        share=share,
        noise=None,
        clients=torch.tensor([2, 0]),
        start=params,
    )


def test_the_teachers_term() -> None:
    """L_p by hand: with 0 <= x <= 2 the trace (-1, 1, 3) has distance 2, on average 2 / 3."""
    text = (
        "timeline step 1 h ends clip\nsignal x in % span -9 .. 9\nuse rules"
        " templates.operational_range\n"
    )
    small = fedkg.compile(
        text=text
        + "infer r per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 2)\n"
    )
    here = mined(small, [torch.tensor([[[0.0], [1.0], [2.0]]], dtype=torch.float64)], LAYOUT)
    away = torch.tensor([[[-1.0], [1.0], [3.0]]], dtype=torch.float64)
    assert here.nearest(away, torch.tensor([0])).flatten().tolist() == [0.0, 1.0, 2.0]
    one = replace(step(), output=away.reshape(1, 1, 3), share=None, clients=torch.tensor([0]))
    value, slope = TeacherLoss(properties=here, weight=3.0).by_output(one)
    assert value.tolist() == pytest.approx([2.0])
    assert slope.flatten().tolist() == [-1.0, 0.0, 1.0]


def test_the_terms_derivative_is_the_automatic_one() -> None:
    one, term = step(), TeacherLoss(properties=FOUND.own, weight=0.7)
    leaf = TASK.model.apply(one.params, one.x).detach().requires_grad_()
    value = term.value(replace(one, output=leaf))
    value.sum().backward()
    closed, slope = term.by_output(replace(one, output=leaf.detach()))
    torch.testing.assert_close(closed, value.detach())
    torch.testing.assert_close(slope, leaf.grad)
    torch.testing.assert_close(
        term.value(one), value.detach()
    )  # runs the model itself if no output is passed


def test_the_teacher_under_both_ways_of_derivation() -> None:
    """The sequential executor uses autograd, the stacked one the closed form."""
    algorithm = fedavg().with_terms(TeacherLoss(properties=FOUND.own, weight=2.0))
    how = Settings(rounds=3, local_epochs=2, batch=16, learning_rate=0.02)
    ends = []
    for executor in ("stacked", "sequential"):
        own = replace(how, executor=executor)  # type: ignore[arg-type]
        *_, (state, _) = train(TASK, algorithm, own)
        ends.append(state.models)
    assert largest_difference(*ends) < 1e-12
    *_, (plain, _) = train(TASK, fedavg(), replace(how, executor="stacked"))
    assert largest_difference(ends[0], plain.models) > 1e-4
    with pytest.raises(JobError, match="must not be negative"):
        TeacherLoss(properties=FOUND.own, weight=-0.1)


def test_satisfaction_is_judged_per_client() -> None:
    """Three clients; a model that always answers 0 satisfies the ranges of clients at level 0."""
    algorithm, how = (
        fedavg(),
        Settings(rounds=1, local_epochs=1, learning_rate=1e-9, executor="stacked"),
    )
    *_, (state, _) = train(TASK, algorithm, how)
    nothing = replace(
        state, models={name: torch.zeros_like(value) for name, value in state.models.items()}
    )
    here = judged(
        Work(problem=TASK, algorithm=algorithm, settings=how, pool=pool(TASK.clients)),
        nothing,
        FOUND,
        TEST,
    )
    assert here.client.sequences.tolist() == [1.0, 0.0, 0.0]
    assert here.client.steps.tolist() == [1.0, 0.0, 0.0]
    assert here.cluster.sequences.tolist() == here.client.sequences.tolist()
    assert here.client.mse.tolist() == pytest.approx([float(y.square().mean()) for y in TEST.y])
    assert here.teacher.sequences.tolist() == [1.0, 1.0, 1.0]
    lows = torch.stack([values[1, 0] for values in FOUND.own.values]).repeat_interleave(2)
    assert float(here.teacher.mse[1]) == pytest.approx(float((TEST.y[1] - lows).square().mean()))
    mean, half = here.client.mean()["sequences"]
    assert mean == pytest.approx(1 / 3)
    assert half == pytest.approx(1.96 * (1 / 3) ** 0.5 / 3**0.5)
    assert Kept(mse=torch.ones(1), sequences=torch.ones(1), steps=torch.ones(1)).mean()["mse"] == (
        1.0,
        0.0,
    )


def test_what_is_not_known_of_the_truth_is_left_out() -> None:
    unknown = list(TEST.y)
    unknown[1] = unknown[1].clone()
    unknown[1][0, 3] = float("nan")
    algorithm, how = fedavg(), Settings(rounds=1, local_epochs=1, executor="stacked")
    *_, (state, _) = train(TASK, algorithm, how)
    work = Work(problem=TASK, algorithm=algorithm, settings=how, pool=pool(TASK.clients))
    there, here = (
        judged(work, state, FOUND, TEST),
        judged(work, state, FOUND, replace(TEST, y=tuple(unknown))),
    )
    rest = replace(TEST, x=tuple(x[1:] for x in TEST.x), y=tuple(y[1:] for y in TEST.y))
    assert here.client.mse[0] == there.client.mse[0]
    assert here.client.sequences.tolist() == there.client.sequences.tolist()
    assert here.truth.sequences[1] == judged(work, state, FOUND, rest).truth.sequences[1]
    assert bool(torch.isfinite(here.client.mse).all())


def test_ranges_of_their_own_in_every_window_are_no_harder_than_one() -> None:
    """Formulas that constrain each step separately have one state, for any number of limits."""
    here = properties(task((0.0, 5.0, 2.0), samples=10)[0], pack=ranges(windows=3))
    bank = conjunction([here.own.pack.conditions[one.condition] for one in here.own.inferences])
    params = torch.from_numpy(bank.params).nan_to_num(1.0)
    assert Teacher(bank, STEPS, params=params, clip=True, everywhere=False).states == 1
