"""The command `fedkg` with a stand-in for what sites compute and for what the server trains.

    python stand_in.py site run SITE
    python stand_in.py server run FEDERATION

With REAL in the environment, it is the command itself.

A site answers with its tensors times the length of its name; a server of ROUNDS rounds (an
environment variable) writes what it got into `FEDERATION/answers.jsonl`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch

from fedkg.deploy.federation_folders import load_site
from fedkg.deploy.message import Message
from fedkg.deploy.transport import SiteHandler, Transport
from fedkg.errors import FederationError


def open_site(folder: Path) -> SiteHandler:
    """A site that answers a request for a round with a function of its tensors and its name."""
    return site_handler(load_site(folder).name)


def site_handler(name: str) -> SiteHandler:
    def answer(request: bytes) -> bytes:
        found = Message.from_bytes(request, sender="the server")
        if found.kind == "fail":
            raise FederationError(f"site {name} has no data")
        return Message(
            kind=found.kind,
            round=found.round,
            fields={"site": name},
            tensors={key: value * len(name) for key, value in found.tensors.items()},
        ).to_bytes()

    return answer


@dataclass(frozen=True)
class Run:
    folder: Path
    sentences: tuple[str, ...] = ("all rounds are done",)


def run_server(
    folder: Path, transport: Transport, *, on_event: object, without: Collection[str], wait: float
) -> Run:
    with (folder / "answers.jsonl").open("w", encoding="utf-8") as file:
        for number in range(1, int(os.environ["ROUNDS"]) + 1):
            request = Message(kind="train", round=number, tensors={"w": torch.arange(5.0)})
            requests = dict.fromkeys(transport.present(), request)
            replies = list(transport.exchange(requests, seconds=120))
            answers = {reply.site: reply.error or "answer" for reply in replies}
            file.write(json.dumps({"round": number, "answers": answers}) + "\n")
            file.flush()
    return Run(folder / "run")


def install() -> None:
    """Replace the functions that train and evaluate."""
    from fedkg.deploy import server, site

    site.open_site = open_site
    server.run_server = run_server


if __name__ == "__main__":
    from fedkg.cli.main import run

    if "REAL" not in os.environ:
        install()
    run(sys.argv[1:])
