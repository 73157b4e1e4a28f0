"""Proposes mappings between two ontologies, with confidence and reasons; a person decides."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from fedkg_compiler.graph.alignment.ontology_term_reader import Side, Term
from fedkg_compiler.graph.alignment.similarity import Likeness, Matrix, likeness
from fedkg_compiler.graph.alignment.stemming import MEANING, exact, stems
from fedkg_compiler.graph.standard_vocabularies import SKOS

MOST = 3
"""A pair is proposed if each term is among this number of best matches of the other."""
_SUPPORTED, _TOLD = 0.2, 0.1


@dataclass(frozen=True, slots=True)
class Proposal:
    """A mapping that somebody should look at.

    Attributes:
        source: IRI of the term of the first ontology.
        predicate: IRI of the SKOS property that maps it.
        target: IRI of the term of the second ontology.
        confidence: a number from 0 to 1.
        reasons: short sentences, the strongest reason first.
    """

    source: str
    predicate: str
    target: str
    confidence: float
    reasons: tuple[str, ...]


def propose(
    first: Side, second: Side, *, known: Collection[frozenset[str]] = (), least: float = 0.5
) -> tuple[Proposal, ...]:
    """Return proposals with at least this confidence, the surest first.

    Args:
        known: pairs of IRIs that are mapped already and are left out.
    """
    if not first.terms or not second.terms:
        return ()
    alike = likeness(first.terms, second.terms)
    kept = (alike.confidence >= least) & (alike.confidence > 0) & among_best(alike.confidence)
    found = [
        _proposal(first.terms, second.terms, i, j, alike)
        for i, j in zip(*(side.tolist() for side in np.nonzero(kept)), strict=True)
        if frozenset((first.terms[i].iri, second.terms[j].iri)) not in known
        and first.terms[i].iri != second.terms[j].iri
    ]
    return tuple(sorted(found, key=lambda item: (-item.confidence, item.source, item.target)))


def among_best(confidence: Matrix) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """[A, B], whether each of the two is among the `MOST` best of the other, ties included."""
    by_row = -np.sort(-confidence, axis=1)[:, min(MOST, confidence.shape[1]) - 1, None]
    by_column = -np.sort(-confidence, axis=0)[None, min(MOST, confidence.shape[0]) - 1]
    return np.asarray((confidence >= by_row) & (confidence >= by_column))


def _proposal(
    first: Sequence[Term], second: Sequence[Term], i: int, j: int, alike: Likeness
) -> Proposal:
    one, other = first[i], second[j]
    reasons = []
    if alike.names[i, j] > _TOLD:
        reasons.append((float(alike.names[i, j]), _about_names(one, other)))
    if alike.definitions[i, j] > _TOLD:
        shared = sorted(set(stems(one.comment)) & set(stems(other.comment)))
        words = [
            word
            for word in dict.fromkeys(exact(one.comment))
            if stems(word) and stems(word)[0] in shared
        ]
        if words:
            reasons.append(
                (float(alike.definitions[i, j]), f"both definitions contain {_listed(words)}")
            )
    for side, where in (
        ("above", "above"),
        ("below", "below"),
        ("domains", "before"),
        ("ranges", "after"),
    ):
        near = alike.steps[side]
        pairs = [(float(alike.confidence[a, b]), a, b) for a in near[0][i] for b in near[1][j]]
        if pairs and max(pairs)[0] > _TOLD:
            sure, a, b = max(pairs)
            reasons.append(
                (
                    sure / 2,
                    (
                        f"{first[a].labels[0]} {where} the one, {second[b].labels[0]} {where} "
                        f"the other"
                    ),
                )
            )
    ordered = tuple(text for _, text in sorted(reasons, key=lambda item: -item[0]))
    return Proposal(
        one.iri,
        SKOS + _predicate(one, other, i, j, alike),
        other.iri,
        round(float(alike.confidence[i, j]), 3),
        ordered,
    )


def _predicate(one: Term, other: Term, i: int, j: int, alike: Likeness) -> str:
    """The same name, borne out by the definition, is exact.

    A name within a name, with the same last word, is broader; else close.
    """
    if {stems(label) for label in one.labels} & {stems(label) for label in other.labels}:
        return "exactMatch" if alike.definitions[i, j] >= _SUPPORTED else "closeMatch"
    left, right = (stems(term.labels[-1]) for term in (one, other))
    if left and right and left[-1] == right[-1]:
        if set(right) < set(left):
            return "broadMatch"
        if set(left) < set(right):
            return "narrowMatch"
    return "closeMatch"


def _about_names(one: Term, other: Term) -> str:
    left, right = (
        {word for label in term.labels for word in stems(label)} for term in (one, other)
    )
    same = {label.lower() for label in one.labels} & {label.lower() for label in other.labels}
    if same:
        return f'both are called "{min(same)}"'
    shared = left & right
    if shared:
        words = [word for label in one.labels for word in exact(label) if stems(word)[0] in shared]
        return f"both names have {_listed(list(dict.fromkeys(words)))}"
    near = sorted(
        (word, other_word)
        for word in left
        for other_word in right
        if MEANING.get(word) == MEANING.get(other_word, other_word)
    )
    texts = {
        stems(word)[0]: word
        for term in (one, other)
        for label in term.labels
        for word in exact(label)
    }
    return "; ".join(
        f"{texts.get(word, word)} and {texts.get(sibling, sibling)} may mean the same"
        for word, sibling in near[:2]
    )


def _listed(words: Sequence[str]) -> str:
    shown = list(words[:4])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
