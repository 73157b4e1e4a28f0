"""What the operator of a site sees: connection, rounds, what was sent, and what to do next."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from fedkg._internal.atomic_file import replace_file
from fedkg._internal.safe_text import escape_hidden
from fedkg.deploy.federation_folders import LEFT, PAUSED, SOCKET, load_site
from fedkg.deploy.message import read_head
from fedkg.deploy.proposed_rule_confirmation import ProposedRules, list_proposed
from fedkg.deploy.site_process import is_served
from fedkg.errors import FederationError, FedkgError, join_lines
from fedkg.limits import parse_json, read_file

STATUS = "status.json"

SHOWN_CHARACTERS = 500
"""Length of a text from the server that is shown."""

STEPS = {"summary": "summary of the table", "join": "counts of rules", "trial": "counts of labels"}
"""What a site sends in each step of the preparation."""


@dataclass(slots=True)
class SiteActivity:
    """What a site process has done, as `status.json` keeps it. Times are seconds since 1970.

    Attributes:
        started: when the process started; 0: never.
        connected: whether its SuperNode is connected to the server.
        since: when that began.
        cause: why it is not connected; "" if it is, or has not tried yet.
        round: the last round for which it sent an update.
        last_request: when the last request of the server was answered.
        sent: how often it sent each kind of answer.
        bytes_down, bytes_up: bytes of requests and answers.
        error: why the last request failed; "" if it did not.
        excluded: why the server did not use the update of a round, for the last such round.
    """

    started: float = 0.0
    connected: bool = False
    since: float = 0.0
    cause: str = ""
    round: int = 0
    last_request: float = 0.0
    sent: dict[str, int] = field(default_factory=dict)
    bytes_down: int = 0
    bytes_up: int = 0
    error: str = ""
    excluded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """The state of a site.

    Attributes:
        name: the site.
        state: `left`, `not started`, `stopped`, `paused`, `not connected`, or `connected`.
        activity: what its process has done.
        rules: rules that wait for a confirmation.
        next: what its operator should do; "" if nothing.
    """

    name: str
    state: str
    activity: SiteActivity
    rules: tuple[ProposedRules, ...]
    next: str


def read_report(folder: Path) -> SiteReport:
    """The state of a site, while its process runs and afterwards.

    Raises UsageError, FederationError: the folder is not that of a site, or damaged.
    """
    site, activity = load_site(folder), read_activity(folder)
    rules = tuple(one for one in list_proposed(folder) if not one.confirmed)
    if (folder / LEFT).exists():
        state, advice = "left", "nothing: the site has left; to take part again, join again"
    elif not is_served(folder / SOCKET):
        state = "stopped" if activity.started else "not started"
        advice = f"fedkg site run {folder}"
    elif (folder / PAUSED).exists():
        state, advice = "paused", f"fedkg site resume {folder}"
    elif not activity.connected:
        state, advice = "not connected", f"fedkg site doctor {folder}"
    else:
        state, advice = "connected", ""
    if rules and state != "left":
        advice = f"fedkg site confirm {folder}"
    return SiteReport(name=site.name, state=state, activity=activity, rules=rules, next=advice)


def read_activity(folder: Path) -> SiteActivity:
    """What the process of a site has done. Raises FederationError: its file is damaged."""
    path = folder / STATUS
    if not path.exists():
        return SiteActivity()
    try:
        document: dict[str, Any] = parse_json(read_file(path), STATUS)
        return SiteActivity(**document)
    except (TypeError, ValueError, OSError) as error:
        raise FederationError(
            f"{path} is damaged, or a fedkg of a different version wrote it",
            received=str(error),
            help="delete it: it only contains what `fedkg site status` shows",
        ) from error


class ActivityLog:
    """Writes what a site process does to `status.json`, and tells its operator.

    A full disk or a closed terminal does not stop the site.

    Args:
        folder: the folder of the site.
        on_note: receives each sentence.
    """

    def __init__(self, folder: Path, on_note: Callable[[str], None]) -> None:
        def tell(text: str) -> None:
            with suppress(OSError, ValueError):  # the terminal may be closed
                on_note(text)

        self._folder, self._on_note = folder, tell
        before = SiteActivity()
        with suppress(FederationError):
            before = read_activity(folder)
        before.started = before.since = time.time()
        before.connected, before.cause = False, ""
        self._activity, self._lock = before, Lock()  # the SuperNode is watched in a thread
        self._known = {one.pack for one in list_proposed(folder) if not one.confirmed}
        self._save()

    def connect(self, address: str) -> None:
        """The SuperNode is connected."""
        if not self._activity.connected:
            self._activity.connected, self._activity.since = True, time.time()
            self._activity.cause = ""
            self._on_note(f"connected to the server at {address}; waiting for its requests")
            self._save()

    def disconnect(self, cause: str) -> None:
        """The SuperNode has ended; the same cause is told once."""
        found = self._activity
        if found.connected or found.cause != cause:
            self._on_note(f"not connected: {cause}; trying again")
            found.since = time.time()
        found.connected, found.cause = False, cause
        self._save()

    def watch(self, handle: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        """A handler that notes each request of the server."""

        def answer(request: bytes) -> bytes:
            kind, number, fields = "", 0, dict[str, Any]()
            with suppress(FedkgError):
                kind, number, fields = read_head(request)
            begun = time.monotonic()
            try:
                found = handle(request)
            except FedkgError as error:
                self._fail(kind, number, error)
                raise
            self._note_answer(kind, number, fields, time.monotonic() - begun, len(found))
            self._activity.bytes_down += len(request)
            self._activity.bytes_up += len(found)
            self._save()
            return found

        return answer

    def _fail(self, kind: str, number: int, error: FedkgError) -> None:
        text = join_lines(str(error))
        if text != self._activity.error:
            where = f" for round {number}" if kind == "train" else ""
            self._on_note(f"the request of the server{where} was not answered: {text}")
        self._activity.error = text
        self._save()

    def _note_answer(
        self, kind: str, number: int, fields: dict[str, Any], seconds: float, size: int
    ) -> None:
        found = self._activity
        found.last_request, found.error = time.time(), ""
        if kind == "note":
            why = escape_hidden(str(fields.get("excluded"))[:SHOWN_CHARACTERS])
            found.excluded = f"round {number}: {why}"
            self._on_note(f"round {number}: the server did not use the update: {why}")
            return
        if kind == "rules":
            self._note_rules()
            return
        what = {
            "train": "model update",
            "ask": "answer under masks",
            "describe": STEPS.get(str(fields.get("step")), "description"),
            "evaluate": "sums of figures on test rows",
            "finish": "end of the run",
        }.get(kind, kind)
        found.sent[what] = found.sent.get(what, 0) + 1
        if kind == "train":
            found.round = number
            self._on_note(f"round {number}: update sent, {size:,} bytes after {seconds:.1f} s")
        elif kind == "describe" and fields.get("step") == "join":
            self._on_note("the server has prepared the training; rounds follow")
        elif kind == "finish":
            self._on_note("the run is finished; Ctrl-C stops the site")

    def _note_rules(self) -> None:
        for one in list_proposed(self._folder):
            if one.pack in self._known:
                continue
            self._known.add(one.pack)
            self._on_note("the server proposes other rules:")
            for line in one.difference:
                self._on_note(f"  {line}")
            self._on_note(
                "confirmed: site.json says `accept_rule_changes: true`"
                if one.automatic
                else f"to accept them: fedkg site confirm {self._folder}"
            )

    def _save(self) -> None:
        with self._lock, suppress(OSError):
            body = json.dumps(asdict(self._activity), indent=2, ensure_ascii=False)
            replace_file(self._folder / STATUS, body.encode())
