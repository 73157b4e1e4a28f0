"""`fedkg data`: the example table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.screen import AsJson, print_json, say
from fedkg.errors import UsageError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _family() -> None:
    """A callback, so that typer keeps `ai4i` a command of its own."""


@app.command("ai4i")
def ai4i(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="TABLE.csv", help="Where the table goes.")],
    rows: Annotated[int, typer.Option("--rows", help="How many rows.", min=1)] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal tables.", min=0)] = 6,
    machines: Annotated[
        int, typer.Option("--machines", help="Deal the rows out to so many machines, M01, M02, ..., in a column `machine`.", min=0)
    ] = 30,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the table if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the milling machine table of the examples, made by the laws of the public AI4I 2020 data set.

    \b
    Example:
      fedkg data ai4i -o table.csv
    """
    from fedkg.data.ai4i import generate

    if output.exists() and not force:
        raise UsageError(f"{output} is already there", help="choose another name, or add --force to overwrite it")
    frame = generate(rows, seed)
    if machines:
        import numpy as np

        from fedkg.data import deal

        names = [f"M{i:02d}" for i in range(1, machines + 1)]
        frame = frame.with_texts("machine", deal(frame.rows, names, np.random.Generator(np.random.PCG64(seed))))
    columns = [frame.texts(header) for header in frame.headers]
    lines = [",".join(frame.headers), *(",".join(cells) for cells in zip(*columns, strict=True))]
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if as_json:
        print_json({"table": str(output), "rows": frame.rows, "columns": list(frame.headers)})
    else:
        say(f"{output}: {frame.rows:,} rows, {len(frame.headers)} columns")
