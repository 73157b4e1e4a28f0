"""`fedkg export`: write a trained model with its rules for use elsewhere."""

from __future__ import annotations

import time
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, TrustCode, print_json, print_line
from fedkg.errors import MissingExtra


class ExportFormat(StrEnum):
    """The formats of `fedkg export`."""

    onnx = "onnx"
    torch = "torch"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")
    ],
    site: Annotated[
        str | None,
        typer.Option("--site", metavar="NAME", help="The site, if every site has its own model."),
    ] = None,
    trial: Annotated[
        str | None,
        typer.Option(
            "--trial",
            metavar="NAME",
            help="The trial; default: the first with `model.inject` or `training.projection`, or"
            " the first one.",
        ),
    ] = None,
    format: Annotated[
        ExportFormat, typer.Option("--format", help="ONNX, or a file of torch.export.")
    ] = ExportFormat.onnx,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Write the model of a run, its projection onto rules, and a certificate.

    The model reads and returns numbers in the units of the rules. The certificate names the rules,
    and counts violations on 10,000 random inputs. The data files of the run must be unchanged.

    \b
    Example:
      fedkg export runs/tuesday -o deployed/
    """
    if any(find_spec(name) is None for name in ("torch", "yaml", "scipy")):
        raise MissingExtra("exporting models", "run")
    from fedkg.export.run_export import export_run

    begun = time.monotonic()
    found = export_run(
        run, output, site=site, trial=trial, format=format.value, trust_code=trust_code
    )
    if as_json:
        print_json(found)
        return
    if trial is None:
        print_line(f"trial: {found['run']['trial']} (choose another one with --trial)")
    enforced = sum(rule["status"] == "enforced" for rule in found["rules"])
    others = len(found["rules"]) - enforced
    print_line(
        f"wrote {output / found['model']} and certificate.json: {count_noun(enforced, 'rule')}"
        f" enforced, {others} not; verified on {found['verification']['inputs']:,} random inputs,"
        f" in {time.monotonic() - begun:.1f} s"
    )
