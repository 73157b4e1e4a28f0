"""The Flower app of a site: it passes requests to the site and its answers back.

A SuperNode passes them to the site process, over its socket. In Flower's simulation there is no
such process: a virtual client opens its site in its own process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkg.deploy.flower.records import unwrap_bytes, wrap_bytes, wrap_text
from fedkg.deploy.site_process import ask
from fedkg.errors import FedkgError

NAME, SOCKET = "site", "socket"
"""Names in the configuration of a SuperNode: of the site, and of its socket."""

LONGEST_ANSWER_S = 7 * 24 * 3600.0
"""How long the app waits for the site process; the server stops waiting much earlier."""

app = ClientApp()


@app.query()
def introduce(request: Message, context: Context) -> Message:
    """Answer with the site's name: nodes of a simulation have no key that tells it."""
    return Message(wrap_text(_find_site(context)[0], name=NAME), reply_to=request)


@app.train()
def answer(request: Message, context: Context) -> Message:
    """Answer a request with the bytes of the site's answer, or with the text of its error."""
    try:
        found = wrap_bytes(_find_site(context)[1](unwrap_bytes(request.content)))
    except FedkgError as error:
        found = wrap_text(str(error))
    except KeyError:
        found = wrap_text("the server sent a record of another form")
    return Message(found, reply_to=request)


def _find_site(context: Context) -> tuple[str, Callable[[bytes], bytes]]:
    """The name of the site of this node, and what answers its requests."""
    socket = context.node_config.get(SOCKET)
    if socket is not None:
        return str(context.node_config[NAME]), lambda request: ask(
            Path(str(socket)), request, seconds=LONGEST_ANSWER_S
        )
    folders = sorted(
        site.parent for site in Path(str(context.run_config["sites"])).glob("*/site.json")
    )
    folder = folders[int(context.node_config["partition-id"]) % len(folders)]
    return folder.name, _open_site(folder)


@cache
def _open_site(folder: Path) -> Callable[[bytes], bytes]:
    """The site in a folder, opened once in each process of a simulation."""
    from fedkg.deploy.site import open_site

    return open_site(folder)
