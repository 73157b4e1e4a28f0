"""Options of commands that train: how to follow a training from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedkg.operations.run_event_listeners import Observation

Track = Annotated[
    str | None,
    typer.Option(
        "--track", metavar="NAMES", help="Also write figures to tensorboard, mlflow, or both."
    ),
]
Notify = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        metavar="COMMAND|URL",
        help="Send changes that need attention as JSON; can be repeated.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="N",
        min=0,
        max=65535,
        help="Serve metrics for Prometheus on this port; 0: a free one.",
    ),
]
MetricsAddress = Annotated[
    str, typer.Option("--metrics-address", metavar="IP", help="The address to serve them on.")
]
LOOPBACK = "127.0.0.1"


def create_observation(
    track: str | None, notify: Sequence[str] | None, port: int | None, address: str
) -> Observation:
    """What the options ask for."""
    from fedkg.operations.run_event_listeners import Observation

    return Observation(
        track=() if track is None else tuple(name.strip() for name in track.split(",")),
        notify=tuple(notify or ()),
        metrics_port=port,
        metrics_address=address,
    )
