"""Similarity of the terms of two ontologies: by name, by definition, and by neighbouring terms.

Matrices are [A, B]: a row for each term of the first ontology, a column for each of the second; 0
is nothing in common, 1 is the same. Names and definitions are vectors of stems, weighted by how
rare a stem is in both ontologies (tf-idf; Salton and Buckley 1988), and compared by their cosine.
Structure follows the idea of similarity flooding (Melnik, Garcia-Molina and Rahm 2002), cut off
after two rounds: two terms are likelier the same where the terms above them, below them, or at the
ends of them, are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedkg_compiler.graph.alignment.ontology_term_reader import Term
from fedkg_compiler.graph.alignment.stemming import exact, meanings, points_back, stems

Matrix = npt.NDArray[np.float64]
NAME, DEFINITION, STRUCTURE = 0.85, 0.45, 0.3
"""Highest similarity from each kind alone; combined: 1 - (1 - 0.85 name) (1 - 0.45 definition) (1 -
0.3 structure)."""
POWER = 3
"""The third power of that is the confidence: it comes near to the share of proposals that a review
accepted."""
NEAR = 0.5
"""Similarity of two synonyms, relative to the same word."""
SPECIAL = 0.85
"""Similarity of two names if one ends in the other and is therefore a special case of it."""
WORDING = 0.15
"""Weight of the unchanged words in the similarity of names; their stems have the remaining weight.
"""
OPPOSITE = 0.75
"""Factor on the similarity of properties with opposite directions."""
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Likeness:
    """The similarity of each pair, by kind of evidence.

    Attributes:
        names: [A, B], the similarity of labels and local names, from 0 to 1.
        definitions: [A, B], the similarity of the descriptions, from 0 to 1.
        structure: [A, B], the similarity of the neighbours, from 0 to 1; 0 for pairs whose names
            and definitions have nothing in common.
        confidence: [A, B], the combined similarity, from 0 to 1; 0 for a class and a property.
        steps: for each kind of neighbour (`above`, `below`, `domains`, `ranges`), the positions of
            the neighbours of each term of the first and of the second ontology.
    """

    names: Matrix
    definitions: Matrix
    structure: Matrix
    confidence: Matrix
    steps: Mapping[str, tuple[list[list[int]], list[list[int]]]]


def likeness(first: Sequence[Term], second: Sequence[Term]) -> Likeness:
    """Compare each term of the first ontology with each term of the second."""
    kind = np.equal.outer([term.is_class for term in first], [term.is_class for term in second])
    names, definitions = _names(first, second) * kind, _definitions(first, second) * kind
    structure = np.zeros_like(names)
    joint = _combine(names, definitions, structure)
    steps = {
        side: (_neighbours(first, side), _neighbours(second, side))
        for side in ("above", "below", "domains", "ranges")
    }
    both = np.sum(
        [
            np.outer(*(np.array([float(bool(places)) for places in side]) for side in step))
            for step in steps.values()
        ],
        axis=0,
    )
    for _ in range(ROUNDS):
        found = np.sum([_best(joint, *step) for step in steps.values()], axis=0)
        structure = found / np.maximum(both, 1) * (joint > 0)
        joint = _combine(names, definitions, structure)
    return Likeness(names, definitions, structure, joint**POWER, steps)


def _combine(names: Matrix, definitions: Matrix, structure: Matrix) -> Matrix:
    return np.asarray(
        1 - (1 - NAME * names) * (1 - DEFINITION * definitions) * (1 - STRUCTURE * structure)
    )


def _names(first: Sequence[Term], second: Sequence[Term]) -> Matrix:
    """The highest similarity of any label or local name of the first term and of the second.

    A name of two or more words that ends another is nearly the same. Words that may mean the same
    count for half; words with the same stem, but not the same, for a little less than the same
    word; so do properties that lead in opposite directions.
    """
    sides = [[list(dict.fromkeys(term.labels)) for term in side] for side in (first, second)]
    flat = [[name for names in side for name in names] for side in sides]
    starts = [np.cumsum([0, *(len(names) for names in side)])[:-1] for side in sides]
    cut = [[stems(name) for name in side] for side in flat]
    alike = _cosines(*cut)
    alike = np.maximum(
        alike,
        (1 - NEAR) * alike + NEAR * _cosines(*([meanings(name) for name in side] for side in cut)),
    )
    alike = np.maximum(
        alike, SPECIAL * np.maximum(_endings(cut[0], cut[1]), _endings(cut[1], cut[0]).T)
    )
    alike = (1 - WORDING) * alike + WORDING * _cosines(
        *([exact(name) for name in side] for side in flat)
    )
    back = [np.array([points_back(name) for name in side]) for side in flat]
    alike *= np.where(np.not_equal.outer(*back), OPPOSITE, 1.0)
    by_first = np.maximum.reduceat(alike, starts[0], axis=0)
    return np.asarray(np.clip(np.maximum.reduceat(by_first, starts[1], axis=1), 0, 1))


def _endings(longer: Sequence[tuple[str, ...]], shorter: Sequence[tuple[str, ...]]) -> Matrix:
    """[longer, shorter], 1 if a name of two or more words ends the other: `robot work cell` is a
    `work cell`.
    """
    places: dict[tuple[str, ...], list[int]] = {}
    for column, name in enumerate(shorter):
        places.setdefault(name, []).append(column)
    found = np.zeros((len(longer), len(shorter)))
    for row, name in enumerate(longer):
        for start in range(1, len(name) - 1):
            found[row, places.get(name[start:], [])] = 1.0
    return found


def _cosines(first: Sequence[tuple[str, ...]], second: Sequence[tuple[str, ...]]) -> Matrix:
    """The cosines of names as weighted vectors of words."""
    rare = _rarity(words for side in (first, second) for words in side)
    vectors = [
        _vectors([dict.fromkeys(name, 1.0) for name in side], rare) for side in (first, second)
    ]
    sizes = [np.maximum(np.linalg.norm(one, axis=1), 1e-12) for one in vectors]
    return np.asarray(vectors[0] @ vectors[1].T / np.outer(*sizes))


def _definitions(first: Sequence[Term], second: Sequence[Term]) -> Matrix:
    """The cosine of both descriptions, names included; 0 if one term has no description."""
    counts = [
        [
            Counter(stems(f"{term.comment} {term.labels[0]}")) if term.comment else Counter()
            for term in side
        ]
        for side in (first, second)
    ]
    rare = _rarity(tuple(words) for side in counts for words in side)
    vectors = [
        _vectors(
            [{word: 1 + np.log(count) for word, count in words.items()} for words in side], rare
        )
        for side in counts
    ]
    sizes = [np.maximum(np.linalg.norm(one, axis=1), 1e-12) for one in vectors]
    return np.asarray(np.clip(vectors[0] @ vectors[1].T / np.outer(*sizes), 0, 1))


def _rarity(texts: Iterable[Iterable[str]]) -> dict[str, tuple[int, float]]:
    """By stem: its place in vectors, and the logarithm of how few of the texts have it."""
    seen: Counter[str] = Counter()
    total = 0
    for words in texts:
        total += 1
        seen.update(set(words))
    return {
        word: (i, float(np.log(1 + total / count)))
        for i, (word, count) in enumerate(sorted(seen.items()))
    }


def _vectors(texts: Sequence[Mapping[str, float]], rare: Mapping[str, tuple[int, float]]) -> Matrix:
    """[texts, stems], weights times rarity; stems that occur nowhere are left out."""
    found = np.zeros((len(texts), len(rare)))
    for row, words in enumerate(texts):
        for word, weight in words.items():
            if word in rare:
                place, rarity = rare[word]
                found[row, place] = weight * rarity
    return found


def _best(joint: Matrix, first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> Matrix:
    """[A, B], the best likeness of any pair of their neighbours; 0 if one has none."""
    rows, found = np.zeros_like(joint), np.zeros_like(joint)
    for row, places in enumerate(first):
        if places:
            rows[row] = joint[places].max(axis=0)
    for column, places in enumerate(second):
        if places:
            found[:, column] = rows[:, places].max(axis=1)
    return found


def _neighbours(terms: Sequence[Term], side: str) -> list[list[int]]:
    places = {term.iri: i for i, term in enumerate(terms)}
    if side == "below":
        found: list[list[int]] = [[] for _ in terms]
        for i, term in enumerate(terms):
            for iri in term.above & set(places):
                found[places[iri]].append(i)
        return found
    return [sorted(places[iri] for iri in getattr(term, side) if iri in places) for term in terms]
