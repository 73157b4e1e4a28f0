"""Cuts names and sentences into stems, so that `MachineTool`, `machine_tools` and `tools of
machines` share theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OWNED = re.compile(r"(?<=[A-Za-z])['\u2019]s\b")
_STOP = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be by for from has have in into is it its leads no not of on one or
        out over such than that the their them there they this to under what when where which while
        who whole with within without gives some same other more most mostly thing things each any
        all kind two up""",
    )
)
_LONG = {
    "am": "additive manufacturing",
    "amount": "quantity",
    "attr": "attribute",
    "bc": "boundary condition",
    "bom": "bill of material",
    "cap": "capability",
    "def": "definition",
    "desc": "description",
    "dim": "dimension",
    "dur": "duration",
    "eq": "equipment",
    "equip": "equipment",
    "id": "identifier",
    "ident": "identifier",
    "info": "information",
    "loc": "location",
    "mach": "machine",
    "mat": "material",
    "matl": "material",
    "max": "maximum",
    "meas": "measurement",
    "mfg": "manufacturing",
    "min": "minimum",
    "mpn": "manufacturer part number",
    "num": "number",
    "op": "operation",
    "ops": "operations",
    "org": "organization",
    "param": "parameter",
    "pbf": "powder bed fusion",
    "pers": "personnel",
    "prod": "product",
    "prop": "property",
    "qty": "quantity",
    "req": "requirement",
    "res": "resource",
    "sched": "schedule",
    "seg": "segment",
    "spec": "specification",
    "temp": "temperature",
    "uom": "unit of measure",
    "vol": "volume",
}
"""Abbreviations in names, written out."""
_NEAR = (
    "person people human personnel worker operator staff employee agent",
    "machine equipment device tool instrument asset apparatus",
    "operation process step segment action activity task",
    "part piece component workpiece",
    "site plant location place area zone building",
    "quantity amount",
    "identifier code key name number designation",
    "measurement observation test inspection control",
    "product article good item",
    "plan schedule procedure specification instruction definition",
    "property characteristic quality attribute parameter feature",
    "artifact object",
    "organization enterprise company business",
    "lot batch sample specimen",
    "contain include consist compose",
    "material matter substance",
)
"""Words that two ontologies of manufacturing may use for the same thing; they count for less than a
common word."""
_ENDINGS = (
    *(
        "ization",
        "isation",
        "ational",
        "ations",
        "ation",
        "ities",
        "ity",
        "ments",
        "ment",
        "ings",
        "ing",
        "ions",
        "ion",
        "ness",
    ),
    *(
        "ers",
        "er",
        "ors",
        "or",
        "ies",
        "ied",
        "ive",
        "ized",
        "ised",
        "ed",
        "es",
        "al",
        "ly",
        "s",
        "e",
        "y",
    ),
)
_SHORTEST = 4
"""Letters that remain at least after an ending is cut off."""


def stem(word: str) -> str:
    """The word in small letters without its ending, as far as four letters remain: `operations` and
    `operate` are `oper`.
    """
    word = (
        word.lower()
        .replace("isation", "ization")
        .replace("labour", "labor")
        .replace("centre", "center")
    )
    cut = True
    while cut:
        cut = False
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
                word, cut = word[: -len(ending)], True
                break
    return word


def stems(text: str) -> tuple[str, ...]:
    """The stems of a name or sentence in its order: cut at capitals, digits and marks,
    abbreviations written out, small words left out.
    """
    pieces = [piece.lower() for piece in _PIECES.findall(_OWNED.sub("", text))]
    words = [word for piece in pieces for word in _LONG.get(piece, piece).split()]
    kept = [word for word in words if word not in _STOP]
    return tuple(stem(word) for word in kept or words)


def _groups() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _NEAR:
        words = [stem(word) for word in line.split()]
        for word in words:
            found.setdefault(word, words[0])
    return found


MEANING = _groups()
"""By stem, the stem that represents all its synonyms."""


def meanings(words: Iterable[str]) -> tuple[str, ...]:
    """The stems, each word that may mean the same as another under one of them."""
    return tuple(dict.fromkeys(MEANING.get(word, word) for word in words))


def exact(text: str) -> tuple[str, ...]:
    """The unchanged words of a name in lower case.

    They distinguish `building` from `build`, which share a stem.
    """
    return tuple(piece.lower() for piece in _PIECES.findall(text) if piece.lower() not in _STOP)


def points_back(name: str) -> bool:
    """Whether a property leads from the part to the whole, the deed to the doer: `isPartOf`,
    `executedBy`, `denoted by`.
    """
    pieces = [piece.lower() for piece in _PIECES.findall(name)]
    return len(pieces) > 1 and pieces[-1] in ("of", "by") and pieces[0] != "has"
