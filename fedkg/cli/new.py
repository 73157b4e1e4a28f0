"""`fedkg new`: write a first rule file from a sheet of limits, from the ranges of the data, or from
requirements.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, stdout_console
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.cli.site_options import SiteName, SitesPath, read_sites, require_sites
from fedkg.errors import TableError, UsageError

if TYPE_CHECKING:
    from fedkg.pack import DataContract
    from fedkg.tables import Table
    from fedkg_compiler.authoring.fret import FretDraft
    from fedkg_compiler.compilation_result import Compilation

MAX_LISTED = 8
"""Number of missing tags that are printed."""


def new(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="RULES", help="The rule file to write.")
    ],
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[LIMITS] [TABLE...]",
            help=(
                "A sheet of limits (tag, unit, low, high) and a table of data; or only a table. "
                "With --sites a table for each site, or none if the sites file exists."
            ),
        ),
    ] = None,
    sites: SitesPath = None,
    site: SiteName = "",
    source: Annotated[
        Literal["fret"] | None,
        typer.Option(
            "--from",
            help="Translate requirements: fret is the JSON export of NASA's FRET, given as FILE.",
        ),
    ] = None,
    component: Annotated[
        str,
        typer.Option(
            "--component", metavar="NAME", help="With --from: only the requirements of a component."
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite an existing rule file or sites file.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a first rule file from limits, from the ranges of the data, or from requirements.

    The result is plain text for you to read and edit. It needs no ontology and no programming.

    With --sites fedkg also drafts a sites file, with a site for each table: rows above the header,
    header rows with merged cells, separators, decimal marks, units, times, and words for true and
    false. A tag of the limits may be the start of a header: `TIC101` for `TIC101 [°C]`. If the
    sites file exists, fedkg reads the tables that it describes.

    With --from fret fedkg translates FRETish requirements and lists each of them with its rule, or
    with the reason why it has none.

    \b
    Examples:
      fedkg new limits.csv history.csv -o rules.fkg
      fedkg new history.csv -o rules.fkg
      fedkg new limits.csv north.csv south.xlsx -o rules.fkg --sites sites.yaml
      fedkg new limits.csv -o rules.fkg --sites sites.yaml
      fedkg new --from fret requirements.json -o rules.fkg
    """
    from fedkg import authoring

    require_sites(sites, site)
    files = sources or []
    check_output_path(output, "rules.fkg", inputs=files)
    if output.exists() and not force:
        raise UsageError(
            f"{output} already exists", help="choose another name, or add --force to overwrite it"
        )
    if source is not None:
        if sites is not None:
            raise UsageError(
                "--from translates requirements, and --sites drafts rules for tables: "
                "they cannot be combined",
                help="leave out --from or --sites",
            )
        _translate_requirements(files, output, component, as_json=as_json)
        return
    if component:
        raise UsageError(
            "--component selects FRET requirements, so it needs --from fret", help="add --from fret"
        )
    drafted = (
        _draft_for_table(files, output)
        if sites is None
        else _draft_with_sites(files, output, sites, site, force=force)
    )
    text = authoring.draft_rules(
        drafted.limits,
        drafted.table,
        limits_name=_relative_path(drafted.sheet, output) if drafted.sheet else "",
        table_name=drafted.name,
        units=drafted.units,
    )
    if drafted.sites_text and sites is not None:
        write_atomically(sites, drafted.sites_text)
    write_atomically(output, text)
    result = authoring.check([output])
    rules = len(result.pack.manifest.rules) if result.pack else 0
    tags, missing = (
        authoring.find_missing_tags(drafted.limits, drafted.table)
        if drafted.limits is not None
        else (0, {})
    )
    commands, first = _suggest_commands(output, drafted, result, sites, site)
    if as_json:
        found = {"tags": tags, "missing_tags": missing} if drafted.limits is not None else {}
        wrote = {"sites_file": str(sites)} if sites is not None else {}
        print_json(
            {"rules_file": str(output), "rules": rules, "next": commands}
            | wrote
            | found
            | authoring.diagnostics_json(result.diagnostics)
        )
        return
    if drafted.sites_text and sites is not None:
        print_line(f"{sites}: {count_noun(drafted.sites, 'site')}")
    print_line(f"{output}: {count_noun(rules, 'rule')} for {drafted.name}")
    if missing:
        print_line(_describe_tags(tags, missing))
        if sites is None and _match_starts(missing, drafted.table):
            print_line("tags that are the start of a header need a sites file: add --sites FILE")
    for line in first:
        print_line(f"first {line}")
    if first and sites is None:
        print_line("a sites file can state formats, units and words: add --sites FILE")
    if commands:
        print_line("next:" + "".join(f"\n  {command}" for command in commands))


