"""How a server reaches its sites. A transport carries bytes and knows nothing about learning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from fedkg.deploy.message import Message
from fedkg.deploy.site_process import ask, is_served
from fedkg.errors import FederationError, FedkgError
from fedkg.exclusion_reasons import UNANSWERED

SiteHandler = Callable[[bytes], bytes]
"""Answers one request of the server at a site; both are the bytes of a `Message`."""

LONGEST_ERROR = 1000
"""Characters of the error of a site that the server keeps."""

PRESENCE_S = 1.0
"""Seconds between two questions which sites are there."""

LONGEST_SECONDS = 3600.0
"""How long a site on this machine can take for a late reply before it counts as lost."""

MOST_WAITING = 4
"""Requests to one site process that wait for a reply at the same time; more are not sent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """What came back from a site.

    Attributes:
        site: the site's name.
        message: its answer; None if it failed.
        error: why there is no answer, in words for the operator; "" if there is one.
        bytes_down: size of the request, in bytes.
        bytes_up: size of the answer, in bytes.
        seconds: time between request and answer.
    """

    site: str
    message: Message | None
    error: str = ""
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0


class Transport(Protocol):
    """Sends requests to sites and returns their answers."""

    def present(self) -> tuple[str, ...]:
        """The names of the sites that can be reached now, sorted."""
        ...

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """Send one request to each of some sites, and yield replies in the order of arrival.

        The iterator ends when every site has replied, or after `seconds`: sites without a reply
        are then missing from it. It never waits longer. A reply to a request of an earlier
        exchange that arrives meanwhile is yielded too; its `Message.round` tells it apart.
        Closing the iterator early abandons the remaining replies of this exchange to later ones.
        Without requests, it waits for replies to earlier ones.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopbackTransport:
    """Sites in this process, asked one after the other in the order of the requests.

    Messages are written to bytes and read again, as on a network.

    Attributes:
        sites: the handler of each site by name.
    """

    sites: Mapping[str, SiteHandler]
    _open: dict[str, Message] = field(default_factory=dict, init=False)
    """Requests for which there was no time yet."""

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`."""
        return tuple(sorted(self.sites))

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """See `Transport.exchange`."""
        end = time.monotonic() + seconds
        self._open.update({site: one for site, one in requests.items() if site in self.sites})
        while self._open and time.monotonic() <= end:
            site = next(iter(self._open))
            yield self._ask(site, self._open.pop(site).to_bytes())

    def _ask(self, site: str, down: bytes) -> Reply:
        return _reply(site, down, lambda: self.sites[site](down), time.monotonic())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SocketTransport:
    """Site processes on this machine, asked at the same time on their Unix sockets.

    Attributes:
        sites: the socket of each site by name, see `fedkg.deploy.site_process.serve`.
    """

    sites: Mapping[str, Path]
    _arrived: SimpleQueue[tuple[object, Reply]] = field(default_factory=SimpleQueue, init=False)
    """Replies, each with the exchange that asked for it."""
    _waiting: set[tuple[object, str]] = field(default_factory=set, init=False)
    """Exchanges with the sites that have not replied to them."""

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`."""
        return tuple(sorted(site for site, socket in self.sites.items() if is_served(socket)))

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """See `Transport.exchange`."""
        end, this = time.monotonic() + seconds, object()
        asked = {(this, site) for site in requests if site in self.sites}
        self._waiting.update(asked)
        for _, site in asked:
            down = requests[site].to_bytes()
            Thread(target=self._ask, args=(this, site, down), daemon=True).start()
        while (self._waiting & asked) if requests else self._waiting:
            try:
                asked_by, reply = self._arrived.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                return
            self._waiting.discard((asked_by, reply.site))
            if asked_by is this or not requests or reply.message is not None:
                yield reply  # an error of an earlier exchange says nothing about this one

    def _ask(self, exchange: object, site: str, down: bytes) -> None:
        """Ask a site and queue its reply; in a thread, which ends after `LONGEST_SECONDS`."""

        def answer() -> bytes:
            if sum(other == site for _, other in tuple(self._waiting)) > MOST_WAITING:
                raise FederationError(
                    f"the site process {UNANSWERED} {MOST_WAITING} earlier requests",
                    help="see the output of `fedkg site run`; if it does nothing, start it again",
                )
            return ask(self.sites[site], down, seconds=LONGEST_SECONDS)

        self._arrived.put((exchange, _reply(site, down, answer, time.monotonic())))


def _reply(site: str, down: bytes, answer: Callable[[], bytes], begun: float) -> Reply:
    """The reply of a site, whether it answers or fails."""
    try:
        up = answer()
        message, error = Message.from_bytes(up, sender=f"site {site}"), ""
    except FedkgError as failure:
        up, message, error = b"", None, str(failure)
    return Reply(
        site=site,
        message=message,
        error=error,
        bytes_down=len(down),
        bytes_up=len(up),
        seconds=time.monotonic() - begun,
    )
