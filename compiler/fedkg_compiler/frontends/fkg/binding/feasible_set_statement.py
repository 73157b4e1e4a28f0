"""``set NAME for ... keep parameters in l1_ball(radius = ?r)``: where parameters or predictions of
each client must lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack.feasible_sets import ARGUMENTS, ClientSet, KeptSet, Shape
from fedkg.units.unit import NUMBER, Unit, same_dimension
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.frontends.fkg.binding.declarations import scope_of
from fedkg_compiler.frontends.fkg.binding.entity_owners import client_of
from fedkg_compiler.frontends.fkg.binding.quantifiers import note_unused, quantify
from fedkg_compiler.frontends.fkg.binding.rule import bind, condition
from fedkg_compiler.frontends.fkg.binding.scope import (
    Cell,
    Environment,
    Fixed,
    Moving,
    Names,
    Scope,
    Sources,
    View,
    in_unit,
    in_which_unit,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    VALUE,
    look_up,
    names_in,
    variables_in,
)
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Apply,
    Expression,
    KeepSet,
    Reference,
    Variable,
    Word,
)
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets
from fedkg_compiler.ir import RowBuilder

ELSEWHERE = {
    "l1": "l1_ball",
    "l2": "l2_ball",
    "linf": "linf_ball",
    "ball": "l2_ball",
    "interval": "box",
    "positive": "nonnegative",
}
"""What shapes are called elsewhere."""

JOB = "job"
"""The placeholder of a number that the job file gives."""

ALL = ("parameters", "predictions")
_VECTORS = ("halfspace", "affine")
_SIZES = ("radius", "total")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What is kept in the set: see `KeptSet`. unit: of an output's numbers, None where there is
    none.
    """

    on: Literal["parameters", "predictions"]
    name: str
    unit: Unit | None


def bind_set(statement: KeepSet, sources: Sources, sheets: Sheets) -> KeptSet | None:
    """The set for each client; None where something in it is wrong, which has been said."""
    problems = sources.problems
    target = _target(statement.target, sources.names, problems)
    shape = _shape(statement.call.name, problems)
    environment = (
        Environment(rows=1)
        if statement.quantifier is None
        else quantify(statement.quantifier, sources, sheets, "set")
    )
    arguments = None if shape is None else _arguments(statement, shape, problems)
    if arguments is None or shape is None or target is None or not environment.known:
        return None
    used = {name for _, value in arguments if value is not None for name in variables_in(value)[1]}
    client = _client_variable(statement, environment, problems)
    if statement.quantifier is not None:
        note_unused(statement.quantifier, environment, used | {client}, problems, "set")
    numbers = [_numbers(name, value, target, environment, sources) for name, value in arguments]
    columns = [column for column in numbers if column is not None]
    if len(columns) < len(numbers) or (statement.quantifier is not None and not client):
        return None
    limits = dict(zip((name for name, _ in arguments), columns, strict=True))
    if shape == "box" and not _in_order(limits, target, statement, environment, problems):
        return None
    clients = _clients(statement, client, columns, environment, sources)
    if clients is None:
        return None
    unit = "" if target.unit is None or not arguments else target.unit.text
    return KeptSet(
        name=statement.name.text,
        on=target.on,
        target=target.name,
        shape=shape,
        arguments=tuple(name for name, _ in arguments),
        unit=unit,
        clients=clients,
        scope=scope_of(statement.scope),
        text=sources.written(statement.span),
        file=Path(statement.span.file).name,
        line=statement.span.line,
    )


def _target(word: Word, names: Names, problems: Problems) -> _Target | None:
    first, _, rest = word.text.partition(".")
    if first == "parameters":
        return _Target(on="parameters", name=rest, unit=None)
    if word.text == "predictions":
        return _Target(on="predictions", name="", unit=None)
    signal = names.signals.get(word.text)
    if signal is not None and signal.role == "output":
        return _Target(on="predictions", name=word.text, unit=signal.unit)
    if word.text in names.labels:
        return _Target(on="predictions", name=word.text, unit=NUMBER)
    if first in names.broken:
        return None
    outputs = [name for name, one in names.signals.items() if one.role == "output"]
    if signal is not None:
        message = f"`{word.text}` is data: a set constrains parameters or outputs of the model"
        problems.error("FKG289", word.span, message, "write a rule for it: require ...")
        return None
    advice = did_you_mean(
        word.text,
        [*ALL, *outputs, *names.labels],
        "a set constrains `parameters`, `parameters.NAME`, `predictions` or an output",
    )
    problems.error("FKG289", word.span, f"a set cannot constrain `{word.text}`", advice)
    return None