def _translate_requirements(
    files: Sequence[Path], output: Path, component: str, *, as_json: bool
) -> None:
    """Write the rules of an export of FRET, and list its requirements. Raises UsageError,
    RequirementsError.
    """
    from fedkg import authoring

    if len(files) != 1:
        raise UsageError(
            "--from fret takes one file with requirements",
            received=f"{len(files)} files",
            help=f"fedkg new --from fret requirements.json -o {output}",
        )
    draft = authoring.translate_fret(files[0], component)
    write_atomically(output, draft.text)
    result = authoring.check([output], reason=False)
    errors = sum(one.severity == "error" for one in result.diagnostics)
    differing = {} if errors else _compare_with_formulas(draft)
    rules = sum(bool(one.rule) for one in draft.requirements)
    check = f"fedkg check {shlex.quote(str(output))}"
    if as_json:
        print_json(
            {
                "rules_file": str(output),
                "rules": rules,
                "requirements": [
                    asdict(one) | {"differing_traces": differing.get(one.rule)}
                    for one in draft.requirements
                ],
                "next": [check],
            }
            | authoring.diagnostics_json(result.diagnostics)
        )
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in ("requirement", "component", "rule", "made from"):
        table.add_column(header, overflow="fold")
    for one in draft.requirements:
        how = one.source if one.source == "text" else f"{one.source}: {one.reason}".strip(": ")
        if one.rule in differing:
            how += _describe_agreement(differing[one.rule])
        table.add_row(escape(one.requirement), escape(one.component), one.rule or "-", escape(how))
    stdout_console().print(table)
    print_line(f"{output}: {rules} of {count_noun(len(draft.requirements), 'requirement')}")
    if errors:
        print_line(
            f"first correct the {count_noun(errors, 'error')} of the draft, which {check} lists"
        )
    else:
        print_line(f"next:\n  {check}")


def _compare_with_formulas(draft: FretDraft) -> dict[str, int]:
    """On how many random traces each rule differs from its published formula."""
    from fedkg import authoring
    from fedkg.evaluation.random_trace_equivalence import count_differing_traces

    if not draft.formula_rules:
        return {}
    pack = authoring.check(text=draft.comparison, reason=False).pack
    if pack is None:
        return {}
    return {
        rule: count_differing_traces(pack, rule, formula_rule)
        for rule, formula_rule in draft.formula_rules.items()
    }


def _describe_agreement(differing: int) -> str:
    from fedkg.evaluation.random_trace_equivalence import TRACES

    if not differing:
        return ", equals its formula"
    return f"; differs from its formula on {differing} of {TRACES} random traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drafted:
    """The inputs of a draft of rules.

    Attributes:
        sheet: the file with the sheet of limits; None without one.
        limits: the table in `sheet`; None without one.
        table: the data; of several sites together if there is a sites file.
        name: name of the data, for messages.
        data: the file of `table`; None if there is a sites file.
        sites_text: text of the sites file to write; "" to write none.
        sites: number of sites in the sites file; 0 without one.
        units: the units of columns that the sites file or its headers state.
    """

    sheet: Path | None
    limits: Table | None
    table: Table
    name: str
    data: Path | None = None
    sites_text: str = ""
    sites: int = 0
    units: Mapping[str, str] = field(default_factory=dict)


def _draft_for_table(files: Sequence[Path], output: Path) -> _Drafted:
    """A sheet of limits and a table, or a table alone. Raises UsageError, TableError."""
    from fedkg.tables import read_table

    if not files:
        raise UsageError("a table is missing", help=f"fedkg new table.csv -o {output}")
    if len(files) > 2:
        raise UsageError(
            "too many files",
            expected="a sheet of limits and a table, or only a table",
            help="fedkg new limits.csv table.csv -o rules.fkg; several tables need --sites FILE",
        )
    *sheet, data = files
    limits = read_table(sheet[0]) if sheet else None
    table = read_table(data)
    return _Drafted(
        sheet=sheet[0] if sheet else None, limits=limits, table=table, name=data.name, data=data
    )


