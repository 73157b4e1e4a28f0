"""`fedkg predict`: apply the model of a run to new rows, with its rules enforced."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg._internal.safe_text import count_noun, escape_csv_cell
from fedkg.cli.console import AsJson, TrustCode, print_json, print_line, print_note
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.cli.site_options import SiteName, SitesPath
from fedkg.errors import MissingExtra

if TYPE_CHECKING:
    from fedkg.jobs.prediction import Predictions


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    sites: SitesPath = None,
    site: SiteName = "",
    output: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.csv", help="The table of predictions."),
    ] = None,
    trial: Annotated[
        str,
        typer.Option(
            "--trial",
            metavar="ID",
            help="The trial; default: the first with `model.inject` or `training.projection`, or"
            " the first one.",
        ),
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="NAME", help="With models per site: the one for new sites."
        ),
    ] = "",
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Predict the output of the rules for the tables of sites, with the model of a run.

    Headers, units and formats come from the sites file; default: that of the run. Hard rules
    correct the predictions as in the run, and each rule is counted as `fedkg eval` counts it with
    the predictions as the output's column. A new site gets the model of all sites; if each site has
    its own, --model names one. If sites have their own knowledge, a new site states its knowledge
    in `settings` of the sites file, and has the trust of the job. The run's own tables must be
    unchanged.

    \b
    Examples:
      fedkg predict runs/tuesday --sites new.yaml -o predictions.csv
      fedkg predict runs/tuesday --sites new.yaml --site graz --json
    """
    if output is not None:
        check_output_path(output, "predictions.csv", inputs=[sites])
    if any(find_spec(name) is None for name in ("torch", "yaml", "scipy")):
        raise MissingExtra("prediction", "run")
    from fedkg.jobs.prediction import predict_sites

    found = predict_sites(folder, sites, site=site, trial=trial, model=model, trust_code=trust_code)
    lines = [line for one in found.sites for line in one.lines]
    if output is not None:
        write_atomically(output, table_text(lines))
    if as_json:
        document = to_json(found)
        if output is None:
            document["predictions"] = lines
        print_json(document | ({} if output is None else {"file": str(output)}))
        return
    if output is None:
        typer.echo(table_text(lines), nl=False)
    show = print_note if output is None else print_line
    for text in summary_lines(found):
        show(text)
    if output is not None:
        print_line(f"{count_noun(len(lines), 'prediction')} in {output}")


def table_text(lines: Sequence[dict[str, Any]]) -> str:
    """The predictions as CSV. `Any`: texts and numbers."""
    headers = list(dict.fromkeys(header for line in lines for header in line))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([escape_csv_cell(header) for header in headers])
    for line in lines:
        writer.writerow([escape_csv_cell(line.get(header, "")) for header in headers])
    return text.getvalue()


def to_json(found: Predictions) -> dict[str, Any]:
    """The predictions without their table as plain data. `Any`: JSON."""
    return {
        "trial": found.trial,
        "output": found.output,
        "unit": found.unit,
        "corrected_by": list(found.corrected_by),
        "sites": {
            one.site: {
                "model": one.model,
                "rows": one.rows,
                "predictions": len(one.lines),
                "corrected": one.corrected,
                "rules": {
                    name: dict(counts) for name, counts in one.counts.items()
                },
                "notes": list(one.notes),
            }
            for one in found.sites
        },
        "seconds": round(found.seconds, 3),
    }  # fmt: skip


def summary_lines(found: Predictions) -> list[str]:
    """The predictions and the counts of rules in words."""
    unit = f" in {found.unit}" if found.unit else ""
    lines = [f"{found.output}{unit}, by trial {found.trial}, in {found.seconds:.1f} s"]
    for one in found.sites:
        owner = f"the model of {one.model}" if one.model else "the model of all sites"
        lines.append(
            f"site {one.site}: {count_noun(len(one.lines), 'prediction')} by {owner}, "
            f"{one.corrected:,} corrected by rules"
        )
        lines += [
            f"  {name}: {rule['violated']:,} violated, {rule['satisfied']:,} satisfied, "
            f"{rule['unknown']:,} unknown"
            for name, rule in one.counts.items()
        ]
        lines += [f"  note: {note}" for note in one.notes]
    return lines
