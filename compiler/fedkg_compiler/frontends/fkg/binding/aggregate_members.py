"""The members that ``over ?p where { ... }`` and ``over ?p in class T`` range over: solved once,
grouped by the rows of the rule.

Letters: R rows that own sets of members, M members of all sets together.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.numeric.members import member_offsets
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.quantifiers import (
    entity_cell,
    fresh,
    in_one_unit,
    term_cell,
)
from fedkg_compiler.frontends.fkg.binding.scope import (
    Cell,
    Environment,
    LiteralText,
    Reading,
    Readings,
    Row,
    Scope,
    Solved,
    Sources,
    View,
    unknown,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    VALUE,
    Over,
    body_of,
    look_up,
    names_in,
    pattern_variables,
    variables_in,
)
from fedkg_compiler.frontends.fkg.syntax.tree import Apply, InClass, Pattern, Variable
from fedkg_compiler.graph.rdf_terms import RdfTerm
from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.sparql_syntax.variable_scope import certain
from fedkg_compiler.graph.standard_vocabularies import XSD


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Members:
    """The sets of members of R rows.

    Attributes:
        solved: the solutions that the members are taken from.
        environment: M rows, one for each member: the values of its own variables and, repeated for
            each member, those of the rule's variables.
        owners: int64 [M], the row of the rule that each member belongs to.
        offsets: int64 [R + 1]; the members of row i are those from `offsets[i]` to
            `offsets[i + 1]`, the end not included.
    """

    solved: Solved
    environment: Environment
    owners: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many members each row has: int64 [R]."""
        return self.offsets[1:] - self.offsets[:-1]

    def take(self, kept: Sequence[int]) -> Members:
        """The sets with some of their members alone."""
        owners = self.owners[np.asarray(kept, dtype=np.int64)]
        return replace(
            self,
            environment=self.environment.take(kept),
            owners=owners,
            offsets=member_offsets(owners, self.sizes.shape[0]),
        )


def members_of(node: Over, scope: Scope) -> Members | None:
    """The members of every row of the scope; None if they are unknown (a diagnostic has been
    reported).

    Where the rule's own values are unknown, the body is still looked at, so that its names are
    checked.
    """
    sources = scope.sources
    if sources is None:
        return None
    name = node.variable.text
    if name in scope.environment.cells:
        scope.problems.error(
            "FKG275",
            node.variable.span,
            f"?{name} is already a variable of the rule, so it cannot range over members",
            "choose another name for it",
        )
        return None
    if not scope.environment.known:
        _look_at(node, scope, sources)
        return None
    solved = _solved(node, scope, sources)
    if solved is None:
        _look_at(node, scope, sources)
        return None
    outer = scope.environment
    picks: list[int] = []
    owners: list[int] = []
    for i in range(outer.rows):
        found = solved.by_owner.get(
            tuple(_join_key(outer.cells[word][i]) for word in solved.joined), ()
        )
        picks += found
        owners += [i] * len(found)
    if solved.rows and not picks and outer.rows and not outer.origin:
        scope.problems.warning(
            "FKG276",
            node.source.span,
            "no row of the rule has a member: the values of "
            + ", ".join(f"?{word}" for word in solved.joined)
            + " in the solutions of this pattern are not those of the rule",
            "correct the pattern, or the facts in the graph",
        )
    cells = {word: tuple(solved.rows[k][j] for k in picks) for j, word in enumerate(solved.own)}
    cells |= {word: tuple(column[i] for i in owners) for word, column in outer.cells.items()}
    tags = [
        part.args
        for part in names_in(body_of(node))
        if isinstance(part, Apply) and part.name.text == VALUE
    ]
    tagged = {arg.name for args in tags for arg in args if isinstance(arg, Variable)}
    units = tuple(outer.units[i] for i in owners) if outer.units and name not in tagged else ()
    environment = Environment(
        rows=len(picks),
        cells=cells,
        units=units,
        where=partial(_describe, cells[name], owners, outer),
        span=node.source.span,
    )
    at = np.array(owners, dtype=np.int64)
    return Members(
        solved=solved, environment=environment, owners=at, offsets=member_offsets(at, outer.rows)
    )


def member_scope(members: Members, node: Over, scope: Scope) -> Scope | None:
    """Return the scope of the body, with a separate table of members.

    None if a member cannot be read (a diagnostic has been reported).
    """
    sources = scope.sources
    assert sources is not None
    readings = look_up(body_of(node), members.environment, sources)
    if not readings.complete(sources.names.labels):
        return None
    keys = tuple(scope.keys[i] for i in members.owners.tolist())
    if not _alike(readings, node.span, scope) or not _at_hand(readings, keys, members, node, scope):
        return None
    _, rows = scope.rows.set_of_members(members.offsets)
    return replace(
        scope,
        environment=members.environment,
        readings=readings,
        rows=rows,
        view=View(key=scope.view.key, ids=scope.view.ids[members.owners]),
        keys=keys,
    )


