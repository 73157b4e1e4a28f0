"""The end of a round: k of n sites have answered, or the time is over.

A `ContractTransport` stands above another transport. It asks again where a site failed, waits no
longer than the contract says, and gives up a round without a quorum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedkg.deploy.message import REQUEST, ROUND_KINDS, Message, request_digest
from fedkg.deploy.remote_sites import RemoteSites
from fedkg.deploy.transport import LONGEST_ERROR, Reply, Transport
from fedkg.errors import FederationError, TooFewClients, join_lines
from fedkg.exclusion_reasons import NO_REPLY, NOT_NEEDED, TOO_FEW, is_transient
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.algorithm_contradictions import check
from fedkg.federated.randomness import cohort_order
from fedkg.federated.server.sampling import OverSampling, UniformSampling
from fedkg.federated.settings import Settings
from fedkg.jobs.schema.federation_section import RoundContract

__all__ = ["ContractTransport", "RoundContract", "apply_contract", "wait_for_sites"]

ENDS_WITHOUT_QUORUM = ROUND_KINDS | {"describe"}
"""Requests that are useless without a quorum: other sites are not awaited once it is impossible."""

MOST_BACKOFF = 60.0
"""Longest time between two tries of a site, in seconds."""

START_POLL = 0.2
"""Seconds between two looks at which sites are present, before a run starts."""

NO_START_REPLY = "no reply within `federation.start_seconds`"
"""Why there is no answer about the data of a site."""

IDLE = 0.02
"""Longest pause in seconds before the contract asks a transport again that did not wait."""

PATIENCE = 0.25
"""Share of the deadline after which a silent site is asked again: it may have been restarted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContractTransport:
    """A transport that keeps a contract; replies come in the order of the requests.

    Their order and the selection among them depend on who has answered, never on who was first. Of
    more answers than participants those count that the round would draw without over-sampling
    (`federated.randomness.cohort_order`); spares fill the places of the others. If every site
    answers within `grace` seconds after the quorum, the result does not depend on time.

    Attributes:
        transport: what carries the messages.
        contract: the contract.
        participants: K, the number of sites that take part in a round with spares.
        preference: all names in the order in which a round draws them, by its number.
        dispensable: sites whose answers outside of rounds are needed only for a quorum.
    """

    transport: Transport
    contract: RoundContract
    participants: int
    preference: Callable[[int], Sequence[str]]
    dispensable: frozenset[str] = frozenset()
    _used: set[tuple[str, int]] = field(default_factory=set, init=False, repr=False)

    def present(self) -> tuple[str, ...]:
        """See `Transport.present`."""
        return self.transport.present()

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        """One reply for every site, with an answer or with the reason why there is none; with
        `late: weight` also the newest answer of each site to an earlier round.

        Raises:
            TooFewClients: fewer sites than the quorum have answered a request of a round.
        """
        if not requests:
            return
        in_round = next(iter(requests.values())).kind in ROUND_KINDS
        # Without spares the round needs all that were drawn: under differential privacy of clients,
        # chance alone decides how many, and a limit would make one site depend on the others.
        wanted = len(requests)
        if in_round and self.contract.oversampling > 1:
            wanted = min(self.participants, wanted)
        required = frozenset() if in_round else frozenset(requests) - self.dispensable
        needed = max(len(required), self.contract.needed(wanted))
        limit = self.contract.longest_wait(next(iter(requests.values())).kind)
        collection = _Collection(self.contract, requests, required, needed, min(seconds, limit))
        collection.run(self.transport)
        answered, replies = collection.answers, collection.answers | collection.failures
        if in_round and len(answered) < needed:
            raise TooFewClients(
                f"round {next(iter(requests.values())).round} has too few answers",
                expected=f"at least {needed}",
                received=f"{len(answered)} of {len(requests)}",
                excluded={site: replies[site].error or TOO_FEW for site in requests},
            )
        if in_round and len(answered) > wanted:
            order = self.preference(next(iter(requests.values())).round)
            for site in [site for site in order if site in answered][wanted:]:
                replies[site] = replace(replies[site], message=None, error=NOT_NEEDED)
        for site in requests:
            if (answered_round := replies[site].message) is not None:
                self._used.add((site, answered_round.round))
            yield replies[site]
        if self.contract.late == "weight" and in_round:
            for site, reply in sorted(collection.late.items()):
                assert reply.message is not None
                answer = (site, reply.message.round)
                if answer not in self._used:  # the answer to a request that was sent twice
                    self._used.add(answer)
                    yield reply


