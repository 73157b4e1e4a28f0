"""The Flower app of a site: it passes requests to the site and its answers back.

A SuperNode passes them to the site process, over its socket. In Flower's simulation there is no
such process: a node opens the site that the request names, whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkg.deploy.flower.records import read_site, unwrap_bytes, wrap_bytes, wrap_error
from fedkg.deploy.flower.simulation_folder import find_simulated_site
from fedkg.deploy.site_process import ask
from fedkg.errors import FedkgError

SOCKET = "socket"
"""Name of the socket of the site process in the configuration of a SuperNode."""

LONGEST_ANSWER_S = 7 * 24 * 3600.0
"""How long the app waits for the site process; the server stops waiting much earlier."""

app = ClientApp()


@app.train()
def answer(request: Message, context: Context) -> Message:
    """Answer a request with the bytes of the site's answer, or with the text of its error."""
    try:
        found = wrap_bytes(_find_site(request, context)(unwrap_bytes(request.content)))
    except FedkgError as error:
        found = wrap_error(str(error))
    except KeyError:
        found = wrap_error("the server sent a record of another form")
    return Message(found, reply_to=request)


def _find_site(request: Message, context: Context) -> Callable[[bytes], bytes]:
    """What answers the requests for the site of this node, or for the site of this request."""
    socket = context.node_config.get(SOCKET)
    if socket is not None:
        return lambda data: ask(Path(str(socket)), data, seconds=LONGEST_ANSWER_S)
    return _open_site(find_simulated_site(context.run_config, read_site(request.content)))


@cache
def _open_site(folder: Path) -> Callable[[bytes], bytes]:
    """The site in a folder, opened once in each process of a simulation."""
    from fedkg.deploy.site import open_site

    return open_site(folder)
