"""Proven properties of knowledge models hold on every sample of a dense grid.

Reported mistakes are confirmed there too.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedkg.knowledge import agreement
from fedkg.pack import Pack
from fedkg_compiler.pipeline import compile_rules

GRAPH = """\
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:Machine fkg:keyColumn "machine" .
plant:load a sosa:ObservableProperty ; fkg:column "load" .
plant:M1 a plant:Machine ; plant:limit 1 ; plant:only 3 . plant:M2 a plant:Machine ; plant:limit 2 .
"""
HEAD = """\
prefix plant: <https://example.org/plant#>
signal a span 0 .. 4
signal b span 0 .. 4
signal load(?m) is plant:load span 0 .. 4
label grade classes A, B, C
output quality span -4 .. 8
"""
PLAIN, KEYED = ("a", "b"), ("load(?m)", "b", "?x")
QUANTIFIERS = (" for ?m, ?x where { ?m plant:limit ?x }", " for ?m, ?x where { ?m plant:only ?x }")
numbers = st.integers(-3, 6)


@st.composite
def terms(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    chosen = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
    parts = [f"{draw(st.integers(-2, 2))} * {name}" for name in chosen]
    return " + ".join([*parts, f"{draw(numbers)}"]).replace("+ -", "- ")


@st.composite
def conditions(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    one = f"{draw(st.integers(1, 2))} * {names[0]} + {draw(terms(names))}".replace("+ -", "- ")
    made = f"{one} {draw(st.sampled_from(['<', '<=', '>', '>=']))} {draw(numbers)}"
    return (
        made
        if draw(st.booleans())
        else f"({made} {draw(st.sampled_from(['and', 'or']))} b > {draw(st.integers(0, 3))})"
    )


@st.composite
def answers(draw: st.DrawFn, kind: str, output: str, names: tuple[str, ...]) -> str:
    if kind == "predict":
        return (
            f"predict {draw(st.sampled_from('ABC')) if output == 'grade' else draw(terms(names))}"
        )
    if draw(st.integers(0, 4)) == 0:
        return "allow any"
    if output == "grade":
        return "allow " + ", ".join(
            sorted(draw(st.sets(st.sampled_from("ABC"), min_size=1, max_size=2)))
        )
    if draw(st.booleans()):
        low = draw(st.integers(0, 6))
        return f"allow {low} .. {low + draw(st.integers(1, 3))}"
    return f"allow between {draw(terms(names))} and {draw(terms(names))}"


@st.composite
def models(draw: st.DrawFn, kind: str, name: str, output: str) -> str:
    keyed = draw(st.booleans())
    names = KEYED if keyed else PLAIN
    clauses = [
        f"  when {draw(conditions(names))} {draw(answers(kind, output, names))}"
        for _ in range(draw(st.integers(1, 5 if not keyed else 3)))
    ]
    last = f"  otherwise {draw(answers(kind, output, ()))}"
    return "\n".join(
        [
            (
                f"{kind} knowledge {name} of "
                f"{output}{draw(st.sampled_from(QUANTIFIERS)) if keyed else ''}"
            ),
            *clauses,
            last,
        ]
    )


@st.composite
def texts(draw: st.DrawFn) -> str:
    output = draw(st.sampled_from(["grade", "quality"]))
    ranges = [draw(models("range", f"r{i}", output)) for i in range(draw(st.integers(1, 2)))]
    return HEAD + "\n".join([*ranges, draw(models("predict", "p", output))]) + "\n"


def grid(pack: Pack) -> NDArray[np.float64]:
    """Samples [1, B, C]: numbers in quarters between their spans and unknown ones, every machine,
    one that is new, and none.
    """
    columns = pack.manifest.contract.columns
    steps = [*np.linspace(0, 4, 17 if len(columns) < 3 else 9).tolist(), np.nan]
    choices = [
        [*range(len(column.vocabulary)), -2.0, np.nan]
        if column.type == "category"
        else [np.nan]
        if column.role == "output"
        else steps
        for column in columns
    ]
    return np.array(list(itertools.product(*choices)), dtype=np.float64)[None]


def shown(pack: Pack, message: str) -> NDArray[np.float64]:
    """The sample [1, 1, C] that a message names."""
    values = np.full((1, 1, len(pack.manifest.contract.columns)), np.nan)
    place = message.partition(", at ")[2]
    for i, column in enumerate(pack.manifest.contract.columns):
        found = re.search(rf"(?:^|, ){re.escape(column.name)} (something else|[^ ,]+)", place)
        if found is not None and column.type == "category":
            values[0, 0, i] = (
                column.vocabulary.index(found[1]) if found[1] in column.vocabulary else -2
            )
        elif found is not None:
            values[0, 0, i] = float(found[1])
    return values


def check(text: str, graph: Path) -> list[str]:
    """Compile and compare with the grid; returns the codes of the diagnostics."""
    found = compile_rules(text=text, graphs=[graph])
    if {item.code for item in found.diagnostics if item.severity == "error"} == {"FKG244"}:
        return []  # an interval of constants that is empty is refused
    assert found.pack is not None, [item.message for item in found.diagnostics]
    pack = found.pack
    counted = {one.model: one for one in agreement(pack, grid(pack), {})}
    for model in pack.manifest.knowledge:
        one = counted[model.name]
        assert "nonempty" not in model.proven or one.empty == one.disjoint == 0, (model.name, one)
        assert "within" not in model.proven or one.outside == 0, (model.name, one)
    wrong = [item for item in found.diagnostics if item.code in ("FKG379", "FKG380")]
    for item in wrong:
        again = agreement(pack, shown(pack, item.message), {})
        assert any(one.empty or one.disjoint or one.outside for one in again), item.message
    return [item.code for item in wrong] + [
        what for model in pack.manifest.knowledge for what in model.proven
    ]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "plant.ttl"
    path.write_text(GRAPH, encoding="utf-8")
    return path


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=texts())
def test_proofs_hold_on_a_grid_and_counterexamples_replay(text: str, graph: Path) -> None:
    check(text, graph)


@pytest.mark.parametrize(
    ("ranges", "predicts", "expected"),
    [
        (
            (
                "quality when 3 * a >= 4 allow 7 .. 8 when 3 * a - b >= 0 allow 1 .. 2 "
                "otherwise allow any"
            ),
            "",
            ["FKG379"],
        ),
        (
            "quality when a > 9 allow 1 .. 2 otherwise allow any",
            "when a > 3 predict 3 * a otherwise predict 0",
            ["FKG380", "nonempty"],
        ),
        (
            "grade when a > 2 allow any otherwise allow A",
            "when a > 2 predict B otherwise predict A",
            ["nonempty", "within"],
        ),
        (
            "grade when a > 3 allow any otherwise allow A",
            "when a > 2 predict B otherwise predict A",
            ["FKG380", "nonempty"],
        ),
        (
            "quality when a > 2 allow any otherwise allow 0 .. 3",
            "when a > 2 predict 8 otherwise predict a",
            ["nonempty", "within"],
        ),
    ],
    ids=[
        "a corner without a short decimal",
        "beyond the span",
        "anything",
        "anything later",
        "any number",
    ],
)
def test_cases_that_were_or_might_be_taken_wrongly(
    ranges: str, predicts: str, expected: list[str], graph: Path
) -> None:
    output = ranges.split()[0]
    second = f"predict knowledge p of {output} {predicts}\n" if predicts else ""
    assert check(f"{HEAD}range knowledge r of {ranges}\n{second}", graph) == expected
