"""Rules inside of a compiled function: what is missing of them and what is known of them, from one
evaluation.

Letters: R rows of a bank, B batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.engine.batch_rows_as_traces import again
from fedkg.constraints.engine.penalty import late_scale, penalties_and_known

if TYPE_CHECKING:
    from fedkg.constraints.batch_evaluation import BatchEvaluation


class SinglePass:
    """The rules over time that are evaluated once, on the numbers of one batch.

    Their penalties are exact.
    """

    def __init__(self, evaluated: BatchEvaluation) -> None:
        self._of = evaluated
        self._kept: dict[tuple[BankTensors, int, int], tuple[Tensor, Tensor]] = {}

    def takes(self, bank: BankTensors) -> bool:
        """Whether a bank is among them: while numbers are being traced, and nothing says beforehand
        what is known.
        """
        of = self._of
        return (
            of.is_symbolic
            and of.form.exact
            and bank.temporal
            and bank.touches_output
            and not of.asleep(bank)
        )

    def evaluate(self, bank: BankTensors, rows: slice) -> tuple[Tensor, Tensor]:
        """Of some rows of such a bank the penalties, divided as far as `late_scale` wants it, and
        bool where they count: [R, B] each.
        """
        key = bank, rows.start, rows.stop
        if key not in self._kept:
            of, lined, applies = self._of, self._of.lined(bank, rows), self._of.applies(bank, rows)
            reading = bank.reading(
                rows,
                of.inputs,
                of.outputs,
                careful=True,
                offset=True,
                lined=lined,
                unsure=of.unsure,
            )
            divided = late_scale(bank.skeleton, of.form) is None
            found = penalties_and_known(bank.formula, reading, of.form, divided=divided)
            penalty, known = (
                again(part, applies.shape[0], lined).expand(applies.shape) for part in found
            )
            self._kept[key] = penalty * applies, known & applies
        return self._kept[key]
