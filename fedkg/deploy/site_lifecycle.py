"""What the operator of a site does: run it, pause it, resume it, leave the federation."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event

from fedkg import exclusion_reasons
from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.child_process import stop_on_sigterm, supervise
from fedkg.deploy.federation_folders import (
    INVITATION,
    KEYS,
    LEFT,
    PAUSED,
    RULES,
    SOCKET,
    STATE,
    load_federation,
    load_site,
    remove_leftovers,
    verify_invitation,
)
from fedkg.deploy.flower.app_and_environment import LOGS
from fedkg.deploy.site_process import answer_requests, ask, is_served, listen, repeat_last_answer
from fedkg.deploy.site_status import STATUS, ActivityLog, read_activity
from fedkg.errors import FederationError, UsageError

DELETE, ASKS_FOR_DELETION = "delete", "and asks for the deletion of its data"
"""Content of the file `left` of a site that asks the server for deletion, and how it says so."""

OWN_FILES = (LOGS, STATUS, PAUSED, "site.lock", SOCKET)
"""Files and folders that a site process writes, besides keys, invitations and state."""

LAST_ANSWER_S = 30.0
"""Seconds in which the last answer of a site that leaves reaches the server."""

CHECK_S = 0.2


def run_site(folder: Path, on_note: Callable[[str], None]) -> None:
    """Answer the requests of the server until the process is stopped or the site leaves.

    Args:
        on_note: receives what the operator should know: why there is no connection.

    Raises:
        UsageError, FederationError: the folder is not that of a site, the site has left, or its
            invitation was changed or signed by another key than when the site joined.
        KeyboardInterrupt: the process was stopped; no child is left.
    """
    folder = folder.resolve()  # Flower gets the whole path of the socket, whose length is limited
    site = load_site(folder)
    _require_member(folder, site.name)
    verify_invitation(folder / INVITATION, site.signer)
    from fedkg.deploy.flower.supernode import CONNECTED, create_node, explain_end, has_answered
    from fedkg.deploy.site import open_site

    with stop_on_sigterm(), listen(folder / SOCKET) as listener:
        remove_leftovers(folder)
        handle, departed = open_site(folder), Event()
        address = load_federation(folder / INVITATION).address
        on_note(f"site {site.name} connects to the server at {address}; Ctrl-C stops it")
        log = ActivityLog(folder, on_note)

        def look(text: str) -> None:
            if CONNECTED in text:
                log.connect(address)

        # a site that has left or pauses repeats no answer
        guarded = log.watch(_guard(folder, site.name, repeat_last_answer(handle), departed))
        node = create_node(folder)
        with supervise(node, lambda text: log.disconnect(explain_end(text, folder)), look):
            answer_requests(guarded, listener, until=departed.is_set)
            end = time.monotonic() + LAST_ANSWER_S
            while time.monotonic() < end and not has_answered(node.read_log()):
                time.sleep(CHECK_S)


def pause_site(folder: Path) -> None:
    """Answer requests with an error until `resume_site`; connection and state stay."""
    _require_member(folder, load_site(folder).name)
    (folder / PAUSED).touch()


def resume_site(folder: Path) -> None:
    """End a pause."""
    _require_member(folder, load_site(folder).name)
    (folder / PAUSED).unlink(missing_ok=True)


KEPT_AT_LEAVING = ("site.json", LEFT)
"""Files that a site keeps after it has left: its name, and that it has left."""


def leave_federation(
    folder: Path, *, seconds: float, delete: bool = False
) -> tuple[str, bool, tuple[str, ...]]:
    """Delete the keys, the invitations and the private state of a site.

    If the site runs, its next answer tells the server that it has left.

    Args:
        folder: the folder of the site.
        seconds: how long to wait for the next request of the server.
        delete: whether to ask the server to delete what it has of the site, and to delete logs and
            status here too.

    Returns:
        The name of the site, whether the server was told, and what was deleted here.

    Raises UsageError, FederationError: the folder is not that of a site, it has left, its process
        does not end, or a file cannot be deleted.
    """
    site = load_site(folder)
    if not (folder / KEYS).exists():  # a departure that was interrupted is completed
        _require_member(folder, site.name)
    replace_file(folder / LEFT, DELETE.encode() if delete else b"")
    end = time.monotonic() + seconds
    running = is_served(folder / SOCKET)
    while (folder / SOCKET).exists() and running and time.monotonic() < end:
        time.sleep(CHECK_S)
    told = running and _has_told(folder, site.name)
    if running and (folder / SOCKET).exists():
        with suppress(FederationError):
            ask(folder / SOCKET, b"", seconds=LAST_ANSWER_S)  # any request ends it now
        end = time.monotonic() + LAST_ANSWER_S
        while (folder / SOCKET).exists() and time.monotonic() < end:
            time.sleep(CHECK_S)
        if is_served(folder / SOCKET):
            raise FederationError(
                f"site {site.name} is still computing an answer, so nothing was deleted",
                help="stop `fedkg site run`, then run `fedkg site leave` again",
            )
    gone = [name for name in (STATE, INVITATION, RULES) if (folder / name).exists()]
    if delete:
        gone += sorted(
            path.name
            for path in folder.iterdir()
            if path.name not in (*gone, *KEPT_AT_LEAVING) and path.name in OWN_FILES
        )
    if (folder / KEYS).exists():
        gone.append(KEYS)  # last: as long as they are there, a departure can be completed
    for name in gone:
        try:
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise FederationError(
                f"{folder / name} could not be deleted",
                received=str(error),
                help="correct the cause, then run `fedkg site leave` again: it deletes the rest",
            ) from error
    return site.name, told, tuple(gone)


def _has_told(folder: Path, name: str) -> bool:
    """Whether the last answer of the site process was that the site has left."""
    with suppress(FederationError):
        return read_activity(folder).error.startswith(describe_departure(name))
    return False


def describe_departure(site: str) -> str:
    """The start of the error with which a site answers after it has left."""
    return f"site {site} {exclusion_reasons.LEFT}"


def _require_member(folder: Path, name: str) -> None:
    if (folder / LEFT).exists():
        raise UsageError(
            describe_departure(name),
            help="to join again, ask the operator of the server for an invitation",
        )


def _guard(
    folder: Path, name: str, handle: Callable[[bytes], bytes], departed: Event
) -> Callable[[bytes], bytes]:
    """Answer only while the site takes part; set `departed` when the server learns that it left."""

    def answer(request: bytes) -> bytes:
        if (folder / LEFT).exists():
            departed.set()
            asks = f" {ASKS_FOR_DELETION}" if (folder / LEFT).read_text() == DELETE else ""
            raise FederationError(describe_departure(name) + asks)
        if (folder / PAUSED).exists():
            raise FederationError(f"site {name} {exclusion_reasons.PAUSED}")
        return handle(request)

    return answer
