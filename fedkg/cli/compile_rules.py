"""`fedkg compile`: rule files and graphs in, a constraint pack out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.inspect_pack import summary
from fedkg.cli.screen import AsJson, note, print_json, say
from fedkg.errors import UsageError


def compile_rules(
    rules: Annotated[list[Path], typer.Argument(metavar="RULES...", help="Rule files (.fkg), and graphs (.ttl ...) they speak about.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="NAME.fkgpack", help="Where the pack goes.")],
    client: Annotated[
        str, typer.Option("--client", metavar="NAME|IRI", help="Make the private pack of this client, from its own graph.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Compile rule files to a constraint pack: one file of data that training and evaluation load without rules or ontologies.

    The same inputs give the same bytes. Warnings are shown and do not stop the compiler; errors do.
    With --client the pack holds what is written `scope client`, for the entities of that client alone; without, everything else.

    \b
    Examples:
      fedkg compile rules.fkg plant.ttl -o plant.fkgpack
      fedkg compile rules.fkg linz.ttl --client linz -o linz.fkgpack
    """
    from fedkg import authoring

    if output.exists() and any(path.exists() and path.samefile(output) for path in rules):
        raise UsageError(f"{output} is one of the rule files", help=f"name the pack: -o {output.with_suffix('.fkgpack').name}")
    result = authoring.check(rules, client=client)
    if as_json and result.pack is None:
        print_json(authoring.diagnostics_json(result.diagnostics))
        raise typer.Exit(1)
    if result.diagnostics:
        note(authoring.render(result.diagnostics, client=client))
    if result.pack is None:
        raise typer.Exit(1)
    pack = result.pack
    pack.save(output)
    facts = {"pack": str(output), "rules": len(pack.manifest.rules), "bound_rows": pack.rows, "banks": len(pack.banks)}
    if as_json:
        print_json(facts | authoring.diagnostics_json(result.diagnostics))
    else:
        say(f"{output}: {summary(pack)}, {output.stat().st_size:,} bytes")
