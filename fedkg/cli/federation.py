"""`fedkg federation`, `fedkg server` and `fedkg site`: sites train together and keep their data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, print_note
from fedkg.cli.observation_options import (
    LOOPBACK,
    MetricsAddress,
    MetricsPort,
    Notify,
    Track,
    create_observation,
)
from fedkg.errors import MissingExtra, UsageError, describe_install

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
    simulation: Annotated[
        bool, typer.Option("--simulation", help="All sites are on this computer, without keys.")
    ] = False,
    trust_code: Annotated[
        bool,
        typer.Option(
            "--trust-code",
            help="Run the Python code of the job at the server, and put it into invitations.",
        ),
    ] = False,
) -> None:
    """Create a federation: compile its rules, create its keys, and write an invitation per site.

    With --simulation, `flwr run FEDERATION/app` simulates all sites of the job's sites file.

    \b
    Example:
      fedkg federation init job.yaml -o plants --address fed.example.org:9092
    """
    _require_extra()
    from fedkg.deploy.federation_folders import (
        INVITATIONS,
        KEYS,
        SIGNER,
        compute_fingerprint,
        create_federation,
    )

    if simulation:
        from fedkg.deploy.flower.simulation_folder import create_simulation

        if sites:
            raise UsageError(
                "--simulation uses all sites of the sites file, so it cannot be combined with "
                "--sites",
                received=sites,
                help="leave out --sites",
            )
        simulated = create_simulation(job, folder)
        print_line(
            f"{count_noun(len(simulated.sites), 'site')}; simulate: flwr run {folder / 'app'}"
        )
        return
    created = create_federation(
        job, folder, address=address, sites=_read_names(sites), trust_code=trust_code
    )
    for name in created.sites:
        print_line(f"{name}: send {folder / INVITATIONS / f'{name}.zip'}")
    print_line(
        f"tell the sites over another channel: {compute_fingerprint(folder / KEYS / SIGNER)}"
    )
    print_line(f"what to write to a site: fedkg federation invite {folder} NAME")


@federation_app.command("invite")
def invite(
    folder: ServerFolder, name: Annotated[str, typer.Argument(metavar="NAME", help="The site.")]
) -> None:
    """Write the invitation of a site again, and show what to send to its operator.

    \b
    Example:
      fedkg federation invite plants graz
    """
    _require_extra()
    from fedkg.deploy.federation_folders import KEYS, SIGNER, compute_fingerprint, invite_site

    path = invite_site(folder, name)
    signer = compute_fingerprint(folder / KEYS / SIGNER)
    print_line(f"send {path} and these lines to the operator of {name}:")
    print_line(f"  {describe_install('flower')}; describe your table in SITES.yaml")
    print_line(f"  fedkg site join {path.name} --sites SITES.yaml --fingerprint FINGERPRINT")
    print_line(f"  send {name}/{KEYS}/{name}.pub back, then: fedkg site run {name}")
    print_line(f"tell the fingerprint over another channel, such as a telephone: {signer}")


@federation_app.command("admit")
def admit(
    folder: ServerFolder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site.")],
    key: Annotated[
        Path, typer.Argument(metavar="KEY.pub", help="The public key that the site sent.")
    ],
) -> None:
    """Let the node with this key take part as a site, also while the server runs.

    \b
    Example:
      fedkg federation admit plants graz graz.pub
    """
    _require_extra()
    from fedkg.deploy.federation_folders import admit_site, compute_fingerprint

    admitted = admit_site(folder, name, key)
    missing = [site for site, known in admitted.sites.items() if not known]
    print_line(f"{name} is admitted with the key {compute_fingerprint(key)}")
    print_line(f"not admitted yet: {', '.join(missing)}" if missing else "all sites are admitted")


@federation_app.command("dismiss")
def dismiss(
    folder: ServerFolder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site.")],
    delete: Annotated[
        bool,
        typer.Option("--delete", help="Delete what the server has of the site, and record it."),
    ] = False,
) -> None:
    """Reject the node of a site, also while the server runs.

    \b
    Examples:
      fedkg federation dismiss plants graz
      fedkg federation dismiss plants graz --delete
    """
    _require_extra()
    from fedkg.deploy.federation_folders import dismiss_site

    if delete:
        from fedkg.deploy.deletion import DELETIONS, delete_site

        found = delete_site(folder, name)
        print_line(f"{name} is dismissed; recorded in {folder / DELETIONS}")
        for title, lines in (("deleted", found.deleted), ("remains", found.remains)):
            for line in lines:
                print_line(f"{title}: {line}")
    else:
        dismiss_site(folder, name)
        print_line(f"{name} is dismissed; its updates so far remain part of the model")
    print_line(f"to train without it: fedkg server run {folder} --without {name}")


@federation_app.command("bundle")
def bundle(
    path: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.zip", help="The file to write.")
    ],
    wheels: Annotated[
        bool, typer.Option("--wheels", help="Add the packages themselves; pip downloads them.")
    ] = False,
) -> None:
    """Write what a machine without a network needs to install fedkg: versions and instructions.

    \b
    Example:
      fedkg federation bundle -o fedkg-offline.zip --wheels
    """
    _require_extra()
    from fedkg.cli.output_files import check_output_path
    from fedkg.deploy.offline_install_bundle import write_bundle

    check_output_path(path, "fedkg-offline.zip")
    packages = write_bundle(path, wheels=wheels)
    added = f", {path.stat().st_size / 2**20:.0f} MiB of wheels" if wheels else ""
    print_line(f"{path}: {count_noun(len(packages), 'package')} with versions, INSTALL.md{added}")


@server_app.command("run")
def run_server(
    folder: ServerFolder,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for all sites.")
    ] = 600.0,
    without: Annotated[
        str,
        typer.Option(
            "--without",
            metavar="a,b",
            help="Train from the first round on as if the federation never had these sites.",
        ),
    ] = "",
    track: Track = None,
    notify: Notify = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
) -> None:
    """Train the federation: connect the sites, run all rounds, and write the report.

    Started again, it continues after the last round. Each choice of `--without` is another run,
    with the same job and seed, in FEDERATION/run-without-NAME.

    \b
    Examples:
      fedkg server run plants
      fedkg server run plants --without graz
    """
    _require_extra()
    from fedkg.cli.progress import ProgressDisplay
    from fedkg.deploy.server_lifecycle import run_federation
    from fedkg.operations.run_event_listeners import observe

    observation = create_observation(track, notify, metrics_port, metrics_address)
    with ProgressDisplay() as display, observe(observation, display) as listen:
        run = run_federation(
            folder, print_note, wait=wait, without=_read_names(without), on_event=listen
        )
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

    from fedkg.deploy.server_lifecycle import (
        describe_run,
        is_running,
        load_change_fields,
        read_status,
    )

    found = read_status(folder)
    run, change = describe_run(folder), load_change_fields(folder)
    if as_json:
        print_json({"server": asdict(found), "rule_change": change or None, "run": run})
        return
    age = f" for {_format_age(found.since)}" if is_running(found) else ""
    print_line(f"server: {found.state}{age}" + (f": {found.error}" if found.error else ""))
    if found.state == "running" and found.round:
        answered = [
            site
            for site in found.sites.values()
            if site.round == found.round and site.last_seen >= found.round_since and not site.error
        ]
        left = max(0.0, found.round_since + found.deadline - time.time())
        print_line(
            f"round {found.round} of {found.rounds} of {found.trial}: {len(answered)} of "
            f"{count_noun(found.asked, 'site')} answered, {found.needed} needed; the round ends in "
            f"{_format_seconds(left)} at the latest"
        )
        if found.round_seconds:
            rest = found.round_seconds * max(0, found.rounds - found.round)
            print_line(
                f"about {_format_seconds(rest)} for the rounds after it: the last one took "
                f"{_format_seconds(found.round_seconds)}"
            )
    for name, site in sorted(found.sites.items()):
        seen = (
            "never seen"
            if not site.last_seen
            else f"last contact {_format_age(site.last_seen)} ago"
        )
        state = f"has left{' and asks for deletion' * site.deletion}" if site.left else seen
        if not site.admitted and not site.left:
            state = f"not admitted, {seen}"
        print_line(
            f"{name}: {state}, {count_noun(site.answers, 'answer')}, "
            f"{count_noun(site.failures, 'failure')}, last round {site.round}"
            + (f"; {site.error.splitlines()[0]}" if site.error else "")
        )
    if change:
        _show_change(change, list(found.sites))
    for one in (run or {}).get("runs", ()):
        for trial in one["trials"]:
            print_line(f"{trial['id']}: round {trial['round']} of {trial['rounds']}")


@server_app.command("change-rules")
def change_rules(
    folder: ServerFolder,
    rules: Annotated[
        list[str] | None,
        typer.Argument(metavar="RULES...", help="A pack, or rule files with their graphs."),
    ] = None,
    back: Annotated[
        bool,
        typer.Option("--roll-back", help="Withdraw an open change, or return to the rules before."),
    ] = False,
) -> None:
    """Propose other rules to the sites, also while the server runs.

    The server signs job and rules again. Between two rounds, it sends them to the sites, and uses
    them as soon as the `quorum` of the job has confirmed them (`fedkg site confirm`). Each change
    is recorded in `rule_changes.csv` of the run and in the report.

    \b
    Examples:
      fedkg server change-rules plants rules.fkg
      fedkg server change-rules plants --roll-back
    """
    _require_extra()
    if back == bool(rules):
        raise UsageError(
            "give either the new rules or --roll-back",
            received="both" if back else "neither",
            help="fedkg server change-rules FEDERATION RULES.fkg, or fedkg server change-rules "
            "FEDERATION --roll-back",
        )
    from fedkg.deploy.rule_change import propose_rules, roll_back

    found = roll_back(folder) if back else propose_rules(folder, rules or ())
    if found is None:
        print_line("the open change is withdrawn; the rules stay as they are")
        return
    for line in found.difference:
        print_line(line)
    print_line(f"proposed: rules {found.pack[:16]} in place of {found.previous[:16]}")
    print_line(f"the sites see them between two rounds; see: fedkg server status {folder}")


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
            help="What `federation init` printed; without it, the site accepts the key of the "
            "invitation, which may be forged, and later no other.",
        ),
    ] = "",
    share_rows: Annotated[
        bool, typer.Option("--share-rows", help="Hand rows to the server if the job asks for them.")
    ] = False,
    accept_rule_changes: Annotated[
        bool,
        typer.Option("--accept-rule-changes", help="Use new rules of the server without asking."),
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
    from fedkg.deploy.federation_folders import (
        INVITATION,
        KEYS,
        compute_fingerprint,
        join_federation,
    )
    from fedkg.deploy.stated_messages import describe_messages, read_messages

    folder, site, signer = join_federation(
        invitation,
        sites,
        folder,
        fingerprint=fingerprint,
        share_rows=share_rows,
        accept_rule_changes=accept_rule_changes,
        trust_code=trust_code,
    )
    for line in describe_messages(read_messages(folder / INVITATION)):
        print_note(f"sent in each round: {line}")
    key = folder / KEYS / f"{site.name}.pub"
    if not fingerprint:
        print_note(f"note: from now on the site accepts only the key {signer}; compare it with "
                   "what the operator of the server tells you")  # fmt: skip
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
    from fedkg.deploy.site_lifecycle import run_site as serve_site

    serve_site(folder, print_note)


@site_app.command("status")
def show_site(folder: SiteFolder, as_json: AsJson = False) -> None:
    """Show connection, last round and what was sent, and what to do next.

    \b
    Example:
      fedkg site status graz
    """
    from dataclasses import asdict

    from fedkg.deploy.site_status import read_report

    found = read_report(folder)
    if as_json:
        print_json(asdict(found))
        return
    one = found.activity
    since = one.since if found.state in ("connected", "not connected") else 0.0
    print_line(
        f"{found.name}: {found.state}"
        + (f" for {_format_age(since)}" if since else "")
        + (f": {one.cause}" if found.state == "not connected" and one.cause else "")
    )
    if one.last_request:
        print_line(
            f"last round {one.round}; last request {_format_age(one.last_request)} ago; "
            f"{one.bytes_up:,} bytes sent, {one.bytes_down:,} received"
        )
        print_line("sent: " + ", ".join(f"{number} x {what}" for what, number in one.sent.items()))
    for title, text in (("not used", one.excluded), ("last error", one.error)):
        if text:
            print_line(f"{title}: {text}")
    for rules in found.rules:
        print_line(f"the server proposed other rules {_format_age(rules.received)} ago:")
        for line in rules.difference:
            print_line(f"  {line}")
    print_line(f"next: {found.next or 'nothing; the server asks'}")


@site_app.command("confirm")
def confirm(folder: SiteFolder) -> None:
    """Accept the rules that the server proposes; `fedkg site status` shows them first.

    \b
    Example:
      fedkg site confirm graz
    """
    from fedkg.deploy.proposed_rule_confirmation import ProposedRules, confirm_rules

    def show(rules: ProposedRules) -> None:
        for line in rules.difference:
            print_line(line)

    found = confirm_rules(folder, show)
    print_line(f"confirmed: rules {found.pack[:16]}; the server learns it after its next round")


@site_app.command("doctor")
def doctor(folder: SiteFolder) -> None:
    """Check keys, invitation, connection, data and rules of a site, time a round, and list what
    leaves the site.

    Exit code 0: nothing keeps the site from taking part; 1: something does. A server that does not
    run yet is a note: `fedkg site run` waits for it.

    \b
    Example:
      fedkg site doctor graz
    """
    _require_extra()
    from fedkg.deploy.site_doctor import examine_site

    findings = examine_site(folder)
    for finding in findings:
        state = {True: "ok", False: "problem", None: "note"}[finding.ok]
        print_line(f"{state:7}  {finding.what}: {finding.text}")
        if finding.help and not finding.ok:
            print_line(f"{'':7}  help: {finding.help}")
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(1)


@site_app.command("pause")
def pause(folder: SiteFolder) -> None:
    """Answer the server that the site pauses, until `fedkg site resume`.

    \b
    Example:
      fedkg site pause graz
    """
    from fedkg.deploy.site_lifecycle import pause_site

    pause_site(folder)
    print_line("paused; the server gets no update of this site until `fedkg site resume`")


@site_app.command("resume")
def resume(folder: SiteFolder) -> None:
    """Take part again after `fedkg site pause`.

    \b
    Example:
      fedkg site resume graz
    """
    from fedkg.deploy.site_lifecycle import resume_site

    resume_site(folder)
    print_line("resumed")


@site_app.command("leave")
def leave(
    folder: SiteFolder,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for a request.")
    ] = 60.0,
    delete: Annotated[
        bool,
        typer.Option("--delete", help="Also delete logs, and ask the server to delete your data."),
    ] = False,
) -> None:
    """Leave the federation: delete the site's keys, invitation and private state.

    The site's tables stay. What the site has sent remains part of the model. `fedkg site run` tells
    the server in its answer to the next request. If it is not running, or no request comes within
    --wait, the site leaves anyway, and the server's operator must run `fedkg federation dismiss`.

    \b
    Examples:
      fedkg site leave graz
      fedkg site leave graz --delete
    """
    from fedkg.deploy.site_lifecycle import leave_federation

    name, told, gone = leave_federation(folder, seconds=wait, delete=delete)
    print_line(f"{name} has left; deleted here: {', '.join(gone) or 'nothing was left'}")
    print_line(f"kept here: your tables, {folder / 'site.json'} and the mark {folder / 'left'}")
    option = " --delete" if delete else ""
    if delete:
        print_line("the server deletes your key, invitation, and rows about you in tables and "
                   "reports when its operator runs `fedkg federation dismiss FEDERATION "
                   f"{name} --delete`")  # fmt: skip
    print_line("updates that the site sent remain part of the model: only a new run without the "
               f"site removes them (`fedkg server run FEDERATION --without {name}`)")  # fmt: skip
    if not told:
        print_note("note: the server does not know that the site left; ask its operator to run "
                   f"`fedkg federation dismiss FEDERATION {name}{option}`")  # fmt: skip


def _require_extra() -> None:
    """Raise MissingExtra if the packages of deployments are not installed."""
    if any(find_spec(name) is None for name in ("flwr", "cryptography", "yaml", "torch")):
        raise MissingExtra("a federation of sites", "flower")


def _read_names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _show_change(change: Mapping[str, Any], sites: list[str]) -> None:
    """Print a change of the rules that is not complete. `Any`: JSON."""
    waiting = [name for name in sites if name not in change["confirmed"]]
    state = "used; not confirmed by" if change["adopted"] else "proposed; waits for"
    print_line(f"new rules {change['pack'][:16]}: {state} {', '.join(waiting) or 'the next round'}")
    for line in change["difference"]:
        print_line(f"  {line}")
    for name, why in change["problems"].items():
        print_line(f"  {name} does not accept them: {why}")


def _format_age(when: float | str) -> str:
    """The time since a moment (seconds since 1970, or ISO 8601), roughly."""
    moment = datetime.fromisoformat(when).timestamp() if isinstance(when, str) else when
    return _format_seconds(max(0.0, time.time() - moment))


def _format_seconds(seconds: float) -> str:
    """A duration, roughly."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
