"""What a compilation comes to: a pack, or the bytes of one that was kept, and diagnostics."""

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
class NewCompilation:
    """The pack (None exactly when there is an error), everything that was found out, and the rules'
    examples, in the order of the files.
    """

    pack: Pack | None
    diagnostics: tuple[Diagnostic, ...]
    examples: tuple[RuleExample, ...] = ()

    @cached_property
    def packed(self) -> EncodedPack | None:
        """The pack as the bytes of its file; None when there is an error."""
        if self.pack is None:
            return None
        return EncodedPack(body=self.pack.to_bytes(), counts=self.pack.counts)

    @property
    def counts(self) -> PackCounts | None:
        """What the pack counts; None when there is an error."""
        return None if self.pack is None else self.pack.counts


@dataclass(frozen=True, kw_only=True)
class KeptCompilation:
    """An earlier compilation without errors, with the bytes of its pack; the rules' examples are
    not kept. The bytes are read when `pack` is asked for.
    """

    packed: EncodedPack
    diagnostics: tuple[Diagnostic, ...]
    examples: tuple[RuleExample, ...] = ()

    @cached_property
    def pack(self) -> Pack:
        """The pack."""
        return self.packed.read()

    @property
    def counts(self) -> PackCounts:
        """What the pack counts."""
        return self.packed.counts


Compilation = NewCompilation | KeptCompilation
"""Both have `pack`, `packed`, `counts`, `diagnostics` and `examples`."""
