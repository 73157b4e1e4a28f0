"""A part of a formula that is known before any model is asked."""

from __future__ import annotations

from typing_extensions import override

from fedkg.pack.formulas import Known


class Given(Known):
    """Stands for a sub-formula over inputs alone: its robustness is the value of `slot`, NaN where unknown.

    It holds the robustness for the polarity with which it stands in its skeleton: below a negation that of the negated sub-formula.

    Attributes:
        positive: that polarity.
        strict: whether a strict comparison stands in what it is the value of.
    """

    positive: bool = True
    strict: bool = False

    @override
    def is_strict(self, positive: bool) -> bool:
        return self.strict
