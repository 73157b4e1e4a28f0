"""Folders of a federation with three sites, as the commands create them."""

from __future__ import annotations

from pathlib import Path

from fedkg.deploy.federation_folders import KEYS, admit_site, create_federation, join_federation
from fedkg.deploy.flower.supernode import find_free_port

SITES = ("graz", "linz", "wien")

RULES = """
signal torque in N.m column "Torque [Nm]"
signal wear in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain kind capacity require if torque * wear > 12000 N.m.min then failure >= 0.5
"""

JOB = "name: plants\nrules: [rules.fkg]\ndata: {sites_file: sites.yaml}\ntraining: {rounds: 2}\n"


def write_inputs(folder: Path) -> None:
    """A job, its rules, and a sites file with tables of unequal size."""
    (folder / "rules.fkg").write_text(RULES)
    (folder / "job.yaml").write_text(JOB)
    (folder / "sites.yaml").write_text(
        "sites:\n" + "".join(f"  {name}: {{url: {name}.csv}}\n" for name in SITES)
    )
    for rows, name in enumerate(SITES, 3):
        lines = [f"{40 + row},{100 + row},{row % 2}\n" for row in range(rows)]
        (folder / f"{name}.csv").write_text(
            "Torque [Nm],Tool wear [min],Machine failure\n" + "".join(lines)
        )


def create_folders(folder: Path, *, admitted: tuple[str, ...] = SITES) -> Path:
    """`plants` of the server and a folder per site; the server's address is a free port."""
    write_inputs(folder)
    server = folder / "plants"
    create_federation(folder / "job.yaml", server, address=f"127.0.0.1:{find_free_port()}")
    for name in SITES:
        site = folder / name
        join_federation(server / "invitations" / f"{name}.zip", folder / "sites.yaml", site)
        if name in admitted:
            admit_site(server, name, site / KEYS / f"{name}.pub")
    return server
