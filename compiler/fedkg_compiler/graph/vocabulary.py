"""The names a rule file may use: prefixes, what each namespace has, and what was probably meant by
a name that nothing has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyoxigraph as ox

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.graph_terms import is_iri, local_name
from fedkg_compiler.graph.spans import report
from fedkg_compiler.graph.standard_vocabularies import STANDARD_TERMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Prefixes and terms, gathered while the graph was loaded.

    Attributes:
        prefixes: prefix to namespace, as rule files see them.
        closed: the namespaces of loaded ontologies, each with the name of its ontology; a name in
            such a namespace that the ontology lacks is an error.
        terms: namespace to the local names that ontologies and graphs define in it.
        unused: prefixes of catalogue ontologies that are not loaded, each with the word for `use`.
        declared: prefixes that graph files declare for themselves: prefix to (namespace, file).
        partial: closed namespaces that our module contains only in part.
        graphs: the IRIs of named graphs.
        store: the triples, to look up names that are mentioned but not defined.
        told: the triples with the names that messages may show; None: all. For a private pack it
            holds only the triples that the pack is made from, so that messages reveal no name of
            another client.
    """

    prefixes: Mapping[str, str]
    closed: Mapping[str, str]
    terms: Mapping[str, frozenset[str]]
    unused: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    partial: frozenset[str] = frozenset()
    graphs: frozenset[str] = frozenset()
    store: ox.Store = field(default_factory=ox.Store)
    told: ox.Store | None = None

    def shorten(self, iri: str) -> str:
        """Return the prefixed name of an IRI, or ``<IRI>`` where no prefix fits."""
        best = max(
            (item for item in self.prefixes.items() if iri.startswith(item[1])),
            key=lambda item: (len(item[1]), item[0]),
            default=None,
        )
        if best is None or any(mark in iri[len(best[1]) :] for mark in "/#:"):
            return f"<{iri}>"
        return f"{best[0]}:{iri[len(best[1]) :]}"

    def expand(self, name: str, span: Span) -> tuple[str | None, tuple[Diagnostic, ...]]:
        """Return the IRI of a prefixed name, or the diagnostic for a prefix that is not known."""
        prefix, _, local = name.partition(":")
        if prefix in self.prefixes:
            return self.prefixes[prefix] + _unescaped(local), ()
        return None, (self._unknown_prefix(prefix, span),)

    def check(self, iri: str, shown: str, span: Span) -> tuple[Diagnostic, ...]:
        """Return what is wrong with a term, in the words of `shown`: nothing, an error in a known
        ontology, a warning elsewhere.
        """
        space = self._closed_space(iri)
        if space is not None:
            name, local = self.closed[space], iri[len(space) :]
            known = self.terms.get(space, frozenset()) | STANDARD_TERMS.get(space, frozenset())
            if not local or local in known:
                return ()
            meant = nearest_term(space, local, self.closed, self.terms)
            advice = (
                f"did you mean `{self._like(shown, meant)}`?"
                if meant
                else f"`fedkg ontology show {name}` lists what it has"
            )
            if space in self.partial and not meant:
                advice = (
                    f"the module that ships has a part of {name}; `fedkg ontology add "
                    f"{name} FILE` loads all of it"
                )
            return (report("FKG111", span, f"{name} has no term `{local}`", help=advice),)
        if self.mentioned(iri):
            return ()
        split = _namespace_of(iri, self.prefixes.values())
        others = self.local_names(split) if split else frozenset()
        if not others:
            return ()
        meant = closest_name(iri[len(split) :], others)
        advice = (
            f"did you mean `{self._like(shown, split + meant)}`?"
            if meant
            else "check the spelling against the graph"
        )
        return (
            report(
                "FKG112", span, f"the graph does not use `{shown}`", help=advice, severity="warning"
            ),
        )

    def mentioned(self, iri: str) -> bool:
        """Tell whether any triple has this IRI, or a graph."""
        return iri in self.graphs or _mentions(self.store, iri)

    def local_names(self, namespace: str) -> frozenset[str]:
        """Return the local names of a namespace's IRIs in the graph, those of named graphs among
        them, that messages may show.

        Scans every triple, so for messages only.
        """
        store = self.store if self.told is None else self.told
        iris = (
            node.value
            for quad in store
            for node in (quad.subject, quad.predicate, quad.object)
            if isinstance(node, ox.NamedNode)
        )
        return frozenset(
            iri[len(namespace) :] for iri in (*self.graphs, *iris) if iri.startswith(namespace)
        )

    def by_local_name(self, name: str) -> list[str]:
        """Return the IRIs of known terms with this local name, sorted."""
        return sorted(space + name for space, names in self.terms.items() if name in names)

    def all_local_names(self) -> frozenset[str]:
        """Return the local names of all terms that `by_local_name` finds and that messages may
        show.
        """
        told = self.told
        return frozenset(
            name
            for space, names in self.terms.items()
            for name in names
            if told is None or _mentions(told, space + name)
        )

    def _closed_space(self, iri: str) -> str | None:
        return max((space for space in self.closed if iri.startswith(space)), key=len, default=None)

    def _like(self, shown: str, iri: str) -> str:
        return self.shorten(iri) if not shown.startswith("<") else f"<{iri}>"

    def _unknown_prefix(self, prefix: str, span: Span) -> Diagnostic:
        message = f"the prefix `{prefix}:` is not known"
        if prefix in self.unused:
            return report("FKG110", span, message, help=f"add `use {self.unused[prefix]}`")
        if prefix in self.declared:
            namespace, file = self.declared[prefix]
            return report(
                "FKG110",
                span,
                message,
                help=f"{file} calls <{namespace}> so: add `prefix {prefix}: <{namespace}>`",
            )
        meant = closest_name(prefix, (*self.prefixes, *self.unused))
        if meant is not None and meant in self.unused:
            return report(
                "FKG110",
                span,
                message,
                help=f"did you mean `{meant}:`? then add `use {self.unused[meant]}`",
            )
        advice = (
            f"did you mean `{meant}:`?"
            if meant
            else f"declare it: `prefix {prefix}: <https://...#>`"
        )
        return report("FKG110", span, message, help=advice)


