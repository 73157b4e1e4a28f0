"""`fedkg inspect JOB|RUN`.

What a job reads and which code it imports, without importing anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedkg.cli.console import print_json, stdout_console
from fedkg.errors import UsageError

JOB_SUFFIXES = (".yaml", ".yml")


def is_job(files: list[str]) -> bool:
    """Whether the arguments of `fedkg inspect` are one job file, or one run or sweep folder."""
    if len(files) != 1:
        return False
    path = Path(files[0])
    if path.is_dir():
        from fedkg.jobs.folder import ENVIRONMENT
        from fedkg.jobs.sweep.stored_plan import is_sweep

        return (path / ENVIRONMENT).is_file() or is_sweep(path)
    return path.suffix.lower() in JOB_SUFFIXES


def inspect_job(path: Path, as_json: bool) -> None:
    """Show a job file, or the jobs of a run folder.

    Raises:
        UsageError, JobError: the file cannot be read, or is not a job.
    """
    found = _description(path)
    if as_json:
        print_json(found)
        return
    from rich.text import Text

    console = stdout_console()
    console.print(Text.assemble((str(path), "bold"), f"  job {found['name']}"))
    for what, named in (("reads", found["reads"]), ("contacts", found["contacts"])):
        for name in named:
            console.print(Text(f"  {what:<9}{name}"))
    for code in found["imports"]:
        console.print(Text(f"  imports  {code['path']}  ({_where(code)})"))
    console.print(
        Text(
            "This job runs Python code: read it first. `fedkg run` needs --trust-code for it."
            if found["imports"]
            else "This job imports no code."
        )
    )


def _description(path: Path) -> dict[str, Any]:
    """The inputs of a job as JSON. `Any`: JSON."""
    from fedkg.jobs.causes.job_file import is_causes_job, read_causes_job
    from fedkg.jobs.code_trust import list_imports
    from fedkg.jobs.folder import ENVIRONMENT, RunFolder
    from fedkg.jobs.schema.endpoint_recognition import is_address
    from fedkg.jobs.schema.job_reader import parse_job, read_job
    from fedkg.jobs.sweep.stored_plan import is_sweep, read_plan

    if not path.exists():
        raise UsageError(
            f"job file {path} does not exist", help="paths are relative to the current folder"
        )
    imports: list[str] = []
    if not path.is_dir() and is_causes_job(path):
        learning = read_causes_job(path)
        name = learning.name
        named: Iterable[str | None] = (
            *learning.rules,
            learning.data.path,
            *_site_files(learning.data.sites_file, learning.clients),
        )
    else:
        if not path.is_dir():
            jobs = [read_job(path)]
        elif is_sweep(path):
            jobs = [cell.job for cell in read_plan(path)]
        else:
            begun = RunFolder(path).environment()["job"]
            jobs = [parse_job(begun, name=str(path / ENVIRONMENT), base=path)]
        name = jobs[0].name
        named = [
            place
            for job in jobs
            for place in (
                *job.rules,
                job.pack,
                job.data.path,
                *_site_files(job.data.sites_file, job.sites),
                *(site.table for site in job.sites.values()),
                *(job.model.graph.files if job.model.graph is not None else ()),
            )
        ]
        imports = [code for job in jobs for code in list_imports(job)]
    places = list(dict.fromkeys(place for place in named if place))
    return {
        "file": str(path),
        "name": name,
        "reads": [place for place in places if not is_address(place)],
        "contacts": [place for place in places if is_address(place)],
        "imports": [_code(place) for place in dict.fromkeys(imports)],
    }


def _site_files(path: str | None, names: Iterable[str]) -> list[str]:
    """A sites file with the tables of sites (no names: all) and those of their foreign keys."""
    from fedkg.sites import load_sites
    from fedkg.sites.sites_file import find_site

    if path is None or not Path(path).is_file():
        return [path] if path is not None else []
    sites, found = load_sites(path), [path]
    for name in names or sites.sites:
        section = find_site(sites, name)
        keys = section.table_schema.foreign_keys
        tables = (*section.url, *(key.reference.resource for key in keys))
        found += [str(Path(table).resolve()) for table in tables]
    return found


def _code(path: str) -> dict[str, Any]:
    """One import: a file with size and checksum, or an installed module. `Any`: JSON."""
    place = path.rpartition(":")[0]
    if not place.endswith(".py"):
        return {"path": path, "file": None, "bytes": None, "sha256": None}
    file = Path(place)
    body = file.read_bytes() if file.is_file() else None
    return {
        "path": path,
        "file": place,
        "bytes": None if body is None else len(body),
        "sha256": None if body is None else hashlib.sha256(body).hexdigest(),
    }


def _where(code: dict[str, Any]) -> str:
    """The location of imported code. `Any`: JSON."""
    if code["file"] is None:
        return "installed module"
    if code["sha256"] is None:
        return "this file does not exist"
    return f"{code['bytes']:,} bytes, sha256 {code['sha256'][:16]}"
