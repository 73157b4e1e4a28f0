"""What rules mean together: conflicts, vacuity, redundancy, coverage; what one rule asks for.

How two versions differ.
"""

from fedkg_compiler.reason.budget import Budget
from fedkg_compiler.reason.run import reason
from fedkg_compiler.reason.verdict import Reading, RowRef, Verdict, Witness

__all__ = ["Budget", "Reading", "RowRef", "Verdict", "Witness", "reason"]
