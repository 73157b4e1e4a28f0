"""The passes of the compiler, in order: each maps the program that the frontends bound to another
program. `fedkg_compiler.banks` makes a pack's banks of the last one.
"""

from __future__ import annotations

from fedkg_compiler.passes.linearise_hard_rules import linearise_hard_rules
from fedkg_compiler.passes.mark_output_rules import mark_output_rules
from fedkg_compiler.passes.register_key_columns import register_key_columns
from fedkg_compiler.passes.set_scales import set_scales

PASSES = (linearise_hard_rules, set_scales, mark_output_rules, register_key_columns)
