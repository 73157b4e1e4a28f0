"""First drafts of rule files, for people to go on from."""

from fedkg_compiler.authoring.first_rule_file import draft_rules
from fedkg_compiler.authoring.from_sheet import missing_tags
from fedkg_compiler.authoring.limit_sheet_columns import LimitColumns, find_limit_columns

__all__ = ["LimitColumns", "draft_rules", "find_limit_columns", "missing_tags"]
