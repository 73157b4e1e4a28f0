"""Rules that read other rows of the table, on a batch: the interpreter evaluates them.

They read data alone, so that no gradient is lost. Letters: B rows of the batch, N input numbers, R
rows of a bank, V views, C columns.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints.binding.plan import Plan, TableVerdicts
from fedkg.constraints.engine.unknown_value_encoding import strict_step
from fedkg.constraints.meaning.interpreter import evaluate_bank


def add_table_verdicts(plan: Plan, inputs: Tensor) -> Tensor:
    """The input numbers [N, B] with the robustness of these rules in its places, NaN where
    unknown. The batch is taken for the whole table.
    """
    if not plan.verdicts:
        return inputs
    filled = inputs.clone()
    for verdicts in plan.verdicts:
        index = torch.from_numpy(verdicts.numbers).to(inputs.device)
        filled[index] = _robustness(plan, verdicts, inputs)
    return filled


def _robustness(plan: Plan, verdicts: TableVerdicts, inputs: Tensor) -> Tensor:
    """The robustness of one bank, [R, B]; a strict comparison of equal numbers is nudged below
    0.
    """
    contract = plan.pack.manifest.contract
    numbers = inputs.detach().cpu().double().numpy()
    values = np.full((len(contract.views), inputs.shape[1], len(contract.columns)), np.nan)
    for view, column, number in verdicts.reads:
        values[view, :, column] = numbers[number]
    found = evaluate_bank(plan.pack.banks[verdicts.bank], values)
    touching = found.violated & (found.robustness == 0)
    robustness = torch.from_numpy(found.robustness.T).to(inputs)
    step = torch.full_like(robustness, strict_step(inputs.dtype))
    return torch.where(torch.from_numpy(touching.T).to(inputs.device), -step, robustness)
