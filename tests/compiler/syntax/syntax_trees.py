"""Hypothesis strategies for syntax trees, and trees without parts that do not affect meaning."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fedkg_compiler.diagnostics import Span
from fedkg_compiler.frontends.fkg.syntax import tree
from fedkg_compiler.frontends.fkg.syntax.tree import Ago, Condition, Expression, Statement, Tree

SPAN = Span(file="", line=1, column=1, end_line=1, end_column=2)
NAMES = (
    *(
        "x",
        "pressure",
        "größe",
        "a_1",
        "in",
        "follows",
        "all",
        "any",
        "closed",
        "at",
        "least",
        "is",
        "of",
        "within",
        "scope",
        "last",
        "since",
        "becomes",
        "true",
        "for",
    ),
    *("ends", "between", "model", "unknown", "never", "over", "where", "require", "then", "rule"),
)
HEADERS = ("TIC-101.PV", "a b", "5", "x")
TEXTS = (
    "A",
    "B 1",
    "any",
    "between",
    "unknown",
    "and",
    "not",
    'a "b" \\ c',
    "\t\n\r\u200b\x01",
    "größe",
    "L/h {}#",
    "ok",
)
UNITS = ("bar", "N.m", "kg/h", "1/min", "°C", "%", "in", "h", "W/(m2.K)")
PATTERNS = (
    " ?p a ?q ",
    "",
    "?p a <https://e.org/#x>",
    "\n    ?p a plant:Pump ;   # a } b\n       plant:n ?n .\n\n    { ?p a ?q }\n  ",
    '\n ?p a """x\n   } y""" .\n',
)


def simple(value: object) -> object:
    """A tree without positions, sources and the indentation of patterns.

    This must be the same after printing and parsing.
    """
    match value:
        case tree.Pattern():
            return "Pattern", [line.strip() for line in value.text.strip().split("\n")]
        case Tree():
            fields = [
                name
                for name in value.__dataclass_fields__
                if name != "span" and not (name == "text" and isinstance(value, tree.Rule))
            ]
            return type(value).__name__, [simple(getattr(value, name)) for name in fields]
        case tuple():
            return [simple(item) for item in value]
        case float() if math.isnan(value):
            return "unknown"
        case _:
            return value


@st.composite
def _names(draw: st.DrawFn) -> tree.Word:
    """A name. Its text is short, because Hypothesis rejects strategies with a long text."""
    return tree.Word(span=SPAN, text=draw(st.sampled_from(NAMES)))


def word(texts: tuple[str, ...] = NAMES) -> SearchStrategy[tree.Word]:
    if texts is NAMES:
        return _names()
    return st.sampled_from(texts).map(lambda text: tree.Word(span=SPAN, text=text))


functions = word().filter(lambda name: name.text != "follows")
"""Functions over members or time; `follows of (x)` reads as the use of a template named `of`."""
numbers = st.one_of(
    st.integers(0, 1000).map(float),
    st.floats(0, 1e30, allow_nan=False),
    st.sampled_from([0.5, 1e-7, 1e22, 100.0]),
)
units = st.none() | word(UNITS)
terms = st.one_of(
    st.sampled_from(["Pump", "in"]).map(
        lambda text: tree.TermName(span=SPAN, text=text, form="name")
    ),
    st.just(tree.TermName(span=SPAN, text="plant:Pump-2", form="pname")),
    st.just(tree.TermName(span=SPAN, text="https://e.org/p#Pump", form="iri")),
)
patterns = st.sampled_from(PATTERNS).map(lambda text: tree.Pattern(span=SPAN, text=text))
in_class = terms.map(lambda term: tree.InClass(span=SPAN, term=term))
variables = word(("p", "low", "zone"))
quantities = st.builds(tree.Quantity, span=st.just(SPAN), value=numbers, unit=units)
references = st.one_of(
    _names().map(lambda name: tree.Reference(span=SPAN, name=name.text)),
    st.sampled_from(HEADERS).map(lambda name: tree.Reference(span=SPAN, name=name, quoted=True)),
)
_leaves: SearchStrategy[Expression] = st.one_of(
    quantities,
    references,
    st.sampled_from(["p", "low"]).map(lambda name: tree.Variable(span=SPAN, name=name)),
)


def _wider(inner: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    here = st.just(SPAN)
    named = st.lists(st.tuples(word(), inner), max_size=2, unique_by=lambda pair: pair[0].text).map(
        tuple
    )
    return st.one_of(
        st.builds(tree.Arithmetic, span=here, op=st.sampled_from("+-*/"), left=inner, right=inner),
        st.builds(tree.Negative, span=here, arg=inner),
        st.builds(
            tree.Raised, span=here, base=inner, exponent=numbers | numbers.map(lambda value: -value)
        ),
        st.builds(tree.Past, span=here, arg=inner),
        st.builds(Ago, span=here, arg=inner, by=quantities, initial=st.none() | inner),
        st.builds(
            tree.Apply,
            span=here,
            name=word(),
            args=st.lists(inner, min_size=1, max_size=2).map(tuple),
            named=named,
        ),
        st.builds(
            tree.Aggregate,
            span=here,
            function=functions,
            body=inner,
            variable=variables,
            source=patterns | in_class,
        ),
        st.builds(
            tree.OverTime,
            span=here,
            function=functions,
            body=inner | st.deferred(lambda: comparisons()),
            direction=st.sampled_from(["last", "next"]),
            lasting=quantities,
        ),
        st.builds(
            tree.OverTime,
            span=here,
            function=functions,
            body=inner | st.deferred(lambda: comparisons()),
            direction=st.just("since"),
            event=st.deferred(lambda: conditions),
        ),
    )


expressions: SearchStrategy[Expression] = st.recursive(_leaves, _wider, max_leaves=6)
calls = st.builds(
    tree.Apply,
    span=st.just(SPAN),
    name=word(),
    args=st.lists(expressions, min_size=1, max_size=2).map(tuple),
)
heads = st.one_of(
    st.builds(tree.Head, span=st.just(SPAN), name=word(), variable=st.none() | variables),
    st.builds(
        tree.Head,
        span=st.just(SPAN),
        name=word(HEADERS),
        variable=st.none() | variables,
        quoted=st.just(True),
    ),
)


@st.composite
def comparisons(draw: st.DrawFn) -> tree.Comparison:
    count = draw(st.integers(2, 3))
    signs = ("<=", "<") if count == 3 else ("<=", ">=", "==", "!=", "<", ">")
    operators = tuple(draw(word(signs)) for _ in range(count - 1))
    equal = count == 2 and operators[0].text == "=="
    return tree.Comparison(
        span=SPAN,
        operands=tuple(draw(expressions) for _ in range(count)),
        operators=operators,
        tolerance=draw(st.none() | expressions) if equal else None,
    )


@st.composite
def class_atoms(draw: st.DrawFn) -> tree.IsClass:
    form = draw(st.sampled_from(["name", "string", "variable"]))
    value = draw(
        word({"name": ("A", "in", "is", "unknown"), "string": TEXTS, "variable": ("p",)}[form])
    )
    return tree.IsClass(
        span=SPAN, subject=draw(expressions), negated=draw(st.booleans()), value=value, form=form
    )  # type: ignore[arg-type]


_subjects = st.recursive(
    references | calls,
    lambda inner: st.builds(tree.Past, span=st.just(SPAN), arg=inner),
    max_leaves=2,
)
_classes = st.lists(word(TEXTS), min_size=1, max_size=3, unique_by=lambda one: one.text).map(tuple)
_windows = st.one_of(
    st.none(),
    st.builds(tree.Window, span=st.just(SPAN), low=st.none(), high=quantities),
    st.builds(tree.Window, span=st.just(SPAN), low=expressions, high=expressions),
)
_groups = st.none() | word((*NAMES, "Tool ID"))
_atoms: SearchStrategy[Condition] = st.one_of(
    comparisons(),
    class_atoms(),
    st.builds(
        tree.Membership,
        span=st.just(SPAN),
        subject=_subjects,
        negated=st.booleans(),
        values=_classes,
    ),
    st.builds(tree.Follows, span=st.just(SPAN), call=calls),
    st.builds(tree.AtEdge, span=st.just(SPAN), edge=st.sampled_from(["start", "end"])),
    st.builds(
        tree.Monotone,
        span=st.just(SPAN),
        subject=expressions,
        direction=st.sampled_from(["falls", "rises"]),
        group=_groups,
        feature=st.none() | heads,
    ),
)
_modes = st.sampled_from(
    ["always", "eventually", "once", "historically", "next", "previous", "initially"]
)


def _joined(inner: SearchStrategy[Condition]) -> SearchStrategy[Condition]:
    here = st.just(SPAN)
    some = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(tree.Negation, span=here, arg=inner),
        st.builds(tree.AllOf, span=here, args=some),
        st.builds(tree.AnyOf, span=here, args=some),
        st.builds(tree.IfThen, span=here, antecedent=inner, consequent=inner),
        st.builds(tree.Temporal, span=here, mode=_modes, window=_windows, arg=inner),
        st.builds(
            tree.Temporal,
            span=here,
            mode=st.sampled_from(["next", "previous"]),
            window=_windows,
            arg=inner,
            weak=st.just(True),
        ),
        st.builds(
            tree.Until,
            span=here,
            mode=st.sampled_from(["until", "since"]),
            left=inner,
            window=_windows,
            right=inner,
            closed=st.booleans(),
            weak=st.booleans(),
        ),
        st.builds(
            tree.Equivalence,
            span=here,
            word=st.sampled_from(["iff", "xor"]),
            left=inner,
            right=inner,
        ),
        st.builds(tree.Begins, span=here, arg=inner),
        st.builds(
            tree.OnlyAfter, span=here, effect=inner, cause=inner, within=st.none() | quantities
        ),
        st.builds(tree.Lasting, span=here, arg=inner, duration=quantities),
        st.builds(tree.Becomes, span=here, arg=inner),
        st.builds(
            tree.OverMembers,
            span=here,
            arg=inner,
            least=st.none() | st.integers(1, 9),
            variable=variables,
            source=patterns | in_class,
        ),
    )


conditions: SearchStrategy[Condition] = st.recursive(_atoms, _joined, max_leaves=5)
_over = st.one_of(
    patterns,
    in_class,
    word(TEXTS).map(lambda path: tree.InTable(span=SPAN, path=path)),
    word(TEXTS).map(lambda path: tree.InQuery(span=SPAN, path=path)),
)
quantifiers = st.builds(
    tree.Quantifier,
    span=st.just(SPAN),
    variables=st.lists(variables, min_size=1, max_size=3, unique_by=lambda one: one.text).map(
        tuple
    ),
    source=_over,
)
_scopes = st.none() | word(("public", "server", "client"))
_texts = st.none() | word(TEXTS)
_intervals = st.tuples(numbers.map(lambda value: -value - 1), numbers)
_choices = st.one_of(
    st.builds(tree.Choice, span=st.just(SPAN)),
    st.builds(tree.Choice, span=st.just(SPAN), classes=_classes),
    st.builds(tree.Choice, span=st.just(SPAN), interval=_intervals, unit=units),
    st.builds(tree.Choice, span=st.just(SPAN), ends=st.tuples(expressions, expressions)),
)
_sources = st.one_of(
    word(TEXTS).map(lambda path: tree.DecisionTable(span=SPAN, path=path)),
    word(TEXTS).map(lambda path: tree.EarlierModel(span=SPAN, path=path)),
)


def _common(draw: st.DrawFn, from_file: bool) -> dict[str, Any]:
    return {
        "span": SPAN,
        "name": draw(word()),
        "output": draw(word()),
        "quantifier": None if from_file else draw(st.none() | quantifiers),
        "scope": draw(_scopes),
        "source": draw(_sources) if from_file else None,
    }


@st.composite
def _ranges(draw: st.DrawFn) -> tree.RangeKnowledge:
    if draw(st.booleans()):
        return tree.RangeKnowledge(
            **_common(draw, True), clauses=(), otherwise=draw(st.none() | _choices)
        )
    pairs = st.lists(st.tuples(conditions, _choices), min_size=1, max_size=2).map(tuple)
    return tree.RangeKnowledge(
        **_common(draw, False), clauses=draw(pairs), otherwise=draw(_choices)
    )


@st.composite
def _predictions(draw: st.DrawFn) -> tree.PredictKnowledge:
    if draw(st.booleans()):
        return tree.PredictKnowledge(
            **_common(draw, True), clauses=(), otherwise=draw(st.none() | expressions)
        )
    answers = expressions | word(TEXTS)
    pairs = st.lists(st.tuples(conditions, answers), min_size=1, max_size=2).map(tuple)
    return tree.PredictKnowledge(
        **_common(draw, False), clauses=draw(pairs), otherwise=draw(st.none() | answers)
    )


_cells = numbers | numbers.map(lambda value: -value) | st.just(math.nan)
_series = st.one_of(
    st.builds(
        tree.Series,
        span=st.just(SPAN),
        head=heads,
        values=st.tuples(st.lists(_cells, max_size=3), numbers).map(
            lambda pair: (*pair[0], pair[1])
        ),
        unit=units,
    ),
    st.builds(tree.Series, span=st.just(SPAN), head=heads, values=st.just((math.nan, math.nan))),
    st.builds(
        tree.Series,
        span=st.just(SPAN),
        head=heads,
        values=st.just(()),
        texts=st.tuples(st.lists(word((*TEXTS, "")), max_size=3), word(TEXTS)).map(
            lambda pair: (*pair[0], pair[1])
        ),
    ),
)
_here = st.just(SPAN)
_words = st.lists(
    word(("isa95", "x.y", "mason")), min_size=1, max_size=3, unique_by=lambda one: one.text
).map(tuple)
_weights = st.none() | numbers.map(lambda value: tree.Quantity(span=SPAN, value=value))
_lasting = quantities.filter(lambda quantity: quantity.value > 0)
statements: SearchStrategy[Statement] = st.one_of(
    st.builds(tree.Use, span=_here, names=_words, rules=st.booleans()),
    st.builds(tree.Prefix, span=_here, name=word(("plant", "x")), iri=word(("https://e.org/p#",))),
    st.builds(
        tree.Timeline,
        span=_here,
        step=_lasting,
        ends=st.none() | word(("strict", "clip")),
        time=_texts,
        trace=_texts,
    ),
    st.builds(tree.RowsAre, span=_here, term=terms),
    st.builds(
        tree.Signal,
        span=_here,
        role=st.sampled_from(["input", "output"]),
        head=heads,
        term=st.none() | terms,
        unit=units,
        bounds=st.none() | _intervals,
        column=_texts,
    ),
    st.builds(tree.Label, span=_here, name=word(), classes=_classes, column=_texts),
    st.builds(tree.Constant, span=_here, name=word(), value=expressions),
    st.builds(
        tree.Rule,
        span=_here,
        name=word(),
        formula=conditions,
        title=_texts,
        quantifier=st.none() | quantifiers,
        kind=st.none() | word(("causal", "physical")),
        weight=_weights,
        hard=st.booleans(),
        scope=_scopes,
    ),
    st.builds(
        tree.Template,
        span=_here,
        name=word(),
        parameters=st.lists(word(), min_size=1, max_size=3, unique_by=lambda one: one.text).map(
            tuple
        ),
        formula=conditions,
    ),
    st.builds(
        tree.Infer,
        span=_here,
        name=word(),
        scope=_scopes,
        per=word(),
        variables=st.lists(variables, min_size=1, max_size=2, unique_by=lambda one: one.text).map(
            tuple
        ),
        call=calls,
    ),
    _ranges(),
    _predictions(),
    st.builds(
        tree.KeepSet,
        span=_here,
        name=word(),
        quantifier=st.none() | quantifiers,
        target=word(("model.weight",)),
        call=calls | st.builds(tree.Apply, span=st.just(SPAN), name=word(), args=st.just(())),
        scope=_scopes,
    ),
    st.builds(
        tree.Cause,
        span=_here,
        name=word(),
        quantifier=quantifiers,
        driver=variables,
        driven=variables,
        lag=st.none() | _lasting,
    ),
    st.builds(
        tree.Example,
        span=_here,
        rule=word(),
        holds=st.booleans(),
        series=st.lists(_series, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(tree.Load, span=_here, what=st.sampled_from(["shapes", "queries"]), path=word(TEXTS)),
)
