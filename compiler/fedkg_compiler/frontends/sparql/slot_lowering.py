"""What is read from the table, and what the graph knows, as slots and parameters of a part.

Letter: P rows of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedkg.pack import CategoryIs, Not, Slot, Term
from fedkg.pack.formulas import ROWS, everywhere
from fedkg.units.text import parse_unit
from fedkg.units.unit import Unit
from fedkg_compiler.formulas.formula_algebra import Truth
from fedkg_compiler.frontends.sparql.answer_frames import Answer, Ids, node_values
from fedkg_compiler.frontends.sparql.branch_tree import Seen
from fedkg_compiler.frontends.sparql.numeric_terms import Number, in_rule_unit
from fedkg_compiler.frontends.sparql.shared_formula_rows import Part
from fedkg_compiler.graph.rdf_terms import Iri, Literal, Quantity
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText, SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Const, Expr, Op, Place, Var
from fedkg_compiler.graph.sparql_syntax.variable_scope import variables
from fedkg_compiler.graph.standard_vocabularies import XSD
from fedkg_compiler.ir import BookColumn, RowBuilder

_TRUTHS = {
    f'"{text}"^^<{XSD}boolean>': text in ("true", "1") for text in ("true", "1", "false", "0")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A number of the query, or of the graph, beside a value in a unit.

    Attributes:
        at: the place of the expression.
        values: the number, by query; the largest if there are several, NaN for an aggregate.
        written: whether the query itself states the number.
        unit: the unit of the other value.
        columns: the name of a column in that unit, by query.
        others: the units of further members of an aggregate.
    """

    at: Place
    values: Mapping[int, float]
    written: bool
    unit: Unit
    columns: Mapping[int, str]
    others: tuple[str, ...] = ()


Read = tuple[str, int, str]
"""An observed variable, the frame that reads it (alternatives and nested groups may use one name),
and the kind of its column.
"""


@dataclass(slots=True, kw_only=True)
class Lowering:
    """Facts that the lowering of one part collects.

    Attributes:
        holds: the formula that is true where an expression is.
        bound: whether an expression has a value.
        number_term: the numeric value of an expression; None if it never has one.
        compared: texts of the units in which comparisons are made.
        lost: how often something can be neither true nor false.
        modes: whether each observed variable is read as a number or as a category.
        presumed: the modes of variables that are only tested for a value.
        bare: numbers without a unit, each with the unit and a column of its neighbour in the
            expression, and further units of that neighbour.
        never: terms that never have a value because they have another kind than required,
            with the reason.
        ambiguous: variables that may be numbers or texts, because neither the query nor the graph
            states their kind: each with its place, the column and the query of each row that reads
            it, and whether it is the value of any property.
    """

    holds: Callable[[Expr, Part, Lowering], Truth]
    bound: Callable[[Expr, Part, Lowering], Truth]
    number_term: Callable[[Expr, Part, Lowering], Number | None]
    compared: set[str] = field(default_factory=set)
    lost: int = 0
    modes: dict[Read, str] = field(default_factory=dict)
    presumed: dict[Read, str] = field(default_factory=dict)
    bare: list[Bare] = field(default_factory=list)
    never: list[tuple[Place, str]] = field(default_factory=list)
    ambiguous: dict[Read, tuple[Place, Ids, Ids, bool]] = field(default_factory=dict)


# ---- texts


def text_of(expr: Expr) -> Seen | None:
    """Return the observed variable of an expression that is its text."""
    if isinstance(expr, Op) and expr.name == "str":
        return text_of(expr.args[0])
    return expr if isinstance(expr, Seen) else None


def texts_of(expr: Expr, part: Part) -> tuple[str, ...] | None:
    """The text or the name of the entity in each row; None where the value is something else."""
    if isinstance(expr, Const):
        if expr.kind not in ("string", "iri"):
            return None
        terms = [_constant(expr, query, part) for query in part.frame.batch.queries]
        found = tuple(terms[q] for q in part.frame.query[part.at].tolist())
        return None if any(term is None for term in found) else tuple(term or "" for term in found)
    name = expr.name if isinstance(expr, Var) else part.frame.exprs.get(expr)
    column = None if name is None else part.answers(name)
    if not column or name is None or part.kind(name)[0] not in ("text", "iri"):
        return None
    return tuple(_text(term, part) for term in column)


