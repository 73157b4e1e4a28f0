"""The bound statements of a compilation, before they are lowered to a pack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Placement, Source
from fedkg.pack.causes import CauseRecord
from fedkg.pack.examples import RuleExample
from fedkg.pack.feasible_sets import KeptSet
from fedkg.pack.inference_records import Inference
from fedkg.pack.knowledge_models import KnowledgeModel
from fedkg_compiler.binding.rule import BoundRows
from fedkg_compiler.diagnostics.record import Span

if TYPE_CHECKING:
    from fedkg_compiler.shacl.table_results import ShapeResults


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Grows while statements are bound.

    Attributes:
        rows: the constraints, in the order of their rules.
        conditions: formulas other than constraints; the n-th becomes the pack's n-th condition
            bank, row for row.
        inferences: what is found in data, each with the position of its condition.
        knowledge: range and prediction models, each with the positions of its conditions. arrays:
            weights of earlier models, by name.
        sets: where parameters and predictions are kept. causes: which client may drive which.
        placements: where each part of a shape or query went.
        examples: of rules, in source order.
        sources: files that went into the pack besides rule files, ontologies and sheets.
        places: of rules that are not in a rule file, by name.
        shape_results: for a validation, notes the components behind rules, and takes the violations
            of shapes by the graph in place of diagnostics; else None.
    """

    rows: list[BoundRows] = field(default_factory=list)
    conditions: list[BoundRows] = field(default_factory=list)
    inferences: list[Inference] = field(default_factory=list)
    knowledge: list[KnowledgeModel] = field(default_factory=list)
    arrays: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    sets: list[KeptSet] = field(default_factory=list)
    causes: list[CauseRecord] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    examples: list[RuleExample] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)
    shape_results: ShapeResults | None = None
