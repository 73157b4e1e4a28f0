"""Inferences in a pack: open parameters, directions, spans, units."""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.cli.inspect_pack import inference_lines, inference_text
from fedkg.errors import PackError
from fedkg.pack import Inference, Pack, formulas, read_pack
from fedkg_compiler import compile_rules

HEAD = "timeline step 1 h\nsignal x in bar span 0 .. 10\nsignal y in mbar span -500 .. 500\n"


def compiled(text: str) -> Pack:
    compilation = compile_rules(text=HEAD + text)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return read_pack(compilation.pack.to_bytes())


def inferred(template: str, call: str, *names: str) -> tuple[Inference, Pack]:
    pack = compiled(
        f"template {template}\ninfer found per client find"
        f" {', '.join(f'?{name}' for name in names)} in {call}\n"
    )
    (inference,) = pack.manifest.inferences
    assert [parameter.name for parameter in inference.parameters] == list(names)
    return inference, pack


TABLE = [  # the paper's templates with the directions that the specification states
    ("t(x, a, b) = always [0, 1] x <= a and x >= b", "t(x, ?a, ?b)", "a up, b down"),
    ("t(x, a, b) = eventually [0, 1] (x <= a and x >= b)", "t(x, ?a, ?b)", "a up, b down"),
    (
        "t(x, a, b) = (eventually [0, 1] x >= a) and (eventually [0, 1] x <= b)",
        "t(x, ?a, ?b)",
        "a down, b up",
    ),
    ("t(x, a, b) = x < a until [0, 1] x < b", "t(x, ?a, ?b)", "a up, b up"),
    ("t(x, z, a) = always [0, 1] x - z > a", "t(x, y, ?a)", "a down"),
    (
        "t(x, a, b) = always [0, 3] if x >= a then eventually [1, 2] x >= b",
        "t(x, ?a, ?b)",
        "a up, b down",
    ),
    (
        "t(x, z, a, b) = always [0, 3] if x >= a then eventually [1, 2] z >= b",
        "t(x, y, ?a, ?b)",
        "a up, b down",
    ),
    (
        "t(x, a, b) = (eventually [0, 1] x >= a) and (eventually [2, 3] x >= b)",
        "t(x, ?a, ?b)",
        "a down, b down",
    ),
    ("t(x, n, m) = always [n, 9] (eventually [0, m] x >= 3 bar)", "t(x, ?n, ?m)", "n up, m up"),
    (
        "t(x, n, m) = (once [n, 9] x >= 3 bar) and (historically [0, m] x >= 1 bar)",
        "t(x, ?n, ?m)",
        "n down, m down",
    ),
    ("t(x, n) = x >= 1 bar until [0, n] x >= 3 bar", "t(x, ?n)", "n up"),
    ("t(x, c) = not (x >= 2 * c) or x <= 3 bar", "t(x, ?c)", "c up"),
    ("t(x, c) = x * c <= 3 bar", "t(x, ?c)", "c down"),
    ("t(x, c) = x / c <= 3 bar", "t(x, ?c)", "c none"),
    ("t(x, c) = x == 3 bar +/- 1 bar and x >= -(c ^ 3) * 1 bar", "t(x, ?c)", "c up"),
    ("t(x, c) = abs(x - c) <= 2 bar", "t(x, ?c)", "c none"),
    ("t(x, c) = x == c", "t(x, ?c)", "c none"),
    ("t(x, c) = x <= c and x >= c", "t(x, ?c)", "c none"),
    ("t(x, c) = max(x, c) <= 3 bar", "t(x, ?c)", "c down"),
    ("t(x, c) = initially x <= c", "t(x, ?c)", "c up"),
]


@pytest.mark.parametrize(("template", "call", "directions"), TABLE)
def test_directions(template: str, call: str, directions: str) -> None:
    names = [pair.split()[0] for pair in directions.split(", ")]
    inference, _ = inferred(template, call, *names)
    assert (
        ", ".join(f"{parameter.name} {parameter.direction}" for parameter in inference.parameters)
        == directions
    )


