"""How well forecasts are, and how often they satisfy the properties of their clients (An, Johnson
and Ma 2024, table 2).

Letters: N clients, S test samples of one, T steps, V channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated.executors.protocol import Work
from fedkg.federated.problem import Clients
from fedkg.federated.state import ServerState
from fedkg.federated.temporal.properties import Properties, as_traces
from fedkg.federated.temporal.shared_samples import Inferred, traces_of
from fedkg.models.model_protocols import Params, predict


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
    found: dict[str, list[tuple[float, float, float]]] = {
        "client": [],
        "cluster": [],
        "teacher": [],
        "truth": [],
    }
    for place, (x, truth) in enumerate(
        zip(test.x, traces_of(test, properties.steps, len(properties.layout.names)), strict=True)
    ):
        client = torch.full((len(x),), place, dtype=torch.int64, device=x.device)
        one = everybody[place : place + 1]  # one by one: of many clients not all at once
        own = work.algorithm.site_models(work, state, one)
        offer = start.offer_models(work, state, one)
        group = start.begin(work, offer, state.clients, one).groups[0]
        mine = _forecast(work, {name: value[0] for name, value in own.items()}, x, properties)
        theirs = _forecast(
            work, {name: value[group] for name, value in state.models.items()}, x, properties
        )
        source = properties.source(mine)
        corrected = properties.nearest(source, client)
        found["client"].append(_numbers(properties, mine, source, truth, client))
        found["cluster"].append(
            _numbers(properties, theirs, properties.source(theirs), truth, client)
        )
        found["teacher"].append(
            _numbers(properties, properties.corrected(mine, client), corrected, truth, client)
        )
        found["truth"].append(_numbers(properties, truth, properties.source(truth), truth, client))
    columns = {
        name: torch.tensor(numbers, dtype=torch.float64).unbind(1)
        for name, numbers in found.items()
    }
    kept = {
        name: Kept(mse=mse, sequences=sequences, steps=steps)
        for name, (mse, sequences, steps) in columns.items()
    }
    return Judged(
        client=kept["client"], cluster=kept["cluster"], teacher=kept["teacher"], truth=kept["truth"]
    )


def _forecast(work: Work, params: Params, x: Tensor, properties: Properties) -> Tensor:
    return as_traces(
        predict(work.problem.model, params, x), properties.steps, len(properties.layout.names)
    )


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
