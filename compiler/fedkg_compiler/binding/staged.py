"""Forms of the language that are parsed and not compiled yet: each is refused by name, where it stands."""

from __future__ import annotations

from fedkg_compiler.binding.names import Names
from fedkg_compiler.binding.problems import Problems
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.diagnostics.staged import staged
from fedkg_compiler.syntax.tree import Cause, Example, Infer, KeepSet, PredictKnowledge, RangeKnowledge, Statement, Template, Use


def refuse(form: str, span: Span, problems: Problems) -> None:
    """Say that a form, a key of `STAGED_FORMS`, is not compiled yet."""
    problems.add([staged(form, span)])


def refuse_statement(statement: Statement, names: Names, problems: Problems) -> None:
    """Say that a statement is not compiled yet; the names it declares are not asked for again."""
    match statement:
        case Use():
            refuse("use rules", statement.span, problems)
        case Template():
            names.broken.add(statement.name.text)
            refuse("template", statement.name.span, problems)
        case Infer():
            refuse("infer", statement.name.span, problems)
        case RangeKnowledge():
            refuse("range knowledge", statement.name.span, problems)
        case PredictKnowledge():
            refuse("predict knowledge", statement.name.span, problems)
        case KeepSet():
            refuse("set", statement.name.span, problems)
        case Cause():
            refuse("cause", statement.name.span, problems)
        case Example():
            refuse("example", statement.rule.span, problems)
        case _:
            pass
