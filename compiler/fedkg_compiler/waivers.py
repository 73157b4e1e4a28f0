"""Warnings that a rule allows: ``allow FKG503 because "..."``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from fedkg_compiler.diagnostics.code_registry import CODES
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.syntax.tree import Rule, RuleFile, Waiver


@dataclass(slots=True)
class _Allowed:
    """One `allow` of a rule, and what it met: warnings that it suppresses, an error that it
    cannot.
    """

    rule: Rule
    waiver: Waiver
    used: bool = False
    error: bool = False


@dataclass(slots=True)
class Waivers:
    """The `allow` options of all rules.

    Attributes:
        left_out: names of rules that are not part of this compilation.
    """

    left_out: Collection[str] = ()
    _allowed: dict[tuple[str, str], list[_Allowed]] = field(default_factory=dict)

    @classmethod
    def from_files(cls, files: Iterable[RuleFile]) -> Waivers:
        """The options of all rules in these files."""
        found = cls()
        for file in files:
            for rule in (part for part in file.statements if isinstance(part, Rule)):
                for waiver in rule.waivers:
                    key = (rule.span.file, waiver.code.text)
                    found._allowed.setdefault(key, []).append(_Allowed(rule, waiver))
        return found

    def reported(self, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
        """The diagnostics without the warnings and notes that a rule allows.

        Errors always remain.
        """
        if not self._allowed:
            return list(diagnostics)
        return [item for item in diagnostics if not self._allows(item)]

    def _allows(self, item: Diagnostic) -> bool:
        for allowed in self._allowed.get((item.span.file, item.code), ()):
            if _inside(item.span, allowed.rule.span):
                if item.severity != "error":
                    allowed.used = True
                    return True
                allowed.error = True
        return False

    def without_effect(self, *, complete: bool, reasoned: bool) -> list[Diagnostic]:
        """A warning for each `allow` that suppresses nothing.

        Args:
            complete: whether all rules were compiled.
            reasoned: whether the rules were analysed together (FKG5xx).
        """
        return [
            Diagnostic(
                code="FKG245",
                severity="warning",
                span=one.waiver.code.span,
                message=message,
                help=advice,
            )
            for allowed in self._allowed.values()
            for one in allowed
            if not one.used
            for message, advice in self._reason(one, complete=complete, reasoned=reasoned)
        ]

    def _reason(
        self, allowed: _Allowed, *, complete: bool, reasoned: bool
    ) -> Iterable[tuple[str, str]]:
        code, rule = allowed.waiver.code.text, allowed.rule.name.text
        if code not in CODES:
            advice = "write the code as a warning shows it: FKG503"
            yield f"diagnostic `{code}` does not exist", advice
        elif allowed.error:
            yield f"`allow {code}` has no effect: {code} is an error here", "correct the error"
        elif complete and rule not in self.left_out and (reasoned or not code.startswith("FKG5")):
            yield f"`allow {code}` has no effect: `{rule}` has no such warning", "remove it"


def _inside(inner: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (
        inner.end_line,
        inner.end_column,
    ) <= (outer.end_line, outer.end_column)
