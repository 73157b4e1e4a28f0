"""A federation whose sites are all on this computer, for Flower's simulation: no keys, no network.

FEDERATION/
  federation.json, job.yaml, rules.fkgpack, app/    as `fedkg federation init` writes them
  sites/NAME/site.json                              name, sites file
  sites/NAME/invitation                             a link to FEDERATION
  sites/NAME/state/                                 private memory of the site
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from fedkg.deploy.federation_folders import (
    DEFAULT_ADDRESS,
    INVITATION,
    SITE,
    STATE,
    Federation,
    Site,
    check_site_name,
    new_federation_folder,
    write_json,
)
from fedkg.errors import FederationError, JobError, UsageError

FEDERATION_FOLDER = "federation"
"""Name in the run configuration of the Flower app."""

LEAST_DEADLINE, SECONDS_PER_SITE = 600.0, 30.0
"""Deadline of a simulated round: nodes take turns, so a site waits for all those before it."""

SITES = "sites"
"""Folder of a simulation with the folder of each site."""


def create_simulation(job: Path, folder: Path) -> Federation:
    """Create the folder of a federation in which `flwr run FEDERATION/app` simulates all sites.

    Args:
        job: the job file with `data.sites_file`, which describes the tables of all sites.
        folder: a new folder.

    Raises:
        UsageError: the folder exists, or the name of a site is not that of a file.
        JobError, FedkgError: the job, its rules or its sites are wrong, or cannot be simulated.
    """
    from fedkg.jobs.code_trust import list_imports
    from fedkg.jobs.rule_pack import load_rules
    from fedkg.jobs.schema.job_reader import read_job

    if folder.exists():
        raise UsageError(f"{folder} exists already", help="choose another folder with -o")
    found = read_job(job)
    if found.data.sites_file is None or len(found.sites) < 2:
        raise JobError(
            f"{job}: the simulation of a federation needs a sites file with the tables of all "
            "sites",
            expected="`data.sites_file` with at least two sites",
            received=f"{len(found.sites)} site{'' if len(found.sites) == 1 else 's'}"
            if found.data.sites_file
            else "no sites file",
            help="describe at least two sites in the sites file, or list at least two of its sites "
            "in the job"
            if found.data.sites_file
            else "add `data: {sites_file: sites.yaml}` to the job; `fedkg new --sites` drafts a "
            "sites file",
        )
    if found.training.secure_aggregation:
        raise JobError(
            f"{job}: `training.secure_aggregation` cannot be simulated",
            help="its keys stay in the process of a site, and the nodes of a simulation share "
            "processes: leave out `secure_aggregation`, or use real sites (without --simulation)",
        )
    if imported := list_imports(found):
        raise JobError(
            f"{job}: a simulation cannot run the Python code that the job imports",
            received=", ".join(imported),
            help="use `fedkg run --trust-code`, or real sites (without --simulation)",
        )
    for name in found.sites:
        check_site_name(name)
    pack, _ = load_rules(found)
    federation = Federation(
        name=found.name or job.stem, address=DEFAULT_ADDRESS, sites=dict.fromkeys(found.sites, "")
    )
    contract = {"deadline": max(LEAST_DEADLINE, SECONDS_PER_SITE * len(federation.sites))}
    with new_federation_folder(folder, job, pack, federation, contract=contract) as partial:
        for name in federation.sites:
            place = partial / SITES / name
            (place / STATE).mkdir(parents=True)
            (place / INVITATION).symlink_to("../..")
            site = Site(name=name, sites_file=found.data.sites_file, share_rows=True)
            write_json(place / SITE, asdict(site))
    return federation


def is_simulation(federation: Path) -> bool:
    """Whether `create_simulation` wrote the folder of a federation."""
    return (federation / SITES).is_dir()


def find_simulated_site(run_config: Mapping[str, object], name: str) -> Path:
    """The folder of a site of a simulation.

    Raises UsageError, FederationError: the run configuration names no simulation with this site.
    """
    check_site_name(name)
    folder = Path(str(run_config.get(FEDERATION_FOLDER, ""))) / SITES / name
    if not (folder / SITE).is_file():
        raise FederationError(
            f"{folder} is not a site of a simulation",
            expected=f"a file {SITE} in it",
            help="create the federation with `fedkg federation init JOB -o FEDERATION "
            "--simulation`",
        )
    return folder
