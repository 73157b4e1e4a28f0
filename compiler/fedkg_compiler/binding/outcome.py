"""What the statements of a compilation come to, before it is lowered to a pack."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedkg.pack import Placement, Source
from fedkg_compiler.binding.rule import BoundRows


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Grows while statements are bound.

    Attributes:
        rows: the constraints, in the order of their rules.
        conditions: formulas that are no constraints; the n-th becomes the pack's n-th condition bank, row for row.
        placements: where each part of a shape or query went.
        sources: files that went into the pack besides rule files, ontologies and sheets.
    """

    rows: list[BoundRows] = field(default_factory=list)
    conditions: list[BoundRows] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
