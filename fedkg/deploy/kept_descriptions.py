"""What sites told the server before the first round, kept at the server until the run is done.

With it, a server that starts again continues a run with the sites that answer: see
`quorum_and_deadline_transport` for how many it needs.

    FEDERATION/descriptions/RUN/SITE/DIGEST.safetensors    the answer to the request of this SHA-256
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.message import REQUEST, Message, read_message_file, request_digest
from fedkg.errors import FederationError

DESCRIPTIONS = "descriptions"
"""Folder of a server with the answers."""


def keep_answer(folder: Path, site: str, request: Message, answer: Message) -> None:
    """Keep the answer of a site to a request of kind ``describe``.

    Args:
        folder: of the answers of one run.
    """
    path = _file(folder, site, request)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, answer.to_bytes())


def read_kept(folder: Path, requests: Mapping[str, Message]) -> dict[str, Message]:
    """What sites answered to equal requests, by site.

    An answer about other rules, another job, or other data of the other sites does not count, and
    a damaged file is none: its site must answer again.
    """
    found = {}
    for site, request in requests.items():
        path = _file(folder, site, request)
        try:
            answer = read_message_file(path, help="start the server again with the site")
        except (OSError, FederationError):
            continue
        if answer.fields.get(REQUEST) == path.stem:
            found[site] = answer
    return found


def forget_run(folder: Path) -> None:
    """Delete the answers of a run."""
    shutil.rmtree(folder, ignore_errors=True)


def forget_site(server: Path, site: str) -> bool:
    """Delete the answers of a site in all runs of a server; whether there were any."""
    found = list((server / DESCRIPTIONS).glob(f"*/{site}"))
    for folder in found:
        shutil.rmtree(folder)
    return bool(found)


def _file(folder: Path, site: str, request: Message) -> Path:
    return folder / site / f"{request_digest(request.to_bytes())}.safetensors"
