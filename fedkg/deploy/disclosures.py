"""Everything that leaves a site in a training, and what comes to it: derived from the algorithm.

The messages of a training are made by the functions of this module, so that the list of disclosures
states what is sent.

Letters: N clients in all, C clients of a stack, G models the server holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fedkg.deploy.secure_aggregation import MASKED
from fedkg.errors import JobError
from fedkg.federated.client.outgoing_updates import has_scores
from fedkg.federated.client.per_client_settings import rate_for, steps_for
from fedkg.federated.client.wire_precision import TYPES, wire_of
from fedkg.federated.executors.protocol import Updates, Work, client_context
from fedkg.federated.privacy.update_noise import ClippedClients
from fedkg.federated.round_steps import Offer, Setting
from fedkg.federated.state import ServerState
from fedkg.federated.step_results import finish_local
from fedkg.federated.temporal.client_property_mining import Inferred
from fedkg.federated.temporal.outlying_property_exclusion import PropertyExclusion
from fedkg.federated.temporal.properties import Properties
from fedkg.federated.temporal.property_loss_clustering import ByProperty
from fedkg.federated.temporal.server_cluster_training import ClusterTraining
from fedkg.federated.train import initial_state
from fedkg.models.model_protocols import Params

START, JOINTS = "start/", "joints/"
"""Before the names of tensors that a site receives: what it starts from, and the server's memory of
steps of the round.
"""

SENT_JOINTS = ("local", "before")
"""The steps with a memory at the server that clients need; it is of no single client."""

UPDATE, SHARED, LOSS, GROUP, VIOLATION = "update/", "shared/", "loss", "group", "violation"
"""Names, or what is before the names, of tensors that a site sends."""

UNUSABLE = "unusable"
"""Field of an answer: why the site cannot use its own new rows, if it cannot."""

COUNT, SAMPLES, PROPERTY, PROPERTIES = "count", "samples/", "property/", "properties"
"""Names, or what is before the names, of what a site sends before the first round."""

Direction = Literal["to the server", "to the site"]
When = Literal[
    "before the first round", "in each of its rounds", "at evaluations", "when rules change"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """A tensor that leaves a site, or comes to it.

    Attributes:
        name: its name in the message.
        meaning: what it says of the site's data, or of the server's state.
        direction: where it goes.
        when: when it is sent.
        shape: its shape.
        dtype: its type, such as ``float32``.
        bytes: its size.
    """

    name: str
    meaning: str
    direction: Direction
    when: When
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    @property
    def readers(self) -> str:
        """Who can read it, besides the sender."""
        if self.direction == "to the site":
            return "the site"
        if self.name == MASKED:
            return "nobody; the server learns the sum over the sites of the round"
        return "the server"


def list_disclosures(work: Work, client: str) -> tuple[Disclosure, ...]:
    """Everything that a training sends between the server and the site of a client.

    Besides tensors, answers have a receipt (`private_rows`), which follows from these tensors, and
    the reason if a site's own rows cannot be used.

    Args:
        work: the training, at the server or at the site.
    """
    check_beside(work)
    place = work.problem.clients.names.index(client)
    state = initial_state(work.problem, work.algorithm, work.settings)
    offer = work.algorithm.start.offer(state, torch.tensor([place], device=work.pool.x.device))
    return (
        *(
            _disclosure(name, meaning, value, "to the server", "before the first round")
            for name, meaning, value in _prepared(work, place)
        ),
        *(
            _disclosure(name, _meaning_down(name), value, "to the site", "in each of its rounds")
            for name, value in request_tensors(offer, state).items()
        ),
        *(
            _disclosure(
                name, _meaning_up(work, name), value, "to the server", "in each of its rounds"
            )
            for name, value in _sent(work, state).items()
        ),
    )


def disclosure_rows(trial: str, work: Work) -> list[dict[str, str | int]]:
    """The rows of `disclosures.csv`: what the site with the most samples sends and receives.

    Empty if the training cannot run over sites.

    Args:
        trial: the id of the training.
        work: the training.
    """
    if work.algorithm.pooled:
        return []
    largest = work.problem.clients.names[int(work.pool.sizes.argmax())]
    try:
        found = list_disclosures(work, largest)
    except JobError:  # sites would have to receive more than the common model
        return []
    return [
        {
            "trial": trial,
            "message": one.name,
            "content": one.meaning,
            "direction": one.direction,
            "when": one.when,
            "bytes": one.bytes,
            "readers": one.readers,
        }
        for one in found
    ]


def describe_disclosures(disclosures: Iterable[Disclosure]) -> list[str]:
    """One line for each disclosure, in words."""
    return [
        f"{one.when}, {one.direction}: {one.name}, {one.dtype} {list(one.shape)},"
        f" {one.bytes} bytes: {one.meaning}"
        for one in disclosures
    ]


def offer_tensors(offer: Offer) -> Params:
    """The tensors of an offer for one client, without the dimension of clients."""
    return {START + name: value[0] for name, value in offer.models.items()}


def request_tensors(offer: Offer, state: ServerState) -> Params:
    """The tensors of a request to train: the offer for one client, and what the server remembers of
    the steps that clients take part in.
    """
    tensors = offer_tensors(offer)
    for joint in SENT_JOINTS:
        for name, value in state.joints.get(joint, {}).items():
            tensors[f"{JOINTS}{joint}/{name}"] = value
    return tensors


def reply_tensors(work: Work, updates: Updates, offer: Offer) -> Params:
    """The tensors of an answer: the updates of one client without the dimension of clients, in the
    precision in which they travel.
    """
    wire = wire_of(work)
    tensors = {UPDATE + name: value[0] for name, value in updates.update.items()}
    tensors |= {SHARED + name: value[0] for name, value in updates.shared.items()}
    if wire is not None:
        tensors = {name: value.to(TYPES[wire]) for name, value in tensors.items()}
    tensors[LOSS] = updates.loss[0]
    if updates.violation is not None:
        tensors[VIOLATION] = updates.violation[0]
    if offer.groups is None:
        tensors[GROUP] = updates.groups[0]
    return tensors


def property_numbers(properties: Properties, place: int) -> Tensor:
    """What the server compares of a client's mined properties: float64 [P]."""
    return torch.cat([values[place].double().cpu() for values in properties.values])


