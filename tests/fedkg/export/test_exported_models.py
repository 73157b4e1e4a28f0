"""Exported models satisfy their rules in onnxruntime and PyTorch. The tests judge the outputs with
the formulas written out in NumPy, not with fedkg.
"""

from __future__ import annotations

import json
from itertools import combinations, product

import numpy as np
import onnxruntime
import pytest
import torch

import fedkg
from fedkg.authoring import RuleWarning
from fedkg.errors import LayoutError, UsageError

BLEND = """
signal feed in kg/h span 0 .. 100
output oil  in kg/h span 0 .. 100
output gas  in kg/h span 0 .. 100
rule balance hard require oil + gas == feed
rule lean    hard require if feed > 50 kg/h then oil <= 2 * gas
rule some         require gas >= 1 kg/h
rule square       require oil * gas <= 900 kg^2/h^2
"""
MEAN, STD = 301.123456789 / 6, 20.987654321
"""Numbers that float32 cannot represent: rounding of constants to float32 would show."""


def blend(text: str = BLEND):
    return fedkg.compile(text=text).constraints(
        x=fedkg.columns(["feed"], mean=[MEAN], std=[STD]),
        y=fedkg.columns(["oil", "gas"], mean=[10.123456789, 12.0], std=[3.123456789, 2.0]),
    )


def network(inputs: int, outputs: int) -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs)
    )


def run_onnx(folder, inputs):
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    return session.run(None, {"inputs": inputs})[0]


def nearest_by_hand(point, rows, low, high):
    """The nearest point of a polytope: all sets of active ends, each solved by least squares."""
    best, least = None, np.inf
    for size in range(len(point) + 1):
        for own in combinations(range(len(rows)), size):
            for ends in product((low, high), repeat=size):
                end = np.array([side[row] for side, row in zip(ends, own, strict=True)])
                if not np.isfinite(end).all():
                    continue
                active = rows[list(own)]
                found = point + (np.linalg.pinv(active) @ (end - active @ point) if own else 0)
                reached = rows @ found
                if (reached < low - 1e-7).any() or (reached > high + 1e-7).any():
                    continue
                if (distance := ((found - point) ** 2).sum()) < least:
                    best, least = found, distance
    return best


@pytest.mark.slow
def test_sums_of_outputs_are_satisfied_in_onnxruntime(tmp_path):
    model = network(1, 2)
    never = "rule never require if feed > 500 kg/h then oil * gas <= 1 kg^2/h^2\n"
    with pytest.warns(RuleWarning, match="never applies"):
        rules = blend(BLEND + never)
    certificate = fedkg.export_model(model, tmp_path, rules=rules)
    random = np.random.default_rng(5)
    feed = np.concatenate([random.uniform(2, 110, 9_000), np.arange(5.0, 105.0, 0.1)])[:, None]
    feed = np.round(feed, 1)  # 50.0, the threshold, is among them
    answers = run_onnx(tmp_path, feed)
    assert (len(feed), answers.shape, answers.dtype) == (10_000, (10_000, 2), np.float64)
    oil, gas = answers.T
    assert np.abs(oil + gas - feed[:, 0]).max() < 1e-9
    assert (oil - 2 * gas)[feed[:, 0] > 50].max() < 1e-9
    assert gas.min() >= 1
    assert run_onnx(tmp_path, feed[:1]).shape == (1, 2)  # a batch of one row, as in serving

    scaled = torch.from_numpy((feed[:20] - MEAN) / STD).float()
    plain = model(scaled).detach().double().numpy()
    std, mean = np.array([3.123456789, 2.0]), np.array([10.123456789, 12.0])
    rows = np.array([[1.0, 1.0], [1.0, -2.0], [0.0, 1.0]]) * std
    for own, given, answer in zip(feed[:20, 0], plain, answers[:20], strict=True):
        high = np.array([own, 0.0 if own > 50 else np.inf, np.inf]) - rows @ (mean / std)
        low = np.array([own, -np.inf, 1.0]) - rows @ (mean / std)
        wanted = nearest_by_hand(given, rows, low, high) * std + mean
        np.testing.assert_allclose(answer, wanted, atol=1e-5)  # the network is in float32

    found = {rule["name"]: rule for rule in certificate["rules"]}
    assert [found[name]["status"] for name in ("balance", "lean", "some")] == ["enforced"] * 3
    assert found["square"]["status"] == "checked"
    assert found["square"]["applied"] == found["lean"]["evaluated"] == 10_000
    assert 0 < found["lean"]["applied"] < 10_000
    assert (found["never"]["status"], found["never"]["reason"]) == (
        "not evaluated", "no random input meets its condition"
    )  # fmt: skip
    assert found["balance"]["text"] == "rule balance hard require oil + gas == feed"
    assert all(found[name]["violated"] == 0 for name in ("balance", "lean", "some"))
    assert certificate["verification"]["inputs"] == 10_000
    assert certificate["verification"]["runtime"].startswith("onnxruntime")
    assert json.loads((tmp_path / "certificate.json").read_text()) == certificate


