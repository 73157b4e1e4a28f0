"""`fedkg inspect PACK`: what is in a constraint pack."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.screen import AsJson, count, out, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from fedkg.pack import Pack


def inspect(
    pack: Annotated[Path, typer.Argument(metavar="PACK", help="A constraint pack (.fkgpack), or rule files to look into.")],
    rows: Annotated[int, typer.Option("--rows", help="How many bound rows of each bank to print.", min=0)] = 2,
    as_json: AsJson = False,
) -> None:
    """Show what is in a pack: its rules, the columns a table must have, its banks with their formulas, and where it comes from.

    \b
    Examples:
      fedkg inspect plant.fkgpack
      fedkg inspect plant.fkgpack --rows 10
    """
    from fedkg import authoring

    loaded, _ = authoring.load_or_compile([pack])
    if as_json:
        print_json(description(loaded, rows))
    else:
        _show(loaded, rows, str(pack))


def description(pack: Pack, rows: int) -> dict[str, Any]:
    """The pack as JSON. `Any`: JSON."""
    from fedkg.pack.text import formula_text, keys_text, row_text

    manifest = pack.manifest
    per_rule = Counter(int(rule) for bank in pack.banks for rule in bank.rule)
    return {
        "format": manifest.format,
        "sections": {name: section.version for name, section in manifest.sections.items()},
        "bound_rows": pack.rows,
        "rules": [
            {"rule": rule.name, "title": rule.title, "kind": rule.kind, "weight": rule.weight, "hard": rule.hard, "output": rule.output}
            | {"bound_rows": per_rule[i], "file": rule.file, "line": rule.line, "text": rule.text}
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
        "provenance": manifest.provenance.model_dump(mode="json"),
    }


def summary(pack: Pack) -> str:
    """``4 rules, 120 bound rows in 3 banks``."""
    return f"{count(len(pack.manifest.rules), 'rule')}, {count(pack.rows, 'bound row')} in {count(len(pack.banks), 'bank')}"


def _show(pack: Pack, rows: int, name: str) -> None:
    from rich.text import Text

    facts, console = description(pack, rows), out()
    console.print(Text.assemble((name, "bold"), f"  {summary(pack)}\n"))
    console.print(_rules(facts))
    console.print()
    console.print(_columns(facts))
    for i, bank in enumerate(facts["banks"]):
        head = f"  {count(bank['bound_rows'], 'row')} of {', '.join(bank['rules'])}  "
        console.print(Text.assemble("\n", (f"Bank {i}", "bold"), head, (bank["hash"], "dim")))
        console.print(Text(f"  {bank['skeleton']}"))
        for example in bank["examples"]:
            about = "  ".join(part for part in (example["entity"], example["where"]) if part)
            console.print(Text.assemble("    ", (about, "dim"), f"  {example['formula']}"))
    provenance = facts["provenance"]
    console.print(Text.assemble("\n", ("Made by", "bold"), f" {provenance['compiler']} from"))
    for source in provenance["sources"]:
        console.print(Text.assemble(f"  {source['kind']:<9} {source['name']}  ", (source["sha256"][:16], "dim")))


def _rules(facts: dict[str, Any]) -> Table:
    """The rules as a table for the screen. `Any`: what `description` says."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Rules", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for header in ("rule", "kind", "weight", "bound", "about", "says"):
        table.add_column(header, justify="right" if header in ("weight", "bound") else "left", overflow="fold")
    for rule in facts["rules"]:
        about = "model" if rule["output"] else "data"
        cells = (rule["rule"], rule["kind"], f"{rule['weight']:g}", f"{rule['bound_rows']:,}", about, rule["title"])
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _columns(facts: dict[str, Any]) -> Table:
    """The columns as a table for the screen. `Any`: what `description` says."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Columns", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for header in ("name", "header in the table", "type", "role", "unit", "span"):
        table.add_column(header, overflow="fold")
    for column in facts["columns"]:
        span = " .. ".join(f"{end:g}" for end in column["span"]) if column["span"] else ""
        table.add_row(*(Text(cell) for cell in (column["name"], column["source"], column["type"], column["role"], column["unit"], span)))
    return table
