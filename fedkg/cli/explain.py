"""`fedkg explain CODE`.

The page of a diagnostic; `fedkg explain RULE FILES`: the meaning of a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.console import AsJson, print_json, print_line, print_note
from fedkg.cli.rule_lookup import describe_part, find_rules
from fedkg.cli.site_options import SiteName, SitesPath, read_sites, require_sites
from fedkg.cli.triple_origins import origin_json, origin_lines
from fedkg.errors import UsageError

if TYPE_CHECKING:
    from fedkg.pack import Pack
    from fedkg.sites.reader import ColumnReading
    from fedkg_compiler.analysis.rule_description import Description, Example

MAX_RULES = 8
"""Number of rules explained at once."""


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="CODE | RULE",
            help=(
                "A code from a message, such as FKG012; or the name of a rule, cause, shape or "
                "query."
            ),
        ),
    ] = "",
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES...]",
            help=(
                "For a rule: its rule files with their graphs, or a pack; default: those in "
                "this folder."
            ),
        ),
    ] = None,
    entity: Annotated[
        str,
        typer.Option(
            "--entity",
            metavar="NAME|IRI",
            help="The entity to explain; adds the triples through which the rule applies to it.",
        ),
    ] = "",
    every: Annotated[
        bool, typer.Option("--list", help="List all codes with their titles.")
    ] = False,
    sites: SitesPath = None,
    site: SiteName = "",
    as_json: AsJson = False,
) -> None:
    """Explain a diagnostic code, what a rule requires, or what a cause allows.

    For a code: an example that fails, and how to fix it. For a rule: its meaning in words, the
    number of entities, the compiled formula, the source of its numbers, and values that satisfy and
    violate it. The name of a shape, of a part of one, of a query, a title or a file selects all
    rules compiled from it, and its parts that were decided on the graph. For a cause: the
    clients that it connects. For an accepted suggestion also its evidence.

    With --entity fedkg also shows the triples of the graph through which the rule, shape or query
    applies to the entity, each with its file and line, or with the axioms from which it follows.

    With --sites fedkg also shows the column of each site from which the rule reads a signal, and
    its unit.

    \b
    Examples:
      fedkg explain FKG012
      fedkg explain --list
      fedkg explain tool_was_replaced
      fedkg explain tool_was_replaced rules.fkg plant.ttl --entity M07
      fedkg explain ex:PumpShape shapes.ttl plant.ttl
      fedkg explain limit rules.fkg --sites sites.yaml
    """
    from fedkg import authoring

    require_sites(sites, site)
    if every:
        titles = authoring.list_codes()
        if as_json:
            print_json({"codes": [{"code": key, "title": title} for key, title in titles.items()]})
        else:
            print_line("\n".join(f"{key}  {title}" for key, title in titles.items()))
        return
    if not what:
        raise UsageError(
            "a code or a rule is missing",
            help="fedkg explain FKG012, fedkg explain RULE rules.fkg, or fedkg explain --list",
        )
    if not files and re.fullmatch(r"(?i)fkg\d+", what.strip()):
        title, page = authoring.explain(what)
        if as_json:
            print_json({"code": what.strip().upper(), "title": title, "page": page})
        else:
            print_line(f"{what.strip().upper()}: {title}\n\n{page.strip()}")
        return
    taken = authoring.parse_sources(files) if files else _files_in_folder(what)
    if not files:
        print_note(f"using the files in this folder: {', '.join(map(str, taken))}")
    try:
        pack, _ = authoring.load_or_compile(taken)
    except authoring.CompileError:
        if not files:
            print_note(
                "if these files do not belong together, list those of the rule: fedkg "
                f"explain {what} {_file_with_rule(what, taken)}"
            )
        raise
    cause = authoring.explain_cause(pack, what)
    if cause is not None:
        if as_json:
            print_json(cause.to_json())
        else:
            print_line("\n".join(cause.lines()))
        return
    rules, parts = find_rules(pack, what)
    behind = (
        {one.rule: one for one in authoring.find_origins(taken, rules[:MAX_RULES], entity)}
        if entity
        else {}
    )
    described = _describe_rules(
        pack, rules[:MAX_RULES], next((one.names for one in behind.values()), (entity,))
    )
    read = _find_site_columns(pack, rules[:MAX_RULES], sites, site) if sites is not None else {}
    if as_json:
        facts = [
            _json(one) | origin_json(behind.get(one.rule)) | _sites_json(read.get(one.rule))
            for one in described
        ]
        alone = facts[0] if len(rules) == 1 and not parts else None
        print_json(
            alone
            or {
                "rules": facts,
                "parts": [part.model_dump(mode="json") for part in parts],
                "more": rules[MAX_RULES:],
            }
        )
        return
    blocks = [
        "\n".join(
            [
                *one.lines(),
                *_format_sites(read.get(one.rule, {})),
                *origin_lines(behind.get(one.rule)),
            ]
        )
        for one in described
    ]
    if parts:
        blocks.append("\n".join(describe_part(part) for part in parts[:MAX_RULES]))
    print_line("\n\n".join(blocks))
    more = [*rules[MAX_RULES:], *(part.part for part in parts[MAX_RULES:])]
    if more:
        print_note(
            f"\nand {len(more):,} more: "
            f"{', '.join(more[:MAX_RULES])}{' ...' if len(more) > MAX_RULES else ''}"
        )


def _find_site_columns(
    pack: Pack, rules: Sequence[str], sites: Path, site: str
) -> dict[str, dict[str, list[ColumnReading]]]:
    """By rule and site: the columns that the rule reads. Raises UsageError, TableError."""
    from fedkg.pack.bank import reads

    contract = pack.manifest.contract
    headers: dict[str, set[str]] = {rule: set() for rule in rules}
    for bank in pack.banks:
        for columns, _, rows in reads(bank):
            for row, used in zip(rows.tolist(), columns.tolist(), strict=True):
                name = pack.manifest.rules[int(bank.rule[row])].name
                if name in headers:
                    headers[name] |= {contract.columns[at].source for at in used if at >= 0}
    tables = read_sites(sites, site, contract)
    return {
        rule: {
            table.site: [column for column in table.columns if column.target in wanted]
            for table in tables
        }
        for rule, wanted in headers.items()
    }


def _format_sites(found: Mapping[str, Sequence[ColumnReading]]) -> Iterator[str]:
    for site, columns in found.items():
        shown = ", ".join(column.describe() for column in columns) or "no column of this rule"
        yield f"  at {site}: {shown}"


def _sites_json(found: Mapping[str, Sequence[ColumnReading]] | None) -> dict[str, Any]:
    """`Any`: JSON."""
    if found is None:
        return {}
    return {"sites": {site: [asdict(one) for one in columns] for site, columns in found.items()}}


def _describe_rules(pack: Pack, rules: Sequence[str], names: Sequence[str]) -> list[Description]:
    """Descriptions of the rules; with an entity, by the names that it may have, of those about it.

    Raises UsageError if there are none.
    """
    from fedkg import authoring

    found: list[Description] = []
    for rule, name in product(rules, names):
        if found and found[-1].rule == rule:
            continue
        try:
            found.append(authoring.explain_in(pack, rule, name))
        except UsageError:
            if (rule, name) == (rules[-1], names[-1]) and not found:
                raise
    return found


def _files_in_folder(rule: str) -> list[str | Path]:
    """The rule files and graphs of the current folder. Raises UsageError without a rule file."""
    from fedkg.authoring import is_graph

    here = Path()
    files = sorted(here.glob("*.fkg"))
    if not files:
        raise UsageError(
            f"the current folder has no rule file in which fedkg could look for the rule `{rule}`",
            help=f"name the rule file: fedkg explain {rule} rules.fkg",
        )
    return [
        *files,
        *sorted(
            path
            for path in here.iterdir()
            if is_graph(path) and path.suffix.lower() not in (".xml", ".omn")
        ),
    ]  # most .xml files are not graphs, and fedkg does not read .omn files


def _file_with_rule(rule: str, files: Sequence[str | Path]) -> str:
    """The first rule file that states this rule, or an example name."""
    stated = re.compile(rf"(?m)^rule\s+{re.escape(rule)}\b")
    named = (
        str(path)
        for path in files
        if Path(path).suffix == ".fkg" and stated.search(Path(path).read_text("utf-8", "replace"))
    )
    return next(named, "rules.fkg")


def _json(found: Description) -> dict[str, Any]:
    """`Any`: JSON."""
    keys = ("rule", "title", "words", "formula", "entity", "about", "numbers")
    facts: dict[str, Any] = {key: getattr(found, key) for key in keys}
    facts |= {"entities": list(found.entities), "bound_rows": found.rows}
    facts |= {"evidence": dict(found.evidence)} if found.evidence else {}
    return facts | {"keeps": _example(found.keeps), "breaks": _example(found.breaks)}


def _example(example: Example | None) -> dict[str, Any] | None:
    if example is None:
        return None
    return {
        "text": example.text,
        "replayed": example.replayed,
        "readings": [asdict(one) for one in example.values.readings],
    }
