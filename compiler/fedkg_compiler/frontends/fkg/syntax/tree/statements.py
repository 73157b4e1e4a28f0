"""Statements, and the file they make up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedkg_compiler.frontends.fkg.syntax.tree.conditions import (
    Apply,
    Condition,
    Expression,
    Quantity,
)
from fedkg_compiler.frontends.fkg.syntax.tree.node import Head, TermName, Tree, Word
from fedkg_compiler.frontends.fkg.syntax.tree.quantifiers import Quantifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Use(Tree):
    """``use isa95, mason`` or ``use rules isa95.capacity``."""

    names: tuple[Word, ...]
    rules: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix(Tree):
    """``prefix plant: <iri>``."""

    name: Word
    iri: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(Tree):
    """``timeline step 5 min time column "Zeit" trace column "heat" ends clip``; `ends` is strict or
    clip.
    """

    step: Quantity | None = None
    ends: Word | None = None
    time: Word | None = None
    trace: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAre(Tree):
    """``rows are plant:Part``."""

    term: TermName


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Tree):
    """``signal`` (role input) or ``output`` with its clauses; `bounds` is the declared span."""

    role: Literal["input", "output"]
    head: Head
    term: TermName | None = None
    unit: Word | None = None
    bounds: tuple[float, float] | None = None
    column: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Tree):
    """``label grade classes A, B, C, D column "Grade"``."""

    name: Word
    classes: tuple[Word, ...]
    column: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver(Tree):
    """``allow FKG503 because "it is an alarm"``: a rule's warnings of this code are not
    reported.
    """

    code: Word
    reason: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Tree):
    """A rule; `kind` and `weight` keep their place for messages; `text` is the statement's
    source.
    """

    name: Word
    formula: Condition
    title: Word | None = None
    quantifier: Quantifier | None = None
    kind: Word | None = None
    weight: Quantity | None = None
    hard: bool = False
    scope: Word | None = None
    waivers: tuple[Waiver, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Tree):
    """``constant NAME = value``: a number with a name."""

    name: Word
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Template(Tree):
    """``template name(a, b) = formula``."""

    name: Word
    parameters: tuple[Word, ...]
    formula: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Infer(Tree):
    """``infer name [scope client] per client find ?low, ?high in template(...)``."""

    name: Word
    scope: Word | None = None
    per: Word
    variables: tuple[Word, ...]
    call: Apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Tree):
    """What a range clause allows: ``any`` (all empty), classes, ``0 .. 3 bar``, or ``between 0.9 *
    x and 1.1 * x`` (`ends`).

    Classes are names or texts; a class named "any" or "between" has quotes.
    """

    classes: tuple[Word, ...] = ()
    interval: tuple[float, float] | None = None
    unit: Word | None = None
    ends: tuple[Expression, Expression] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTable(Tree):
    """``in table "grades.csv"``: the clauses are the rows of a sheet."""

    path: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierModel(Tree):
    """``from model "grade.safetensors"``: the predictions are those of a model that was
    exported.
    """

    path: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeKnowledge(Tree):
    """``range knowledge name of output when c allow choice ... otherwise allow choice``; or the
    clauses from a table or model.
    """

    name: Word
    output: Word
    quantifier: Quantifier | None
    clauses: tuple[tuple[Condition, Choice], ...]
    otherwise: Choice | None
    scope: Word | None = None
    source: DecisionTable | EarlierModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictKnowledge(Tree):
    """``predict knowledge name of output when c predict e ... otherwise predict e``; or the clauses
    from a table or model. A word is a class in quotes. Without `otherwise` the knowledge says
    nothing where no clause applies.
    """

    name: Word
    output: Word
    quantifier: Quantifier | None
    clauses: tuple[tuple[Condition, Expression | Word], ...]
    otherwise: Expression | Word | None
    scope: Word | None = None
    source: DecisionTable | EarlierModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSet(Tree):
    """``set name for ... keep parameters in l1_ball(radius = ?r)``."""

    name: Word
    quantifier: Quantifier | None
    target: Word
    call: Apply
    scope: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause(Tree):
    """``cause name for ... allow ?a drives ?b lag 10 min``."""

    name: Word
    quantifier: Quantifier
    driver: Word
    driven: Word
    lag: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(Tree):
    """``pressure = 7 9 unknown bar`` or ``grade = A "B 2" unknown`` in an example; one of `values`
    and `texts` is empty.

    ``unknown`` is NaN among the values and a Word with the text "" among the texts (a class may be
    called "unknown", in quotes).
    A series of nothing but ``unknown`` has values.
    """

    head: Head
    values: tuple[float, ...]
    unit: Word | None = None
    texts: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Tree):
    """``example of recovers fails for pressure = 7 9 9 9 bar and ...``."""

    rule: Word
    holds: bool
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Tree):
    """``shapes "pump.shacl.ttl"`` or ``queries "legacy/*.rq"``."""

    what: Literal["shapes", "queries"]
    path: Word


Statement = (
    Use
    | Prefix
    | Timeline
    | RowsAre
    | Signal
    | Label
    | Rule
    | Constant
    | Template
    | Infer
    | RangeKnowledge
    | PredictKnowledge
    | KeepSet
    | Cause
    | Example
    | Load
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Tree):
    """A statement that did not parse: its first word, and the names it would have declared.

    A lookup of these names reports nothing, because the statement itself has an error.
    """

    word: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """One parsed file: its name as given, its text (line ends ``\\n`` or ``\\r\\n``), its
    statements in order (those that parsed).
    """

    file: str
    text: str
    statements: tuple[Statement, ...]
    lost: tuple[Lost, ...] = ()
