"""What `fedkg site doctor` checks before a site takes part."""

from __future__ import annotations

import socket
import ssl
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
            context.wrap_socket(plain, server_hostname=host),
        ):
            return Finding(what="connection", text=f"the server answers at {address}")
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
