"""The syntax tree of a rule file: what was written, with its place, before any name is looked up.

Every node carries its `Span`. Nodes are frozen; the unions `Expression`, `Condition` and
`Statement` are closed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self

from typing_extensions import override

from fedkg_compiler.diagnostics.record import Span


class Number(float):
    """A number that knows how it was written: ``1.50`` is 1.5 and prints as ``1.50``.

    In everything else it is a float.

    A float of the tree is one of these, or a plain float if the tree has no source text.
    """

    __slots__ = ("written",)
    written: str

    def __new__(cls, value: float, written: str) -> Number:
        """The number with its spelling."""
        number = super().__new__(cls, value)
        number.written = written
        return number

    @override
    def __reduce__(self) -> tuple[type[Number], tuple[float, str]]:
        return Number, (float(self), self.written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Base of all syntax nodes: the place in the file."""

    span: Span

    def parts(self) -> list[Tree]:
        """The nodes directly inside this one, in the order of the fields."""
        found: list[Tree] = []
        for name in _inner(type(self)):
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Tree):
                    found.append(item)
                elif isinstance(item, tuple):
                    found += [part for part in item if isinstance(part, Tree)]
        return found


def _inner(kind: type[Tree]) -> tuple[str, ...]:
    """The fields of a kind of nodes that may hold nodes, found out once."""
    if kind not in _INNER:
        _INNER[kind] = tuple(
            field.name
            for field in fields(kind)
            if field.type not in ("Span", "str", "bool", "float")
        )
    return _INNER[kind]


_INNER: dict[type[Tree], tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Tree):
    """A piece of text with its place: a name, a variable (without `?`), a string (unescaped), a
    unit, an IRI (without <>).
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TermName(Tree):
    """A name of the graph: ``plant:Pump`` (pname), ``<https://...>`` (iri), ``CuttingTool``
    (name).
    """

    text: str
    form: Literal["pname", "iri", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Tree):
    """``temperature(?zone)``, ``speed`` or `` `TIC-101.PV` `` (quoted) where a signal is declared
    or named.
    """

    name: Word
    variable: Word | None = None
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Tree):
    """``where { ... }``: the text between the braces (a SPARQL group graph pattern); its span is
    that of the text.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InClass(Tree):
    """``in class fkg-mason:CuttingTool``."""

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


SUM, PRODUCT, FACTOR, POWER, OPERAND = range(5)
"""How tightly the operators bind, loosest first."""
WriteAt = Callable[["Expression", int], str]
"""Writes a part, in parentheses if its operator binds less tightly than the level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(Tree, ABC):
    """A value that is made of other values alone.

    It says which branch of the grammar it is, and how it is written.

    The values in the branch are its fields, in their order.
    """

    branch = ""
    """The name of the branch in `fkg.lark`."""

    @classmethod
    def of(cls, span: Span, parts: Sequence[Expression]) -> Self:
        """The node with these parts."""
        names = (field.name for field in fields(cls) if field.name != "span")
        return cls(span=span, **dict(zip(names, parts, strict=False)))

    @abstractmethod
    def written(self, write: WriteAt) -> tuple[int, str]:
        """How tightly it binds, and its text."""


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
    """``temperature(?zone)``, ``value(?tag)``, ``max(a, b)``, ``l1_ball(radius = ?r)``: which of
    them is decided by binding.
    """

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
class Negative(Operator):
    """``-x``."""

    branch = "negative"
    arg: Expression

    @override
    def written(self, write: WriteAt) -> tuple[int, str]:
        return FACTOR, f"-{write(self.arg, POWER)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised(Tree):
    """``x ^ 2``."""

    base: Expression
    exponent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Past(Operator):
    """``past x``: the history of a forecast variable."""

    branch = "past"
    arg: Expression

    @override
    def written(self, write: WriteAt) -> tuple[int, str]:
        return OPERAND, f"past {write(self.arg, OPERAND)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ago(Operator):
    """``x 10 min ago``: the value of an expression a duration, or a number of steps, earlier.

    ``x 10 min ago initially 0`` has the value `initial` where the trace does not reach back.
    """

    branch = "ago"
    arg: Expression
    by: Expression
    initial: Expression | None = None

    @override
    def written(self, write: WriteAt) -> tuple[int, str]:
        earlier = f"{write(self.arg, OPERAND)} {write(self.by, OPERAND)} ago"
        match self.initial:
            case None:
                return POWER, earlier
            case Negative(arg=arg):
                return POWER, f"{earlier} initially -{write(arg, OPERAND)}"
            case initial:
                return POWER, f"{earlier} initially {write(initial, OPERAND)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Tree):
    """``sum of flow(?p) over ?p where { ... }``, ``max of level(?v) over ?v in class
    fkg-isa95:StorageUnit``.
    """

    function: Word
    body: Expression
    variable: Word
    source: Pattern | InClass


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime(Tree):
    """``mean of flow over last 1 h``, ``count of (flow > 5 kg/h) since (valve becomes on)``: a
    number made of the values, or of a condition, at several steps.

    Attributes:
        lasting: the duration or number of steps of ``over last`` and ``over next``.
        event: the condition of ``since``.
    """

    function: Word
    body: Expression | Condition
    direction: Literal["last", "next", "since"]
    lasting: Expression | None = None
    event: Condition | None = None


Expression = (
    Quantity
    | Reference
    | Variable
    | Apply
    | Arithmetic
    | Negative
    | Raised
    | Past
    | Ago
    | Aggregate
    | OverTime
)

OPERATORS: dict[str, type[Negative | Past | Ago]] = {
    kind.branch: kind for kind in (Negative, Past, Ago)
}
"""The operators by the branch of the grammar that each is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Tree):
    """``a <= b < c``, chained; operators are normalised to ``<= >= == != < >``; len(operators) ==
    len(operands) - 1.
    """

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
class Membership(Tree):
    """``grade in A, B``, ``grade not in C, "D"``: one of the classes of a label, or of the texts of
    a category.
    """

    subject: Expression
    negated: bool
    values: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Follows(Tree):
    """``follows operational_range(volume, 10, 90, 2 h)``: the condition of a template."""

    call: Apply


