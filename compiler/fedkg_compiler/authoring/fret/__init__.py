"""Rule files from the requirements of FRET, NASA's Formal Requirements Elicitation Tool."""

from fedkg_compiler.authoring.fret.export_reader import FretExport, read_export
from fedkg_compiler.authoring.fret.rule_file import (
    DraftedRequirement,
    FretDraft,
    draft_requirements,
)

__all__ = ["DraftedRequirement", "FretDraft", "FretExport", "draft_requirements", "read_export"]
