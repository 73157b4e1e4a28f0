"""`fedkg compile`: compile rule files and graphs to a constraint pack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.console import AsJson, print_json, print_line, print_note
from fedkg.cli.inspect_pack import summary
from fedkg.cli.output_files import check_output_path
from fedkg.errors import UsageError
from fedkg.pack_bytes import write_pack


def compile_rules(
    rules: Annotated[
        list[str],
        typer.Argument(
            metavar="RULES...",
            help="Rule files (.fkg), and the graphs they refer to: .ttl ..., stores, URLs.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="NAME.fkgpack", help="The pack to write.")
    ],
    client: Annotated[
        str,
        typer.Option(
            "--client",
            metavar="NAME|IRI",
            help="Compile the private pack of this client, from its graph.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Compile rule files to a constraint pack.

    A pack is a data file for training and evaluation without rules or ontologies. The same inputs
    give the same bytes. Warnings are shown and do not stop the compiler; errors do. With --client
    the pack contains the statements with `scope client`, for the entities of that client;
    otherwise all others.

    \b
    Examples:
      fedkg compile rules.fkg plant.ttl -o plant.fkgpack
      fedkg compile rules.fkg plant.store -o plant.fkgpack
      fedkg compile rules.fkg linz.ttl --client linz -o linz.fkgpack
    """
    from fedkg import authoring

    check_output_path(output, "plant.fkgpack")
    if output.exists() and any(
        path.exists() and path.samefile(output) for path in map(Path, rules)
    ):
        raise UsageError(
            f"{output} is one of the files to compile",
            help="choose another name with -o, such as -o new.fkgpack",
        )
    if output.is_file() and not _is_pack(output):
        raise UsageError(
            f"{output} already exists and is not a pack",
            help=f"choose another name that ends with .fkgpack, or delete {output}",
        )
    result = authoring.check(rules, client=client)
    packed = result.packed
    if as_json and packed is None:
        print_json(authoring.diagnostics_json(result.diagnostics))
        raise typer.Exit(1)
    if result.diagnostics:
        print_note(authoring.render(result.diagnostics, client=client))
    if packed is None:
        raise typer.Exit(1)
    write_pack(packed.body, output)
    counts = packed.counts
    facts = {
        "pack": str(output),
        "rules": counts.rules,
        "bound_rows": counts.rows,
        "banks": counts.banks,
    }
    if as_json:
        print_json(facts | authoring.diagnostics_json(result.diagnostics))
    else:
        print_line(f"{output}: {summary(counts)}, {output.stat().st_size:,} bytes")


def _is_pack(path: Path) -> bool:
    """Whether a file may be replaced by a pack: it is a pack (by its first bytes), or empty.

    fedkg does not overwrite rules, graphs and tables.
    """
    with path.open("rb") as file:
        return file.read(2) in (b"PK", b"")