def derive_reply(work: Work, state: ServerState) -> Params:
    """What a client would answer after no local step: the names, shapes and types of each answer.

    Args:
        state: the server's state, or one with models and joints of these shapes.
    """
    algorithm, population = work.algorithm, len(work.problem.clients.names)
    client = torch.zeros(1, dtype=torch.int64, device=work.pool.x.device)
    rows = algorithm.start.initial_memory(state.models, population)
    rows |= algorithm.local.initial_memory(state.models, population)
    offer = chosen = algorithm.start.offer(state, client)
    if offer.groups is None:  # the choice would need samples
        chosen = replace(offer, models=offer.of_groups(client), groups=client)
    start = algorithm.start.begin(work, chosen, rows, client)
    known, steps = replace(state, clients=rows), steps_for(work, client)
    setting = Setting(
        state=known,
        clients=client,
        samples=work.pool.sizes[client],
        share=work.pool.share(client),
        steps=steps,
        rate=rate_for(work, state.round + 1, client),
        start=start,
        context=client_context(work, known, client, steps),
    )
    variables = {name: value.clone() for name, value in start.variables.items()}
    carry = algorithm.local.begin(setting, variables)
    outcome = finish_local(algorithm, setting, variables, carry)
    updates = Updates(
        clients=client,
        groups=start.groups,
        start={},
        update=outcome.update,
        loss=torch.zeros(1, dtype=work.pool.x.dtype),
        shared=outcome.shared,
        violation=_violation(work),
    )
    return reply_tensors(work, updates, offer)


def _violation(work: Work) -> Tensor | None:
    """The form of the score that a client tells, [1, M]; None if it tells none."""
    scorer = work.problem.scorer
    if scorer is None or not work.settings.scores_at_sites or not has_scores(work):
        return None
    return torch.zeros((1, scorer.rows.count), dtype=torch.float64)


