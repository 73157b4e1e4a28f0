"""What the operator of the server does: run the federation, and see how it is going."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg.deploy.child_process import stop_on_sigterm
from fedkg.deploy.federation import RUN, dismiss_site, load_federation
from fedkg.deploy.message import Message
from fedkg.deploy.site_service import describe_departure
from fedkg.deploy.transport import Reply, Transport
from fedkg.errors import FederationError, Stopped
from fedkg.limits import parse_json, read_file

if TYPE_CHECKING:
    from fedkg.jobs import Run
    from fedkg.jobs.events import Event

STATUS = "status.json"

PRESENCE_S = 1.0
"""Seconds between two questions which sites are there, while the server waits for them."""


@dataclass(slots=True)
class SiteStatus:
    """What the server knows about a site.

    Attributes:
        last_seen: when it was present or answered last, in seconds since 1970; 0: never.
        round: the last round for which it answered.
        answers: number of answers with a result.
        failures: number of answers with an error.
        error: its last error; "" after an answer with a result.
        bytes_down, bytes_up: bytes of all requests and answers.
        left: whether it has left the federation.
    """

    last_seen: float = 0.0
    round: int = 0
    answers: int = 0
    failures: int = 0
    error: str = ""
    bytes_down: int = 0
    bytes_up: int = 0
    left: bool = False


@dataclass(slots=True)
class ServerStatus:
    """The state of a server, as `status.json` keeps it.

    Attributes:
        state: `waiting` for sites, `running`, `done`, `stopped` or `failed`; `lost` if the process
            is gone without a word.
        process: number of the server's process.
        since: when the state began, in seconds since 1970.
        error: why it failed.
        sites: status by name.
    """

    state: str = "new"
    process: int = 0
    since: float = 0.0
    error: str = ""
    sites: dict[str, SiteStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingTransport:
    """A transport that writes what it hears of sites to a file.

    Attributes:
        inner: what carries the messages.
        folder: the server's folder.
        status: what has been recorded so far.
        on_note: receives that a site has left.
    """

    inner: Transport
    folder: Path
    status: ServerStatus
    on_note: Callable[[str], None]

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`; sites that have left are not there."""
        found = tuple(name for name in self.inner.present() if not self._status_of(name).left)
        for name in found:
            self._status_of(name).last_seen = time.time()
        save_status(self.folder, self.status)
        return found

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """See `Transport.exchange`."""
        for reply in self.inner.exchange(requests, seconds=seconds):
            self._record(reply)
            yield reply

    def _record(self, reply: Reply) -> None:
        site = self._status_of(reply.site)
        site.last_seen, site.error = time.time(), reply.error
        site.bytes_down += reply.bytes_down
        site.bytes_up += reply.bytes_up
        if reply.message is None:
            site.failures += 1
        else:
            site.answers += 1
            site.round = max(site.round, reply.message.round)
        departure = describe_departure(reply.site)
        if reply.error.startswith(departure) and not site.left:
            site.left = True
            dismiss_site(self.folder, reply.site)
            self.on_note(f"{departure}: its updates so far remain part of the model")
        save_status(self.folder, self.status)

    def _status_of(self, name: str) -> SiteStatus:
        return self.status.sites.setdefault(name, SiteStatus())


