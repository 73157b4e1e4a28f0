"""A constraint pack in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.notebook_html import notebook_html
from fedkg.pack.bank import Bank
from fedkg.pack.manifest import Manifest
from fedkg.pack_bytes import PackCounts

if TYPE_CHECKING:
    from fedkg.constraints.binding.layout import AnyLayout, InputLayout
    from fedkg.constraints.module import ConstraintModule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pack:
    """Compiled rules: pure data, nothing in it is executed.

    Attributes:
        manifest: rules, data contract, names, provenance.
        banks: the bound constraints, grouped by skeleton.
        conditions: bound formulas that are not constraints; knowledge models and inferences refer
            to them by position and row.
        arrays: further numbers by name: the weights of earlier models.
    """

    manifest: Manifest
    banks: tuple[Bank, ...]
    conditions: tuple[Bank, ...] = ()
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of bound constraints in all banks."""
        return sum(bank.rows for bank in self.banks)

    @property
    def counts(self) -> PackCounts:
        """The numbers of rules, bound constraints, banks and other contents."""
        manifest = self.manifest
        return PackCounts(
            rules=len(manifest.rules),
            rows=self.rows,
            banks=len(self.banks),
            knowledge=len(manifest.knowledge),
            inferences=len(manifest.inferences),
            sets=len(manifest.sets),
            causes=len(manifest.causes),
        )

    def _repr_html_(self) -> str:
        """The rules as a notebook shows them."""
        bound = np.zeros(len(self.manifest.rules), dtype=np.int64)
        for bank in self.banks:
            np.add.at(bound, bank.rule, 1)
        counts = self.counts
        numbers = {
            name: getattr(counts, name) for name in ("knowledge", "inferences", "sets", "causes")
        }
        more = "".join(f", {number:,} {name}" for name, number in numbers.items() if number)
        return notebook_html(
            "Pack",
            f"{counts.rules:,} rules, {counts.rows:,} bound rows{more}",
            ("rule", "kind", "about", "hard", "bound rows", "title"),
            (
                (
                    rule.name,
                    rule.kind,
                    "output" if rule.output else "data",
                    "yes" if rule.hard else "",
                    rows,
                    rule.title,
                )
                for rule, rows in zip(self.manifest.rules, bound.tolist(), strict=True)
            ),
            counts.rules,
        )

    def to_bytes(self) -> bytes:
        """The bytes of the pack's file; equal packs give equal bytes."""
        from fedkg.pack.file import pack_bytes

        return pack_bytes(self)

    def save(self, path: str | Path) -> Path:
        """Write the pack to `path`, completely or not at all. Raises PackError."""
        from fedkg.pack.file import save

        return save(self, path)

    def constraints(self, *, x: InputLayout, y: AnyLayout = None) -> ConstraintModule:
        """The pack as a PyTorch module over tensors with the layouts `x` and `y`.

        Raises:
            LayoutError: the layouts lack a column or an output that the rules read.
            MissingExtra: torch is not installed.
        """
        from fedkg.constraints import ConstraintModule

        return ConstraintModule(self, x=x, y=y)
