"""`fedkg serve`: follow a run or a sweep on a local web page."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.console import print_line
from fedkg.cli.observation_options import LOOPBACK
from fedkg.errors import MissingExtra

PORT = 8040
"""The port if the user names none."""


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a run, or of a sweep.")
    ],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 for a free one.")
    ] = PORT,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="ADDRESS",
            help="The address to listen on. Others than loopback show the run to the network.",
        ),
    ] = LOOPBACK,
) -> None:
    """Follow a run on a local page: rounds, sites, rules, lost sites, remaining time.

    The page changes while the training runs. The run may start later or be finished. After the
    run, people review its suggested rules on the page; on other addresses than loopback they
    cannot. Ctrl-C ends the server with exit code 0; the run continues.

    \b
    Examples:
      fedkg serve runs/tuesday
      fedkg serve runs/tuesday --port 0
    """
    if find_spec("yaml") is None:
        raise MissingExtra("reading run folders", "run")
    from fedkg.cli.run_job import stop_on_sigterm
    from fedkg.operations.live_server import serve_folder

    try:
        with stop_on_sigterm(), serve_folder(folder, address, port) as server:
            print_line(f"serving {folder} at {server.url} (Ctrl-C ends it)")
            threading.Event().wait()
    except KeyboardInterrupt:
        return
