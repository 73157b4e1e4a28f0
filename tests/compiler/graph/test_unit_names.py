"""Common short forms of QUDT's unit names."""

from __future__ import annotations

import pytest
from graph_cases import HERE, PLANT, header

from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.abbreviated_qudt_units import units_meant

NAMES = ("PA", "KiloPA", "MegaPA", "MilliPA", "BAR", "DEG_C", "KiloGM-PER-M3", "MilliM", "M")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("KPA", ("KiloPA",)),
        ("kPa", ("KiloPA",)),
        ("MPA", ("MegaPA", "MilliPA")),
        ("Bar", ("BAR",)),
        ("DegC", ("DEG_C",)),
        ("KG-PER-M3", ("KiloGM-PER-M3",)),
        ("kg/m3", ("KiloGM-PER-M3",)),
        ("MM", ("MilliM",)),
        ("PA", ()),
        ("XYZ", ()),
    ],
)
def test_what_a_short_name_means(word: str, meant: tuple[str, ...]) -> None:
    assert units_meant(word, NAMES) == meant


def test_a_shortened_unit_of_a_graph_is_never_taken_for_one_of_another_size(
    catalog: Catalog,
) -> None:
    text = header(catalog) + "plant:K1 plant:max [ qudt:numericValue 5 ; qudt:unit unit:KPA ] ."
    graph, problems, _ = load_graph(
        [], {"plant": (PLANT, HERE)}, [], catalog=catalog, text_graphs=[("plant.ttl", text)]
    )
    assert [(problem.code, problem.help) for problem in problems] == [
        ("FKG115", "did you mean `unit:KiloPA`?")
    ]
    assert graph.nearest_unit("http://qudt.org/vocab/unit/KPA") == "unit:KiloPA"
