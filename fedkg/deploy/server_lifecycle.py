"""What the operator of the server does: run the federation, and see how it is going."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.child_process import stop_on_sigterm
from fedkg.deploy.federation_folders import (
    CHANGE,
    CHANGE_DOCUMENT,
    FEDERATION,
    RUN,
    Federation,
    dismiss_site,
    load_federation,
    read_json,
    remove_leftovers,
)
from fedkg.deploy.message import ROUND_KINDS, Message
from fedkg.deploy.site_lifecycle import ASKS_FOR_DELETION, describe_departure
from fedkg.deploy.transport import PRESENCE_S, Reply, Transport
from fedkg.errors import FederationError, Stopped
from fedkg.limits import parse_json, read_file

if TYPE_CHECKING:
    from fedkg.deploy.quorum_and_deadline_transport import RoundContract
    from fedkg.jobs import Run
    from fedkg.jobs.causes.run import CausesRun
    from fedkg.jobs.events import Event

STATUS = "status.json"
LOCK = "server.lock"
"""The server holds a lock on this file while it runs; the lock ends with the process."""


@dataclass(slots=True)
class SiteStatus:
    """What the server knows about a site.

    Attributes:
        last_seen: when it was present or answered last, in seconds since 1970; 0: never.
        round: the last round for which it sent an update.
        answers: number of answers with a result.
        failures: number of answers with an error.
        error: its last error; "" after an answer with a result.
        bytes_down, bytes_up: bytes of all requests and answers.
        left: whether it has left the federation.
        deletion: whether it has asked for the deletion of its data.
        admitted: whether the server knows its key.
    """

    last_seen: float = 0.0
    round: int = 0
    answers: int = 0
    failures: int = 0
    error: str = ""
    bytes_down: int = 0
    bytes_up: int = 0
    left: bool = False
    deletion: bool = False
    admitted: bool = False


@dataclass(slots=True)
class ServerStatus:
    """The state of a server, as `status.json` keeps it.

    Attributes:
        state: `waiting` for sites, `running`, `done`, `stopped` or `failed`; `lost` if the process
            ended without setting another, as its lock shows.
        since: when the state began, in seconds since 1970.
        error: why it failed.
        run: name of its run folder.
        trial: id of the training; "" before the first one.
        round: the round for which it asks, or has asked last.
        rounds: rounds of the training.
        round_since: when it asked first for this round.
        round_seconds: how long the round before took; 0 if it was the first one.
        asked: sites that take part in the round.
        needed: sites that must answer.
        deadline: seconds that the round may take.
        sites: status by name.
    """

    state: str = "new"
    since: float = 0.0
    error: str = ""
    run: str = RUN
    trial: str = ""
    round: int = 0
    rounds: int = 0
    round_since: float = 0.0
    round_seconds: float = 0.0
    asked: int = 0
    needed: int = 0
    deadline: float = 0.0
    sites: dict[str, SiteStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingTransport:
    """A transport that writes what it hears of sites to a file.

    Attributes:
        inner: what carries the messages.
        folder: the server's folder.
        contract: when a round ends.
        status: what has been recorded so far.
        on_note: receives that a site has left.
    """

    inner: Transport
    folder: Path
    contract: RoundContract
    status: ServerStatus
    on_note: Callable[[str], None]

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`. A site that has left is there again once it is admitted again:
        until then it has no key.
        """
        found = self.inner.present()
        for name in found:
            site = self._status_of(name)
            site.last_seen, site.left, site.deletion = time.time(), False, False
        save_status(self.folder, self.status)
        return found

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """See `Transport.exchange`."""
        first = next(iter(requests.values()), None)
        if first is not None and first.kind in ROUND_KINDS:
            self._begin_round(first, len(requests))
        for reply in self.inner.exchange(requests, seconds=seconds):
            self._record(reply)
            yield reply

    def _begin_round(self, request: Message, asked: int) -> None:
        """Note the first request of a round; later ones ask some sites again."""
        status, trial = self.status, str(request.fields.get("trial", ""))
        if (status.trial, status.round) == (trial, request.round):
            return
        follows = status.trial == trial and status.round == request.round - 1
        now = time.time()
        status.round_seconds = now - status.round_since if follows else 0.0
        status.trial, status.round, status.round_since = trial, request.round, now
        status.asked = asked
        status.needed = self.contract.needed(round(asked / self.contract.oversampling))
        status.deadline = self.contract.deadline
        save_status(self.folder, status)

    def _record(self, reply: Reply) -> None:
        site = self._status_of(reply.site)
        site.last_seen, site.error = time.time(), reply.error
        site.bytes_down += reply.bytes_down
        site.bytes_up += reply.bytes_up
        if reply.message is None:
            site.failures += 1
        else:
            site.answers += 1
            if reply.message.kind in ROUND_KINDS:
                site.round = reply.message.round
        departure = describe_departure(reply.site)
        if reply.error.startswith(departure) and not site.left:
            site.left, site.deletion = True, ASKS_FOR_DELETION in reply.error
            dismiss_site(self.folder, reply.site)
            self.on_note(f"{departure}: its updates so far remain part of the model")
            if site.deletion:
                self.on_note(
                    f"{reply.site} asks for the deletion of its data: stop the server, then "
                    f"`fedkg federation dismiss {self.folder} {reply.site} --delete`"
                )
        save_status(self.folder, self.status)

    def _status_of(self, name: str) -> SiteStatus:
        return self.status.sites.setdefault(name, SiteStatus())