@pytest.mark.slow
def test_a_torch_file_gives_the_answers_of_the_onnx_file(tmp_path):
    fedkg.export_model(network(1, 2), tmp_path, rules=blend())
    fedkg.export_model(network(1, 2), tmp_path, rules=blend(), format="torch")
    feed = np.linspace(2, 100, 50)[:, None]
    module = torch.export.load(tmp_path / "model.pt2").module()
    answers = module(torch.from_numpy(feed)).detach().numpy()
    np.testing.assert_allclose(answers, run_onnx(tmp_path, feed), atol=1e-5)


@pytest.mark.slow
def test_contradicting_rules_are_counted(tmp_path):
    text = BLEND.replace("gas >= 1 kg/h", "gas >= 1 kg/h and oil >= 20 kg/h")
    found = fedkg.export_model(network(1, 2), tmp_path, rules=blend(text))
    counted = found["verification"]["contradicting_inputs"]
    assert 0.2 < counted / 10_000 < 0.35  # below 21 kg/h, of inputs over -10 .. 110 kg/h


FAULT = """
signal temp in degC span 0 .. 100
output fault in % span 0 .. 100
rule cold hard require if temp < 40 degC then fault <= 30 %
rule hot  hard require if temp > 70 degC then fault > 60 %
"""


@pytest.mark.slow
def test_logits_become_probabilities(tmp_path):
    rules = fedkg.compile(text=FAULT).constraints(
        x=fedkg.columns(["temp"], mean=[50.1], std=[20.3]), y=fedkg.logit("fault")
    )
    fedkg.export_model(network(1, 1), tmp_path, rules=rules)
    temp = np.round(np.random.default_rng(2).uniform(0, 100, 10_000))[:, None]
    fault = run_onnx(tmp_path, temp)
    assert fault[temp < 40].max() <= 0.3
    assert fault[temp > 70].min() > 0.6
    assert ((fault >= 0) & (fault <= 1)).all()


GRADES = """
signal ash     in %  span 0 .. 40
signal sulphur in %  span 0 .. 5
label  grade   classes A, B, C, D
output quality in %  span 0 .. 100
range knowledge by_ash of grade
  when ash > 12.5 % allow C, D
  when ash <= 8 % and not sulphur > 1 % allow A, B
  otherwise allow any
predict knowledge rule of grade
  when ash <= 8 % and not sulphur > 1 % predict A
  otherwise predict C
range knowledge usual of quality
  when ash > 12.5 % allow 0 .. 60 %
  when ash < 5 % allow between 80 % - ash and 100 %
  otherwise allow any
"""


@pytest.mark.slow
def test_injected_knowledge_is_part_of_the_file(tmp_path):
    pack = fedkg.compile(text=GRADES)
    layout = fedkg.columns(["ash", "sulphur"], mean=[15.3, 1.1], std=[3.1, 0.7])
    allowed = fedkg.RangeKnowledge(pack, "grade", x=layout)
    predicted = fedkg.PredictionKnowledge(pack, "grade", x=layout)
    model = fedkg.inject(network(2, 4), prediction=predicted, range=allowed, trust=0.6)
    certificate = fedkg.export_model(model, tmp_path)
    random = np.random.default_rng(4)
    x = np.round(random.uniform(0, [40, 5], (10_000, 2)) * 2) / 2  # thresholds occur
    answers = run_onnx(tmp_path, x)
    ash, sulphur = x.T
    clean = (ash <= 8) & ~(sulphur > 1)
    assert (answers[ash > 12.5][:, :2] == 0).all()
    assert (answers[clean][:, 2:] == 0).all()
    assert (answers[~clean & (ash <= 12.5)] > 0).all()
    np.testing.assert_allclose(answers.sum(1), 1, atol=1e-6)
    assert (answers.argmax(1) == np.where(clean, 0, 2)).all()  # a trust above 0.5 decides
    assert certificate["rules"][0]["status"] == "enforced"


