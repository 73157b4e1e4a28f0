"""The words of `fkg-learned.ttl` and PROV-O (W3C 2013) by which findings are written and read."""

from __future__ import annotations

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.standard_vocabularies import FKG, QUDT, RDF, RDFS, XSD
from fedkg_compiler.input_files import data_folder

PROV = "http://www.w3.org/ns/prov#"

TYPE, LABEL = ox.NamedNode(RDF + "type"), ox.NamedNode(RDFS + "label")
NUMERIC_VALUE, UNIT = ox.NamedNode(QUDT + "numericValue"), ox.NamedNode(QUDT + "hasUnit")
INTEGER, DOUBLE, DATE, DATE_TIME = (
    ox.NamedNode(XSD + name) for name in ("integer", "double", "date", "dateTime")
)
ENTITY, SOFTWARE = ox.NamedNode(PROV + "Entity"), ox.NamedNode(PROV + "SoftwareAgent")
GENERATED_BY, USED = ox.NamedNode(PROV + "wasGeneratedBy"), ox.NamedNode(PROV + "used")
ASSOCIATED, STARTED = ox.NamedNode(PROV + "wasAssociatedWith"), ox.NamedNode(PROV + "startedAtTime")


def fkg(name: str) -> ox.NamedNode:
    """A term of fedkg's own vocabulary."""
    return ox.NamedNode(FKG + name)


def units() -> dict[str, ox.NamedNode]:
    """The unit that a text of a rule file means, by the text, where our vocabulary has it.

    The first by its IRI of several.
    """
    body = (data_folder("ontologies") / "fkg.ttl").read_bytes()
    found = {
        (quad.object.value, quad.subject)
        for quad in ox.parse(body, format=ox.RdfFormat.TURTLE)
        if quad.predicate == fkg("unitText")
        and isinstance(quad.subject, ox.NamedNode)
        and isinstance(quad.object, ox.Literal)
    }
    return dict(sorted(found, key=lambda pair: (pair[0], pair[1].value), reverse=True))
