"""The vocabularies that everyone writes without loading them: their prefixes and the terms they
have.
"""

from __future__ import annotations

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
DCTERMS = "http://purl.org/dc/terms/"
PAV = "http://purl.org/pav/"
SSSOM = "https://w3id.org/sssom/"
SEMAPV = "https://w3id.org/semapv/vocab/"
FEDKG = "https://w3id.org/fedkg/"
"""The start of the IRIs of fedkg's own ontologies and terms."""
FKG = FEDKG + "ns#"
SOSA = "http://www.w3.org/ns/sosa/"
QUDT = "http://qudt.org/schema/qudt/"
UNIT = "http://qudt.org/vocab/unit/"
ISA95 = "http://www.w3id.org/hsu-aut/DINEN62264-2#"
FKG_ISA95 = FEDKG + "isa95#"
BRICK = "https://brickschema.org/schema/Brick#"
BRICK_REF = "https://brickschema.org/schema/Brick/ref#"
SWRL = "http://www.w3.org/2003/11/swrl#"
SWRLB = "http://www.w3.org/2003/11/swrlb#"

STANDARD_PREFIXES = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD, "skos": SKOS}
"""Known in every rule file, without `use` or `prefix`."""

_TERMS = {
    RDF: (
        "type Property List first rest nil value langString HTML XMLLiteral JSON Statement subject"
        " predicate object Bag Seq Alt"
    ),
    RDFS: (
        "Resource Class Literal Datatype Container label comment subClassOf subPropertyOf domain"
        " range seeAlso isDefinedBy member"
    ),
    OWL: (
        "Class Thing Nothing Ontology Restriction ObjectProperty DatatypeProperty "
        "AnnotationProperty OntologyProperty "
        "NamedIndividual Axiom Annotation AllDifferent AllDisjointClasses "
        "AllDisjointProperties FunctionalProperty "
        "InverseFunctionalProperty TransitiveProperty SymmetricProperty AsymmetricProperty "
        "ReflexiveProperty "
        "IrreflexiveProperty DataRange DeprecatedClass DeprecatedProperty allValuesFrom "
        "someValuesFrom hasValue hasSelf "
        "onProperty onProperties onClass onDataRange cardinality minCardinality "
        "maxCardinality qualifiedCardinality "
        "minQualifiedCardinality maxQualifiedCardinality equivalentClass "
        "equivalentProperty disjointWith disjointUnionOf "
        "propertyDisjointWith propertyChainAxiom inverseOf intersectionOf unionOf "
        "complementOf oneOf members distinctMembers "
        "sameAs differentFrom imports versionInfo versionIRI priorVersion "
        "backwardCompatibleWith incompatibleWith deprecated "
        "hasKey annotatedSource annotatedProperty annotatedTarget topObjectProperty "
        "bottomObjectProperty topDataProperty "
        "bottomDataProperty onDatatype withRestrictions datatypeComplementOf "
        "sourceIndividual assertionProperty "
        "targetIndividual targetValue NegativePropertyAssertion"
    ),
    XSD: (
        "string boolean decimal integer double float date time dateTime dateTimeStamp "
        "gYear gMonth gDay gYearMonth gMonthDay "
        "duration yearMonthDuration dayTimeDuration byte short int long unsignedByte "
        "unsignedShort unsignedInt unsignedLong "
        "positiveInteger nonNegativeInteger negativeInteger nonPositiveInteger hexBinary "
        "base64Binary anyURI language "
        "normalizedString token NMTOKEN Name NCName QName anySimpleType anyAtomicType"
    ),
    SKOS: (
        "Concept ConceptScheme Collection OrderedCollection inScheme hasTopConcept "
        "topConceptOf prefLabel altLabel hiddenLabel "
        "notation note changeNote definition editorialNote example historyNote scopeNote "
        "semanticRelation broader narrower "
        "related broaderTransitive narrowerTransitive mappingRelation closeMatch "
        "exactMatch broadMatch narrowMatch relatedMatch "
        "member memberList"
    ),
}

_WHOLE = (
    "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger "
    "negativeInteger unsignedInt unsignedLong unsignedShort unsignedByte"
)
WHOLE_NUMBERS = frozenset(XSD + name for name in _WHOLE.split())
NUMBERS = WHOLE_NUMBERS | {XSD + name for name in ("decimal", "double", "float")}
"""Datatypes of numbers."""

STANDARD_TERMS: dict[str, frozenset[str]] = {
    space: frozenset(names.split()) for space, names in _TERMS.items()
}
"""Namespace to the local names that it has."""
