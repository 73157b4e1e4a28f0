"""The listeners of a run that the user asks for on the command line."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fedkg.errors import Stopped
from fedkg.jobs.events import ENDS, Event, EventKind, Listener

MOST_WAITING = 10_000
"""Events that may wait for a slow listener; later ones are lost to it."""

CLOSE_SECONDS = 30.0
"""How long the end of a run waits for listeners to finish their work."""


class Receiver(Protocol):
    """A listener that may be slow or fail, such as one that writes to a server."""

    def __call__(self, event: Event) -> None:
        """Receive one event."""
        ...

    def close(self) -> None:
        """Finish; no event follows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the user asks for.

    Attributes:
        track: names of `fedkg.operations.trackers.TRACKERS`.
        notify: commands, and addresses that start with http:// or https://.
        metrics_port: the port for Prometheus, 0 for a free one; None for no metrics.
        metrics_address: the address to listen on.
    """

    track: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    metrics_port: int | None = None
    metrics_address: str = "127.0.0.1"

    def __bool__(self) -> bool:
        return bool(self.track or self.notify or self.metrics_port is not None)


class Background:
    """Passes events to a receiver in a thread, so that the training never waits for it.

    The first error is reported, and ends this receiver alone. Events beyond `MOST_WAITING` are
    dropped, which is reported once.
    """

    def __init__(self, name: str, receiver: Receiver, report: Callable[[str], None]) -> None:
        self._name, self._receiver, self._report = name, receiver, report
        self._events: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._is_late = False
        self._thread = threading.Thread(target=self._pass_on, name=f"fedkg {name}", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Receive one event; never waits."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            if not self._is_late:
                self._report(f"{self._name} is too slow and misses events; the training continues")
            self._is_late = True

    def close(self) -> None:
        """Wait until the receiver has everything, at most `CLOSE_SECONDS`."""
        with suppress(queue.Full):
            self._events.put(None, timeout=CLOSE_SECONDS)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self._report(
                f"{self._name} did not finish within {CLOSE_SECONDS:g} s; its last events may be "
                "missing"
            )

    def _pass_on(self) -> None:
        works = True
        while (event := self._events.get()) is not None:
            works = works and self._attempt(partial(self._receiver, event))
        if works:
            self._attempt(self._receiver.close)

    def _attempt(self, step: Callable[[], None]) -> bool:
        """Run a step; report its error and return whether there was none."""
        try:
            step()
        except Exception as error:  # noqa: BLE001  other libraries, servers and disks may raise any
            why = str(error) or type(error).__name__
            self._report(f"{self._name} failed, the training continues without it: {why}")
            return False
        return True


@contextmanager
def observe(wanted: Observation, show: Listener) -> Iterator[Listener]:
    """A listener that passes events to `show` and to everything that the user asks for.

    An error inside the block that no event reports becomes a `failed` or `stopped` event.

    Args:
        show: displays events; also receives notes about listeners that fail.

    Raises:
        UsageError: a wrong tracker, command, address or port.
        MissingExtra: a package is not installed.
    """
    with ExitStack() as stack:
        listeners = [show, *_open_all(wanted, stack, lambda text: show(_note(text)))]
        has_ended = False

        def listen(event: Event) -> None:
            nonlocal has_ended
            has_ended = has_ended or event.kind in ENDS
            for listener in listeners:
                listener(event)

        try:
            yield listen
        except BaseException as error:
            if not has_ended:
                is_stop = isinstance(error, KeyboardInterrupt | Stopped)
                kind: EventKind = "stopped" if is_stop else "failed"
                listen(Event(kind=kind, message=str(error) or type(error).__name__))
            raise


def _note(text: str) -> Event:
    return Event(kind="note", message=text)


def _open_all(
    wanted: Observation, stack: ExitStack, report: Callable[[str], None]
) -> Sequence[Listener]:
    """Start every listener; the stack closes them. Check all before the first starts."""
    found: list[Listener] = []
    receivers: list[tuple[str, Receiver]] = []
    if wanted.track:
        from fedkg.operations.trackers import create_tracker

        receivers += [(name, create_tracker(name)) for name in dict.fromkeys(wanted.track)]
    if wanted.notify:
        from fedkg.operations.notifications import Notifications, create_sender

        senders = [create_sender(target) for target in dict.fromkeys(wanted.notify)]
        receivers.append(("the notification", Notifications(senders, report)))
    if wanted.metrics_port is not None:
        from fedkg.operations.metrics import serve_metrics

        metrics, url = stack.enter_context(
            serve_metrics(wanted.metrics_port, wanted.metrics_address)
        )
        report(f"metrics: {url}")
        found.append(metrics)
    for name, receiver in receivers:
        background = Background(name, receiver, report)
        stack.callback(background.close)
        found.append(background)
    return found