def _text(term: Answer, part: Part) -> str:
    return (
        part.graph.category_of(term.value)
        if isinstance(term, Iri)
        else term.lexical
        if isinstance(term, Literal)
        else ""
    )


def has_language(expr: Expr, part: Part) -> bool:
    """Whether a static value is a text with a language, which no cell of a table has."""
    if isinstance(expr, Const):
        text = part.frame.batch.queries[0].value(expr) if expr.kind == "string" else ""
        return text[text.rfind(text[:1]) + 1 :].startswith("@")
    name = expr.name if isinstance(expr, Var) else part.frame.exprs.get(expr)
    return name is not None and part.kind(name) == ("text", "@")


def _constant(expr: Const, query: QueryText, part: Part) -> str | None:
    text = query.value(expr)
    if expr.kind == "iri":
        return part.graph.category_of(text[1:-1])
    return plain_text(text)


def plain_text(written: str) -> str | None:
    """The text of a string literal; None where a datatype makes it a number."""
    quote = written[:3] if written[:3] in ('"""', "'''") else written[:1]
    end = written.rfind(quote)
    datatype = written[end + len(quote) :]
    if datatype.startswith("^^") and not datatype.endswith("#string>"):
        return None
    return (
        written[len(quote) : end].encode("raw_unicode_escape").decode("unicode_escape")
        if "\\" in written
        else written[len(quote) : end]
    )


def category(
    seen: Seen, texts: tuple[str, ...], part: Part, state: Lowering, *, negated: bool
) -> Truth:
    """``?grade = "A"``: the column has categories."""
    slot = slot_of(seen, part, state, mode="category")
    if slot is None:
        return False
    columns = part.rows.slots[slot.index].columns
    book = part.frame.batch.observations.sources.book
    for column, text in set(zip(columns.tolist(), texts, strict=True)):
        book.say(column, text)
    atom = CategoryIs(slot=slot.index, param=part.rows.codes(columns, texts))
    return Not(arg=atom) if negated else atom


# ---- what is read


def slot_of(seen: Seen, part: Part, state: Lowering, *, mode: str | None) -> Slot | None:
    """The slot of an observed variable; None where the table has nothing in these rows.

    `mode`: ``number`` or ``category``; None where it matters only whether there is a value.
    """
    here, at = part, np.arange(part.at.shape[0])
    while seen.name not in here.frame.readings:
        if here.outer is None or here.owner is None:
            raise AssertionError(f"?{seen.name} is read nowhere")
        at = here.owner[at]
        here = here.outer
    found = here.place(seen.name)
    if found is None:
        return None
    places, which = found
    which = which[at]
    any_property = isinstance(property_read(seen, part), Var)
    kind = kind_read(seen, part)
    read = seen.name, id(here.frame), kind
    if not kind and (mode is None or any_property):
        read_columns = np.array([place.column for place in places], dtype=np.int64)[which]
        query = part.frame.query[part.at]
        state.ambiguous.setdefault(read, (seen.at, read_columns, query, any_property))
    if mode is None:
        told = "category" if kind == "text" else "number"
        mode = state.presumed.setdefault(read, state.modes.get(read, told))
    elif state.modes.setdefault(read, mode) != mode:
        raise SparqlProblem(
            "FKG343",
            seen.at,
            "this is a number in one place and a text in another",
            "compare it with one of them",
        )
    ids = np.array([place.column for place in places], dtype=np.int64)
    if mode == "category":
        ids = np.array([_category_column(int(i), seen, part) for i in ids], dtype=np.int64)
    columns = ids[which]
    role = places[int(which[0])].role if which.size else "input"
    if mode == "category" and role == "output":
        raise SparqlProblem(
            "FKG343",
            seen.at,
            "an output with numbers is compared with a text",
            "declare it as a label",
        )
    return part.rows.slot((*read, mode), columns, np.zeros_like(columns), role, here.depth)


def kind_read(seen: Seen, part: Part) -> str:
    """What the graph says that the column of an observed variable holds: ``number``, ``text``, or
    "" for nothing.
    """
    here = _where(seen, part)
    found = here.place(seen.name)
    return "" if found is None else here.frame.readings[seen.name].kinds[int(found[1][0])]


def property_read(seen: Seen, part: Part) -> Var | Const:
    """The property that an observed variable is the value of."""
    return _where(seen, part).frame.readings[seen.name].observed.property


