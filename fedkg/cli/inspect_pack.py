"""`fedkg inspect PACK|RULES|JOB|RUN`.

The content of a pack or of rule files, or the inputs of a job.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, stdout_console
from fedkg.cli.inspect_job import inspect_job, is_job
from fedkg.cli.inspect_knowledge import describe_other_contents, other_content_lines

if TYPE_CHECKING:
    from rich.table import Table

    from fedkg.pack import Inference, Pack, Placement
    from fedkg.pack_bytes import PackCounts


def inspect(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PACK|RULES|JOB|RUN...",
            help=(
                "A constraint pack (.fkgpack), rule files and graphs, a job file, or a run folder."
            ),
        ),
    ],
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            help="Number of bound rows of each bank, and of clients of each set, to print.",
            min=0,
        ),
    ] = 2,
    parts: Annotated[
        bool,
        typer.Option("--parts", help="List every part of shapes and queries with its outcome."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the content of a pack: rules, required columns, banks with their formulas, and sources.

    For a job file or a run folder: the files it reads, the addresses it contacts, and the code it
    imports. Nothing is imported.

    \b
    Examples:
      fedkg inspect plant.fkgpack
      fedkg inspect plant.fkgpack --rows 10
      fedkg inspect shapes.ttl plant.ttl --parts
      fedkg inspect rules.fkg more.fkg plant.ttl
      fedkg inspect job.yaml
    """
    if is_job(files):
        inspect_job(Path(files[0]), as_json)
        return
    from fedkg import authoring

    pack, _ = authoring.load_or_compile(authoring.parse_sources(files))
    if as_json:
        print_json(description(pack, rows))
    else:
        _show(pack, rows, parts, ", ".join(files))


def description(pack: Pack, rows: int) -> dict[str, Any]:
    """The pack as JSON. `Any`: JSON."""
    from fedkg.pack.formula_text import formula_text, keys_text, row_text

    manifest = pack.manifest
    per_rule = Counter(int(rule) for bank in pack.banks for rule in bank.rule)
    return {
        "format": manifest.format,
        "sections": {name: section.version for name, section in manifest.sections.items()},
        "bound_rows": pack.rows,
        "rules": [
            {
                "rule": rule.name,
                "title": rule.title,
                "kind": rule.kind,
                "weight": rule.weight,
                "hard": rule.hard,
                "output": rule.output,
            }
            | {
                "severity": rule.severity,
                "bound_rows": per_rule[i],
                "file": rule.file,
                "line": rule.line,
                "text": rule.text,
            }
            for i, rule in enumerate(manifest.rules)
        ],
        "columns": [column.model_dump(mode="json") for column in manifest.contract.columns],
        "views": [view.model_dump(mode="json") for view in manifest.contract.views],
        "banks": [
            {"skeleton": formula_text(bank.skeleton), "hash": bank.hash, "bound_rows": bank.rows}
            | {"rules": [manifest.rules[i].name for i in sorted({int(rule) for rule in bank.rule})]}
            | {
                "examples": [
                    {
                        "formula": row_text(pack, bank, r),
                        "entity": manifest.entities[int(bank.entity[r])],
                        "where": keys_text(pack, bank, r),
                    }
                    for r in range(min(rows, bank.rows))
                ]
            }
            for bank in pack.banks
        ],
        "inferences": [
            inference.model_dump(mode="json") | {"formula": inference_text(pack, inference)}
            for inference in manifest.inferences
        ],
        "knowledge": [model.model_dump(mode="json") for model in manifest.knowledge],
        "sets": [kept.model_dump(mode="json") for kept in manifest.sets],
        "causes": [cause.model_dump(mode="json") for cause in manifest.causes],
        "client": manifest.client,
        "placements": [placement.model_dump(mode="json") for placement in manifest.placements],
        "provenance": manifest.provenance.model_dump(mode="json"),
    }


def summary(counts: PackCounts) -> str:
    """``4 rules, 120 bound rows in 3 banks``, and what else the pack contains."""
    return (
        f"{count_noun(counts.rules, 'rule')}, {count_noun(counts.rows, 'bound row')} in "
        f"{count_noun(counts.banks, 'bank')}{describe_other_contents(counts)}"
    )


def _show(pack: Pack, rows: int, parts: bool, name: str) -> None:
    from rich.text import Text

    facts, console = description(pack, rows), stdout_console()
    console.print(Text.assemble((name, "bold"), f"  {summary(pack.counts)}\n"))
    console.print(_rules(facts))
    console.print()
    console.print(_columns(facts))
    for i, bank in enumerate(facts["banks"]):
        head = f"  {count_noun(bank['bound_rows'], 'row')} of {', '.join(bank['rules'])}  "
        console.print(Text.assemble("\n", (f"Bank {i}", "bold"), head, (bank["hash"], "dim")))
        console.print(Text(f"  {bank['skeleton']}"))
        for example in bank["examples"]:
            about = "  ".join(part for part in (example["entity"], example["where"]) if part)
            console.print(Text.assemble("    ", (about, "dim"), f"  {example['formula']}"))
    for line in (
        *inference_lines(pack),
        *other_content_lines(pack, rows),
        *placement_lines(pack, parts),
    ):
        console.print(Text(line))
    provenance = facts["provenance"]
    console.print(Text.assemble("\n", ("Compiled by", "bold"), f" {provenance['compiler']} from"))
    for source in provenance["sources"]:
        checksum = source["sha256"][:16] or "private source, checksum withheld"
        console.print(Text.assemble(f"  {source['kind']:<9} {source['name']}  ", (checksum, "dim")))


