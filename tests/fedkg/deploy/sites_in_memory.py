"""A federation of sites in this process that only messages connect, beside the same federation
trained in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from fedkg.deploy.message import Message
from fedkg.deploy.remote_sites import RECEIPT, RemoteSites
from fedkg.deploy.site_training import SiteTraining
from fedkg.deploy.transport import LoopbackTransport, Reply
from fedkg.errors import FederationError
from fedkg.federated import Algorithm, Problem, RoundRecord, ServerState, Settings, train
from fedkg.federated.executors import Work
from fedkg.federated.problem import pool

Trained = list[tuple[ServerState, RoundRecord]]


@dataclass(kw_only=True)
class Sites:
    """The sites of a problem; each has the data of one client only.

    Attributes:
        algorithm: what a site, the server (None) or one process (``"all"``) knows of the algorithm.
        messages: all requests and answers so far, in their order, with the name of the site.
        sent: the answers as bytes.
        before_answer: called with the site and the request; may raise an error.
        silent: sites that do not answer.
        lost: sites with answers that do not arrive.
    """

    problem: Problem
    algorithm: Callable[[str | None], Algorithm]
    settings: Settings
    folder: Path
    messages: list[tuple[str, Message, Message]] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    before_answer: Callable[[str, Message], None] = lambda site, request: None
    silent: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.start()

    @property
    def names(self) -> tuple[str, ...]:
        return self.problem.clients.names

    def start(self) -> None:
        """Start all sites, or start them again: they remember what their folders hold."""
        self.sites = {
            name: SiteTraining(self.work(name), folder=self.folder / name) for name in self.names
        }

    def work(self, name: str | None) -> Work:
        """What a site, or the server, has of the training."""
        problem = replace(
            self.problem,
            clients=self.problem.clients.only(name),
            server_data=self.problem.server_data if name is None else None,
            scorer=self.problem.scorer if name is None else None,
        )
        return Work(
            problem=problem,
            algorithm=self.algorithm(name),
            settings=self.settings,
            pool=pool(problem.clients),
        )

    def present(self) -> tuple[str, ...]:
        return self.names

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        handlers = {name: self.handler(name) for name in requests if name not in self.silent}
        return LoopbackTransport(sites=handlers).exchange(requests, seconds=seconds)

    def handler(self, name: str) -> Callable[[bytes], bytes]:
        def handle(data: bytes) -> bytes:
            request = Message.from_bytes(data, sender="the server")
            self.before_answer(name, request)
            answer = self.sites[name].train(request)
            if name in self.lost:
                raise FederationError("the connection was lost")
            self.messages.append((name, request, answer))
            self.sent.append(answer.to_bytes())
            return self.sent[-1]

        return handle

    def train(self, state: ServerState | None = None) -> Iterator[tuple[ServerState, RoundRecord]]:
        """Train over messages."""
        work, remote = self.work(None), RemoteSites(transport=self, seconds=60)
        return train(work.problem, work.algorithm, work.settings, state, sites=remote)

    def train_here(self) -> Trained:
        """Train in one place, by the reference executor."""
        settings = replace(self.settings, executor="sequential")
        return list(train(self.problem, self.algorithm("all"), settings))

    def rows(self, state: ServerState) -> dict[str, Tensor]:
        """The rows of all sites, each [N, ...], that belong to a state of the server."""
        if RECEIPT not in state.clients:
            return {}
        each = [
            self.sites[name].rows(bytes(receipt.tolist()).hex())
            for name, receipt in zip(
                self.names, state.clients[RECEIPT][torch.arange(len(self.names))], strict=True
            )
        ]
        return {name: torch.cat([rows[name] for rows in each]) for name in each[0]}


def fail_in(rounds: Mapping[int, str]) -> Callable[[str, Message], None]:
    """Let a site fail in a round: its name by the number of the round."""

    def fail(site: str, request: Message) -> None:
        if rounds.get(request.round) == site:
            raise FederationError("the disk of the site is full")

    return fail


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    """Assert that tensors have the same names in the same order, types and bytes."""
    assert list(one) == list(other)
    for name, value in one.items():
        got = other[name]
        assert (value.dtype, value.shape) == (got.dtype, got.shape), name
        assert value.contiguous().numpy().tobytes() == got.contiguous().numpy().tobytes(), name


def same_state(here: ServerState, there: ServerState) -> None:
    """Assert that a server without data has the models and the memory of one that has all data."""
    assert here.round == there.round
    same(here.models, there.models)
    assert list(here.joints) == list(there.joints)
    for joint, memory in here.joints.items():
        same(memory, there.joints[joint])


def same_record(here: RoundRecord, there: RoundRecord, *, apart: tuple[str, ...] = ()) -> None:
    """Assert that two records agree in all but times, the executor, and fields set apart."""
    for one in fields(RoundRecord):
        if one.name == "seconds" or one.name in apart:
            continue
        a, b = getattr(here, one.name), getattr(there, one.name)
        if one.name == "notes" and here.round == 1:
            a, b = a[1:], b[1:]  # the first note names the executor
        if isinstance(a, Tensor):
            assert torch.equal(a.nan_to_num(-1), b.nan_to_num(-1)), one.name
        else:
            assert repr(a) == repr(b), one.name
