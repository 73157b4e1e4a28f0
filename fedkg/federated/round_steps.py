"""The steps of a round: one small protocol each.

An algorithm chooses an implementation for each step; implementations have no state.

    sample clients -> exclude clients -> before the round -> start point -> local objective
    -> local steps -> privacy -> validity score -> weight -> group
      -> aggregate -> server step -> after the round

What has to be remembered goes through the pipeline: what the server remembers of a joint is a dict
of tensors in
`ServerState.joints`, what it remembers of a client a row in `ServerState.clients`. A row is the
client's own: it stays at home.

Letters: N clients in all, K sampled in a round, C of them in a stack, B batch, F features, H
outputs, G models the server holds,
M constraints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.models.model_protocols import DifferentiatedModel, Gradient, Model, Params
from fedkg.models.random_streams import Noise
from fedkg.privacy import Randomness

if TYPE_CHECKING:
    from fedkg.federated.client.task_losses import Loss
    from fedkg.federated.client_state_store import ClientRows
    from fedkg.federated.executors.protocol import Work
    from fedkg.federated.round_record import RoundRecord
    from fedkg.federated.server.scoring import ProbeScores, ScoredRows, Weighed
    from fedkg.federated.state import ServerState

OnAllInvalid = Literal["skip", "fedavg", "error"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offer:
    """What the server gives clients to start from, or to use: all that they receive of its models.

    Attributes:
        models: each [C, ...], usually under the names of the model's parameters; [C, G, ...] if
            each client chooses one of the G models.
        groups: int64 [C], the server's model on which each client works; None if clients choose.
        names: the parameters of the model, in their order.
    """

    models: Params
    groups: Tensor | None
    names: tuple[str, ...]

    def of_groups(self, groups: Tensor) -> Params:
        """What clients received of the models, int64 [C], on which they work, each [C, ...]."""
        if self.groups is not None:
            return self.models
        rows = torch.arange(len(groups), device=groups.device)
        return {name: value[rows, groups] for name, value in self.models.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StartPoint:
    """Where a stack of clients begins.

    Attributes:
        variables: what local steps change, each [C, ...]; usually the model's parameters. These may
            be views that must not be written to.
        groups: int64 [C], the server's model on which each client works.
        anchor: the point towards which proximal terms pull, each [C, ...], without the parameters
            that they ignore; None: the start itself.
    """

    variables: Params
    groups: Tensor
    anchor: Params | None = None

    @property
    def pull(self) -> Params:
        """The anchor, or the start where there is none."""
        return self.variables if self.anchor is None else self.anchor


class ClientMemory(Mapping[str, Tensor]):
    """What is remembered of some clients, by name, each [C, ...]; read on demand.

    Args:
        rows: what is remembered of all clients.
        clients: int64 [C], their positions.
    """

    def __init__(self, rows: Mapping[str, ClientRows], clients: Tensor) -> None:
        self._rows, self._clients = rows, clients
        self._read: dict[str, Tensor] = {}

    @override
    def __getitem__(self, name: str) -> Tensor:
        if name not in self._read:
            self._read[name] = self._rows[name][self._clients]
        return self._read[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    @override
    def __len__(self) -> int:
        return len(self._rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundContext:
    """What a step may know about the round and its clients; the same object for every step.

    Local updates find it in `Setting.context`, terms in `Step.context`, and steps of the server,
    which derive from `ReadsContext`, in their attribute `context`.

    Attributes:
        round: the number of the round, from 1.
        population: N, the number of all clients.
        clients: int64 [C], positions of the clients of the stack; for steps that handle all
            updates together (`ServerStep.apply`, `AggregationRule.begin` and `finish`), of the
            cohort.
        samples: int64 [C], the number of samples of each.
        steps: int64 [C], the number of local steps of each.
        memory: what is remembered of each client, by name, each [C, ...]; empty at the server,
            because it stays at the clients.
        shared: what the server keeps for all clients, see `LocalUpdate.shared`.
    """

    round: int
    population: int
    clients: Tensor
    samples: Tensor
    steps: Tensor
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    shared: Params = field(default_factory=dict)

    @property
    def participation(self) -> float:
        """The share of all clients that are here, 0 .. 1."""
        return len(self.clients) / self.population

    def first(self, count: int) -> RoundContext:
        """The context of the first clients of the stack."""
        if count == len(self.clients):
            return self
        memory = {name: self.memory[name][:count] for name in self.memory}
        return replace(
            self,
            clients=self.clients[:count],
            samples=self.samples[:count],
            steps=self.steps[:count],
            memory=memory,
        )


@dataclass(frozen=True, kw_only=True)
class ReadsContext:
    """Base of weighting and aggregation rules and server steps that read the context.

    Attributes:
        context: set by the round before each call; None outside of a round.
    """

    context: RoundContext | None = field(default=None, repr=False, compare=False)


AnyStep = TypeVar("AnyStep")


def with_context(step: AnyStep, context: RoundContext) -> AnyStep:
    """The step with the context, if it reads one."""
    return replace(step, context=context) if isinstance(step, ReadsContext) else step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """What stays the same during the local steps of a stack.

    Attributes:
        state: the server's state before the round.
        clients: int64 [C], positions in the population.
        samples: int64 [C], the number of samples of each client.
        share: float64 [C], this number as a share of the samples of all N clients.
        steps: int64 [C], the number of steps of each client.
        rate: the learning rate of the round, one number for all clients or float64 [C].
        start: where the clients begin.
        context: the same for steps that know neither state nor start.
    """

    state: ServerState
    clients: Tensor
    samples: Tensor
    share: Tensor
    steps: Tensor
    rate: float | Tensor
    start: StartPoint
    context: RoundContext


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One minibatch of each client of a stack.

    Attributes:
        model: the model of the problem.
        loss: the loss of the problem.
        params: the parameters at which to evaluate the model, each [C, ...].
        x: [C, B, F], or more dimensions (windows, images).
        y: [C, B] or [C, B, H].
        share: [C, B], the weight of each sample in its client's mean, 0 for padding; None: 1 / B
            for each. If samples belong to a minibatch by chance (`Differentiation.by_chance`), it
            is 1 / `expected` for every sample and 0 for padding.
        noise: the randomness of the training step; None without randomness.
        clients: int64 [C], positions in the population.
        start: `StartPoint.pull` of these clients, possibly without some parameters.
        round: the number of the round, from 1.
        keys: int64 [C, B] by column, the category codes of the samples, for the terms that need
            them.
        closed: the model, if its closed-form derivative may be used; None otherwise, as in the
            reference executor.
        output: [C, B, H], the model's answer to `x` with this noise if it is known already, so that
            terms need not compute it again; otherwise None.
        expected: [C], the expected number of samples in a minibatch if samples belong to it by
            chance; otherwise None.
        autocast: the data type of the model's answer in mixed precision; None for full precision.
        context: the round and what is remembered of the clients; None outside of a round.
    """

    model: Model
    loss: Loss
    params: Params
    x: Tensor
    y: Tensor
    share: Tensor | None
    noise: Noise | None
    clients: Tensor
    start: Params
    round: int = 1
    keys: Mapping[str, Tensor] = field(default_factory=dict)
    closed: DifferentiatedModel | None = None
    output: Tensor | None = None
    expected: Tensor | None = None
    autocast: torch.dtype | None = None
    context: RoundContext | None = None

    def mean(self, values: Tensor) -> Tensor:
        """Per client the mean [C] of per-sample values [C, B], without the padding."""
        return values.mean(1) if self.share is None else (values * self.share).sum(1)


