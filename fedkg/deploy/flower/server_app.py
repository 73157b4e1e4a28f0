"""The Flower app of the server, for `flwr run`; `fedkg server run` does not need it."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkg.deploy.flower.transport import FlowerTransport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the federation in the folder that the run configuration names.

    `sites` in the run configuration is a folder with the sites of a simulation, whose nodes have no
    keys; without it, the nodes of admitted sites take part.
    """
    from fedkg.deploy.federation import load_federation
    from fedkg.deploy.server import run_server

    folder = Path(str(context.run_config["federation"]))
    keys = {} if context.run_config["sites"] else load_federation(folder).node_keys()
    run_server(folder, FlowerTransport(grid=grid, sites=keys))
