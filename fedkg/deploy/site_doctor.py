"""What `fedkg site doctor` checks before a site takes part."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path

from fedkg.deploy.federation_folders import (
    CA,
    INVITATION,
    load_federation,
    load_site,
    private_key_problems,
    split_address,
    verify_invitation,
)
from fedkg.deploy.site_check import Finding, check_site
from fedkg.errors import FedkgError

CONNECT_S = 5.0
"""How long the server may take to accept a connection, in seconds."""

MOST_AHEAD_S, MOST_BEHIND_S = 4.0, 304.0
"""How far the clock of a site may be from that of the server: Flower refuses the signed times of
messages outside this window, which is a second larger."""


def examine_site(folder: Path) -> list[Finding]:
    """Check keys, invitation, connection, data, rules and messages of a site, in this order.

    Raises UsageError, FederationError: the folder is not that of a site.
    """
    site = load_site(folder)
    found = [Finding(what="keys", text=text, ok=False) for text in private_key_problems(folder)]
    try:
        verify_invitation(folder / INVITATION, site.signer)
    except FedkgError as error:
        return [*found, Finding(what="invitation", text=str(error), ok=False)]
    return [*found, _check_connection(folder), *check_site(folder)]


def _check_connection(folder: Path) -> Finding:
    """Whether the server answers with the certificate of the invitation."""
    address = load_federation(folder / INVITATION).address
    host, port = split_address(address)
    context = ssl.create_default_context(cafile=folder / INVITATION / CA)
    try:
        with (
            socket.create_connection((host, port), CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            ahead = _measure_clock(secured, host)
        if ahead is None or -MOST_BEHIND_S <= ahead <= MOST_AHEAD_S:
            return Finding(what="connection", text=f"the server answers at {address}")
        side = "ahead of" if ahead > 0 else "behind"
        return Finding(
            what="connection",
            text=f"the server answers at {address}, but the clock of this computer is "
            f"{abs(ahead):.0f} s {side} that of the server, which refuses its messages",
            ok=False,
            help="set both clocks, for example with `timedatectl set-ntp true`",
        )
    except ssl.SSLCertVerificationError as error:
        text = f"the server at {address} does not have the certificate of the invitation"
        advice = "ask its operator for a new invitation"
        text = f"{text}: {error.verify_message}"
        return Finding(what="connection", text=text, ok=False, help=advice)
    except ConnectionRefusedError:
        text = f"no server runs at {address} yet"
        advice = "`fedkg site run` waits for it; if it should run, ask its operator"
        return Finding(what="connection", text=text, ok=None, help=advice)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that is not a host name
        text = (
            f"no connection to the server at {address}: {getattr(error, 'strerror', '') or error}"
        )
        advice = "ask its operator whether it runs; `fedkg site run` waits for it"
        return Finding(what="connection", text=text, ok=False, help=advice)


def _measure_clock(server: ssl.SSLSocket, host: str) -> float | None:
    """How many seconds this clock is ahead of the server's; None if the server does not say."""
    with suppress(OSError, ValueError):  # another program may answer, or nobody
        server.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("ascii"))
        for line in server.recv(4096).decode("latin-1").splitlines():
            name, _, value = line.partition(":")
            if name.lower() == "date":
                return time.time() - parsedate_to_datetime(value).timestamp()
    return None