@pytest.mark.slow
def test_bins_of_a_number_are_part_of_the_file(tmp_path):
    layout = fedkg.columns(["ash", "sulphur"])
    usual = fedkg.RangeKnowledge(fedkg.compile(text=GRADES), "quality", x=layout, bins=10)
    fedkg.export_model(fedkg.inject(network(2, 10), range=usual), tmp_path)
    x = np.random.default_rng(4).uniform(0, [40, 5], (2_000, 2))
    answers = run_onnx(tmp_path, x)
    assert (answers[x[:, 0] > 12.5][:, 7:] == 0).all()  # above 70
    assert (answers[x[:, 0] < 5][:, :7] == 0).all()  # below 80 - 5 lies the bin 60 .. 70


@pytest.mark.slow
def test_torch_export_traces_a_module_that_ends_in_project():
    rules = blend()

    class Blend(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network(1, 2).double()

        def forward(self, x):
            return rules.project(x, self.net(x))

    model, x = Blend().eval(), torch.linspace(-2, 2, 30, dtype=torch.float64)[:, None]
    wanted = model(x)
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), wanted)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            BLEND + "rule mono hard require oil never falls as feed rises\n",
            r"mono(.|\n)*help: remove `hard` from the rule, and compile it or train the run again;",
        ),
        (
            BLEND.replace("signal feed", 'signal line column "line"\nsignal feed').replace(
                "if feed > 50 kg/h", 'if line is "A"'
            ),
            "lean",
        ),
    ],
)
def test_a_rule_that_a_file_cannot_enforce_is_named(tmp_path, text, named):
    with pytest.raises(LayoutError, match=named):
        fedkg.export_model(network(1, 2), tmp_path / "out", rules=blend(text))
    assert not (tmp_path / "out").exists()


def test_factors_from_inputs_are_rejected(tmp_path):
    text = BLEND.replace("oil <= 2 * gas", "oil <= feed * gas / 10 kg/h")
    with pytest.raises(LayoutError, match="lean"):
        fedkg.export_model(network(1, 2), tmp_path / "out", rules=blend(text))


def test_a_model_without_rules_is_rejected(tmp_path):
    with pytest.raises(UsageError, match="no rules"):
        fedkg.export_model(network(1, 2), tmp_path)
    with pytest.raises(UsageError, match="format"):
        fedkg.export_model(network(1, 2), tmp_path, rules=blend(), format="pickle")


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh", "sigmoid", "gelu"])
def test_a_trained_network_as_knowledge_is_part_of_the_file(tmp_path, activation):
    from safetensors.numpy import save_file

    dice = np.random.default_rng(3)
    layers = {"0.weight": dice.normal(size=(6, 2)), "0.bias": dice.normal(size=6)}
    layers |= {"1.weight": dice.normal(size=(4, 6)), "1.bias": dice.normal(size=4)}
    metadata = {"features": '["ash", "sulphur"]', "mean": "[20, 2]", "std": "[9, 1.5]"}
    save_file(layers, tmp_path / "grade.safetensors", metadata | {"activation": activation})
    (tmp_path / "rules.fkg").write_text(
        "signal ash in % span 0 .. 40\nsignal sulphur in % span 0 .. 5\n"
        "label grade classes A, B, C, D\n"
        'predict knowledge earlier of grade from model "grade.safetensors"\n'
    )
    pack = fedkg.compile(tmp_path / "rules.fkg")
    layout = fedkg.columns(["ash", "sulphur"])
    known = fedkg.PredictionKnowledge(pack, "grade", x=layout)
    fedkg.export_model(fedkg.inject(network(2, 4), prediction=known, trust=0.6), tmp_path)
    x = dice.uniform(0, [40, 5], (10_000, 2))
    x[0, 1] = np.nan
    hidden = torch.from_numpy((x - [20, 2]) / [9, 1.5] @ layers["0.weight"].T + layers["0.bias"])
    hidden = getattr(torch.nn.functional, activation)(hidden).numpy()
    wanted = (hidden @ layers["1.weight"].T + layers["1.bias"]).argmax(1)
    answers = run_onnx(tmp_path, x)
    assert (answers.argmax(1)[1:] == wanted[1:]).all()
    assert (answers[1:].max(1) > 0.6).all()
    assert len(set(wanted)) > 2
