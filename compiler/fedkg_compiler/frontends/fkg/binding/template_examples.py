"""``example of TEMPLATE holds for x = 3 4 5 and low = 1 and ...``: what the parameters are, and
whether a trace follows the template.

A parameter with several values is a signal, one with a single value a number, one with a single
word a name. The template is judged at the
first step of the trace, as `infer` judges it.
"""

from __future__ import annotations

from dataclasses import replace

from fedkg._internal.name_matching import did_you_mean
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.declarations import unit_of
from fedkg_compiler.frontends.fkg.binding.scope import (
    DeclaredSignal,
    Environment,
    FileRule,
    First,
    Sources,
)
from fedkg_compiler.frontends.fkg.binding.templates import call_template
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Apply,
    Example,
    Expression,
    Negative,
    Quantity,
    Reference,
    Rule,
    RuleFile,
    Series,
    Template,
    Temporal,
)
from fedkg_compiler.ir import Book


def example_of_template(statement: Example, sources: Sources) -> tuple[Example, Sources] | None:
    """The example as one of a rule that follows the template, and the names that the rule speaks
    of; None where it is wrong.
    """
    template = sources.names.templates[statement.rule.text]
    given = _series_by_parameter(statement, template, sources)
    if given is None:
        return None
    signals = {name: series for name, series in given.items() if _is_signal(series)}
    declared: dict[str, DeclaredSignal] = {}
    for name, series in signals.items():
        unit = unit_of(series.unit, sources.problems)
        if unit is None and series.unit is not None:
            return None
        place = series.head.span
        declared[name] = DeclaredSignal(
            name=name,
            role="input",
            family="",
            property=None,
            unit=unit,
            span=None,
            column=None,
            place=place,
        )
    names = replace(
        sources.names,
        signals=declared,
        labels={},
        broken=set(),
        timing=replace(sources.names.timing, declared=True),
    )
    call = Apply(
        span=statement.rule.span,
        name=statement.rule,
        args=tuple(_argument(given[word.text]) for word in template.parameters),
    )
    formula = call_template(call, names, sources.problems)
    if formula is None:
        return None
    at_first = Temporal(span=statement.rule.span, mode="initially", window=None, arg=formula)
    rule = Rule(span=statement.span, name=statement.rule, formula=at_first)
    file = RuleFile(file=statement.span.file, text="", statements=())
    first = First(rule=FileRule(rule=rule, file=file), environment=Environment(rows=1, cells={}))
    inner = replace(sources, names=names, book=Book(), firsts={template.name.text: first})
    return replace(statement, series=tuple(signals.values())), inner


def _is_signal(series: Series) -> bool:
    return len(series.values) > 1 or len(series.texts) > 1


def _series_by_parameter(
    statement: Example, template: Template, sources: Sources
) -> dict[str, Series] | None:
    """The series of each parameter."""
    parameters = [word.text for word in template.parameters]
    declared = (Related(span=template.name.span, message="declared here"),)
    given = {series.head.name.text: series for series in statement.series}
    for name, series in given.items():
        if name not in parameters:
            near = did_you_mean(name, parameters, f"its parameters are {', '.join(parameters)}")
            sources.problems.error(
                "FKG266",
                series.head.span,
                f"`{name}` is not a parameter of `{template.name.text}`",
                near,
                declared,
            )
            return None
    missing = [name for name in parameters if name not in given]
    if missing:
        message = f"the example gives no value of the parameter `{missing[0]}`"
        sources.problems.error(
            "FKG266", statement.rule.span, message, f"add: and {missing[0]} = 1", declared
        )
        return None
    return given


def _argument(series: Series) -> Expression:
    """What the template is called with."""
    span: Span = series.span
    if _is_signal(series):
        return Reference(span=span, name=series.head.name.text)
    if series.texts:
        return Reference(span=span, name=series.texts[0].text)
    value = series.values[0]
    number = Quantity(span=span, value=abs(value), unit=series.unit)
    return Negative(span=span, arg=number) if value < 0 else number
