"""Rule files from the requirements of FRET, NASA's Formal Requirements Elicitation Tool."""

from fedkg_compiler.authoring.fret.draft import DraftedRequirement, FretDraft, draft_requirements
from fedkg_compiler.authoring.fret.export import FretExport, read_export

__all__ = ["DraftedRequirement", "FretDraft", "FretExport", "draft_requirements", "read_export"]
