"""Conditions and values parse into the typed tree."""

from __future__ import annotations

import pytest

from fedkg_compiler.frontends.fkg.syntax import parse, tree


def formula(text: str) -> tree.Condition:
    found, problems = parse(f"rule r require {text}", "a.fkg")
    assert problems == ()
    (statement,) = found.statements
    assert isinstance(statement, tree.Rule)
    return statement.formula


def test_comparisons() -> None:
    compare = formula("a == b == c +/- 0.5 bar")
    assert isinstance(compare, tree.Comparison)
    assert [sign.text for sign in compare.operators] == ["==", "=="]
    assert len(compare.operands) == 3
    assert isinstance(compare.tolerance, tree.Quantity)
    assert compare.tolerance.value == 0.5
    compare = formula("1 ≤ a ≤ 5")
    assert isinstance(compare, tree.Comparison)
    assert [sign.text for sign in compare.operators] == ["<=", "<="]
    compare = formula("a ≠ b")
    assert isinstance(compare, tree.Comparison)
    assert [sign.text for sign in compare.operators] == ["!="]


@pytest.mark.parametrize(
    ("text", "negated", "value", "form"),
    [
        ("g is D", False, "D", "name"),
        ('g is not "L 1"', True, "L 1", "string"),
        ("g is ?p", False, "p", "variable"),
    ],
)
def test_classes(text: str, negated: bool, value: str, form: str) -> None:
    found = formula(text)
    assert isinstance(found, tree.IsClass)
    assert (found.negated, found.value.text, found.form) == (negated, value, form)


def test_monotone_conditions() -> None:
    found = formula("wear(?tool) never falls per `Tool ID`")
    assert isinstance(found, tree.Monotone)
    assert found.direction == "falls"
    assert found.feature is None
    assert found.group is not None
    assert found.group.text == "Tool ID"
    found = formula("failure never rises as load(?m) rises")
    assert isinstance(found, tree.Monotone)
    assert found.direction == "rises"
    assert found.group is None
    assert found.feature is not None
    assert found.feature.variable is not None
    assert found.feature.variable.text == "m"


def test_logic_and_its_parentheses() -> None:
    found = formula("a >= 1 and b >= 1 and not (c >= 1 or d >= 1)")
    assert isinstance(found, tree.AllOf)
    assert len(found.args) == 3
    last = found.args[2]
    assert isinstance(last, tree.Negation)
    assert isinstance(last.arg, tree.AnyOf)
    found = formula("if a >= 1 or b >= 1 then if c >= 1 then d >= 1")
    assert isinstance(found, tree.IfThen)
    assert isinstance(found.antecedent, tree.AnyOf)
    assert isinstance(found.consequent, tree.IfThen)


@pytest.mark.parametrize(
    "mode", ["always", "eventually", "once", "historically", "next", "previous", "initially"]
)
def test_prefix_words(mode: str) -> None:
    found = formula(f"{mode} a >= 1 and b >= 1")
    assert isinstance(found, tree.Temporal)
    assert found.mode == mode
    assert found.window is None
    assert isinstance(found.arg, tree.AllOf)
    found = formula(f"{mode} [0 h, ?t] a >= 1")
    assert isinstance(found, tree.Temporal)
    assert found.window is not None
    assert isinstance(found.window.low, tree.Quantity)
    found = formula(f"({mode} within 2 h a >= 1) and b >= 1")
    assert isinstance(found, tree.AllOf)
    first = found.args[0]
    assert isinstance(first, tree.Temporal)
    assert first.window is not None
    assert first.window.low is None


def test_until_since_and_only_after() -> None:
    found = formula("a >= 1 until within 10 min (b >= 1)")
    assert isinstance(found, tree.Until)
    assert found.mode == "until"
    assert found.window is not None
    found = formula("a >= 1 since b >= 1")
    assert isinstance(found, tree.Until)
    assert found.mode == "since"
    assert found.window is None
    found = formula("a >= 1 only after b >= 1 within 30 min")
    assert isinstance(found, tree.OnlyAfter)
    assert found.within is not None
    assert found.within.value == 30


def left(text: str) -> tree.Expression:
    found = formula(f"{text} >= 0")
    assert isinstance(found, tree.Comparison)
    return found.operands[0]


def test_arithmetic_binds_as_in_school() -> None:
    found = left("a - b - c * -d ^ 2 / 5 kg")
    assert isinstance(found, tree.Arithmetic)
    assert found.op == "-"
    assert isinstance(found.left, tree.Arithmetic)
    assert found.left.op == "-"
    right = found.right
    assert isinstance(right, tree.Arithmetic)
    assert right.op == "/"
    assert isinstance(right.left, tree.Arithmetic)
    assert isinstance(right.left.right, tree.Negative)
    assert isinstance(right.left.right.arg, tree.Raised)
    assert right.left.right.arg.exponent == 2
    assert isinstance(left("x ^ -0.5"), tree.Raised)


def test_values() -> None:
    call = left("box(a, 1 bar, low = 2, high = -3)")
    assert isinstance(call, tree.Apply)
    assert len(call.args) == 2
    assert [name.text for name, _ in call.named] == ["low", "high"]
    assert isinstance(left("past past x"), tree.Past)
    assert left("`a b`") == left("`a b`")
    assert isinstance(left("`a b`"), tree.Reference)
    variable = left("?low")
    assert isinstance(variable, tree.Variable)
    assert variable.name == "low"
    total = left("sum of 2 * flow(?p) over ?p where { ?p a ?q }")
    assert isinstance(total, tree.Aggregate)
    assert (total.function.text, total.variable.text) == ("sum", "p")
    assert isinstance(total.source, tree.Pattern)
    assert total.source.text == " ?p a ?q "
    assert isinstance(total.body, tree.Arithmetic)


@pytest.mark.parametrize(
    "unit",
    [
        "N.m",
        "kg/h",
        "m^3/h",
        "m³/h",
        "1/min",
        "°C",
        "%",
        "‰",
        "µm",
        "μm",
        "Ω",
        "kg·m⁻³",
        "W/(m2.K)",
        "kg.m-3",
        "l/100km",
        "m3/h",
        "Nm3/h",
        "barg",
        "s^-1",
        "€/h",
        "K",
        "h",
    ],
)
def test_units_are_one_word(unit: str) -> None:
    for text in (f"5 {unit}",) if unit[0] == "1" else (f"5 {unit}", f"5{unit}"):
        found = left(text)
        assert isinstance(found, tree.Quantity)
        assert found.unit is not None
        assert found.unit.text == unit


def test_with_spaces_a_slash_divides() -> None:
    found = left("5 m / s")
    assert isinstance(found, tree.Arithmetic)
    assert isinstance(found.right, tree.Reference)
