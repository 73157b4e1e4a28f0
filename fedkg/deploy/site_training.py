"""Training at a site: the site answers the server's requests with its samples and its rows.

Letters: G models the server holds, C clients of a stack (here 1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.threads import library_threads
from fedkg.deploy.disclosures import (
    JOINTS,
    START,
    UNUSABLE,
    UPDATE,
    check_beside,
    offer_tensors,
    reply_tensors,
    request_tensors,
)
from fedkg.deploy.message import Message
from fedkg.deploy.noisy_answer_replay import NoisyReleases
from fedkg.deploy.secure_aggregation import SECURE, SecureSite
from fedkg.deploy.site_state_versions import PrivateRows, is_receipt
from fedkg.deploy.stated_messages import require_stated
from fedkg.errors import FederationError, JobError
from fedkg.federated.client.outgoing_updates import make_outgoing, score_own_models
from fedkg.federated.client_state_store import ClientRows, FewRows
from fedkg.federated.executors.protocol import Work
from fedkg.federated.executors.sequential import Sequential
from fedkg.federated.privacy.budget import affordable
from fedkg.federated.round_steps import Offer, Outcome, Setting, StartPoint, StartRule
from fedkg.federated.server import guard
from fedkg.federated.state import ServerState, align
from fedkg.federated.train import AT_SITES, initial_state
from fedkg.kernels.compiled_loop_policy import loops_in_round
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReceivedStart(StartRule):
    """Starts a client at an offer that has come from the server.

    Args:
        rule: what a client makes of offers.
        received: the offer.
    """

    rule: StartRule
    received: Offer

    @override
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """See `StartRule.offer`."""
        return self.received

    @override
    def begin(
        self, work: Work, offer: Offer, rows: Mapping[str, ClientRows], clients: Tensor
    ) -> StartPoint:
        """See `StartRule.begin`."""
        return self.rule.begin(work, offer, rows, clients)

    @override
    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """See `StartRule.part`."""
        return self.rule.part(setting, outcome)


class SiteTraining:
    """The training of one client with its own data.

    The answer to a request follows from the request, the site's samples, its seed and the rows that
    the request refers to. The same request again has the same answer.

    Args:
        work: the training, with the data of this client alone (`Clients.counts`).
        folder: where the site's rows are kept.
        first: the state before the first round, where the server does not start from the seed.
        seed: the seed of minibatches, dropout and noise at this site, which must stay the same and
            unknown to the server where noise protects samples from it. None: that of the settings,
            with which the result is that of a local run.
        stated: what the invitation says that an own algorithm sends in each round; None for
            algorithms of fedkg. `Any`: JSON.

    Attributes:
        name: the client's name.

    Raises:
        JobError: the data of several clients or of none are here.
    """

    def __init__(
        self,
        work: Work,
        *,
        folder: Path,
        first: ServerState | None = None,
        seed: int | None = None,
        stated: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        check_beside(work)
        self._stated = stated
        names = work.problem.clients.names
        here = [place for place in range(len(names)) if place not in work.pool.elsewhere]
        if len(here) != 1:
            raise JobError(
                "this training runs at a site, which must have the data of exactly one client",
                received=", ".join(names[place] for place in here) or "none",
                help="keep the data of one client: `clients.only(NAME)`",
            )
        self.name = names[here[0]]
        self._work, self._client = work, torch.tensor(here)
        first = first or initial_state(work.problem, work.algorithm, work.settings)
        offered = work.algorithm.start.offer(first, self._client)
        deployed = work.algorithm.offer_models(work, first, self._client)
        self._chooses = offered.groups is None
        self._expected = {
            "train": _shapes(request_tensors(offered, first)),
            "evaluate": _shapes(offer_tensors(deployed)),
        }
        settings = work.settings
        self._settings = settings if seed is None else replace(settings, seed=seed)
        # Names and shapes without numbers: what the server holds is not here.
        self._models = _shapes(first.models)
        self._secure = SecureSite(self.name, self._update)
        self._releases = NoisyReleases(folder=folder, rounds=_affordable_rounds(work))
        self._rows = PrivateRows(
            folder=folder, first={name: rows[self._client] for name, rows in first.clients.items()}
        )

    def train(self, request: Message) -> Message:
        """The answer to a request of kind ``train``.

        Raises:
            FederationError: the request does not fit this site's algorithm or rows.
        """
        if not self._work.settings.secure_aggregation:
            return self._answer(request)
        if SECURE not in request.fields:
            raise FederationError(
                f"the job of site {self.name} uses secure aggregation, which hides single updates",
                received="a request for an update that is not hidden",
                help="ask the operator of the server: the server and the site need the same job",
            )
        return self._secure.answer(request)

    def _update(self, request: Message) -> Params:
        """The update of a request, to be masked."""
        answer = self._answer(request)
        if UNUSABLE in answer.fields:
            raise FederationError(str(answer.fields[UNUSABLE]))
        return _tensors(answer, UPDATE)

    def _answer(self, request: Message) -> Message:
        """The answer to a request; what was drawn from the operating system is drawn once."""
        if self._work.algorithm.differentiation.randomness == "seeded":
            return self._trained(request)
        return self._releases.once(request, self._trained)

    def _trained(self, request: Message) -> Message:
        work, state = self._received(request, self._expected["train"])
        with torch.no_grad(), library_threads(AT_SITES.threads), loops_in_round(AT_SITES.loops):
            [updates] = Sequential().train(work, state, self._client)
            updates = make_outgoing(work, state, updates)
            if work.settings.scores_at_sites:
                updates = score_own_models(work, state, updates)
        offer = work.algorithm.start.offer(state, self._client)
        tensors = reply_tensors(work, updates, offer)
        if self._stated is not None and not work.settings.secure_aggregation:
            require_stated(self._stated, tensors, self.name)
        fields: dict[str, str] = {}
        unusable = guard.usable(updates).rejected
        if unusable and not guard.usable(replace(updates, client_memory={})).rejected:
            [fields[UNUSABLE]] = unusable.values()  # the server cannot see it
        elif updates.client_memory:
            receipt = request.fields["receipt"] if unusable else receipt_of(request, tensors)
            if not unusable:
                self._rows.write(receipt, updates.client_memory)
            fields["receipt"] = receipt
        return Message(kind=request.kind, round=request.round, fields=fields, tensors=tensors)

    def deployed_model(self, request: Message) -> Params:
        """The model [1, ...] that this site uses, from a request that
        `remote_sites.RemoteSites.evaluation` made.

        Raises:
            FederationError: the request does not fit this site's algorithm or rows.
        """
        work, state = self._received(request, self._expected["evaluate"])
        with torch.no_grad(), library_threads(AT_SITES.threads), loops_in_round(AT_SITES.loops):
            return work.algorithm.site_models(work, state, self._client)

    def received_model(self, request: Message) -> Params:
        """The model that the server has for this site, from the same request: of a site that
        chooses among several, the one that it chooses.

        Layers that never leave the site are not in it.

        Raises:
            FederationError: the request does not fit this site's algorithm or rows.
        """
        work, state = self._received(request, self._expected["evaluate"])
        start = (work.algorithm.beside or work.algorithm).start
        with torch.no_grad(), library_threads(AT_SITES.threads), loops_in_round(AT_SITES.loops):
            offer = start.offer_models(work, state, self._client)
            point = start.begin(work, offer, state.clients, self._client)
            return {name: value[0] for name, value in offer.of_groups(point.groups).items()}

    def rows(self, receipt: str) -> Params:
        """The rows [1, ...] of a version, see `private_rows`.

        Raises:
            FederationError: this site does not have this version.
        """
        return self._rows.read(receipt)

    def _received(self, request: Message, expected: Params) -> tuple[Work, ServerState]:
        """The work and the state of a round: what the request and this site have of them.

        Args:
            expected: the tensors that the request must have with its prefixes, as `_shapes`.
        """
        models, group = _tensors(request, START), request.fields.get("group")
        reason = _find_misfit(expected, request.tensors)
        if (type(group) is not int) if not self._chooses else group is not None:
            reason = f"group {group!r}"
        if reason:
            raise FederationError(
                f"the server's request for round {request.round} does not fit the algorithm of"
                f" site {self.name}",
                received=reason,
                help="the server and all sites need the same job, rules and version of fedkg",
            )
        offer = Offer(
            models={name: value.unsqueeze(0) for name, value in models.items()},
            groups=None if group is None else torch.tensor([group]),
            names=tuple(self._models),
        )
        joints: dict[str, Params] = {}
        for name, value in _tensors(request, JOINTS).items():
            joint, _, key = name.partition("/")
            joints.setdefault(joint, {})[key] = value
        state = ServerState(
            round=request.round - 1,
            models=self._models,
            joints=joints,
            clients=self._rows_of(request),
            choice=AT_SITES,
        )
        algorithm, beside = self._work.algorithm, self._work.algorithm.beside
        if beside is not None:
            beside = replace(beside, start=ReceivedStart(rule=beside.start, received=offer))
        algorithm = replace(
            algorithm, start=ReceivedStart(rule=algorithm.start, received=offer), beside=beside
        )
        return replace(self._work, algorithm=algorithm, settings=self._settings), state

    def _rows_of(self, request: Message) -> Mapping[str, ClientRows]:
        """The rows that the server's request refers to."""
        if not self._rows.first:
            return {}
        receipt = request.fields.get("receipt")
        if not is_receipt(receipt):
            raise FederationError(
                f"the server's request does not name the state from which site {self.name} "
                "continues",
                received="no receipt" if receipt is None else repr(receipt),
                help="the server and all sites need the same job, rules and version of fedkg",
            )
        return {
            name: FewRows(clients=self._client, rows=value)
            for name, value in align(self._rows.read(receipt)).items()
        }