def run_federation(
    folder: Path,
    on_note: Callable[[str], None],
    *,
    wait: float,
    without: Collection[str] = (),
    on_event: Callable[[Event], None] | None = None,
) -> Run | CausesRun:
    """Start the SuperLink, wait for the sites, and train until the job is done.

    Sites can be admitted and dismissed meanwhile.

    Args:
        folder: the server's folder.
        on_note: receives progress that the operator should know.
        wait: how long to wait for all sites before the first round, in seconds.
        without: see `fedkg.deploy.server.run_server`.
        on_event: receives the events of the training.

    Raises:
        UsageError, FederationError: the folder is wrong, another server uses it, a site has left
            or is not present, or the SuperLink does not run.
        JobError, FedkgError: the job cannot run.
        KeyboardInterrupt, Stopped: the process was stopped; no child is left.
    """
    federation = load_federation(folder)
    with _locked(folder):
        remove_leftovers(folder)
        return _run(folder, federation, on_note, wait, without, on_event)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other servers away from the folder. Raises FederationError."""
    with (folder / LOCK).open("w") as lock:
        for is_last in (False, True):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if is_last:
                    raise FederationError(
                        f"another `fedkg server run` already uses {folder}",
                        help=f"`fedkg server status {folder}` shows its state; stop it first",
                    ) from error
                time.sleep(0.2)  # `_is_locked` may have held it for a moment
        yield


def _is_locked(folder: Path) -> bool:
    """Whether a server runs, also in another container that shares the folder."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no server has run here, or the file system has no locks
        return False
    return False


def _run(
    folder: Path,
    federation: Federation,
    on_note: Callable[[str], None],
    wait: float,
    without: Collection[str],
    on_event: Callable[[Event], None] | None,
) -> Run | CausesRun:
    from fedkg.deploy.flower.app_and_environment import LOGS, flower_environment

    os.environ.update(flower_environment(folder))  # Flower reads some of it when it is imported
    from fedkg.deploy.federation_job_and_pack import JobFiles
    from fedkg.deploy.flower.superlink import START_S, SuperLink
    from fedkg.deploy.flower.transport import FlowerTransport
    from fedkg.deploy.quorum_and_deadline_transport import can_start
    from fedkg.deploy.server import list_dispensable, read_site_names, run_folder, run_server
    from fedkg.jobs.events import ignore_event

    files = JobFiles.read(folder)
    names, contract = read_site_names(folder, files, without), files.contract()
    run = run_folder(folder, without)
    dispensable = list_dispensable(folder, run, files, names)
    sites = read_status(folder).sites
    gone = [
        name for name in names if name in sites and sites[name].left and name not in dispensable
    ]
    if gone:
        raise FederationError(
            f"{', '.join(gone)} left the federation, and no run can start or continue with "
            f"{'it' if len(gone) == 1 else 'them'}",
            help="to train with the other sites: fedkg server run "
            f"{folder} --without {','.join([*without, *gone])}; or invite the site again (`fedkg "
            "federation invite`) and admit it",
        )
    status = ServerStatus(sites=sites, run=run.path.name)
    _change_state(folder, status, "waiting")

    def listen(event: Event) -> None:
        status.rounds = event.rounds or status.rounds
        (on_event or ignore_event)(event)

    try:
        with stop_on_sigterm(), SuperLink(folder, federation) as link:
            grid = link.connect(START_S)
            if grid is None:
                raise FederationError(
                    "the SuperLink (Flower's server process) does not answer",
                    help=f"{folder / LOGS / 'superlink.log'} shows why; correct the cause, and "
                    "start the server again",
                )
            on_note(f"{federation.name} listens on {federation.address}")
            admitted = AdmittedKeys(folder, link.admit, federation.node_keys())
            transport = RecordingTransport(
                inner=FlowerTransport(
                    grid=grid, sites=admitted.keys, reconnect=link.connect, admitted=admitted
                ),
                folder=folder,
                contract=contract,
                status=status,
                on_note=on_note,
            )
            left = {name for name in names if name in sites and sites[name].left}
            enough = partial(can_start, contract, names, dispensable)
            if not _wait_for_sites(folder, transport, names, left, wait, on_note, enough) or left:
                wait = 0  # it has passed
            _change_state(folder, status, "running")
            found = run_server(folder, transport, on_event=listen, without=without, wait=wait)
    except (KeyboardInterrupt, Stopped):
        _change_state(folder, status, "stopped")
        raise
    except Exception as error:
        _change_state(folder, status, "failed", str(error))
        raise
    _change_state(folder, status, "done")
    return found