def inference_text(pack: Pack, inference: Inference) -> str:
    """The formula of an inference with its unknowns: ``always within 2 h (?low <= volume)``."""
    from fedkg.pack.formula_text import formula_text, row_names

    bank = pack.conditions[inference.condition]
    names = row_names(pack.manifest.contract, bank, 0)
    params = list(names.params)
    for parameter in inference.parameters:
        params[parameter.param] = f"?{parameter.name}"
    return formula_text(bank.skeleton, replace(names, params=params))


PER_TEXT = {"client": "each client", "cluster": "each cluster", "run": "the whole run"}
DIRECTION_TEXT = {
    "up": "looser as it rises",
    "down": "looser as it falls",
    "none": "no loosening direction",
}


def inference_lines(pack: Pack) -> list[str]:
    """The unknowns and the formula of each inference."""
    lines = []
    for inference in pack.manifest.inferences:
        lines.append(
            f"{inference.name} mines, for {PER_TEXT[inference.per]}: "
            f"{inference_text(pack, inference)}"
        )
        for one in inference.parameters:
            span = "" if one.span is None else f" from {one.span[0]:g} to {one.span[1]:g}"
            unit = " steps" if one.integer else f" {one.unit}" if one.unit else ""
            lines.append(f"  ?{one.name}{span}{unit}, {DIRECTION_TEXT[one.direction]}")
    return ["", *lines] if lines else []


MAX_PARTS = 40
"""Parts of shapes and queries that are listed without --parts."""
PLACEMENT_TEXT = {
    "rows": "checked on data",
    "graph": "decided on the graph",
    "off": "off",
    "refused": "not checked",
}


def placement_lines(pack: Pack, every: bool = False) -> list[str]:
    """What happened to the parts of shapes and queries, by file and outcome.

    If an outcome has more than `MAX_PARTS` parts, only refused ones are listed, unless `every` is
    set.
    """
    groups: dict[tuple[str, str], list[Placement]] = {}
    for placement in pack.manifest.placements:
        groups.setdefault((placement.source, placement.where), []).append(placement)
    lines = []
    for (source, where), parts in sorted(groups.items()):
        all_told = every or where == "refused" or len(parts) <= MAX_PARTS
        more = "" if all_told else f", such as {parts[0].part} (--parts lists each)"
        lines.append(f"{source}: {count_noun(len(parts), 'part')} {PLACEMENT_TEXT[where]}{more}")
        lines += [
            f"  {_part(placement)}"
            for placement in parts
            if all_told or placement.conforms is False
        ]
    return ["", *lines] if lines else []


def _part(placement: Placement) -> str:
    """``S.pressure.maxInclusive: rule S.pressure``: a part, its rule, and remarks."""
    rule = f"rule {placement.rule}" if placement.rule and placement.rule != placement.part else ""
    said = "; ".join(
        filter(None, (rule, "violated" if placement.conforms is False else "", placement.reason))
    )
    return f"{placement.part}: {said}" if said else placement.part


def _rules(facts: dict[str, Any]) -> Table:
    """The rules as a table. `Any`: from `description`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title="Rules", title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for header in ("rule", "kind", "weight", "bound", "about", "says"):
        table.add_column(
            header, justify="right" if header in ("weight", "bound") else "left", overflow="fold"
        )
    for rule in facts["rules"]:
        about = "model" if rule["output"] else "data"
        kind = (
            rule["kind"]
            if rule["severity"] == "violation"
            else f"{rule['kind']}, {rule['severity']}"
        )
        cells = (
            rule["rule"],
            kind,
            f"{rule['weight']:g}",
            f"{rule['bound_rows']:,}",
            about,
            rule["title"],
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _columns(facts: dict[str, Any]) -> Table:
    """The columns as a table. `Any`: from `description`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title="Columns", title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for header in ("name", "header in the table", "type", "role", "unit", "span"):
        table.add_column(header, overflow="fold")
    for column in facts["columns"]:
        span = " .. ".join(f"{end:g}" for end in column["span"]) if column["span"] else ""
        table.add_row(
            *(
                Text(cell)
                for cell in (
                    column["name"],
                    column["source"],
                    column["type"],
                    column["role"],
                    column["unit"],
                    span,
                )
            )
        )
    return table
