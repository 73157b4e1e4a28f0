"""What the reader of a source hands on."""

from __future__ import annotations

from dataclasses import dataclass

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What one source says.

    Attributes:
        triples: in the order of the source; blank nodes have labels of this source's own. prefixes: as it declares them.
        problems: what is wrong with it. usable: False where nothing can be made of it.
        parts: sha256 of the files that it includes, by their names; empty where it stands alone.
    """

    triples: list[ox.Quad]
    prefixes: dict[str, str]
    problems: tuple[Diagnostic, ...]
    usable: bool = True
    parts: tuple[tuple[str, str], ...] = ()
