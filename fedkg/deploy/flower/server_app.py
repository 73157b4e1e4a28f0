"""The Flower app of the server, for `flwr run`; `fedkg server run` does not need it."""

from __future__ import annotations

from logging import getLogger
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkg.deploy.flower.simulation_folder import FEDERATION_FOLDER, is_simulation
from fedkg.deploy.flower.transport import FlowerTransport
from fedkg.jobs.events import Event

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the federation in the folder that the run configuration names.

    The nodes of admitted sites take part, or all nodes if the folder is that of a simulation.

    Raises:
        UsageError, FederationError, JobError: see `fedkg.deploy.server.run_server`.
    """
    from fedkg.deploy.federation_folders import load_federation
    from fedkg.deploy.server import run_server

    folder = Path(str(context.run_config[FEDERATION_FOLDER]))
    federation, simulated = load_federation(folder), is_simulation(folder)
    keys = dict.fromkeys(federation.sites, b"") if simulated else federation.node_keys()
    transport = FlowerTransport(grid=grid, sites=keys, simulated=simulated)
    run = run_server(folder, transport, on_event=log_event)
    for sentence in run.sentences:
        getLogger("flwr").info("%s", sentence)
    getLogger("flwr").info("run folder: %s", run.folder)


def log_event(event: Event) -> None:
    """Write an event of a run to Flower's log, which `flwr run --stream` shows."""
    text = event.message
    if event.kind == "round":
        text = f"{event.trial}: round {event.round} of {event.rounds}"
    if text:
        getLogger("flwr").info("%s", text)
