"""`fedkg data`: write the example table, or a plant of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.errors import UsageError

app = typer.Typer(no_args_is_help=True)


@app.command("ai4i")
def ai4i(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="TABLE.csv", help="The table to write.")
    ],
    rows: Annotated[int, typer.Option("--rows", help="Number of rows.", min=1)] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal tables.", min=0)] = 6,
    machines: Annotated[
        int,
        typer.Option(
            "--machines", help="Number of machines (M01, M02, ...) in the column `machine`.", min=0
        ),
    ] = 30,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the milling machine table of the examples.

    The generator follows the laws of the public AI4I 2020 data set.

    \b
    Example:
      fedkg data ai4i -o table.csv
    """
    from fedkg.data.ai4i import generate

    check_output_path(output, "table.csv")
    if output.exists() and not force:
        raise UsageError(
            f"{output} already exists", help="choose another name, or add --force to overwrite it"
        )
    frame = generate(rows, seed)
    if machines:
        import numpy as np

        from fedkg.data import deal_names

        names = [f"M{i:02d}" for i in range(1, machines + 1)]
        frame = frame.with_texts(
            "machine", deal_names(frame.rows, names, np.random.Generator(np.random.PCG64(seed)))
        )
    columns = [frame.texts(header) for header in frame.headers]
    lines = [",".join(frame.headers), *(",".join(cells) for cells in zip(*columns, strict=True))]
    write_atomically(output, "\n".join(lines) + "\n")
    if as_json:
        print_json({"table": str(output), "rows": frame.rows, "columns": list(frame.headers)})
    else:
        columns_text = count_noun(len(frame.headers), "column")
        print_line(f"{output}: {count_noun(frame.rows, 'row')}, {columns_text}")


@app.command("plant")
def plant(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to create.")],
    entities: Annotated[
        int,
        typer.Option("--entities", help="Approximate number of machines, tools and tanks.", min=1),
    ] = 1_000,
    queries: Annotated[
        int, typer.Option("--queries", help="Number of SPARQL violation queries.", min=0)
    ] = 30,
    rows: Annotated[
        int, typer.Option("--rows", help="Number of rows in the table.", min=0)
    ] = 1_000,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal plants.", min=0)] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that contains files.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a plant: its knowledge graph, a table, rules, and SPARQL violation queries over both.

    The hierarchy follows ISA-95, the tools MASON. The files are plant.nt, table.csv, plant.fkg and
    legacy/*.rq.

    \b
    Examples:
      fedkg data plant works
      fedkg data plant works --entities 10000 --queries 3000 --rows 1000 --seed 0
      fedkg check works/plant.fkg works/plant.nt
    """
    from fedkg.data.plant import write_plant

    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise UsageError(
            f"{folder} is not empty", help="choose another folder, or add --force to write into it"
        )
    drawn = write_plant(folder, entities=entities, count=queries, rows=rows, seed=seed)
    files = ["plant.nt", "table.csv", "plant.fkg", "legacy/*.rq"]
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "entities": drawn.entities,
                "machines": len(drawn.machines),
                "queries": queries,
                "rows": rows,
            }
        )
    else:
        print_line(
            f"{folder}: {drawn.entities:,} entities, {len(drawn.machines):,} machines, "
            f"{queries:,} queries; {', '.join(files)}"
        )
        rules, table = f"{folder}/plant.fkg {folder}/plant.nt", f"{folder}/table.csv"
        print_line(f"next: fedkg check {rules}, then fedkg eval {rules} {table}")
