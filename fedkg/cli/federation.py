"""`fedkg federation`, `fedkg server` and `fedkg site`: sites train together and keep their data."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line, print_note
from fedkg.cli.observation_options import (
    LOOPBACK,
    MetricsAddress,
    MetricsPort,
    Notify,
    Track,
    create_observation,
)
from fedkg.errors import MissingExtra

federation_app = typer.Typer(no_args_is_help=True)
server_app = typer.Typer(no_args_is_help=True)
site_app = typer.Typer(no_args_is_help=True)

ServerFolder = Annotated[
    Path, typer.Argument(metavar="FEDERATION", help="The folder that `federation init` created.")
]
SiteFolder = Annotated[
    Path, typer.Argument(metavar="SITE", help="The folder that `site join` created.")
]


@federation_app.command("init")
def init(
    job: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")],
    folder: Annotated[
        Path, typer.Option("--out", "-o", metavar="FEDERATION", help="The folder to create.")
    ],
    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="HOST:PORT", help="Where sites reach the server over TLS."
        ),
    ] = "localhost:9092",
    sites: Annotated[
        str,
        typer.Option("--sites", metavar="a,b,c", help="Names of the sites; default: of the job."),
    ] = "",
    trust_code: Annotated[
        bool,
        typer.Option(
            "--trust-code",
            help="Run the Python code of `model.path` at the server, and put it into invitations.",
        ),
    ] = False,
) -> None:
    """Create a federation: compile its rules, create its keys, and write an invitation per site.

    \b
    Example:
      fedkg federation init job.yaml -o plants --address fed.example.org:9092
    """
    _require_extra()
    from fedkg.deploy.federation import (
        INVITATIONS,
        KEYS,
        SIGNER,
        compute_fingerprint,
        create_federation,
    )

    names = [name.strip() for name in sites.split(",") if name.strip()]
    created = create_federation(job, folder, address=address, sites=names, trust_code=trust_code)
    for name in created.sites:
        print_line(f"{name}: send {folder / INVITATIONS / f'{name}.zip'}")
    print_line(
        f"tell the sites over another channel: {compute_fingerprint(folder / KEYS / SIGNER)}"
    )


@federation_app.command("admit")
def admit(
    folder: ServerFolder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site.")],
    key: Annotated[
        Path, typer.Argument(metavar="KEY.pub", help="The public key that the site sent.")
    ],
) -> None:
    """Let the node with this key take part as a site, from the next start of the server.

    \b
    Example:
      fedkg federation admit plants graz graz.pub
    """
    _require_extra()
    from fedkg.deploy.federation import admit_site, compute_fingerprint

    admitted = admit_site(folder, name, key)
    missing = [site for site, known in admitted.sites.items() if not known]
    print_line(f"{name} is admitted with the key {compute_fingerprint(key)}")
    print_line(f"not admitted yet: {', '.join(missing)}" if missing else "all sites are admitted")


@federation_app.command("dismiss")
def dismiss(
    folder: ServerFolder, name: Annotated[str, typer.Argument(metavar="NAME", help="The site.")]
) -> None:
    """Reject the node of a site from the next start of the server.

    \b
    Example:
      fedkg federation dismiss plants graz
    """
    _require_extra()
    from fedkg.deploy.federation import dismiss_site

    dismiss_site(folder, name)
    print_line(f"{name} is dismissed; its updates so far remain part of the model")


@federation_app.command("bundle")
def bundle(
    path: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.zip", help="The file to write.")
    ],
) -> None:
    """Write what a machine without a network needs to install fedkg: versions and instructions.

    \b
    Example:
      fedkg federation bundle -o fedkg-offline.zip
    """
    _require_extra()
    from fedkg.cli.output_files import check_output_path
    from fedkg.deploy.bundle import write_bundle

    check_output_path(path, "fedkg-offline.zip")
    print_line(f"{path}: {count(len(write_bundle(path)), 'package')} with versions, INSTALL.md")


@server_app.command("run")
def run_server(
    folder: ServerFolder,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for all sites.")
    ] = 600.0,
    track: Track = None,
    notify: Notify = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
) -> None:
    """Train the federation: connect the sites, run all rounds, and write the report.

    Started again, it continues after the last round.

    \b
    Example:
      fedkg server run plants
    """
    _require_extra()
    from fedkg.cli.progress import ProgressDisplay
    from fedkg.deploy.server_service import run_federation
    from fedkg.operations.listeners import observe

    observation = create_observation(track, notify, metrics_port, metrics_address)
    with ProgressDisplay() as display, observe(observation, display) as listen:
        run = run_federation(folder, print_note, wait=wait, on_event=listen)
    for sentence in run.sentences:
        print_line(sentence)
    print_line(f"run folder: {run.folder}")


@server_app.command("status")
def show_status(folder: ServerFolder, as_json: AsJson = False) -> None:
    """Show the sites and the rounds of a server, while it runs and afterwards.

    \b
    Example:
      fedkg server status plants
    """
    from dataclasses import asdict

    from fedkg.deploy.server_service import describe_run, read_status

    found = read_status(folder)
    run = describe_run(folder)
    if as_json:
        print_json({"server": asdict(found), "run": run})
        return
    print_line(f"server: {found.state}" + (f": {found.error}" if found.error else ""))
    for name, site in sorted(found.sites.items()):
        seen = "never seen" if not site.last_seen else f"seen {_format_age(site.last_seen)} ago"
        state = "has left" if site.left else seen
        print_line(
            f"{name}: {state}, {count(site.answers, 'answer')}, {count(site.failures, 'failure')}, "
            f"last round {site.round}" + (f"; {site.error.splitlines()[0]}" if site.error else "")
        )
    for one in (run or {}).get("runs", ()):
        for trial in one["trials"]:
            print_line(f"{trial['id']}: round {trial['round']} of {trial['rounds']}")


@site_app.command("join")
def join(
    invitation: Annotated[
        Path, typer.Argument(metavar="INVITATION.zip", help="The file from the server's operator.")
    ],
    sites: Annotated[
        Path, typer.Option("--sites", metavar="SITES.yaml", help="Describes the site's table.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="SITE", help="The folder; default: the site's name."),
    ] = None,
    fingerprint: Annotated[
        str,
        typer.Option(
            "--fingerprint",
            metavar="HEX",
            help="What `federation init` printed; without it, a forged invitation is not noticed.",
        ),
    ] = "",
    share_rows: Annotated[
        bool, typer.Option("--share-rows", help="Hand rows to the server if the job asks for them.")
    ] = False,
    trust_code: Annotated[
        bool,
        typer.Option(
            "--trust-code",
            help="Run Python code of the invitation with your rights: it can read your table.",
        ),
    ] = False,
) -> None:
    """Accept an invitation: verify it, unpack it, and create the site's keys.

    \b
    Example:
      fedkg site join graz.zip --sites sites.yaml --fingerprint 91ab:...
    """
    _require_extra()
    from fedkg.deploy.federation import KEYS, compute_fingerprint, join_federation

    folder, site, signer = join_federation(
        invitation,
        sites,
        folder,
        fingerprint=fingerprint,
        share_rows=share_rows,
        trust_code=trust_code,
    )
    key = folder / KEYS / f"{site.name}.pub"
    if not fingerprint:
        print_note(f"note: compare {signer} with what the operator of the server tells you")
    print_line(f"send {key} to the operator of the server; its fingerprint is "
               f"{compute_fingerprint(key)}")  # fmt: skip
    print_line(f"then: fedkg site run {folder}")


@site_app.command("run")
def run_site(folder: SiteFolder) -> None:
    """Take part in the federation until the command is stopped.

    \b
    Example:
      fedkg site run graz
    """
    _require_extra()
    from fedkg.deploy.site_service import run_site as serve_site

    serve_site(folder, print_note)


@site_app.command("doctor")
def doctor(folder: SiteFolder) -> None:
    """Check keys, invitation, connection, data and rules of a site, and time a round.

    Exit code 0: nothing keeps the site from taking part; 1: something does.

    \b
    Example:
      fedkg site doctor graz
    """
    _require_extra()
    from fedkg.deploy.site_doctor import examine_site

    findings = examine_site(folder)
    for finding in findings:
        state = {True: "ok", False: "problem", None: "not checked"}[finding.ok]
        print_line(f"{state:11}  {finding.what}: {finding.text}")
        if finding.help and not finding.ok:
            print_line(f"{'':11}  help: {finding.help}")
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(1)


@site_app.command("pause")
def pause(folder: SiteFolder) -> None:
    """Answer the server that the site pauses, until `fedkg site resume`.

    \b
    Example:
      fedkg site pause graz
    """
    from fedkg.deploy.site_service import pause_site

    pause_site(folder)
    print_line("paused; the server goes on without this site")


@site_app.command("resume")
def resume(folder: SiteFolder) -> None:
    """Take part again after `fedkg site pause`.

    \b
    Example:
      fedkg site resume graz
    """
    from fedkg.deploy.site_service import resume_site

    resume_site(folder)
    print_line("resumed")


@site_app.command("leave")
def leave(
    folder: SiteFolder,
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", help="How long to wait for the next request."),
    ] = 60.0,
) -> None:
    """Leave the federation: delete the site's keys, invitation and private state.

    The site's tables stay. What the site has sent remains part of the model.

    \b
    Example:
      fedkg site leave graz
    """
    from fedkg.deploy.site_service import leave_federation

    name, told = leave_federation(folder, seconds=wait)
    print_line(f"{name} has left; keys, invitation and private state are deleted")
    print_line("updates that the site sent remain part of the model: only a new run without the "
               "site removes them")  # fmt: skip
    if not told:
        print_note("note: the server was not told; ask its operator to run `fedkg federation "
                   f"dismiss FEDERATION {name}`")  # fmt: skip


def _require_extra() -> None:
    """Raise MissingExtra if the packages of deployments are not installed."""
    if any(find_spec(name) is None for name in ("flwr", "cryptography", "yaml", "torch")):
        raise MissingExtra("a federation of sites", "flower")


def _format_age(when: float) -> str:
    """The time since a moment, roughly."""
    seconds = max(0.0, time.time() - when)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
