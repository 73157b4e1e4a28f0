"""Maps the names of B2MML schemas to fedkg's modules of ISA-95 by rule.

B2MML writes the object models of ISA-95 (IEC 62264-2 and -4) as XML schemas; the modules use its
names. So the name of a type, element or value decides its mapping, and no list is kept. `RULES`
states the rules; a name that none of them fits gets `sssom:NoTermFound`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.ontologies import definitions
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.standard_vocabularies import FEDKG, SKOS

NAMESPACE = "http://www.mesa.org/xml/B2MML"
"""The beginning of the names of B2MML and BatchML, of all versions and extensions."""
MAPPING_SET = FEDKG + "alignments/b2mml-isa95"
ISA95 = "http://www.w3id.org/hsu-aut/DINEN62264-2#"
FILE = "b2mml-isa95.sssom.tsv"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VERBS = frozenset(
    [
        "acknowledge",
        "cancel",
        "change",
        "confirm",
        "get",
        "notify",
        "process",
        "respond",
        "show",
        "sync",
        "trans",
    ]
)
"""The verbs of the transactions of ISA-95 part 5, which begin the names of messages."""
_CONTAINERS = frozenset(["information", "list", "library", "manifest", "record", "log", "set"])
_SINGLE = frozenset(("equipment", "person"))
"""Objects with a name of one word that longer names contain in the same sense. `Unit` and `Area`
are not among them: `UnitOfMeasure` and `DataArea` mean something else.
"""


class Rule(NamedTuple):
    """What a rule states.

    Attributes:
        predicate: from the name in B2MML to the term of ISA-95. confidence: from 0 to 1.
        comment: the reason, an English sentence.
    """

    predicate: str
    confidence: float
    comment: str


RULES = {
    "object": Rule(
        "skos:exactMatch", 0.95, "The type has the name of this object and describes it."
    ),
    "operations": Rule(
        "skos:broadMatch", 0.85, "The type describes this object in operations (`Op`)."
    ),
    "message": Rule("skos:relatedMatch", 0.8, "The type is a message about this object."),
    "container": Rule("skos:relatedMatch", 0.7, "The type holds or lists this object."),
    "kind": Rule("skos:broadMatch", 0.6, "The name ends in the name of this more general object."),
    "part": Rule("skos:relatedMatch", 0.5, "The name begins with the name of this object."),
    "content": Rule("skos:relatedMatch", 0.5, "The type is the content of an element of this."),
    "value": Rule(
        "skos:closeMatch",
        0.7,
        "The value has the name of this individual; other lists have it, too.",
    ),
    "named": Rule("skos:relatedMatch", 0.7, "The value is the name of this class."),
    "listed": Rule("skos:relatedMatch", 0.5, "The value belongs to a list that describes this."),
    "element": Rule(
        "skos:closeMatch",
        0.8,
        "The element has the name of this property; other types have it, too.",
    ),
    "identifier": Rule("skos:closeMatch", 0.9, "The element identifies what it belongs to."),
    "reference": Rule("skos:relatedMatch", 0.6, "The element identifies an object of ISA-95."),
    "attribute": Rule("skos:broadMatch", 0.6, "The name ends in the name of this property."),
    "member": Rule("skos:relatedMatch", 0.6, "The element holds or refers to this object."),
}
"""The rules by name, in the order in which classes, values and properties try them."""
_UNMATCHED = Rule("skos:exactMatch", 0.5, "No term of the modules has a name like this one.")
Found = tuple[str, str]
"""The name of a rule, and the IRI of the term that it leads to."""


class _Terms(NamedTuple):
    """The terms of ISA-95 by their names in small letters without marks."""

    classes: dict[str, str]
    properties: dict[str, str]
    individuals: dict[str, str]


def is_b2mml(document: Document) -> bool:
    """Tell whether a document is a schema of B2MML: one file, or a folder of them."""
    return (not document.text or document.name.endswith(".xsd")) and any(
        space.startswith(NAMESPACE) for space in document.prefixes.values()
    )


def b2mml_mappings(
    schema: Document, isa95: Iterable[Document]
) -> dict[str, tuple[Rule, str] | None]:
    """Return for every name of a B2MML schema, an IRI, the rule that fits and the IRI of the term
    of ISA-95; None if no rule fits.

    Args:
        schema: the schema, read as an ontology. isa95: the documents of ISA-95.
    """
    terms = _terms(isa95)
    found: dict[str, tuple[Rule, str] | None] = {}
    for iri, entry in sorted(definitions(schema, "", individuals=True).items()):
        if iri.startswith(NAMESPACE) and "#" in iri:
            match = _match_name(iri.partition("#")[2], entry.kind, terms)
            found[iri] = None if match is None else (RULES[match[0]], match[1])
    return found


def b2mml_alignments(documents: Iterable[Document], isa95: Sequence[Document]) -> list[Document]:
    """Return the mappings of those documents that are B2MML schemas, one document for each.

    Args:
        documents: any documents. isa95: those of ISA-95.
    """
    return [_alignment(document, isa95) for document in documents if isa95 and is_b2mml(document)]


def _alignment(schema: Document, isa95: Sequence[Document]) -> Document:
    """The mappings as triples, without an axiom for each: their reasons are those of the rules."""
    mappings = b2mml_mappings(schema, isa95)
    triples = tuple(
        ox.Quad(
            ox.NamedNode(iri),
            ox.NamedNode(SKOS + match[0].predicate.removeprefix("skos:")),
            ox.NamedNode(match[1]),
        )
        for iri, match in mappings.items()
        if match is not None
    )
    text = b2mml_sssom(mappings)
    return Document(
        name=FILE,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        triples=triples,
        prefixes={},
        imports=(),
        text=text,
        plain=True,
    )


def b2mml_sssom(mappings: Mapping[str, tuple[Rule, str] | None]) -> str:
    """Return the result of `b2mml_mappings` as SSSOM/TSV; names that no rule fits have
    `sssom:NoTermFound`.
    """
    spaces = sorted({iri[: iri.index("#") + 1] for iri in mappings})
    prefixes = {f"b2mml{i or ''}": space for i, space in enumerate(spaces)}
    prefixes |= {"isa95": ISA95, "fkg-isa95": FEDKG + "isa95#"}
    rows = []
    for iri, match in mappings.items():
        rule, target = (_UNMATCHED, "") if match is None else match
        rows.append(
            (
                _curie(iri, prefixes),
                rule.predicate,
                _curie(target, prefixes) if target else "sssom:NoTermFound",
                "semapv:LexicalMatching",
                str(rule.confidence),
                rule.comment,
            )
        )
    lines = [
        "#curie_map:",
        *(f"#  {prefix}: {space}" for prefix, space in sorted(prefixes.items())),
        f"#mapping_set_id: {MAPPING_SET}",
        "#mapping_set_title: B2MML to ISA-95",
        "#mapping_set_description: Names of B2MML, mapped to fedkg's modules of ISA-95 by rule.",
        "#creator_label:",
        "#  - The fedkg contributors",
        "#license: https://www.apache.org/licenses/LICENSE-2.0",
        "#mapping_tool: fedkg",
        "subject_id\tpredicate_id\tobject_id\tmapping_justification\tconfidence\tcomment",
        *("\t".join(row) for row in sorted(rows)),
    ]
    return "\n".join(lines) + "\n"


def _curie(iri: str, prefixes: Mapping[str, str]) -> str:
    return next(
        f"{prefix}:{iri[len(space) :]}"
        for prefix, space in prefixes.items()
        if iri.startswith(space)
    )


def _terms(isa95: Iterable[Document]) -> _Terms:
    found = _Terms({}, {}, {})
    by_kind = {
        "class": found.classes,
        "property": found.properties,
        "individual": found.individuals,
    }
    for document in isa95:
        for iri, entry in definitions(document, "", individuals=True).items():
            if "#" in iri:
                by_kind[entry.kind].setdefault(_flat(iri.partition("#")[2]), iri)
    return found


def _flat(name: str) -> str:
    return name.replace("_", "").lower()


def _match_name(name: str, kind: str, terms: _Terms) -> Found | None:
    """The first rule that fits a name of the schema, with the term that it leads to."""
    match kind:
        case "class":
            return _of_type(name, terms)
        case "property":
            return _of_element(name.removeprefix("has"), terms)
        case _:
            owner, _, value = name.partition(".")
            return _of_value(owner, value, terms)


def _of_type(name: str, terms: _Terms) -> Found | None:
    """A complex type `NameType`, a list of values `Name1Type`, or the content `T.element` of an
    element of `T`.
    """
    if "." in name:
        outer = _of_type(name.split(".", 1)[0], terms)
        return None if outer is None else ("content", outer[1])
    words = [word.lower() for word in _WORDS.findall(re.sub("1?Type$", "", name))]
    if found := terms.classes.get("".join(words)):
        return ("part" if name.endswith("1Type") else "object"), found
    if not words:
        return None
    if words[0] == "op" and (found := terms.classes.get("".join(words[1:]))):
        return "operations", found
    rule = "message" if words[0] in _VERBS else "container"
    inner = words[1:] if words[0] in _VERBS else words
    alone = inner[:-1] if inner and inner[-1] in _CONTAINERS else inner
    for shorter in (inner, alone, [*alone[:-1], *(word.removesuffix("s") for word in alone[-1:])]):
        if shorter != words and (found := terms.classes.get("".join(shorter))):
            return rule, found
    longest = range(1, len(words))
    for rule, pieces in (
        ("kind", (words[i:] for i in longest if words[i - 1] != "by")),
        ("part", (words[:-i] for i in longest)),
    ):
        for piece in pieces:
            if (len(piece) > 1 or piece[0] in _SINGLE) and (
                found := terms.classes.get("".join(piece))
            ):
                return rule, found
    return None


def _of_value(owner: str, value: str, terms: _Terms) -> Found | None:
    """The value `Type.value` of a list."""
    flat = _flat(value).replace("%20", "")
    if found := terms.individuals.get(flat):
        return "value", found
    found = terms.classes.get(flat)
    if found is not None and (owner.startswith("EquipmentLevel") or not found.startswith(ISA95)):
        return "named", found
    outer = _of_type(owner, terms)
    return None if outer is None else ("listed", outer[1])


def _of_element(name: str, terms: _Terms) -> Found | None:
    """An element or attribute, whose property is `hasName`."""
    flat = _flat(name)
    for known in (flat, f"has{flat}"):
        if found := terms.properties.get(known):
            return "element", found
    words = [word.lower() for word in _WORDS.findall(name)]
    if words and words[-1] == "id" and (flat == "id" or _of_type(name[:-2], terms)):
        return ("identifier" if flat == "id" else "reference"), terms.properties["identifier"]
    if found := terms.classes.get(flat):
        return "member", found
    for i in range(1, len(words)):
        if found := terms.properties.get("".join(words[i:])):
            return "attribute", found
    owner = _of_type(name, terms)
    return None if owner is None else ("member", owner[1])
