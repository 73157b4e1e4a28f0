"""The syntax tree of a rule file: what was written, with its place, before any name is looked up.

Every node carries its `Span`. Nodes are frozen; the unions `Expression`, `Condition` and `Statement` are closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedkg_compiler.diagnostics.record import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Base of all syntax nodes: the place in the file."""

    span: Span


# ---------------------------------------------------------------------------------------------------------------- words


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Tree):
    """A piece of text with its place: a name, a variable (without `?`), a string (unescaped), a unit, an IRI (without <>)."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TermName(Tree):
    """A name of the graph: ``plant:Pump`` (pname), ``<https://...>`` (iri), ``CuttingTool`` (name)."""

    text: str
    form: Literal["pname", "iri", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Tree):
    """``temperature(?zone)``, ``speed`` or `` `TIC-101.PV` `` (quoted) where a signal is declared or named."""

    name: Word
    variable: Word | None = None
    quoted: bool = False


# ---------------------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity(Tree):
    """A number, with its unit where one is written. Never negative: the sign is a `Negative`."""

    value: float
    unit: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(Tree):
    """A bare name, plain or `` `quoted` ``: a signal, an output, a template parameter."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Tree):
    """``?low``: a value of the quantifier."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply(Tree):
    """``temperature(?zone)``, ``value(?tag)``, ``max(a, b)``, ``l1_ball(radius = ?r)``: which of them is decided by binding."""

    name: Word
    args: tuple[Expression, ...]
    named: tuple[tuple[Word, Expression], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(Tree):
    """Two expressions joined by ``+``, ``-``, ``*`` or ``/``."""

    op: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Negative(Tree):
    """``-x``."""

    arg: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised(Tree):
    """``x ^ 2``."""

    base: Expression
    exponent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Past(Tree):
    """``past x``: the history of a forecast variable."""

    arg: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Tree):
    """``sum of flow(?p) over ?p where { ... }``."""

    function: Word
    body: Expression
    variable: Word
    pattern: Word


Expression = Quantity | Reference | Variable | Apply | Arithmetic | Negative | Raised | Past | Aggregate

# ------------------------------------------------------------------------------------------------------------ conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Tree):
    """``a <= b < c``, chained; operators are normalised to ``<= >= == != < >``; len(operators) == len(operands) - 1."""

    operands: tuple[Expression, ...]
    operators: tuple[Word, ...]
    tolerance: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsClass(Tree):
    """``grade is D``, ``grade is not "L"``, ``variant is ?p``."""

    subject: Expression
    negated: bool
    value: Word
    form: Literal["name", "string", "variable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Monotone(Tree):
    """``x never falls [per group] [as feature rises]``; `group` names a signal, or a table header."""

    subject: Expression
    direction: Literal["falls", "rises"]
    group: Word | None = None
    feature: Head | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation(Tree):
    """``not c``."""

    arg: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf(Tree):
    """``a and b and c``."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf(Tree):
    """``a or b or c``."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IfThen(Tree):
    """``if a then b``."""

    antecedent: Condition
    consequent: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Tree):
    """``[low, high]``; ``within t`` is a window whose low is None."""

    low: Expression | None
    high: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal(Tree):
    """A prefix word with its body: ``always [0 h, 2 h] c``."""

    mode: Literal["always", "eventually", "once", "historically", "next", "previous", "initially"]
    window: Window | None
    arg: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Until(Tree):
    """``a until [window] b`` or ``a since [window] b``."""

    mode: Literal["until", "since"]
    left: Condition
    window: Window | None
    right: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyAfter(Tree):
    """``effect only after cause within t``."""

    effect: Condition
    cause: Condition
    within: Quantity | None = None


Condition = Comparison | IsClass | Monotone | Negation | AllOf | AnyOf | IfThen | Temporal | Until | OnlyAfter

# ----------------------------------------------------------------------------------------------------------- quantifiers


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Tree):
    """``where { ... }``: the text between the braces (a SPARQL group graph pattern); its span is that of the text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InClass(Tree):
    """``in class mason:CuttingTool``."""

    term: TermName


@dataclass(frozen=True, slots=True, kw_only=True)
class InTable(Tree):
    """``in table "limits.csv"``."""

    path: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class InQuery(Tree):
    """``in query "machines.rq"``."""

    path: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantifier(Tree):
    """``for ?a, ?b`` over a pattern, a class, a sheet or a query file."""

    variables: tuple[Word, ...]
    source: Pattern | InClass | InTable | InQuery


# ------------------------------------------------------------------------------------------------------------ statements


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
    """``timeline step 5 min time column "Zeit" trace column "heat"``."""

    step: Quantity | None = None
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
class Rule(Tree):
    """A rule; `kind` and `weight` keep their place for messages; `text` is the statement's source."""

    name: Word
    formula: Condition
    title: Word | None = None
    quantifier: Quantifier | None = None
    kind: Word | None = None
    weight: Quantity | None = None
    hard: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template(Tree):
    """``template name(a, b) = formula``."""

    name: Word
    parameters: tuple[Word, ...]
    formula: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Infer(Tree):
    """``infer name per client find ?low, ?high in template(...)``."""

    name: Word
    per: Word
    variables: tuple[Word, ...]
    call: Apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Tree):
    """What a range clause allows: ``any`` (both empty), classes, or an interval with its unit."""

    classes: tuple[Word, ...] = ()
    interval: tuple[float, float] | None = None
    unit: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeKnowledge(Tree):
    """``range knowledge name of output when c allow choice ... otherwise allow choice``."""

    name: Word
    output: Word
    quantifier: Quantifier | None
    clauses: tuple[tuple[Condition, Choice], ...]
    otherwise: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictKnowledge(Tree):
    """``predict knowledge name of output when c predict e ... otherwise predict e``."""

    name: Word
    output: Word
    quantifier: Quantifier | None
    clauses: tuple[tuple[Condition, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSet(Tree):
    """``set name for ... keep parameters in l1_ball(radius = ?r)``."""

    name: Word
    quantifier: Quantifier | None
    target: Word
    call: Apply


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
    """``pressure = 7 9 9 bar`` in an example."""

    head: Head
    values: tuple[float, ...]
    unit: Word | None = None


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
class RuleFile:
    """One parsed file: its name as given, its text, its statements in order (those that parsed)."""

    file: str
    text: str
    statements: tuple[Statement, ...]
