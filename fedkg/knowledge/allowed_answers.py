"""Range models: the classes or the interval that a pack allows for each sample.

The ranges of all satisfied conditions intersect. An unknown condition allows everything. If every
condition is violated, `otherwise` applies.

Letters: V views, B samples, C columns of the contract, K classes.
"""

from __future__ import annotations

import numpy as np

from fedkg.constraints.meaning.interpreter import Timing
from fedkg.knowledge.clause_conditions import ArrayConditions, Bool, Conditions, Float
from fedkg.knowledge.knowledge_network_forward_pass import run_network
from fedkg.pack import Pack
from fedkg.pack.knowledge_models import Clause, KnowledgeModel


def allowed_classes(
    pack: Pack, model: KnowledgeModel, values: Float, timing: Timing | None = None
) -> Bool:
    """Whether each class is allowed, [B, K].

    A row without a true value means that clauses contradict each other for that sample. `agreement`
    counts these samples, and injection treats every class as allowed there (the range must not be
    empty).

    Args:
        values: float64 [V, B, C] in source units.
        timing: position of each sample in time, for conditions over time; None: the samples are the
            consecutive steps of one trace.
    """
    return allowed_classes_from(model, ArrayConditions(pack, values, timing))


def allowed_classes_from(model: KnowledgeModel, on: Conditions) -> Bool:
    """`allowed_classes` for samples with evaluated conditions."""
    batch = on.samples
    if model.network is not None:
        code = run_network(model.network, on.arrays, on.inputs(model.network))
        known = ~np.isnan(code)
        allowed = np.ones((batch, len(model.classes)), dtype=np.bool_)
        allowed[known] = np.arange(len(model.classes)) == code[known, None]
        return allowed
    allowed = np.ones((batch, len(model.classes)), dtype=np.bool_)
    open_to = np.ones(batch, dtype=np.bool_)
    for clause in model.clauses:
        verdict = on.verdict(clause)
        open_to &= np.asarray(~(verdict.holds | verdict.unknown).any(axis=1))
        somewhere = np.asarray(verdict.holds.any(axis=1))
        allowed &= ~somewhere[:, None] | _mask(clause, len(model.classes))
    if model.otherwise is not None:
        allowed &= ~open_to[:, None] | _mask(model.otherwise, len(model.classes))
    return allowed


def _mask(clause: Clause, count: int) -> Bool:
    mask = (
        np.ones(count, dtype=np.bool_)
        if clause.classes is None
        else np.zeros(count, dtype=np.bool_)
    )
    mask[list(clause.classes or ())] = True
    return mask


def allowed_interval(
    pack: Pack, model: KnowledgeModel, values: Float, timing: Timing | None = None
) -> Float:
    """The smallest and largest allowed number, [B, 2], in the model's unit and within its span.

    The first exceeds the second if clauses contradict each other. Arguments as in
    `allowed_classes`.
    """
    return allowed_interval_from(model, ArrayConditions(pack, values, timing))


def allowed_interval_from(model: KnowledgeModel, on: Conditions) -> Float:
    """`allowed_interval` for samples with evaluated conditions."""
    batch = on.samples
    low, high = model.span if model.span is not None else (-np.inf, np.inf)
    result = np.tile(np.array([low, high], dtype=np.float64), (batch, 1))
    if model.network is not None:
        number = run_network(model.network, on.arrays, on.inputs(model.network))
        known = ~np.isnan(number)
        result[known] = number[known, None]
        return result
    open_to = np.ones(batch, dtype=np.bool_)
    for clause in model.clauses:
        verdict = on.verdict(clause)
        open_to &= np.asarray(~(verdict.holds | verdict.unknown).any(axis=1))
        _narrow(clause, verdict.holds, result, on)
    if model.otherwise is not None:
        holds = open_to[:, None] & on.verdict(model.otherwise).holds
        _narrow(model.otherwise, holds, result, on)
    return result


def _narrow(clause: Clause, where: Bool, result: Float, on: Conditions) -> None:
    """Intersect the interval with that of a clause, where `where` [B, R] is true; an unknown end
    has no effect.
    """
    for term, end in ((clause.low, 0), (clause.high, 1)):
        if term is None:
            continue
        number = on.numbers(clause, term)
        limit = np.where(where & ~np.isnan(number), number, -np.inf if end == 0 else np.inf)
        if limit.shape[1]:
            result[:, end] = (
                np.maximum(result[:, 0], limit.max(axis=1))
                if end == 0
                else np.minimum(result[:, 1], limit.min(axis=1))
            )