def _shape(word: Word, problems: Problems) -> Shape | None:
    if word.text in ARGUMENTS:
        return word.text
    known = ", ".join(ARGUMENTS)
    advice = (
        f"did you mean `{ELSEWHERE[word.text]}`?"
        if word.text in ELSEWHERE
        else did_you_mean(word.text, ARGUMENTS, f"the sets are {known}")
    )
    problems.error("FKG290", word.span, f"`{word.text}` is not a known set", advice)
    return None


def _arguments(
    statement: KeepSet, shape: Shape, problems: Problems
) -> list[tuple[str, Expression | None]] | None:
    """The set's numbers by name, None for what the job gives; None where there are too many, too
    few, or wrong ones.
    """
    call, wanted = statement.call, ARGUMENTS[shape]
    first = ["1, -1"] if shape in _VECTORS else []
    others = [f"{name} = ..." for name in wanted if name != "center"]
    form = f"{shape}({', '.join([*first, *others])})"
    named: dict[str, Expression] = {}
    for word, value in call.named:
        if word.text not in wanted:
            advice = did_you_mean(word.text, wanted, f"write {form}")
            problems.error(
                "FKG290", word.span, f"the set `{shape}` has no argument `{word.text}`", advice
            )
            return None
        named.setdefault(word.text, value)
    found: list[tuple[str, Expression | None]] = []
    if shape in _VECTORS:
        found += [(f"c{i}", arg) for i, arg in enumerate(call.args, start=1)]
        if not found:
            problems.error("FKG290", call.span, f"`{shape}` needs coefficients", f"write {form}")
            return None
    else:
        free = [name for name in wanted if name not in named]
        if len(call.args) > len(free):
            problems.error(
                "FKG290",
                call.args[len(free)].span,
                f"`{shape}` takes at most {_counted(len(wanted))}: {', '.join(wanted)}"
                if wanted
                else f"`{shape}` takes no number",
                f"write {form}",
            )
            return None
        named |= dict(zip(free, call.args, strict=False))
    for name in wanted:
        given = named.get(name)
        if isinstance(given, Reference) and given.name == JOB:
            found.append((name, None))
        elif given is not None:
            found.append((name, given))
        elif name == "radius":
            found.append((name, None))
        elif name != "center":
            problems.error(
                "FKG290",
                call.span,
                f"`{shape}` needs `{name}`",
                f"write {form}, or {name} = job if the job file states the number",
            )
            return None
    return found