@dataclass(slots=True, eq=False)
class _Request:
    """A request to one site that is not answered yet.

    Attributes:
        due: when to send it (again), in seconds of the monotonic clock.
        tries: how often it was sent.
        failures: how many of these tries came back as an error.
        failure: the last of them.
    """

    message: Message
    due: float = 0.0
    tries: int = 0
    failures: int = 0
    failure: Reply | None = None


class _Collection:
    """Sends requests until all are answered or given up, or the contract ends the exchange."""

    def __init__(
        self,
        contract: RoundContract,
        requests: Mapping[str, Message],
        required: frozenset[str],
        needed: int,
        seconds: float,
    ) -> None:
        self.contract, self.required, self.needed, self.seconds = (
            contract,
            required,
            needed,
            seconds,
        )
        self.end = time.monotonic() + seconds
        first = next(iter(requests.values()))
        self.round, self.ends_without_quorum = first.round, first.kind in ENDS_WITHOUT_QUORUM
        self.requests = requests
        self.waiting = {site: _Request(message) for site, message in requests.items()}
        self.answers: dict[str, Reply] = {}
        self.failures: dict[str, Reply] = {}
        self.late: dict[str, Reply] = {}

    def run(self, transport: Transport) -> None:
        """Fill `answers` and `failures` until every site is in one of them."""
        while self.waiting and time.monotonic() < self.end:
            requests = self._take_due()
            wake = self._next_event()
            idle = True
            for reply in transport.exchange(requests, seconds=max(0.0, wake - time.monotonic())):
                idle = False
                self._receive(reply)
                if not self.waiting or self._next_event() < wake:
                    break  # the transport would wait too long
            if idle and self.waiting:
                time.sleep(min(IDLE, max(0.0, wake - time.monotonic())))
        for site, request in self.waiting.items():
            times = f"{request.tries} time{'' if request.tries == 1 else 's'}"
            end = f"asked {times} in {round(self.seconds, 2):g} s"
            if self._is_enough():
                end = f"enough others had answered, and {self.contract.grace:g} s of grace passed"
            no_reply = NO_START_REPLY if request.message.kind == "describe" else NO_REPLY
            error = f"{no_reply} ({end})"
            self.failures[site] = request.failure or Reply(site=site, message=None, error=error)

    def _take_due(self) -> dict[str, Message]:
        """The requests to send now."""
        now = time.monotonic()
        due = {site: one for site, one in self.waiting.items() if one.due <= now}
        for request in due.values():
            request.tries += 1
            self._schedule(request, now + PATIENCE * min(self.seconds, self.contract.deadline))
        return {site: request.message for site, request in due.items()}

    def _next_event(self) -> float:
        """When there is something to do although no reply arrives."""
        return min(self.end, *(request.due for request in self.waiting.values()))

    def _schedule(self, request: _Request, time_of_retry: float) -> None:
        has_tries = request.tries <= self.contract.retries
        request.due = time_of_retry if has_tries else math.inf

    def _receive(self, reply: Reply) -> None:
        site, now = reply.site, time.monotonic()
        if reply.message is not None and not is_answer(reply.message, self.requests.get(site)):
            earlier = self.late.get(site)
            newest = -1 if earlier is None or earlier.message is None else earlier.message.round
            if reply.message.kind == "train" and newest < reply.message.round < self.round:
                self.late[site] = reply
        elif site not in self.waiting:
            return  # another reply to a request that was sent twice
        elif reply.message is not None:
            self.answers[site] = reply
            del self.waiting[site]
            if self._is_enough():
                self.end = min(self.end, now + self.contract.grace)
        else:
            request = self.waiting[site]
            request.failures += 1
            text = join_lines(reply.error)  # from a site: it goes into tables, as one line
            reply = replace(reply, error=text[:LONGEST_ERROR])
            request.failure = reply
            backoff = self.contract.backoff * 2 ** (request.failures - 1)
            self._schedule(request, now + min(MOST_BACKOFF, backoff))
            is_final = request.due == math.inf or not is_transient(reply.error)
            if is_final and request.failures >= request.tries:  # no try is open
                self.failures[site] = reply
                del self.waiting[site]
                possible = len(self.requests) - len(self.failures)
                impossible = possible < self.needed or site in self.required
                if impossible and self.ends_without_quorum:
                    self.end = min(self.end, now + self.contract.grace)

    def _is_enough(self) -> bool:
        """Whether the sites that must answer, and a quorum, have answered."""
        return len(self.answers) >= self.needed and self.required <= self.answers.keys()


