"""A part of a formula that is known before any model is asked."""

from __future__ import annotations

from typing_extensions import override

from fedkg.pack.formulas import Known


class InputFormula(Known):
    """Replaces a sub-formula over inputs alone: its robustness is the value of `slot`, NaN where
    unknown.

    The robustness is for the polarity of its occurrence: below a negation that of the negated
    sub-formula.

    Attributes:
        positive: that polarity.
        strict: whether the replaced formula contains a strict comparison.
    """

    positive: bool = True
    strict: bool = False

    @override
    def is_strict(self, positive: bool) -> bool:
        return self.strict
