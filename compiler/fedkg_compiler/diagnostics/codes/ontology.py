"""Codes of ontologies, graph files and the names in them."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

ONTOLOGY: dict[str, Code] = {
    "FKG100": Code(
        "unknown ontology",
        """`use NAME` loads an ontology of the catalogue, else a file NAME.ttl, NAME.nt, NAME.rdf, NAME.owl, NAME.jsonld, NAME.ofn,
NAME.owx, NAME.xsd or NAME.xml beside the rule file. There is neither.

    use isa59

Mend the spelling, put the file there, or add it by name: `fedkg ontology add NAME FILE`. `fedkg ontology list` shows
the catalogue.""",
    ),
    "FKG101": Code(
        "a file cannot be read",
        """A graph or ontology file does not exist, may not be read, or could not be downloaded.

    fedkg check rules.fkg plnat.ttl

Check path and rights. Files are downloaded only where an address was given to `fedkg ontology add`.""",
    ),
    "FKG102": Code(
        "a file is not RDF",
        """The file is neither RDF nor another source of ontologies: a web page that was saved instead of the file, OWL in Manchester
syntax, a binary file, an empty one. The content decides, not the ending of the name.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # sosa.ttl
    <!DOCTYPE html><html><body>404</body></html>

Give Turtle, N-Triples, RDF/XML or JSON-LD in UTF-8, OWL in functional or XML syntax, an XML schema or an OPC UA node set.""",
    ),
    "FKG103": Code(
        "a mistake in an RDF file",
        """The file breaks the rules of its syntax at this place. The rest is read on, where the syntax allows it.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:M07 a plant:Mill ;
        plant:powerLow 3500
    plant:M08 a plant:Mill .

Here a `.` is missing after 3500. Where a file breaks off, it was not saved or downloaded to its end.""",
    ),
    "FKG104": Code(
        "a broken IRI",
        """What stands between < and >, or in rdf:about and rdf:resource, is no IRI: it has spaces, quotes, braces or
backslashes, or no scheme. The statement with it is left out; everything else is loaded.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:M07 plant:page <http://example.org/mill 07> .

Write `%20` for a space.""",
    ),
    "FKG105": Code(
        "an import is not followed",
        """The file imports an ontology by owl:imports that the catalogue does not know, or an XML schema includes one that is not in
its folder. Nothing is fetched that was not asked for, so it is left out. This is a note; rules that need its terms will say so.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix owl: <http://www.w3.org/2002/07/owl#> .
    <https://example.org/plant> a owl:Ontology ; owl:imports <https://example.org/other> .

Give its file as a further graph, or add it with `fedkg ontology add NAME FILE-OR-URL`.""",
    ),
    "FKG106": Code(
        "a file is not the one that was meant",
        """Three checksums (SHA-256) are held to files: the one given with --sha256, else the one in the catalogue of the official file,
when an ontology is added; and the one of the added file, whenever it is read again.

    fedkg ontology add mason mason.owl        where mason.owl was edited

If the file was cut off or edited, fetch it again. If it is a newer version and you want it, say so with its own checksum: the message
gives it, for --sha256. If an added file was changed since, add it again.""",
    ),
    "FKG107": Code(
        "dangerous XML entities",
        """The XML file declares an entity that grows beyond 65,536 characters, or that points outside the file. Such files
exhaust memory or read what they should not; they are not opened.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.rdf
    <?xml version="1.0"?>
    <!DOCTYPE rdf [ <!ENTITY passwords SYSTEM "file:///etc/passwd"> ]>
    <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"></rdf:RDF>

