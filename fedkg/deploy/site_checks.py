"""What `fedkg site doctor` checks before a site takes part."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from fedkg.deploy.federation import (
    CA,
    INVITATION,
    load_federation,
    load_site,
    private_key_problems,
    split_address,
    verify_invitation,
)
from fedkg.errors import FedkgError

CONNECT_S = 5.0
"""How long the server may take to accept a connection, in seconds."""


def find_problems(folder: Path) -> list[str]:
    """What is wrong with the keys, the invitation, the connection, or the data of a site.

    Raises UsageError, FederationError: the folder is not that of a site.
    """
    load_site(folder)
    found = private_key_problems(folder)
    try:
        verify_invitation(folder / INVITATION)
    except FedkgError as error:
        found.append(str(error))
        return found
    found += _find_connection_problems(folder)
    try:
        from fedkg.deploy.site import check_site
    except ImportError:
        return found
    try:
        return [*found, *map(str, check_site(folder))]
    except FedkgError as error:
        return [*found, str(error)]


def _find_connection_problems(folder: Path) -> list[str]:
    """Why the server is not reachable, if it is not."""
    address = load_federation(folder / INVITATION).address
    host, port = split_address(address)
    context = ssl.create_default_context(cafile=folder / INVITATION / CA)
    try:
        with (
            socket.create_connection((host, port), CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return []
    except ssl.SSLCertVerificationError as error:
        problem = f"the server at {address} does not have the certificate of the invitation"
        return [f"{problem}: {error.verify_message}; ask its operator for a new invitation"]
    except OSError as error:
        return [f"no connection to the server at {address}: {error.strerror or error}"]