def common_categories(left: Seen, right: Seen, part: Part) -> tuple[str, ...] | None:
    """The texts that two columns may both have, sorted; None where the graph does not say those of
    either.
    """
    told = [
        frozenset(_text(term, part) for term in terms)
        for seen in (left, right)
        if (terms := _categories(seen, part))
    ]
    return tuple(sorted(frozenset.intersection(*told))) if told else None


def has_entities(seen: Seen, part: Part) -> bool:
    """Whether the graph says that the texts of a column stand for entities."""
    terms = _categories(seen, part)
    return bool(terms) and all(isinstance(term, Iri) for term in terms)


def _categories(seen: Seen, part: Part) -> frozenset[Iri | Literal]:
    here = _where(seen, part)
    names = node_values(property_read(seen, part), here.frame)
    observations = part.frame.batch.observations
    return frozenset(
        term
        for name in {names[i] for i in here.at.tolist()}
        if name is not None
        for term in observations.categories(name)
    )


def _where(seen: Seen, part: Part) -> Part:
    """Return the part that reads an observed variable: this one or an outer one."""
    while seen.name not in part.frame.readings:
        assert part.outer is not None, f"?{seen.name} is read nowhere"
        part = part.outer
    return part


def _category_column(column: int, seen: Seen, part: Part) -> int:
    book = part.frame.batch.observations.sources.book
    entry = book.columns[column]
    if entry.type == "category":
        return column
    if entry.unit is not None or entry.span is not None:
        raise SparqlProblem(
            "FKG343",
            seen.at,
            f"`{entry.name}` is a number, and is compared with a text",
            "compare it with a number",
        )
    return book.column(BookColumn(name=entry.name, source=entry.source, type="category"))


def seen_number(seen: Seen, part: Part, state: Lowering) -> Number | None:
    """An observed variable as a number in the unit that the rules use for it; None if the table has
    no value.
    """
    if kind_read(seen, part) == "text":
        state.never.append((seen.at, "a column of texts is read here; a number is expected"))
        return None
    slot = slot_of(seen, part, state, mode="number")
    if slot is None:
        return None
    found = _where(seen, part).place(seen.name)
    assert found is not None
    place = found[0][int(found[1][0])]
    book = part.frame.batch.observations.sources.book
    columns = part.rows.slots[slot.index].columns
    unit = place.rule_unit
    if unit is None and columns.size:
        unit = book.columns[int(columns[0])].unit
        stored = unit
    else:
        stored = place.stored
    return Number(
        at=seen.at,
        term=in_rule_unit(slot, stored, unit, part.rows),
        unit=unit,
        columns=columns if unit is None else None,
    )


def note_bare(a: Number, b: Number, part: Part, state: Lowering) -> None:
    """Keep in mind in which unit a number of the query is taken that has none."""
    for one, other in ((a, b), (b, a)):
        if one.stated and one.unit is None and other.unit is not None and other.term is not None:
            state.bare.append(
                Bare(
                    at=one.at,
                    values=_largest(one, part),
                    written=one.written,
                    unit=other.unit,
                    columns=_first_columns(other.term, part),
                    others=other.others,
                )
            )


def _largest(number: Number, part: Part) -> dict[int, float]:
    """The largest value of a number, of either sign, by query."""
    query = part.frame.query[part.at]
    values = np.full(query.shape, np.nan) if number.values is None else number.values
    order = np.lexsort((np.abs(values), query))
    return dict(zip(query[order].tolist(), values[order].tolist(), strict=True))


def _first_columns(term: Term, part: Part) -> dict[int, str]:
    """The name of a column that a term reads, by query."""
    batch, query = part.frame.batch, part.frame.query[part.at]
    names = dict.fromkeys(np.unique(query).tolist(), "")
    slot = next(((table, item) for table, item in everywhere(term) if isinstance(item, Slot)), None)
    if slot is None:
        return names
    table, item = slot
    rows = part.rows if table == ROWS else part.rows.root.members[table].rows
    columns = rows.slots[item.index].columns
    owners = query if table == ROWS else query[_owners(part.rows, table)]
    for _, at in batch.groups(owners) if columns.size else ():
        name = batch.observations.sources.book.columns[int(columns[at[0]])].name
        mine = batch.group == batch.group[owners[at[0]]]
        names |= {q: name for q in names if mine[q]}
    return names


