"""Codes of SHACL shapes, FKG310 to FKG339."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

SHAPES: dict[str, Code] = {
    "FKG310": Code(
        "the graph violates a shape",
        """What the graph itself says was checked when the rules were compiled, and some nodes do not conform.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path plant:serial ; sh:minCount 1 ] .  # P1 has no serial number

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .

Complete the graph, or mend the shape. With `sh:severity sh:Warning` it is a warning, and a pack is made all the same.""",
    ),
    "FKG311": Code(
        "a shape that cannot be read",
        """Its `sh:path` is no path of SHACL: a property, a list of paths, or one of sh:inversePath, sh:alternativePath,
sh:zeroOrMorePath, sh:oneOrMorePath and sh:zeroOrOnePath.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path [ sh:inverse plant:feeds ] ; sh:minCount 1 ] .  # sh:inversePath

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .
""",
    ),
    "FKG312": Code(
        "a part of a shape that is not checked",
        """It can be decided neither on the graph nor on the rows of a table. The sentence says why.

    prefix plant: <https://example.org/plant#>
    signal pressure is plant:pressure in bar
    rows are plant:Pump
    rule low require pressure <= 8 bar
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path plant:pressure ; sh:pattern "^[0-9]" ] .  # how a value is written is not known of a table's values

State it otherwise, or check it where the data is RDF. What a column of texts may hold is told by
`fkg:category` on its property. The other components of the shape are checked.""",
    ),
    "FKG313": Code(
        "a shape without focus nodes",
        """The shape speaks of a property that stands in the table, but no entity of the graph is a focus node of it, and nothing
says that the table's rows are.

    prefix plant: <https://example.org/plant#>
    signal pressure is plant:pressure in bar
    rule low require pressure <= 8 bar
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ; sh:property [ sh:path plant:pressure ; sh:maxInclusive 8 ] .

Where each row of the table is a member of the class, say `rows are plant:Pump`. Where the rows are about entities, give
the graph those entities.""",
    ),
    "FKG314": Code(
        "a target that finds nothing out",
        """The shape's `sh:target` is no query that can be asked, or of a kind that is not known.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:target [ a sh:SPARQLTarget ; sh:select "SELECT ?pump WHERE { ?pump ?p ?o }" ] ;
        sh:property [ sh:path plant:serial ; sh:minCount 1 ] .  # SELECT ?this

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .

The query selects `?this`, and can be split where it reads the table; prefixes come from `sh:prefixes`.""",
    ),
    "FKG315": Code(
        "a file without shapes",
        """The file after `shapes` says nothing in the vocabulary of SHACL.

    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "plant.ttl"  # is it the graph? then give it to the command beside the rules

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .

A shape is a sh:NodeShape or a sh:PropertyShape.""",
    ),
    "FKG316": Code(
        "shapes that cannot be decided",
        """The shapes break a rule of SHACL itself, so that nothing can be checked with them; the sentence is pySHACL's.
The query of a SPARQL constraint that is no SPARQL, or has a prefix that nothing declares, is told here too.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:sparql [ sh:select "SELEC $this WHERE { $this plant:serial ?serial }" ] .  # SELECT

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .
""",
    ),
    "FKG317": Code(
        "a file of shapes that is not there",
        """The path after `shapes` is read from the folder of the rule file; it may be a pattern.

    shapes "shapes/*.ttl"
""",
    ),
    "FKG320": Code(
        "a data file that cannot be read",
        """The data after the shapes is no RDF, or broken at this place.

    fedkg eval shapes.ttl data.nt""",
    ),
    "FKG321": Code(
        "a class without members",
        """Shapes target a class, and the data file has no member of it. Nothing is checked for it.

    sh:targetClass plant:Pump        is it plant:PumpUnit in the data?""",
    ),
    "FKG322": Code(
        "a property that does not fit into columns",
        """A subject of the data file has more than eight values of it, or several values of different kinds. A table has one column
for each value. What reads the property is not checked.""",
    ),
    "FKG323": Code(
        "a target that a data file is not searched for",
        """Rows of a data file are the members of the classes that shapes target. Focus nodes that are named one by one, found by a
property or by a query are looked for in graphs alone.

    fedkg check shapes.ttl data.ttl        takes the data as a graph""",
    ),
}
"""Codes FKG310 to FKG339."""
