"""How well forecasts are, and how often they satisfy the properties of their clients (An, Johnson
and Ma 2024, table 2).

Letters: N clients, S test samples of one, T steps, V channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated.executors.protocol import Work
from fedkg.federated.problem import Clients
from fedkg.federated.state import ServerState
from fedkg.federated.temporal.client_property_mining import Inferred, traces_of
from fedkg.federated.temporal.properties import Properties, as_traces
from fedkg.models.model_protocols import Model, Params, predict

Scores = Mapping[str, tuple[float, float, float]]
"""By kind of model, the numbers of `Kept` for one client."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """Scores of the forecasts of all clients by one kind of model; float64 [N] each.

    Attributes:
        mse: the mean squared error against the known part of the truth, in the units of the model.
        sequences: the share of forecasts that satisfy the property, among those without an unknown
            number.
        steps: the share of steps that are unchanged in the nearest trace that satisfies the
            property. For ranges, the paper's code counts upper and lower bounds separately, which
            gives (1 + this) / 2.
    """

    mse: Tensor
    sequences: Tensor
    steps: Tensor

    def mean(self) -> dict[str, tuple[float, float]]:
        """Of each the mean over clients, and the half width of its 95 % interval, ``1.96 std /
        sqrt(N)``.
        """
        found = {}
        for name, values in (
            ("mse", self.mse),
            ("sequences", self.sequences),
            ("steps", self.steps),
        ):
            spread = float(values.std()) if len(values) > 1 else 0.0
            found[name] = (float(values.mean()), 1.96 * spread / math.sqrt(len(values)))
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Scores of the forecasts of three kinds of models, and of the truth: a property mined in
    training data excludes values that were never seen there, even if they occur.

    Attributes:
        client: scores of each client's own model.
        cluster: scores of the model of each client's cluster (-S).
        teacher: scores of the client's model, corrected by its property (-T). These forecasts
            always satisfy the property, but are not necessarily nearer to the truth.
        truth: scores of the true values.
    """

    client: Kept
    cluster: Kept
    teacher: Kept
    truth: Kept


def judged(work: Work, state: ServerState, inferred: Inferred, test: Clients) -> Judged:
    """Score the forecasts of a training's clients on their test samples.

    Args:
        work: the training.
        state: the state of the training.
        inferred: the mined properties.
        test: the same clients with test samples.

    Raises:
        JobError: if the targets are not traces.
    """
    properties = inferred.own
    everybody = torch.arange(len(test.names), device=work.pool.x.device)
    start = work.algorithm.start
    found: list[Scores] = []
    for place, (x, truth) in enumerate(
        zip(test.x, traces_of(test, properties.steps, len(properties.layout.names)), strict=True)
    ):
        one = everybody[place : place + 1]  # one by one: of many clients not all at once
        own = work.algorithm.site_models(work, state, one)
        offer = start.offer_models(work, state, one)
        group = start.begin(work, offer, state.clients, one).groups[0]
        found.append(
            judge_client(
                work.problem.model,
                properties,
                {name: value[0] for name, value in own.items()},
                {name: value[group] for name, value in state.models.items()},
                x,
                truth,
                place,
            )
        )
    return merge_scores(found)


def judge_client(
    model: Model,
    properties: Properties,
    own: Params,
    cluster: Params,
    x: Tensor,
    truth: Tensor,
    place: int,
) -> Scores:
    """The scores of one client by kind of model.

    Args:
        properties: the mined properties.
        own: the client's own model.
        cluster: the model of its cluster.
        x: its test samples [S, ...].
        truth: their targets [S, T, V].
        place: its position.
    """
    client = torch.full((len(x),), place, dtype=torch.int64, device=x.device)
    mine, theirs = (_forecast(model, params, x, properties) for params in (own, cluster))
    source = properties.source(mine)
    corrected = properties.nearest(source, client)
    return {
        "client": _numbers(properties, mine, source, truth, client),
        "cluster": _numbers(properties, theirs, properties.source(theirs), truth, client),
        "teacher": _numbers(
            properties, properties.corrected(mine, client), corrected, truth, client
        ),
        "truth": _numbers(properties, truth, properties.source(truth), truth, client),
    }


def merge_scores(each: Sequence[Scores]) -> Judged:
    """The scores of all clients, in their order."""
    kept = {}
    for kind in ("client", "cluster", "teacher", "truth"):
        numbers = torch.tensor([one[kind] for one in each], dtype=torch.float64)
        mse, sequences, steps = numbers.unbind(1)
        kept[kind] = Kept(mse=mse, sequences=sequences, steps=steps)
    return Judged(**kept)


def _forecast(model: Model, params: Params, x: Tensor, properties: Properties) -> Tensor:
    here = {name: value.clone() for name, value in params.items()}  # see `with_aligned_memory`
    return as_traces(predict(model, here, x), properties.steps, len(properties.layout.names))


def _numbers(
    properties: Properties, traces: Tensor, source: Tensor, truth: Tensor, client: Tensor
) -> tuple[float, float, float]:
    """Squared error of traces, and how much of them, in source units, satisfies the property;
    unknown ones are left out.
    """
    whole = ~source.isnan().flatten(1).any(1)
    source, client = source[whole], client[whole]
    unmoved = (properties.nearest(source, client) == source).all(-1)
    return (
        float((traces - truth).double().square().nanmean()),
        float(properties.satisfied(source, client).double().mean()),
        float(unmoved.double().mean()),
    )
