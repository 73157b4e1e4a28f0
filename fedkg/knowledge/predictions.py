"""Prediction models: the class or number that a pack predicts for each sample.

The first clause with a satisfied condition wins. Nothing is predicted from the first unknown
clause on, because that clause might apply.

Letters: V views, B samples, C columns of the contract.
"""

from __future__ import annotations

import numpy as np

from fedkg.constraints.meaning.interpreter import Timing
from fedkg.knowledge.clause_conditions import ArrayConditions, Conditions, Float
from fedkg.knowledge.knowledge_network_forward_pass import run_network
from fedkg.pack import Pack
from fedkg.pack.knowledge_models import Clause, KnowledgeModel


def predictions(
    pack: Pack, model: KnowledgeModel, values: Float, timing: Timing | None = None
) -> Float:
    """The position of the predicted class, or the predicted number in the model's unit: float64
    [B].

    NaN without a prediction.

    Args:
        values: float64 [V, B, C] in source units.
        timing: position of each sample in time, for conditions over time; None: the samples are the
            consecutive steps of one trace.
    """
    return predictions_from(model, ArrayConditions(pack, values, timing))


def predictions_from(model: KnowledgeModel, on: Conditions) -> Float:
    """`predictions` for samples with evaluated conditions."""
    if model.network is not None:
        return run_network(model.network, on.arrays, on.inputs(model.network))
    result = np.full(on.samples, np.nan)
    undecided = np.ones(on.samples, dtype=np.bool_)
    for clause in (*model.clauses, *(() if model.otherwise is None else (model.otherwise,))):
        verdict = on.verdict(clause)
        said = _predicted(clause, on, verdict.holds.shape[1])
        for row in range(verdict.holds.shape[1]):
            now = undecided & verdict.holds[:, row]
            result[now] = said[now, row]
            undecided &= ~(verdict.holds[:, row] | verdict.unknown[:, row])
    return result


def _predicted(clause: Clause, on: Conditions, rows: int) -> Float:
    """The prediction of the clause, [B, R]."""
    if clause.value is not None:
        return on.numbers(clause, clause.value)
    code = np.nan if clause.predicted is None else float(clause.predicted)
    return np.full((on.samples, rows), code)
