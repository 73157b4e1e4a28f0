"""Prediction models: the class or number that a pack predicts for each sample.

The first clause that holds wins. From a clause that is unknown on, nothing is predicted: it might have been the first.
Letters: V views, B samples, C columns of the contract.
"""

from __future__ import annotations

import numpy as np

from fedkg.constraints.timing import Timing
from fedkg.knowledge.conditions import Float, held, numbers
from fedkg.knowledge.network import answers
from fedkg.pack import Pack
from fedkg.pack.knowledge import Clause, KnowledgeModel


def predictions(pack: Pack, model: KnowledgeModel, values: Float, timing: Timing | None = None) -> Float:
    """The position of the predicted class, or the predicted number in the model's unit: float64 [B]; NaN where nothing is predicted.

    Args:
        values: float64 [V, B, C] in source units.
        timing: where each sample stands in time, for conditions over time; None: the samples are the steps of one trace, in their order.
    """
    if model.network is not None:
        return answers(pack, model, values)
    result = np.full(values.shape[1], np.nan)
    undecided = np.ones(values.shape[1], dtype=np.bool_)
    for clause in (*model.clauses, *(() if model.otherwise is None else (model.otherwise,))):
        verdict = held(pack, clause, values, timing)
        said = _said(pack, clause, values, timing)
        for row in range(verdict.holds.shape[1]):
            now = undecided & verdict.holds[:, row]
            result[now] = said[now, row]
            undecided &= ~(verdict.holds[:, row] | verdict.unknown[:, row])
    return result


def _said(pack: Pack, clause: Clause, values: Float, timing: Timing | None) -> Float:
    """What the clause predicts, [B, R]."""
    if clause.value is not None:
        return numbers(pack, clause, clause.value, values, timing)
    code = np.nan if clause.predicted is None else float(clause.predicted)
    return np.full((values.shape[1], pack.conditions[clause.bank].rows), code)
