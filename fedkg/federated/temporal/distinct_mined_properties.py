"""The mined properties that a training uses in any of its steps; their privacy cost is counted
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedkg.federated.temporal.outlying_property_exclusion import PropertyExclusion
from fedkg.federated.temporal.properties import Properties
from fedkg.federated.temporal.property_loss_clustering import ByProperty
from fedkg.federated.temporal.teacher_loss import TeacherLoss

if TYPE_CHECKING:
    from fedkg.federated.algorithm import Algorithm


def used_properties(algorithm: Algorithm) -> tuple[Properties, ...]:
    """The properties that teach clients, put them into clusters and exclude them, each once."""
    taught = [term.properties for term in algorithm.terms if isinstance(term, TeacherLoss)]
    before = algorithm.before
    clustered = (
        [before.inferred.own, before.inferred.sample] if isinstance(before, ByProperty) else []
    )
    excluding = (
        [algorithm.exclusion.properties]
        if isinstance(algorithm.exclusion, PropertyExclusion)
        else []
    )
    return tuple({id(one): one for one in (*taught, *clustered, *excluding)}.values())
