"""What each client shares for clustering: a small part of its training data, and what is mined in
it.

Letters: C clients, S samples, T steps of a forecast, V channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import JobError
from fedkg.federated.problem import Clients
from fedkg.federated.randomness import ORDER, client_keys, permutations
from fedkg.federated.temporal.properties import Properties, as_traces, mined
from fedkg.mining import Pick, least, private
from fedkg.models.random_streams import root
from fedkg.pack import Pack
from fedkg.privacy import Randomness

MINED = 0x6D696E6564
"""In the key of the noise on mined values."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inferred:
    """The properties that fedkg mines before training.

    Attributes:
        own: phi_i, mined in the training targets of each client.
        shared: D_i^s, the samples that each client shares.
        sample: phi_i^s, mined in the shared samples only.
        pick: selects the value of each property, as in `mined`.
        public: whether the samples in `shared` belong to the server, which uses them to evaluate
            its models for each client.
    """

    own: Properties
    shared: Clients
    sample: Properties
    pick: Pick = least
    public: bool = False


def inferred(
    pack: Pack,
    clients: Clients,
    layout: InputLayout,
    *,
    steps: int,
    share: float = 0.05,
    seed: int = 0,
    pick: Pick = least,
) -> Inferred:
    """Mine the properties that FedSTL needs in the training targets of the clients.

    Args:
        pack: a pack with `infer` statements.
        clients: the samples of the clients.
        layout: of the V channels of a forecast.
        steps: T; targets are [S, T * V] or [S, T, V].
        share: the share of its samples that each client shares, at least one sample; they serve
            clustering and the training of its cluster. The server sees these samples and the
            smallest and largest values of the properties. If it must not, pass a private `pick`.
        seed: selects these samples.
        pick: selects the value of each property.

    Raises:
        JobError: a share outside 0 .. 1.
        KnowledgeError: the pack infers nothing for clients, or an inference has a number over time.
        LayoutError: the targets do not fit the layout.
    """
    if not 0 < share <= 1:
        raise JobError(
            "`share`, the share of its samples that a client sends to the server, is out of range",
            expected="0 < share <= 1",
            received=str(share),
        )
    pooled = [one.name for one in pack.manifest.inferences if one.per == "run"]
    if clients.elsewhere and pooled:
        raise JobError(
            f"`infer {pooled[0]}` is `per run`: it needs the samples of all clients in one place",
            help="use `per client` or `per cluster` where clients keep their samples",
        )
    shared = sampled(clients, share, seed)
    sample = of_shared(pack, shared, layout, steps=steps, pick=pick)
    own = _mined(pack, clients, layout, steps, pick)
    return replace(sample, own=own)


def of_shared(
    pack: Pack, shared: Clients, layout: InputLayout, *, steps: int, pick: Pick = least
) -> Inferred:
    """What a server has of `inferred` that received the shared samples alone: as `own` it has the
    properties of these samples, which it uses for nothing.
    """
    sample = _mined(pack, shared, layout, steps, pick)
    return Inferred(own=sample, shared=shared, sample=sample, pick=pick)


def inferred_privately(
    pack: Pack,
    clients: Clients,
    layout: InputLayout,
    *,
    steps: int,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    share: float = 0.9,
    seed: int = 0,
    randomness: Randomness = "seeded",
) -> Inferred:
    """`inferred` under differential privacy of samples: no client shares a sample, and private
    quantiles determine its property.

    The server derives what it knows of a client, and its cluster, from this property and its own
    rows: clusters have no further privacy cost.

    Args:
        pack: a pack with `infer` statements. Each parameter needs a declared span, in which fedkg
            searches for it.
        clients: the samples of the clients.
        layout: the layout of the V channels of a forecast.
        steps: T; targets are [S, T * V] or [S, T, V].
        x: [S, ...], the server's inputs, on which the server checks how well each cluster's model
            satisfies a client's property.
        y: the server's targets for `x`.
        epsilon: the privacy loss of a client's sample for all values together, in equal parts for
            all parameters.
        share: the share of traces that should satisfy each end of a property.
        seed: the seed of the noise; not read with the ``system`` randomness.
        randomness: where the noise comes from.

    Raises:
        KnowledgeError: a parameter that cannot be found privately (no span, a bound of a window, a
            trigger); numbers out of range.
    """
    counted = sum(len(one.parameters) for one in pack.manifest.inferences if one.per != "cluster")
    stream = (
        torch.Generator().manual_seed(int(root(seed, MINED)) & 0x7FFF_FFFF_FFFF_FFFF)
        if randomness == "seeded"
        else None
    )
    pick = private(share, epsilon / max(counted, 1), None, stream)
    own = _mined(pack, clients, layout, steps, pick)
    count = len(clients.names)
    return Inferred(
        own=own,
        shared=Clients(names=clients.names, x=(x,) * count, y=(y,) * count),
        sample=own,
        pick=pick,
        public=True,
    )


def sampled(clients: Clients, share: float, seed: int) -> Clients:
    """The clients with so much of their samples, drawn at random, at least one of each."""
    keys = client_keys(seed, 0, ORDER, torch.arange(len(clients.names)))
    counts = tuple(max(1, round(share * count)) for count in clients.samples)
    x, y = list(clients.x), list(clients.y)
    for place, count in enumerate(clients.samples):
        if place not in clients.elsewhere:
            order = permutations(keys[place : place + 1], torch.tensor([count]), 1)[0, 0]
            chosen = order[: counts[place]].sort().values.tolist()
            x[place], y[place] = x[place][chosen], y[place][chosen]
    return Clients(
        names=clients.names, x=tuple(x), y=tuple(y), counts=counts if clients.elsewhere else None
    )


def _mined(pack: Pack, clients: Clients, layout: InputLayout, steps: int, pick: Pick) -> Properties:
    traces = traces_of(clients, steps, len(layout.names))
    return mined(pack, traces, layout, pick=pick, longest=max(clients.samples))


def traces_of(clients: Clients, steps: int, channels: int) -> list[torch.Tensor]:
    """The targets of each client as traces [S, T, V].

    Raises:
        JobError: if the targets are not traces with these steps and channels.
    """
    if clients.y[0].shape[1:].numel() != steps * channels:
        raise JobError(
            "the targets of the samples are not series of the expected length",
            expected=f"{steps} steps of {channels} channels",
            received=f"targets of shape {list(clients.y[0].shape[1:])}",
        )
    return [as_traces(y, steps, channels) for y in clients.y]
