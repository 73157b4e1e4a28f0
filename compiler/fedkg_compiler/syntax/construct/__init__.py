"""From the parser's tree of a statement to the typed nodes of `syntax/tree.py`."""

from __future__ import annotations

from fedkg_compiler.syntax.construct.knowledge_nodes import build_knowledge
from fedkg_compiler.syntax.construct.statement_context import Statement as StatementAt
from fedkg_compiler.syntax.construct.statements import build_declaration
from fedkg_compiler.syntax.parse_tree_nodes import Branch
from fedkg_compiler.syntax.tree import Statement


def construct(at: StatementAt, branch: Branch) -> Statement:
    """The typed node of a statement; what is wrong with it beyond the grammar goes into
    ``at.problems``.
    """
    return build_declaration(at, branch) or build_knowledge(at, branch)
