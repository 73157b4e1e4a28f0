"""How a server reaches its sites. A transport carries bytes and knows nothing about learning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from fedkg.deploy.message import Message
from fedkg.errors import FedkgError

SiteHandler = Callable[[bytes], bytes]
"""Answers one request of the server at a site; both are the bytes of a `Message`."""


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
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackTransport:
    """Sites in this process, asked one after the other in the order of the requests.

    Messages are written to bytes and read again, as on a network.

    Attributes:
        sites: the handler of each site by name.
    """

    sites: Mapping[str, SiteHandler]

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`."""
        return tuple(sorted(self.sites))

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """See `Transport.exchange`."""
        end = time.monotonic() + seconds
        for site, request in requests.items():
            if time.monotonic() > end:
                return
            if site not in self.sites:
                continue
            down, begun = request.to_bytes(), time.monotonic()
            try:
                up = self.sites[site](down)
                message = Message.from_bytes(up, sender=f"site {site}")
            except FedkgError as error:
                yield Reply(site=site, message=None, error=str(error), bytes_down=len(down))
                continue
            yield Reply(
                site=site,
                message=message,
                bytes_down=len(down),
                bytes_up=len(up),
                seconds=time.monotonic() - begun,
            )
