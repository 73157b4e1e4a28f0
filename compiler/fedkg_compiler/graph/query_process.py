"""Runs queries of rule files, shapes and query files in a separate process, within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from fedkg._internal.forked_worker import Crashed, ForkedWorker
from fedkg.errors import LimitError
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.node_values import Node
from fedkg_compiler.graph.rdf_reader import names_graph, with_named_graphs

Value = TypeVar("Value")


@contextmanager
def query_at(file: str, line: int = 1) -> Iterator[None]:
    """Inside, errors about limits name the place of the query."""
    try:
        yield
    except LimitError as error:
        message = f"{file}:{line}: {error.message}"
        raise LimitError(message, expected=error.expected, help=error.help) from error


class Solutions(NamedTuple):
    """The solutions of a SELECT; equal nodes are one object.

    Attributes:
        names: the variables, without ``?``.
        nodes: the values of the variables, each once; None for an unbound one.
        numbers: the solutions: for each variable the position of its value in `nodes`.
    """

    names: list[str]
    nodes: list[Node | None]
    numbers: list[tuple[int, ...]]

    @property
    def rows(self) -> list[tuple[Node | None, ...]]:
        """The solutions as nodes."""
        return self.rows_of(self.nodes)

    def rows_of(self, values: Sequence[Value]) -> list[tuple[Value, ...]]:
        """The solutions with something else in the place of each node."""
        return [tuple([values[i] for i in row]) for row in self.numbers]


class _Question(NamedTuple):
    query: str
    prefixes: dict[str, str]
    given: dict[str, Node]
    run: bool
    everywhere: bool


class _Answer(NamedTuple):
    """Solutions, without the nodes that the same process has sent before.

    Attributes:
        names: the variables, without ``?``.
        known: the number of nodes that the process had sent; 0 after it was started anew.
        new: the nodes that it sends now; they are numbered on from `known`.
        nodes: the numbers of the values of the variables, each once.
        numbers: the solutions: for each variable the position of its value in `nodes`.
    """

    names: list[str]
    known: int
    new: list[Node | None]
    nodes: list[int]
    numbers: list[tuple[int, ...]]


class QueryProcess:
    """Answers queries over a store within the limits `query` and `memory`.

    Args:
        store: the triples; they must not change any more.
        named: gives the quads of the named graphs that the store lacks. They are added, in the
            memory of the process, for the first query that names a graph.
    """

    def __init__(
        self, store: ox.Store, named: Callable[[ox.Store], Iterable[ox.Quad]] | None
    ) -> None:
        self._worker = ForkedWorker(_Answers(store, named))
        self._nodes: list[Node | None] = []

    def select(
        self,
        query: str,
        *,
        prefixes: Mapping[str, str] | None = None,
        given: Mapping[str, Node] | None = None,
        everywhere: bool = False,
    ) -> Solutions:
        """The solutions of a SELECT, the triples of a CONSTRUCT or DESCRIBE, each a row, or a row
        with the answer to an ASK.

        Args:
            query: the text of the query.
            prefixes: prefixes that the query may use without declaring them, with their namespaces.
            given: values for some variables of the query, by name.
            everywhere: look in all graphs at once, not in the default graph alone.

        Raises:
            LimitError: it takes too long, or too much memory.
            SyntaxError, OSError, ValueError, RuntimeError: the store cannot answer it.
        """
        return self._ask(
            _Question(query, dict(prefixes or {}), dict(given or {}), True, everywhere)
        )

    def check(self, query: str, *, prefixes: Mapping[str, str] | None = None) -> None:
        """Raise what `select` raises for a query that is not SPARQL; no solutions are searched."""
        self._ask(_Question(query, dict(prefixes or {}), {}, run=False, everywhere=False))

    def _ask(self, question: _Question) -> Solutions:
        try:
            answer: _Answer = self._worker.ask(question, "a query of the graph")
        except Crashed as error:
            raise ValueError(str(error)) from error
        assert answer.known <= len(self._nodes), "the process counts nodes that it has not sent"
        self._nodes[answer.known :] = answer.new
        return Solutions(answer.names, [self._nodes[i] for i in answer.nodes], answer.numbers)

    def close(self) -> None:
        """End the process; the next query starts it anew."""
        self._worker.close()


class _Answers:
    """Answers questions in the process of the call."""

    def __init__(
        self, store: ox.Store, named: Callable[[ox.Store], Iterable[ox.Quad]] | None
    ) -> None:
        self._store, self._named = store, named
        self._whole: ox.Store | None = None
        self._sent: dict[Node | None, int] = {}

    def __call__(self, question: _Question) -> _Answer:
        """Many queries have the same nodes in their solutions: each node is sent once."""
        store = self._with_named_graphs() if names_graph(question.query) else self._store
        found = store.query(
            question.query,
            prefixes=question.prefixes,
            substitutions={ox.Variable(name): node for name, node in question.given.items()},
            use_default_graph_as_union=question.everywhere,
        )
        names, solutions = _table_of(found)
        numbers: dict[Node | None, int] = {}
        rows = [
            tuple([numbers.setdefault(node, len(numbers)) for node in solution])
            for solution in (solutions if question.run else ())
        ]
        new = [node for node in numbers if node not in self._sent]
        first = len(self._sent)
        added = dict(zip(new, range(first, first + len(new)), strict=True))
        known = self._sent
        sent = [known[node] if node in known else added[node] for node in numbers]
        answer = _Answer(names, first, new, sent, rows)
        self._sent.update(added)  # last: if memory ends before, no node counts as sent
        return answer

    def _with_named_graphs(self) -> ox.Store:
        """The store with every named graph: a copy, because the store may be that of the asking
        process.
        """
        if self._named is None:
            return self._store
        if self._whole is None:
            self._whole = with_named_graphs(self._store, self._named)
        return self._whole


def _table_of(
    found: ox.QuerySolutions | ox.QueryTriples | ox.QueryBoolean,
) -> tuple[list[str], Iterable[Iterable[Node | None]]]:
    """The names and rows of an answer."""
    if isinstance(found, ox.QuerySolutions):
        return [one.value for one in found.variables], found
    if isinstance(found, ox.QueryTriples):
        return ["subject", "predicate", "object"], found
    return ["answer"], [(ox.Literal(bool(found)),)]