def _owners(rows: RowBuilder, table: int) -> Ids:
    """The row among `rows` that each member of a table belongs to."""
    entry = rows.root.members[table]
    owners = np.repeat(np.arange(entry.offsets.size - 1), np.diff(entry.offsets))
    if entry.parent == rows.number:
        return owners
    return _owners(rows, entry.parent)[owners]


def fixed_number(expr: Expr, part: Part, state: Lowering) -> Number | None:
    """The number that a static expression is in each row."""
    if isinstance(expr, Const):
        if expr.kind == "iri":
            return _of_column(
                [Iri(query.value(expr)[1:-1]) for query in part.frame.batch.queries],
                expr,
                part,
                state,
                by_query=True,
            )
        values = [_written(query.value(expr), expr) for query in part.frame.batch.queries]
        numbers = np.array(values, dtype=np.float64)[part.frame.query[part.at]]
        if np.isnan(numbers).any():
            state.lost += 1
            state.never.append((expr.at, "a number is expected here, not a text"))
            return None
        return Number(at=expr.at, values=numbers, stated=True, written=True)
    name = expr.name if isinstance(expr, Var) else part.frame.exprs.get(expr)
    column = None if name is None else part.answers(name)
    if column is None:
        if isinstance(expr, Var):
            raise SparqlProblem(
                "FKG343",
                expr.at,
                f"a number is expected; ?{expr.name} is a table row",
                f"read a value of the row: ?{expr.name} PROPERTY ?value",
            )
        raise AssertionError("a static expression was not asked of the graph")
    found = _of_column(column, expr, part, state)
    if found is None and not variables(expr):
        state.never.append((expr.at, "this is an error by the rules of SPARQL"))
    return (
        None
        if found is None
        else replace(found, stated=found.unit is None, written=not variables(expr))
    )


def _of_column(
    column: Sequence[Answer], expr: Expr, part: Part, state: Lowering, *, by_query: bool = False
) -> Number | None:
    """The numbers of a column, [P] or with `by_query` one for each query."""
    observations = part.frame.batch.observations
    cells = list(column)
    if by_query:
        cells = [cells[q] for q in part.frame.query[part.at].tolist()]
    unit: Unit | None = None
    values = np.empty(len(cells), dtype=np.float64)
    for i, term in enumerate(cells):
        number = observations.number(term)
        if number is None:
            state.lost += 1
            if term is not None:
                what = (
                    f"{part.graph.label_of(term.value)} is an entity without a value"
                    if isinstance(term, Iri)
                    else f"`{term.lexical}` is not a number"
                )
                state.never.append((expr.at, f"{what}; a number is expected"))
            return None
        values[i] = number.value if isinstance(number, Quantity) else number
    first = observations.number(cells[0]) if cells else None
    if isinstance(first, Quantity):
        found = parse_unit(first.unit)
        if not isinstance(found, Unit):
            raise SparqlProblem(
                "FKG347",
                expr.at,
                f"the graph gives a value in `{first.unit}`, which is not a known unit",
                "correct the unit in the graph; docs/reference/units.md lists the units",
            )
        unit = found
    return Number(at=expr.at, values=values, unit=unit)


def truth_value(expr: Expr, part: Part) -> bool | None:
    """What a truth value is that a query writes, as ``true`` or with its datatype; None where it
    writes something else.
    """
    if not isinstance(expr, Const) or expr.kind not in ("boolean", "string"):
        return None
    if expr.kind == "boolean":
        return expr.text == "true"
    queries = part.frame.batch.queries
    found = {
        _TRUTHS.get(queries[at].value(expr).replace("'", '"'))
        for at in np.unique(part.frame.query[part.at]).tolist()
    }
    if len(found) == 1:
        return found.pop()
    if None in found:
        return None
    raise SparqlProblem(
        "FKG343",
        expr.at,
        "queries of one form write different truth values here",
        "write true and false, without a datatype",
    )


def _written(text: str, expr: Const) -> float:
    """The number that a constant is; NaN for a text."""
    if expr.kind == "number":
        return float(text)
    if '"^^<' in text or "'^^<" in text:
        try:
            return float(text.split(text[0])[1])
        except ValueError:
            return float("nan")
    return float("nan")