def write_statistics(step: Step, variables: Params) -> None:
    """Write the running statistics that the model observed in a step into the variables; no local
    optimiser moves them.
    """
    if step.noise is not None:
        for name, value in step.noise.observed.items():
            variables[name].copy_(value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """The result of the local steps of a stack.

    Attributes:
        update: what the clients send to the server, each [C, ...]: by default the change of the
            variables.
        client_memory: new rows for `ServerState.clients`, by name, each [C, ...].
        shared: what the clients send in addition, for the server to add to its part of
            `LocalUpdate.shared`, each [C, ...].
    """

    update: Params
    client_memory: Params = field(default_factory=dict)
    shared: Params = field(default_factory=dict)


class SamplingRule(Protocol):
    """Who takes part in a round."""

    def sample(self, *, seed: int, round: int, population: int, size: int) -> Tensor:
        """Positions of the sampled clients, int64 [K], all different."""
        ...


class ExclusionRule(Protocol):
    """Which clients never take part, whatever they would send."""

    def exclude(self, names: Sequence[str]) -> tuple[dict[int, str], tuple[str, ...]]:
        """The excluded clients by position among all names, with the reason and what to do; and
        notes.
        """
        ...


class BeforeRound(Protocol):
    """What the server does once it is known who takes part: ask the clients which model fits them,
    put them into clusters, set a step.
    """

    def begin(self) -> Params:
        """What all clients of a round receive of it, before the first round; see
        ``ServerState.joints["before"]``.
        """
        ...

    def apply(self, work: Work, state: ServerState, clients: Tensor) -> ServerState:
        """The state that the round of these clients (int64 [K]) works with; its number and models'
        shapes stay as they are.

        It is called with the whole cohort, whatever the stacks are that train it later.
        """
        ...


@dataclass(frozen=True, slots=True)
class NothingBefore:
    """The default of `BeforeRound`: the round begins with the state as it is."""

    def begin(self) -> Params:
        """See `BeforeRound.begin`."""
        return {}

    def apply(self, work: Work, state: ServerState, clients: Tensor) -> ServerState:
        """See `BeforeRound.apply`."""
        return state


class StartRule(ABC):
    """Where the clients begin: the global model, a cluster's, shared layers with private ones, an
    own block.

    The server makes an `Offer` from what it holds; a client begins from the offer, its rows and its
    samples. `place_clients` does both where all data are in one process.
    """

    __slots__ = ()

    def model_count(self, population: int) -> int:
        """G, how many models the server holds for `population` clients."""
        return 1

    def initial_memory(self, models: Params, population: int) -> Params:
        """What is remembered of each client before the first round, each [N, ...]; its names begin
        with ``start/``.
        """
        return {}

    @abstractmethod
    def offer(self, state: ServerState, clients: Tensor) -> Offer:
        """What the server gives the clients (int64 [C]) to start from. It reads no rows of them."""

    def offer_models(self, work: Work, state: ServerState, clients: Tensor) -> Offer:
        """What the server gives clients to use between rounds and after the last one."""
        return self.offer(state, clients)

    def begin(
        self, work: Work, offer: Offer, rows: Mapping[str, ClientRows], clients: Tensor
    ) -> StartPoint:
        """The start of the clients (int64 [C]) at what they were offered; by default as it is.

        Args:
            rows: what is remembered of each client, as in `ServerState.clients`.
        """
        assert offer.groups is not None
        return StartPoint(variables=offer.models, groups=offer.groups)

    def place_clients(self, work: Work, state: ServerState, clients: Tensor) -> StartPoint:
        """The start of the clients (int64 [C])."""
        return self.begin(work, self.offer(state, clients), state.clients, clients)

    def part(self, setting: Setting, outcome: Outcome) -> Outcome:
        """The outcome with the private layers moved from `update` to `client_memory`."""
        return outcome

    def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
        """The models [C, ...] that the clients use between rounds and after the last one."""
        offer = self.offer_models(work, state, clients)
        return self.begin(work, offer, state.clients, clients).variables


class Term(Protocol):
    """An addition to the local objective: proximal, constraint, teacher."""

    def value(self, step: Step) -> Tensor:
        """[C], differentiable by autograd with respect to `step.params`."""
        ...


class OfClients:
    """Marks a term that applies a personal set or property to each client; rows without a client
    are unaffected.
    """

    __slots__ = ()


@runtime_checkable
class SlopedTerm(Protocol):
    """A term that also knows its derivative in closed form; with others of its kind it spares a
    stack automatic differentiation.
    """

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        ...

    def slope(self, step: Step) -> Params:
        """The derivative by `step.params`, each [C, ...] and not used elsewhere; nothing for a
        parameter it does not depend on.
        """
        ...


@runtime_checkable
class OutputTerm(Protocol):
    """A term that depends on the parameters through the model's outputs alone, and knows its
    derivative by them; sparing as above.
    """

    def value(self, step: Step) -> Tensor:
        """See `Term.value`; of `Step.output` where it is known."""
        ...

    def by_output(self, step: Step) -> tuple[Tensor, Tensor]:
        """The value [C], and its derivative by the outputs, shaped as they are; `Step.output` is
        known.
        """
        ...


@runtime_checkable
class KnownTerm(Protocol):
    """A term that says what of a minibatch it reads, which clipping sample by sample has to
    know.
    """

    @property
    def reads(self) -> Literal["parameters", "samples", "client"]:
        """The parameters alone; each sample separately, so that the value is the mean over the
        samples in their shares; or with each
        sample something that tells of all samples of its client."""
        ...


class Differentiation(Protocol):
    """How a minibatch becomes a gradient: its mean, or clipped sample by sample."""

    @property
    def by_chance(self) -> bool:
        """Whether each sample belongs to a minibatch by chance, independently of all others (see
        `batches.by_chance`).
        """
        ...

    @property
    def randomness(self) -> Randomness:
        """Where this chance comes from."""
        ...

    def __call__(
        self, step: Step, terms: tuple[Term, ...]
    ) -> tuple[Tensor, Mapping[str, Gradient]]:
        """Per client the objective's value [C] (NaN if it is private) and its gradient by
        `step.params`.
        """
        ...


class LocalUpdate(Protocol):
    """The local optimiser."""

    def initial_memory(self, models: Params, population: int) -> Params:
        """What is remembered of each client before the first round, each [N, ...]; its names begin
        with ``local/``.
        """
        ...

    def shared(self, models: Params) -> Params:
        """What the server keeps for its clients' optimisers before the first round (server control
        variates), by any name.

        It is stored in ``ServerState.joints["local"]``, is sent with the model, and grows each
        round by the sum of `Outcome.shared` over
        the clients with usable updates.
        """
        ...

    def begin(self, setting: Setting, variables: Params) -> Params:
        """What is carried from step to step besides the variables (momentum, control variates),
        each [C, ...].
        """
        ...

    def point(self, variables: Params) -> Params:
        """Return the model parameters of the variables, [C, ...]; usually the variables
        themselves.
        """
        ...

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """One step, written into `variables` and `carry`; the executor owns both and nobody else
        sees them.
        """
        ...

    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        """What is sent and remembered; may write into `variables`."""
        ...


class PrivacyRule(Protocol):
    """What happens to an update before anybody sees it, and to a sum of them before it is used."""

    @property
    def noisy(self) -> bool:
        """Whether the server adds noise, whatever it receives; the clients' objectives are then
        private.
        """
        ...

    def client(self, update: Params, keys: Tensor) -> Params:
        """The updates [C, ...] that leave the clients (clipped, noised); `keys` int64 [C] name each
        client's randomness.
        """
        ...

    def server(self, update: Params, key: Tensor) -> Params:
        """The aggregate [G, ...] that the server uses; `key` names its randomness."""
        ...


class WeightingRule(Protocol):
    """How much each client's update counts."""

    @property
    def on_all_invalid(self) -> OnAllInvalid:
        """What to do when no update has any weight: keep the model, weigh by samples, or stop with
        an error.
        """
        ...

    @property
    def needs_scores(self) -> bool:
        """Whether the weights depend on the scores at all."""
        ...

    def weigh(
        self, samples: Tensor, scores: ProbeScores | None, rows: ScoredRows | None
    ) -> Weighed:
        """The weights of updates, and the validity of their models.

        Args:
            samples: float64 [C], the number of samples of each client as a share of the sampled
                clients' samples.
            scores: the violations of the clients' models on the probe rows; None if the problem has
                no rules or nothing was scored.
            rows: the scored constraints; None if the problem has no rules.
        """
        ...


class AggregationRule(Protocol):
    """Many updates into one per group; a fold over stacks, so that the updates are never all in
    memory unless it must see them so.
    """

    @property
    def needs_server_update(self) -> bool:
        """Whether it compares updates with one from the server's data, `Problem.server_data`."""
        ...

    def begin(self, models: Params, server_update: Params | None) -> Any:
        """An empty fold, for the server's models [G, ...]; `server_update` [1, ...] is the update
        from the server's own data, where needed.
        """
        ...

    def add(self, fold: Any, update: Params, weights: Tensor, groups: Tensor) -> Any:
        """The fold with the updates [C, ...] of a stack; weights float64 [C], groups int64 [C].

        What a client does not send (private layers) stays out of the fold; what the server has no
        parameter for is ignored.
        """
        ...

    def finish(self, fold: Any) -> Params:
        """The aggregated update [G, ...]; zeros for a group without weight."""
        ...

    def counted(self, fold: Any) -> Tensor | None:
        """How much each added client counted, float64 in the order of adding, where that is not by
        the weights; else None.
        """
        ...


class ServerStep(Protocol):
    """The server's optimiser."""

    def begin(self, models: Params) -> Params:
        """What is remembered before the first round."""
        ...

    def apply(self, models: Params, update: Params, memory: Params) -> tuple[Params, Params]:
        """New models [G, ...] and memory."""
        ...


class AfterRound(Protocol):
    """What the server does when a round is over: infer properties, re-cluster, train a cluster's
    model, personalise.
    """

    def apply(self, work: Work, state: ServerState, record: RoundRecord) -> ServerState:
        """The state with which the next round begins."""
        ...


@dataclass(frozen=True, slots=True)
class NothingAfter:
    """The default of `AfterRound`: the next round begins as this one ended."""

    def apply(self, work: Work, state: ServerState, record: RoundRecord) -> ServerState:
        """See `AfterRound.apply`."""
        return state
