"""Flower's simulation with two actors of one thread each: `python flower.py FOLDER`.

Source: Beutel and others, 2020. It draws its own cohorts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parent)
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": HERE}

# these read the environment
import torch  # noqa: E402
from contender_protocol import Asked  # noqa: E402
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402
from torch_workload import Workload  # noqa: E402

FOLDER, ACTORS = sys.argv[1], 2
client, server = ClientApp(), ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """One client's turn in an actor, which stores the workload and the network between turns."""
    import sys

    if HERE not in sys.path:
        sys.path.insert(0, HERE)
    import torch_workload

    torch.set_num_threads(1)
    kept: dict[str, Any] = torch_workload.__dict__.setdefault("kept", {})
    if not kept:
        kept["work"] = torch_workload.Workload(FOLDER)
        kept["net"] = kept["work"].network()
    work, net = kept["work"], kept["net"]
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    place = int(context.node_config["partition-id"])
    work.learn(net, place)
    metrics = MetricRecord({"num-examples": work.x.shape[1]})
    return Message(
        content=RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}),
        reply_to=message,
    )


@server.main()
def main(grid: Grid, context: Context) -> None:
    """The server: a round begins on request."""
    work = Workload(FOLDER)
    net = work.network()
    asked = Asked(work.folder, lambda: work.probe(net))

    class Rounds(FedAvg):
        def configure_train(self, *args: Any, **others: Any) -> Any:
            asked.wait()
            return super().configure_train(*args, **others)

        def aggregate_train(self, *args: Any, **others: Any) -> Any:
            arrays, metrics = super().aggregate_train(*args, **others)
            asked.done()
            net.load_state_dict(arrays.to_torch_state_dict())
            return arrays, metrics

    sampled, population = len(work.cohorts[0]), len(work.x)
    strategy = Rounds(
        fraction_train=sampled / population,
        fraction_evaluate=0.0,
        min_train_nodes=sampled,
        min_available_nodes=population,
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(net.state_dict()),
        num_rounds=len(work.cohorts),
        timeout=3600,
    )
    asked.wait()


if __name__ == "__main__":
    resources = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": ACTORS, "include_dashboard": False},
    }
    run_simulation(server, client, num_supernodes=len(Workload(FOLDER).x), backend_config=resources)