def is_answer(answer: Message, request: Message | None) -> bool:
    """Whether an answer belongs to a request; sites name its digest."""
    if request is None:
        return False
    if REQUEST in answer.fields:
        return bool(answer.fields[REQUEST] == request_digest(request.to_bytes()))
    return (answer.kind, answer.round) == (request.kind, request.round)


def apply_contract(
    contract: RoundContract,
    transport: Transport,
    names: Sequence[str],
    algorithm: Algorithm,
    settings: Settings,
) -> tuple[RemoteSites, Algorithm, Settings]:
    """The arguments of `fedkg.federated.train` for a training under a contract: ``sites``, the
    algorithm, and the settings.

    Args:
        names: all sites by position.

    Raises:
        JobError: the contract contradicts the algorithm.
    """
    population = len(names)
    check(algorithm, settings, population, **contract.choices())
    if contract.oversampling > 1 and isinstance(algorithm.sampling, UniformSampling):
        algorithm = replace(algorithm, sampling=OverSampling(factor=contract.oversampling))

    def preference(number: int) -> list[str]:
        order = cohort_order(settings.seed, number, population)
        return [names[position] for position in order.tolist()]

    sites = RemoteSites(
        transport=ContractTransport(
            transport=transport,
            contract=contract,
            participants=settings.sampled(population),
            preference=preference,
        ),
        seconds=contract.deadline,
        staleness=contract.staleness_factor if contract.late == "weight" else None,
    )
    return sites, algorithm, replace(settings, skipped_rounds=contract.skipped_rounds)


def wait_for_sites(
    contract: RoundContract,
    transport: Transport,
    names: Sequence[str],
    dispensable: frozenset[str] = frozenset(),
    seconds: float | None = None,
) -> None:
    """Return as soon as all sites are present, or after some time as many as the quorum with all
    but the dispensable ones.

    Args:
        seconds: how long to wait for all; None: `RoundContract.start_seconds`.

    Raises:
        FederationError: too few are present after this time.
    """
    seconds = contract.start_seconds if seconds is None else seconds
    end = time.monotonic() + seconds
    while missing := sorted(set(names) - set(transport.present())):
        if time.monotonic() >= end:
            if can_start(contract, names, dispensable, missing):
                return
            raise FederationError(
                f"not all sites are present after {seconds:g} s",
                received=f"{len(names) - len(missing)} of {len(names)}; missing: "
                + ", ".join(missing),
                help="start the missing sites with `fedkg site run SITE`, and then the server "
                "again",
            )
        time.sleep(min(START_POLL, max(0.0, end - time.monotonic())))


def can_start(
    contract: RoundContract,
    names: Collection[str],
    dispensable: frozenset[str],
    missing: Collection[str],
) -> bool:
    """Whether the sites that are not missing are enough: a quorum, and all that are needed."""
    return dispensable >= set(missing) and len(names) - len(missing) >= contract.needed(len(names))