Write the text into the file.""",
    ),
    "FKG108": Code(
        "a prefix without an IRI",
        """`prefix` needs an absolute IRI in < and >: a scheme, a colon, and no spaces.

    prefix plant: <plant#>  # prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?m in class plant:Mill require torque <= 60 N.m

    prefix plant: <https://example.org/plant#>""",
    ),
    "FKG109": Code(
        "a prefix that differs from the graph's",
        """The prefix stands for another namespace elsewhere, or its IRI is one character short of a namespace that the graphs
use, so that none of its names will be found.

    prefix plant: <https://example.org/plant>  # the graph says <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:M07 a plant:Mill .

Leave out the line where `use` brings the prefix, or copy the IRI from the graph file.""",
    ),
    "FKG110": Code(
        "an unknown prefix",
        """A name begins with a prefix that neither the rule file declares nor any ontology in `use` brings. rdf:, rdfs:, owl:,
xsd:, skos:, sosa:, qudt:, unit: and fkg: are always there. Prefixes of graph files are not taken over; the help shows
them.

    signal torque in N.m
    rule r for ?m in class masn:MachineTool require torque <= 60 N.m

Add `use mason`, or `prefix NAME: <IRI>`.""",
    ),
    "FKG111": Code(
        "a term that its ontology lacks",
        """The namespace belongs to a loaded ontology, and that has no such class, property or individual.

    use isa95
    signal torque in N.m
    rule r for ?m in class isa95:EquipmentClas require torque <= 60 N.m  # isa95:EquipmentClass

`fedkg ontology show NAME` lists the terms. Where our module has only a part of an ontology, the official file may
have the term: `fedkg ontology add NAME FILE`.""",
    ),
    "FKG112": Code(
        "a term that nothing speaks of",
        """The graph has terms of this namespace, but not this one, so the pattern will find nothing through it. This is a
warning, because a graph of another site may have it.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?m, ?l where { ?m plant:powerlow ?l } require torque <= ?l  # the graph says plant:powerLow
    rule s require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:M07 plant:powerLow 3500 .
""",
    ),
    "FKG113": Code(
        "an unknown name",
        """A name without a prefix is looked up among the local names of all loaded ontologies and graphs, and none has it.

    use mason
    signal torque in N.m
    rule r for ?t in class CuttingTol require torque <= 60 N.m

Mend the spelling, or load the ontology that has it with `use`.""",
    ),
    "FKG114": Code(
        "a name that means several things",
        """A name without a prefix is the local name of several terms.

    use isa95
    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?s in class Site require torque <= 60 N.m  # isa95:Site, or plant:Site

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix owl: <http://www.w3.org/2002/07/owl#> .
    plant:Site a owl:Class .

Write it with its prefix.""",
    ),
    "FKG115": Code(
        "a graph uses a term that its ontology lacks",
        """A property or object in a graph file is in the namespace of a loaded ontology that has no such term; rules over the
right term will not find this statement. Terms that the graph itself describes are its own matter.

    use isa95
    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix isa95: <http://www.w3id.org/hsu-aut/DINEN62264-2#> .
    plant:M07 a isa95:Equipmnt .  # did you mean isa95:Equipment?
""",
    ),
    "FKG116": Code(
        "another ontology than the one named",
        """The file that was to stand in place of an ontology describes no term of its namespace, so it is something else.

    fedkg ontology add isa95 mason.owl

Check the file, or add it under another name.""",
    ),
    "FKG117": Code(
        "two names for the terms of Schema.org",
        """Schema.org's terms are written with `http://schema.org/` and with `https://schema.org/`. Where one compilation meets both,
they are taken as the same: what the graph says with one is found with the other.

    use schema
    signal torque in N.m
    rule strong require torque <= 60 N.m

    # offers.ttl
    @prefix schema: <http://schema.org/> .
    <https://example.org/offer> a schema:Offer ; schema:price 12.5 .

Write the graph with `https://schema.org/`, and there is one name for each.""",
    ),
    "FKG118": Code(
        "more follows from the graphs than memory holds",
        """Hierarchies and transitive properties are followed to their ends, and every pair becomes a triple: a chain of n steps has
n * (n + 1) / 2 of them. At most 5,000,000 triples are concluded. Beyond that none is, and the compilation ends here. The
property with too many pairs is named.

    # plant.ttl: a transitive property over 10,000 parts in a row, each of which has all that come after it
    plant:before a owl:TransitiveProperty .
    plant:P00001 plant:before plant:P00002 .
    plant:P00002 plant:before plant:P00003 .

Leave out the part of the graph that no rule needs, or do not declare the property transitive: a pattern with a path,
`?x plant:before+ ?y`, asks for what is needed alone.""",
    ),
    "FKG119": Code(
        "something is defined twice",
        """Two graph files give a class or property different labels in one language, an XML schema defines a type or element twice,
or a node set a node. Labels are both kept; of types, elements and nodes the first definition is taken.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix owl: <http://www.w3.org/2002/07/owl#> .
    @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
    plant:Mill a owl:Class ; rdfs:label "mill" .

    # plant2.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix owl: <http://www.w3.org/2002/07/owl#> .
    @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
    plant:Mill a owl:Class ; rdfs:label "milling machine" .

Often these are two versions of one ontology: leave one of them out.""",
    ),
    "FKG120": Code(
        "one name for two kinds of thing",
        """A name is declared as a class and as a property or datatype, or as a property of objects and of data. OWL 2 lets a class
or a property be an individual too, but not this. It is taken as the first of these; everything else loads.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix owl: <http://www.w3.org/2002/07/owl#> .
    plant:limit a owl:ObjectProperty , owl:DatatypeProperty .

Give the two things two names.""",
    ),
    "FKG121": Code(
        "a schema names what nothing defines",
        """An XML schema names a type, an element or a group that neither it nor the schemas that it includes define, or a type that XML
Schema does not have. Each name is told once, at its first place. The class or property that uses it is read all the same, and the name
stands for a class of which nothing more is known. Where a schema of the set is not there (`FKG105`), nothing is said: it may be in that.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # mill.xsd
    <schema xmlns="http://www.w3.org/2001/XMLSchema" xmlns:m="http://example.org/mill" targetNamespace="http://example.org/mill">
      <complexType name="MillType"><sequence><element name="Tool" type="m:ToolTyp"/></sequence></complexType>
      <complexType name="ToolType"/>
    </schema>

Mend the name, or add the schema that defines it to the folder.""",
    ),
    "FKG124": Code(
        "a proposed mapping that cannot be taken",
        """`fedkg ontology align A B -o FILE` writes mappings that somebody should look at. Loaded as a graph, the file asserts those
alone whose status was set to "accepted"; "proposed" and "rejected" ones are left out. Another status, or an accepted mapping without
one source, one predicate of SKOS, RDFS or OWL, and one target, is an error: it would be lost without a word.

    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix plant: <https://example.org/plant#> .
    @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
    [] a fkg:ProposedMapping ; fkg:mappingStatus "acepted" ; fkg:mappingSource plant:Mill ;
        fkg:mappingPredicate skos:closeMatch ; fkg:mappingTarget plant:Machine .

Write one of proposed, accepted, rejected.""",
    ),
}
"""Codes FKG100 to FKG139."""
