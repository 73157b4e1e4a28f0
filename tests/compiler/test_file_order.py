"""The bytes of a pack do not depend on the order of its files, whatever they contain."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.pipeline import compile_rules

PREFIXES = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
"""
SIGNALS = """prefix plant: <https://example.org/plant#>
timeline step 1 min
signal load in kW span 0 .. 100
signal heat in degC span 0 .. 400
signal pressure(?m) is plant:pressure in bar
label grade classes A, B, C
output risk in probability span 0 .. 1
"""
numbers = st.integers(1, 40)
signals = st.sampled_from(["load", "2 * load", "max(load, 3 kW)"])
comparisons = st.builds("{} <= {} kW".format, signals, numbers) | st.builds(
    "heat >= {} degC".format, numbers
)
conditions = (
    comparisons
    | st.builds("if {} then {}".format, comparisons, comparisons)
    | st.builds("always within {} min ({})".format, numbers, comparisons)
    | st.builds("if heat >= {} degC then risk <= {} %".format, numbers, numbers)
)
bodies = st.one_of(
    st.builds("rule {{}} require {}".format, conditions),
    st.builds(
        "rule {{}} weight {} for ?m, ?l where {{{{ ?m a plant:Pump ; plant:limit ?l }}}} require"
        " pressure(?m) <= ?l + {} bar".format,
        numbers,
        numbers,
    ),
    st.builds(
        "rule {{}} for ?m in class plant:Pump require pressure(?m) <= {} bar".format, numbers
    ),
    st.builds(
        "range knowledge {{}} of grade when load > {} kW allow A, B otherwise allow any".format,
        numbers,
    ),
    st.builds(
        "predict knowledge {{}} of grade when load > {} kW predict A otherwise predict B".format,
        numbers,
    ),
    st.builds("set {{}} keep parameters in l1_ball(radius = {})".format, numbers),
    st.builds(
        "set {{}} for ?m, ?l where {{{{ ?m plant:limit ?l }}}} keep parameters in l2_ball(radius"
        " = ?l)".format
    ),
    st.builds(
        "cause {{}} for ?a, ?b where {{{{ ?a plant:feeds ?b }}}}"
        " allow ?a drives ?b lag {} min".format,
        numbers,
    ),
)
facts = st.one_of(
    st.builds("plant:M{} a plant:Pump .".format, st.integers(0, 4)),
    st.builds(
        "plant:M{0} plant:limit 1{0} .".format, st.integers(1, 4)
    ),  # one for each: a client with two sets is an error
    st.builds("plant:M{} plant:feeds plant:M{} .".format, st.integers(0, 4), st.integers(0, 4)),
    st.builds("plant:M{} plant:part [ plant:limit {} ] .".format, st.integers(0, 4), numbers),
)
shapes = st.builds(
    "[] a sh:NodeShape ; sh:targetClass plant:Pump ; sh:property [ sh:path plant:{} ; sh:{} {} ;"
    " sh:severity sh:Info ] .".format,
    st.sampled_from(["pressure", "limit"]),
    st.sampled_from(["maxInclusive", "minExclusive"]),
    numbers,
)
QUERY = """PREFIX plant: <https://example.org/plant#>
SELECT ?m WHERE {{ ?m plant:limit ?l ; plant:pressure ?p . FILTER(?p > ?l + {}) }}
"""
queries = st.builds(QUERY.format, numbers)


@st.composite
def folders(draw: st.DrawFn) -> dict[str, str]:
    """Files by name: rules, graphs, shapes, queries."""
    files = {
        "signals.fkg": SIGNALS,
        "plant.ttl": PREFIXES + 'plant:pressure a sosa:ObservableProperty ; fkg:column "p" .\n',
    }
    files["plant.ttl"] += (
        'plant:Pump fkg:keyColumn "pump" . plant:M0 a plant:Pump ; plant:limit 9 ; plant:feeds'
        " plant:M1 .\n"
    )
    count = 0
    for i, statements in enumerate(
        draw(st.lists(st.lists(bodies, min_size=1, max_size=3), min_size=1, max_size=3))
    ):
        text = "prefix plant: <https://example.org/plant#>\n"
        for statement in statements:
            text += statement.format(f"n{count}") + "\n"
            count += 1
        files[f"r{i}.fkg"] = text
    for i, said in enumerate(draw(st.lists(st.lists(facts, max_size=4), max_size=3))):
        files[f"g{i}.ttl"] = PREFIXES + "\n".join(said) + "\n"
    for i, said in enumerate(draw(st.lists(st.lists(shapes, min_size=1, max_size=2), max_size=2))):
        files[f"s{i}.shapes.ttl"] = PREFIXES + "\n".join(said) + "\n"
        files["signals.fkg"] += f'shapes "s{i}.shapes.ttl"\n'
    for i, query in enumerate(draw(st.lists(queries, max_size=2))):
        files[f"q{i}.rq"] = query
    return files


@pytest.mark.slow
@tries(20)
@given(files=folders(), data=st.data())
def test_files_in_any_order_give_the_same_bytes(files: dict[str, str], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        named = [
            folder / file for file in files if not file.startswith("s") or file == "signals.fkg"
        ]
        made = []
        for order in (named, data.draw(st.permutations(named))):
            found = compile_rules(order)
            assert found.pack is not None, [
                (item.code, item.message) for item in found.diagnostics if item.severity == "error"
            ]
            made.append(
                (found.pack.to_bytes(), {(item.code, item.message) for item in found.diagnostics})
            )
    assert made[0] == made[1]
