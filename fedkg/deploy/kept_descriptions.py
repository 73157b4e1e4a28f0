"""What sites told the server before the first round, kept at the server until the run is done.

With it, a server that starts again continues a run with the sites that answer: see
`quorum_and_deadline_transport` for how many it needs.

    FEDERATION/descriptions/SITE/DIGEST.safetensors    the answer to the request with this SHA-256
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.message import REQUEST, Message, read_message_file, request_digest

DESCRIPTIONS = "descriptions"
"""Folder of a server with the answers."""


def keep_answer(folder: Path, site: str, request: Message, answer: Message) -> None:
    """Keep the answer of a site to a request of kind ``describe``.

    Args:
        folder: the folder of the server.
    """
    path = _file(folder, site, request)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, answer.to_bytes())


def read_kept(folder: Path, site: str, request: Message) -> Message | None:
    """The answer that the site gave to an equal request; None if there is none.

    An answer about other rules, another job, or other data of the other sites does not count.

    Raises:
        FederationError: the file is damaged.
    """
    path = _file(folder, site, request)
    if not path.exists():
        return None
    answer = read_message_file(path, help=f"delete it, and start the server again with site {site}")
    return answer if answer.fields.get(REQUEST) == path.stem else None


def list_described(folder: Path) -> frozenset[str]:
    """The sites with kept answers."""
    return frozenset(path.name for path in (folder / DESCRIPTIONS).glob("*"))


def forget_answers(folder: Path, sites: Collection[str]) -> None:
    """Delete the answers of sites."""
    for site in sites:
        shutil.rmtree(folder / DESCRIPTIONS / site, ignore_errors=True)


def _file(folder: Path, site: str, request: Message) -> Path:
    digest = request_digest(request.to_bytes())
    return folder / DESCRIPTIONS / site / f"{digest}.safetensors"