def _mentions(store: ox.Store, iri: str) -> bool:
    if not is_iri(iri):
        return False
    node = ox.NamedNode(iri)
    patterns = ((node, None, None), (None, node, None), (None, None, node))
    return any(
        next(iter(store.quads_for_pattern(*pattern)), None) is not None for pattern in patterns
    )


def nearest_term(
    space: str, local: str, closed: Mapping[str, str], terms: Mapping[str, Iterable[str]]
) -> str | None:
    """Return the IRI that was probably meant by a name that its namespace lacks, or None.

    The terms of an ontology can be in several namespaces: the same name in another of them comes
    first, then the nearest spelling in any of them.

    Args:
        space, local: the namespace and the name. closed, terms: as in `Vocabulary`.
    """
    owner = closed.get(space)
    others = sorted(other for other, name in closed.items() if name == owner and other != space)
    spaces: dict[str, str] = {}
    for other in (space, *others):
        for name in {*terms.get(other, ()), *STANDARD_TERMS.get(other, ())}:
            spaces.setdefault(name, other)
    meant = local if local in spaces else closest_name(local, spaces)
    return None if meant is None else spaces[meant] + meant


def closest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that was probably meant: the same but for case, ``_``, ``-`` or a
    plural; else the nearest in spelling.
    """
    pool = sorted(set(candidates) - {name})
    flat: dict[str, str] = {}
    for candidate in pool:
        flat.setdefault(_flat(candidate), candidate)
    wanted = _flat(name)
    for fold in (wanted, wanted.removesuffix("s"), wanted.removesuffix("es"), wanted + "s"):
        if fold in flat:
            return flat[fold]
    return nearest_name(name, pool)


def _flat(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _namespace_of(iri: str, known: Iterable[str]) -> str:
    best = max((space for space in known if iri.startswith(space)), key=len, default="")
    return best or iri[: len(iri) - len(local_name(iri))]


def _unescaped(local: str) -> str:
    r"""Return a local name without the backslashes that SPARQL and Turtle allow in it: ``a\.b`` is
    ``a.b``.
    """
    return local.replace("\\", "")
