"""`fedkg bom`: the bill of materials of a run."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import print_line
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.errors import MissingExtra


def bom(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="BOM.json", help="The file to write.")
    ],
) -> None:
    """Write what a run consists of as a CycloneDX 1.6 bill of materials.

    It lists every rule with its text and place, ontologies, data sets, models with their figures,
    and versions.

    \b
    Example:
      fedkg bom runs/tuesday -o bom.json
    """
    if any(find_spec(name) is None for name in ("torch", "yaml")):
        raise MissingExtra("reading run folders", "run")
    from fedkg.jobs.bill_of_materials import list_materials

    check_output_path(output, "bom.json")
    found = list_materials(run)
    write_atomically(output, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    print_line(f"wrote {output}: {count_noun(len(found['components']), 'component')}")
