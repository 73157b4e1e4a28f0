"""The options `--sites` and `--site`, and what commands do with the tables of sites."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import print_line, print_note
from fedkg.errors import FedkgError, UsageError

if TYPE_CHECKING:
    from fedkg.pack import DataContract
    from fedkg.sites import SitesFile, SiteTable

SitesPath = Annotated[
    Path | None,
    typer.Option(
        "--sites",
        metavar="FILE",
        help="A sites file (YAML, JSON or CSVW metadata) that describes the tables of all sites.",
    ),
]
SiteName = Annotated[
    str, typer.Option("--site", metavar="NAME", help="Only this site of the sites file.")
]


def require_sites(sites: Path | None, site: str) -> None:
    """Raise UsageError if `--site` is given without `--sites`."""
    if site and sites is None:
        raise UsageError(
            "--site requires --sites", help=f"add the sites file: --sites sites.yaml --site {site}"
        )


def load_selected(sites: Path | None, site: str) -> tuple[SitesFile, list[str]]:
    """The sites file and the names of the selected sites.

    Raises:
        UsageError: there is no file, or no such site.
        TableError: the file is wrong.
    """
    from fedkg.sites import load_sites
    from fedkg.sites.sites_file import find_site

    require_sites(sites, site)
    if sites is None:
        raise UsageError("a sites file is missing", help="add --sites sites.yaml")
    found = load_sites(sites)
    if site:
        find_site(found, site)
    return found, [site] if site else list(found.sites)


def read_sites(sites: Path | None, site: str, contract: DataContract | None) -> list[SiteTable]:
    """The tables of the selected sites, as the rules expect them.

    Raises UsageError, TableError, LimitError.
    """
    from fedkg.sites import read_site

    found, names = load_selected(sites, site)
    return [read_site(found, name, contract) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSites:
    """The tables of sites that can be read, and the problems of the others by site."""

    tables: dict[str, SiteTable]
    problems: dict[str, FedkgError]

    def show(self) -> None:
        """Print a line for each site on stdout, and problems on stderr."""
        for name, table in self.tables.items():
            print_line(f"{name}: {count_noun(table.table.rows, 'row')}; {_format_columns(table)}")
            for note in table.notes:
                print_note(f"note: {name}: {note}")
        for name, problem in self.problems.items():
            print_note(f"error: site {name}: {problem}")

    def to_json(self) -> dict[str, Any]:
        """The sites as JSON."""
        read = {
            name: {
                "rows": table.table.rows,
                "files": list(table.files),
                "columns": [asdict(column) for column in table.columns],
                "notes": list(table.notes),
            }
            for name, table in self.tables.items()
        }
        return read | {name: {"problem": str(error)} for name, error in self.problems.items()}


def check_sites(sites: Path, site: str, contract: DataContract) -> CheckedSites:
    """Read the tables of the selected sites and try what the rules need of them.

    Raises UsageError, TableError for the sites file itself.
    """
    from fedkg.evaluation.table_readings import table_values
    from fedkg.sites import read_site

    found, names = load_selected(sites, site)
    tables: dict[str, SiteTable] = {}
    problems: dict[str, FedkgError] = {}
    for name in names:
        try:
            table = read_site(found, name, contract)
            table_values(contract, table.table)
            tables[name] = table
        except FedkgError as error:
            problems[name] = error
    return CheckedSites(tables=tables, problems=problems)


def _format_columns(table: SiteTable) -> str:
    shown = [column.describe() for column in table.columns if column.signal or column.converted]
    return ", ".join(shown) or "no column is described"
