"""How messages reach sites over Flower, with a bound on every wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle

import httpx
from flwr.app import Message as Parcel
from flwr.app import MessageType
from flwr.serverapp import Grid

from fedkg.deploy.flower.records import unwrap_bytes, unwrap_error, wrap_bytes
from fedkg.deploy.message import Message
from fedkg.deploy.transport import LONGEST_ERROR, PRESENCE_S, Reply
from fedkg.errors import FederationError

POLL_S = 0.1
"""Seconds between two questions for replies."""

LATE_S = 3600.0
"""How long after its deadline a reply may still arrive, in seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A request without a reply."""

    site: str
    size: int
    time: float
    exchange: object


@dataclass(slots=True, kw_only=True)
class FlowerTransport:
    """Sites behind SuperNodes.

    Attributes:
        grid: Flower's access to the nodes of a run.
        sites: the public key of the node of each site (PEM, as `NodeInfo.public_key`).
        simulated: whether the nodes are those of a simulation, which have no keys of sites: any
            node answers for any site, and requests name their site.
        reconnect: starts a lost SuperLink again within some seconds and returns the grid of a new
            run, or None if it does not answer yet. Without it, a lost SuperLink is an error.
        admitted: the keys of the sites that are admitted now, which replace `sites`; None: they
            stay as they are.
    """

    grid: Grid
    sites: Mapping[str, bytes]
    simulated: bool = False
    reconnect: Callable[[float], Grid | None] | None = None
    admitted: Callable[[], Mapping[str, bytes]] | None = None
    _waiting: dict[str, _Sent] = field(default_factory=dict)

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`."""
        try:
            return tuple(sorted(self._find_nodes()))
        except httpx.HTTPError as error:
            if self.reconnect is not None:  # whoever waits for sites has nobody else to start it
                self._reconnect(PRESENCE_S, error)
            return ()

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """See `Transport.exchange`.

        If the SuperLink was lost, the requests are sent again: sites answer repeated ones alike.
        If a node was lost, its site answers with an error as soon as that is noticed.

        Raises:
            FederationError: the SuperLink is lost and cannot be started again.
        """
        begun = time.monotonic()
        end, checked, exchange = begun + seconds, -PRESENCE_S, object()
        open_ = {site: request.to_bytes() for site, request in requests.items()}
        sent: set[str] = set()
        while (open_ if requests else self._waiting) and time.monotonic() < end:
            found: list[Parcel] = []
            try:
                if open_.keys() - sent and time.monotonic() - checked >= PRESENCE_S:
                    checked, nodes = time.monotonic(), self._find_nodes()
                    send = [site for site in open_ if site in nodes and site not in sent]
                    parcels = [
                        Parcel(
                            wrap_bytes(open_[site], site=site if self.simulated else ""),
                            dst_node_id=nodes[site],
                            message_type=MessageType.TRAIN,
                            group_id=str(requests[site].round),
                            ttl=max(1.0, end - checked) + LATE_S,
                        )
                        for site in send
                    ]
                    names = self.grid.push_messages(parcels) if parcels else ()
                    for site, name in zip(send, names, strict=True):
                        if name:
                            now = time.monotonic()
                            self._waiting[name] = _Sent(site, len(open_[site]), now, exchange)
                            sent.add(site)
                found, unreadable = self._pull()
                for lost, error in unreadable:
                    if lost.exchange is exchange:
                        del open_[lost.site]
                        yield _describe_unreadable(lost, error)
            except httpx.HTTPError as error:
                self._reconnect(end - time.monotonic(), error)
                sent, checked = set(), -PRESENCE_S
            for parcel in found:
                answered = self._waiting.pop(parcel.metadata.reply_to_message_id, None)
                if answered is not None:
                    reply = _read_reply(parcel, answered)
                    if answered.exchange is exchange:
                        del open_[answered.site]
                    elif reply.message is None:
                        continue  # an error of an earlier request says nothing about this one
                    yield reply
            if not found:
                time.sleep(max(0.0, min(POLL_S, end - time.monotonic())))
        oldest = time.monotonic() - LATE_S - seconds
        self._waiting = {name: s for name, s in self._waiting.items() if s.time > oldest}

    def _pull(self) -> tuple[list[Parcel], list[tuple[_Sent, Exception]]]:
        """The replies that are there, and the requests with an unreadable one."""
        try:
            return list(self.grid.pull_messages(list(self._waiting))), []
        except httpx.HTTPError:
            raise
        except Exception:  # noqa: BLE001  a site can push any bytes; the error does not name it
            found: list[Parcel] = []
            unreadable: list[tuple[_Sent, Exception]] = []
        for name in list(self._waiting):
            try:
                found += self.grid.pull_messages([name])
            except httpx.HTTPError:
                raise
            except Exception as error:  # noqa: BLE001
                unreadable.append((self._waiting.pop(name), error))
        return found, unreadable

    def _reconnect(self, seconds: float, error: httpx.HTTPError) -> None:
        """Use a new run of the SuperLink, which knows nothing about earlier requests."""
        if self.reconnect is None:
            raise FederationError(
                "the SuperLink (Flower's server process) does not answer any more",
                received=f"{type(error).__name__}: {error}",
                help="start the server again: the run continues after its last round",
            ) from error
        self._waiting.clear()
        self.grid = self.reconnect(max(0.0, seconds)) or self.grid

    def _find_nodes(self) -> dict[str, int]:
        """The node of each site that is present."""
        nodes = list(self.grid.get_nodes())
        if self.simulated:
            ids = sorted(node.node_id for node in nodes)
            return dict(zip(self.sites, cycle(ids), strict=False))
        if self.admitted is not None:
            self.sites = self.admitted()
        names = {key: site for site, key in self.sites.items()}
        return {names[node.public_key]: node.node_id for node in nodes if node.public_key in names}


def _describe_unreadable(sent: _Sent, error: Exception) -> Reply:
    """Why the answer of a site cannot be used."""
    reason = f"site {sent.site} sent something unreadable: {type(error).__name__}"
    return Reply(site=sent.site, message=None, error=reason, bytes_down=sent.size)


def _read_reply(parcel: Parcel, sent: _Sent) -> Reply:
    """What a site answered, or why it did not."""
    data, message, error = b"", None, ""
    if parcel.has_error():
        error = f"site {sent.site} gave no answer: {parcel.error.reason}"
    elif text := unwrap_error(parcel.content):
        error = text
    else:
        try:
            data = unwrap_bytes(parcel.content)
            message = Message.from_bytes(data, sender=f"site {sent.site}")
        except KeyError:
            error = f"site {sent.site} sent a record of another form"
        except FederationError as problem:
            error = str(problem)
    return Reply(
        site=sent.site,
        message=message,
        error=error[:LONGEST_ERROR],
        bytes_down=sent.size,
        bytes_up=len(data),
        seconds=time.monotonic() - sent.time,
    )
