"""Keeps the graph of one compilation for the next one, where a file is compiled again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.input_tracking import Inputs, recording

if TYPE_CHECKING:
    from fedkg.pack import Source
    from fedkg_compiler.graph.graph import Graph

Loaded = tuple["Graph", tuple[Diagnostic, ...], tuple["Source", ...]]
"""What `load_graph` returns."""


@dataclass(slots=True)
class GraphMemory:
    """The last graph that was loaded, with the files that it came from."""

    _key: Hashable = None
    _inputs: Inputs | None = None
    _loaded: Loaded | None = None

    def get(self, key: Hashable, load: Callable[[], Loaded]) -> Loaded:
        """The graph for these arguments: the last one if its files are unchanged, else a new one.

        The content of an endpoint can change unseen, so it is always loaded again.
        """
        same = self._loaded is not None and key == self._key
        if same and self._inputs and not self._inputs.remote and self._inputs.unchanged():
            assert self._loaded is not None
            return self._loaded
        with recording() as inputs:
            loaded = load()
        self._key, self._inputs, self._loaded = key, inputs, loaded
        return loaded


_memory: ContextVar[GraphMemory | None] = ContextVar("graph_memory", default=None)


@contextmanager
def remembering_graphs(memory: GraphMemory) -> Iterator[None]:
    """Inside, compilations take their graph from `memory` where nothing has changed."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def take_graph(key: Hashable, load: Callable[[], Loaded]) -> Loaded:
    """The graph of a compilation: remembered, or loaded."""
    memory = _memory.get()
    return load() if memory is None else memory.get(key, load)