def _describe(members: Row, owners: Sequence[int], outer: Environment, i: int) -> str:
    cell = members[i]
    member = cell.text if cell is not None else f"member {i + 1}"
    return f"{member} of {outer.name(owners[i])}" if outer.cells else member


def _join_key(cell: Cell | None) -> Hashable:
    """What a value of the rule and a value of the pattern must agree in."""
    if cell is None:
        return None
    return cell.iri or (
        (cell.number, cell.unit) if cell.number is not None else cell.category or cell.text
    )


def _look_at(node: Over, scope: Scope, sources: Sources) -> None:
    """Check the names of the body where nothing is known of the members."""
    own = [node.variable.text, *(pattern_variables(node.source) - scope.environment.cells.keys())]
    blank = unknown(own, node.span)
    cells = {
        **blank.cells,
        **{
            word: (column[0] if column else None,)
            for word, column in scope.environment.cells.items()
        },
    }
    look_up(body_of(node), replace(blank, cells=cells), sources)


def _solved(node: Over, scope: Scope, sources: Sources) -> Solved | None:
    """The solutions, asked of the graph once for a rule."""
    outer = scope.environment
    inside = pattern_variables(node.source)
    joined = tuple(sorted(inside & outer.cells.keys()))
    wanted = variables_in(body_of(node))[1]
    own = (
        node.variable.text,
        *sorted((inside & wanted) - outer.cells.keys() - {node.variable.text}),
    )
    given = _given(node.source, joined, outer, scope) if isinstance(node.source, Pattern) else ""
    if given is None:
        return None
    key = (node.source, own, joined, given)
    if key not in sources.members:
        match node.source:
            case Pattern():
                solved = _by_pattern(node.source, own, joined, given, scope, sources)
            case InClass():
                solved = _by_class(node.source, own, sources)
        sources.members[key] = solved
        if (
            solved is not None
            and not solved.rows
            and not sources.names.graph_broken
            and not scope.problems.has("FKG112", node.source.span)
        ):
            if isinstance(node.source, Pattern):
                message, wrong = "no entity of the graph matches this pattern", "pattern"
            else:
                message, wrong = "the graph has no entity of this class", "class"
            scope.problems.warning(
                "FKG276",
                node.source.span,
                f"{message}, so there are no members",
                f"load the graph that has the facts, or correct the {wrong}",
            )
    return sources.members[key]


def _given(
    source: Pattern, joined: tuple[str, ...], outer: Environment, scope: Scope
) -> str | None:
    """VALUES of the variables that a pattern may read without giving them a value, as in FILTER NOT
    EXISTS { ?p plant:into ?v }; None if it cannot be asked with them (a diagnostic has been
    reported).
    """
    for word in joined:
        if any(cell is not None and cell.row for cell in outer.cells[word]):
            message = (
                f"?{word} is the table row itself, which is not in the graph: no pattern finds its"
                " members"
            )
            scope.problems.error(
                "FKG275", source.span, message, "name the entity that the members belong to"
            )
            return None
    if not joined:
        return ""
    try:
        bound = certain(parse_query(tuple(tokens(f"SELECT * {{ {source.text}\n}}"))).where.parts)
    except SparqlProblem:  # the graph reports it
        return ""
    read = [word for word in joined if word not in bound]
    rows = dict.fromkeys(zip(*(outer.cells[word] for word in read), strict=True))
    for row in rows:
        for word, cell in zip(read, row, strict=True):
            if cell is not None and (cell.unit or cell.iri.startswith("_:") or _has_language(cell)):
                scope.problems.error(
                    "FKG275",
                    source.span,
                    f"a condition of this pattern reads ?{word}, which is {cell.text} and has no"
                    " IRI or plain value",
                    f"write a triple with ?{word} in the pattern, outside OPTIONAL and FILTER",
                )
                return None
    terms = " ".join(f"({' '.join(map(_term, row))})" for row in rows)
    return f"VALUES ({' '.join(f'?{word}' for word in read)}) {{ {terms} }}" if read else ""


def _term(cell: Cell | None) -> str:
    """A value of the rule in SPARQL."""
    if cell is None:
        return "UNDEF"
    if cell.iri:
        return f"<{cell.iri}>"
    text = json.dumps(cell.text, ensure_ascii=False)
    if isinstance(cell.text, LiteralText):
        return f"{text}^^<{cell.text.datatype}>"
    return text if cell.number is None else f'"{cell.number}"^^<{XSD}double>'


