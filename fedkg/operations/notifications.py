"""Notifications: one JSON object to a command or a web address when someone should look at a run.

They report changes only: a new zone, sites whose updates are no longer used, hard rules that are
violated, and the end of a run.
"""

from __future__ import annotations

import http.client
import json
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fedkg._internal.safe_text import list_first
from fedkg.errors import UsageError
from fedkg.jobs.events import ENDS, Event, event_fields

SEND_SECONDS = 10.0
"""Longest time for one notification at one target. There are no further attempts."""

MOST_NOTIFICATIONS = 1000
"""Notifications of one process; the last one says that there are no more."""

MOST_NAMES = 20
"""Sites or rules that a notification lists; it counts all."""

Sender = Callable[[bytes], None]
"""Sends a JSON object; raises OSError, HTTPException or TimeoutExpired if that fails."""


def create_sender(target: str) -> Sender:
    """How to send to a command, or to an address that starts with ``http://`` or ``https://``.

    Raises:
        UsageError: there is no such command, or the address has no host.
    """
    if target.lower().startswith(("http:", "https:")):
        try:
            address = urlsplit(target)
            str(address.hostname).encode("idna"), address.port
        except ValueError as error:  # also for a name that does not suit DNS
            raise UsageError(
                f"--notify {target}: the address is not valid",
                received=str(error),
                help="correct the host or the port, as in https://example.org:8443/hook",
            ) from error
        if not address.hostname:
            raise UsageError(
                f"--notify {target}: the address has no host",
                help="give the whole address, such as https://example.org/hook",
            )
        return lambda body: _post(address, body)
    try:
        command = shlex.split(target)
    except ValueError as error:
        raise UsageError(
            f"--notify {target}: the command cannot be split into words",
            received=str(error),
            help="close each quote, and write a backslash as two",
        ) from error
    if not command or shutil.which(command[0]) is None:
        raise UsageError(
            f"--notify {target}: there is no such command"
            if command
            else "--notify: the command is empty",
            help="give a command with its arguments, or an address (https://...)",
        )
    return lambda body: _run(command, body)


def _run(command: Sequence[str], body: bytes) -> None:
    """Run a command, without a shell, with the object on stdin."""
    done = subprocess.run(
        command,
        input=body,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=SEND_SECONDS,
        check=False,
    )
    if done.returncode:
        how = (
            f"exited with {done.returncode}"
            if done.returncode > 0
            else f"was ended by signal {-done.returncode}"
        )
        raise OSError(f"{command[0]} {how}")


def _post(address: SplitResult, body: bytes) -> None:
    """POST the object; redirections are not followed, and the answer's body is not read."""
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(str(address.hostname), address.port, timeout=SEND_SECONDS)
    # the timeout above is for each read: a server that sends byte after byte never exceeds it
    timer = threading.Timer(SEND_SECONDS, lambda: _cut(connection))
    timer.start()
    try:
        path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
    finally:
        timer.cancel()
        connection.close()
    if not 200 <= status < 300:
        raise OSError(f"{address.hostname} answered with status {status}")


def _cut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        connection.sock.shutdown(socket.SHUT_RDWR)


class Notifications:
    """Turns events into notifications, each once, and sends them to all targets.

    Args:
        senders: the targets; one that fails is reported once and is tried again next time.
        report: receives the error of a target.
    """

    def __init__(self, senders: Sequence[Sender], report: Callable[[str], None]) -> None:
        self._senders, self._report = senders, report
        self._zones: dict[object, str] = {}
        self._known: set[tuple[object, ...]] = set()
        self._reported: set[Sender] = set()
        self._lost: list[str] = []
        self._sent = 0

    def __call__(self, event: Event) -> None:
        """Send what is new about one event."""
        trial = event.folder, event.trial
        if event.kind in ENDS:
            if self._is_new(event.kind, event.folder):
                self._send(event.kind, event, event.message)
            return
        if event.kind == "site" and self._is_new("site", trial, event.site):
            self._lost.append(event.site)
        if event.kind != "round":
            return
        zone = str(event.values.get("zone") or "")
        before = self._zones.get(trial, "safe")
        if zone and zone != before:
            self._zones[trial] = zone
            if self._is_new("zone", trial, before, zone):
                text = f"{event.trial}: the zone changes from {before} to {zone}"
                self._send("zone", event, text, before=before, zone=zone)
        if self._lost:
            text = f"{event.trial}: no update of {list_first(self._lost, MOST_NAMES)}"
            self._send("sites_lost", event, text, sites=self._lost)
            self._lost = []
        hard = [
            rule
            for rule, counts in event.rules.items()
            if counts.get("hard") and counts["violated"] and self._is_new("rule", trial, rule)
        ]
        if hard:
            text = f"{event.trial}: models violate the hard rules {list_first(hard, MOST_NAMES)}"
            self._send("hard_rules_violated", event, text, rules=hard)

    def close(self) -> None:
        """Nothing is left to do."""

    def _is_new(self, *key: object) -> bool:
        """Whether this was not notified before; remember it."""
        new = key not in self._known
        self._known.add(key)
        return new

    def _send(self, reason: str, event: Event, message: str, **details: Any) -> None:
        """Send one notification.

        `Any`: JSON.

        Args:
            reason: ``zone``, ``sites_lost``, ``hard_rules_violated``, or how the run ended.
            details: further fields; lists are cut to `MOST_NAMES`.
        """
        if self._sent >= MOST_NOTIFICATIONS and event.kind not in ENDS:
            return
        self._sent += 1
        fields = event_fields(event)
        if self._sent == MOST_NOTIFICATIONS:
            message += f"; {MOST_NOTIFICATIONS:,} notifications were sent: no more until the end"
        document = {
            "reason": reason,
            "message": message,
            "run": None if event.folder is None else str(event.folder.resolve()),
            **{name: fields[name] for name in ("time", "trial", "round", "rounds", "values")},
            **{
                name: value[:MOST_NAMES] if isinstance(value, list) else value
                for name, value in details.items()
            },
        }
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", errors="backslashreplace")
        for sender in self._senders:
            try:
                sender(body)
            except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
                if sender not in self._reported:
                    self._reported.add(sender)
                    self._report(f"a notification failed, the training continues: {error}")
