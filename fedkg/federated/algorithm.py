"""An algorithm: one value for each joint of the round."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from fedkg.federated.client.gradient import MeanGradient
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.client.start_points import GlobalStart
from fedkg.federated.privacy.budget import Budget
from fedkg.federated.privacy.update_noise import NoPrivacy
from fedkg.federated.round_steps import (
    AfterRound,
    AggregationRule,
    BeforeRound,
    Differentiation,
    ExclusionRule,
    LocalUpdate,
    NothingAfter,
    NothingBefore,
    Offer,
    PrivacyRule,
    SamplingRule,
    ServerStep,
    StartRule,
    Term,
    WeightingRule,
)
from fedkg.federated.server.optimisers import AddUpdate
from fedkg.federated.server.sampling import UniformSampling
from fedkg.federated.server.weighted_mean import WeightedMean
from fedkg.federated.server.weighting import BySamples
from fedkg.models.model_protocols import Params

if TYPE_CHECKING:
    from fedkg.federated.executors.protocol import Work
    from fedkg.federated.state import ServerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """A federated algorithm: one implementation for each step of a round, in order.

    The defaults are FedAvg's.

    Attributes:
        exclusion: which clients take part in no round, or (`AnswerExclusion`) which updates of
            a round do not count; None: all do.
        alike: if the server has several models, whether all start like the first one; otherwise
            each starts with different random parameters.
        beside: a second algorithm with which each client trains another model on the same
            minibatches and sends nothing. Only its `start`, `terms`, `differentiation` and `local`
            count. Its names in `ServerState.clients` must differ from those of this algorithm.
        pooled: whether all samples are gathered at one client first. This is not a federation but
            its upper bound.
        budget: the privacy budget of the training, if it is `protected`.

    Examples:
        >>> from fedkg.federated.algorithms import scfa
        >>> scfa().with_terms().name
        'scfa'
    """

    name: str
    alike: bool = False
    sampling: SamplingRule = field(default_factory=UniformSampling)
    exclusion: ExclusionRule | None = None
    before: BeforeRound = field(default_factory=NothingBefore)
    start: StartRule = field(default_factory=GlobalStart)
    terms: tuple[Term, ...] = ()
    differentiation: Differentiation = field(default_factory=MeanGradient)
    local: LocalUpdate = field(default_factory=SGD)
    privacy: PrivacyRule = field(default_factory=NoPrivacy)
    weighting: WeightingRule = field(default_factory=BySamples)
    aggregate: AggregationRule = field(default_factory=WeightedMean)
    server: ServerStep = field(default_factory=AddUpdate)
    after: AfterRound = field(default_factory=NothingAfter)
    beside: Algorithm | None = None
    pooled: bool = False
    budget: Budget | None = None

    def with_terms(self, *terms: Term) -> Algorithm:
        """This algorithm with more terms in the clients' objective, for instance a constraint
        penalty.
        """
        beside = None if self.beside is None else self.beside.with_terms(*terms)
        return replace(self, terms=(*self.terms, *terms), beside=beside)

    @property
    def one_model(self) -> bool:
        """Whether all clients use the server's one model."""
        return self.beside is None and isinstance(self.start, GlobalStart)

    def offer_models(self, work: Work, state: ServerState, clients: Tensor) -> Offer:
        """What the server gives the clients (int64 [C]) for `site_models`."""
        return (self.beside or self).start.offer_models(work, state, clients)

    def site_models(self, work: Work, state: ServerState, clients: Tensor) -> Params:
        """The models [C, ...] that the clients (int64 [C]) use: those they train beside, where they
        do, else where they would start.
        """
        if self.beside is not None:
            return self.beside.site_models(work, state, clients)
        return self.start.site_models(work, state, clients)
