"""Writes proposals as RDF, in a separate vocabulary: a proposal becomes a mapping when a person
sets its status to "accepted".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.alignment.mapping_proposals import Proposal
from fedkg_compiler.graph.standard_vocabularies import FKG, SKOS, XSD

_HEAD = """\
# Proposed mappings from {first} to {second}. None of them is asserted: where you agree, \
write "accepted" for "proposed", and change the
# predicate if another fits better; where you do not, write "rejected". \
Then load this file as a graph of your rules.

"""


def turtle(
    proposals: Sequence[Proposal], names: tuple[str, str], prefixes: Mapping[str, str]
) -> str:
    """The proposals as Turtle, in their order. prefixes: to write their IRIs with."""
    iris = [iri for item in proposals for iri in (item.source, item.predicate, item.target)]
    all_prefixes = {**prefixes, "fkg": FKG, "skos": SKOS, "xsd": XSD}
    used = {
        prefix: space
        for prefix, space in all_prefixes.items()
        if prefix in ("fkg", "xsd") or any(iri.startswith(space) for iri in iris)
    }
    lines = [f"@prefix {prefix}: <{space}> .\n" for prefix, space in sorted(used.items())]
    blocks = [
        f"[] a fkg:ProposedMapping ;\n"
        '    fkg:mappingStatus "proposed" ;\n'
        f"    fkg:mappingSource {_short(item.source, used)} ;\n"
        f"    fkg:mappingPredicate {_short(item.predicate, used)} ;\n"
        f"    fkg:mappingTarget {_short(item.target, used)} ;\n"
        f'    fkg:mappingConfidence "{item.confidence}"^^xsd:decimal ;\n'
        f"    fkg:mappingReason {ox.Literal('; '.join(item.reasons), language='en')} .\n"
        for item in proposals
    ]
    return _HEAD.format(first=names[0], second=names[1]) + "".join(lines) + "\n" + "\n".join(blocks)


def _short(iri: str, prefixes: Mapping[str, str]) -> str:
    """The IRI with a prefix where its rest is letters, digits and underscores, and does not end in
    a mark.
    """
    for prefix, space in sorted(prefixes.items(), key=lambda item: (-len(item[1]), item[0])):
        rest = iri.removeprefix(space)
        if (
            rest != iri
            and rest.replace("_", "a").replace("-", "a").isalnum()
            and rest.isascii()
            and not rest.startswith("-")
        ):
            return f"{prefix}:{rest}"
    return str(ox.NamedNode(iri))
