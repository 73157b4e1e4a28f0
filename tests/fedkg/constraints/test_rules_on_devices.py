"""Rules, sets, mining, teachers and knowledge on devices other than the CPU.

Nothing remains on the CPU, and the numbers are the same.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import CATEGORY, EXACT, TRANSCENDENTAL, VOCABULARY, X, Y, formulas, packs, tables
from torch import Tensor

import fedkg
from fedkg.constraints import ConstraintModule
from fedkg.errors import LayoutError
from fedkg.federated.temporal.hard_rule_forecasts import with_hard_rules
from fedkg.mining import mine
from fedkg.models import MLP
from fedkg.pack import Pack
from fedkg.projection import (
    Affine,
    Box,
    CappedSimplex,
    HalfSpace,
    L1Ball,
    L2Ball,
    LInfBall,
    MonotoneCone,
    Polytope,
    ProjectionSet,
    SecondOrderCone,
    Simplex,
)
from fedkg.teacher import Teacher

few = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
ANY = packs(skeletons=formulas(EXACT + TRANSCENDENTAL))


def drawn(*shape: int) -> Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64
    )


def same(found: Tensor, expected: Tensor, device: torch.device, within: float = 1e-12) -> None:
    """Assert equal numbers, and that they are on the device."""
    assert found.device == device
    torch.testing.assert_close(
        found.detach().cpu(), expected.detach(), rtol=within, atol=within, equal_nan=True
    )


def slopes(
    module: ConstraintModule, x: Tensor, y: Tensor, semantics: str, **call: object
) -> tuple[Tensor, Tensor]:
    """A penalty and its gradient with respect to the answers."""
    answers = y.clone().requires_grad_()
    penalty = module(x, answers, semantics=semantics, **call).penalty  # type: ignore[arg-type]
    if not penalty.requires_grad:
        return penalty, torch.zeros_like(y)
    return penalty, torch.autograd.grad(penalty, answers)[0]


@pytest.mark.slow
@given(
    pack=ANY,
    table=tables(),
    seed=st.integers(0, 99),
    semantics=st.sampled_from(["exact", "smooth", "sound"]),
)
@few
def test_rules_about_rows(
    elsewhere: torch.device, pack: Pack, table: np.ndarray, seed: int, semantics: str
) -> None:
    module, there = ConstraintModule(pack, x=X, y=Y), ConstraintModule(pack, x=X, y=Y).to(elsewhere)
    runs = torch.from_numpy(
        np.random.default_rng(seed).integers(-3, 4, (len(module.plan.runs), len(table), 5)) / 2.0
    )
    x = torch.from_numpy(table[:, :4])
    call = {
        "previous": "above",
        "keys": {"Type": [VOCABULARY[int(code)] for code in table[:, CATEGORY]]},
    }
    for found, expected in zip(
        slopes(there, x.to(elsewhere), runs.to(elsewhere), semantics, **call),
        slopes(module, x, runs, semantics, **call),
        strict=True,
    ):
        same(found, expected, elsewhere)
    here = module(x, runs, **call)  # type: ignore[arg-type]
    far = there(x.to(elsewhere), runs.to(elsewhere), **call)  # type: ignore[arg-type]
    for name in ("robustness", "satisfied", "violated", "unknown", "fired"):
        same(getattr(far, name), getattr(here, name), elsewhere)


@pytest.mark.slow
@given(
    pack=packs(temporal=True, members=True),
    seed=st.integers(0, 99),
    semantics=st.sampled_from(["exact", "smooth", "sound"]),
)
@few
def test_rules_about_windows(
    elsewhere: torch.device, pack: Pack, seed: int, semantics: str
) -> None:
    module, dice = ConstraintModule(pack, x=X, y=Y), np.random.default_rng(seed)
    x, y = (torch.from_numpy(dice.integers(-3, 4, (3, 12, width)) / 2.0) for width in (4, 5))
    keys = {"Type": ["H", "L", "M"]}
    try:
        expected = slopes(module, x, y, semantics, keys=keys)
    except LayoutError:
        return  # rules that compare several answers of the model need all of them
    there = ConstraintModule(pack, x=X, y=Y).to(elsewhere)
    for found, here in zip(
        slopes(there, x.to(elsewhere), y.to(elsewhere), semantics, keys=keys), expected, strict=True
    ):
        same(found, here, elsewhere)


RULES = """
signal torque in Nm span 0 .. 80
output failure
output heat in K span 250 .. 400
rule low   require failure >= 0.1
rule high  require if torque > 40 Nm then failure <= 0.6
rule cool  require heat <= 320 K
"""


@pytest.mark.slow
def test_rules_for_a_probe_set(elsewhere: torch.device) -> None:
    pack = fedkg.compile(text=RULES)
    x, y = drawn(20, 1).abs() * 40, drawn(5, 20, 2).abs() * torch.tensor([0.5, 300.0])
    layouts = {"x": fedkg.columns(["torque"]), "y": fedkg.columns(["failure", "heat"])}
    here = ConstraintModule(pack, **layouts).specialise(x)
    there = ConstraintModule(pack, **layouts).to(elsewhere).specialise(x.to(elsewhere))
    same(there(y[0].to(elsewhere)).robustness, here(y[0]).robustness, elsewhere)
    counts, expected = there.counts(y.to(elsewhere)), here.counts(y)
    same(counts.violated, expected.violated, elsewhere)
    same(counts.evaluated, expected.evaluated, elsewhere)


def test_answers_are_projected(elsewhere: torch.device) -> None:
    pack = fedkg.compile(text=RULES + "rule both require heat + 100 * failure <= 300\n")
    layouts = {"x": fedkg.columns(["torque"]), "y": fedkg.columns(["failure", "heat"])}
    x, y = drawn(20, 1).abs() * 40, drawn(20, 2).abs() * torch.tensor([0.5, 300.0])
    expected = ConstraintModule(pack, **layouts).project(x, y)
    far = y.to(elsewhere).requires_grad_()
    found = ConstraintModule(pack, **layouts).to(elsewhere).project(x.to(elsewhere), far)
    same(found, expected, elsewhere, 1e-9)
    found.sum().backward()
    assert far.grad is not None


SETS: dict[str, ProjectionSet] = {
    "box": Box(-0.5, 0.5),
    "half-space": HalfSpace(drawn(6), 0.1),
    "affine": Affine(drawn(2, 6), drawn(2)),
    "L1 ball": L1Ball(1.5),
    "L2 ball": L2Ball(0.7),
    "L-infinity ball": LInfBall(0.4),
    "simplex": Simplex(2.0),
    "capped simplex": CappedSimplex(torch.full((6,), 0.4, dtype=torch.float64)),
    "monotone": MonotoneCone(),
    "cone": SecondOrderCone(0.7),
    "polytope": Polytope(drawn(9, 6), drawn(9).abs() + 0.1),
    "polytope with equations": Polytope(
        drawn(4, 6), drawn(4).abs() + 0.1, torch.ones(1, 6, dtype=torch.float64), torch.zeros(1)
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_points_are_projected(elsewhere: torch.device, name: str) -> None:
    x = drawn(7, 6) * 2
    here, there = x.clone().requires_grad_(), x.to(elsewhere).requires_grad_()
    expected, found = SETS[name].project(here), SETS[name].project(there)
    same(found, expected, elsewhere, 1e-9)
    weight = drawn(6, 7).T
    wanted = torch.autograd.grad((expected * weight).sum(), here)[0]
    same(
        torch.autograd.grad((found * weight.to(elsewhere)).sum(), there)[0], wanted, elsewhere, 1e-7
    )
    same(SETS[name].distance2(there), SETS[name].distance2(here), elsewhere, 1e-9)
    assert bool(SETS[name].contains(found, 1e-8).all())


OVER_TIME = """
timeline step 1 h ends clip
output x in % span 0 .. 1000
use rules templates.operational_range, templates.temporal_implication, templates.until
infer t1 per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 2)
infer t5 per client find ?answer in temporal_implication(x, 60, ?answer, 0, 4, 1, 2)
infer t3 per client find ?b, ?a in until(x, ?a, ?b, 0, 3)
"""


@pytest.mark.parametrize("place", range(3))
def test_parameters_are_mined(elsewhere: torch.device, place: int) -> None:
    pack = fedkg.compile(text=OVER_TIME)
    x = drawn(2, 3, 9, 1).abs() * 50
    expected, found = (
        mine(pack, pack.manifest.inferences[place], one, layout=fedkg.columns(["x"]))
        for one in (x, x.to(elsewhere))
    )
    same(found.values, expected.values, elsewhere)


@pytest.mark.parametrize(
    "condition",
    [
        "follows operational_range(x, 20, 60, 1, 4)",
        "follows temporal_implication(x, 60, 50, 0, 3, 1, 2)",
        "x >= 20 % until x > 70 %",
    ],
)
def test_nearest_traces(elsewhere: torch.device, condition: str) -> None:
    [bank] = fedkg.compile(text=f"{OVER_TIME}rule r require initially ({condition})\n").banks
    traces = drawn(5, 8, 1).abs() * 60
    teacher = Teacher(bank, 8, clip=True)
    same(teacher.nearest(traces.to(elsewhere)), teacher.nearest(traces), elsewhere)


@pytest.mark.slow
def test_forecasts_are_kept_within_hard_rules(elsewhere: torch.device) -> None:
    rules = "output x in % span 0 .. 100\nrule low hard require x >= 40 %\n"
    rules += "rule falls hard require if x > 60 % then eventually within 2 h x <= 50 %\n"
    pack = fedkg.compile(text=f"timeline step 1 h ends clip\n{rules}")
    layout = fedkg.columns(["x"], mean=[50.0], std=[20.0])
    model = with_hard_rules(MLP(inputs=3, hidden=(4,), outputs=8), pack, layout, 8)
    params = {name: 3 * value[None] for name, value in model.init(0, torch.float64).items()}
    x = drawn(6, 3)
    moved = {name: value.to(elsewhere) for name, value in params.items()}
    same(model.apply(moved, x.to(elsewhere)), model.apply(params, x), elsewhere)