def _affordable_rounds(work: Work) -> int:
    """The rounds that the budget of privacy allows; without a budget, all."""
    algorithm, settings = work.algorithm, work.settings
    if algorithm.budget is None or algorithm.budget.randomness == "seeded":
        return settings.rounds
    names = work.problem.clients.names
    return affordable(algorithm.budget, algorithm.sampling, settings, len(names))


def _tensors(message: Message, prefix: str) -> Params:
    """The tensors of a message with this prefix, without it, in aligned memory."""
    return align(
        {
            name.removeprefix(prefix): value
            for name, value in message.tensors.items()
            if name.startswith(prefix)
        }
    )


def _shapes(tensors: Params) -> Params:
    """Tensors without numbers: any use of what they hold fails."""
    return {name: value.to("meta") for name, value in tensors.items()}


def _find_misfit(expected: Params, tensors: Mapping[str, Tensor]) -> str:
    """How tensors with the prefixes of a training differ from the expected names, shapes and types;
    "" if they do not.
    """
    received = {name: value for name, value in tensors.items() if name.startswith((START, JOINTS))}
    if expected.keys() != received.keys():
        return f"tensors {', '.join(received)} instead of {', '.join(expected)}"
    for name, value in expected.items():
        got = received[name]
        if got.shape != value.shape or got.dtype != value.dtype:
            return (
                f"{name}: {list(got.shape)} of {got.dtype} instead of {list(value.shape)} of"
                f" {value.dtype}"
            )
    return ""


def receipt_of(request: Message, answer: Params) -> str:
    """A receipt of the rows of an answer: of all that they follow from and the server knows."""
    before = {"receipt": request.fields.get("receipt")}
    whole = Message(
        kind="receipt", round=request.round, fields=before, tensors={**request.tensors, **answer}
    )
    return hashlib.sha256(whole.to_bytes()).hexdigest()