@dataclass(frozen=True, slots=True, kw_only=True)
class OverMembers(Tree):
    """``all of (c) over ?p where { ... }``, ``any of (c) over ?p in class T``, ``at least 2 of (c)
    over ...``.

    `least` is how many members: None for all, 1 for any.
    """

    arg: Condition
    least: int | None
    variable: Word
    source: Pattern | InClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Monotone(Tree):
    """``x never falls [per group] [as feature rises]``; `group` names a signal, or a table
    header.
    """

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
    """``[low, high]``; ``within t`` is a window with low None."""

    low: Expression | None
    high: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal(Tree):
    """A prefix word with its body: ``always [0 h, 2 h] c``.

    `weak` makes ``next`` true at the last step and ``previous`` true at the first.
    """

    mode: Literal["always", "eventually", "once", "historically", "next", "previous", "initially"]
    window: Window | None
    arg: Condition
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Until(Tree):
    """``a [weak] until [closed] [window] b`` or ``a [weak] since [closed] [window] b``.

    `closed`: `a` holds at the step of `b` too. `weak`: `b` may never come if `a` always holds.
    """

    mode: Literal["until", "since"]
    left: Condition
    window: Window | None
    right: Condition
    closed: bool = False
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence(Tree):
    """``a iff b``: both hold or neither does. ``a xor b``: exactly one of them holds."""

    word: Literal["iff", "xor"]
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEdge(Tree):
    """``at the start``, ``at the end``: the step is the first or the last one of its trace."""

    edge: Literal["start", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyAfter(Tree):
    """``effect only after cause within t``."""

    effect: Condition
    cause: Condition
    within: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting(Tree):
    """``c for at least 15 min``: c has held for that long."""

    arg: Condition
    duration: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Becomes(Tree):
    """``c becomes true``, ``valve becomes on``: c holds, and did not hold in the step before."""

    arg: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins(Tree):
    """``c begins``: c holds, and did not hold in the step before or there is no step before."""

    arg: Condition


Condition = (
    Comparison
    | IsClass
    | Membership
    | Monotone
    | Negation
    | AllOf
    | AnyOf
    | IfThen
    | Temporal
    | Until
    | OnlyAfter
    | Follows
    | OverMembers
    | Lasting
    | Becomes
    | Begins
    | Equivalence
    | AtEdge
)


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
