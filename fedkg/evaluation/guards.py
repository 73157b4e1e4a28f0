"""Guards that are a mere yes or no: then by how much a rule is missed is by how much what follows `then` is missed.

A category, or whether a value is there, has no margin in any engine. Truth values are numbers there (1 and 0, asked for by a comparison
with 0.5), which would cut the margin off at 0.5; to people they are a yes or no as well. Letters: V views, B table rows, C columns, R rows
of a bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import BankValues, evaluate_bank
from fedkg.constraints.meaning.timing import Timing
from fedkg.pack import Bank, CategoryIs, Column, Formula, Implies, Known, atoms, used_slots


def asks_number(atom: Formula, slots: NDArray[np.int32], columns: Sequence[Column]) -> bool:
    """Whether an atomic formula asks for more than a yes or no; `slots` [..., s] are the columns that it reads."""
    if isinstance(atom, CategoryIs | Known):
        return False
    read = {columns[column].type for column in np.unique(slots[..., sorted(used_slots(atom))]).tolist()}
    return read != {"boolean"}


def with_margins(bank: Bank, found: BankValues, values: NDArray[np.float64], timing: Timing, columns: Sequence[Column]) -> BankValues:
    """A bank's verdicts on values [V, B, C], where a guard of truth values fires with the robustness of what it guards."""
    skeleton = bank.skeleton
    if not isinstance(skeleton, Implies) or not bank.rows:
        return found
    asked = list(atoms(skeleton.antecedent))
    if all(isinstance(atom, CategoryIs | Known) for atom in asked) or any(asks_number(atom, bank.slots, columns) for atom in asked):
        return found
    margin = evaluate_bank(replace(bank, skeleton=skeleton.consequent), values, timing).robustness
    return replace(found, robustness=np.where(found.fired & ~np.isnan(found.robustness), margin, found.robustness))
