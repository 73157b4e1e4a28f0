"""What a compilation comes to."""

from __future__ import annotations

from dataclasses import dataclass

from fedkg.pack import Pack
from fedkg.pack.examples import RuleExample
from fedkg_compiler.diagnostics.record import Diagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """The pack (None exactly when there is an error), everything that was found out, and the rules' examples, in the order of the files."""

    pack: Pack | None
    diagnostics: tuple[Diagnostic, ...]
    examples: tuple[RuleExample, ...] = ()