def _draft_with_sites(
    files: Sequence[Path], output: Path, sites: Path, site: str, *, force: bool
) -> _Drafted:
    """The data of an existing sites file, or of one that is drafted from tables. Raises
    UsageError, TableError.
    """
    from fedkg import authoring
    from fedkg.sites import draft_sites, load_sites
    from fedkg.sites.reader import read_together
    from fedkg.sites.sites_file import find_site
    from fedkg.tables import read_table
    from fedkg.units.header import header_unit

    if sites.resolve() == output.resolve():
        raise UsageError(
            f"--sites and -o both name {output}",
            help="choose different names for the sites file and the rule file: --sites sites.yaml "
            "-o rules.fkg",
        )
    first = read_table(files[0]) if files else None
    tags = authoring.find_tags(first) if first is not None else None
    is_sheet = tags is not None and (len(files) > 1 or (sites.exists() and not force))
    sheet, tables = (files[0], files[1:]) if is_sheet else (None, files)
    text = ""
    if tables:
        if sites.exists() and not force:
            raise UsageError(
                f"{sites} already exists",
                help=f"leave {tables[0]} out of the command to use the tables that {sites} "
                "describes, or add --force to draft the sites file again",
            )
        if any(table.exists() and sites.exists() and table.samefile(sites) for table in files):
            raise UsageError(
                f"--sites {sites} is also one of the tables of this command",
                help="choose another name for the sites file: --sites sites.yaml",
            )
        check_output_path(sites, "sites.yaml")
        text = draft_sites(tables, sites.parent, tags or () if is_sheet else ())
    elif not sites.exists():
        raise UsageError(
            f"there is no sites file {sites}, and no table to draft it from",
            help=f"fedkg new table.csv -o {output} --sites {sites}",
        )
    found = load_sites(sites, text=text or None)
    names = [site] if site else list(found.sites)
    units: dict[str, str] = {}
    for column in (one for name in names for one in find_site(found, name).table_schema.columns):
        titled = (unit.text for title in column.titles if (unit := header_unit(title)))
        if stated := column.unit or next(titled, ""):
            units.setdefault(column.key, stated)
    return _Drafted(
        sheet=sheet,
        limits=first if is_sheet else None,
        table=read_together(found, names),
        name=str(sites),
        sites_text=text,
        sites=len(found.sites),
        units=units,
    )


def _suggest_commands(
    output: Path, drafted: _Drafted, result: Compilation, sites: Path | None, site: str
) -> tuple[list[str], list[str]]:
    """Commands that succeed with the drafted files, quoted for the shell; and what to do first."""
    rules = shlex.quote(str(output))
    if result.pack is None:
        return [], [f"correct the errors of the draft, which `fedkg check {rules}` lists"]
    contract = result.pack.manifest.contract
    first: list[str] = []
    data = described = ""
    tables: list[Table] = []
    if sites is None:
        data, tables = shlex.quote(str(drafted.data)), [drafted.table]
    else:
        described = f" --sites {shlex.quote(str(sites))}" + (
            f" --site {shlex.quote(site)}" if site else ""
        )
        data = described.strip()
        try:
            tables = [read.table for read in read_sites(sites, site, contract)]
        except TableError as error:
            first.append(f"correct the draft: {error.message}")
    problem = {how: _find_problem(contract, tables, how) for how in ("error", "skip")}
    if problem["skip"]:
        first.append(f"correct the draft or the table: {problem['skip']}")
    commands = []
    if all(one.severity == "info" for one in result.diagnostics):
        commands.append(f"fedkg check {rules}" + ("" if first or problem["error"] else described))
    else:
        first.append(f"read the warnings that `fedkg check {rules}` lists")
    if tables and not problem["skip"]:
        skip = " --skip-missing" if problem["error"] else ""
        commands.append(f"fedkg eval {rules} {data}{skip}")
    return commands, first


def _find_problem(
    contract: DataContract, tables: Sequence[Table], missing: Literal["error", "skip"]
) -> str:
    """Why rules cannot be evaluated on the tables; "" if they can."""
    from fedkg.evaluation.table_readings import table_values

    for table in tables:
        try:
            table_values(contract, table, missing=missing)
        except TableError as error:
            return error.message
    return ""


def _match_starts(missing: Mapping[str, str | None], table: Table) -> bool:
    """Whether a missing tag is the start of a header."""
    from fedkg.sites.draft import match_tags

    return bool(match_tags(list(missing), table.headers))


def _describe_tags(tags: int, missing: Mapping[str, str | None]) -> str:
    """``1 of 2 tags found; `Volume Flow`: did you mean `Volume Flow RateRMS`?``"""
    named = [
        f"`{tag}`: did you mean `{near}`?" if near else f"`{tag}` is not a column"
        for tag, near in list(missing.items())[:MAX_LISTED]
    ]
    more = (
        [f"{len(missing) - MAX_LISTED} more are listed in the file"]
        if len(missing) > MAX_LISTED
        else []
    )
    return "; ".join([f"{tags - len(missing)} of {count_noun(tags, 'tag')} found", *named, *more])


def _relative_path(sheet: Path, output: Path) -> str:
    """The path of the sheet relative to the rule file, if possible."""
    try:
        return Path(os.path.relpath(sheet, output.parent)).as_posix()
    except ValueError:  # another drive
        return sheet.resolve().as_posix()