def run_federation(
    folder: Path,
    on_note: Callable[[str], None],
    *,
    wait: float,
    on_event: Callable[[Event], None] | None = None,
) -> Run:
    """Start the SuperLink, wait for the sites, and train until the job is done.

    Args:
        folder: the server's folder.
        on_note: receives progress that the operator should know.
        wait: how long to wait for all sites before the first round, in seconds.
        on_event: receives the events of the training.

    Raises:
        UsageError, FederationError: the folder is wrong, no site is admitted or present, or the
            SuperLink does not run.
        JobError, FedkgError: the job cannot run.
        KeyboardInterrupt, Stopped: the process was stopped; no child is left.
    """
    federation = load_federation(folder)
    missing = [name for name, key in federation.sites.items() if not key]
    if missing and federation.node_keys():
        raise FederationError(
            "not all sites of the job are admitted",
            received=f"without a key: {', '.join(missing)}",
            help=f"fedkg federation admit {folder} NAME NAME.pub; or remove the site from the job "
            "and create the federation again",
        )
    if not federation.node_keys():
        raise FederationError(
            "no site is admitted",
            help=f"fedkg federation admit {folder} NAME NAME.pub, with the key of each site",
        )
    from fedkg.deploy.flower.settings import LOGS, flower_environment

    os.environ.update(flower_environment(folder))  # Flower reads some of it when it is imported
    from fedkg.deploy.flower.superlink import START_S, SuperLink
    from fedkg.deploy.flower.transport import FlowerTransport
    from fedkg.deploy.server import run_server
    from fedkg.jobs.events import ignore_event

    status = ServerStatus(sites=read_status(folder).sites)
    for name, key in federation.sites.items():
        status.sites[name].left &= not key  # a site that is admitted again takes part again
    _change_state(folder, status, "waiting")
    try:
        with stop_on_sigterm(), SuperLink(folder, federation) as link:
            grid = link.connect(START_S)
            if grid is None:
                raise FederationError(
                    "the SuperLink, the server process of Flower, does not answer",
                    help=f"see {folder / LOGS / 'superlink.log'}",
                )
            on_note(f"{federation.name} listens on {federation.address}")
            transport = RecordingTransport(
                inner=FlowerTransport(
                    grid=grid, sites=federation.node_keys(), reconnect=link.connect
                ),
                folder=folder,
                status=status,
                on_note=on_note,
            )
            _wait_for_sites(transport, set(federation.node_keys()), wait, on_note)
            _change_state(folder, status, "running")
            run = run_server(folder, transport, on_event=on_event or ignore_event)
    except (KeyboardInterrupt, Stopped):
        _change_state(folder, status, "stopped")
        raise
    except Exception as error:
        _change_state(folder, status, "failed", str(error))
        raise
    _change_state(folder, status, "done")
    return run


def read_status(folder: Path) -> ServerStatus:
    """The status of a server, while it runs and afterwards.

    Raises UsageError, FederationError: the folder is not that of a server, or damaged.
    """
    federation = load_federation(folder)
    found = ServerStatus(sites={name: SiteStatus() for name in federation.sites})
    if (folder / STATUS).exists():
        try:
            document: dict[str, Any] = parse_json(read_file(folder / STATUS), STATUS)
            sites = {name: SiteStatus(**site) for name, site in document.pop("sites").items()}
            found = ServerStatus(**{**document, "sites": found.sites | sites})
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise FederationError(
                f"{folder / STATUS} is damaged", help="delete it: it only holds figures"
            ) from error
    if found.state in ("waiting", "running") and not _is_alive(found.process):
        found.state = "lost"
    return found


def save_status(folder: Path, status: ServerStatus) -> None:
    """Replace `status.json` in one step."""
    partial = folder / f".{STATUS}.part"
    partial.write_text(json.dumps(asdict(status), indent=2), encoding="utf-8")
    partial.replace(folder / STATUS)


def describe_run(folder: Path) -> dict[str, Any] | None:
    """The finished rounds and figures of the run, as `fedkg status` shows them; None before it."""
    from fedkg.jobs.sweep.run_status import read_status as read_run

    return read_run(folder / RUN).document() if (folder / RUN).is_dir() else None


def _change_state(folder: Path, status: ServerStatus, state: str, error: str = "") -> None:
    status.state, status.error = state, error
    status.process, status.since = os.getpid(), time.time()
    save_status(folder, status)


def _wait_for_sites(
    transport: Transport, sites: set[str], seconds: float, on_note: Callable[[str], None]
) -> None:
    """Wait until all sites are present: the data of all is described before the first round."""
    end, told = time.monotonic() + seconds, None
    while missing := sites - set(transport.present()):
        if missing != told:
            told = missing
            on_note(f"waiting for {', '.join(sorted(missing))}")
        if time.monotonic() > end:
            raise FederationError(
                f"not all sites came within {seconds:g} s",
                received=f"missing: {', '.join(sorted(missing))}",
                help="start the sites with `fedkg site run SITE`; their log says what is wrong",
            )
        time.sleep(PRESENCE_S)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
