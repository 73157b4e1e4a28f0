"""The names that statements declare, over all files of a compilation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedkg.pack import Role
from fedkg.units.unit import Unit
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Cause,
    Example,
    Infer,
    KeepSet,
    Load,
    PredictKnowledge,
    Prefix,
    RangeKnowledge,
    Rule,
    RuleFile,
    Template,
    Use,
    Word,
)
from fedkg_compiler.ir import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSignal:
    """A signal or output as declared.

    Attributes:
        family: the variable of ``temperature(?zone)``, "" for a plain one.
        property: the IRI after `is`, where it has one and the graph knows it.
        unit: the unit that rules use for it; None if none is declared.
        span: in `unit`.
        boolean: it is true or false; as a number 1 or 0.
    """

    name: str
    role: Role
    family: str
    property: str | None
    unit: Unit | None
    span: tuple[float, float] | None
    column: str | None
    place: Span
    boolean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLabel:
    """A label: the model predicts one of its classes."""

    name: str
    classes: tuple[str, ...]
    column: str
    place: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule:
    """A rule and its file."""

    rule: Rule
    file: RuleFile


@dataclass(slots=True, kw_only=True)
class Names:
    """Everything that rules may refer to.

    Attributes:
        library: the words after `use rules` that ask for each file of the rule library, by the
            file's name in diagnostics.
        client: the client of a private pack, "" for the public pack.
        left_out: names of the statements that belong to the other kind of pack: those with the
            scope `client` in a public pack, all others in a private pack.
        rows_class: IRI of the class of the table rows, from `rows are`.
        broken: names with an invalid declaration: their uses are not reported.
        graph_broken: an ontology or graph failed to load: terms that it may define are not
            reported.
        folders: the folder of each rule file, where the sheets that it names are looked up.
    """

    signals: dict[str, DeclaredSignal] = field(default_factory=dict)
    labels: dict[str, DeclaredLabel] = field(default_factory=dict)
    rules: list[FileRule] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    prefixes: dict[str, Prefix] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    infers: list[Infer] = field(default_factory=list)
    sets: list[KeepSet] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    knowledge: list[RangeKnowledge | PredictKnowledge] = field(default_factory=list)
    library: dict[str, Word] = field(default_factory=dict)
    client: str = ""
    left_out: set[str] = field(default_factory=set)
    timing: Timing = field(default_factory=Timing)
    rows_class: str | None = None
    broken: set[str] = field(default_factory=set)
    broken_prefixes: set[str] = field(default_factory=set)
    broken_templates: set[str] = field(default_factory=set)
    broken_rules: set[str] = field(default_factory=set)
    graph_broken: bool = False
    folders: dict[str, Path] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Return whether a plain name may be a header: no file declares any signal."""
        return not self.signals and not self.labels and not self.broken

    def known_names(self) -> Sequence[str]:
        """The names a formula may use, for suggestions."""
        return [*self.signals, *self.labels]

    def by_header(self, header: str) -> DeclaredSignal | None:
        """The plain signal that is read from a table column."""
        return next(
            (
                signal
                for signal in self.signals.values()
                if signal.column == header and not signal.family
            ),
            None,
        )
