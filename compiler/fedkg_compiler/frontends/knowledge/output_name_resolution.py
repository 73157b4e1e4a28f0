"""The output of a knowledge model: a label with its classes, or a number with its unit and span."""

from __future__ import annotations

from dataclasses import dataclass

from fedkg._internal.name_matching import did_you_mean
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Related
from fedkg_compiler.frontends.fkg.binding.scope import DeclaredLabel, DeclaredSignal, Names
from fedkg_compiler.frontends.fkg.syntax.tree import PredictKnowledge, RangeKnowledge, Word

Statement = RangeKnowledge | PredictKnowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The output of a knowledge model; exactly one of `label` and `number` is given."""

    name: Word
    label: DeclaredLabel | None = None
    number: DeclaredSignal | None = None

    @property
    def column(self) -> str:
        """The header under which tables have the true answer."""
        known = (
            self.number.column
            if self.label is None and self.number is not None
            else None
            if self.label is None
            else self.label.column
        )
        return known or self.name.text

    @property
    def classes(self) -> tuple[str, ...]:
        """The label's classes; () for a number."""
        return () if self.label is None else self.label.classes


def answer_of(statement: Statement, names: Names, problems: Problems) -> Answer | None:
    """The output that a statement names; None after an error if no such output exists."""
    word = statement.output
    label, signal = names.labels.get(word.text), names.signals.get(word.text)
    if label is not None:
        return Answer(name=word, label=label)
    if signal is not None and signal.role == "output" and not signal.family:
        return Answer(name=word, number=signal)
    if signal is not None:
        related = (Related(span=signal.place, message="declared here"),)
        what, needed = "is data", "what the model predicts"
        if signal.family:
            what, needed = "has one value for each entity", "one value that the model predicts"
        problems.error(
            "FKG370",
            word.span,
            f"`{word.text}` {what}, and knowledge must be about {needed}",
            f"name an `output`{' without entities' if signal.family else ''} or a `label`",
            related,
        )
    elif word.text not in names.broken:
        outputs = [
            *names.labels,
            *(name for name, known in names.signals.items() if known.role == "output"),
        ]
        advice = (
            did_you_mean(word.text, outputs)
            or f"declare it: label {word.text} classes A, B; or output {word.text} in ..."
        )
        problems.error("FKG370", word.span, f"no output is named `{word.text}`", advice)
    return None


def class_position(answer: Answer, word: Word, problems: Problems) -> int | None:
    """The position of a class among those of the label.

    None, with a problem, where it is none of them.
    """
    if word.text in answer.classes:
        return answer.classes.index(word.text)
    message = f"`{word.text}` is not a class of `{answer.name.text}`"
    problems.error(
        "FKG371",
        word.span,
        message,
        did_you_mean(word.text, answer.classes) or f"its classes are {', '.join(answer.classes)}",
    )
    return None
