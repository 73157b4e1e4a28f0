"""What a compilation comes to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fedkg.pack_bytes import EncodedPack, PackCounts
from fedkg_compiler.diagnostics.record import Diagnostic

if TYPE_CHECKING:
    from fedkg.pack import Pack
    from fedkg.pack.rule_example_trace import RuleExample


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """The pack (None exactly when there is an error), everything that was found out, and the rules'
    examples, in the order of the files.

    Attributes:
        made: the pack, or its bytes where it was kept from before; these are read when `pack` is
            asked for.
    """

    made: Pack | EncodedPack | None
    diagnostics: tuple[Diagnostic, ...]
    examples: tuple[RuleExample, ...] = ()

    @cached_property
    def pack(self) -> Pack | None:
        """The pack; None when there is an error."""
        return self.made.read() if isinstance(self.made, EncodedPack) else self.made

    @cached_property
    def packed(self) -> EncodedPack | None:
        """The pack as the bytes of its file; None when there is an error."""
        if self.made is None or isinstance(self.made, EncodedPack):
            return self.made
        return EncodedPack(body=self.made.to_bytes(), counts=self.made.counts)

    @property
    def counts(self) -> PackCounts | None:
        """What the pack counts; None when there is an error."""
        return None if self.made is None else self.made.counts
