"""What rules mean together: conflicts, vacuity, redundancy, coverage; what one rule asks for.

How two versions differ.
"""

from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.run import reason
from fedkg_compiler.analysis.verdict import Reading, RowRef, Verdict, Witness

__all__ = ["Budget", "Reading", "RowRef", "Verdict", "Witness", "reason"]
