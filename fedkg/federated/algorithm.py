"""An algorithm: one value for each joint of the round."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedkg.federated.after import NothingAfter
from fedkg.federated.aggregate import WeightedMean
from fedkg.federated.gradient import MeanGradient
from fedkg.federated.grouping import AsStarted
from fedkg.federated.joints import (
    AfterRound,
    Aggregate,
    Differentiation,
    Grouping,
    Local,
    Privacy,
    Sampling,
    ServerStep,
    Start,
    Term,
    Weighting,
)
from fedkg.federated.local import SGD
from fedkg.federated.privacy import NoPrivacy
from fedkg.federated.sampling import UniformSampling
from fedkg.federated.server import AddUpdate
from fedkg.federated.start import GlobalStart
from fedkg.federated.weighting import BySamples


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """A federated algorithm: what stands at each joint, in the order of the round. The defaults are FedAvg's.

    >>> from fedkg.federated.algorithms import scfa
    >>> scfa().with_terms().name
    'scfa'
    """

    name: str
    sampling: Sampling = field(default_factory=UniformSampling)
    start: Start = field(default_factory=GlobalStart)
    terms: tuple[Term, ...] = ()
    differentiation: Differentiation = field(default_factory=MeanGradient)
    local: Local = field(default_factory=SGD)
    privacy: Privacy = field(default_factory=NoPrivacy)
    weighting: Weighting = field(default_factory=BySamples)
    grouping: Grouping = field(default_factory=AsStarted)
    aggregate: Aggregate = field(default_factory=WeightedMean)
    server: ServerStep = field(default_factory=AddUpdate)
    after: AfterRound = field(default_factory=NothingAfter)

    def with_terms(self, *terms: Term) -> Algorithm:
        """This algorithm with more terms in the clients' objective, for instance a constraint penalty."""
        return replace(self, terms=(*self.terms, *terms))
