"""Rules on inputs that stay the same while models change: all that reads inputs alone is evaluated
once.
"""

from fedkg.constraints.specialised.fixed_input_rules import Counts, Specialised

__all__ = ["Counts", "Specialised"]
