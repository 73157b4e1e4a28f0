"""The server's side of training at sites: an executor that asks sites over a transport.

Letters: N clients in all, K sampled in a round, C clients of a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedkg._internal.safe_text import escape_hidden
from fedkg.deploy.disclosures import (
    GROUP,
    LOSS,
    SHARED,
    UNUSABLE,
    UPDATE,
    VIOLATION,
    check_beside,
    derive_reply,
    offer_tensors,
    request_tensors,
)
from fedkg.deploy.message import Message
from fedkg.deploy.secure_aggregation import LARGEST_NUMBER, aggregate_securely, default_threshold
from fedkg.deploy.site_state_versions import NO_RECEIPT, is_receipt
from fedkg.deploy.transport import LONGEST_ERROR, Reply, Transport
from fedkg.exclusion_reasons import NO_SUM
from fedkg.federated.client_state_store import ClientRows
from fedkg.federated.executors.protocol import Updates, Work
from fedkg.federated.executors.sequential import Sequential
from fedkg.federated.round_steps import Offer
from fedkg.federated.server import guard
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params

RECEIPT = "receipt"
"""In `ServerState.clients` at the server: which reply of each client it used last, uint8 [N, 32].
It stands for the rows that the client itself remembers, see `private_rows`.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemoteSites:
    """Trains clients at their sites; see `fedkg.federated.train` with ``sites=``.

    A client is the site of its name. A client whose site does not answer in time, fails, or answers
    with something else is in `Updates.rejected`, with the reason. Updates come in the order of the
    clients, so that sums have the order of the sequential executor.

    Args:
        transport: reaches the sites.
        seconds: how long a round waits for its sites.
        staleness: the factor on the weight of an update that arrives this many rounds late; None:
            such updates are not used.
    """

    transport: Transport
    seconds: float
    staleness: Callable[[int], float] | None = None

    def initial_memory(self, rows: Mapping[str, ClientRows], population: int) -> Params:
        """See `SiteExecutor.initial_memory`."""
        if not rows:
            return {}
        return {RECEIPT: torch.zeros((population, len(NO_RECEIPT) // 2), dtype=torch.uint8)}

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        """See `Executor.train`. Clients with data here, such as the server's own, train here."""
        if not work.pool.elsewhere:
            yield from Sequential().train(work, state, clients, limit=limit)
            return
        check_beside(work)
        names, number = work.problem.clients.names, state.round + 1
        offer = work.algorithm.start.offer(state, clients)
        expected = _Expected.of(work, state)
        offers = {client: _row(offer, row) for row, client in enumerate(clients.tolist())}
        places = {names[client]: client for client in offers}
        requests = {
            names[client]: _request(
                "train", number, state, client, own, request_tensors(own, state)
            )
            for client, own in offers.items()
        }
        if work.settings.secure_aggregation:
            yield self._train_securely(work, clients, offer, requests, expected)
            return
        waiting = dict.fromkeys(offers)
        found: dict[int, Updates] = {}
        rejected: dict[int, str] = {}
        late_replies: list[Reply] = []
        for reply in self.transport.exchange(requests, seconds=self.seconds):
            if reply.message is not None and reply.message.round < number:
                late_replies.append(reply)
            client = places.get(reply.site, -1)
            late = reply.message is not None and reply.message.round != number
            if late or client not in waiting or client in found:
                continue
            answer = expected.read(reply, client, offers[client])
            if isinstance(answer, str):
                # It may be the error of an earlier request: an answer can still follow.
                rejected[client] = answer
            else:
                found[client] = answer
                rejected.pop(client, None)
            while waiting and (first := next(iter(waiting))) in found:
                del waiting[first]
                yield found.pop(first)
        for client in waiting:
            if client in found:
                yield found[client]
            else:
                rejected.setdefault(client, f"no answer within {self.seconds:g} s")
        if self.staleness is not None:
            on_time = {names[client] for client in offers if client not in rejected}
            for reply in late_replies:
                if reply.site not in on_time:
                    updates = self._read_late(work, state, expected, reply)
                    yield from updates
                    for one in updates:
                        rejected.pop(int(one.clients[0]), None)
        if rejected:
            yield expected.without_clients(rejected)

    def _read_late(
        self, work: Work, state: ServerState, expected: _Expected, reply: Reply
    ) -> tuple[Updates, ...]:
        """The update of a reply to an earlier round, as a change of the present model; none if it
        is unusable.
        """
        assert reply.message is not None
        assert self.staleness is not None
        client = work.problem.clients.names.index(reply.site)
        offer = work.algorithm.start.offer(state, torch.tensor([client]))
        answer = expected.read(reply, client, offer)
        if isinstance(answer, str):
            return ()
        rounds = state.round + 1 - reply.message.round
        return (replace(answer, late={client: (rounds, self.staleness(rounds))}),)

    def _train_securely(
        self,
        work: Work,
        clients: Tensor,
        offer: Offer,
        requests: Mapping[str, Message],
        expected: _Expected,
    ) -> Updates:
        """The mean of the updates as the update of every client in it: what the server makes of
        these is what it would make of theirs, up to the rounding of `quantisation_bound`.
        """
        taking_part = min(len(requests), work.settings.sampled(len(work.problem.clients.names)))
        threshold = default_threshold(taking_part)
        if len(requests) < threshold:
            why = f"{NO_SUM}sites in the round: {len(requests)}, needed: {threshold}"
            return expected.without_clients(dict.fromkeys(clients.tolist(), why))
        places = dict(zip(requests, clients.tolist(), strict=True))
        samples = work.pool.sizes[clients].to(torch.float64)
        weighed = work.algorithm.weighting.weigh(samples / samples.sum(), None, None).weights
        weights = dict(zip(requests, (weighed / weighed.max()).tolist(), strict=True))
        like = _part(expected.tensors, UPDATE)
        found = aggregate_securely(
            self.transport,
            requests,
            weights,
            like,
            limit=LARGEST_NUMBER,
            threshold=threshold,
            seconds=self.seconds,
            participants=taking_part,
        )
        rejected = {places[site]: _shortened(why) for site, why in found.failed.items()}
        if found.total is None:
            return expected.without_clients(rejected)
        count, whole = len(found.sites), sum(weights[site] for site in found.sites)
        rows = torch.tensor([list(requests).index(site) for site in found.sites])
        clipped = (
            f"{found.clipped} numbers of the updates were beyond {LARGEST_NUMBER:g} and clipped"
        )
        return Updates(
            clients=clients[rows],
            groups=torch.zeros(count, dtype=torch.int64),
            start={name: value[rows] for name, value in offer.models.items() if name in like},
            update={
                name: (value / whole).to(like[name].dtype).expand(count, *value.shape)
                for name, value in found.total.items()
            },
            loss=torch.full((count,), torch.nan, dtype=work.pool.x.dtype),
            rejected=rejected,
            notes=(clipped,) if found.clipped else (),
            outgoing=True,
        )

    def evaluation(self, work: Work, state: ServerState, client: int) -> Message:
        """The request with which a site finds the model that it uses after the round of a state,
        see `SiteTraining.deployed_model`.
        """
        offer = work.algorithm.offer_models(work, state, torch.tensor([client]))
        return _request("evaluate", state.round, state, client, offer, offer_tensors(offer))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Expected:
    """What replies must consist of: tensors without the dimension of clients.

    Attributes:
        tensors: by name; their numbers mean nothing. Updates may come rounded to fewer bits.
        held: G, the models that the server holds.
        receipts: whether clients remember rows.
    """

    tensors: Params
    held: int
    receipts: bool

    @classmethod
    def of(cls, work: Work, state: ServerState) -> _Expected:
        """What clients send in the next round."""
        unrounded = replace(work, settings=replace(work.settings, wire=None))
        tensors = derive_reply(unrounded, state)
        tensors.pop(GROUP, None)
        return cls(
            tensors=tensors,
            held=len(next(iter(state.models.values()))),
            receipts=RECEIPT in state.clients,
        )

    def read(self, reply: Reply, client: int, offer: Offer) -> Updates | str:
        """The update of a client, or why there is none."""
        if reply.message is None:
            return _shortened(reply.error)
        fields, tensors = reply.message.fields, dict(reply.message.tensors)
        if UNUSABLE in fields:
            return _shortened(str(fields[UNUSABLE]))
        groups = offer.groups
        if groups is None:
            group = tensors.pop(GROUP, None)
            known = group is not None and group.shape == () and group.dtype == torch.int64
            if group is None or not known or not 0 <= int(group) < self.held:
                return f"it chose none of the {self.held} models"
            groups = group.view(1)
        _, stacked, misfit = guard.stack(self.tensors, [(client, tensors)])
        if misfit:
            return misfit[client]
        memory: Params = {}
        if self.receipts:
            if not is_receipt(fields.get(RECEIPT)):
                return "its answer has no receipt of its private rows"
            memory = {RECEIPT: _bytes_of(fields[RECEIPT]).unsqueeze(0)}
        violation = stacked.get(VIOLATION)
        if violation is not None and bool(((violation < 0) | (violation > 1)).any()):
            return "its score is not a share of the probe rows"
        start, update = offer.of_groups(groups), _part(stacked, UPDATE)
        return Updates(
            clients=torch.tensor([client]),
            groups=groups,
            start={name: start[name] for name in update},
            update=update,
            loss=stacked[LOSS],
            client_memory=memory,
            shared=_part(stacked, SHARED),
            violation=violation,
            outgoing=True,
        )

    def without_clients(self, rejected: dict[int, str]) -> Updates:
        """No updates, and why."""
        none = {name: value.new_zeros((0, *value.shape)) for name, value in self.tensors.items()}
        update, nobody = _part(none, UPDATE), torch.zeros(0, dtype=torch.int64)
        memory = {RECEIPT: torch.zeros((0, len(NO_RECEIPT) // 2), dtype=torch.uint8)}
        return Updates(
            clients=nobody,
            groups=nobody,
            start=update,
            update=update,
            loss=none[LOSS],
            client_memory=memory if self.receipts else {},
            shared=_part(none, SHARED),
            rejected=rejected,
            outgoing=True,
        )


def _request(
    kind: str, number: int, state: ServerState, client: int, offer: Offer, tensors: Params
) -> Message:
    """A request with an offer, whose tensors these are, and the receipt of the client's rows."""
    fields: dict[str, Any] = {"group": None if offer.groups is None else int(offer.groups[0])}
    if RECEIPT in state.clients:
        receipt = state.clients[RECEIPT][torch.tensor([client])]
        fields[RECEIPT] = bytes(receipt.flatten().tolist()).hex()
    return Message(kind=kind, round=number, fields=fields, tensors=tensors)


def _shortened(text: str) -> str:
    """Text from a site, safe to show and of bounded length."""
    return escape_hidden(text[:LONGEST_ERROR])


def _row(offer: Offer, row: int) -> Offer:
    """The offer for one of the clients."""
    here = slice(row, row + 1)
    return Offer(
        models={name: value[here] for name, value in offer.models.items()},
        groups=None if offer.groups is None else offer.groups[here],
        names=offer.names,
    )


def _part(tensors: Params, prefix: str) -> Params:
    """The tensors with this prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _bytes_of(receipt: str) -> Tensor:
    """The bytes of a receipt, uint8 [32]."""
    return torch.tensor(list(bytes.fromhex(receipt)), dtype=torch.uint8)
