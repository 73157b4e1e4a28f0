"""The plant generator: equal seeds, sizes as asked, and files that compile clean."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkg.cli.main import make_app
from fedkg.data.plant import (
    SHAPES,
    draw_plant,
    graph_text,
    table_lines,
    violation_queries,
    write_plant,
)
from fedkg_compiler import compile_rules


@pytest.mark.parametrize("entities", [1, 100, 2_500])
def test_it_is_as_large_as_asked(entities: int) -> None:
    plant = draw_plant(entities, 0)
    assert abs(plant.entities - entities) <= max(25, entities // 50)
    assert plant == draw_plant(entities, 0)
    assert entities == 1 or plant != draw_plant(entities, 1)


def test_every_line_is_a_triple_and_every_row_is_full() -> None:
    plant = draw_plant(300, 3)
    assert all(
        line.endswith(" .") and line.count(" ") >= 3 for line in graph_text(plant).splitlines()
    )
    lines = list(table_lines(plant, 20, 3))
    assert len(lines) == 21
    assert len({line.count(",") for line in lines}) == 1
    assert lines == list(table_lines(plant, 20, 3))
    names = [name for name, _ in violation_queries(plant, 12, 3)]
    assert [name.split("_")[0] for name in names] == [*SHAPES, *SHAPES[:2]]


def test_it_compiles(tmp_path: Path) -> None:
    write_plant(tmp_path, entities=250, count=20, rows=5, seed=1)
    compilation = compile_rules([tmp_path / "plant.fkg", tmp_path / "plant.nt"])
    assert compilation.pack is not None
    assert {item.code for item in compilation.diagnostics if item.severity != "info"} <= {
        "FKG348",
        "FKG505",
        "FKG506",
    }
    where = [item.where for item in compilation.pack.manifest.placements]
    assert (where.count("rows"), where.count("graph")) == (18, 2)
    assert len(compilation.pack.banks) <= 8


def test_the_command_writes_it(tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(
        make_app(),
        [
            "data",
            "plant",
            str(tmp_path / "works"),
            "--entities",
            "50",
            "--queries",
            "3",
            "--rows",
            "4",
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    assert '"queries": 3' in done.output
    assert len(list((tmp_path / "works" / "legacy").iterdir())) == 3
    again = runner.invoke(make_app(), ["data", "plant", str(tmp_path / "works")])
    assert again.exit_code != 0