def _has_language(cell: Cell) -> bool:
    return isinstance(cell.text, LiteralText) and cell.text.datatype.endswith("#langString")


def _by_pattern(
    source: Pattern,
    own: tuple[str, ...],
    joined: tuple[str, ...],
    given: str,
    scope: Scope,
    sources: Sources,
) -> Solved | None:
    if sources.graph is None:
        return None
    outer = scope.environment
    found, problems = sources.graph.select(
        source.text, [*own, *joined], span=source.span, given=given
    )
    said = fresh(problems, sources)
    scope.problems.add(said)
    if any(problem.severity == "error" for problem in problems):
        return None
    known: dict[RdfTerm, Cell] = {}
    bound = [row for row in found if row[0] is not None]  # an OPTIONAL may find no member
    cells = [
        tuple(None if term is None else term_cell(term, sources, known) for term in row)
        for row in bound
    ]
    columns = [in_one_unit([row[j] for row in cells]) for j in range(len(own))]
    rows: list[Row] = list(zip(*columns, strict=True)) if cells else []
    keys = []
    for j, word in enumerate(joined):
        first = outer.cells[word]  # quantities in the unit in which the rule has them
        keys.append(in_one_unit([*first, *(row[len(own) + j] for row in cells)])[len(first) :])
    by_owner: dict[Hashable, list[int]] = {}
    for i in range(len(rows)):
        by_owner.setdefault(tuple(_join_key(column[i]) for column in keys), []).append(i)
    solved = Solved(own=own, joined=joined, rows=rows, by_owner=by_owner)
    _tell_twice(solved, source.span, scope)
    return solved


def _by_class(source: InClass, own: tuple[str, ...], sources: Sources) -> Solved | None:
    if sources.graph is None:
        return None
    iri, problems = sources.graph.resolve(source.term.text, source.term.form, source.term.span)
    sources.problems.add(fresh(problems, sources))
    if iri is None:
        return None
    if iri == sources.names.rows_class:
        message = (
            "the members of this class are the rows of the table; a rule reads one row at a time"
        )
        sources.problems.error(
            "FKG275",
            source.span,
            message,
            "compare rows with `never falls`, or use an operator over time such as `always`",
        )
        return None
    rows: list[Row] = [(entity_cell(member, sources),) for member in sources.graph.instances(iri)]
    return Solved(own=own, joined=(), rows=rows, by_owner={(): list(range(len(rows)))})


def _tell_twice(solved: Solved, span: Span, scope: Scope) -> None:
    """Warn about a member that is in one set several times, with different values."""
    if len(solved.own) < 2:
        return
    for found in solved.by_owner.values():
        seen: set[Hashable] = set()
        for i in found:
            key = _join_key(solved.rows[i][0])
            if key in seen:
                cell = solved.rows[i][0]
                others = ", ".join(f"?{word}" for word in solved.own[1:])
                message = (
                    f"{cell.text if cell else 'a member'} has several values of {others}: it counts"
                    " once with each"
                )
                scope.problems.warning(
                    "FKG277", span, message, "write a pattern with one value for each member"
                )
                return
            seen.add(key)


def _alike(readings: Readings, span: Span, scope: Scope) -> bool:
    """Whether all members are data, or all are predicted."""
    for (name, variable), reading in readings.found.items():
        if reading is not None and len({place.role for place in reading.places}) > 1:
            arguments = ", ".join(f"?{word}" for word in variable.split())
            message = f"`{name}({arguments})` is predicted for some members and data for others"
            scope.problems.error("FKG278", span, message, "aggregate each kind separately")
            return False
    return True


def _at_hand(
    readings: Readings,
    keys: Sequence[tuple[tuple[str, str], ...]],
    members: Members,
    node: Over,
    scope: Scope,
) -> bool:
    """Return whether all members are read from one table row.

    Each has a separate column, or the rule is about its rows.
    """
    for reading in readings.found.values():
        i = _elsewhere(reading, keys)
        if i is None or reading is None:
            continue
        header = (reading.places[i].key or ("", ""))[0]
        scope.problems.error(
            "FKG278",
            node.span,
            f"the members' `{reading.name}` is in different rows of the table: column `{header}`"
            f" tells which row is about {members.environment.name(i)}",
            "give each member a separate column (`fkg:column` on its sensor): aggregated values"
            " must be in one row",
        )
        return False
    return True


def _elsewhere(reading: Reading | None, keys: Sequence[tuple[tuple[str, str], ...]]) -> int | None:
    if reading is None:
        return None
    return next(
        (
            i
            for i, place in enumerate(reading.places)
            if place.key is not None and place.key not in keys[i]
        ),
        None,
    )