class AdmittedKeys:
    """The keys of the admitted sites, read again when the operator has changed them.

    Args:
        folder: the folder of the server.
        register: makes keys known to the SuperLink.
        keys: the keys that it knows.
    """

    def __init__(
        self, folder: Path, register: Callable[[Collection[bytes]], None], keys: Mapping[str, bytes]
    ) -> None:
        self._file, self._register, self.keys = folder / FEDERATION, register, keys
        self._changed = 0

    def __call__(self) -> Mapping[str, bytes]:
        """The keys now, by site."""
        changed = self._file.stat().st_mtime_ns
        if changed != self._changed:
            keys = load_federation(self._file.parent).node_keys()
            self._register(keys.values())
            self.keys, self._changed = keys, changed
        return self.keys


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
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            raise FederationError(
                f"{folder / STATUS} is damaged, or a fedkg of a different version wrote it",
                received=f"no field {error}" if isinstance(error, KeyError) else str(error),
                help="delete it: it only contains what `fedkg server status` shows, and which "
                "sites have left",
            ) from error
    for name, key in federation.sites.items():
        site = found.sites[name]
        site.admitted = bool(key)
        if key:  # a site that is admitted again takes part again
            site.left = site.deletion = False
    if is_running(found) and not _is_locked(folder):
        found.state = "lost"
    return found


def is_running(status: ServerStatus) -> bool:
    """Whether a server waits or trains."""
    return status.state in ("waiting", "running")


def save_status(folder: Path, status: ServerStatus) -> None:
    """Replace `status.json` in one step."""
    replace_file(folder / STATUS, json.dumps(asdict(status), indent=2).encode())


def describe_run(folder: Path) -> dict[str, Any] | None:
    """The finished rounds and figures of the run, as `fedkg status` shows them; None before it, and
    for a causal discovery, which has none.
    """
    from fedkg.deploy.federation_job_and_pack import JobFiles
    from fedkg.jobs.folder import RunFolder
    from fedkg.jobs.sweep.run_status import read_status as read_run

    run = folder / read_status(folder).run
    if not RunFolder(run).exists() or JobFiles.read(folder).is_discovery:
        return None  # a server that starts has created the folder alone
    return read_run(run).document()


def load_change_fields(folder: Path) -> dict[str, Any]:
    """The open change of the rules, as fields of `RuleChange`; empty if there is none. `Any`: JSON.

    It does not load the libraries that training needs.
    """
    path = folder / CHANGE / CHANGE_DOCUMENT
    return read_json(path, "`fedkg server change-rules`") if path.exists() else {}


def _change_state(folder: Path, status: ServerStatus, state: str, error: str = "") -> None:
    status.state, status.error = state, error
    status.since = time.time()
    save_status(folder, status)


def _wait_for_sites(
    folder: Path,
    transport: Transport,
    names: Collection[str],
    left: Collection[str],
    seconds: float,
    on_note: Callable[[str], None],
    enough: Callable[[Collection[str]], bool],
) -> bool:
    """Wait until all sites are present: the data of all is described before the first round.

    Args:
        names: of the sites.
        left: those among them that will not come.
        enough: whether a run can continue without some sites if they do not come in time.

    Returns:
        Whether all that have not left are present.
    """
    end, told = time.monotonic() + seconds, ""
    while missing := set(names) - set(left) - set(transport.present()):
        keys = load_federation(folder).sites
        text = ", ".join(
            name if keys.get(name) else f"{name} (not admitted)" for name in sorted(missing)
        )
        if text != told:
            told = text
            on_note(f"waiting for {text}")
        if time.monotonic() > end:
            if enough(missing | set(left)):
                return False
            raise FederationError(
                f"not all sites came within {seconds:g} s",
                received=f"missing: {text}",
                help="admit each site with `fedkg federation admit "
                f"{folder} NAME KEY.pub`; its operator starts it with `fedkg site run SITE`, and "
                "sees with `fedkg site status SITE` what is wrong",
            )
        time.sleep(PRESENCE_S)
    return True