def test_a_value_has_the_unit_and_the_span_of_what_it_is_compared_with() -> None:
    inference, pack = inferred(
        "t(x, low, high) = always [0 h, 1 h] low <= x <= high", "t(y, ?low, ?high)", "low", "high"
    )
    assert [(one.unit, one.span, one.integer) for one in inference.parameters] == [
        ("mbar", (-500, 500), False)
    ] * 2
    bank = pack.conditions[inference.condition]
    assert np.isnan(bank.params[0, [one.param for one in inference.parameters]]).all()
    assert np.isnan(bank.params).sum() == 2
    assert (inference.per, inference.scope, inference.template) == ("client", "public", "t")
    assert inference.text == "t(y, ?low, ?high)"


def test_one_parameter_in_two_units_is_one_number() -> None:
    inference, pack = inferred("t(a, b, c) = a <= c and b <= c", "t(x, y, ?c)", "c")
    (parameter,) = inference.parameters
    assert (parameter.unit, parameter.direction) == ("bar", "up")
    assert parameter.span == (0, 10)
    assert np.isnan(pack.conditions[0].params).sum() == 1


def test_a_time_is_a_number_of_steps_and_stays_open() -> None:
    inference, pack = inferred(
        "t(x, n, m) = eventually [n, m] x >= 3 bar", "t(x, ?n, ?m)", "n", "m"
    )
    assert all(one.integer and one.unit == "" and one.span is None for one in inference.parameters)
    skeleton = pack.conditions[0].skeleton
    assert isinstance(skeleton, formulas.Temporal)
    assert (skeleton.low, skeleton.high) == tuple(one.param for one in inference.parameters)
    assert pack.conditions[0].params[0, [skeleton.low, skeleton.high]].tolist() == [0, -1]


def test_an_always_without_window_is_kept_it_is_about_the_whole_trace() -> None:
    _, pack = inferred("t(x, high) = always x <= high", "t(x, ?high)", "high")
    assert isinstance(pack.conditions[0].skeleton, formulas.Temporal)


def test_scope_and_rules_beside() -> None:
    pack = compiled(
        "template t(x, c) = x <= c\ninfer i scope server per run find ?c in t(x, ?c)\nrule r"
        " require follows t(x, 3 bar)\n"
    )
    assert (pack.manifest.inferences[0].scope, pack.manifest.inferences[0].per) == ("server", "run")
    assert [record.name for record in pack.manifest.rules] == ["r"]


def test_a_pack_whose_inference_points_nowhere_is_rejected() -> None:
    pack = compiled("template t(x, c) = x <= c\ninfer i per run find ?c in t(x, ?c)\n")
    (inference,) = pack.manifest.inferences
    (parameter,) = inference.parameters
    for wrong in (
        inference.model_copy(update={"condition": 1}),
        inference.model_copy(update={"parameters": (parameter.model_copy(update={"param": 7}),)}),
    ):
        broken = Pack(
            manifest=pack.manifest.model_copy(update={"inferences": (wrong,)}),
            banks=pack.banks,
            conditions=pack.conditions,
        )
        with pytest.raises(PackError, match="inference `i`"):
            read_pack(broken.to_bytes())


def test_inspect_shows_what_is_looked_for() -> None:
    inference, pack = inferred(
        "t(x, low, high, n) = always [0, n] low <= x <= high",
        "t(y, ?low, ?high, ?n)",
        "low",
        "high",
        "n",
    )
    assert inference_text(pack, inference) == "always within ?n (?low <= y and y <= ?high)"
    assert inference_lines(pack)[1:] == [
        "found mines, for each client: always within ?n (?low <= y and y <= ?high)",
        "  ?low from -500 to 500 mbar, looser as it falls",
        "  ?high from -500 to 500 mbar, looser as it rises",
        "  ?n steps, looser as it falls",
    ]