def _sent(work: Work, state: ServerState) -> Params:
    """The tensors of an answer, or of the one that masks it."""
    reply = derive_reply(work, state)
    if not work.settings.secure_aggregation:
        return reply
    numbers = sum(value.numel() for name, value in reply.items() if name.startswith(UPDATE))
    return {MASKED: torch.zeros(numbers + 1, dtype=torch.int32)}


def check_beside(work: Work) -> None:
    """Raise JobError if sites would have to receive more than the offer for the common model."""
    beside = work.algorithm.beside
    if beside is not None and getattr(beside.start, "common", None) != work.algorithm.start:
        raise JobError(
            "`beside.start`, which starts the model that each site keeps, must contain `start` of "
            "the algorithm, which starts the common model: sites receive nothing else",
            expected=f"common={work.algorithm.start!r}",
        )


def _prepared(work: Work, place: int) -> Iterable[tuple[str, str, Tensor]]:
    """Name, meaning and shape of what a site sends before the first round."""
    yield COUNT, "how many training samples the site has", torch.zeros((), dtype=torch.int64)
    exclusion = work.algorithm.exclusion
    if isinstance(exclusion, PropertyExclusion):
        value = property_numbers(exclusion.properties, place)
        yield PROPERTIES, "the numbers of `infer` statements, which the server compares", value
    inferred = _inferred(work)
    if inferred is None:
        return
    if inferred.public:
        for one, values in zip(inferred.sample.inferences, inferred.sample.values, strict=True):
            meaning = f"what `infer {one.name}` found, with noise"
            yield PROPERTY + one.name, meaning, values[place]
        return
    count, why = inferred.shared.samples[place], "which serve clustering and the cluster's training"
    for name, values in (("x", inferred.shared.x[place]), ("y", inferred.shared.y[place])):
        part = "inputs" if name == "x" else "targets"
        yield (
            SAMPLES + name,
            f"the {part} of {count} training samples, unchanged, {why}",
            values.new_zeros((count, *values.shape[1:])),
        )


def _inferred(work: Work) -> Inferred | None:
    """The mined properties that the server uses."""
    for step in (work.algorithm.before, work.algorithm.after):
        if isinstance(step, ByProperty | ClusterTraining):
            return step.inferred
    return None


def _meaning_down(name: str) -> str:
    if name.startswith(START):
        return f"{name.removeprefix(START)} of the model that the site starts from"
    return f"{name.removeprefix(JOINTS)}: what the server remembers for all clients"


def _meaning_up(work: Work, name: str) -> str:
    privacy, budget = work.algorithm.privacy, work.algorithm.budget
    if name == MASKED:
        return (
            "the update and a count of clipped numbers under masks: the server learns the sum over"
            " all sites of the round"
        )
    if name == LOSS:
        return (
            "the mean objective of the local steps"
            if budget is None
            else "not a number: the objective is private"
        )
    if name == VIOLATION:
        return (
            "for each bound row of a rule, the share of probe rows that the site's own model"
            " violates, by its own account"
        )
    if name == GROUP:
        return "which of the server's models has the least loss on the site's samples"
    meaning = (
        f"how {name.removeprefix(UPDATE)} changed in the local steps"
        if name.startswith(UPDATE)
        else f"what the site adds to {name.removeprefix(SHARED)} of the server"
    )
    if isinstance(privacy, ClippedClients):
        meaning += f", clipped to norm {privacy.clip:g} with the other parameters"
    elif budget is not None:
        meaning += f", by gradients clipped to norm {budget.clip:g} with noise {budget.noise:g}"
    wire = wire_of(work)
    return meaning if wire is None else f"{meaning}, rounded to {wire}"


def _disclosure(
    name: str, meaning: str, value: Tensor, direction: Direction, when: When
) -> Disclosure:
    return Disclosure(
        name=name,
        meaning=meaning,
        direction=direction,
        when=when,
        shape=tuple(value.shape),
        dtype=str(value.dtype).removeprefix("torch."),
        bytes=math.prod(value.shape) * value.element_size(),
    )
