"""Knowledge models: `range knowledge` and `predict knowledge`, from clauses, decision tables and
earlier models.
"""

from fedkg_compiler.frontends.knowledge.bind import bind_knowledge

__all__ = ["bind_knowledge"]
