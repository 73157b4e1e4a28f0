"""The SuperNode of a site: a child process that connects the site process to the server."""

from __future__ import annotations

import json
import re
import socket
from contextlib import closing
from pathlib import Path

from fedkg.deploy.child_process import ChildProcess
from fedkg.deploy.federation_folders import (
    CA,
    INVITATION,
    KEYS,
    NODE,
    SOCKET,
    load_federation,
    load_site,
)
from fedkg.deploy.flower.app_and_environment import LOGS, flower_environment

CAUSES = {
    "certificate verify failed": (
        "the certificate of the server is not signed by the authority of the invitation: another "
        "program answers at this address, or the federation has been created anew; ask its "
        "operator for a new invitation"
    ),
    "failed to activate": (
        "the server does not know the key of this site: send {key} to its operator, who runs "
        "`fedkg federation admit FEDERATION {name} {name}.pub`; after a crash of this computer, "
        "wait 20 s"
    ),
    "401 unauthorized.*activate-node": (
        "the clocks of this computer and of the server differ: set both, for example with "
        "`timedatectl set-ntp true`; `fedkg site doctor {folder}` shows the difference"
    ),
    r"\[errno|timed out": (
        "nothing answers at {address}: the server is not running, or a firewall is in between"
    ),
}
"""What patterns at the end of a SuperNode's log mean, for the operator of a site."""

CONNECTED = "SuperNode ID:"
"""What a SuperNode writes as soon as the server has accepted it."""

RETRY_S = 30
"""Seconds that a SuperNode tries to connect before it ends, so that the operator learns why."""

UNKNOWN = "see {log}"


def create_node(folder: Path) -> ChildProcess:
    """The SuperNode of a site; it is not started yet.

    Raises UsageError, FederationError: the folder is not that of a site.
    """
    folder = folder.resolve()
    site, federation = load_site(folder), load_federation(folder / INVITATION)

    def list_arguments() -> list[str]:
        configuration = {"site": site.name, "socket": str(folder / SOCKET)}
        return [
            "supernode", f"127.0.0.1:{find_free_port()}", str(folder / KEYS / "app.secret"),
            "--superlink", federation.address, "--max-wait-time", str(RETRY_S),
            "--root-certificates", str(folder / INVITATION / CA),
            "--auth-supernode-private-key", str(folder / KEYS / f"{NODE}.key"),
            "--node-config",
            " ".join(f"{key}={json.dumps(value)}" for key, value in configuration.items()),
        ]  # fmt: skip

    return ChildProcess(
        "fedkg.deploy.flower",
        list_arguments,
        log=folder / LOGS / "supernode.log",
        environment=flower_environment(folder),
    )


def has_answered(log: str) -> bool:
    """Whether a SuperNode has sent an answer to the last request that its log names."""
    return log.rfind("Sent successfully") > log.rfind("Receiving:")


def explain_end(log: str, folder: Path) -> str:
    """Why the SuperNode of a site ended, from the end of its log."""
    text = log.lower()
    cause = next((cause for sign, cause in CAUSES.items() if re.search(sign, text)), UNKNOWN)
    name = load_site(folder).name
    return cause.format(
        key=folder / KEYS / f"{name}.pub",
        name=name,
        address=load_federation(folder / INVITATION).address,
        log=folder / LOGS / "supernode.log",
        folder=folder,
    )


def find_free_port() -> int:
    """A port of this machine that no program uses at the moment."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