def _counted(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"


def _client_variable(statement: KeepSet, environment: Environment, problems: Problems) -> str:
    """Return the variable that identifies the client of a row: the first with entities or texts,
    else the first with texts such as `1A`, which may be names or numbers with a unit.

    Reports a problem and returns "" if there is none.
    """
    if statement.quantifier is not None:
        words = [word.text for word in statement.quantifier.variables]
        cells = {word: [c for c in environment.cells[word] if c is not None] for word in words}
        sure = (word for word in words if any(c.iri or c.number is None for c in cells[word]))
        maybe = (word for word in words if any(c.may_be_name for c in cells[word]))
        if found := next(sure, "") or next(maybe, ""):
            return found
        message = "nothing here says which client a row is about"
        problems.error(
            "FKG291",
            statement.quantifier.span,
            message,
            "make the client the first variable: for ?client, ?r where { ?client plant:budget ?r }",
        )
    return ""


def _numbers(
    name: str, value: Expression | None, target: _Target, environment: Environment, sources: Sources
) -> list[float | None] | None:
    """Return the values of an argument in every row.

    Reports a problem and returns None if it is not a number at compile time.
    """
    if value is None:
        return [None] * environment.rows
    problems = sources.problems
    advice = (
        f"write a number, a variable of the quantifier, or `{JOB}` for a number that the job file"
        " states"
    )
    reads = next(
        (
            (node, node.name if isinstance(node, Reference) else node.name.text)
            for node in names_in(value)
            if (isinstance(node, Reference) and node.name != "pi")
            or (isinstance(node, Apply) and _is_data(node.name.text, sources.names))
        ),
        None,
    )
    if reads is not None:
        node, read = reads
        message = f"`{read}` is not a number: sets are fixed before any data is read"
        problems.error("FKG290", node.span, message, advice)
        return None
    rows: list[int] = list(range(environment.rows))
    if (
        isinstance(value, Variable) and value.name in environment.cells
    ):  # what a row lacks, the job gives
        rows = [i for i in rows if environment.cells[value.name][i] is not None]
    part = environment.take(rows)
    scope = Scope(
        names=sources.names,
        environment=part,
        readings=look_up(value, part, sources),
        rows=RowBuilder(part.rows),
        book=sources.book,
        problems=problems,
        graph=sources.graph,
        view=View(key="base", ids=np.zeros(part.rows, dtype=np.int64)),
        keys=((),) * part.rows,
        compared=[],
        bind_value=bind,
        bind_condition=condition,
        sources=sources,
    )
    bound = bind(value, scope)
    if isinstance(bound, Moving):
        message = f"`{name}` reads data: sets are fixed before any data is read"
        problems.error("FKG290", value.span, message, advice)
    if not isinstance(bound, Fixed):
        return None
    numbers = _in_its_unit(name, bound, target, scope)
    if numbers is None:
        return None
    if name in _SIZES and (numbers < 0).any():
        row = int(np.flatnonzero(numbers < 0)[0])
        message = (
            f"a {name} must not be negative, and this one is {numbers[row]:g}{scope.where(row)}"
        )
        problems.error(
            "FKG290",
            value.span,
            message,
            "write 0 or more; `job` or an empty cell leaves the number to the job file",
        )
        return None
    result: list[float | None] = [None] * environment.rows
    for i, number in zip(rows, numbers.tolist(), strict=True):
        result[i] = number
    return result


def _is_data(name: str, names: Names) -> bool:
    """Whether ``name(...)`` reads a column of the table."""
    return name in names.signals or name == VALUE


def _in_its_unit(
    name: str, value: Fixed, target: _Target, scope: Scope
) -> NDArray[np.float64] | None:
    if not np.isfinite(value.values).all():
        where = scope.where(int(np.flatnonzero(~np.isfinite(value.values))[0]))
        scope.problems.error(
            "FKG228",
            value.span,
            f"`{name}` is not finite{where}",
            "correct the number; `job` or an empty cell leaves it to the job file",
        )
        return None
    unit = (
        NUMBER if target.unit is None else target.unit.step() if name == "radius" else target.unit
    )
    is_coefficient = name[0] == "c" and name[1:].isdigit()
    if is_coefficient:
        unit = NUMBER
    if value.unit is not None and not same_dimension(value.unit, unit):
        what, advice = "what the set limits has no unit", "write the number without a unit"
        if is_coefficient:
            what = "a coefficient has no unit"
        elif target.unit is not None and unit.text:
            what = f"what the set limits is {in_which_unit(target.unit)}"
            advice = f"write the number in {unit.text}, or correct the unit of `{target.name}`"
        number = f"coefficient {name[1:]}" if is_coefficient else f"`{name}`"
        scope.problems.error(
            "FKG213", value.span, f"{number} is {in_which_unit(value.unit)}, and {what}", advice
        )
        return None
    fitted = in_unit(value, unit, scope)
    assert isinstance(fitted, Fixed)
    return fitted.values


def _in_order(
    limits: Mapping[str, list[float | None]],
    target: _Target,
    statement: KeepSet,
    environment: Environment,
    problems: Problems,
) -> bool:
    """Whether the low end of a box never lies above its high end, which is reported."""
    unit = f" {target.unit.text}" if target.unit is not None and target.unit.text else ""
    for i, (low, high) in enumerate(zip(limits["low"], limits["high"], strict=True)):
        if low is not None and high is not None and low > high:
            problems.error(
                "FKG290",
                statement.call.span,
                f"no value is above {low:g}{unit} and below {high:g}{unit}"
                + (f" in {environment.name(i)}" if environment.cells else ""),
                "exchange the two limits"
                + (" in this row or solution" if environment.cells else ""),
            )
            return False
    return True


def _clients(
    statement: KeepSet,
    variable: str,
    columns: list[list[float | None]],
    environment: Environment,
    sources: Sources,
) -> tuple[ClientSet, ...] | None:
    rows = list(zip(*columns, strict=True)) if columns else [()] * environment.rows
    if not variable:
        return (ClientSet(numbers=rows[0]),)
    found: dict[tuple[str, str], tuple[float | None, ...]] = {}
    for i, (cell, numbers) in enumerate(zip(environment.cells[variable], rows, strict=True)):
        name = _name(cell, sources)
        if cell is None or found.setdefault((name, cell.iri), numbers) != numbers:
            where = environment.name(i)
            message = f"the client {name} has several sets of numbers, the second in {where}"
            advice = "give each client one row or solution"
            if cell is None:
                message = f"?{variable}, which names the client, has no value in {where}"
                advice = f"give ?{variable} a value there, or leave the row or solution out"
            place = (
                statement.quantifier.span if statement.quantifier is not None else statement.span
            )
            sources.problems.error("FKG291", place, message, advice)
            return None
    entries = [
        ClientSet(client=name, iri=iri if not iri.startswith("_:") else "", numbers=numbers)
        for (name, iri), numbers in found.items()
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.client, entry.iri)))


def _name(cell: Cell | None, sources: Sources) -> str:
    return "" if cell is None else client_of(cell.iri, sources) if cell.iri else cell.text
